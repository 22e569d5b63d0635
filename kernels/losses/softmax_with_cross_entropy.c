/* softmax_with_cross_entropy.c - Softmax = softmax(Logits) and Loss = the cross entropy of it with Label, in one.
 *
 * The loss comes from the logits, not from the probabilities, and is finite for finite logits. Backward:
 * dLogits = (Softmax - onehot(Label)) * dLoss. It does not read Logits, so Softmax may lie in their memory,
 * and dLogits in Softmax's. No gradient flows through Softmax, as in Fluid. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/body_lines.h"
#include "kernels/losses/labels.h"
#include "kernels/math/arrays/softmax.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { LOGITS, LABEL };
enum { SOFTMAX, LOSS };
enum { G_SOFTMAX, G_LABEL, G_DLOSS };
enum { G_DLOGITS };

typedef struct attrs {
    bool    soft_label;
    int32_t ignore_index;
} attrs;

static const tr_op_proto proto = {
    .doc = "Softmax of the rows of Logits and its cross entropy with Label; exact also where a probability is 0.",
    .in = TR_SLOTS(TR_SLOT("Logits", "[..., classes]", " float; unscaled log probabilities"),
                   {"Label", "[..., 1] or [...] int64, a class number for each row; with soft_label like Logits", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS(TR_SLOT("Softmax", "like Logits", "; may share their memory", TR_SLOT_INTERMEDIATE),
                    {"Loss", "[..., 1]; the loss of each row"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, soft_label, BOOL, "labels are distributions"),
                       TR_ATTR_IGNORED("numeric_stable_mode", BOOL, .number = 1),
                       TR_ATTR(attrs, ignore_index, INT, "rows with this label cost nothing", .number = -100)),
};

static tr_status infer(const tr_infer *io)
{
    return tr__labels_infer(&io->out[LOSS], io, "Logits", ((const attrs *)io->attrs)->soft_label);
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* Logits@GRAD = Loss@GRAD (Softmax weight - Label), the weight of a row being the sum of its labels: 1, or 0 where it is ignored. */
static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    if (a->soft_label)
        TR_TRY(tr_composite_add(c, "scale(X=Label) {scale=-1.0} -> marks"));
    else
        TR_TRY(tr__add_marks(c, "Softmax", a->ignore_index));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=marks) {dim=[-1], keep_dim=true} -> less"));
    TR_TRY(tr_composite_add(c, "scale(X=less) {scale=-1.0} -> weight"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=Softmax, Y=weight) {axis=0} -> share"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=share, Y=marks) -> steep"));
    return tr_composite_add(c, "elementwise_mul(X=steep, Y=Loss@GRAD) {axis=0} -> Logits@GRAD");
}

static tr_status softmax_part(tr_composite *c) { return tr_composite_add(c, "softmax(X=Logits) -> Softmax"); }

static const tr_grad_rule grad = {
    .op = "softmax_with_cross_entropy_grad",
    .reads = {TR_OUT(SOFTMAX), TR_IN(LABEL), TR_DOUT(LOSS)},
    .makes = {TR_DIN(LOGITS)},
    .second = tr__second_body, .body = slope, .rest = tr__grad_by_parts, .parts = softmax_part,
};

TR_REGISTER_OP(softmax_with_cross_entropy, .locality = TR_ROWWISE, .proto = &proto, .infer = infer,
               .kernels = TR_FLOAT_KERNELS(softmax_with_cross_entropy), .grad = &grad,
               .inplace = {{LOGITS, SOFTMAX}}, .inplace_count = 1);
TR_REGISTER_OP(softmax_with_cross_entropy_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_softmax_with_cross_entropy,
               .kernels = TR_FLOAT_KERNELS(softmax_with_cross_entropy_grad),
               .inplace = {{G_SOFTMAX, G_DLOGITS}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(softmax_with_cross_entropy)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *logits = io->in[LOGITS], *label = io->in[LABEL];
    const int64_t    rows = tr__labels_rows(logits), classes = tr__labels_classes(logits);
    T               *softmax, *loss = io->out[LOSS]->data;

    if (io->out[SOFTMAX])
        softmax = io->out[SOFTMAX]->data;
    else
        TR_TRY(tr_run_scratch((void **)&softmax, io, (size_t)(rows * classes) * sizeof(T)));
    if (a->soft_label) {
        NAME(tr_softmax_cross_entropy_soft)(softmax, loss, logits->data, label->data, rows, classes);
        return TR_OK;
    }
    const int64_t bad = NAME(tr_softmax_cross_entropy)(softmax, loss, logits->data, label->data, rows, classes,
                                                       a->ignore_index);
    return tr__labels_bad_row(io, "softmax_with_cross_entropy", LABEL, label, bad, classes, a->ignore_index);
}

static tr_status NAME(softmax_with_cross_entropy_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *softmax = io->in[G_SOFTMAX], *label = io->in[G_LABEL];
    const int64_t    rows = tr__labels_rows(softmax), classes = tr__labels_classes(softmax);
    const T         *dloss = io->in[G_DLOSS]->data;
    T               *dlogits = io->out[G_DLOGITS]->data;

    if (a->soft_label) {
        NAME(tr_softmax_cross_entropy_soft_grad)(dlogits, dloss, softmax->data, label->data, rows, classes);
        return TR_OK;
    }
    const int64_t bad = NAME(tr_softmax_cross_entropy_grad)(dlogits, dloss, softmax->data, label->data, rows, classes,
                                                            a->ignore_index);
    return tr__labels_bad_row(io, "softmax_with_cross_entropy_grad", G_LABEL, label, bad, classes, a->ignore_index);
}

#endif
