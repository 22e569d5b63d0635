/* loss.c - see loss.h. Each function is a loop over a range; a job carries its arguments into the slices. */
#ifndef T

#include "kernels/math/loss.h"

#include <math.h>

#include "framework/compiler.h"
#include "framework/threadpool.h"
#include "framework/vecmath.h"

enum { MIN_ITEMS = 4096 };            /* of one slice: some microseconds of work */

#define TR_TEMPLATE "kernels/math/loss.c"
#include "kernels/math/each_float.h"

#else

typedef struct NAME(job) NAME(job);
struct NAME(job) {
    void (*loop)(const NAME(job) *job, int64_t begin, int64_t end);
    T            *out, *out2;
    const T      *dout, *a, *b, *c, *d;
    T             p, q;
    int64_t       items, cols, slices;
};

static void NAME(slice)(void *payload, int64_t slice)
{
    const NAME(job) *job = payload;
    int64_t begin, end;

    tr_slice_range(&begin, &end, job->items, 1, job->slices, slice);
    job->loop(job, begin, end);
}

/* `width`: elements of one item. */
static void NAME(run)(NAME(job) *job, int64_t width)
{
    if (job->items == 0)
        return;
    job->slices = tr_slice_count(job->items, 1 + MIN_ITEMS / (width > 0 ? width : 1));
    tr_parallel(job->slices, NAME(slice), job);
}

/* -- sigmoid cross entropy -------------------------------------------------------------------------- */

TR_CLONES static void NAME(sigmoid_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T *x = job->a, *label = job->b;
    const T  ignore = job->p, scale = job->q;

    for (int64_t i = begin; i < end; i++) {
        const T positive = x[i] > 0 ? x[i] : 0;
        const T magnitude = x[i] > 0 ? x[i] : -x[i];
        const T loss = positive - x[i] * label[i] + NAME(tr_log)(1 + NAME(tr_exp)(-magnitude));
        job->out[i] = label[i] == ignore ? 0 : scale * loss;
    }
}

void NAME(tr_sigmoid_cross_entropy)(T *out, const T *x, const T *label, T ignore, T scale, int64_t n)
{
    NAME(job) job = {.loop = NAME(sigmoid_loop), .out = out, .a = x, .b = label, .p = ignore, .q = scale, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(sigmoid_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T *x = job->a, *label = job->b, *dout = job->dout;
    const T  ignore = job->p, scale = job->q;

    for (int64_t i = begin; i < end; i++) {
        const T dx = scale * (NAME(tr_sigmoid)(x[i]) - label[i]) * dout[i];
        job->out[i] = label[i] == ignore ? 0 : dx;
    }
}

void NAME(tr_sigmoid_cross_entropy_grad)(T *dx, const T *dout, const T *x, const T *label, T ignore, T scale,
                                         int64_t n)
{
    NAME(job) job = {.loop = NAME(sigmoid_grad_loop), .out = dx, .dout = dout, .a = x, .b = label, .p = ignore,
                     .q = scale, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static bool NAME(has_improbable)(const T *x, T except, int64_t n)
{
    int bad = 0;

    for (int64_t i = 0; i < n; i++)
        bad |= !((x[i] >= 0) & (x[i] <= 1)) & (x[i] != except);
    return bad;
}

int64_t NAME(tr_find_improbable)(const T *x, T except, int64_t n)
{
    if (!NAME(has_improbable)(x, except, n))
        return -1;
    for (int64_t i = 0; i < n; i++)
        if (!(x[i] >= 0 && x[i] <= 1) && x[i] != except)
            return i;
    return -1;
}

int64_t NAME(tr_count_not)(const T *x, T value, int64_t n)
{
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        count += x[i] != value;
    return count;
}

/* -- Huber -------------------------------------------------------------------------------------------- */

TR_CLONES static void NAME(huber_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T delta = job->p;

    for (int64_t i = begin; i < end; i++) {
        const T r = job->b[i] - job->a[i], magnitude = r > 0 ? r : -r;
        job->out2[i] = r;
        job->out[i] = magnitude <= delta ? r * r / 2 : delta * (magnitude - delta / 2);
    }
}

void NAME(tr_huber)(T *out, T *r, const T *x, const T *y, T delta, int64_t n)
{
    NAME(job) job = {.loop = NAME(huber_loop), .out = out, .out2 = r, .a = x, .b = y, .p = delta, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(huber_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T delta = job->p, sign = job->q;

    for (int64_t i = begin; i < end; i++) {
        const T low = job->a[i] < -delta ? -delta : job->a[i];
        job->out[i] = sign * (low > delta ? delta : low) * job->dout[i];
    }
}

void NAME(tr_huber_grad)(T *dx, const T *dout, const T *r, T delta, T sign, int64_t n)
{
    NAME(job) job = {.loop = NAME(huber_grad_loop), .out = dx, .dout = dout, .a = r, .p = delta, .q = sign,
                     .items = n};
    NAME(run)(&job, 1);
}

/* -- log loss ------------------------------------------------------------------------------------------ */

TR_CLONES static void NAME(log_loss_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T *p = job->a, *label = job->b;
    const T  epsilon = job->p;

    for (int64_t i = begin; i < end; i++)
        job->out[i] = -label[i] * NAME(tr_log)(p[i] + epsilon) -
                      (1 - label[i]) * NAME(tr_log)(1 - p[i] + epsilon);
}

void NAME(tr_log_loss)(T *out, const T *p, const T *label, T epsilon, int64_t n)
{
    NAME(job) job = {.loop = NAME(log_loss_loop), .out = out, .a = p, .b = label, .p = epsilon, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(log_loss_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T *p = job->a, *label = job->b;
    const T  epsilon = job->p;

    for (int64_t i = begin; i < end; i++)
        job->out[i] = job->dout[i] * ((1 - label[i]) / (1 - p[i] + epsilon) - label[i] / (p[i] + epsilon));
}

void NAME(tr_log_loss_grad)(T *dp, const T *dout, const T *p, const T *label, T epsilon, int64_t n)
{
    NAME(job) job = {.loop = NAME(log_loss_grad_loop), .out = dp, .dout = dout, .a = p, .b = label, .p = epsilon,
                     .items = n};
    NAME(run)(&job, 1);
}

/* -- smooth L1 ------------------------------------------------------------------------------------------ */

TR_INLINE T NAME(weight)(const T *inside, const T *outside, int64_t i)
{
    return (inside ? inside[i] : 1) * (outside ? outside[i] : 1);
}

TR_CLONES static void NAME(smooth_l1_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T sigma2 = job->p, bend = 1 / job->p;

    for (int64_t row = begin; row < end; row++) {
        T sum = 0;
        for (int64_t i = row * job->cols; i < (row + 1) * job->cols; i++) {
            const T diff = (job->a[i] - job->b[i]) * (job->c ? job->c[i] : 1), magnitude = diff > 0 ? diff : -diff;
            const T loss = magnitude < bend ? diff * diff * sigma2 / 2 : magnitude - bend / 2;
            job->out2[i] = diff;
            sum += loss * (job->d ? job->d[i] : 1);
        }
        job->out[row] = sum;
    }
}

void NAME(tr_smooth_l1)(T *out, T *diff, const T *x, const T *y, const T *inside, const T *outside, T sigma2,
                        int64_t rows, int64_t cols)
{
    NAME(job) job = {.loop = NAME(smooth_l1_loop), .out = out, .out2 = diff, .a = x, .b = y, .c = inside,
                     .d = outside, .p = sigma2, .items = rows, .cols = cols};
    NAME(run)(&job, cols);
}

TR_CLONES static void NAME(smooth_l1_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const T sigma2 = job->p, bend = 1 / job->p;

    for (int64_t row = begin; row < end; row++)
        for (int64_t i = row * job->cols; i < (row + 1) * job->cols; i++) {
            const T diff = job->a[i], magnitude = diff > 0 ? diff : -diff, sign = (T)((diff > 0) - (diff < 0));
            const T slope = magnitude < bend ? sigma2 * diff : sign;
            const T dx = job->dout[row] * slope * NAME(weight)(job->c, job->d, i);
            if (job->out)
                job->out[i] = dx;
            if (job->out2)
                job->out2[i] = -dx;
        }
}

void NAME(tr_smooth_l1_grad)(T *dx, T *dy, const T *dout, const T *diff, const T *inside, const T *outside, T sigma2,
                             int64_t rows, int64_t cols)
{
    NAME(job) job = {.loop = NAME(smooth_l1_grad_loop), .out = dx, .out2 = dy, .dout = dout, .a = diff, .c = inside,
                     .d = outside, .p = sigma2, .items = rows, .cols = cols};
    NAME(run)(&job, cols);
}

#endif
