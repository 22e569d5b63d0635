/* bpr_loss.c - Bayesian personalised ranking: the score of a row's label should be above that of every other class.
 *
 * Y[i] = mean over j other than Label[i] of log(1 + exp(X[i][j] - X[i][Label[i]])), from Rendle et al. (2009) as Hidasi et al. (2016) use it. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/base/body_lines.h"
#include "kernels/losses/labels.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, LABEL };
enum { Y };
enum { G_X, G_LABEL, G_DY };
enum { G_DX };

static const tr_op_proto proto = {
    .doc = "Pairwise ranking: Y[i] is the mean over the other classes j of log(1 + exp(X[i][j] - X[i][Label[i]])).",
    .in = TR_SLOTS(TR_SLOT("X", "[..., classes]", " float; scores"),
                   {"Label", "[..., 1] or [...] int64, a class number for each row", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Y", "[..., 1]; the loss of each row, 0 where there is one class"}),
};

static tr_status infer(const tr_infer *io) { return tr__labels_infer(&io->out[Y], io, "X", false); }

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* The class of a row's label counts among the others as log(1 + exp(0)), which is taken out again. */
static tr_status parts(tr_composite *c)
{
    TR_TRY(tr__add_marks(c, "X", -100));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=marks) -> picked"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=picked) {dim=[-1], keep_dim=true} -> turned"));
    TR_TRY(tr_composite_add(c, "elementwise_add(X=X, Y=turned) {axis=0} -> difference"));
    TR_TRY(tr_composite_add(c, "softplus(X=difference) -> each"));
    TR_TRY(tr_composite_add(c, "scale(X=marks) {bias=1.0} -> others"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=each, Y=others) -> counted"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=counted) {dim=[-1], keep_dim=true} -> sum"));
    TR_TRY(tr_composite_add(c, "reduce_sum(X=others) {dim=[-1], keep_dim=true} -> number"));
    TR_TRY(tr_composite_add(c, "clip(X=number) {min=1.0, max=1e+30} -> divisor"));
    return tr_composite_add(c, "elementwise_div(X=sum, Y=divisor) -> Y");
}

static const tr_grad_rule grad = {
    .op = "bpr_loss_grad", .reads = {TR_IN(X), TR_IN(LABEL), TR_DOUT(Y)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(bpr_loss, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(bpr_loss), .grad = &grad);
TR_REGISTER_OP(bpr_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_bpr_loss, .kernels = TR_FLOAT_KERNELS(bpr_loss_grad));

#else /* the kernels, for each T */

/* Both number their slots X and Label alike. */
static tr_status NAME(check_labels)(const tr_run *io, const char *type)
{
    const tr_tensor *x = io->in[X], *label = io->in[LABEL];
    const int64_t    bad = tr_rows_check(label->data, tr__labels_rows(x), tr__labels_classes(x), -1);

    return bad < 0 ? TR_OK : tr_fail(TR_ERANGE, "%s: the label of row %lld in '%s' is %lld; it must be in [0, %lld)", type, (long long)bad,
                                     tr_run_in_name(io, LABEL, 0), (long long)((const int64_t *)label->data)[bad],
                                     (long long)tr__labels_classes(x));
}

static tr_status NAME(bpr_loss)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];

    TR_TRY(NAME(check_labels)(io, "bpr_loss"));
    NAME(tr_bpr)(io->out[Y]->data, x->data, io->in[LABEL]->data, tr__labels_rows(x), tr__labels_classes(x));
    return TR_OK;
}

static tr_status NAME(bpr_loss_grad)(const tr_run *io)
{
    const tr_tensor *x = io->in[G_X];

    TR_TRY(NAME(check_labels)(io, "bpr_loss_grad"));
    NAME(tr_bpr_grad)(io->out[G_DX]->data, io->in[G_DY]->data, x->data, io->in[G_LABEL]->data, tr__labels_rows(x), tr__labels_classes(x));
    return TR_OK;
}

#endif
