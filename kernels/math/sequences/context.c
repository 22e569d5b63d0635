/* context.c - see context.h. The part of a window that lies inside the sequence is contiguous in x and in the window, so
 * it is one copy, or one sum. */
#ifndef T
#include "kernels/math/sequences/context.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

#include <string.h>

enum { MIN_ITEMS = 16384 };                                  /* elements of a slice */

static int64_t sequences_of_slice(int64_t count, int64_t items)
{
    return items <= 0 ? count + 1 : 1 + (int64_t)((double)count * MIN_ITEMS / (double)items);
}

/* The places [from, to) of the window of row t that lie in the sequence [begin, end). */
static void inside(int64_t *from, int64_t *to, const tr_window *w, int64_t t, int64_t begin, int64_t end)
{
    const int64_t first = t + w->start, last = first + w->length;
    *from = first < begin ? begin - first : 0;
    *to = last > end ? end - first : w->length;
    if (*from > w->length)
        *from = w->length;
    if (*to < *from)
        *to = *from;
}

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    T               *out;
    const T         *x, *filter;
    const tr_window *window;
    const int64_t   *offset;
    int64_t          count, width, ahead;
} NAME(job);

TR_INLINE void NAME(add)(T *to, const T *x, int64_t n)
{
    TR_IVDEP
    for (int64_t k = 0; k < n; k++)
        to[k] += x[k];
}

TR_INLINE void NAME(add_product)(T *to, const T *x, const T *y, int64_t n)
{
    TR_IVDEP
    for (int64_t k = 0; k < n; k++)
        to[k] += x[k] * y[k];
}

/* -- windows as rows ---------------------------------------------------------------------------- */

/* Place p of the window of row t, which is outside of [begin, end): its row of padding. */
TR_INLINE int64_t NAME(padding_row)(const tr_window *w, int64_t t, int64_t p, int64_t begin, int64_t end)
{
    const int64_t row = t + w->start + p;
    return row < begin ? row - begin + tr_window_above(w) : row - end + tr_window_above(w);
}

static void NAME(pad)(const NAME(job) *j, T *window, int64_t t, int64_t from, int64_t to, int64_t begin, int64_t end)
{
    if (!j->filter && to > from)
        memset(window + from * j->width, 0, (size_t)((to - from) * j->width) * sizeof(T));
    for (int64_t p = from; p < to && j->filter; p++)
        memcpy(window + p * j->width, j->filter + NAME(padding_row)(j->window, t, p, begin, end) * j->width,
               (size_t)j->width * sizeof(T));
}

static void NAME(context_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(job) *j = payload;
    const tr_window *w = j->window;
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = j->offset[i], end = j->offset[i + 1];
        for (int64_t t = begin; t < end; t++) {
            T      *window = j->out + t * w->length * j->width;
            int64_t from, to;
            inside(&from, &to, w, t, begin, end);
            NAME(pad)(j, window, t, 0, from, begin, end);
            if (to > from)
                memcpy(window + from * j->width, j->x + (t + w->start + from) * j->width,
                       (size_t)((to - from) * j->width) * sizeof(T));
            NAME(pad)(j, window, t, to, w->length, begin, end);
        }
    }
}

void NAME(tr_context_rows)(T *rows, const T *x, const T *padding, const tr_window *w, const int64_t *offset, int64_t count,
                           int64_t width)
{
    NAME(job) j = {.out = rows, .x = x, .filter = padding, .window = w, .offset = offset, .width = width};
    tr_parallel_range(count, sequences_of_slice(count, offset[count] * w->length * width), NAME(context_range), &j);
}

TR_CLONES static void NAME(context_grad_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(job) *j = payload;
    const tr_window *w = j->window;
    for (int64_t i = first; i < last; i++) {
        const int64_t begin = j->offset[i], end = j->offset[i + 1];
        if (end > begin)
            memset(j->out + begin * j->width, 0, (size_t)((end - begin) * j->width) * sizeof(T));
        for (int64_t t = begin; t < end; t++) {
            int64_t from, to;
            inside(&from, &to, w, t, begin, end);
            if (to > from)
                NAME(add)(j->out + (t + w->start + from) * j->width, j->x + (t * w->length + from) * j->width,
                          (to - from) * j->width);
        }
    }
}

/* Sequences share the rows of padding: one thread adds up, in order. */
TR_CLONES static void NAME(padding_grad)(T *dpadding, const NAME(job) *j, int64_t count)
{
    const tr_window *w = j->window;
    memset(dpadding, 0, (size_t)((tr_window_above(w) + tr_window_below(w)) * j->width) * sizeof(T));
    for (int64_t i = 0; i < count; i++) {
        const int64_t begin = j->offset[i], end = j->offset[i + 1];
        for (int64_t t = begin; t < end; t++) {
            int64_t from, to;
            inside(&from, &to, w, t, begin, end);
            for (int64_t p = 0; p < w->length; p++)
                if (p < from || p >= to)
                    NAME(add)(dpadding + NAME(padding_row)(w, t, p, begin, end) * j->width,
                              j->x + (t * w->length + p) * j->width, j->width);
        }
    }
}

void NAME(tr_context_rows_grad)(T *dx, T *dpadding, const T *drows, const tr_window *w, const int64_t *offset,
                                int64_t count, int64_t width)
{
    NAME(job) j = {.out = dx, .x = drows, .window = w, .offset = offset, .width = width};
    if (dx)
        tr_parallel_range(count, sequences_of_slice(count, offset[count] * w->length * width), NAME(context_grad_range), &j);
    if (dpadding)
        NAME(padding_grad)(dpadding, &j, count);
}

/* -- row convolution ---------------------------------------------------------------------------- */

/* Row t of a sequence is the sum over k of row t + k, or (`back`, a constant) t - k, times row k of the filter. */
TR_INLINE void NAME(row_conv_rows)(const NAME(job) *j, int64_t first, int64_t last, const bool back)
{
    for (int64_t i = first; i < last; i++)
        for (int64_t t = j->offset[i]; t < j->offset[i + 1]; t++) {
            const int64_t most = back ? t - j->offset[i] + 1 : j->offset[i + 1] - t;
            T            *out = j->out + t * j->width;
            memset(out, 0, (size_t)j->width * sizeof(T));
            for (int64_t k = 0; k < j->ahead && k < most; k++)
                NAME(add_product)(out, j->x + (back ? t - k : t + k) * j->width, j->filter + k * j->width, j->width);
        }
}

TR_CLONES static void NAME(row_conv_range)(void *payload, int64_t first, int64_t last)
{
    NAME(row_conv_rows)(payload, first, last, false);
}

TR_CLONES static void NAME(row_conv_grad_range)(void *payload, int64_t first, int64_t last)
{
    NAME(row_conv_rows)(payload, first, last, true);
}

void NAME(tr_row_conv)(T *out, const T *x, const T *filter, int64_t ahead, const int64_t *offset, int64_t count,
                       int64_t width)
{
    NAME(job) j = {.out = out, .x = x, .filter = filter, .offset = offset, .width = width, .ahead = ahead};
    tr_parallel_range(count, sequences_of_slice(count, offset[count] * ahead * width), NAME(row_conv_range), &j);
}

void NAME(tr_row_conv_grad_x)(T *dx, const T *dout, const T *filter, int64_t ahead, const int64_t *offset, int64_t count,
                              int64_t width)
{
    NAME(job) j = {.out = dx, .x = dout, .filter = filter, .offset = offset, .width = width, .ahead = ahead};
    tr_parallel_range(count, sequences_of_slice(count, offset[count] * ahead * width), NAME(row_conv_grad_range), &j);
}

/* A slice owns some rows of the filter. */
TR_CLONES static void NAME(row_conv_filter_range)(void *payload, int64_t first, int64_t last)
{
    const NAME(job) *j = payload;
    for (int64_t k = first; k < last; k++) {
        T *dfilter = j->out + k * j->width;
        memset(dfilter, 0, (size_t)j->width * sizeof(T));
        for (int64_t i = 0; i < j->count; i++)
            for (int64_t t = j->offset[i]; t + k < j->offset[i + 1]; t++)
                NAME(add_product)(dfilter, j->x + (t + k) * j->width, j->filter + t * j->width, j->width);
    }
}

void NAME(tr_row_conv_grad_filter)(T *dfilter, const T *dout, const T *x, int64_t ahead, const int64_t *offset,
                                   int64_t count, int64_t width)
{
    NAME(job) j = {.out = dfilter, .x = x, .filter = dout, .offset = offset, .count = count, .width = width,
                   .ahead = ahead};
    tr_parallel_range(ahead, 1 + MIN_ITEMS / (1 + offset[count] * width), NAME(row_conv_filter_range), &j);
}

#endif
