/* recurrent.c - see recurrent.h. Ranks come from a counting sort: a sequence's place among those of its length is found by
 * how many are longer, which is also how many are alive at the step of that number. */
#ifndef T
#include "kernels/math/recurrent.h"

#include "framework/compiler.h"

#include <string.h>

static int64_t longest(const int64_t *offset, int64_t count)
{
    int64_t length = 0;

    for (int64_t i = 0; i < count; i++)
        if (offset[i + 1] - offset[i] > length)
            length = offset[i + 1] - offset[i];
    return length;
}

int64_t tr_batches_size(const int64_t *offset, int64_t count)
{
    return count + 2 * (longest(offset, count) + 1) + (count > 0 ? offset[count] - offset[0] : 0);
}

void tr_batches_make(tr_batches *out, int64_t *memory, const int64_t *offset, int64_t count, bool is_reverse)
{
    const int64_t steps = longest(offset, count), rows = count > 0 ? offset[count] - offset[0] : 0;
    int64_t      *rank = memory, *start = rank + count, *next = start + steps + 1, *row = next + steps + 1;

    memset(next, 0, (size_t)(steps + 1) * sizeof *next);
    for (int64_t i = 0; i < count; i++)
        next[offset[i + 1] - offset[i]]++;
    for (int64_t length = steps, longer = 0; length >= 0; length--) {
        const int64_t equal = next[length];
        next[length] = longer;                         /* also: how many are alive at step `length` */
        longer += equal;
    }
    start[0] = 0;
    for (int64_t t = 0; t < steps; t++)
        start[t + 1] = start[t] + next[t];
    for (int64_t i = 0; i < count; i++)
        rank[next[offset[i + 1] - offset[i]]++] = i;
    for (int64_t t = 0; t < steps; t++)
        for (int64_t k = start[t]; k < start[t + 1]; k++) {
            const int64_t i = rank[k - start[t]];
            row[k] = is_reverse ? offset[i + 1] - 1 - t : offset[i] + t;
        }
    *out = (tr_batches){count, steps, rows, rank, start, row};
}

void tr_batches_previous(void *out, const void *state, const void *first, const tr_batches *b, int64_t row_bytes)
{
    char *to = out;

    for (int64_t t = 0; t < b->steps; t++) {
        const void  *from = t > 0 ? (const char *)state + b->start[t - 1] * row_bytes : first;
        const size_t bytes = (size_t)(tr_batches_alive(b, t) * row_bytes);
        if (from)
            memcpy(to, from, bytes);
        else
            memset(to, 0, bytes);
        to += bytes;
    }
}

void tr_sequences_previous(void *out, const void *state, const void *first, const int64_t *offset, int64_t count,
                           bool is_reverse, int64_t row_bytes)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = offset[i], more = offset[i + 1] - begin - 1;             /* rows but the first */
        char         *to = (char *)out + begin * row_bytes;
        if (more < 0)
            continue;
        memcpy(is_reverse ? to : to + row_bytes, (const char *)state + (begin + (is_reverse ? 1 : 0)) * row_bytes,
               (size_t)(more * row_bytes));
        to += is_reverse ? more * row_bytes : 0;
        if (first)
            memcpy(to, (const char *)first + i * row_bytes, (size_t)row_bytes);
        else
            memset(to, 0, (size_t)row_bytes);
    }
}

#define TR_TEMPLATE "kernels/math/recurrent.c"
#include "kernels/math/each_float.h"
#else

TR_CLONES void NAME(tr_batches_take)(T *out, const T *x, const T *bias, const tr_batches *b, int64_t width)
{
    for (int64_t k = 0; k < b->rows; k++) {
        const T *from = x + b->row[k] * width;
        T       *to = out + k * width;
        TR_IVDEP
        for (int64_t j = 0; j < width; j++)
            to[j] = from[j] + (bias ? bias[j] : 0);
    }
}

#endif
