/* mean_iou.c - the mean over classes of intersection over union: of the elements that were predicted as a class, and those that belong to it.
 *
 * For each class, OutCorrect counts the elements that belong to it and were predicted as it, OutWrong the elements with only one of the two. The
 * ratio is OutCorrect / (OutCorrect + OutWrong). Classes that neither the predictions nor the labels have do not count. Counts of batches
 * before are added: InCorrects and InWrongs before the ratios, InMeanIou to the mean. */
#include <inttypes.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/tools/cast.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PREDICTIONS, LABELS, IN_WRONGS, IN_CORRECTS, IN_MEAN_IOU };
enum { OUT_MEAN_IOU, OUT_WRONG, OUT_CORRECT };

typedef struct attrs {
    int32_t num_classes;
} attrs;

static const tr_op_proto proto = {
    .doc = "The mean over classes of intersection over union: OutCorrect / (OutCorrect + OutWrong), of classes that occur.",
    .in = TR_SLOTS({"Predictions", "int32 or int64 class numbers, of any shape", TR_SLOT_INDEX},
                   TR_SLOT("Labels", "like Predictions", "; the truth", TR_SLOT_INDEX),
                   {"InWrongs", "[num_classes] int32; counts that are added to OutWrong", TR_SLOT_OPTIONAL | TR_SLOT_REPEATED | TR_SLOT_INT32},
                   {"InCorrects", "[num_classes] int32; counts that are added to OutCorrect", TR_SLOT_OPTIONAL | TR_SLOT_REPEATED | TR_SLOT_INT32},
                   TR_SLOT("InMeanIou", "[1]", " float32; numbers that are added to OutMeanIou", TR_SLOT_OPTIONAL | TR_SLOT_REPEATED | TR_SLOT_FP32)),
    .out = TR_SLOTS(TR_SLOT("OutMeanIou", "[1]", " float32; 0 where no class occurs", TR_SLOT_FP32),
                    {"OutWrong", "[num_classes] int32; of each class, elements that only the prediction or only the label says it is", TR_SLOT_ANY_TYPE},
                    {"OutCorrect", "[num_classes] int32; of each class, elements that both say it is", TR_SLOT_ANY_TYPE}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_classes, INT, "how many classes there are", .required = true, .range = TR_GREATER(0))),
};

static tr_status check_counts(const tr_infer *io, const char *name, int slot, int64_t classes)
{
    for (int i = 0; i < io->ins[slot].count; i++)
        TR_TRY(tr__check_shape(io, name, &io->ins[slot].item[i], &TR_SHAPE(classes)));
    return TR_OK;
}

static tr_status infer(const tr_infer *io)
{
    const int64_t classes = ((const attrs *)io->attrs)->num_classes;

    TR_TRY(check_counts(io, "InWrongs", IN_WRONGS, classes));
    TR_TRY(check_counts(io, "InCorrects", IN_CORRECTS, classes));
    io->out[OUT_WRONG] = io->out[OUT_CORRECT] = tr_meta_dense(TR_INT32, TR_SHAPE(classes));
    return TR_OK;
}

/* -- kernel ---------------------------------------------------------------------------------------- */

/* Class numbers as int64, checked. */
static tr_status numbers_of(int64_t *out, const tr_run *io, int slot, int64_t count)
{
    const int64_t classes = ((const attrs *)io->attrs)->num_classes;

    tr_cast(out, TR_INT64, io->in[slot]->data, io->in[slot]->dtype, count);
    const int64_t bad = tr_rows_check(out, count, classes, -1);
    return bad < 0 ? TR_OK : tr_fail(TR_ERANGE, "mean_iou: element %" PRId64 " of '%s' is %" PRId64 "; it must be in [0, %" PRId64 ")", bad,
                                     tr_run_in_name(io, slot, 0), out[bad], classes);
}

static void add_all(int32_t *out, const tr_args *list, int64_t count)
{
    for (int i = 0; i < list->count; i++)
        for (int64_t k = 0; k < count; k++)
            out[k] = (int32_t)((uint32_t)out[k] + (uint32_t)((const int32_t *)list->item[i]->data)[k]);
}

static double mean_of(const int32_t *correct, const int32_t *wrong, int64_t classes)
{
    double  sum = 0;
    int64_t found = 0;

    for (int64_t k = 0; k < classes; k++) {
        const double both = (double)correct[k] + (double)wrong[k];
        if (both > 0) {
            sum += (double)correct[k] / both;
            found++;
        }
    }
    return found > 0 ? sum / (double)found : 0;
}

static tr_status run(const tr_run *io)
{
    const int64_t classes = ((const attrs *)io->attrs)->num_classes, count = tr_tensor_count(io->in[PREDICTIONS]);
    int32_t      *wrong = io->out[OUT_WRONG]->data, *correct = io->out[OUT_CORRECT]->data;
    int64_t      *guess = NULL, *label = NULL;

    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&guess, (size_t)count * sizeof *guess}, {&label, (size_t)count * sizeof *label}, {NULL, 0}}));
    TR_TRY(numbers_of(guess, io, PREDICTIONS, count));
    TR_TRY(numbers_of(label, io, LABELS, count));
    memset(wrong, 0, (size_t)classes * sizeof *wrong);
    memset(correct, 0, (size_t)classes * sizeof *correct);
    for (int64_t i = 0; i < count; i++)
        if (guess[i] == label[i]) {
            correct[guess[i]]++;
        } else {
            wrong[guess[i]]++;
            wrong[label[i]]++;
        }
    add_all(wrong, &io->ins[IN_WRONGS], classes);
    add_all(correct, &io->ins[IN_CORRECTS], classes);
    double mean = mean_of(correct, wrong, classes);
    for (int i = 0; i < io->ins[IN_MEAN_IOU].count; i++)
        mean += (double)*(const float *)io->ins[IN_MEAN_IOU].item[i]->data;
    *(float *)io->out[OUT_MEAN_IOU]->data = (float)mean;
    return TR_OK;
}

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(mean_iou, .proto = &proto, .infer = infer, .run = run);
