/* sequence_expand.c - rows or sequences of X repeated as often as a sequence of Y is long.
 *
 * sequence_expand repeats X's sequences (its rows, where it has none) by the lengths of a level of Y's LoD, and the
 * result has one sequence for each copy. sequence_expand_as repeats rows by the lengths of Y's last level, and the result
 * has Y's sequences: there the shape is known beforehand. Backward: copies add up; only shapes and sequences are read. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };
enum { G_X, G_Y, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t ref_level;
} attrs;

static const tr_op_proto expand_proto = {
    .doc = "Repeats each sequence of X, or each row where X has none, as often as a sequence of Y has parts.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " of any type, of sequences of one level or of none"),
                   {"Y", "any tensor with sequences; only those are read", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "[rows, ...]; one sequence for each copy of one of X"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, ref_level, INT, "the level of Y's LoD that counts; -1 is the last", .number = -1,
                               .range = TR_AT_LEAST(-1))),
};

static const tr_op_proto expand_as_proto = {
    .doc = "Repeats row i of X as often as sequence i of Y has rows.",
    .in = TR_SLOTS(TR_SLOT("X", "[sequences of Y, ...]", " of any type"),
                   TR_SLOT("Y", "[rows, ...]", " of sequences; only those are read", TR_SLOT_ANY_TYPE)),
    .out = TR_SLOTS({"Out", "[rows of Y, ...], with Y's sequences"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer_expand(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    out.dim[0] = -1;
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, io->in[X].lod_level);
    return TR_OK;
}

static tr_status infer_expand_as(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    out.dim[0] = io->in[Y].shape.dim[0];
    io->out[OUT] = io->in[Y];
    io->out[OUT].dtype = io->in[X].dtype;
    io->out[OUT].shape = out;
    return TR_OK;
}

/* -- kernels: what both types of operator share ------------------------------------------------- */

/* X's items and how often each is wanted. first[i]: the row of Out where item i's copies begin. */
typedef struct plan {
    tr_sequences   ref;
    const int64_t *item, *first;      /* item NULL: rows */
    int64_t        rows, copies;      /* of Out; copies of all items */
    int64_t       *offset;            /* of Out's sequences: copies + 1, where X has sequences */
} plan;

static tr_status count_items(const tr_run *io, int64_t items, const char *what, int64_t wanted)
{
    if (items == wanted)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "sequence_expand: X '%s' has %lld %s, but Y '%s' has %lld sequences to repeat them by",
                   tr_run_in_name(io, X, 0), (long long)items, what, tr_run_in_name(io, Y, 0), (long long)wanted);
}

/* The positions of the copies of X's sequences. */
static tr_status plan_sequences(plan *p, const tr_run *io)
{
    tr_sequences  x;
    int64_t      *numbers;

    TR_TRY(tr__sequences_of(&x, io, X, 0));
    TR_TRY(count_items(io, x.count, "sequences", p->ref.count));
    TR_TRY(tr_run_scratch((void **)&numbers, io, (size_t)(x.count + p->copies + 2) * sizeof *numbers));
    p->item = x.offset;
    p->first = numbers;
    p->offset = numbers + x.count;
    for (int64_t i = 0, copy = 0; i < x.count; i++) {
        numbers[i] = p->rows;
        for (int64_t n = p->ref.offset[i]; n < p->ref.offset[i + 1]; n++) {
            p->offset[copy++] = p->rows;
            p->rows += x.offset[i + 1] - x.offset[i];
        }
    }
    p->offset[p->copies] = p->rows;
    return TR_OK;
}

static tr_status make_plan(plan *p, const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int        levels = tr_tensor_lod_levels(x);

    *p = (plan){.rows = 0};
    if (levels > 1)
        return tr_fail(TR_EUNSUPPORTED, "sequence_expand: X '%s' has %d levels of sequences; at most 1 is supported",
                       tr_run_in_name(io, X, 0), levels);
    TR_TRY(tr__sequences_at(&p->ref, io, Y, a->ref_level));
    p->copies = p->ref.offset[p->ref.count];
    if (levels == 1)
        return plan_sequences(p, io);
    p->first = p->ref.offset;
    p->rows = p->copies;
    return count_items(io, x->shape.dim[0], "rows", p->ref.count);
}

static tr_status run_expand(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    tr_shape         shape = x->shape;
    plan             p;

    TR_TRY(make_plan(&p, io));
    shape.dim[0] = p.rows;
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__sequences_put(out, x, 0, p.offset ? &(tr_sequences){p.copies, p.offset} : NULL));
    tr_sequence_expand(out->data, x->data, p.item, p.first, p.ref.offset, p.ref.count, tr__row_bytes(x));
    return TR_OK;
}

static tr_status sequences_as(tr_sequences *s, const tr_run *io)
{
    const int64_t rows = io->in[X]->shape.dim[0];

    TR_TRY(tr__sequences_of(s, io, Y, 0));
    if (rows != s->count)
        return tr_fail(TR_ESHAPE, "sequence_expand_as: X '%s' has %lld rows, but Y '%s' %lld sequences",
                       tr_run_in_name(io, X, 0), (long long)rows, tr_run_in_name(io, Y, 0), (long long)s->count);
    return TR_OK;
}

static tr_status run_expand_as(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_sequences     s;

    TR_TRY(sequences_as(&s, io));
    tr_sequence_expand(io->out[OUT]->data, x->data, NULL, s.offset, s.offset, s.count, tr__row_bytes(x));
    return TR_OK;
}

#include "kernels/math/tools/each_float.h"

/* -- gradients and registration ----------------------------------------------------------------- */
static const tr_grad_rule expand_rule = {
    .op = "sequence_expand_grad",
    .reads = {TR_IN_SHAPE(X), TR_IN_SHAPE(Y), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(sequence_expand, .proto = &expand_proto, .infer = infer_expand, .run = run_expand, .grad = &expand_rule);
TR_REGISTER_OP(sequence_expand_grad, .grad_of = &tr_op_record_sequence_expand,
               .kernels = TR_FLOAT_KERNELS(sequence_expand_grad));

static const tr_grad_rule expand_as_rule = {
    .op = "sequence_expand_as_grad",
    .reads = {TR_IN_SHAPE(X), TR_IN_SHAPE(Y), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(sequence_expand_as, .proto = &expand_as_proto, .infer = infer_expand_as, .run = run_expand_as,
               .grad = &expand_as_rule);
TR_REGISTER_OP(sequence_expand_as_grad, .grad_of = &tr_op_record_sequence_expand_as,
               .kernels = TR_FLOAT_KERNELS(sequence_expand_as_grad));

#else /* the kernels, for each T */

static tr_status NAME(sequence_expand_grad)(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    plan       p;

    TR_TRY(make_plan(&p, io));
    TR_TRY(tr__check_rows(io, G_DOUT, p.rows));
    NAME(tr_sequence_expand_grad)(dx->data, io->in[G_DOUT]->data, p.item, p.first, p.ref.offset, p.ref.count,
                                  tr_shape_product(&dx->shape, 1, dx->shape.rank));
    return TR_OK;
}

static tr_status NAME(sequence_expand_as_grad)(const tr_run *io)
{
    tr_tensor   *dx = io->out[G_DX];
    tr_sequences s;

    TR_TRY(sequences_as(&s, io));
    TR_TRY(tr__check_rows(io, G_DOUT, s.offset[s.count]));
    NAME(tr_sequence_expand_grad)(dx->data, io->in[G_DOUT]->data, NULL, s.offset, s.offset, s.count,
                                  tr_shape_product(&dx->shape, 1, dx->shape.rank));
    return TR_OK;
}

#endif
