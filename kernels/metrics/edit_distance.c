/* edit_distance.c - how far sequences that a network made are from those it should have made. */
#ifndef T

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/sequences/edit_distance.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { HYPS, REFS };
enum { SEQUENCE_NUM, OUT };

typedef struct attrs {
    bool normalized;
} attrs;

static const tr_op_proto proto = {
    .doc = "How many words must at least be put in, taken out or changed to make each reference (Levenshtein distance).",
    .in = TR_SLOTS(TR_SLOT("Hyps", "[rows, 1]", " int32 or int64, of sequences"),
                   TR_SLOT("Refs", "[reference rows, 1]", ", of Hyps' type and of as many sequences")),
    .out = TR_SLOTS(TR_SLOT("SequenceNum", "[1]", " int64: how many sequences there are", TR_SLOT_INT64),
                    TR_SLOT("Out", "[sequences, 1]", " float32", TR_SLOT_FP32)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, normalized, BOOL, "divide by the rows of the reference, which must not be empty then")),
};

static tr_status infer(const tr_infer *io) { return tr__check_ids(io, "Hyps", &io->in[HYPS], true); }

/* -- kernels -------------------------------------------------------------------------------------- */
static tr_status check_sequences(const tr_run *io, const tr_sequences *hyps, const tr_sequences *refs)
{
    const attrs *a = io->attrs;

    TR_TRY(tr__sequences_check_count(io, HYPS, hyps, REFS, refs));
    for (int64_t i = 0; i < refs->count && a->normalized; i++)
        if (refs->offset[i] == refs->offset[i + 1])
            return tr_fail(TR_EINVAL, "edit_distance: sequence %lld of Refs '%s' is empty; a normalized distance is divided by its "
                           "length", (long long)i, tr_run_in_name(io, REFS, 0));
    return TR_OK;
}

#include "kernels/math/tools/each_number.h"

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(edit_distance, .proto = &proto, .infer = infer,
               .kernels = {{[TR_INT32] = edit_distance_i32, [TR_INT64] = edit_distance_i64}});

#elif !T_IS_FLOATING /* the kernels, for int32 and int64 */

static tr_status NAME(edit_distance)(const tr_run *io)
{
    const attrs *a = io->attrs;
    tr_sequences hyps, refs;
    int64_t     *distance, *work;

    TR_TRY(tr__sequences_of(&hyps, io, HYPS, 0));
    TR_TRY(tr__sequences_of(&refs, io, REFS, 0));
    TR_TRY(check_sequences(io, &hyps, &refs));
    TR_TRY(tr_run_resize(io, OUT, 0, TR_FP32, &TR_SHAPE(refs.count, 1)));
    const size_t cells = (size_t)(refs.offset[refs.count] + refs.count + 1);
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){{&distance, (size_t)(refs.count + 1) * sizeof *distance},
                                                     {&work, cells * sizeof *work}, {NULL, 0}}));
    const NAME(tr_edit) e = {io->in[HYPS]->data, io->in[REFS]->data, hyps.offset, refs.offset, refs.count, work};
    NAME(tr_edit_distances)(distance, &e);
    for (int64_t i = 0; i < refs.count; i++) {
        const int64_t rows = refs.offset[i + 1] - refs.offset[i];
        ((float *)io->out[OUT]->data)[i] = (float)distance[i] / (float)(a->normalized ? rows : 1);
    }
    *(int64_t *)io->out[SEQUENCE_NUM]->data = refs.count;
    return TR_OK;
}

#endif
