/* beam_search.c - one step of a beam search: of the words that may follow each prefix, the best beam_size for each source.
 *
 * Rows are prefixes; the sequences of `scores` say which belong to a source. What comes out has two levels: which rows of
 * the step before belong to a source, and which candidates continue such a row. Backtracking (beam_search_decode.c)
 * needs no more than that. A prefix that has ended continues with itself; a source all of whose prefixes had ended
 * before has no candidates any more. */
#ifndef T

#include <math.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PRE_IDS, PRE_SCORES, IDS, SCORES };
enum { SELECTED_IDS, SELECTED_SCORES, PARENT };

typedef struct attrs {
    int32_t level, beam_size, end_id;
    bool    is_accumulated;
} attrs;

static const tr_op_proto proto = {
    .doc = "Selects, for each source, the best beam_size of the candidates that continue its prefixes.",
    .in = TR_SLOTS({"pre_ids", "[rows, 1] or [rows] int64: the last word of each prefix", TR_SLOT_ANY_TYPE},
                   {"pre_scores", "[rows, 1] or [rows] float: the score of each prefix"},
                   {"ids", "[rows, k] int64: the candidates; absent: 0 .. k - 1", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE},
                   {"scores", "[rows, k] float, with the sequences of sources: of the candidates"}),
    .out = TR_SLOTS({"selected_ids", "[selected, 1] int64, with two levels of sequences: rows of a source, candidates of a row", TR_SLOT_ANY_TYPE},
                    {"selected_scores", "[selected, 1], like selected_ids"},
                    {"parent_idx", "[selected] int32: the row that each one continues", TR_SLOT_OPTIONAL | TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, level, INT, "the level of scores' sequences that holds the sources", .required = true),
                       TR_ATTR(attrs, beam_size, INT, "how many are kept for a source", .required = true, .range = TR_GREATER(0)),
                       TR_ATTR(attrs, end_id, INT, "the word that ends a sentence", .required = true),
                       TR_ATTR(attrs, is_accumulated, BOOL, "scores are those of whole sentences; otherwise probabilities of the "
                               "candidates alone, whose logs are added to pre_scores", .number = 1)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *scores = &io->in[SCORES];

    TR_TRY(tr__check_rank(io, "scores", scores, 2));
    const int64_t rows = scores->shape.dim[0];
    TR_TRY(tr__check_ids(io, "pre_ids", &io->in[PRE_IDS], false));
    TR_TRY(tr__check_column(io, "pre_ids", &io->in[PRE_IDS], rows));
    TR_TRY(tr__check_column(io, "pre_scores", &io->in[PRE_SCORES], rows));
    if (io->in[IDS].kind != TR_KIND_NONE) {
        TR_TRY(tr__check_ids(io, "ids", &io->in[IDS], false));
        TR_TRY(tr__check_shape(io, "ids", &io->in[IDS], &scores->shape));
    }
    io->out[SELECTED_IDS] = tr__meta_with_sequences(TR_INT64, TR_SHAPE(-1, 1), 2);
    io->out[SELECTED_SCORES] = tr__meta_with_sequences(scores->dtype, TR_SHAPE(-1, 1), 2);
    if (io->out[PARENT].kind != TR_KIND_NONE)
        io->out[PARENT] = tr_meta_dense(TR_INT32, TR_SHAPE(-1));
    return TR_OK;
}

/* The row at which sequence `index` of a level begins: offsets of the levels below lead there. */
static int64_t first_row(const tr_tensor *x, int level, int64_t index)
{
    int64_t at = tr_tensor_lod_offsets(x, level)[index];

    for (int below = level + 1; below < tr_tensor_lod_levels(x); below++)
        at = tr_tensor_lod_offsets(x, below)[at];
    return at;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(beam_search, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(beam_search),
               .key = TR_KEY_IN_SLOT, .key_slot = SCORES);

#else /* the kernels, for each T */

typedef struct {
    int64_t row, id;
    T       score;
} NAME(candidate);

/* Into the list of the best, which is sorted; of equal ones the first to come stays ahead. */
static void NAME(insert)(NAME(candidate) *best, int64_t *count, int64_t beam_size, NAME(candidate) c)
{
    if (*count == beam_size && !(c.score > best[beam_size - 1].score))
        return;
    int64_t at = *count < beam_size ? (*count)++ : beam_size - 1;
    for (; at > 0 && c.score > best[at - 1].score; at--)
        best[at] = best[at - 1];
    best[at] = c;
}

/* The best of one source, whose prefixes are the rows [begin, end): returns how many. */
static int64_t NAME(best_of)(NAME(candidate) *best, const tr_run *io, int64_t begin, int64_t end)
{
    const attrs     *a = io->attrs;
    const tr_tensor *scores = io->in[SCORES], *ids = io->in[IDS];
    const int64_t   *pre_ids = io->in[PRE_IDS]->data, width = scores->shape.dim[1];
    const T         *pre_scores = io->in[PRE_SCORES]->data;
    int64_t          count = 0;
    bool             is_over = true;

    for (int64_t row = begin; row < end; row++) {
        if (pre_ids[row] == a->end_id) {
            NAME(insert)(best, &count, a->beam_size, (NAME(candidate)){row, a->end_id, pre_scores[row]});
            continue;
        }
        for (int64_t k = row * width; k < (row + 1) * width; k++) {
            const T score = ((const T *)scores->data)[k];
            NAME(insert)(best, &count, a->beam_size,
                         (NAME(candidate)){row, ids ? ((const int64_t *)ids->data)[k] : k - row * width,
                                           a->is_accumulated ? score : pre_scores[row] + (T)log((double)score)});
        }
    }
    for (int64_t i = 0; i < count && is_over; i++)
        is_over = best[i].id == a->end_id && pre_ids[best[i].row] == a->end_id;
    return is_over ? 0 : count;
}

/* Outputs: the candidates row by row, those of a row in the order of their scores. `next` is where a row's come next. */
static tr_status NAME(put)(const tr_run *io, const NAME(candidate) *best, int64_t count, const tr_sequences *sources,
                           const tr_sequences *rows, int64_t *next)
{
    tr_tensor *ids = io->out[SELECTED_IDS], *scores = io->out[SELECTED_SCORES], *parent = io->out[PARENT];

    TR_TRY(tr_run_resize(io, SELECTED_IDS, 0, TR_INT64, &TR_SHAPE(count, 1)));
    TR_TRY(tr_run_resize(io, SELECTED_SCORES, 0, io->in[SCORES]->dtype, &TR_SHAPE(count, 1)));
    if (parent)
        TR_TRY(tr_run_resize(io, PARENT, 0, TR_INT32, &TR_SHAPE(count)));
    memcpy(next, rows->offset, (size_t)rows->count * sizeof *next);
    for (int64_t i = 0; i < count; i++) {
        const int64_t at = next[best[i].row]++;
        ((int64_t *)ids->data)[at] = best[i].id;
        ((T *)scores->data)[at] = best[i].score;
        if (parent)
            ((int32_t *)parent->data)[at] = (int32_t)best[i].row;
    }
    const int64_t  counts[] = {sources->count + 1, rows->count + 1};
    const int64_t *offsets[] = {sources->offset, rows->offset};
    TR_TRY(tr_tensor_set_lod(ids, 2, counts, offsets));
    return tr_tensor_set_lod(scores, 2, counts, offsets);
}

static tr_status NAME(beam_search)(const tr_run *io)
{
    const attrs      *a = io->attrs;
    const int64_t     rows = io->in[SCORES]->shape.dim[0];
    tr_sequences      s;
    NAME(candidate)  *best;
    int64_t          *source, *row, *next, count = 0;

    TR_TRY(tr__sequences_at(&s, io, SCORES, a->level));
    const int level = a->level < 0 ? tr_tensor_lod_levels(io->in[SCORES]) - 1 : a->level;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&best, (size_t)(s.count * a->beam_size + 1) * sizeof *best}, {&source, (size_t)(s.count + 1) * sizeof *source},
        {&row, (size_t)(rows + 1) * sizeof *row}, {&next, (size_t)(rows + 1) * sizeof *next}, {NULL, 0}}));
    memset(row, 0, (size_t)(rows + 1) * sizeof *row);
    for (int64_t i = 0; i <= s.count; i++)
        source[i] = first_row(io->in[SCORES], level, i);
    for (int64_t i = 0; i < s.count; i++)
        count += NAME(best_of)(best + count, io, source[i], source[i + 1]);
    for (int64_t i = 0; i < count; i++)
        row[best[i].row + 1]++;
    for (int64_t r = 0; r < rows; r++)
        row[r + 1] += row[r];
    return NAME(put)(io, best, count, &(tr_sequences){s.count, source}, &(tr_sequences){rows, row}, next);
}

#endif
