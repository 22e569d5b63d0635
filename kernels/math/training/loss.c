/* loss.c - see loss.h. Each function is a loop over a range; a job carries its arguments into the slices. */
#ifndef T

#include "kernels/math/training/loss.h"

#include <math.h>

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"

enum { MIN_ITEMS = 4096 };            /* of one slice: some microseconds of work */

#include "kernels/math/tools/each_float.h"

#else

typedef struct NAME(job) NAME(job);
struct NAME(job) {
    void (*loop)(const NAME(job) *job, int64_t begin, int64_t end);
    T            *out, *out2;
    const T      *dout, *a, *b, *c, *d;
    const int64_t *label;
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

    for (int64_t i = begin; i < end; i++) {
        const T    yes = NAME(tr_log)(p[i] + epsilon), no = NAME(tr_log)(1 - p[i] + epsilon);
        const bool is_yes = label[i] > (T)0.5;
        const T    near = is_yes ? yes : no, far = is_yes ? no : yes, share = is_yes ? 1 - label[i] : label[i];
        /* There is one product in the sum: of two the compiler may fuse either, and takes another one at a loop's end. */
        job->out[i] = -(near + share * (far - near));
    }
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

/* -- yes or no ------------------------------------------------------------------------------------------ */

TR_CLONES static void NAME(hinge_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T room = 1 - (2 * job->b[i] - 1) * job->a[i];
        job->out[i] = room > 0 ? room : 0;
    }
}

void NAME(tr_hinge)(T *out, const T *x, const T *label, int64_t n)
{
    NAME(job) job = {.loop = NAME(hinge_loop), .out = out, .a = x, .b = label, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(hinge_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T sign = 2 * job->b[i] - 1;
        job->out[i] = 1 - sign * job->a[i] > 0 ? -sign * job->dout[i] : 0;
    }
}

void NAME(tr_hinge_grad)(T *dx, const T *dout, const T *x, const T *label, int64_t n)
{
    NAME(job) job = {.loop = NAME(hinge_grad_loop), .out = dx, .dout = dout, .a = x, .b = label, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(modified_huber_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T z = (2 * job->b[i] - 1) * job->a[i], room = z < 1 ? 1 - z : 0;
        job->out2[i] = z;
        job->out[i] = z < -1 ? -4 * z : room * room;
    }
}

void NAME(tr_modified_huber)(T *out, T *z, const T *x, const T *label, int64_t n)
{
    NAME(job) job = {.loop = NAME(modified_huber_loop), .out = out, .out2 = z, .a = x, .b = label, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(modified_huber_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T z = job->a[i], slope = z < -1 ? -4 : z < 1 ? -2 * (1 - z) : 0;
        job->out[i] = slope * (2 * job->b[i] - 1) * job->dout[i];
    }
}

void NAME(tr_modified_huber_grad)(T *dx, const T *dout, const T *z, const T *label, int64_t n)
{
    NAME(job) job = {.loop = NAME(modified_huber_grad_loop), .out = dx, .dout = dout, .a = z, .b = label, .items = n};
    NAME(run)(&job, 1);
}

TR_INLINE T NAME(softplus)(T x)
{
    return (x > 0 ? x : 0) + NAME(tr_log)(1 + NAME(tr_exp)(x > 0 ? -x : x));
}

TR_CLONES static void NAME(teacher_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T x = job->a[i], label = job->b[i], plus = NAME(softplus)(x);
        job->out[i] = label < -1 ? plus : label < 0 ? plus - x : 2 * plus - label * x;
    }
}

void NAME(tr_teacher_student)(T *out, const T *x, const T *label, int64_t n)
{
    NAME(job) job = {.loop = NAME(teacher_loop), .out = out, .a = x, .b = label, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(teacher_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T x = job->a[i], label = job->b[i], y = NAME(tr_sigmoid)(x);
        const T slope = label < -1 ? y : label < 0 ? y - 1 : 2 * y - label;
        job->out[i] = x > job->p && x < job->q ? slope * job->dout[i] : 0;
    }
}

void NAME(tr_teacher_student_grad)(T *dx, const T *dout, const T *x, const T *label, T low, T high, int64_t n)
{
    NAME(job) job = {.loop = NAME(teacher_grad_loop), .out = dx, .dout = dout, .a = x, .b = label, .p = low, .q = high, .items = n};
    NAME(run)(&job, 1);
}

/* -- which of two ---------------------------------------------------------------------------------------- */

TR_CLONES static void NAME(rank_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T o = job->a[i] - job->b[i];
        job->out[i] = NAME(softplus)(o) - job->c[i] * o;
    }
}

void NAME(tr_rank_loss)(T *out, const T *label, const T *left, const T *right, int64_t n)
{
    NAME(job) job = {.loop = NAME(rank_loop), .out = out, .a = left, .b = right, .c = label, .items = n};
    NAME(run)(&job, 1);
}

/* Two gradients that differ in their sign. */
TR_INLINE void NAME(put_both)(const NAME(job) *job, int64_t i, T slope)
{
    if (job->out)
        job->out[i] = slope;
    if (job->out2)
        job->out2[i] = -slope;
}

TR_CLONES static void NAME(rank_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        NAME(put_both)(job, i, (NAME(tr_sigmoid)(job->a[i] - job->b[i]) - job->c[i]) * job->dout[i]);
}

void NAME(tr_rank_loss_grad)(T *dleft, T *dright, const T *dout, const T *label, const T *left, const T *right, int64_t n)
{
    NAME(job) job = {.loop = NAME(rank_grad_loop), .out = dleft, .out2 = dright, .dout = dout, .a = left, .b = right, .c = label, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(margin_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T loss = job->p - job->c[i] * (job->a[i] - job->b[i]);
        job->out2[i] = loss > 0;
        job->out[i] = loss > 0 ? loss : 0;
    }
}

void NAME(tr_margin_rank)(T *out, T *active, const T *label, const T *a, const T *b, T margin, int64_t n)
{
    NAME(job) job = {.loop = NAME(margin_loop), .out = out, .out2 = active, .a = a, .b = b, .c = label, .p = margin, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(margin_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        NAME(put_both)(job, i, -job->b[i] * job->a[i] * job->dout[i]);
}

void NAME(tr_margin_rank_grad)(T *da, T *db, const T *dout, const T *label, const T *active, int64_t n)
{
    NAME(job) job = {.loop = NAME(margin_grad_loop), .out = da, .out2 = db, .dout = dout, .a = active, .b = label, .items = n};
    NAME(run)(&job, 1);
}

/* -- distributions ------------------------------------------------------------------------------------------ */

TR_CLONES static void NAME(kldiv_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++) {
        const T t = job->b[i], safe = t > 0 ? t : 1;
        job->out[i] = t > 0 ? t * (NAME(tr_log)(safe) - job->a[i]) : 0;
    }
}

void NAME(tr_kldiv)(T *out, const T *x, const T *target, int64_t n)
{
    NAME(job) job = {.loop = NAME(kldiv_loop), .out = out, .a = x, .b = target, .items = n};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(kldiv_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    const int64_t step = job->cols;              /* 0: one number for all */

    for (int64_t i = begin; i < end; i++)
        job->out[i] = job->b[i] > 0 ? -job->p * job->b[i] * job->dout[i * step] : 0;
}

void NAME(tr_kldiv_grad)(T *dx, const T *dout, bool is_one, const T *target, T scale, int64_t n)
{
    NAME(job) job = {.loop = NAME(kldiv_grad_loop), .out = dx, .dout = dout, .b = target, .p = scale, .items = n, .cols = is_one ? 0 : 1};
    NAME(run)(&job, 1);
}

TR_CLONES static void NAME(bpr_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        const T      *x = job->a + row * job->cols;
        const int64_t label = job->label[row];
        T             sum = 0;
        for (int64_t k = 0; k < job->cols; k++)
            sum += k == label ? 0 : NAME(softplus)(x[k] - x[label]);
        job->out[row] = job->cols > 1 ? sum / (T)(job->cols - 1) : 0;
    }
}

void NAME(tr_bpr)(T *out, const T *x, const int64_t *label, int64_t rows, int64_t cols)
{
    NAME(job) job = {.loop = NAME(bpr_loop), .out = out, .a = x, .label = label, .items = rows, .cols = cols};
    NAME(run)(&job, cols);
}

TR_CLONES static void NAME(bpr_grad_loop)(const NAME(job) *job, int64_t begin, int64_t end)
{
    for (int64_t row = begin; row < end; row++) {
        const T      *x = job->a + row * job->cols;
        T            *dx = job->out + row * job->cols;
        const int64_t label = job->label[row];
        const T       scale = job->cols > 1 ? job->dout[row] / (T)(job->cols - 1) : 0;
        T             sum = 0;
        for (int64_t k = 0; k < job->cols; k++) {
            dx[k] = k == label ? 0 : scale * NAME(tr_sigmoid)(x[k] - x[label]);
            sum += dx[k];
        }
        dx[label] = -sum;
    }
}

void NAME(tr_bpr_grad)(T *dx, const T *dout, const T *x, const int64_t *label, int64_t rows, int64_t cols)
{
    NAME(job) job = {.loop = NAME(bpr_grad_loop), .out = dx, .dout = dout, .a = x, .label = label, .items = rows, .cols = cols};
    NAME(run)(&job, cols);
}

#endif
