/* sequence.c - see sequence.h. Inner loops run over the width of a row, so they are vectors whatever the lengths are. */
#ifndef T
#include "kernels/math/sequences/sequence.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/softmax.h"

#include <math.h>
#include <string.h>

enum { MIN_BYTES = 65536 };                                  /* that a slice moves */

/* How many of `count` sequences a slice should have when all of them together have `bytes`. */
static int64_t sequences_of_slice(int64_t count, int64_t bytes)
{
    return bytes <= 0 ? count + 1 : 1 + (int64_t)((double)count * MIN_BYTES / (double)bytes);
}

/* -- moving rows -------------------------------------------------------------------------------- */

typedef struct move_job {
    char          *to;
    const char    *from;
    const tr_part *parts;
    const int64_t *offset, *first, *ref;
    int64_t        bytes;
} move_job;

static void copy_range(void *payload, int64_t begin, int64_t end)
{
    const move_job *j = payload;
    for (const tr_part *p = j->parts + begin; p < j->parts + end; p++)
        if (p->rows > 0)
            memcpy(j->to + p->to * j->bytes, j->from + p->from * j->bytes, (size_t)(p->rows * j->bytes));
}

void tr_parts_copy(void *to, const void *from, const tr_part *parts, int64_t count, int64_t row_bytes)
{
    move_job j = {.to = to, .from = from, .parts = parts, .bytes = row_bytes};
    int64_t  rows = 0;
    for (int64_t i = 0; i < count; i++)
        rows += parts[i].rows;
    tr_parallel_range(count, sequences_of_slice(count, rows * row_bytes), copy_range, &j);
}

void tr_parts_turn(tr_part *parts, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        parts[i] = (tr_part){.to = parts[i].from, .from = parts[i].to, .rows = parts[i].rows};
}

static void reverse_range(void *payload, int64_t begin, int64_t end)
{
    const move_job *j = payload;
    for (int64_t i = begin; i < end; i++)
        for (int64_t a = j->offset[i], b = j->offset[i + 1] - 1; b >= j->offset[i]; a++, b--)
            memcpy(j->to + b * j->bytes, j->from + a * j->bytes, (size_t)j->bytes);
}

void tr_sequence_reverse(void *out, const void *x, const int64_t *offset, int64_t count, int64_t row_bytes)
{
    move_job j = {.to = out, .from = x, .offset = offset, .bytes = row_bytes};
    if (row_bytes > 0)
        tr_parallel_range(count, sequences_of_slice(count, offset[count] * row_bytes), reverse_range, &j);
}

static void expand_range(void *payload, int64_t begin, int64_t end)
{
    const move_job *j = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t start = j->offset ? j->offset[i] : i, rows = j->offset ? j->offset[i + 1] - start : 1;
        char         *to = j->to + j->first[i] * j->bytes;
        for (int64_t n = j->ref[i]; n < j->ref[i + 1] && rows > 0; n++, to += rows * j->bytes)
            memcpy(to, j->from + start * j->bytes, (size_t)(rows * j->bytes));
    }
}

void tr_sequence_expand(void *out, const void *x, const int64_t *item, const int64_t *first, const int64_t *ref,
                        int64_t count, int64_t row_bytes)
{
    move_job j = {.to = out, .from = x, .offset = item, .first = first, .ref = ref, .bytes = row_bytes};
    if (row_bytes > 0 && count > 0)
        tr_parallel_range(count, sequences_of_slice(count, ref[count] * row_bytes), expand_range, &j);
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    tr_sequence_pool pool;
    T               *out;
    const T         *x, *d;
    int32_t         *max_row;
    const int32_t   *max_from;
    const int64_t   *offset, *first, *ref;
    int64_t          width;
    T                empty, alpha, beta;
} NAME(job);

/* -- pools -------------------------------------------------------------------------------------- */

TR_INLINE void NAME(add_rows)(T *to, const T *x, int64_t rows, int64_t width)
{
    for (int64_t r = 0; r < rows; r++) {
        TR_IVDEP
        for (int64_t k = 0; k < width; k++)
            to[k] += x[r * width + k];
    }
}

TR_INLINE void NAME(max_rows)(T *to, int32_t *from, const T *x, int64_t first, int64_t rows, int64_t width)
{
    for (int64_t k = 0; k < width; k++) {
        to[k] = x[k];
        from[k] = (int32_t)first;
    }
    for (int64_t r = 1; r < rows; r++) {
        TR_IVDEP
        for (int64_t k = 0; k < width; k++) {
            const T    y = x[r * width + k];
            const bool better = y > to[k];
            to[k] = better ? y : to[k];
            from[k] = better ? (int32_t)(first + r) : from[k];
        }
    }
}

/* The factor of a sum, and so of its gradient. */
TR_INLINE T NAME(weight)(tr_sequence_pool pool, int64_t rows)
{
    return pool == TR_POOL_AVERAGE ? (T)1 / (T)rows : pool == TR_POOL_SQRT ? (T)(1 / sqrt((double)rows)) : (T)1;
}

TR_CLONES static void NAME(pool_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    width = j->width;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = j->offset[i], rows = j->offset[i + 1] - first;
        const T      *x = j->x + first * width;
        T            *out = j->out + i * width;
        if (rows == 0) {
            for (int64_t k = 0; k < width; k++)
                out[k] = j->empty;
            for (int64_t k = 0; k < width && j->pool == TR_POOL_MAX; k++)
                j->max_row[i * width + k] = -1;
        } else if (j->pool == TR_POOL_MAX) {
            NAME(max_rows)(out, j->max_row + i * width, x, first, rows, width);
        } else if (j->pool == TR_POOL_LAST || j->pool == TR_POOL_FIRST) {
            memcpy(out, j->pool == TR_POOL_LAST ? x + (rows - 1) * width : x, (size_t)width * sizeof(T));
        } else {
            const T weight = NAME(weight)(j->pool, rows);
            memcpy(out, x, (size_t)width * sizeof(T));
            NAME(add_rows)(out, x + width, rows - 1, width);
            for (int64_t k = 0; k < width && j->pool != TR_POOL_SUM; k++)
                out[k] *= weight;
        }
    }
}

void NAME(tr_sequence_pool_apply)(tr_sequence_pool pool, T *out, int32_t *max_row, const T *x, const int64_t *offset,
                                  int64_t count, int64_t width, T empty)
{
    NAME(job) j = {.pool = pool, .out = out, .max_row = max_row, .x = x, .offset = offset, .width = width,
                   .empty = empty};
    if (width > 0)
        tr_parallel_range(count, sequences_of_slice(count, offset[count] * width * (int64_t)sizeof(T)),
                          NAME(pool_range), &j);
}

TR_CLONES static void NAME(pool_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    width = j->width;
    for (int64_t i = begin; i < end; i++) {
        const int64_t  first = j->offset[i], rows = j->offset[i + 1] - first;
        const T       *d = j->d + i * width;
        T             *dx = j->out + first * width;
        if (rows == 0)
            continue;
        if (j->pool <= TR_POOL_SQRT) {
            const T weight = NAME(weight)(j->pool, rows);
            for (int64_t r = 0; r < rows; r++) {
                TR_IVDEP
                for (int64_t k = 0; k < width; k++)
                    dx[r * width + k] = d[k] * weight;
            }
            continue;
        }
        memset(dx, 0, (size_t)(rows * width) * sizeof(T));
        if (j->pool == TR_POOL_MAX)
            for (int64_t k = 0; k < width; k++)
                j->out[j->max_from[i * width + k] * width + k] = d[k];
        else
            memcpy(j->pool == TR_POOL_LAST ? dx + (rows - 1) * width : dx, d, (size_t)width * sizeof(T));
    }
}

void NAME(tr_sequence_pool_grad)(tr_sequence_pool pool, T *dx, const T *dout, const int32_t *max_row,
                                 const int64_t *offset, int64_t count, int64_t width)
{
    NAME(job) j = {.pool = pool, .out = dx, .d = dout, .max_from = max_row, .offset = offset, .width = width};
    if (width > 0)
        tr_parallel_range(count, sequences_of_slice(count, offset[count] * width * (int64_t)sizeof(T)),
                          NAME(pool_grad_range), &j);
}

/* -- softmax ------------------------------------------------------------------------------------ */

static void NAME(softmax_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = j->offset[i], rows = j->offset[i + 1] - first;
        if (rows > 0 && j->d)
            NAME(tr_softmax_grad)(j->out + first, j->d + first, j->x + first, 1, rows);
        else if (rows > 0)
            NAME(tr_softmax)(j->out + first, j->x + first, 1, rows);
    }
}

void NAME(tr_sequence_softmax)(T *out, const T *x, const int64_t *offset, int64_t count)
{
    NAME(job) j = {.out = out, .x = x, .offset = offset};
    tr_parallel_range(count, sequences_of_slice(count, offset[count] * (int64_t)sizeof(T)), NAME(softmax_range), &j);
}

void NAME(tr_sequence_softmax_grad)(T *dx, const T *dout, const T *out, const int64_t *offset, int64_t count)
{
    NAME(job) j = {.out = dx, .x = out, .d = dout, .offset = offset};
    tr_parallel_range(count, sequences_of_slice(count, offset[count] * (int64_t)sizeof(T)), NAME(softmax_range), &j);
}

/* -- the gradient of an expansion --------------------------------------------------------------- */

TR_CLONES static void NAME(expand_grad_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t start = j->offset ? j->offset[i] : i, rows = j->offset ? j->offset[i + 1] - start : 1;
        const int64_t size = rows * j->width, times = j->ref[i + 1] - j->ref[i];
        T            *dx = j->out + start * j->width;
        memset(dx, 0, (size_t)size * sizeof(T));
        NAME(add_rows)(dx, j->d + j->first[i] * j->width, times, size);
    }
}

void NAME(tr_sequence_expand_grad)(T *dx, const T *dout, const int64_t *item, const int64_t *first, const int64_t *ref,
                                   int64_t count, int64_t width)
{
    NAME(job) j = {.out = dx, .d = dout, .offset = item, .first = first, .ref = ref, .width = width};
    if (width > 0 && count > 0)
        tr_parallel_range(count, sequences_of_slice(count, ref[count] * width * (int64_t)sizeof(T)),
                          NAME(expand_grad_range), &j);
}

/* -- positions ---------------------------------------------------------------------------------- */

static void NAME(positions_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    const int64_t    half = j->width / 2;
    for (int64_t k = 0; k < half; k++) {
        const double slow = half > 1 ? pow(10000, -(double)k / (double)(half - 1)) : 1.0 / 10000;
        for (int64_t t = begin; t < end; t++) {
            const int64_t at = t * j->width + k;
            j->out[at] = j->alpha * j->x[at] + j->beta * (T)sin((double)t * slow);
            j->out[at + half] = j->alpha * j->x[at + half] + j->beta * (T)cos((double)t * slow);
        }
    }
}

void NAME(tr_add_positions)(T *out, const T *x, int64_t rows, int64_t width, T alpha, T beta)
{
    NAME(job) j = {.out = out, .x = x, .width = width, .alpha = alpha, .beta = beta};
    tr_parallel_range(rows, 1 + 1024 / (width > 0 ? width : 1), NAME(positions_range), &j);
}

#endif
