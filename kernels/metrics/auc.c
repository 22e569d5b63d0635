/* auc.c - the area under the ROC or precision-recall curve of yes-or-no predictions.
 *
 * StatPos and StatNeg count the examples by prediction, in num_thresholds + 1 buckets. With slide_steps = 0 they sum
 * up all batches so far; with s > 0 they hold one row of counts for each of the last s batches, the newest last.
 * StatPosOut and StatNegOut are the same variables. */
#ifndef T

#include <inttypes.h>
#include <string.h>

#include "framework/operators/op.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/training/metric.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PREDICT, LABEL, STAT_POS, STAT_NEG };
enum { AUC, STAT_POS_OUT, STAT_NEG_OUT };

typedef struct attrs {
    enum { CURVE_ROC, CURVE_PR } curve;
    int32_t num_thresholds, slide_steps;
} attrs;

static const tr_op_proto proto = {
    .doc = "The area under the curve of yes-or-no predictions, over all batches or a window of them.",
    .in = TR_SLOTS(TR_SLOT("Predict", "[n, 2]", " float; the probabilities of no and yes"),
                   TR_SLOT("Label", "[n] or [n, 1]", " int64; 0 is no, 1 is yes", TR_SLOT_INT64),
                   {"StatPos", "[max(slide_steps, 1), num_thresholds + 1] int64; counts of yes by prediction", TR_SLOT_INT64},
                   {"StatNeg", "like StatPos; counts of no", TR_SLOT_INT64}),
    .out = TR_SLOTS(TR_SLOT("AUC", "[1]", " float64", TR_SLOT_FP64),
                    TR_SLOT("StatPosOut", "like StatPos", "; the same variable", TR_SLOT_ANY_TYPE),
                    TR_SLOT("StatNegOut", "like StatNeg", "; the same variable", TR_SLOT_ANY_TYPE)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, curve, STRING, "which curve", .text = "ROC", .range = TR_ONE_OF({"ROC", CURVE_ROC}, {"PR", CURVE_PR})),
                       TR_ATTR(attrs, num_thresholds, INT, "thresholds of the curve", .number = (2 << 12) - 1,
                               .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, slide_steps, INT, "batches in the window; 0: all", .number = 1,
                               .range = TR_AT_LEAST(0))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static int64_t bucket_count(const attrs *a) { return (int64_t)a->num_thresholds + 1; }
static int64_t row_count(const attrs *a)    { return a->slide_steps > 0 ? a->slide_steps : 1; }

static tr_status check_stat(const tr_infer *io, const char *slot, const tr_meta *stat)
{
    const attrs  *a = io->attrs;
    const int64_t count = tr_shape_numel(&stat->shape);

    if (count >= 0 && count != row_count(a) * bucket_count(a))
        return tr_fail(TR_ESHAPE, "%s: %s must be [%" PRId64 ", %" PRId64 "] for num_thresholds %d and slide_steps %d, "
                       "got %s", io->type, slot, row_count(a), bucket_count(a), a->num_thresholds, a->slide_steps,
                       TR_SHAPE_STR(stat->shape));
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    TR_TRY(check_stat(io, "StatPos", &io->in[STAT_POS]));
    return check_stat(io, "StatNeg", &io->in[STAT_NEG]);
}

/* Take a batch's counts in, and give back the sum of the window in `batch`. */
static void slide(int64_t *stat, const int64_t *before, int64_t *batch, const attrs *a)
{
    const int64_t buckets = bucket_count(a), rows = row_count(a);

    if (a->slide_steps == 0) {
        tr_binary_apply_i64(TR_BINARY_ADD, batch, batch, before, 1, buckets, 1);
        memcpy(stat, batch, (size_t)buckets * sizeof *stat);
        return;
    }
    memmove(stat, before + buckets, (size_t)((rows - 1) * buckets) * sizeof *stat);
    memcpy(stat + (rows - 1) * buckets, batch, (size_t)buckets * sizeof *stat);
    tr_reduce_apply_i64(TR_REDUCE_SUM, batch, stat, 1, rows, buckets);
}

static double area(const attrs *a, const int64_t *positive, const int64_t *negative)
{
    return a->curve == CURVE_ROC ? tr_roc_area(positive, negative, bucket_count(a))
                                : tr_pr_area(positive, negative, bucket_count(a));
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(auc, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(auc),
               .inplace = {{STAT_POS, STAT_POS_OUT}, {STAT_NEG, STAT_NEG_OUT}}, .inplace_count = 2);

#else /* the kernel, for each T */

static tr_status NAME(auc)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *predict = io->in[PREDICT];
    const T         *p = predict->data;
    const int64_t    buckets = bucket_count(a);
    int64_t         *positive;

    TR_TRY(tr_run_scratch((void **)&positive, io, 2 * (size_t)buckets * sizeof *positive));
    int64_t *negative = positive + buckets;
    memset(positive, 0, 2 * (size_t)buckets * sizeof *positive);
    const int64_t *label = io->in[LABEL]->data;
    const int64_t  bad = NAME(tr_count_buckets)(positive, negative, p + 1, 2, label, predict->shape.dim[0], buckets);
    if (bad >= 0 && (label[bad] | 1) != 1)
        return tr_fail(TR_ERANGE, "auc: the label of row %" PRId64 " in '%s' is %" PRId64 "; it must be 0 or 1", bad,
                       tr_run_in_name(io, LABEL, 0), label[bad]);
    if (bad >= 0)
        return tr_fail(TR_ERANGE, "auc: the prediction of row %" PRId64 " of '%s' is %g, no probability", bad,
                       tr_run_in_name(io, PREDICT, 0), (double)p[2 * bad + 1]);
    slide(io->out[STAT_POS_OUT]->data, io->in[STAT_POS]->data, positive, a);
    slide(io->out[STAT_NEG_OUT]->data, io->in[STAT_NEG]->data, negative, a);
    *(double *)io->out[AUC]->data = area(a, positive, negative);
    return TR_OK;
}

#endif
