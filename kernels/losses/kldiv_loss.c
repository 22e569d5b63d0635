/* kldiv_loss.c - the Kullback-Leibler divergence of Target from exp(X):  Target (log(Target) - X), summed or not.
 *
 * X holds logs of probabilities. Where Target is 0 or less there is no loss and no gradient. Backward: dX = -Target dLoss, divided as the
 * loss is; it does not read X. No gradient goes to Target. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, TARGET };
enum { LOSS };
enum { G_X, G_TARGET, G_DLOSS };
enum { G_DX };

typedef struct attrs {
    enum { KLDIV_NONE, KLDIV_MEAN, KLDIV_SUM, KLDIV_BATCHMEAN } reduction;
} attrs;

static const tr_op_proto proto = {
    .doc = "The Kullback-Leibler divergence of Target from exp(X): Loss = Target (log(Target) - X), where Target > 0, else 0.",
    .in = TR_SLOTS(TR_SLOT("X", "[n, ...]", " float; logs of probabilities"), TR_SLOT("Target", "like X", "; probabilities")),
    .out = TR_SLOTS({"Loss", "[1]; like X with reduction none"}),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, reduction, STRING, "what becomes of the elements: none leaves them, mean and sum take all of them, batchmean "
                               "divides the sum by n", .text = "mean",
                               .range = TR_ONE_OF({"none", KLDIV_NONE}, {"mean", KLDIV_MEAN}, {"sum", KLDIV_SUM}, {"batchmean", KLDIV_BATCHMEAN}))),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    io->out[LOSS] = a->reduction == KLDIV_NONE ? io->in[X] : tr_meta_dense(io->in[X].dtype, TR_SHAPE(1));
    return TR_OK;
}

/* The divisor of the sum. An empty batch has the loss 0. */
static int64_t divisor(const attrs *a, const tr_tensor *x)
{
    const int64_t n = a->reduction == KLDIV_MEAN ? tr_tensor_count(x) : a->reduction == KLDIV_BATCHMEAN ? x->shape.dim[0] : 1;
    return n > 0 ? n : 1;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* Without the term that does not depend on X. */
static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "relu(X=Target) -> chance"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=X, Y=chance) -> product"));
    TR_TRY(tr_composite_add(c, "scale(X=product) {scale=-1.0} -> each"));
    if (a->reduction == KLDIV_NONE)
        return tr_composite_add(c, "assign(X=each) -> Loss");
    if (a->reduction == KLDIV_MEAN)
        return tr_composite_add(c, "mean(X=each) -> Loss");
    if (a->reduction == KLDIV_SUM)
        return tr_composite_add(c, "reduce_sum(X=each) {reduce_all=true} -> Loss");
    TR_TRY(tr_composite_add(c, "reduce_mean(X=each) {dim=[0]} -> row"));
    return tr_composite_add(c, "reduce_sum(X=row) {reduce_all=true} -> Loss");
}

static const tr_grad_rule grad = {
    .op = "kldiv_loss_grad", .reads = {TR_IN_SHAPE(X), TR_IN(TARGET), TR_DOUT(LOSS)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .parts = parts,
};

TR_REGISTER_OP(kldiv_loss, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(kldiv_loss), .grad = &grad);
TR_REGISTER_OP(kldiv_loss_grad, .grad_of = &tr_op_record_kldiv_loss, .kernels = TR_FLOAT_KERNELS(kldiv_loss_grad));

#else /* the kernels, for each T */

static tr_status NAME(kldiv_loss)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[X]);
    T            *each = io->out[LOSS]->data, *loss = each;

    if (a->reduction != KLDIV_NONE)
        TR_TRY(tr_run_scratch((void **)&each, io, (size_t)n * sizeof *each));
    NAME(tr_kldiv)(each, io->in[X]->data, io->in[TARGET]->data, n);
    if (a->reduction == KLDIV_NONE)
        return TR_OK;
    NAME(tr_reduce_apply)(TR_REDUCE_SUM, loss, each, 1, n, 1);
    loss[0] /= (T)divisor(a, io->in[X]);
    return TR_OK;
}

static tr_status NAME(kldiv_loss_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[G_X];

    NAME(tr_kldiv_grad)(io->out[G_DX]->data, io->in[G_DLOSS]->data, a->reduction != KLDIV_NONE, io->in[G_TARGET]->data,
                        1 / (T)divisor(a, x), tr_tensor_count(x));
    return TR_OK;
}

#endif
