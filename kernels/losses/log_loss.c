/* log_loss.c - Loss = -Labels log(Predicted + epsilon) - (1 - Labels) log(1 - Predicted + epsilon).
 *
 * Backward: dPredicted = ((1 - Labels) / (1 - Predicted + epsilon) - Labels / (Predicted + epsilon)) dLoss. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/training/loss.h"

#include <inttypes.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { PREDICTED, LABELS };
enum { LOSS };
enum { G_PREDICTED, G_LABELS, G_DLOSS };
enum { G_DPREDICTED };

typedef struct attrs {
    float epsilon;
} attrs;

static const tr_op_proto proto = {
    .doc = "The negative log likelihood of yes-or-no Labels under the probabilities Predicted.",
    .in = TR_SLOTS({"Predicted", "[n, 1] float; probabilities"}, TR_SLOT("Labels", "like Predicted", "; 0 or 1")),
    .out = TR_SLOTS(TR_SLOT("Loss", "like Predicted", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, epsilon, FLOAT, "added to the probabilities before the logarithm",
                               .required = true, .range = TR_AT_LEAST(0))),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status parts(tr_composite *c)
{
    const double epsilon = ((const attrs *)tr_composite_attrs(c))->epsilon;

    TR_TRY(tr_composite_add(c, "scale(X=Predicted) {bias=%.9g} -> yes", epsilon));
    TR_TRY(tr_composite_add(c, "log(X=yes) -> log_yes"));
    TR_TRY(tr_composite_add(c, "scale(X=Predicted) {scale=-1.0, bias=1.0} -> rest"));
    TR_TRY(tr_composite_add(c, "scale(X=rest) {bias=%.9g} -> no", epsilon));
    TR_TRY(tr_composite_add(c, "log(X=no) -> log_no"));
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=log_no, Y=log_yes) -> ahead"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=ahead, Y=Labels) -> weighted"));
    return tr_composite_add(c, "elementwise_sub(X=weighted, Y=log_no) -> Loss");
}

static const tr_grad_rule grad = {
    .op = "log_loss_grad",
    .reads = {TR_IN(PREDICTED), TR_IN(LABELS), TR_DOUT(LOSS)},
    .makes = {TR_DIN(PREDICTED)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(log_loss, .locality = TR_ROWWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(log_loss), .grad = &grad,
               .inplace = {{PREDICTED, LOSS}}, .inplace_count = 1);
TR_REGISTER_OP(log_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_log_loss, .kernels = TR_FLOAT_KERNELS(log_loss_grad),
               .inplace = {{G_DLOSS, G_DPREDICTED}, {G_PREDICTED, G_DPREDICTED}}, .inplace_count = 2);

#else /* the kernels, for each T */

static tr_status NAME(check_probabilities)(const tr_run *io, int slot, const char *what)
{
    const tr_tensor *x = io->in[slot];
    const int64_t    bad = NAME(tr_find_improbable)(x->data, 0, tr_tensor_count(x));

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "log_loss: the %s of row %" PRId64 " in '%s' is %g; it must be from 0 to 1", what,
                   bad / tr__rows_width(x), tr_run_in_name(io, slot, 0), (double)((const T *)x->data)[bad]);
}

static tr_status NAME(log_loss)(const tr_run *io)
{
    const attrs *a = io->attrs;

    TR_TRY(NAME(check_probabilities)(io, PREDICTED, "prediction"));
    TR_TRY(NAME(check_probabilities)(io, LABELS, "label"));

    NAME(tr_log_loss)(io->out[LOSS]->data, io->in[PREDICTED]->data, io->in[LABELS]->data, a->epsilon,
                      tr_tensor_count(io->in[PREDICTED]));
    return TR_OK;
}

static tr_status NAME(log_loss_grad)(const tr_run *io)
{
    const attrs *a = io->attrs;

    NAME(tr_log_loss_grad)(io->out[G_DPREDICTED]->data, io->in[G_DLOSS]->data, io->in[G_PREDICTED]->data,
                           io->in[G_LABELS]->data, a->epsilon, tr_tensor_count(io->in[G_PREDICTED]));
    return TR_OK;
}

#endif
