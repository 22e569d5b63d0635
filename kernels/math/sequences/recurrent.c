/* recurrent.c - see recurrent.h. Ranks come from a counting sort: a sequence's place among those of its length is found by
 * how many are longer, which is also how many are alive at the step of that number. */
#ifndef T
#include "kernels/math/sequences/recurrent.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

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

typedef struct shift {
    char          *out;
    const char    *state, *first;
    const int64_t *offset;
    int64_t        row_bytes;
    bool           is_reverse;
} shift;

static void shift_sequences(void *payload, int64_t from, int64_t to)
{
    const shift *s = payload;

    for (int64_t i = from; i < to; i++) {
        const int64_t begin = s->offset[i], more = s->offset[i + 1] - begin - 1;       /* rows but the first */
        char         *at = s->out + begin * s->row_bytes;
        if (more < 0)
            continue;
        memcpy(s->is_reverse ? at : at + s->row_bytes, s->state + (begin + (s->is_reverse ? 1 : 0)) * s->row_bytes,
               (size_t)(more * s->row_bytes));
        at += s->is_reverse ? more * s->row_bytes : 0;
        if (s->first)
            memcpy(at, s->first + i * s->row_bytes, (size_t)s->row_bytes);
        else
            memset(at, 0, (size_t)s->row_bytes);
    }
}

void tr_sequences_previous(void *out, const void *state, const void *first, const int64_t *offset, int64_t count,
                           bool is_reverse, int64_t row_bytes)
{
    enum { MIN_BYTES = 32768 };
    shift         s = {out, state, first, offset, row_bytes, is_reverse};
    const int64_t bytes = count > 0 ? (offset[count] - offset[0]) * row_bytes / count : 0;      /* of a sequence, on average */
    tr_parallel_range(count, 1 + MIN_BYTES / (1 + bytes), shift_sequences, &s);
}

#include "kernels/math/tools/each_float.h"
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
