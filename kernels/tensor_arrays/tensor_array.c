/* tensor_array.c - see tensor_array.h. */
#include "kernels/tensor_arrays/tensor_array.h"

#include "framework/tensors/half.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/math/arrays/elementwise.h"

/* -- shapes ----------------------------------------------------------------------------------- */

tr_status tr__check_array(const tr_infer *io, const char *slot, const tr_meta *meta)
{
    if (meta->kind != TR_KIND_ARRAY)
        return tr_fail(TR_EINVAL, "%s: %s must be a tensor array, got %s", io->type, slot,
                       meta->kind == TR_KIND_TENSOR ? "a tensor" : "another kind of variable");
    return TR_OK;
}

/* The dimensions that hold for elements of both shapes. */
static tr_shape common_shape(const tr_shape *known, const tr_shape *element)
{
    tr_shape shape = *element;

    for (int d = 0; known->rank == shape.rank && d < shape.rank; d++)
        if (known->dim[d] != shape.dim[d])
            shape.dim[d] = -1;
    return shape;
}

tr_status tr__array_meta(tr_meta *meta, const tr_infer *io, const char *slot, const tr_meta *element)
{
    if (meta->kind != TR_KIND_ARRAY && meta->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EINVAL, "%s: %s must be a tensor array, got a tensor", io->type, slot);
    if (meta->dtype != TR_DTYPE_NONE && element->dtype != TR_DTYPE_NONE && meta->dtype != element->dtype)
        return tr_fail(TR_EDTYPE, "%s: %s is an array of %s, so X must be, too; got %s", io->type, slot,
                       tr_dtype_name(meta->dtype), tr_dtype_name(element->dtype));
    meta->kind = TR_KIND_ARRAY;
    meta->dtype = element->dtype;
    meta->shape = common_shape(&meta->shape, &element->shape);
    meta->lod_level = element->lod_level;
    return TR_OK;
}

/* -- elements --------------------------------------------------------------------------------- */

tr_status tr__read_index(int64_t *out, const tr_run *io, int slot)
{
    const tr_tensor *index = io->in[slot];
    const char      *name = tr_run_in_name(io, slot, 0);

    if ((index->dtype != TR_INT64 && index->dtype != TR_INT32) || tr_tensor_count(index) != 1)
        return tr_fail(TR_ESHAPE, "the index '%s' must be one int64 or int32, got %s %s", name,
                       tr_dtype_name(index->dtype), TR_SHAPE_STR(index->shape));
    *out = index->dtype == TR_INT64 ? *(const int64_t *)index->data : *(const int32_t *)index->data;
    if (*out < 0 || *out > INT32_MAX)
        return tr_fail(TR_ERANGE, "the index '%s' must be in [0, 2^31), got %" PRId64, name, *out);
    return TR_OK;
}

tr_tensor *tr__array_find(tr_tensor *array, int64_t index)
{
    tr_tensor *item = tr_var_array_item(tr_var_of(array), index);

    return item && item->dtype != TR_DTYPE_NONE ? item : NULL;
}

tr_status tr__array_get(tr_tensor **out, const tr_run *io, int slot, int64_t index)
{
    const int64_t count = tr_var_array_count(tr_var_of(io->in[slot]));

    if (index >= count)
        return tr_fail(TR_ERANGE, "array '%s' has %" PRId64 " elements, there is no element %" PRId64,
                       tr_run_in_name(io, slot, 0), count, index);
    *out = tr__array_find(io->in[slot], index);
    if (!*out)
        return tr_fail(TR_ENOTFOUND, "element %" PRId64 " of array '%s' was never written", index,
                       tr_run_in_name(io, slot, 0));
    return TR_OK;
}

/* -- values ----------------------------------------------------------------------------------- */

tr_status tr__zeros_like(tr_tensor *out, const tr_tensor *like)
{
    TR_TRY(tr__tensor_reserve(out, like->dtype, &like->shape));
    TR_TRY(tr__tensor_copy_lod(out, like));
    memset(out->data, 0, (size_t)tr_tensor_bytes(out));
    return TR_OK;
}

enum { HALVES = 1024 };                                   /* numbers that are added at a time */

static void add_halves(uint16_t *to, const uint16_t *from, tr_dtype half, int64_t count)
{
    float a[HALVES], b[HALVES];

    for (int64_t at = 0; at < count; at += HALVES) {
        const int64_t size = count - at < HALVES ? count - at : HALVES;
        tr__floats_of_half(a, to + at, half, size);
        tr__floats_of_half(b, from + at, half, size);
        tr_axpy_f32(a, 1.0f, b, size);
        tr__half_of_floats(to + at, a, half, size);
    }
}

tr_status tr__add_values(tr_dtype dtype, void *to, const void *from, int64_t count)
{
    if (dtype == TR_FP32)
        tr_axpy_f32(to, 1.0f, from, count);
    else if (dtype == TR_FP64)
        tr_axpy_f64(to, 1.0, from, count);
    else if (tr_dtype_is_half(dtype))
        add_halves(to, from, dtype, count);
    else
        return tr_fail(TR_EDTYPE, "gradients are floating-point numbers, got %s", tr_dtype_name(dtype));
    return TR_OK;
}

/* -- gradients -------------------------------------------------------------------------------- */

tr_status tr__make_taking_grad(tr_grad_maker *maker, const char *grad_type)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const char       *x = tr_op_desc_input(op, "X", 0);
    const char       *dout = tr_grad_of_output(maker, tr_op_desc_output(op, "Out", 0));

    if (!dout)
        return TR_OK;
    tr_op_desc *grad = tr_op_desc_new(grad_type);
    for (int s = 0; s < tr_op_desc_input_slots(op); s++) {
        const char *slot = tr_op_desc_input_slot(op, s);
        const char *saved = tr_grad_saved(maker, tr_op_desc_input(op, slot, 0), false);
        tr_op_desc_set_input(grad, slot, 1, &saved);
    }
    tr_op_desc_set_input(grad, "Out@GRAD", 1, &dout);
    const char *dx = tr_grad_for_input(maker, x);
    if (dx)
        tr_op_desc_set_output(grad, "X@GRAD", 1, &dx);
    tr_op_desc_set_output(grad, "Array", 1, &dout);
    return tr_grad_append(maker, grad);
}
