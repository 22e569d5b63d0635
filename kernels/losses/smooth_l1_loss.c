/* smooth_l1_loss.c - for each row the sum of a loss that is quadratic near 0 and linear beyond 1 / sigma^2.
 *
 * Diff = InsideWeight (X - Y). Backward reads Diff and the weights: dX = dOut InsideWeight OutsideWeight slope(Diff),
 * dY = -dX. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y, INSIDE, OUTSIDE };
enum { DIFF, OUT };
enum { G_INSIDE, G_OUTSIDE, G_DIFF, G_DOUT };
enum { G_DX, G_DY };

typedef struct attrs {
    float sigma;
} attrs;

static const tr_op_proto proto = {
    .doc = "With d = InsideWeight (X - Y) and s = sigma^2: Out[i] = sum_j OutsideWeight * (s d^2 / 2 where |d| < 1/s, "
           "else |d| - 1/(2 s)).",
    .in = TR_SLOTS(TR_SLOT("X", "[n, m, ...]", " float; the prediction"), TR_SLOT("Y", "like X", "; the truth"),
                   TR_SLOT("InsideWeight", "like X", "; multiplies the differences", TR_SLOT_OPTIONAL),
                   TR_SLOT("OutsideWeight", "like X", "; multiplies the losses", TR_SLOT_OPTIONAL)),
    .out = TR_SLOTS(TR_SLOT("Diff", "like X", "", TR_SLOT_INTERMEDIATE), TR_SLOT("Out", "[n, 1]", "; the loss of each row")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, sigma, FLOAT, "the bend is at 1 / sigma^2", .number = 1, .range = TR_GREATER(0))),
};

static tr_status infer(const tr_infer *io)
{
    if ((io->in[INSIDE].kind == TR_KIND_NONE) != (io->in[OUTSIDE].kind == TR_KIND_NONE))
        return tr_fail(TR_EINVAL, "%s: InsideWeight and OutsideWeight come together or not at all", io->type);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status weigh(tr_composite *c, const char *from, const char *weight, const char *to)
{
    return tr_composite_count(c, weight) > 0 ? tr_composite_add(c, "elementwise_mul(X=%s, Y=%s) -> %s", from, weight, to)
                                             : tr_composite_add(c, "assign(X=%s) -> %s", from, to);
}

static tr_status slope(tr_composite *c)
{
    const double sigma = ((const attrs *)tr_composite_attrs(c))->sigma;

    TR_TRY(tr_composite_add(c, "scale(X=Diff) {scale=%.9g} -> stretched", sigma * sigma));
    TR_TRY(tr_composite_add(c, "clip(X=stretched) {min=-1.0, max=1.0} -> level"));
    TR_TRY(weigh(c, "level", "OutsideWeight", "steep"));
    TR_TRY(weigh(c, "steep", "InsideWeight", "steeper"));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=steeper, Y=Out@GRAD) {axis=0} -> pulled"));
    TR_TRY(tr_composite_add(c, "assign(X=pulled) -> X@GRAD"));
    return tr_composite_add(c, "scale(X=pulled) {scale=-1.0} -> Y@GRAD");
}

static tr_status difference_part(tr_composite *c)
{
    TR_TRY(tr_composite_add(c, "elementwise_sub(X=X, Y=Y) -> difference"));
    return weigh(c, "difference", "InsideWeight", "Diff");
}

static const tr_grad_rule grad = {
    .op = "smooth_l1_loss_grad",
    .reads = {TR_IN(INSIDE), TR_IN(OUTSIDE), TR_OUT(DIFF), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body, .body = slope, .rest = tr__grad_by_parts, .parts = difference_part,
};

TR_REGISTER_OP(smooth_l1_loss, .locality = TR_ROWWISE, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(smooth_l1_loss),
               .grad = &grad, .inplace = {{X, DIFF}}, .inplace_count = 1);
TR_REGISTER_OP(smooth_l1_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_smooth_l1_loss, .kernels = TR_FLOAT_KERNELS(smooth_l1_loss_grad), .inplace = {{G_DIFF, G_DX}}, .inplace_count = 1,
               .key = TR_KEY_IN_SLOT, .key_slot = G_DIFF);

#else /* the kernels, for each T */

static tr_status NAME(smooth_l1_loss)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const int64_t    rows = x->shape.dim[0], cols = tr_shape_product(&x->shape, 1, x->shape.rank);
    const T         *inside = io->in[INSIDE] ? io->in[INSIDE]->data : NULL;
    const T         *outside = io->in[OUTSIDE] ? io->in[OUTSIDE]->data : NULL;
    T               *diff;

    if (io->out[DIFF])
        diff = io->out[DIFF]->data;
    else
        TR_TRY(tr_run_scratch((void **)&diff, io, (size_t)(rows * cols) * sizeof(T)));
    NAME(tr_smooth_l1)(io->out[OUT]->data, diff, x->data, io->in[Y]->data, inside, outside, a->sigma * a->sigma, rows,
                       cols);
    return TR_OK;
}

static tr_status NAME(smooth_l1_loss_grad)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *diff = io->in[G_DIFF];
    const int64_t    rows = diff->shape.dim[0], cols = tr_shape_product(&diff->shape, 1, diff->shape.rank);

    NAME(tr_smooth_l1_grad)(io->out[G_DX] ? io->out[G_DX]->data : NULL, io->out[G_DY] ? io->out[G_DY]->data : NULL,
                            io->in[G_DOUT]->data, diff->data, io->in[G_INSIDE] ? io->in[G_INSIDE]->data : NULL,
                            io->in[G_OUTSIDE] ? io->in[G_OUTSIDE]->data : NULL, a->sigma * a->sigma, rows, cols);
    return TR_OK;
}

#endif
