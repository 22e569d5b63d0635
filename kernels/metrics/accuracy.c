/* accuracy.c - the share of rows whose label is among their k best guesses. */
#include "framework/operators/op.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/metric.h"

#include <inttypes.h>
#include <stdio.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { OUT, INDICES, LABEL };
enum { ACCURACY, CORRECT, TOTAL };

typedef struct attrs {
    int64_t num_classes;
} attrs;

static const tr_op_proto proto = {
    .doc = "The share of rows whose label is among their guesses, as top_k gives them.",
    .in = TR_SLOTS(TR_SLOT("Out", "like Indices", ", float; the scores of the guesses"),
                   TR_SLOT("Indices", "[n, k]", " int64; the guesses", TR_SLOT_INT64),
                   TR_SLOT("Label", "[n] or [n, 1]", " int64, from 0", TR_SLOT_INT64)),
    .out = TR_SLOTS(TR_SLOT("Accuracy", "[1]", " float32; Correct / Total, 0 of nothing", TR_SLOT_FP32),
                    TR_SLOT("Correct", "[1]", " int32; rows with a right guess", TR_SLOT_INT32),
                    TR_SLOT("Total", "[1]", " int32; rows", TR_SLOT_INT32)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, num_classes, LONG, "labels are below this; 0: not known", .range = TR_AT_LEAST(0))),
};

/* -- kernel ---------------------------------------------------------------------------------------- */
static tr_status check_labels(const tr_run *io, int64_t rows)
{
    const int64_t  known = ((const attrs *)io->attrs)->num_classes;
    const int64_t *label = io->in[LABEL]->data, bad = tr_rows_check(label, rows, known > 0 ? known : INT64_MAX, -1);
    char           below[32] = "";

    if (bad < 0)
        return TR_OK;
    if (known > 0)
        snprintf(below, sizeof below, " and below %" PRId64, known);
    return tr_fail(TR_ERANGE, "accuracy: the label of row %" PRId64 " in '%s' is %" PRId64 "; it must be at least 0%s", bad,
                   tr_run_in_name(io, LABEL, 0), label[bad], below);
}

static tr_status run(const tr_run *io)
{
    const tr_shape *guesses = &io->in[INDICES]->shape;
    const int64_t   rows = guesses->dim[0];

    TR_TRY(check_labels(io, rows));
    const int64_t   hits = tr_count_hits(io->in[INDICES]->data, io->in[LABEL]->data, rows, guesses->dim[1]);

    *(float *)io->out[ACCURACY]->data = rows > 0 ? (float)((double)hits / (double)rows) : 0.0f;
    *(int32_t *)io->out[CORRECT]->data = (int32_t)hits;
    *(int32_t *)io->out[TOTAL]->data = (int32_t)rows;
    return TR_OK;
}

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(accuracy, .proto = &proto, .run = run);
