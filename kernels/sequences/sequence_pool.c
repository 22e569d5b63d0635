/* sequence_pool.c - one row from each sequence: sum, average, sum over root of length, maximum, last, first.
 *
 * The number of sequences is no part of a shape, so Out's first dimension is known to the kernel alone. Backward: only
 * MAX reads a value, MaxIndex; the others need no more than the lengths. */
#ifndef T

#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/body_lines.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { OUT, MAX_INDEX };
enum { G_X, G_MAX_INDEX, G_DOUT };
enum { G_DX };

typedef struct attrs {
    tr_sequence_pool pooltype;
    float            pad_value;
} attrs;

static const tr_op_proto proto = {
    .doc = "Makes one row of each sequence of X.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " float, of sequences")),
    .out = TR_SLOTS({"Out", "[sequences, ...]; the outer levels of X's LoD, if it has some"},
                    {"MaxIndex", "like Out, int32: which row of X each element of MAX is from, -1: none; empty for other "
                                 "pools", TR_SLOT_INTERMEDIATE | TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR_IGNORED("is_test", BOOL),
                       TR_ATTR(attrs, pooltype, STRING, "what each sequence becomes", .text = "AVERAGE",
                               .range = TR_ONE_OF({"AVERAGE", TR_POOL_AVERAGE}, {"SUM", TR_POOL_SUM}, {"SQRT", TR_POOL_SQRT}, {"MAX", TR_POOL_MAX},
                                                  {"LAST", TR_POOL_LAST}, {"FIRST", TR_POOL_FIRST})),
                       TR_ATTR(attrs, pad_value, FLOAT, "what a sequence without rows becomes")),
};

static tr_sequence_pool pool_of(const void *attributes)
{
    return ((const attrs *)attributes)->pooltype;
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    out.dim[0] = -1;
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, io->in[X].lod_level - 1);
    io->out[MAX_INDEX] = tr_meta_dense(TR_INT32, pool_of(io->attrs) == TR_POOL_MAX ? out : TR_SHAPE(0));
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    if (pool_of(io->attrs) == TR_POOL_MAX && io->in[G_MAX_INDEX].kind == TR_KIND_NONE)
        return tr_fail(TR_EINVAL, "%s: the gradient of MAX reads MaxIndex, which this sequence_pool does not write",
                       io->type);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* Each row that MaxIndex names is one of its sequence. */
static tr_status check_max_index(const tr_run *io, const tr_sequences *s)
{
    const tr_tensor *max_row = io->in[G_MAX_INDEX];
    const int32_t   *row = max_row->data;
    const int64_t    width = tr_shape_product(&max_row->shape, 1, max_row->shape.rank);

    TR_TRY(tr__check_rows(io, G_MAX_INDEX, s->count));
    for (int64_t i = 0; i < s->count; i++)
        for (int64_t k = 0; k < width && s->offset[i] < s->offset[i + 1]; k++)
            if (row[i * width + k] < s->offset[i] || row[i * width + k] >= s->offset[i + 1])
                return tr_fail(TR_ERANGE, "sequence_pool_grad: MaxIndex '%s' names row %d, which sequence %lld does not have",
                               tr_run_in_name(io, G_MAX_INDEX, 0), row[i * width + k], (long long)i);
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */
static const char *const pool_names[] = {
    [TR_POOL_AVERAGE] = "AVERAGE", [TR_POOL_SUM] = "SUM", [TR_POOL_SQRT] = "SQRT", [TR_POOL_LAST] = "LAST", [TR_POOL_FIRST] = "FIRST",
};

/* Which rows are the largest ones is constant almost everywhere. Of the other pools, a sequence without rows gives zeros here. */
static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    if (a->pooltype != TR_POOL_MAX)
        return tr_composite_add(c, "sequence_pool_grad(X=X, MaxIndex=MaxIndex, Out@GRAD=Out@GRAD) {pooltype=%s} -> X@GRAD=X@GRAD",
                                pool_names[a->pooltype]);
    TR_TRY(tr__add_ones(c, "Out@GRAD", "ones"));
    TR_TRY(tr_composite_add(c, "sequence_pool_grad(X=X, MaxIndex=MaxIndex, Out@GRAD=ones) {pooltype=MAX} -> places"));
    tr_composite_stop_gradient(c, "places");
    TR_TRY(tr_composite_add(c, "sequence_expand_as(X=Out@GRAD, Y=X) -> spread"));
    return tr_composite_add(c, "elementwise_mul(X=spread, Y=places) -> X@GRAD");
}

/* All pools but MAX are linear, where a sequence without rows is zeros. */
static tr_status make_second(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const char       *type = tr_op_desc_attr_string(op, "pooltype", 0, NULL);
    const bool        is_linear = !(type && strcmp(type, "MAX") == 0) && tr_op_desc_attr_float(op, "pad_value", 0) == 0;

    return is_linear ? tr__second_linear(maker) : tr__second_body(maker);
}

static const tr_grad_rule grad = {
    .op = "sequence_pool_grad",
    .reads = {TR_IN_SHAPE(X), TR_OUT(MAX_INDEX), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = make_second, .body = slope,
};

TR_REGISTER_OP(sequence_pool, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(sequence_pool), .grad = &grad);
TR_REGISTER_OP(sequence_pool_grad, .grad_of = &tr_op_record_sequence_pool, .infer = infer_grad,
               .kernels = TR_FLOAT_KERNELS(sequence_pool_grad));

#else /* the kernels, for each T */

static tr_status NAME(sequence_pool)(const tr_run *io)
{
    const attrs           *a = io->attrs;
    const tr_tensor       *x = io->in[X];
    const tr_sequence_pool pool = pool_of(a);
    tr_shape               shape = x->shape;
    tr_sequences           s;
    void                  *max_row = NULL;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    shape.dim[0] = s.count;
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__sequences_replace_last(io->out[OUT], x, NULL));
    if (pool == TR_POOL_MAX && io->out[MAX_INDEX]) {
        TR_TRY(tr_run_resize(io, MAX_INDEX, 0, TR_INT32, &shape));
        max_row = io->out[MAX_INDEX]->data;
    } else if (pool == TR_POOL_MAX) {
        TR_TRY(tr_run_scratch(&max_row, io, (size_t)tr_shape_numel(&shape) * sizeof(int32_t)));
    }
    NAME(tr_sequence_pool_apply)(pool, io->out[OUT]->data, max_row, x->data, s.offset, s.count,
                                 tr_shape_product(&shape, 1, shape.rank), (T)a->pad_value);
    return TR_OK;
}

static tr_status NAME(sequence_pool_grad)(const tr_run *io)
{
    const tr_tensor *max_row = io->in[G_MAX_INDEX];
    tr_tensor       *dx = io->out[G_DX];
    tr_sequences     s;

    TR_TRY(tr__sequences_of(&s, io, G_X, 0));
    TR_TRY(tr__check_rows(io, G_DOUT, s.count));
    if (pool_of(io->attrs) == TR_POOL_MAX)
        TR_TRY(check_max_index(io, &s));
    NAME(tr_sequence_pool_grad)(pool_of(io->attrs), dx->data, io->in[G_DOUT]->data, max_row ? max_row->data : NULL,
                                s.offset, s.count, tr_shape_product(&dx->shape, 1, dx->shape.rank));
    return TR_OK;
}

#endif
