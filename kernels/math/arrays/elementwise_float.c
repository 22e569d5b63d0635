/* elementwise_float.c - the functions of elementwise.h that exist for float and double alone.
 *
 * The gradient of a broadcast operand is computed as if b had the shape of a, and then summed over pre and post by
 * tr_reduce_apply: one order of sums for all operators. ADD and SUB sum dout itself. */
#ifndef T
#include "kernels/math/arrays/elementwise.h"

#include "framework/base/compiler.h"
#include "framework/tensors/random.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/tools/lanes.h"

#include <string.h>
#include <tgmath.h>

enum { MIN_ITEMS = 16384, BLOCK = 2048 };                    /* elements of a slice; of a block that stays in L1 */

#include "kernels/math/tools/each_float.h"
#else

/* -- gradients of the binary operators ------------------------------------------------------------------------------- */

TR_INLINE T NAME(da_sub)(T d, T a, T b) { (void)a, (void)b; return d; }
TR_INLINE T NAME(da_mul)(T d, T a, T b) { (void)a; return d * b; }
TR_INLINE T NAME(da_div)(T d, T a, T b) { (void)a; return d / b; }
TR_INLINE T NAME(da_max)(T d, T a, T b) { return a > b ? d : 0; }
TR_INLINE T NAME(da_min)(T d, T a, T b) { return a < b ? d : 0; }
TR_INLINE T NAME(da_pow)(T d, T a, T b) { return b == 0 ? 0 : d * b * pow(a, b - 1); }
TR_INLINE T NAME(db_sub)(T d, T a, T b) { (void)a, (void)b; return -d; }
TR_INLINE T NAME(db_mul)(T d, T a, T b) { (void)b; return d * a; }
TR_INLINE T NAME(db_div)(T d, T a, T b) { return -d * a / (b * b); }
TR_INLINE T NAME(db_max)(T d, T a, T b) { return a > b ? 0 : d; }
TR_INLINE T NAME(db_min)(T d, T a, T b) { return a < b ? 0 : d; }
TR_INLINE T NAME(db_pow)(T d, T a, T b) { return a == 0 && b >= 0 ? 0 : d * pow(a, b) * log(a); }

#define GRAD_LIST(X) X(SUB, sub) X(MUL, mul) X(DIV, div) X(MAX, max) X(MIN, min) X(POW, pow)

#define LOOPS(OP, op)                                                                                                 \
    TR_CLONES static void NAME(op##_da)(T *out, const T *d, const T *a, const T *b, int64_t b_step, int64_t n)        \
    {                                                                                                                 \
        if (b_step) {                                                                                                 \
            TR_IVDEP                                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = NAME(da_##op)(d[i], a[i], b[i]);                                                             \
        } else {                                                                                                      \
            const T one = b[0];                                                                                       \
            TR_IVDEP                                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = NAME(da_##op)(d[i], a[i], one);                                                              \
        }                                                                                                             \
    }                                                                                                                 \
    TR_CLONES static void NAME(op##_db)(T *out, const T *d, const T *a, const T *b, int64_t b_step, int64_t n)        \
    {                                                                                                                 \
        if (b_step) {                                                                                                 \
            TR_IVDEP                                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = NAME(db_##op)(d[i], a[i], b[i]);                                                             \
        } else {                                                                                                      \
            const T one = b[0];                                                                                       \
            TR_IVDEP                                                                                                  \
            for (int64_t i = 0; i < n; i++)                                                                           \
                out[i] = NAME(db_##op)(d[i], a[i], one);                                                              \
        }                                                                                                             \
    }
GRAD_LIST(LOOPS)
#undef LOOPS

typedef void (*NAME(grad_fn))(T *out, const T *d, const T *a, const T *b, int64_t b_step, int64_t n);

static NAME(grad_fn) NAME(grad_of)(tr_binary op, bool of_b)
{
    switch (op) {
#define CASE(OP, op) case TR_BINARY_##OP: return of_b ? NAME(op##_db) : NAME(op##_da);
        GRAD_LIST(CASE)
#undef CASE
    default: return NULL;
    }
}
#undef GRAD_LIST

typedef struct {
    NAME(grad_fn) fn;
    T            *out;
    const T      *d, *a, *b;
    int64_t       n, post;
} NAME(grad_job);

static void NAME(same_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(grad_job) *j = payload;
    j->fn(j->out + begin, j->d + begin, j->a + begin, j->b + begin, 1, end - begin);
}

static void NAME(scalar_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(grad_job) *j = payload;
    j->fn(j->out + begin, j->d + begin, j->a + begin, j->b, 0, end - begin);
}

/* Rows of n against the row b (post = 1), or rows of post against one element each. */
static void NAME(rows_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(grad_job) *j = payload;
    const int64_t         length = j->post == 1 ? j->n : j->post;
    for (int64_t r = begin; r < end; r++) {
        const T *b = j->post == 1 ? j->b : j->b + r % j->n;
        j->fn(j->out + r * length, j->d + r * length, j->a + r * length, b, j->post == 1, length);
    }
}

static void NAME(grad_terms)(NAME(grad_job) *j, int64_t pre)
{
    const int64_t length = j->post == 1 ? j->n : j->post;
    if (pre == 1 && j->post == 1)
        tr_parallel_range(j->n, MIN_ITEMS, NAME(same_range), j);
    else if (j->n == 1)
        tr_parallel_range(pre * j->post, MIN_ITEMS, NAME(scalar_range), j);
    else if (length > 0)
        tr_parallel_range(j->post == 1 ? pre : pre * j->n, 1 + MIN_ITEMS / length, NAME(rows_range), j);
}

/* db[j] = the sum of terms[.][j][.], possibly through the row sums `rows`. */
static void NAME(sum_to_b)(T *db, T *rows, const T *terms, int64_t pre, int64_t n, int64_t post)
{
    if (n == 1) {
        db[0] = (T)NAME(tr_sum)(terms, pre * post);
    } else if (post == 1) {
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, db, terms, 1, pre, n);
    } else {
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, rows, terms, pre * n, post, 1);
        NAME(tr_reduce_apply)(TR_REDUCE_SUM, db, rows, 1, pre, n);
    }
}

static void NAME(grad_of_b)(tr_binary op, T *db, const T *dout, const T *a, const T *b, int64_t pre, int64_t n, int64_t post)
{
    const int64_t  size = pre * n * post;
    const bool     is_dout = op == TR_BINARY_ADD || op == TR_BINARY_SUB, same = pre == 1 && post == 1;
    T             *work = same ? NULL : tr_thread_scratch(TR_SCRATCH_PACK, (size_t)(size + pre * n) * sizeof(T));
    NAME(grad_job) j = {NAME(grad_of)(op, true), same ? db : work, dout, a, b, n, post};

    if (same && op == TR_BINARY_ADD) {
        if (db != dout)
            memcpy(db, dout, (size_t)n * sizeof(T));
        return;
    }
    if (same) {
        j.a = a ? a : dout;
        j.b = b ? b : dout;
    }
    if (same || !is_dout)
        NAME(grad_terms)(&j, pre);
    if (same)
        return;
    NAME(sum_to_b)(db, work + size, is_dout ? dout : work, pre, n, post);
    if (op == TR_BINARY_SUB)
        for (int64_t i = 0; i < n; i++)
            db[i] = -db[i];
}

void NAME(tr_binary_grad)(tr_binary op, T *da, T *db, const T *dout, const T *a, const T *b, int64_t pre, int64_t n,
                          int64_t post)
{
    const int64_t size = pre * n * post;
    if (size == 0) {
        if (db)
            memset(db, 0, (size_t)n * sizeof(T));
        return;
    }
    if (db)                                                   /* first, because da may be dout */
        NAME(grad_of_b)(op, db, dout, a, b, pre, n, post);
    if (da && (op == TR_BINARY_ADD || op == TR_BINARY_SUB)) {
        if (da != dout)
            memcpy(da, dout, (size_t)size * sizeof(T));
    } else if (da) {
        NAME(grad_job) j = {NAME(grad_of)(op, false), da, dout, a, b, n, post};
        NAME(grad_terms)(&j, pre);
    }
}

/* -- bias with activation ------------------------------------------------------------------------------------------------ */

typedef struct {
    T       *out;
    const T *x, *bias;
    int64_t  cols;
    tr_act   act;
    T        p, q;
} NAME(bias_job);

TR_CLONES static void NAME(bias_rows)(T *out, const T *x, const T *bias, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++, out += cols, x += cols) {
        TR_IVDEP
        for (int64_t k = 0; k < cols; k++)
            out[k] = x[k] + bias[k];
    }
}

TR_CLONES static void NAME(bias_relu_rows)(T *out, const T *x, const T *bias, int64_t rows, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++, out += cols, x += cols) {
        TR_IVDEP
        for (int64_t k = 0; k < cols; k++) {
            const T y = x[k] + bias[k];
            out[k] = y < 0 ? 0 : y;
        }
    }
}

/* The activation follows while a block of rows is in cache. */
static void NAME(bias_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(bias_job) *j = payload;
    const int64_t         step = 1 + BLOCK / j->cols;
    for (int64_t r = begin; r < end; r += step) {
        const int64_t rows = end - r < step ? end - r : step, at = r * j->cols;
        if (j->act == TR_ACT_relu) {
            NAME(bias_relu_rows)(j->out + at, j->x + at, j->bias, rows, j->cols);
            continue;
        }
        NAME(bias_rows)(j->out + at, j->x + at, j->bias, rows, j->cols);
        NAME(tr_act_apply)(j->act, j->out + at, j->out + at, rows * j->cols, j->p, j->q);
    }
}

void NAME(tr_bias_act)(T *out, const T *x, const T *bias, int64_t rows, int64_t cols, tr_act act, T p, T q)
{
    NAME(bias_job) j = {out, x, bias, cols, act, p, q};
    if (cols > 0)
        tr_parallel_range(rows, 1 + MIN_ITEMS / cols, NAME(bias_range), &j);
}

/* -- dropout --------------------------------------------------------------------------------------------------------------- */

typedef struct {
    T             *out;
    uint8_t       *mask;
    const T       *x;
    const uint8_t *kept;
    uint64_t       key, start;
    double         keep;
    T              scale;
} NAME(dropout_job);

TR_CLONES static void NAME(masked)(T *out, const T *x, const uint8_t *mask, T scale, int64_t n)
{
    TR_IVDEP
    for (int64_t i = 0; i < n; i++)
        out[i] = mask[i] ? x[i] * scale : 0;
}

static void NAME(dropout_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(dropout_job) *j = payload;
    for (int64_t at = begin; at < end; at += BLOCK) {
        const int64_t size = end - at < BLOCK ? end - at : BLOCK;
        tr_random_bernoulli(j->mask + at, size, j->key, j->start + (uint64_t)at, j->keep);
        NAME(masked)(j->out + at, j->x + at, j->mask + at, j->scale, size);
    }
}

void NAME(tr_dropout)(T *out, uint8_t *mask, const T *x, int64_t n, uint64_t key, uint64_t start, double keep, T scale)
{
    NAME(dropout_job) j = {out, mask, x, mask, key, start, keep, scale};
    tr_parallel_range(n, MIN_ITEMS / 2, NAME(dropout_range), &j);
}

static void NAME(dropout_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(dropout_job) *j = payload;
    NAME(masked)(j->out + begin, j->x + begin, j->kept + begin, j->scale, end - begin);
}

void NAME(tr_dropout_grad)(T *dx, const T *dout, const uint8_t *mask, int64_t n, T scale)
{
    NAME(dropout_job) j = {.out = dx, .x = dout, .kept = mask, .scale = scale};
    tr_parallel_range(n, MIN_ITEMS, NAME(dropout_grad_range), &j);
}

/* -- finite? -------------------------------------------------------------------------------------------------------------- */

/* x - x is 0 for what is finite and NaN for the rest, and a sum keeps a NaN. */
TR_INLINE bool NAME(few_are_finite)(const T *x, int64_t n)
{
    T sum = 0;

    for (int64_t i = 0; i < n; i++)
        sum += x[i] - x[i];
    return sum == 0;
}

TR_CLONES static bool NAME(block_is_finite)(const T *x, int64_t n)
{
    T       lane[TR_LANES] = {0};
    int64_t i = 0;

    for (; i + TR_LANES <= n; i += TR_LANES)
        for (int l = 0; l < TR_LANES; l++)
            lane[l] += x[i + l] - x[i + l];
    return NAME(tr_lanes_join)(lane, TR_LANES) == 0 && NAME(few_are_finite)(x + i, n - i);
}

bool NAME(tr_all_finite)(const T *x, int64_t n)
{
    enum { LOOK = 16 * BLOCK };                              /* nothing is written, so a block need not stay in L1 */

    if (n < TR_LANES)
        return NAME(few_are_finite)(x, n);
    for (int64_t at = 0; at < n; at += LOOK)
        if (!NAME(block_is_finite)(x + at, n - at < LOOK ? n - at : LOOK))
            return false;
    return true;
}

#endif
