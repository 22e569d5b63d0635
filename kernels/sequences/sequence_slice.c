/* sequence_slice.c - some neighbouring rows of each sequence.
 *
 * Backward puts them back among zeros. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/math/tools/cast.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X, OFFSET, LENGTH };
enum { OUT };
enum { G_X, G_OFFSET, G_LENGTH, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Sequence i of Out is the rows Offset[i] .. Offset[i] + Length[i] - 1 of sequence i of X.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, ...]", " of any type, of sequences"), {"Offset", "[sequences, 1] int64 or int32", TR_SLOT_INDEX},
                   {"Length", "[sequences, 1] int64 or int32", TR_SLOT_INDEX}),
    .out = TR_SLOTS({"Out", "[rows, ...], with as many sequences as X"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    tr_shape out = io->in[X].shape;

    out.dim[0] = -1;
    io->out[OUT] = tr__meta_with_sequences(io->in[X].dtype, out, io->in[X].lod_level);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* The slice of each sequence, its position in Out, and Out's offsets. */
typedef struct plan {
    tr_sequences x;
    tr_part     *parts;
    int64_t     *offset;
} plan;

static tr_status check_count(const tr_run *io, const char *type, int slot, int64_t count)
{
    const int64_t given = tr_tensor_count(io->in[slot]);

    if (given == count)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: '%s' has %lld numbers, but X '%s' %lld sequences", type, tr_run_in_name(io, slot, 0),
                   (long long)given, tr_run_in_name(io, X, 0), (long long)count);
}

/* The parts with their places in X as `from`; numbers of Offset and Length first, as they are. */
static tr_status check_parts(const plan *p, const tr_run *io, const char *type, const int64_t *start,
                             const int64_t *length)
{
    for (int64_t i = 0; i < p->x.count; i++) {
        const int64_t rows = p->x.offset[i + 1] - p->x.offset[i];
        if (start[i] < 0 || length[i] < 0 || start[i] > rows || length[i] > rows - start[i])
            return tr_fail(TR_ERANGE, "%s: %lld rows from row %lld on are asked of sequence %lld of '%s', which has %lld",
                           type, (long long)length[i], (long long)start[i], (long long)i, tr_run_in_name(io, X, 0),
                           (long long)rows);
    }
    return TR_OK;
}

static tr_status make_plan(plan *p, const tr_run *io, const char *type)
{
    int64_t *start, *length;
    void    *memory;

    TR_TRY(tr__sequences_of(&p->x, io, X, 0));
    const int64_t n = p->x.count;
    TR_TRY(check_count(io, type, OFFSET, n));
    TR_TRY(check_count(io, type, LENGTH, n));
    TR_TRY(tr_run_scratch(&memory, io, (size_t)(n + 1) * (sizeof(tr_part) + 3 * sizeof(int64_t))));
    p->parts = memory;
    p->offset = (int64_t *)(p->parts + n + 1);
    start = p->offset + n + 1;
    length = start + n + 1;
    tr_cast(start, TR_INT64, io->in[OFFSET]->data, io->in[OFFSET]->dtype, n);
    tr_cast(length, TR_INT64, io->in[LENGTH]->data, io->in[LENGTH]->dtype, n);
    TR_TRY(check_parts(p, io, type, start, length));
    p->offset[0] = 0;
    for (int64_t i = 0; i < n; i++) {
        p->parts[i] = (tr_part){.to = p->offset[i], .from = p->x.offset[i] + start[i], .rows = length[i]};
        p->offset[i + 1] = p->offset[i] + length[i];
    }
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    tr_shape         shape = x->shape;
    plan             p;

    TR_TRY(make_plan(&p, io, "sequence_slice"));
    shape.dim[0] = p.offset[p.x.count];
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__sequences_replace_last(io->out[OUT], x, &(tr_sequences){p.x.count, p.offset}));
    tr_parts_copy(io->out[OUT]->data, x->data, p.parts, p.x.count, tr__row_bytes(x));
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    tr_tensor *dx = io->out[G_DX];
    plan       p;

    TR_TRY(make_plan(&p, io, "sequence_slice_grad"));
    TR_TRY(tr__check_rows(io, G_DOUT, p.offset[p.x.count]));
    tr_parts_turn(p.parts, p.x.count);
    memset(dx->data, 0, (size_t)tr_tensor_bytes(dx));
    tr_parts_copy(dx->data, io->in[G_DOUT]->data, p.parts, p.x.count, tr__row_bytes(dx));
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "sequence_slice_grad",
    .reads = {TR_IN_SHAPE(X), TR_IN(OFFSET), TR_IN(LENGTH), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(sequence_slice, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(sequence_slice_grad, .grad_of = &tr_op_record_sequence_slice, .run = run_grad);
