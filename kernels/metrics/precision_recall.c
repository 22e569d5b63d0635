/* precision_recall.c - precision, recall and F1 score of each class's yes and no, averaged over classes and over all cases.
 *
 * A row that is of class l and was predicted as class p counts (with its weight) for each class: as a true positive of l where p == l, else as
 * a false negative of l and a false positive of p; as a true negative of all other classes. Where there is nothing to be found or nothing was
 * found, precision and recall are 1, as in Fluid. Metrics are those of the batch, and those of the batch and StatesInfo together. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/cast.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { MAX_PROBS, INDICES, LABELS, WEIGHTS, STATES };
enum { BATCH_METRICS, ACCUM_METRICS, ACCUM_STATES };
enum { TP, FP, TN, FN, STATE_COUNT };
enum { METRICS = 6 };

typedef struct attrs {
    int32_t class_number;
} attrs;

static const tr_op_proto proto = {
    .doc = "Precision, recall and F1 score: the first three are means over classes, the last three of all cases together.",
    .in = TR_SLOTS(TR_SLOT("MaxProbs", "[n] or [n, 1]", " float; the score of the prediction, whose type counts alone"),
                   TR_SLOT("Indices", "[n] or [n, 1]", " int32 or int64; the predicted classes", TR_SLOT_INDEX),
                   TR_SLOT("Labels", "[n] or [n, 1]", " int32 or int64; the classes", TR_SLOT_INDEX),
                   TR_SLOT("Weights", "[n] or [n, 1]", " like MaxProbs; what each row counts, 1 without", TR_SLOT_OPTIONAL),
                   {"StatesInfo", "[class_number, 4] like MaxProbs; true positives, false positives, true negatives, false negatives so far",
                    TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS(TR_SLOT("BatchMetrics", "[6]", " float64; of this batch", TR_SLOT_FP64),
                    TR_SLOT("AccumMetrics", "[6]", " float64; of this batch and StatesInfo", TR_SLOT_FP64),
                    {"AccumStatesInfo", "[class_number, 4]; StatesInfo and this batch, may be the same variable"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, class_number, INT, "how many classes there are", .required = true, .range = TR_GREATER(0))),
};

static tr_status infer(const tr_infer *io)
{
    const tr_shape all = TR_SHAPE(((const attrs *)io->attrs)->class_number, STATE_COUNT);

    io->out[ACCUM_STATES] = tr_meta_dense(io->in[MAX_PROBS].dtype, all);
    return io->in[STATES].kind == TR_KIND_NONE ? TR_OK : tr__check_shape(io, "StatesInfo", &io->in[STATES], &all);
}

/* -- formulas -------------------------------------------------------------------------------------- */
static double share(double right, double wrong)
{
    return right + wrong > 0 ? right / (right + wrong) : 1;
}

static double f1_score(double precision, double recall)
{
    return precision + recall > 0 ? 2 * precision * recall / (precision + recall) : 0;
}

static void put_metrics(double *out, const double *state, int64_t classes)
{
    double precision = 0, recall = 0, all[STATE_COUNT] = {0};

    for (int64_t k = 0; k < classes; k++, state += STATE_COUNT) {
        precision += share(state[TP], state[FP]);
        recall += share(state[TP], state[FN]);
        for (int i = 0; i < STATE_COUNT; i++)
            all[i] += state[i];
    }
    out[0] = precision / (double)classes;
    out[1] = recall / (double)classes;
    out[2] = f1_score(out[0], out[1]);
    out[3] = share(all[TP], all[FP]);
    out[4] = share(all[TP], all[FN]);
    out[5] = f1_score(out[3], out[4]);
}

static tr_status numbers_of(int64_t *out, const tr_run *io, int slot, int64_t rows, int64_t classes)
{
    tr_cast(out, TR_INT64, io->in[slot]->data, io->in[slot]->dtype, rows);
    const int64_t bad = tr_rows_check(out, rows, classes, -1);
    return bad < 0 ? TR_OK : tr_fail(TR_ERANGE, "precision_recall: row %" PRId64 " of '%s' is %" PRId64 "; it must be in [0, %" PRId64 ")", bad,
                                     tr_run_in_name(io, slot, 0), out[bad], classes);
}

/* A row is a true negative of all classes but two (or one): begin with the weight of all rows, and take those away. */
static void count_row(double *state, int64_t guess, int64_t label, double weight)
{
    state[guess * STATE_COUNT + TN] -= weight;
    if (guess == label) {
        state[guess * STATE_COUNT + TP] += weight;
    } else {
        state[label * STATE_COUNT + TN] -= weight;
        state[label * STATE_COUNT + FN] += weight;
        state[guess * STATE_COUNT + FP] += weight;
    }
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration --------------------------------------------------------------------------------- */
TR_REGISTER_OP(precision_recall, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(precision_recall), .inplace = {{STATES, ACCUM_STATES}},
               .inplace_count = 1);

#else /* the kernel, for each T */

static tr_status NAME(precision_recall)(const tr_run *io)
{
    const int64_t    rows = io->in[MAX_PROBS]->shape.dim[0], classes = ((const attrs *)io->attrs)->class_number;
    const tr_tensor *weights = io->in[WEIGHTS], *before = io->in[STATES];
    int64_t         *guess = NULL, *label = NULL;
    double          *state = NULL, total = 0;
    T               *after = io->out[ACCUM_STATES]->data;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&guess, (size_t)rows * sizeof *guess}, {&label, (size_t)rows * sizeof *label},
        {&state, (size_t)(classes * STATE_COUNT) * sizeof *state}, {NULL, 0}}));
    TR_TRY(numbers_of(guess, io, INDICES, rows, classes));
    TR_TRY(numbers_of(label, io, LABELS, rows, classes));
    memset(state, 0, (size_t)(classes * STATE_COUNT) * sizeof *state);
    for (int64_t i = 0; i < rows; i++) {
        const double weight = weights ? (double)((const T *)weights->data)[i] : 1;
        total += weight;
        count_row(state, guess[i], label[i], weight);
    }
    for (int64_t k = 0; k < classes; k++)
        state[k * STATE_COUNT + TN] += total;
    put_metrics(io->out[BATCH_METRICS]->data, state, classes);
    for (int64_t k = 0; k < classes * STATE_COUNT; k++) {
        state[k] += before ? (double)((const T *)before->data)[k] : 0;
        after[k] = (T)state[k];
    }
    put_metrics(io->out[ACCUM_METRICS]->data, state, classes);
    return TR_OK;
}

#endif
