/* binary_loss.c - losses of scores whose truth is yes (1) or no (0): hinge_loss, modified_huber_loss, and teacher_student_sigmoid_loss, whose
 * label may tell what a teacher thought, too.
 *
 * modified_huber_loss is from Zhang, Solving large scale linear prediction problems using stochastic gradient descent algorithms (2004).
 * Backward reads scores (of modified_huber_loss its IntermediateVal) and labels, no losses: an output may lie in an input's memory. */
#ifndef T

#include <inttypes.h>

#include "kernels/check.h"
#include "kernels/math/loss.h"
#include "kernels/selected_rows.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, LABEL };
enum { LOSS };
enum { Z, HUBER };
enum { G_X, G_LABEL, G_DLOSS };
enum { G_DX };

static const tr_op_proto hinge_proto = {
    .doc = "Loss = max(1 - (2 Labels - 1) Logits, 0).",
    .in = TR_SLOTS({"Logits", "[n, 1] float; scores"}, {"Labels", "like Logits; 0 or 1"}),
    .out = TR_SLOTS({"Loss", "like Logits"}),
};

static const tr_op_proto modified_huber_proto = {
    .doc = "With z = (2 Y - 1) X: Out = -4 z where z < -1, else max(1 - z, 0)^2.",
    .in = TR_SLOTS({"X", "[n, 1] float; scores"}, {"Y", "like X; 0 or 1"}),
    .out = TR_SLOTS({"IntermediateVal", "like X; z", TR_SLOT_INTERMEDIATE}, {"Out", "like X; the loss"}),
};

typedef struct teacher_attrs {
    float soft_max_up_bound, soft_max_lower_bound;
} teacher_attrs;

static const tr_op_proto teacher_proto = {
    .doc = "The cross entropy of sigmoid(X) and clicks, and of sigmoid(X) and a teacher's z where there is one. With s = log(1 + exp(X)): Y = s for "
           "Label -2 (no click, no z), s - X for -1 (click, no z), and 2 s - Label X for Label z (no click) and 1 + z (click).",
    .in = TR_SLOTS({"X", "[n, 1] float; scores"}, {"Label", "like X; -2, -1, z or 1 + z, for z in 0 .. 1"}),
    .out = TR_SLOTS({"Y", "like X; the loss"}),
    .attr = TR_ATTRS(TR_ATTR(teacher_attrs, soft_max_up_bound, FLOAT, "no gradient from this score on", .number = 15),
                     TR_ATTR(teacher_attrs, soft_max_lower_bound, FLOAT, "no gradient up to this score", .number = -15)),
    .attrs_size = sizeof(teacher_attrs),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status check_pair(const tr_infer *io, const char *scores, const char *labels)
{
    TR_TRY(tr__check_dense(io, scores, &io->in[X]));
    TR_TRY(tr__check_same_shape(io, labels, &io->in[LABEL], scores, &io->in[X]));
    return tr__check_dtype(io, labels, &io->in[LABEL], io->in[X].dtype);
}

static tr_status infer_hinge(const tr_infer *io)
{
    TR_TRY(check_pair(io, "Logits", "Labels"));
    io->out[LOSS] = io->in[X];
    return TR_OK;
}

static tr_status infer_modified_huber(const tr_infer *io)
{
    TR_TRY(check_pair(io, "X", "Y"));
    io->out[Z] = io->in[X];
    io->out[HUBER] = io->in[X];
    return TR_OK;
}

static tr_status infer_modified_huber_grad(const tr_infer *io)
{
    io->out[G_DX] = io->in[G_X];
    return TR_OK;
}

static tr_status infer_teacher(const tr_infer *io)
{
    TR_TRY(check_pair(io, "X", "Label"));
    io->out[LOSS] = io->in[X];
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#define TR_TEMPLATE "kernels/binary_loss.c"
#include "kernels/math/each_float.h"

/* -- gradients and registration ------------------------------------------------------------------- */
static const tr_grad_rule hinge_grad = {
    .op = "hinge_loss_grad", .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(LOSS)}, .makes = {TR_DIN(X)},
};
static const tr_grad_rule modified_huber_grad = {
    .op = "modified_huber_loss_grad", .reads = {TR_OUT(Z), TR_IN(LABEL), TR_DOUT(HUBER)}, .makes = {TR_DIN(X)},
};
static const tr_grad_rule teacher_grad = {
    .op = "teacher_student_sigmoid_loss_grad", .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(LOSS)}, .makes = {TR_DIN(X)},
};

TR_REGISTER_OP(hinge_loss, .locality = TR_ROWWISE, .proto = &hinge_proto, .infer = infer_hinge, .kernels = TR_FLOAT_KERNELS(hinge_loss), .grad = &hinge_grad,
               .inplace = {{X, LOSS}}, .inplace_count = 1);
TR_REGISTER_OP(hinge_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_hinge_loss, .kernels = TR_FLOAT_KERNELS(hinge_loss_grad),
               .inplace = {{G_DLOSS, G_DX}}, .inplace_count = 1);
TR_REGISTER_OP(modified_huber_loss, .locality = TR_ROWWISE, .proto = &modified_huber_proto, .infer = infer_modified_huber,
               .kernels = TR_FLOAT_KERNELS(modified_huber_loss), .grad = &modified_huber_grad, .inplace = {{X, Z}}, .inplace_count = 1);
TR_REGISTER_OP(modified_huber_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_modified_huber_loss, .infer = infer_modified_huber_grad,
               .kernels = TR_FLOAT_KERNELS(modified_huber_loss_grad), .inplace = {{G_DLOSS, G_DX}}, .inplace_count = 1);
TR_REGISTER_OP(teacher_student_sigmoid_loss, .locality = TR_ROWWISE, .proto = &teacher_proto, .infer = infer_teacher,
               .kernels = TR_FLOAT_KERNELS(teacher_student_sigmoid_loss), .grad = &teacher_grad, .inplace = {{X, LOSS}}, .inplace_count = 1);
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
