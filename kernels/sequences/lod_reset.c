/* lod_reset.c - lod_reset and sequence_reshape: the same numbers, cut into other sequences or other rows.
 *
 * Both only copy, and Out may lie in X's memory. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/shapes/view.h"
#include "kernels/math/tools/cast.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct reset_attrs {
    tr_ints target_lod;
} reset_attrs;

static const tr_op_proto reset_proto = {
    .doc = "Out is X with other sequences: those of Y, those whose offsets Y holds, or those of target_lod.",
    .in = TR_SLOTS({"X", "[rows, ...] of any type"},
                   {"Y", "a tensor with sequences, or int32 or int64 offsets, from 0 to X's rows", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "like X, but for its sequences; may share X's memory"}),
    TR_ATTRS_OF(reset_attrs, TR_ATTR(reset_attrs, target_lod, INTS, "offsets, from 0 to X's rows; where there is no Y")),
};

typedef struct reshape_attrs {
    int32_t new_dim;
} reshape_attrs;

static const tr_op_proto reshape_proto = {
    .doc = "Writes the numbers of each sequence in rows of new_dim.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, width]", " of any type, of sequences")),
    .out = TR_SLOTS({"Out", "[rows * width / new_dim, new_dim], with as many sequences; may share X's memory"}),
    TR_ATTRS_OF(reshape_attrs, TR_ATTR(reshape_attrs, new_dim, INT, "width of Out", .required = true, .range = TR_GREATER(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_reset(const tr_infer *io)
{
    const reset_attrs *a = io->attrs;
    const tr_meta     *y = &io->in[Y];

    if (y->kind == TR_KIND_NONE && a->target_lod.count == 0 && !io->for_gradient)
        return tr_fail(TR_EINVAL, "%s: either Y or target_lod must be given", io->type);
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, io->in[X].shape, y->lod_level > 0 ? y->lod_level : 1);
    return TR_OK;
}

static tr_status infer_reshape(const tr_infer *io)
{
    const int64_t  width = ((const reshape_attrs *)io->attrs)->new_dim;
    const tr_shape x = io->in[X].shape;
    const int64_t  count = tr_shape_numel(&x);

    if (count >= 0 && count % width != 0)
        return tr_fail(TR_ESHAPE, "%s: X %s cannot be written in rows of %lld", io->type, TR_SHAPE_STR(x), (long long)width);
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, TR_SHAPE(count < 0 ? -1 : count / width, width),
                                           io->in[X].lod_level);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */
static void copy(tr_tensor *to, const tr_tensor *from)
{
    if (to->data != from->data)
        memcpy(to->data, from->data, (size_t)tr_tensor_bytes(to));
}

/* One level of offsets that somebody gave as numbers. */
static tr_status put_offsets(const tr_run *io, const void *numbers, tr_dtype dtype, int64_t count)
{
    int64_t *offset;

    if (count < 1)
        return tr_fail(TR_EINVAL, "lod_reset: Y '%s' holds no offsets", tr_run_in_name(io, Y, 0));
    TR_TRY(tr_run_scratch((void **)&offset, io, (size_t)count * sizeof *offset));
    tr_cast(offset, TR_INT64, numbers, dtype, count);
    const tr_status status = tr__sequences_put(io->out[OUT], NULL, 0, &(tr_sequences){count - 1, offset});
    return status == TR_OK ? TR_OK : tr_context(status, "lod_reset: in the new offsets of '%s'", tr_run_in_name(io, X, 0));
}

static tr_status run_reset(const tr_run *io)
{
    const reset_attrs *a = io->attrs;
    const tr_tensor   *y = io->in[Y];

    copy(io->out[OUT], io->in[X]);
    if (!y)
        return put_offsets(io, a->target_lod.item, TR_INT32, a->target_lod.count);
    if (!y->lod)
        return put_offsets(io, y->data, y->dtype, tr_tensor_count(y));
    const tr_sequences last = {.count = tr_tensor_lod_count(y, y->lod->levels - 1) - 1,
                               .offset = tr_tensor_lod_offsets(y, y->lod->levels - 1)};
    if (last.offset[last.count] != io->in[X]->shape.dim[0])
        return tr_fail(TR_ESHAPE, "lod_reset: the sequences of Y '%s' have %lld rows, X '%s' is %s", tr_run_in_name(io, Y, 0),
                       (long long)last.offset[last.count], tr_run_in_name(io, X, 0), TR_SHAPE_STR(io->in[X]->shape));
    return tr__tensor_copy_lod(io->out[OUT], y);
}

static tr_status run_reshape(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    const int64_t    width = x->shape.dim[1], new_width = out->shape.dim[1];
    tr_sequences     s;
    int64_t         *offset;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(tr_run_scratch((void **)&offset, io, (size_t)(s.count + 1) * sizeof *offset));
    for (int64_t i = 0; i <= s.count; i++) {
        if (s.offset[i] * width % new_width != 0)
            return tr_fail(TR_ESHAPE, "sequence_reshape: sequence %lld of '%s' has %lld rows of %lld numbers, which do not "
                           "make rows of %lld", (long long)i - 1, tr_run_in_name(io, X, 0),
                           (long long)(s.offset[i] - s.offset[i - 1]), (long long)width, (long long)new_width);
        offset[i] = s.offset[i] * width / new_width;
    }
    TR_TRY(tr__sequences_replace_last(out, x, &(tr_sequences){s.count, offset}));
    copy(out, x);
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    copy(io->out[G_DX], io->in[G_DOUT]);
    return TR_OK;
}

/* -- gradients and registration ----------------------------------------------------------------- */
/* The gradient that arrives for X@GRAD gets the sequences of target_lod, or those of Out@GRAD, which are Y's. */
static tr_status make_reset_second(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const char       *dout = tr_op_desc_input(op, "Out@GRAD", 0);

    if (tr_op_desc_attr_size(op, "target_lod") > 0)
        return tr__second_linear(maker);
    const char *from = tr_grad_of_output(maker, tr_op_desc_output(op, "X@GRAD", 0)), *to = tr_grad_for_input(maker, dout);
    if (!from || !to)
        return TR_OK;
    tr_op_desc *again = tr_op_desc_new("lod_reset");
    const char *like = tr_grad_saved(maker, dout, false);
    tr_op_desc_set_input(again, "X", 1, &from);
    tr_op_desc_set_input(again, "Y", 1, &like);
    tr_op_desc_set_output(again, "Out", 1, &to);
    return tr_grad_append(maker, again);
}

static const tr_grad_rule reset_rule = {
    .op = "lod_reset_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = make_reset_second,
};
TR_REGISTER_OP(lod_reset, .proto = &reset_proto, .infer = infer_reset, .run = run_reset, .grad = &reset_rule,
               .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(lod_reset_grad, .grad_of = &tr_op_record_lod_reset, .infer = tr__view_grad_infer, .run = run_grad, .inplace = {{G_DOUT, G_DX}},
               .inplace_count = 1);

static const tr_grad_rule reshape_rule = {
    .op = "sequence_reshape_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(sequence_reshape, .proto = &reshape_proto, .infer = infer_reshape, .run = run_reshape,
               .grad = &reshape_rule, .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(sequence_reshape_grad, .grad_of = &tr_op_record_sequence_reshape, .run = run_grad,
               .inplace = {{G_DOUT, G_DX}}, .inplace_count = 1);
