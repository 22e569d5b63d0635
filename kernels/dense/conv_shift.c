/* conv_shift.c - circular convolution of rows:  Out[i,j] = sum_k X[i, (j + k - (n - 1) / 2) mod m] Y[i,k]. (Graves et al., Neural
 * Turing machines, 2014)
 *
 * X has rows of m, Y of n, which is odd. Backward: both gradients are such sums. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "framework/threads/threadpool.h"
#include "framework/operators/op.h"

#include <string.h>

/* -- interface -------------------------------------------------------------------------------- */
enum { X, Y };
enum { OUT };
enum { G_X, G_Y, G_DOUT };
enum { G_DX, G_DY };

static const tr_op_proto proto = {
    .doc = "Circular convolution of rows: Out[i,j] = sum_k X[i, (j + k - (n - 1) / 2) mod m] Y[i,k].",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, m]", " float"), TR_SLOT("Y", "[rows, n]", ", n odd and at most m; same dtype")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_shape x = io->in[X].shape, y = io->in[Y].shape;

    if (y.dim[1] >= 0 && (y.dim[1] % 2 == 0 || (x.dim[1] >= 0 && y.dim[1] > x.dim[1])))
        return tr_fail(TR_ESHAPE, "%s: the rows of Y %s must have an odd number of elements, at most as many as those of X %s", io->type,
                       TR_SHAPE_STR(y), TR_SHAPE_STR(x));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "conv_shift_grad", .reads = {TR_IN(X), TR_IN(Y), TR_DOUT(OUT)}, .makes = {TR_DIN(X), TR_DIN(Y)},
    .second = tr__second_bilinear,
};
TR_REGISTER_OP(conv_shift, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(conv_shift), .grad = &grad);
TR_REGISTER_OP(conv_shift_grad, .grad_of = &tr_op_record_conv_shift, .kernels = TR_FLOAT_KERNELS(conv_shift_grad));

#else /* the kernels, for each T */

typedef struct {
    const T *x, *y, *d;
    T       *out, *dx, *dy;
    int64_t  m, n;
} NAME(job);

static void NAME(shift_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    half = (j->n - 1) / 2;

    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < j->m; i++) {
            T sum = 0;
            for (int64_t k = 0; k < j->n; k++)
                sum += j->x[row * j->m + (i + k - half + j->m) % j->m] * j->y[row * j->n + k];
            j->out[row * j->m + i] = sum;
        }
}

static void NAME(grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    half = (j->n - 1) / 2;

    if (j->dx)
        memset(j->dx + begin * j->m, 0, (size_t)((end - begin) * j->m) * sizeof(T));
    if (j->dy)
        memset(j->dy + begin * j->n, 0, (size_t)((end - begin) * j->n) * sizeof(T));
    for (int64_t row = begin; row < end; row++)
        for (int64_t i = 0; i < j->m; i++)
            for (int64_t k = 0; k < j->n; k++) {
                const int64_t at = row * j->m + (i + k - half + j->m) % j->m;
                if (j->dx)
                    j->dx[at] += j->d[row * j->m + i] * j->y[row * j->n + k];
                if (j->dy)
                    j->dy[row * j->n + k] += j->d[row * j->m + i] * j->x[at];
            }
}

static NAME(job) NAME(job_of)(const tr_run *io)
{
    return (NAME(job)){.x = io->in[X]->data, .y = io->in[Y]->data, .m = io->in[X]->shape.dim[1], .n = io->in[Y]->shape.dim[1]};
}

static tr_status NAME(conv_shift)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io);

    j.out = io->out[OUT]->data;
    tr_parallel_range(io->in[X]->shape.dim[0], 1 + 8192 / (j.m * j.n + 1), NAME(shift_range), &j);
    return TR_OK;
}

static tr_status NAME(conv_shift_grad)(const tr_run *io)
{
    NAME(job) j = NAME(job_of)(io);

    j.d = io->in[G_DOUT]->data;
    j.dx = io->out[G_DX] ? io->out[G_DX]->data : NULL;
    j.dy = io->out[G_DY] ? io->out[G_DY]->data : NULL;
    tr_parallel_range(io->in[G_X]->shape.dim[0], 1 + 8192 / (j.m * j.n + 1), NAME(grad_range), &j);
    return TR_OK;
}

#endif
