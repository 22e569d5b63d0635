/* positive_negative_pair.c - how many pairs of a query's items are in the right order by their scores.
 *
 * Of two rows of one query whose labels differ: the pair is positive where the row with the higher label has the higher score, negative where it
 * has the lower one, neutral where the scores are equal. It counts the mean of the two rows' weights. */
#ifndef T

#include <stdlib.h>

#include "framework/operators/op.h"
#include "kernels/base/scratch.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { SCORE, LABEL, QUERY, IN_POSITIVE, IN_NEGATIVE, IN_NEUTRAL, WEIGHT };
enum { POSITIVE, NEGATIVE, NEUTRAL };

typedef struct attrs {
    int32_t column;
} attrs;

static const tr_op_proto proto = {
    .doc = "Counts pairs of rows of one query: with the scores in the order of the labels, in the opposite order, and with equal scores.",
    .in = TR_SLOTS(TR_SLOT("Score", "[n, width]", " float"), TR_SLOT("Label", "[n] or [n, 1]", " like Score; higher is better"),
                   TR_SLOT("QueryID", "[n] or [n, 1]", " int64; rows of one number are one query's", TR_SLOT_INT64),
                   TR_SLOT("AccumulatePositivePair", "[1] or [1, 1]", " like Score; added to PositivePair", TR_SLOT_OPTIONAL),
                   TR_SLOT("AccumulateNegativePair", "[1] or [1, 1]", " like Score; added to NegativePair", TR_SLOT_OPTIONAL),
                   TR_SLOT("AccumulateNeutralPair", "[1] or [1, 1]", " like Score; added to NeutralPair", TR_SLOT_OPTIONAL),
                   TR_SLOT("Weight", "[n] or [n, 1]", " like Score; what each row counts, 1 without", TR_SLOT_OPTIONAL)),
    .out = TR_SLOTS(TR_SLOT("PositivePair", "[1]", " like Score"), TR_SLOT("NegativePair", "[1]", " like Score"),
                    TR_SLOT("NeutralPair", "[1]", " like Score", TR_SLOT_OPTIONAL)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, column, INT, "which column of Score counts; below 0: from the last one")),
};

static tr_status infer(const tr_infer *io)
{
    const int64_t width = io->in[SCORE].shape.dim[1];
    const int32_t column = ((const attrs *)io->attrs)->column;

    if (width >= 0 && (column >= width || column < -width))
        return tr_fail(TR_ERANGE, "%s: Score is %s and has no column %d", io->type, TR_SHAPE_STR(io->in[SCORE].shape), column);
    return TR_OK;
}

/* -- queries --------------------------------------------------------------------------------------- */
typedef struct item {
    int64_t query, row;
} item;

/* By query, and of one query in the order of the rows. */
static int compare(const void *a_, const void *b_)
{
    const item *a = a_, *b = b_;
    return a->query != b->query ? (a->query > b->query) - (a->query < b->query) : (a->row > b->row) - (a->row < b->row);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(positive_negative_pair, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(positive_negative_pair),
               .inplace = {{IN_POSITIVE, POSITIVE}, {IN_NEGATIVE, NEGATIVE}, {IN_NEUTRAL, NEUTRAL}}, .inplace_count = 3);

#else /* the kernel, for each T */

static double NAME(value)(const tr_tensor *x, int64_t at, double otherwise)
{
    return x ? (double)((const T *)x->data)[at] : otherwise;
}

/* Count the pair of two rows. */
static void NAME(count_pair)(double *count, const tr_run *io, int64_t a, int64_t b)
{
    const int64_t width = io->in[SCORE]->shape.dim[1];
    const int32_t column = ((const attrs *)io->attrs)->column;
    const int64_t at = column < 0 ? column + width : column;
    const double  label = NAME(value)(io->in[LABEL], a, 0) - NAME(value)(io->in[LABEL], b, 0);
    const double  score = NAME(value)(io->in[SCORE], a * width + at, 0) - NAME(value)(io->in[SCORE], b * width + at, 0);

    if (label > 0 || label < 0)
        count[score > 0 || score < 0 ? ((score > 0) == (label > 0) ? POSITIVE : NEGATIVE) : NEUTRAL] +=
            (NAME(value)(io->in[WEIGHT], a, 1) + NAME(value)(io->in[WEIGHT], b, 1)) / 2;
}

static tr_status NAME(positive_negative_pair)(const tr_run *io)
{
    const int64_t rows = io->in[SCORE]->shape.dim[0];
    double        count[NEUTRAL + 1];
    item         *items;

    for (int slot = POSITIVE; slot <= NEUTRAL; slot++)
        count[slot] = NAME(value)(io->in[IN_POSITIVE + slot], 0, 0);
    TR_TRY(tr_run_scratch((void **)&items, io, (size_t)(rows + 1) * sizeof *items));
    for (int64_t i = 0; i < rows; i++)
        items[i] = (item){((const int64_t *)io->in[QUERY]->data)[i], i};
    qsort(items, (size_t)rows, sizeof *items, compare);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = i + 1; k < rows && items[k].query == items[i].query; k++)
            NAME(count_pair)(count, io, items[i].row, items[k].row);
    for (int slot = POSITIVE; slot <= NEUTRAL; slot++)
        if (io->out[slot])
            *(T *)io->out[slot]->data = (T)count[slot];
    return TR_OK;
}

#endif
