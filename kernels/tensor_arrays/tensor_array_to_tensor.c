/* tensor_array_to_tensor.c - the elements of an array, joined along an axis.
 *
 * The gradient adds to each element of the array's gradient its part of Out@GRAD (tensor_array.h). */
#include <inttypes.h>

#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/transpose.h"
#include "kernels/tensor_arrays/tensor_array.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, DOUT };
enum { OUT, OUT_INDEX };

typedef struct join_attrs {
    int32_t axis;
} join_attrs;

static const tr_op_proto proto = {
    .doc = "Joins the elements of X along `axis`.",
    .in = TR_SLOTS({"X", "a tensor array whose elements differ at most along the axis", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "along the axis as long as all elements together"},
                    {"OutIndex", "[elements] int32; how long each is along the axis", TR_SLOT_OPTIONAL}),
    TR_ATTRS_OF(join_attrs, TR_ATTR(join_attrs, axis, INT, "where to join; negative counts from the end")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    tr_shape shape = io->in[X].shape;
    int      axis;

    TR_TRY(tr__check_array(io, "X", &io->in[X]));
    if (shape.rank > 0) {
        TR_TRY(tr__check_axis(&axis, io, "axis", ((const join_attrs *)io->attrs)->axis, shape.rank));
        shape.dim[axis] = -1;
    }
    io->out[OUT] = tr_meta_dense(io->in[X].dtype, shape);
    io->out[OUT_INDEX] = tr_meta_dense(TR_INT32, TR_SHAPE(-1));
    return TR_OK;
}

/* The shape of all elements together. */
static tr_status join_shapes(tr_shape *out, const tr_run *io, int axis)
{
    const int64_t count = tr_var_array_count(tr_var_of(io->in[X]));
    tr_tensor    *first, *item;

    if (count == 0)
        return tr_fail(TR_ESHAPE, "array '%s' has no elements to join", tr_run_in_name(io, X, 0));
    TR_TRY(tr__array_get(&first, io, X, 0));
    if (axis < -first->shape.rank || axis >= first->shape.rank)
        return tr_fail(TR_ERANGE, "axis is %d, but elements of '%s' are %s", axis, tr_run_in_name(io, X, 0),
                       TR_SHAPE_STR(first->shape));
    axis += axis < 0 ? first->shape.rank : 0;
    *out = first->shape;
    for (int64_t i = 1; i < count; i++) {
        TR_TRY(tr__array_get(&item, io, X, i));
        tr_shape alike = item->shape;
        if (alike.rank == first->shape.rank)
            alike.dim[axis] = first->shape.dim[axis];
        if (item->dtype != first->dtype || !tr_shape_equal(&alike, &first->shape))
            return tr_fail(TR_ESHAPE, "element %" PRId64 " of '%s' is %s and element 0 %s; they may differ along dimension "
                           "%d alone", i, tr_run_in_name(io, X, 0), TR_SHAPE_STR(item->shape),
                           TR_SHAPE_STR(first->shape), axis);
        out->dim[axis] += item->shape.dim[axis];
    }
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
static tr_status run(const tr_run *io)
{
    const int     axis = ((const join_attrs *)io->attrs)->axis;
    const tr_var *array = tr_var_of(io->in[X]);
    tr_tensor    *out = io->out[OUT];
    tr_shape      shape;
    int64_t       offset = 0;

    TR_TRY(join_shapes(&shape, io, axis));
    TR_TRY(tr_run_resize(io, OUT, 0, array->item[0]->dtype, &shape));
    TR_TRY(tr_run_resize(io, OUT_INDEX, 0, TR_INT32, &TR_SHAPE(array->item_count)));
    const tr_cut  whole = tr__cut_at(&shape, axis);
    const int64_t post = whole.post * tr_dtype_size(out->dtype);
    for (int64_t i = 0; i < array->item_count; i++) {
        const int64_t n = tr__cut_at(&array->item[i]->shape, axis).n;
        tr_copy_blocks((char *)out->data + offset, whole.n * post, array->item[i]->data, n * post, whole.pre, n * post);
        ((int32_t *)io->out[OUT_INDEX]->data)[i] = (int32_t)n;
        offset += n * post;
    }
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    const int        axis = ((const join_attrs *)io->attrs)->axis;
    const tr_var    *array = tr_var_of(io->in[X]);
    const tr_tensor *dout = io->in[DOUT];
    const tr_cut     whole = tr__cut_at(&dout->shape, axis);
    const int64_t    post = whole.post * tr_dtype_size(dout->dtype);
    int64_t          offset = 0;
    void            *part;

    for (int64_t i = 0; i < array->item_count; i++) {
        const int64_t bytes = tr__cut_at(&array->item[i]->shape, axis).n * post;
        tr_tensor    *item;
        TR_TRY(tr__var_array_at(&item, tr_var_of(io->out[0]), i));
        if (item->dtype == TR_DTYPE_NONE)
            TR_TRY(tr__zeros_like(item, array->item[i]));
        TR_TRY(tr_run_scratch(&part, io, (size_t)tr_tensor_bytes(item)));
        tr_copy_blocks(part, bytes, (const char *)dout->data + offset, whole.n * post, whole.pre, bytes);
        TR_TRY(tr__add_values(item->dtype, item->data, part, tr_tensor_count(item)));
        offset += bytes;
    }
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "tensor_array_to_tensor_grad", .reads = {TR_IN(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
};

TR_REGISTER_OP(tensor_array_to_tensor, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(tensor_array_to_tensor_grad, .grad_of = &tr_op_record_tensor_array_to_tensor, .run = run_grad);
