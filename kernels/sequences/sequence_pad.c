/* sequence_pad.c - sequence_pad and sequence_unpad: from sequences one after the other to rows of equal length, and back.
 *
 * Each one's backward is the other's forward, with zeros for padding. */
#include <string.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface: sequence_pad -------------------------------------------------------------------- */
enum { X, PAD_VALUE };
enum { OUT, LENGTH_OUT };
enum { G_X, G_DOUT };
enum { G_DX };

typedef struct pad_attrs {
    int32_t padded_length;
} pad_attrs;

static const tr_op_proto pad_proto = {
    .doc = "Out[i] is sequence i of X, and PadValue after its end.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " of any type, of sequences"),
                   {"PadValue", "[1], or as large as a row of X; X's type: what is written after the ends"}),
    .out = TR_SLOTS({"Out", "[sequences, padded_length, ...]; the outer levels of X's LoD, if it has some"},
                    {"Length", "[sequences, 1] int64: rows before the padding"}),
    TR_ATTRS_OF(pad_attrs, TR_ATTR(pad_attrs, padded_length, INT, "rows of each sequence of Out; -1: those of the longest of X",
                                   .number = -1, .range = TR_AT_LEAST(-1))),
};

/* -- interface: sequence_unpad ------------------------------------------------------------------ */
enum { LENGTH = 1 };
enum { UG_X, UG_LENGTH, UG_DOUT };

static const tr_op_proto unpad_proto = {
    .doc = "The first Length[i] rows of each X[i], one after the other, as sequences.",
    .in = TR_SLOTS(TR_SLOT("X", "[sequences, length, ...]", " of any type, padded"),
                   {"Length", "[sequences, 1] or [sequences] int64", TR_SLOT_INT64}),
    .out = TR_SLOTS({"Out", "[rows, ...], [rows, 1] where X is [sequences, padded length]; one level of sequences more"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_pad_value(const tr_infer *io)
{
    const tr_meta *value = &io->in[PAD_VALUE];
    const int64_t  row = tr_shape_product(&io->in[X].shape, 1, io->in[X].shape.rank);
    const int64_t  count = tr_shape_numel(&value->shape);

    TR_TRY(tr__check_dtype(io, "PadValue", value, io->in[X].dtype));
    if (count == -1 || count == 1 || row == -1 || count == row)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: X is %s, so PadValue must hold 1 or %lld numbers; it is %s", io->type,
                   TR_SHAPE_STR(io->in[X].shape), (long long)row, TR_SHAPE_STR(value->shape));
}

static tr_status infer_pad(const tr_infer *io)
{
    const pad_attrs *a = io->attrs;
    const tr_shape   x = io->in[X].shape;
    tr_shape         out = {.rank = x.rank + 1, .dim = {-1, a->padded_length}};

    TR_TRY(check_pad_value(io));
    if (out.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X %s has too many dimensions for one more", io->type, TR_SHAPE_STR(x));
    for (int i = 1; i < x.rank; i++)
        out.dim[i + 1] = x.dim[i];
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, io->in[X].lod_level - 1);
    io->out[LENGTH_OUT] = tr_meta_dense(TR_INT64, TR_SHAPE(-1, 1));
    return TR_OK;
}

/* PadValue, which the gradient does not read, would be needed to infer the forward operator. */
static tr_status infer_pad_grad(const tr_infer *io)
{
    const tr_meta *x = &io->in[G_X];
    tr_meta        padded = tr_meta_dense(x->dtype, (tr_shape){.rank = x->shape.rank + 1, .dim = {-1, -1}});

    TR_TRY(tr__check_min_rank(io, "X", x, 1));
    if (padded.shape.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "%s: X %s has too many dimensions for one more", io->type, TR_SHAPE_STR(x->shape));
    for (int i = 1; i < x->shape.rank; i++)
        padded.shape.dim[i + 1] = x->shape.dim[i];
    TR_TRY(tr__check_like(io, "Out@GRAD", &io->in[G_DOUT], &padded));
    return TR_OK;
}

static tr_shape unpadded(const tr_shape *x, int64_t rows)
{
    tr_shape out = {.rank = x->rank == 2 ? 2 : x->rank - 1, .dim = {rows, 1}};

    for (int i = 2; i < x->rank; i++)
        out.dim[i - 1] = x->dim[i];
    return out;
}

static tr_status infer_unpad(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape;
    const int64_t  lengths = tr_shape_numel(&io->in[LENGTH].shape);

    if (lengths != -1 && x.dim[0] != -1 && lengths != x.dim[0])
        return tr_fail(TR_ESHAPE, "%s: X is %s, so Length must hold %lld numbers; it is %s", io->type, TR_SHAPE_STR(x),
                       (long long)x.dim[0], TR_SHAPE_STR(io->in[LENGTH].shape));
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, unpadded(&x, -1), io->in[X].lod_level + 1);
    return TR_OK;
}

/* -- kernels: rows between X and the padded form ------------------------------------------------ */

/* Copy sequences into places `length` rows apart, or back from there. */
static tr_status move(const tr_run *io, void *to, const void *from, const tr_sequences *s, int64_t length,
                      int64_t row_bytes, bool is_padding)
{
    tr_part *parts;

    TR_TRY(tr_run_scratch((void **)&parts, io, (size_t)(s->count + 1) * sizeof *parts));
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t packed = s->offset[i], padded = i * length;
        parts[i] = (tr_part){.to = is_padding ? padded : packed, .from = is_padding ? packed : padded,
                             .rows = s->offset[i + 1] - s->offset[i]};
    }
    tr_parts_copy(to, from, parts, s->count, row_bytes);
    return TR_OK;
}

/* PadValue into every row that lies after the end of its sequence. */
static void fill_tails(tr_tensor *out, const tr_tensor *value, const tr_sequences *s, int64_t length, int64_t row_bytes)
{
    const int64_t item = tr_dtype_size(out->dtype);
    const bool    is_row = tr_tensor_count(value) != 1 || item == row_bytes;

    for (int64_t i = 0; i < s->count; i++) {
        const int64_t used = s->offset[i + 1] - s->offset[i], left = length - used;
        char         *tail = (char *)out->data + (i * length + used) * row_bytes;
        if (!is_row)
            tr_fill(tail, value->data, item, left * row_bytes / item);
        for (int64_t r = 0; r < left && is_row; r++)
            memcpy(tail + r * row_bytes, value->data, (size_t)row_bytes);
    }
}

static tr_status padded_length(int64_t *out, const tr_run *io, const tr_sequences *s)
{
    const pad_attrs *a = io->attrs;
    const int64_t    longest = tr__sequences_longest(s);

    if (a->padded_length >= 0 && longest > a->padded_length)
        return tr_fail(TR_ERANGE, "sequence_pad: padded_length is %d, but a sequence of '%s' has %lld rows",
                       a->padded_length, tr_run_in_name(io, X, 0), (long long)longest);
    *out = a->padded_length >= 0 ? a->padded_length : longest;
    return TR_OK;
}

static tr_status run_pad(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    tr_shape         shape = {.rank = x->shape.rank + 1};
    tr_sequences     s;
    int64_t          length = 0;

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(padded_length(&length, io, &s));
    shape.dim[0] = s.count;
    shape.dim[1] = length;
    for (int i = 1; i < x->shape.rank; i++)
        shape.dim[i + 1] = x->shape.dim[i];
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__sequences_replace_last(out, x, NULL));
    TR_TRY(tr_run_resize(io, LENGTH_OUT, 0, TR_INT64, &TR_SHAPE(s.count, 1)));
    for (int64_t i = 0; i < s.count; i++)
        ((int64_t *)io->out[LENGTH_OUT]->data)[i] = s.offset[i + 1] - s.offset[i];
    fill_tails(out, io->in[PAD_VALUE], &s, length, tr__row_bytes(x));
    return move(io, out->data, x->data, &s, length, tr__row_bytes(x), true);
}

static tr_status run_pad_grad(const tr_run *io)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_tensor       *dx = io->out[G_DX];
    tr_sequences     s;

    TR_TRY(tr__sequences_of(&s, io, G_X, 0));
    TR_TRY(tr__check_rows(io, G_DOUT, s.count));
    if (dout->shape.dim[1] < tr__sequences_longest(&s))
        return tr_fail(TR_ESHAPE, "sequence_pad_grad: a sequence of '%s' has %lld rows, but Out@GRAD '%s' is %s",
                       tr_run_in_name(io, G_X, 0), (long long)tr__sequences_longest(&s), tr_run_in_name(io, G_DOUT, 0),
                       TR_SHAPE_STR(dout->shape));
    return move(io, dx->data, dout->data, &s, dout->shape.dim[1], tr__row_bytes(dx), false);
}

/* -- kernels: sequence_unpad -------------------------------------------------------------------- */

/* `moves` parts and then the offsets, in one piece of scratch memory. */
typedef struct unpad_plan {
    tr_part *parts;
    int64_t *offset;
    int64_t  count;
} unpad_plan;

static tr_status plan_unpad(unpad_plan *p, const tr_run *io, const char *type)
{
    const tr_shape *x = &io->in[X]->shape;
    const int64_t  *length = io->in[LENGTH]->data;
    void           *memory;

    p->count = x->dim[0];
    TR_TRY(tr_run_scratch(&memory, io, (size_t)(p->count + 1) * (sizeof(tr_part) + sizeof(int64_t))));
    p->parts = memory;
    p->offset = (int64_t *)(p->parts + p->count + 1);
    p->offset[0] = 0;
    for (int64_t i = 0; i < p->count; i++) {
        if (length[i] < 0 || length[i] > x->dim[1])
            return tr_fail(TR_ERANGE, "%s: Length '%s' says %lld rows for sequence %lld, but X '%s' is %s", type,
                           tr_run_in_name(io, LENGTH, 0), (long long)length[i], (long long)i, tr_run_in_name(io, X, 0),
                           tr_shape_str(x));
        p->parts[i] = (tr_part){.to = p->offset[i], .from = i * x->dim[1], .rows = length[i]};
        p->offset[i + 1] = p->offset[i] + length[i];
    }
    return TR_OK;
}

static int64_t padded_row_bytes(const tr_tensor *x)
{
    return tr_shape_product(&x->shape, 2, x->shape.rank) * tr_dtype_size(x->dtype);
}

static tr_status run_unpad(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_tensor       *out = io->out[OUT];
    unpad_plan       p;

    TR_TRY(plan_unpad(&p, io, "sequence_unpad"));
    const tr_shape shape = unpadded(&x->shape, p.offset[p.count]);
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__sequences_put(out, x, tr_tensor_lod_levels(x), &(tr_sequences){p.count, p.offset}));
    tr_parts_copy(out->data, x->data, p.parts, p.count, padded_row_bytes(x));
    return TR_OK;
}

static tr_status run_unpad_grad(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    unpad_plan p;

    TR_TRY(plan_unpad(&p, io, "sequence_unpad_grad"));
    TR_TRY(tr__check_rows(io, UG_DOUT, p.offset[p.count]));
    tr_parts_turn(p.parts, p.count);
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    tr_parts_copy(dx->data, io->in[UG_DOUT]->data, p.parts, p.count, padded_row_bytes(dx));
    return TR_OK;
}

/* -- gradients and registration ----------------------------------------------------------------- */
/* X@GRAD has the rows of Out@GRAD that were not added, which the lengths of X's sequences tell. */
static tr_status pad_back(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "fill_constant() {shape=[1], dtype=%d} -> zero", (int)tr_composite_dtype(c, "X")));
    TR_TRY(tr_composite_add(c, "sequence_pad(X=X, PadValue=zero) {padded_length=%d} -> Out=padded, Length=lengths",
                            ((const pad_attrs *)tr_composite_attrs(c))->padded_length));
    return tr_composite_add(c, "sequence_unpad(X=Out@GRAD, Length=lengths) -> X@GRAD");
}

static const tr_grad_rule pad_rule = {
    .op = "sequence_pad_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = pad_back,
};
TR_REGISTER_OP(sequence_pad, .proto = &pad_proto, .infer = infer_pad, .run = run_pad, .grad = &pad_rule);
TR_REGISTER_OP(sequence_pad_grad, .grad_of = &tr_op_record_sequence_pad, .infer = infer_pad_grad, .run = run_pad_grad);

static const tr_grad_rule unpad_rule = {
    .op = "sequence_unpad_grad", .reads = {TR_IN_SHAPE(X), TR_IN(LENGTH), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};
TR_REGISTER_OP(sequence_unpad, .proto = &unpad_proto, .infer = infer_unpad, .run = run_unpad, .grad = &unpad_rule);
TR_REGISTER_OP(sequence_unpad_grad, .grad_of = &tr_op_record_sequence_unpad, .run = run_unpad_grad);
