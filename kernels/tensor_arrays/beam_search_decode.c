/* beam_search_decode.c - the sentences that a beam search found, from the arrays of what each step selected.
 *
 * A walk from the last step to the first: each sentence is at one candidate of a step; the sequences of that step say which
 * row of the step before it continues. A source whose sentences had all ended before the last step joins where it has
 * candidates again. */
#include <string.h>

#include "kernels/base/scratch.h"
#include "kernels/tensor_arrays/tensor_array.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { IDS, SCORES };
enum { SENTENCE_IDS, SENTENCE_SCORES };

typedef struct attrs {
    int32_t beam_size, end_id;
} attrs;

static const tr_op_proto proto = {
    .doc = "The sentences of a beam search, the best of each source first, each beginning with its first word.",
    .in = TR_SLOTS({"Ids", "a tensor array: selected_ids of each step of beam_search", TR_SLOT_ANY_KIND},
                   {"Scores", "a tensor array: selected_scores of each step", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"SentenceIds", "[words] int64, with two levels of sequences: sentences of a source, words of a sentence"},
                    {"SentenceScores", "[words], like SentenceIds: the score of the sentence up to each word"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, beam_size, INT, "sentences of a source", .required = true, .range = TR_GREATER(0)),
                       TR_ATTR(attrs, end_id, INT, "the word that ends a sentence", .required = true)),
};

static tr_status infer(const tr_infer *io)
{
    TR_TRY(tr__check_array(io, "Ids", &io->in[IDS]));
    TR_TRY(tr__check_array(io, "Scores", &io->in[SCORES]));
    io->out[SENTENCE_IDS] = tr_meta_dense(TR_INT64, TR_SHAPE(-1));
    io->out[SENTENCE_IDS].lod_level = 2;
    io->out[SENTENCE_SCORES] = tr_meta_dense(io->in[SCORES].dtype, TR_SHAPE(-1));
    io->out[SENTENCE_SCORES].lod_level = 2;
    return TR_OK;
}

/* -- the walk ------------------------------------------------------------------------------------- */

/* Sentences, last word first: sentence k of source s is number s * beam_size + k. */
typedef struct search {
    const tr_run *io;
    int64_t       sources, steps;
    int64_t      *found;              /* [sources]: sentences so far */
    int64_t      *at;                 /* [sentences]: the candidate, in the step that the walk is at */
    int64_t      *length;             /* [sentences] */
    int64_t      *word;               /* [sentences][steps] */
    double       *score;              /* [sentences][steps] */
} search;

static double score_at(const tr_tensor *scores, int64_t i)
{
    return scores->dtype == TR_FP64 ? ((const double *)scores->data)[i] : (double)((const float *)scores->data)[i];
}

static void add_word(search *w, int64_t sentence, const tr_tensor *ids, const tr_tensor *scores, int64_t candidate)
{
    const int64_t at = sentence * w->steps + w->length[sentence]++;

    w->word[at] = ((const int64_t *)ids->data)[candidate];
    w->score[at] = score_at(scores, candidate);
}

/* A source that has no sentences yet: each of its candidates begins one. */
static void begin_sentences(search *w, int64_t source, const tr_tensor *ids, const tr_tensor *scores)
{
    const attrs   *a = w->io->attrs;
    const int64_t *rows = tr_tensor_lod_offsets(ids, 0), *candidates = tr_tensor_lod_offsets(ids, 1);

    for (int64_t row = rows[source]; row < rows[source + 1]; row++)
        for (int64_t c = candidates[row]; c < candidates[row + 1] && w->found[source] < a->beam_size; c++) {
            const int64_t sentence = source * a->beam_size + w->found[source]++;
            w->at[sentence] = row;
            add_word(w, sentence, ids, scores, c);
        }
}

/* One step back of a source's sentences; the end of a sentence is taken once. */
static void continue_sentences(search *w, int64_t source, const tr_tensor *ids, const tr_tensor *scores)
{
    const attrs   *a = w->io->attrs;
    const int64_t *rows = tr_tensor_lod_offsets(ids, 0), *candidates = tr_tensor_lod_offsets(ids, 1);

    for (int64_t k = 0; k < w->found[source]; k++) {
        const int64_t sentence = source * a->beam_size + k, candidate = w->at[sentence];
        int64_t       row = rows[source];
        if (((const int64_t *)ids->data)[candidate] != a->end_id)
            add_word(w, sentence, ids, scores, candidate);
        while (row + 1 < rows[source + 1] && candidates[row + 1] <= candidate)
            row++;
        w->at[sentence] = row;
    }
}

/* Fails where a step cannot be one of a beam search. *rows: of the step after it; each continues a candidate of this one. */
static tr_status step_of(tr_tensor **ids, tr_tensor **scores, int64_t *rows, const tr_run *io, int64_t step, int64_t sources)
{
    TR_TRY(tr__array_get(ids, io, IDS, step));
    TR_TRY(tr__array_get(scores, io, SCORES, step));
    if (tr_tensor_lod_levels(*ids) != 2 || tr_tensor_lod_count(*ids, 0) - 1 != sources || (*ids)->dtype != TR_INT64 ||
        tr_tensor_count(*scores) != tr_tensor_count(*ids) || tr_tensor_count(*ids) < *rows)
        return tr_fail(TR_EINVAL, "beam_search_decode: element %lld of '%s' and '%s' must be selected_ids and selected_scores of "
                       "a beam_search with %lld sources, whose candidates the next step continues", (long long)step,
                       tr_run_in_name(io, IDS, 0), tr_run_in_name(io, SCORES, 0), (long long)sources);
    *rows = tr_tensor_lod_offsets(*ids, 0)[sources];
    return TR_OK;
}

static tr_status walk(search *w)
{
    tr_tensor *ids, *scores;
    int64_t    rows = 0;

    for (int64_t step = w->steps - 1; step >= 0; step--) {
        TR_TRY(step_of(&ids, &scores, &rows, w->io, step, w->sources));
        for (int64_t source = 0; source < w->sources; source++)
            if (w->found[source] == 0)
                begin_sentences(w, source, ids, scores);
            else
                continue_sentences(w, source, ids, scores);
    }
    return TR_OK;
}

/* -- the result ------------------------------------------------------------------------------------- */

/* The sentences of a source by their last score, the best first; equal ones as they come. */
static void sort_sentences(const search *w, int64_t *order, int64_t first, int64_t count)
{
    for (int64_t k = 0; k < count; k++) {
        int64_t at = k;
        for (; at > 0 && w->score[(first + k) * w->steps] > w->score[order[at - 1] * w->steps]; at--)
            order[at] = order[at - 1];
        order[at] = first + k;
    }
}

static void put_sentence(const search *w, int64_t sentence, int64_t to)
{
    tr_tensor *ids = w->io->out[SENTENCE_IDS], *scores = w->io->out[SENTENCE_SCORES];

    for (int64_t k = w->length[sentence] - 1; k >= 0; k--, to++) {
        ((int64_t *)ids->data)[to] = w->word[sentence * w->steps + k];
        if (scores->dtype == TR_FP64)
            ((double *)scores->data)[to] = w->score[sentence * w->steps + k];
        else
            ((float *)scores->data)[to] = (float)w->score[sentence * w->steps + k];
    }
}

/* `groups` and `offsets`: room for both levels; `order` for the sentences of all sources. */
static tr_status put(const search *w, tr_dtype dtype, int64_t *groups, int64_t *offsets, int64_t *order)
{
    const attrs *a = w->io->attrs;
    int64_t      sentences = 0;

    groups[0] = offsets[0] = 0;
    for (int64_t source = 0; source < w->sources; source++) {
        sort_sentences(w, order + sentences, source * a->beam_size, w->found[source]);
        for (int64_t k = 0; k < w->found[source]; k++, sentences++)
            offsets[sentences + 1] = offsets[sentences] + w->length[order[sentences]];
        groups[source + 1] = sentences;
    }
    TR_TRY(tr_run_resize(w->io, SENTENCE_IDS, 0, TR_INT64, &TR_SHAPE(offsets[sentences])));
    TR_TRY(tr_run_resize(w->io, SENTENCE_SCORES, 0, dtype, &TR_SHAPE(offsets[sentences])));
    for (int64_t k = 0; k < sentences; k++)
        put_sentence(w, order[k], offsets[k]);
    const int64_t  counts[] = {w->sources + 1, sentences + 1};
    const int64_t *levels[] = {groups, offsets};
    TR_TRY(tr_tensor_set_lod(w->io->out[SENTENCE_IDS], 2, counts, levels));
    return tr_tensor_set_lod(w->io->out[SENTENCE_SCORES], 2, counts, levels);
}

static tr_status run(const tr_run *io)
{
    const attrs *a = io->attrs;
    search       w = {.io = io};
    tr_tensor   *first, *scores;
    int64_t     *groups, *offsets, *order;

    TR_TRY(tr__array_get(&first, io, IDS, 0));
    TR_TRY(tr__array_get(&scores, io, SCORES, 0));
    while (tr__array_find(io->in[IDS], w.steps))
        w.steps++;
    w.sources = tr_tensor_lod_levels(first) > 0 ? tr_tensor_lod_count(first, 0) - 1 : 0;
    const size_t sentences = (size_t)(w.sources * a->beam_size + 1), words = sentences * (size_t)w.steps;
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&w.found, (size_t)(w.sources + 1) * sizeof(int64_t)}, {&w.at, sentences * sizeof(int64_t)},
        {&w.length, sentences * sizeof(int64_t)}, {&w.word, words * sizeof(int64_t)}, {&w.score, words * sizeof(double)},
        {&groups, (size_t)(w.sources + 1) * sizeof(int64_t)}, {&offsets, (sentences + 1) * sizeof(int64_t)},
        {&order, sentences * sizeof(int64_t)}, {NULL, 0}}));
    memset(w.found, 0, (size_t)(w.sources + 1) * sizeof(int64_t));
    memset(w.length, 0, sentences * sizeof(int64_t));
    TR_TRY(walk(&w));
    return put(&w, scores->dtype, groups, offsets, order);
}

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(beam_search_decode, .proto = &proto, .infer = infer, .run = run);
