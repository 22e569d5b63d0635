/* huber_loss.c - quadratic for small errors, linear for large ones.
 *
 * Residual = Y - X; Out = Residual^2 / 2 within delta, delta (|Residual| - delta / 2) outside. Backward reads the
 * residual alone: dY = clip(Residual, -delta, delta) dOut and dX = -dY. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "kernels/math/training/loss.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y };
enum { RESIDUAL, OUT };
enum { G_RESIDUAL, G_DOUT };
enum { G_DX, G_DY };

typedef struct attrs {
    float delta;
} attrs;

static const tr_op_proto proto = {
    .doc = "With r = Y - X: Out = r^2 / 2 where |r| <= delta, else delta (|r| - delta / 2).",
    .in = TR_SLOTS({"X", "[n, 1] float; the prediction"}, TR_SLOT("Y", "like X", "; the truth")),
    .out = TR_SLOTS(TR_SLOT("Residual", "like X", "; Y - X", TR_SLOT_INTERMEDIATE), TR_SLOT("Out", "like X", "; the loss")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, delta, FLOAT, "where the loss turns linear", .required = true,
                               .range = TR_GREATER(0))),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static tr_status slope(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);

    TR_TRY(tr_composite_add(c, "clip(X=Residual) {min=%.9g, max=%.9g} -> level", -(double)a->delta, (double)a->delta));
    TR_TRY(tr_composite_add(c, "elementwise_mul(X=level, Y=Out@GRAD) -> steep"));
    TR_TRY(tr_composite_add(c, "assign(X=steep) -> Y@GRAD"));
    return tr_composite_add(c, "scale(X=steep) {scale=-1.0} -> X@GRAD");
}

static tr_status residual_part(tr_composite *c) { return tr_composite_add(c, "elementwise_sub(X=Y, Y=X) -> Residual"); }

static const tr_grad_rule grad = {
    .op = "huber_loss_grad",
    .reads = {TR_OUT(RESIDUAL), TR_DOUT(OUT)},
    .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_body, .body = slope, .rest = tr__grad_by_parts, .parts = residual_part,
};

TR_REGISTER_OP(huber_loss, .locality = TR_ROWWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(huber_loss), .grad = &grad,
               .inplace = {{X, RESIDUAL}, {Y, OUT}}, .inplace_count = 2);
TR_REGISTER_OP(huber_loss_grad, .locality = TR_ROWWISE, .grad_of = &tr_op_record_huber_loss, .kernels = TR_FLOAT_KERNELS(huber_loss_grad));

#else /* the kernels, for each T */

static tr_status NAME(huber_loss)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[X]);
    T            *residual;

    if (io->out[RESIDUAL])
        residual = io->out[RESIDUAL]->data;
    else
        TR_TRY(tr_run_scratch((void **)&residual, io, (size_t)n * sizeof(T)));
    NAME(tr_huber)(io->out[OUT]->data, residual, io->in[X]->data, io->in[Y]->data, a->delta, n);
    return TR_OK;
}

static tr_status NAME(huber_loss_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[G_RESIDUAL]);
    const T      *residual = io->in[G_RESIDUAL]->data, *dout = io->in[G_DOUT]->data;

    if (io->out[G_DX])
        NAME(tr_huber_grad)(io->out[G_DX]->data, dout, residual, a->delta, -1, n);
    if (io->out[G_DY])
        NAME(tr_huber_grad)(io->out[G_DY]->data, dout, residual, a->delta, 1, n);
    return TR_OK;
}

#endif
