/* lrn.c - divide by what neighbouring channels have:  MidOut = k + alpha sum X^2, Out = X MidOut^-beta. (Krizhevsky et al., 2012)
 *
 * The sum is over the n channels around each one, those outside of the image left out: (n - 1) / 2 before it, the others from it on.
 * Backward: dX[c] = dOut[c] MidOut[c]^-beta - 2 alpha beta X[c] sum_e dOut[e] Out[e] / MidOut[e], over the channels e whose window has c. */
#ifndef T

#include "framework/composites/composite.h"
#include "framework/composites/grad_body.h"
#include "framework/threads/threadpool.h"
#include "kernels/images/image_attrs.h"

#include <math.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT, MID };
enum { G_X, G_OUT, G_MID, G_DOUT };
enum { G_DX };

typedef struct attrs {
    int32_t n;
    float   k, alpha, beta;
} attrs;

static const tr_op_proto proto = {
    .doc = "Local response normalization across channels: Out = X (k + alpha sum X^2)^-beta, the sum over n neighbouring channels.",
    .in = TR_SLOTS(TR_SLOT("X", "[batch, channels, height, width]", " float")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", ""), TR_SLOT("MidOut", "like X", "; k + alpha sum X^2", TR_SLOT_INTERMEDIATE)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, n, INT, "how many channels a sum is over", .number = 5, .range = TR_AT_LEAST(1)),
                       TR_ATTR(attrs, k, FLOAT, "what is added to the sum", .number = 2, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, alpha, FLOAT, "the factor of the sum", .number = 0.0001, .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, beta, FLOAT, "the exponent", .number = 0.75, .range = TR_AT_LEAST(0)),
                       TR_ATTR_IGNORED("use_mkldnn", BOOL), TR_ATTR_ONLY_NCHW, TR_ATTR_IGNORED("is_test", BOOL)),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
/* The sum over channels is an average over windows of a volume that has the channels for its depth. */
static tr_status parts(tr_composite *c)
{
    const attrs *a = tr_composite_attrs(c);
    const int    before = (a->n - 1) / 2, behind = a->n - 1 - before;

    TR_TRY(tr_composite_add(c, "square(X=X) -> squares"));
    TR_TRY(tr_composite_add(c, "unsqueeze(X=squares) {axes=[1]} -> volume"));
    TR_TRY(tr_composite_add(c, "pad(X=volume) {paddings=[0, 0, 0, 0, %d, %d, 0, 0, 0, 0]} -> padded", before, behind));
    TR_TRY(tr_composite_add(c, "pool3d(X=padded) {pooling_type=avg, ksize=[%d, 1, 1]} -> average", a->n));
    TR_TRY(tr_composite_add(c, "squeeze(X=average) {axes=[1]} -> level"));
    TR_TRY(tr_composite_add(c, "scale(X=level) {scale=%.9g, bias=%.9g} -> mid", (double)a->alpha * a->n, (double)a->k));
    TR_TRY(tr_composite_add(c, "pow(X=mid) {factor=%.9g} -> factor", -(double)a->beta));
    return tr_composite_add(c, "elementwise_mul(X=X, Y=factor) -> Out");
}

static const tr_grad_rule grad = {
    .op = "lrn_grad", .reads = {TR_IN(X), TR_OUT(OUT), TR_OUT(MID), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_body, .parts = parts,
};
TR_REGISTER_OP(lrn, .proto = &proto, .kernels = TR_FLOAT_KERNELS(lrn), .grad = &grad);
TR_REGISTER_OP(lrn_grad, .grad_of = &tr_op_record_lrn, .kernels = TR_FLOAT_KERNELS(lrn_grad));

#else /* the kernels, for each T */

typedef struct {
    const attrs *a;
    const T     *x, *out, *mid_in, *d;
    T           *to, *mid;
    int64_t      channels, pixels;
} NAME(job);

/* Planes [begin, end): a plane is one channel of one image. */
static void NAME(norm_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    before = (j->a->n - 1) / 2;

    for (int64_t p = begin; p < end; p++) {
        const int64_t c = p % j->channels, first = c - before > 0 ? c - before : 0;
        const int64_t last = c - before + j->a->n < j->channels ? c - before + j->a->n : j->channels;
        const T      *x = j->x + p * j->pixels;
        T            *mid = j->mid + p * j->pixels, *to = j->to + p * j->pixels;
        for (int64_t i = 0; i < j->pixels; i++)
            mid[i] = 0;
        for (int64_t e = first; e < last; e++)
            for (int64_t i = 0; i < j->pixels; i++)
                mid[i] += x[(e - c) * j->pixels + i] * x[(e - c) * j->pixels + i];
        for (int64_t i = 0; i < j->pixels; i++) {
            mid[i] = j->a->k + j->a->alpha * mid[i];
            to[i] = x[i] * (T)pow((double)mid[i], -(double)j->a->beta);
        }
    }
}

static void NAME(grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    before = j->a->n - 1 - (j->a->n - 1) / 2;     /* the windows that have channel c are those of c - before ... */
    const T          factor = -2 * (T)j->a->alpha * (T)j->a->beta;

    for (int64_t p = begin; p < end; p++) {
        const int64_t c = p % j->channels, first = c - before > 0 ? c - before : 0;
        const int64_t last = c - before + j->a->n < j->channels ? c - before + j->a->n : j->channels;
        T            *to = j->to + p * j->pixels;
        for (int64_t i = 0; i < j->pixels; i++)
            to[i] = 0;
        for (int64_t e = first; e < last; e++)
            for (int64_t i = (p + e - c) * j->pixels, at = 0; at < j->pixels; i++, at++)
                to[at] += j->d[i] * j->out[i] / j->mid_in[i];
        for (int64_t i = p * j->pixels, at = 0; at < j->pixels; i++, at++)
            to[at] = j->d[i] * (T)pow((double)j->mid_in[i], -(double)j->a->beta) + factor * j->x[i] * to[at];
    }
}

static tr_status NAME(lrn)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    NAME(job)        j = {.a = io->attrs, .x = x->data, .to = io->out[OUT]->data, .mid = io->out[MID] ? io->out[MID]->data : NULL,
                          .channels = x->shape.dim[1], .pixels = x->shape.dim[2] * x->shape.dim[3]};

    if (!j.mid)
        TR_TRY(tr_run_scratch((void **)&j.mid, io, (size_t)tr_tensor_count(x) * sizeof(T)));
    tr_parallel_range(x->shape.dim[0] * x->shape.dim[1], 1 + 1024 / (j.pixels + 1), NAME(norm_range), &j);
    return TR_OK;
}

static tr_status NAME(lrn_grad)(const tr_run *io)
{
    const tr_tensor *x = io->in[G_X];
    NAME(job)        j = {.a = io->attrs, .x = x->data, .out = io->in[G_OUT]->data, .mid_in = io->in[G_MID]->data,
                          .d = io->in[G_DOUT]->data, .to = io->out[G_DX]->data, .channels = x->shape.dim[1],
                          .pixels = x->shape.dim[2] * x->shape.dim[3]};

    tr_parallel_range(x->shape.dim[0] * x->shape.dim[1], 1 + 1024 / (j.pixels + 1), NAME(grad_range), &j);
    return TR_OK;
}

#endif
