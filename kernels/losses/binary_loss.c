/* binary_loss.c - losses of scores whose truth is yes (1) or no (0): hinge_loss, modified_huber_loss, and teacher_student_sigmoid_loss, whose
 * label may tell what a teacher thought, too.
 *
 * modified_huber_loss is from Zhang, Solving large scale linear prediction problems using stochastic gradient descent algorithms (2004).
 * Backward reads scores (of modified_huber_loss its IntermediateVal) and labels, no losses: an output may lie in an input's memory. */
#ifndef T

#include <inttypes.h>

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/gradients/grad_second.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, LABEL };
enum { LOSS };
enum { Z, HUBER };
enum { G_X, G_LABEL, G_DLOSS };
enum { G_DX };

static const tr_op_proto hinge_proto = {
    .doc = "Loss = max(1 - (2 Labels - 1) Logits, 0).",
    .in = TR_SLOTS({"Logits", "[n, 1] float; scores"}, TR_SLOT("Labels", "like Logits", "; 0 or 1")),
    .out = TR_SLOTS(TR_SLOT("Loss", "like Logits", "")),
};

static const tr_op_proto modified_huber_proto = {
    .doc = "With z = (2 Y - 1) X: Out = -4 z where z < -1, else max(1 - z, 0)^2.",
    .in = TR_SLOTS({"X", "[n, 1] float; scores"}, TR_SLOT("Y", "like X", "; 0 or 1")),
    .out = TR_SLOTS(TR_SLOT("IntermediateVal", "like X", "; z", TR_SLOT_INTERMEDIATE), TR_SLOT("Out", "like X", "; the loss")),
};

typedef struct teacher_attrs {
    float soft_max_up_bound, soft_max_lower_bound;
} teacher_attrs;

static const tr_op_proto teacher_proto = {
    .doc = "The cross entropy of sigmoid(X) and clicks, and of sigmoid(X) and a teacher's z where there is one. With s = log(1 + exp(X)): Y = s for "
           "Label -2 (no click, no z), s - X for -1 (click, no z), and 2 s - Label X for Label z (no click) and 1 + z (click).",
    .in = TR_SLOTS({"X", "[n, 1] float; scores"}, TR_SLOT("Label", "like X", "; -2, -1, z or 1 + z, for z in 0 .. 1")),
    .out = TR_SLOTS(TR_SLOT("Y", "like X", "; the loss")),
    TR_ATTRS_OF(teacher_attrs, TR_ATTR(teacher_attrs, soft_max_up_bound, FLOAT, "no gradient from this score on", .number = 15),
                               TR_ATTR(teacher_attrs, soft_max_lower_bound, FLOAT, "no gradient up to this score", .number = -15)),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradients and registration ------------------------------------------------------------------- */
static const tr_grad_rule hinge_grad = {
    .op = "hinge_loss_grad", .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(LOSS)}, .makes = {TR_DIN(X)},
    .second = tr__second_gate,
};
/* X@GRAD = -2 Out@GRAD (2 Y - 1) min(max(1 - z, 0), 2) */
static tr_status modified_huber_slope(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "scale(X=IntermediateVal) {scale=-1.0, bias=1.0} -> rest"));
    TR_TRY(tr_composite_add(c, "clip(X=rest) {min=0.0, max=2.0} -> level"));
    TR_TRY(tr_composite_add(c, "scale(X=Y) {scale=-4.0, bias=2.0} -> sign"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=level, Y=sign) -> steep"));
    return tr_composite_add(c, "elementwise_mul(X=steep, Y=Out@GRAD) -> X@GRAD");
}

static tr_status z_part(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "scale(X=Y) {scale=2.0, bias=-1.0} -> sign"));
    return tr_composite_add(c, "elementwise_mul(X=X, Y=sign) -> IntermediateVal");
}

static const tr_grad_rule modified_huber_grad = {
    .op = "modified_huber_loss_grad", .reads = {TR_OUT(Z), TR_IN(LABEL), TR_DOUT(HUBER)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = modified_huber_slope, .rest = tr__grad_by_parts, .parts = z_part,
};
/* `out` = 1 where `factor` Label + `bias` is above 0, else 0. */
static tr_status add_case(tr_composite *c, const char *of, double factor, double bias, const char *out)
{
    TR_TRY(tr_composite_add(c, "scale(X=%s) {scale=%.9g, bias=%.9g} -> %s.lead", of, factor, bias, out));
    TR_TRY(tr_composite_add(c, "relu(X=%s.lead) -> %s.above", out, out));
    TR_TRY(tr_composite_add(c, "sign(X=%s.above) -> %s", out, out));
    tr_composite_stop_gradient(c, out);
    return TR_OK;
}

/* Within the bounds X@GRAD = Y@GRAD (k sigmoid(X) - clicks): k is 2 from label 0 on, else 1; the clicks are 0 below -1, then 1, then the label. */
static tr_status teacher_slope(tr_composite *c)
{
    const teacher_attrs *a = tr_composite_attrs(c);

    TR_TRY(add_case(c, "Label", -1, 0, "below_0"));
    TR_TRY(add_case(c, "Label", -1, -1, "below_minus_1"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=below_0, Y=below_minus_1) -> click"));
    TR_TRY(tr_composite_add(c, "relu(X=Label) -> share"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=click, Y=share) -> clicks"));
    TR_TRY(tr_composite_add(c, "scale(X=below_0) {scale=-1.0, bias=2.0} -> k"));
    TR_TRY(tr_composite_add(c, "sigmoid(X=X) -> chance"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=chance, Y=k) -> expected"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=expected, Y=clicks) -> slope"));
    TR_TRY(add_case(c, "X", 1, -(double)a->soft_max_lower_bound, "above_low"));
    TR_TRY(add_case(c, "X", -1, (double)a->soft_max_up_bound, "below_high"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=above_low, Y=below_high) -> within"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=slope, Y=within) -> steep"));
    return tr_composite_add(c, "elementwise_mul(X=steep, Y=Y@GRAD) -> X@GRAD");
}

static const tr_grad_rule teacher_grad = {
    .op = "teacher_student_sigmoid_loss_grad", .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(LOSS)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .body = teacher_slope,
};

TR_REGISTER_OP(hinge_loss, .locality = TR_ROWWISE, .proto = &hinge_proto, .kernels = TR_FLOAT_KERNELS(hinge_loss), .grad = &hinge_grad,
               .inplace = {{X, LOSS}}, .inplace_count = 1);
TR_REGISTER_OP(hinge_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_hinge_loss, .kernels = TR_FLOAT_KERNELS(hinge_loss_grad),
               .inplace = {{G_DLOSS, G_DX}}, .inplace_count = 1);
TR_REGISTER_OP(modified_huber_loss, .locality = TR_ROWWISE, .proto = &modified_huber_proto, .kernels = TR_FLOAT_KERNELS(modified_huber_loss), .grad = &modified_huber_grad, .inplace = {{X, Z}}, .inplace_count = 1);
TR_REGISTER_OP(modified_huber_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_modified_huber_loss, .kernels = TR_FLOAT_KERNELS(modified_huber_loss_grad), .inplace = {{G_DLOSS, G_DX}}, .inplace_count = 1);
TR_REGISTER_OP(teacher_student_sigmoid_loss, .locality = TR_ROWWISE, .proto = &teacher_proto, .kernels = TR_FLOAT_KERNELS(teacher_student_sigmoid_loss), .grad = &teacher_grad, .inplace = {{X, LOSS}}, .inplace_count = 1);
TR_REGISTER_OP(teacher_student_sigmoid_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_teacher_student_sigmoid_loss,
               .kernels = TR_FLOAT_KERNELS(teacher_student_sigmoid_loss_grad), .inplace = {{G_DLOSS, G_DX}}, .inplace_count = 1);

#else /* the kernels, for each T */

static tr_status NAME(check_labels)(const tr_run *io, const char *type)
{
    const tr_tensor *label = io->in[LABEL];
    const int64_t    bad = NAME(tr_find_improbable)(label->data, 0, tr_tensor_count(label));

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: the label of row %" PRId64 " in '%s' is %g; it must be 0 or 1", type, bad / tr__rows_width(label),
                   tr_run_in_name(io, LABEL, 0), (double)((const T *)label->data)[bad]);
}

static tr_status NAME(hinge_loss)(const tr_run *io)
{
    TR_TRY(NAME(check_labels)(io, "hinge_loss"));
    NAME(tr_hinge)(io->out[LOSS]->data, io->in[X]->data, io->in[LABEL]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

static tr_status NAME(hinge_loss_grad)(const tr_run *io)
{
    NAME(tr_hinge_grad)(io->out[G_DX]->data, io->in[G_DLOSS]->data, io->in[G_X]->data, io->in[G_LABEL]->data, tr_tensor_count(io->in[G_X]));
    return TR_OK;
}

static tr_status NAME(modified_huber_loss)(const tr_run *io)
{
    const int64_t n = tr_tensor_count(io->in[X]);
    T            *z;

    TR_TRY(NAME(check_labels)(io, "modified_huber_loss"));
    if (io->out[Z])
        z = io->out[Z]->data;
    else
        TR_TRY(tr_run_scratch((void **)&z, io, (size_t)n * sizeof *z));
    NAME(tr_modified_huber)(io->out[HUBER]->data, z, io->in[X]->data, io->in[LABEL]->data, n);
    return TR_OK;
}

static tr_status NAME(modified_huber_loss_grad)(const tr_run *io)
{
    NAME(tr_modified_huber_grad)(io->out[G_DX]->data, io->in[G_DLOSS]->data, io->in[G_X]->data, io->in[G_LABEL]->data,
                                 tr_tensor_count(io->in[G_X]));
    return TR_OK;
}

static tr_status NAME(teacher_student_sigmoid_loss)(const tr_run *io)
{
    NAME(tr_teacher_student)(io->out[LOSS]->data, io->in[X]->data, io->in[LABEL]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

static tr_status NAME(teacher_student_sigmoid_loss_grad)(const tr_run *io)
{
    const teacher_attrs *a = io->attrs;

    NAME(tr_teacher_student_grad)(io->out[G_DX]->data, io->in[G_DLOSS]->data, io->in[G_X]->data, io->in[G_LABEL]->data,
                                  a->soft_max_lower_bound, a->soft_max_up_bound, tr_tensor_count(io->in[G_X]));
    return TR_OK;
}

#endif
