/* warpctc.c - connectionist temporal classification: see kernels/math/sequences/ctc.h.
 *
 * Forward makes the gradient along with the cost, since both come from the same sums; backward only scales it. */
#ifndef T

#include "kernels/base/check.h"
#include "kernels/base/scratch.h"
#include "kernels/math/sequences/ctc.h"
#include "kernels/sequences/sequence.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { LOGITS, LABEL };
enum { GRAD, LOSS };
enum { G_LOGITS, G_GRAD, G_DLOSS };
enum { G_DLOGITS };

typedef struct attrs {
    int32_t blank;
    bool    norm_by_times;
} attrs;

static const tr_op_proto proto = {
    .doc = "The cost of labels whose alignment with a longer sequence is not known (connectionist temporal classification).",
    .in = TR_SLOTS(TR_SLOT("Logits", "[rows, classes]", " float, of sequences: before the softmax"),
                   TR_SLOT("Label", "[labels, 1]", " int32, of as many sequences: classes other than blank", TR_SLOT_INT32)),
    .out = TR_SLOTS({"WarpCTCGrad", "like Logits: the gradient of the sum of all costs", TR_SLOT_INTERMEDIATE},
                    {"Loss", "[sequences, 1]; without a gradient where it is 0, since a sequence is too short for its labels, or infinite, "
                             "since scores of -infinity rule them out"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, blank, INT, "the class that stands for no label", .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, norm_by_times, BOOL, "divide the gradient (not the cost) by the rows of each sequence"),
                       TR_ATTR_IGNORED("use_cudnn", BOOL)),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_meta *logits = &io->in[LOGITS];

    if (logits->shape.dim[1] >= 0 && a->blank >= logits->shape.dim[1])
        return tr_fail(TR_ERANGE, "%s: blank is %d; it must be one of the classes of Logits %s", io->type, a->blank,
                       TR_SHAPE_STR(logits->shape));
    io->out[GRAD] = tr_meta_dense(logits->dtype, logits->shape);
    io->out[LOSS] = tr_meta_dense(logits->dtype, TR_SHAPE(-1, 1));
    return TR_OK;
}

/* Label, which the gradient does not read, would be needed to infer the forward operator. */
static tr_status infer_grad(const tr_infer *io)
{
    const tr_meta *logits = &io->in[G_LOGITS], loss = tr_meta_dense(logits->dtype, TR_SHAPE(-1, 1));

    TR_TRY(tr__check_rank(io, "Logits", logits, 2));
    TR_TRY(tr__check_like(io, "WarpCTCGrad", &io->in[G_GRAD], logits));
    TR_TRY(tr__check_like(io, "Loss@GRAD", &io->in[G_DLOSS], &loss));
    return TR_OK;
}

static tr_status check_labels(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *label = io->in[LABEL];
    const int64_t    classes = io->in[LOGITS]->shape.dim[1];

    for (int64_t i = 0; i < tr_tensor_count(label); i++) {
        const int32_t one = ((const int32_t *)label->data)[i];
        if (one < 0 || one >= classes || one == a->blank)
            return tr_fail(TR_ERANGE, "warpctc: label %d in row %lld of '%s' must be one of the %lld classes other than blank, %d",
                           one, (long long)i, tr_run_in_name(io, LABEL, 0), (long long)classes, a->blank);
    }
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "warpctc_grad", .reads = {TR_IN_SHAPE(LOGITS), TR_OUT(GRAD), TR_DOUT(LOSS)}, .makes = {TR_DIN(LOGITS)},
};

TR_REGISTER_OP(warpctc, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(warpctc), .grad = &grad);
TR_REGISTER_OP(warpctc_grad, .grad_of = &tr_op_record_warpctc, .infer = infer_grad, .kernels = TR_FLOAT_KERNELS(warpctc_grad),
               .key = TR_KEY_IN_SLOT, .key_slot = G_GRAD);

#else /* the kernels, for each T */

static tr_status NAME(warpctc)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[LOGITS], *kept = io->out[GRAD];
    T               *dx = kept ? kept->data : NULL;
    tr_sequences     rows, labels;
    int64_t         *work_at;
    double          *work = NULL;

    TR_TRY(tr__sequences_of(&rows, io, LOGITS, 0));
    TR_TRY(tr__sequences_of(&labels, io, LABEL, 0));
    TR_TRY(tr__sequences_check_count(io, LOGITS, &rows, LABEL, &labels));
    TR_TRY(check_labels(io));
    TR_TRY(tr_run_resize(io, LOSS, 0, x->dtype, &TR_SHAPE(rows.count, 1)));
    /* Twice: the first time to learn how much is needed. */
    TR_TRY(tr_run_scratch((void **)&work_at, io, (size_t)(rows.count + 1) * sizeof *work_at));
    const int64_t doubles = tr_ctc_work(work_at, rows.offset, labels.offset, rows.count);
    TR_TRY(tr__scratch_pieces(io, (const tr_piece[]){
        {&work_at, (size_t)(rows.count + 1) * sizeof *work_at}, {&work, (size_t)(doubles + 1) * sizeof *work},
        {&dx, kept ? 0 : (size_t)tr_tensor_bytes(x)}, {NULL, 0}}));
    tr_ctc_work(work_at, rows.offset, labels.offset, rows.count);
    const NAME(tr_ctc) c = {x->data, rows.offset, io->in[LABEL]->data, labels.offset, rows.count, x->shape.dim[1], a->blank,
                            work_at, work};
    NAME(tr_ctc_cost)(io->out[LOSS]->data, dx, &c);
    return TR_OK;
}

static tr_status NAME(warpctc_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *kept = io->in[G_GRAD];
    const T         *from = kept->data, *dloss = io->in[G_DLOSS]->data;
    const int64_t    classes = kept->shape.dim[1];
    T               *dx = io->out[G_DLOGITS]->data;
    tr_sequences     s;

    TR_TRY(tr__sequences_of(&s, io, G_LOGITS, 0));
    TR_TRY(tr__check_rows(io, G_DLOSS, s.count));
    for (int64_t i = 0; i < s.count; i++) {
        const int64_t begin = s.offset[i] * classes, end = s.offset[i + 1] * classes;
        const T       scale = a->norm_by_times ? dloss[i] / (T)(s.offset[i + 1] - s.offset[i]) : dloss[i];
        for (int64_t k = begin; k < end; k++)
            dx[k] = from[k] * scale;
    }
    return TR_OK;
}

#endif
