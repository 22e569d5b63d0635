/* sequence_concat.c - sequence i of every X, one after the other, is sequence i of Out.
 *
 * Rows move and nothing is computed, so there is one kernel for all types; backward moves them back. */
#include <string.h>

#include "framework/gradients/grad_second.h"
#include "kernels/base/check.h"
#include "kernels/math/sequences/sequence.h"
#include "kernels/sequences/sequence.h"

/* -- interface ---------------------------------------------------------------------------------- */
enum { X };
enum { OUT };
enum { G_X, G_DOUT };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Joins sequences: sequence i of Out is sequence i of each X, in order.",
    .in = TR_SLOTS(TR_SLOT("X", "[?, ...]", " of any one type, of equally many sequences", TR_SLOT_REPEATED)),
    .out = TR_SLOTS({"Out", "[rows of all X, ...], with as many sequences as each X"}),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *first = &io->in[X];
    tr_shape       out = first->shape, row = first->shape;

    row.dim[0] = -1;
    for (int i = 0; i < io->ins[X].count; i++) {
        const tr_meta *x = &io->ins[X].item[i];
        TR_TRY(tr__check_dtype(io, "X", x, first->dtype));
        if (!tr_shape_fits(&x->shape, &row))
            return tr_fail(TR_ESHAPE, "%s: X[%d] is %s and X[0] %s; they may differ in the number of rows alone", io->type,
                           i, TR_SHAPE_STR(x->shape), TR_SHAPE_STR(first->shape));
        if (i > 0)
            out.dim[0] = out.dim[0] < 0 || x->shape.dim[0] < 0 ? -1 : out.dim[0] + x->shape.dim[0];
    }
    io->out[OUT] = tr__meta_with_sequences(first->dtype, out, first->lod_level);
    return TR_OK;
}

/* -- kernels ------------------------------------------------------------------------------------ */

/* total[i]: where sequence i of Out begins. */
static tr_status total_offsets(int64_t *total, const tr_run *io, const char *type, int64_t count)
{
    memset(total, 0, (size_t)(count + 1) * sizeof *total);
    for (int k = 0; k < io->ins[X].count; k++) {
        tr_sequences s;
        TR_TRY(tr__sequences_of(&s, io, X, k));
        if (s.count != count)
            return tr_fail(TR_ESHAPE, "%s: '%s' has %lld sequences, '%s' has %lld", type, tr_run_in_name(io, X, k),
                           (long long)s.count, tr_run_in_name(io, X, 0), (long long)count);
        for (int64_t i = 0; i <= count; i++)
            total[i] += s.offset[i];
    }
    return TR_OK;
}

/* Parts of X[k] in Out; next[i], where the next part of sequence i goes, moves on. */
static void place_parts(tr_part *parts, int64_t *next, const tr_sequences *s)
{
    for (int64_t i = 0; i < s->count; i++) {
        const int64_t rows = s->offset[i + 1] - s->offset[i];
        parts[i] = (tr_part){.to = next[i], .from = s->offset[i], .rows = rows};
        next[i] += rows;
    }
}

typedef struct work {
    int64_t *next;
    tr_part *parts;
} work;

static tr_status get_work(work *w, const tr_run *io, int64_t count)
{
    void *memory;

    TR_TRY(tr_run_scratch(&memory, io, (size_t)(count + 1) * (sizeof(int64_t) + sizeof(tr_part))));
    *w = (work){.parts = memory, .next = (int64_t *)((tr_part *)memory + count + 1)};
    return TR_OK;
}

static tr_status run(const tr_run *io)
{
    tr_tensor   *out = io->out[OUT];
    tr_sequences s;
    work         w = {0};

    TR_TRY(tr__sequences_of(&s, io, X, 0));
    TR_TRY(get_work(&w, io, s.count));
    TR_TRY(total_offsets(w.next, io, "sequence_concat", s.count));
    TR_TRY(tr__sequences_replace_last(out, io->in[X], &(tr_sequences){s.count, w.next}));
    for (int k = 0; k < io->ins[X].count; k++) {
        TR_TRY(tr__sequences_of(&s, io, X, k));
        place_parts(w.parts, w.next, &s);
        tr_parts_copy(out->data, io->ins[X].item[k]->data, w.parts, s.count, tr__row_bytes(out));
    }
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    const tr_tensor *dout = io->in[G_DOUT];
    tr_sequences     s;
    work             w = {0};

    TR_TRY(tr__sequences_of(&s, io, G_X, 0));
    TR_TRY(get_work(&w, io, s.count));
    TR_TRY(total_offsets(w.next, io, "sequence_concat_grad", s.count));
    for (int k = 0; k < io->ins[G_X].count; k++) {
        TR_TRY(tr__sequences_of(&s, io, G_X, k));
        place_parts(w.parts, w.next, &s);
        tr_parts_turn(w.parts, s.count);
        if (io->outs[G_DX].item[k])
            tr_parts_copy(io->outs[G_DX].item[k]->data, dout->data, w.parts, s.count, tr__row_bytes(dout));
    }
    return TR_OK;
}

/* -- gradient and registration ------------------------------------------------------------------ */
static const tr_grad_rule grad = {
    .op = "sequence_concat_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(sequence_concat, .proto = &proto, .infer = infer, .run = run, .grad = &grad);
TR_REGISTER_OP(sequence_concat_grad, .grad_of = &tr_op_record_sequence_concat, .run = run_grad);
