/* reduce.c - reductions along rows (post = 1) and down columns.
 *
 * Rows: chunks of TR_CHUNK elements, joined in a wide type in their order. A few long rows are cut into such chunks for
 * the pool. Columns: blocks of BLOCK_ROWS rows by BLOCK_COLS columns, each summed from zero and then added to the total
 * of its strip; a few wide strips of many rows are cut into groups of rows, whose totals are added in their order. */
#ifndef T
#include "kernels/math/arrays/reduce.h"

#include <string.h>

#include "framework/base/compiler.h"
#include "framework/tensors/half.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/row_sums.h"
#include "kernels/math/tools/fetch.h"
#include "kernels/math/tools/lanes.h"

enum { MIN_WORK = 16384, BLOCK_ROWS = 128, BLOCK_COLS = 256, MAX_GROUPS = 16, SOME = 16 };

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

typedef struct flags_job {
    uint8_t       *out;
    const uint8_t *x;
    int64_t        n, post;
    uint8_t        stop;                                     /* the value that decides */
} flags_job;

static void flags_range(void *payload, int64_t begin, int64_t end)
{
    const flags_job *j = payload;
    for (int64_t o = begin; o < end; o++) {
        const uint8_t *x = j->x + o / j->post * j->n * j->post + o % j->post;
        uint8_t        result = !j->stop;
        for (int64_t i = 0; i < j->n && result != j->stop; i++)
            result = x[i * j->post] != 0;
        j->out[o] = result;
    }
}

void tr_reduce_all(uint8_t *out, const uint8_t *x, int64_t pre, int64_t n, int64_t post)
{
    flags_job j = {out, x, n, post, 0};
    tr_parallel_range(pre * post, 1 + MIN_WORK / at_least_one(n), flags_range, &j);
}

void tr_reduce_any(uint8_t *out, const uint8_t *x, int64_t pre, int64_t n, int64_t post)
{
    flags_job j = {out, x, n, post, 1};
    tr_parallel_range(pre * post, 1 + MIN_WORK / at_least_one(n), flags_range, &j);
}

#include "kernels/math/tools/each_number.h"
#else

#if T_IS_FLOATING
typedef double NAME(wide);
#define WIDE(function) function##_f64
#else
typedef int64_t NAME(wide);
#define WIDE(function) function##_i64
#endif

typedef struct {
    tr_reduce   op;
    T          *out;
    const T    *x;
    int64_t     pre, n, post, strips, groups;
    T          *partial;                                     /* [groups][pre][post] */
    NAME(wide) *chunk;
    const uint16_t *half;                                    /* instead of x: of this type */
    tr_dtype        half_type;
} NAME(job);

/* -- rows --------------------------------------------------------------------------------------------------------- */

TR_INLINE NAME(wide) NAME(result_of)(tr_reduce op, const T *x, int64_t n)
{
    switch (op) {
    case TR_REDUCE_MAX:  return NAME(tr_lanes_max)(x, n);
    case TR_REDUCE_MIN:  return NAME(tr_lanes_min)(x, n);
    case TR_REDUCE_PROD: return NAME(tr_lanes_prod)(x, n);
    default:             return NAME(tr_lanes_sum)(x, n);
    }
}

TR_CLONES static NAME(wide) NAME(chunk_result)(tr_reduce op, const T *x, int64_t n)
{
    return NAME(result_of)(op, x, n);
}

static NAME(wide) NAME(joined)(tr_reduce op, NAME(wide) a, NAME(wide) b)
{
    switch (op) {
    case TR_REDUCE_MAX:  return a > b ? a : b;
    case TR_REDUCE_MIN:  return a < b ? a : b;
    case TR_REDUCE_PROD: return WIDE(tr_times)(a, b);
    default:             return WIDE(tr_plus)(a, b);
    }
}

TR_INLINE T NAME(finished)(tr_reduce op, NAME(wide) total, int64_t n)
{
#if T_IS_FLOATING
    return (T)(op == TR_REDUCE_MEAN ? total / (NAME(wide))n : total);
#else
    return (T)(op == TR_REDUCE_MEAN && n > 0 ? total / n : total);
#endif
}

static int64_t NAME(chunks_of)(int64_t n)
{
    return n <= TR_CHUNK ? 1 : (n + TR_CHUNK - 1) / TR_CHUNK;
}

static NAME(wide) NAME(chunk_of_row)(tr_reduce op, const T *row, int64_t n, int64_t chunk)
{
    const int64_t begin = chunk * TR_CHUNK, left = n - begin;
    return NAME(chunk_result)(op, row + begin, left < TR_CHUNK ? left : TR_CHUNK);
}

/* The results of chunks [begin, end) of a row. */
static void NAME(chunk_results)(tr_reduce op, NAME(wide) *result, const T *row, int64_t n, int64_t begin, int64_t end)
{
    const int64_t whole = tr_reduce_is_sum(op) ? n / TR_CHUNK : 0;
    for (int64_t c = begin, some; c < end; c += some) {
        T sums[SOME];
        some = c < whole ? least(SOME, least(whole, end) - c) : 1;
        if (c < whole)
            NAME(tr__row_sums)(sums, row + c * TR_CHUNK, some, TR_CHUNK);
        for (int64_t i = 0; i < some; i++)
            result[c - begin + i] = c < whole ? sums[i] : NAME(chunk_of_row)(op, row, n, c);
    }
}

static T NAME(row_result)(tr_reduce op, const T *row, int64_t n)
{
    const int64_t chunks = NAME(chunks_of)(n);
    NAME(wide)    result[SOME], total = 0;
    for (int64_t c = 0; c < chunks; c += SOME) {
        const int64_t some = least(SOME, chunks - c);
        NAME(chunk_results)(op, result, row, n, c, c + some);
        for (int64_t i = 0; i < some; i++)
            total = c + i == 0 ? result[0] : NAME(joined)(op, total, result[i]);
    }
    return NAME(finished)(op, total, n);
}

/* Rows of one chunk each: short ones take less time than a call. A row is often a page, at whose end the processor's own prefetchers stop. */
TR_CLONES static void NAME(short_rows)(tr_reduce op, T *out, const T *x, int64_t rows, int64_t n)
{
    enum { LINES = 16 };
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t line = 0; line < LINES && line * TR_CACHE_LINE < n * (int64_t)sizeof(T); line++)
            tr__fetch_bytes(x + (i + 1) * n, line * TR_CACHE_LINE);
        out[i] = NAME(finished)(op, NAME(result_of)(op, x + i * n, n), n);
    }
}

static void NAME(short_sums)(tr_reduce op, T *out, const T *x, int64_t rows, int64_t n)
{
    NAME(tr__row_sums)(out, x, rows, n);
    for (int64_t i = 0; i < rows && op == TR_REDUCE_MEAN; i++)
        out[i] = NAME(finished)(op, out[i], n);
}
static void NAME(rows_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    if (NAME(chunks_of)(j->n) > 1)
        for (int64_t i = begin; i < end; i++)
            j->out[i] = NAME(row_result)(j->op, j->x + i * j->n, j->n);
    else
        (tr_reduce_is_sum(j->op) ? NAME(short_sums) : NAME(short_rows))(j->op, j->out + begin, j->x + begin * j->n, end - begin, j->n);
}

static void NAME(chunks_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    NAME(chunk_results)(j->op, j->chunk + begin, j->x, j->n, begin, end);
}
/* One row, its chunks on the pool. */
static void NAME(long_row)(NAME(job) *j)
{
    const int64_t chunks = NAME(chunks_of)(j->n);
    j->chunk = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)chunks * sizeof *j->chunk);
    tr_parallel_range(chunks, 4, NAME(chunks_range), j);
    NAME(wide) total = j->chunk[0];
    for (int64_t c = 1; c < chunks; c++)
        total = NAME(joined)(j->op, total, j->chunk[c]);
    *j->out = NAME(finished)(j->op, total, j->n);
}

static void NAME(reduce_rows)(NAME(job) *j)
{
    if (j->pre >= 8 || j->n < 2 * MIN_WORK) {
        tr_parallel_range(j->pre, 1 + MIN_WORK / at_least_one(j->n), NAME(rows_range), j);
        return;
    }
    for (int64_t i = 0; i < j->pre; i++) {
        NAME(job) row = *j;
        row.x += i * j->n;
        row.out += i;
        NAME(long_row)(&row);
    }
}

/* -- columns ------------------------------------------------------------------------------------------------------- */

TR_CLONES static void NAME(take_rows)(tr_reduce op, T *acc, const T *x, int64_t rows, int64_t stride, int64_t cols)
{
    for (int64_t r = 0; r < rows; r++, x += stride)
        switch (op) {
        case TR_REDUCE_MAX:
            for (int64_t k = 0; k < cols; k++)
                acc[k] = x[k] > acc[k] ? x[k] : acc[k];
            break;
        case TR_REDUCE_MIN:
            for (int64_t k = 0; k < cols; k++)
                acc[k] = x[k] < acc[k] ? x[k] : acc[k];
            break;
        case TR_REDUCE_PROD:
            for (int64_t k = 0; k < cols; k++)
                acc[k] = NAME(tr_times)(acc[k], x[k]);
            break;
        default:
            for (int64_t k = 0; k < cols; k++)
                acc[k] = NAME(tr_plus)(acc[k], x[k]);
        }
}

static T NAME(neutral)(tr_reduce op)
{
    return op == TR_REDUCE_MAX ? T_MIN : op == TR_REDUCE_MIN ? T_MAX : op == TR_REDUCE_PROD ? 1 : 0;
}

/* out[0 .. cols-1] = the reduction of `rows` rows; cols <= BLOCK_COLS. */
static void NAME(reduce_strip)(tr_reduce op, T *out, const T *x, int64_t rows, int64_t stride, int64_t cols)
{
    T block[BLOCK_COLS];
    for (int64_t k = 0; k < cols; k++)
        out[k] = NAME(neutral)(op);
    for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {
        for (int64_t k = 0; k < cols; k++)
            block[k] = NAME(neutral)(op);
        NAME(take_rows)(op, block, x + r * stride, rows - r < BLOCK_ROWS ? rows - r : BLOCK_ROWS, stride, cols);
        NAME(take_rows)(op, out, block, 1, cols, cols);
    }
}

#if T_IS_F32
/* reduce_strip's sums, of numbers that become floats row by row. */
static void half_strip(float *out, const uint16_t *x, tr_dtype half, int64_t rows, int64_t stride, int64_t cols)
{
    float block[BLOCK_COLS], row[BLOCK_COLS];
    memset(out, 0, (size_t)cols * sizeof *out);
    for (int64_t r = 0; r < rows; r += BLOCK_ROWS) {
        memset(block, 0, sizeof block);
        for (int64_t i = r; i < least(r + BLOCK_ROWS, rows); i++) {
            tr__floats_of_half(row, x + i * stride, half, cols);
            take_rows_f32(TR_REDUCE_SUM, block, row, 1, cols, cols);
        }
        take_rows_f32(TR_REDUCE_SUM, out, block, 1, cols, cols);
    }
}
#endif

/* Task (i, strip, group): of x[i], some columns, of these some rows. */
static void NAME(columns_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t task = begin; task < end; task++) {
        const int64_t group = task % j->groups, strip = task / j->groups % j->strips, i = task / j->groups / j->strips;
        const int64_t left = strip * BLOCK_COLS, cols = j->post - left < BLOCK_COLS ? j->post - left : BLOCK_COLS;
        int64_t       top, bottom;
        tr_slice_range(&top, &bottom, j->n, BLOCK_ROWS, j->groups, group);
        T            *sums = j->partial + (group * j->pre + i) * j->post + left;
        const int64_t at = (i * j->n + top) * j->post + left;
#if T_IS_F32
        if (j->half)
            half_strip(sums, j->half + at, j->half_type, bottom - top, j->post, cols);
        else
#endif
            NAME(reduce_strip)(j->op, sums, j->x + at, bottom - top, j->post, cols);
    }
}

static void NAME(join_groups)(const NAME(job) *j)
{
    const int64_t size = j->pre * j->post;
    if (j->partial != j->out)
        for (int64_t left = 0; left < size; left += BLOCK_COLS)
            NAME(reduce_strip)(j->op, j->out + left, j->partial + left, j->groups, size,
                               size - left < BLOCK_COLS ? size - left : BLOCK_COLS);
    if (j->op == TR_REDUCE_MEAN)
        for (int64_t i = 0; i < size; i++)
            j->out[i] = NAME(finished)(j->op, j->out[i], j->n);
}

static void NAME(reduce_columns)(NAME(job) *j)
{
    const int64_t strips = (j->post + BLOCK_COLS - 1) / BLOCK_COLS, tasks = j->pre * strips;
    const int64_t cols = j->post < BLOCK_COLS ? j->post : BLOCK_COLS, wanted = j->n * cols / MIN_WORK;
    const int64_t groups = tasks >= MAX_GROUPS || wanted <= 1 ? 1 : wanted < MAX_GROUPS ? wanted : MAX_GROUPS;

    j->strips = strips;
    j->groups = groups;
    j->partial = j->out;
    if (groups > 1)
        j->partial = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)(groups * j->pre * j->post) * sizeof(T));
    tr_parallel_range(tasks * groups, 1 + MIN_WORK * groups / at_least_one(j->n * cols), NAME(columns_range), j);
    NAME(join_groups)(j);
}

#if T_IS_F32
void tr_sum_columns_of_half(float *out, const uint16_t *x, tr_dtype half, int64_t rows, int64_t cols)
{
    job_f32 j = {.op = TR_REDUCE_SUM, .out = out, .half = x, .half_type = half, .pre = 1, .n = rows, .post = cols};
    if (cols > 0)
        reduce_columns_f32(&j);
}
#endif

void NAME(tr_reduce_apply)(tr_reduce op, T *out, const T *x, int64_t pre, int64_t n, int64_t post)
{
    NAME(job) j = {.op = op, .out = out, .x = x, .pre = pre, .n = n, .post = post};
    if (pre == 0 || post == 0)
        return;
    if (post == 1)
        NAME(reduce_rows)(&j);
    else
        NAME(reduce_columns)(&j);
}

/* -- positions ------------------------------------------------------------------------------------------------------ */

typedef struct {
    int64_t *index;
    T       *value;
    const T *x;
    int64_t  n, post, k;
    bool     smallest;
} NAME(search);

static void NAME(arg_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(search) *s = payload;
    for (int64_t o = begin; o < end; o++) {
        const T *x = s->x + o / s->post * s->n * s->post + o % s->post;
        int64_t  best = 0;
        for (int64_t i = 1; i < s->n; i++)
            if (s->smallest ? x[i * s->post] < x[best * s->post] : x[i * s->post] > x[best * s->post])
                best = i;
        s->index[o] = best;
    }
}

void NAME(tr_arg_max)(int64_t *out, const T *x, int64_t pre, int64_t n, int64_t post)
{
    NAME(search) s = {.index = out, .x = x, .n = n, .post = post};
    tr_parallel_range(pre * post, 1 + MIN_WORK / at_least_one(n), NAME(arg_range), &s);
}

void NAME(tr_arg_min)(int64_t *out, const T *x, int64_t pre, int64_t n, int64_t post)
{
    NAME(search) s = {.index = out, .x = x, .n = n, .post = post, .smallest = true};
    tr_parallel_range(pre * post, 1 + MIN_WORK / at_least_one(n), NAME(arg_range), &s);
}

/* A heap of the k best so far, the worst of them on top, then sorted by taking the top away. */
static bool NAME(worse)(const T *value, const int64_t *index, int64_t a, int64_t b)
{
    return value[a] < value[b] || (value[a] == value[b] && index[a] > index[b]);
}

static void NAME(sift_down)(T *value, int64_t *index, int64_t at, int64_t size)
{
    for (int64_t child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && NAME(worse)(value, index, child + 1, child))
            child++;
        if (!NAME(worse)(value, index, child, at))
            return;
        const T       v = value[at];
        const int64_t i = index[at];
        value[at] = value[child], index[at] = index[child];
        value[child] = v, index[child] = i;
    }
}

static void NAME(top_k_row)(T *value, int64_t *index, const T *x, int64_t n, int64_t k)
{
    for (int64_t i = 0; i < k; i++)
        value[i] = x[i], index[i] = i;
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        NAME(sift_down)(value, index, i, k);
    for (int64_t i = k; i < n; i++)
        if (x[i] > value[0]) {
            value[0] = x[i], index[0] = i;
            NAME(sift_down)(value, index, 0, k);
        }
    for (int64_t size = k - 1; size > 0; size--) {
        const T       v = value[0];
        const int64_t i = index[0];
        value[0] = value[size], index[0] = index[size];
        value[size] = v, index[size] = i;
        NAME(sift_down)(value, index, 0, size);
    }
}

static void NAME(top_k_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(search) *s = payload;
    for (int64_t i = begin; i < end; i++)
        NAME(top_k_row)(s->value + i * s->k, s->index + i * s->k, s->x + i * s->n, s->n, s->k);
}

void NAME(tr_top_k)(T *out, int64_t *index, const T *x, int64_t rows, int64_t cols, int64_t k)
{
    NAME(search) s = {.index = index, .value = out, .x = x, .n = cols, .k = k};
    tr_parallel_range(rows, 1 + MIN_WORK / at_least_one(cols), NAME(top_k_range), &s);
}

#if T_IS_FLOATING
/* -- sums of a whole array -------------------------------------------------------------------------------------------- */

typedef enum { NAME(PLAIN), NAME(SQUARES), NAME(ABSOLUTE), NAME(DOT) } NAME(sum_kind);

typedef struct {
    NAME(sum_kind) kind;
    const T       *x, *y;
    int64_t        n;
    double        *chunk;
} NAME(sum_job);

TR_CLONES static double NAME(sum_chunk)(NAME(sum_kind) kind, const T *x, const T *y, int64_t n)
{
    T value[TR_CHUNK];
    switch (kind) {
    case NAME(SQUARES): return NAME(tr_lanes_dot)(x, x, n);
    case NAME(DOT):     return NAME(tr_lanes_dot)(x, y, n);
    case NAME(ABSOLUTE):
        for (int64_t i = 0; i < n; i++)
            value[i] = x[i] < 0 ? -x[i] : x[i];
        return NAME(tr_lanes_sum)(value, n);
    default: return NAME(tr_lanes_sum)(x, n);
    }
}

static void NAME(sum_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(sum_job) *j = payload;
    for (int64_t c = begin; c < end; c++) {
        const int64_t at = c * TR_CHUNK, left = j->n - at;
        j->chunk[c] = NAME(sum_chunk)(j->kind, j->x + at, j->y + at, left < TR_CHUNK ? left : TR_CHUNK);
    }
}

static double NAME(sum_of)(NAME(sum_kind) kind, const T *x, const T *y, int64_t n)
{
    if (n <= TR_CHUNK)
        return NAME(sum_chunk)(kind, x, y, n);
    const int64_t chunks = NAME(chunks_of)(n);
    NAME(sum_job) j = {kind, x, y, n, tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)chunks * sizeof(double))};
    double        total = 0;
    tr_parallel_range(chunks, 4, NAME(sum_range), &j);
    for (int64_t c = 0; c < chunks; c++)
        total += j.chunk[c];
    return total;
}

double NAME(tr_sum)(const T *x, int64_t n)
{
    return NAME(sum_of)(NAME(PLAIN), x, x, n);
}

double NAME(tr_sum_squares)(const T *x, int64_t n)
{
    return NAME(sum_of)(NAME(SQUARES), x, x, n);
}

double NAME(tr_sum_abs)(const T *x, int64_t n)
{
    return NAME(sum_of)(NAME(ABSOLUTE), x, x, n);
}

double NAME(tr_dot)(const T *x, const T *y, int64_t n)
{
    return NAME(sum_of)(NAME(DOT), x, y, n);
}
#endif

#undef WIDE
#endif
