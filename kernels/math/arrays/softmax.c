/* softmax.c - rows are the slices; each row stays in cache between its passes. */
#ifndef T
#include "kernels/math/arrays/softmax.h"

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/lanes.h"

#include <stdatomic.h>

enum { MIN_ITEMS = 4096 };                                   /* elements of a slice */

static int64_t rows_of_slice(int64_t cols)
{
    return 1 + MIN_ITEMS / (cols > 0 ? cols : 1);
}

enum { LOWEST = -64 };                             /* the least logit that counts, beside the largest one of its row */

/* The smallest row whose label is bad; rows are seen in any order. */
static void note_bad_row(_Atomic int64_t *bad, int64_t row)
{
    int64_t known = atomic_load(bad);
    while ((known < 0 || row < known) && !atomic_compare_exchange_weak(bad, &known, row))
        ;
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    T              *out, *loss;
    const T        *x, *d, *soft;
    const int64_t  *labels;
    int64_t         cols, ignore;
    _Atomic int64_t bad;
} NAME(job);

/* Label `row` is that of a column: true. It is to be ignored, or bad: false. */
static bool NAME(has_label)(NAME(job) *j, int64_t row)
{
    const int64_t label = j->labels[row];
    if (label >= 0 && label < j->cols && label != j->ignore)
        return true;
    if (label != j->ignore)
        note_bad_row(&j->bad, row);
    return false;
}

/* -- softmax ----------------------------------------------------------------------------------------------------------- */

/* Returns log(sum(exp(x))). No probability is below exp(-64), as in Fluid: what divides by one, as the gradient of cross_entropy does, stays finite. */
TR_INLINE T NAME(softmax_row)(T *out, const T *x, int64_t cols)
{
    const T max = NAME(tr_lanes_max)(x, cols);
    TR_IVDEP
    for (int64_t k = 0; k < cols; k++) {
        const T below = x[k] - max;
        out[k] = NAME(tr_exp_normal)(below < LOWEST ? LOWEST : below);
    }
    const T sum = NAME(tr_lanes_sum)(out, cols), scale = 1 / sum;
    for (int64_t k = 0; k < cols; k++)
        out[k] *= scale;
    return NAME(tr_log)(sum) + max;
}

TR_CLONES static void NAME(softmax_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++)
        NAME(softmax_row)(j->out + r * j->cols, j->x + r * j->cols, j->cols);
}

void NAME(tr_softmax)(T *out, const T *x, int64_t rows, int64_t cols)
{
    NAME(job) j = {.out = out, .x = x, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(softmax_range), &j);
}

TR_CLONES static void NAME(softmax_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        T       *dx = j->out + r * j->cols;
        const T *d = j->d + r * j->cols, *y = j->x + r * j->cols, dot = NAME(tr_lanes_dot)(d, y, j->cols);
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = y[k] * (d[k] - dot);
    }
}

void NAME(tr_softmax_grad)(T *dx, const T *dout, const T *out, int64_t rows, int64_t cols)
{
    NAME(job) j = {.out = dx, .x = out, .d = dout, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(softmax_grad_range), &j);
}

/* -- with cross entropy, labels are columns ------------------------------------------------------------------------------ */

TR_CLONES static void NAME(hard_range)(void *payload, int64_t begin, int64_t end)
{
    NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols;
        const T  logit = NAME(has_label)(j, r) ? x[j->labels[r]] : 0;          /* out may be x: read it first */
        const T  log_sum = NAME(softmax_row)(j->out + r * j->cols, x, j->cols);
        j->loss[r] = j->labels[r] == j->ignore ? 0 : log_sum - logit;
    }
}

int64_t NAME(tr_softmax_cross_entropy)(T *softmax, T *loss, const T *logits, const int64_t *labels, int64_t rows,
                                       int64_t cols, int64_t ignore)
{
    NAME(job) j = {.out = softmax, .loss = loss, .x = logits, .labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(hard_range), &j);
    return j.bad;
}

TR_CLONES static void NAME(hard_grad_range)(void *payload, int64_t begin, int64_t end)
{
    NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        T         *dx = j->out + r * j->cols;
        const T   *y = j->x + r * j->cols;
        const bool has = NAME(has_label)(j, r);
        const T    d = has ? j->d[r] : 0;
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = y[k] * d;
        if (has)
            dx[j->labels[r]] -= d;
    }
}

int64_t NAME(tr_softmax_cross_entropy_grad)(T *dlogits, const T *dloss, const T *softmax, const int64_t *labels,
                                            int64_t rows, int64_t cols, int64_t ignore)
{
    NAME(job) j = {.out = dlogits, .x = softmax, .d = dloss, .labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(hard_grad_range), &j);
    return j.bad;
}

/* -- with cross entropy, labels are distributions -------------------------------------------------------------------------- */

/* -sum(label * log softmax) = sum(label) log_sum - sum(label * x) */
TR_CLONES static void NAME(soft_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols, *label = j->soft + r * j->cols;
        const T  weight = NAME(tr_lanes_sum)(label, j->cols), dot = NAME(tr_lanes_dot)(label, x, j->cols);
        j->loss[r] = weight * NAME(softmax_row)(j->out + r * j->cols, x, j->cols) - dot;
    }
}

void NAME(tr_softmax_cross_entropy_soft)(T *softmax, T *loss, const T *logits, const T *labels, int64_t rows, int64_t cols)
{
    NAME(job) j = {.out = softmax, .loss = loss, .x = logits, .soft = labels, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(soft_range), &j);
}

TR_CLONES static void NAME(soft_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        T       *dx = j->out + r * j->cols;
        const T *y = j->x + r * j->cols, *label = j->soft + r * j->cols, d = j->d[r];
        const T  weight = NAME(tr_lanes_sum)(label, j->cols);
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = (y[k] * weight - label[k]) * d;
    }
}

void NAME(tr_softmax_cross_entropy_soft_grad)(T *dlogits, const T *dloss, const T *softmax, const T *labels, int64_t rows,
                                              int64_t cols)
{
    NAME(job) j = {.out = dlogits, .x = softmax, .d = dloss, .soft = labels, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(soft_grad_range), &j);
}

/* -- cross entropy of probabilities ------------------------------------------------------------------------------------------ */

/* Fluid's bound for the logarithm of 0. */
TR_INLINE T NAME(bounded_log)(T x)
{
    const T y = NAME(tr_log)(x);
    return y == -(T)INFINITY ? (T)-1e20 : y == (T)INFINITY ? (T)1e20 : y;
}

int64_t NAME(tr_cross_entropy)(T *loss, const T *x, const int64_t *labels, int64_t rows, int64_t cols, int64_t ignore)
{
    NAME(job) j = {.labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    for (int64_t r = 0; r < rows; r++)
        loss[r] = NAME(has_label)(&j, r) ? -NAME(bounded_log)(x[r * cols + labels[r]]) : 0;
    return j.bad;
}

void NAME(tr_match_labels)(T *match, const T *x, const int64_t *labels, int64_t rows, int64_t cols, int64_t ignore)
{
    NAME(job) j = {.labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    for (int64_t r = 0; r < rows; r++)
        match[r] = NAME(has_label)(&j, r) ? x[r * cols + labels[r]] : 0;
}

int64_t NAME(tr_cross_entropy_match_grad)(T *dx, const T *dloss, const T *match, const int64_t *labels, int64_t rows, int64_t cols,
                                          int64_t ignore)
{
    NAME(job) j = {.labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    memset(dx, 0, (size_t)(rows * cols) * sizeof *dx);
    for (int64_t r = 0; r < rows; r++)
        if (NAME(has_label)(&j, r))
            dx[r * cols + labels[r]] = -dloss[r] / match[r];
    return j.bad;
}

TR_CLONES static void NAME(entropy_grad_range)(void *payload, int64_t begin, int64_t end)
{
    NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        T *dx = j->out + r * j->cols;
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = 0;
        if (NAME(has_label)(j, r))
            dx[j->labels[r]] = -j->d[r] / j->x[r * j->cols + j->labels[r]];
    }
}

int64_t NAME(tr_cross_entropy_grad)(T *dx, const T *dloss, const T *x, const int64_t *labels, int64_t rows, int64_t cols,
                                    int64_t ignore)
{
    NAME(job) j = {.out = dx, .x = x, .d = dloss, .labels = labels, .cols = cols, .ignore = ignore, .bad = -1};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(entropy_grad_range), &j);
    return j.bad;
}

TR_CLONES static void NAME(entropy_soft_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        const T *x = j->x + r * j->cols, *label = j->soft + r * j->cols;
        T        sum = 0;
        for (int64_t k = 0; k < j->cols; k++)
            sum += label[k] * NAME(bounded_log)(x[k]);
        j->loss[r] = -sum;
    }
}

void NAME(tr_cross_entropy_soft)(T *loss, const T *x, const T *labels, int64_t rows, int64_t cols)
{
    NAME(job) j = {.loss = loss, .x = x, .soft = labels, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(entropy_soft_range), &j);
}

TR_CLONES static void NAME(entropy_soft_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t r = begin; r < end; r++) {
        T       *dx = j->out + r * j->cols;
        const T *x = j->x + r * j->cols, *label = j->soft + r * j->cols, d = -j->d[r];
        TR_IVDEP
        for (int64_t k = 0; k < j->cols; k++)
            dx[k] = d * label[k] / x[k];
    }
}

void NAME(tr_cross_entropy_soft_grad)(T *dx, const T *dloss, const T *x, const T *labels, int64_t rows, int64_t cols)
{
    NAME(job) j = {.out = dx, .x = x, .d = dloss, .soft = labels, .cols = cols};
    tr_parallel_range(rows, rows_of_slice(cols), NAME(entropy_soft_grad_range), &j);
}

#endif
