/* context.h - windows over time: what each row of a sequence sees of the rows around it.
 *
 * Sequences are those of sequence.h. A window never reaches into another sequence: beyond an end it sees zeros, or, for
 * tr_context_rows, rows of `padding`. */
#ifndef TR_MATH_CONTEXT_H
#define TR_MATH_CONTEXT_H

#include "framework/trireme.h"

/* A window of `length` rows, of which the first is `start` (mostly negative) away from the row it belongs to. */
typedef struct tr_window {
    int64_t start, length;
} tr_window;

/* Rows of padding that a window needs: `above` before the first row, `below` after the last. */
static inline int64_t tr_window_above(const tr_window *w) { return w->start < 0 ? -w->start : 0; }
static inline int64_t tr_window_below(const tr_window *w)
{
    return w->start + w->length > 1 ? w->start + w->length - 1 : 0;
}

#define TR_TEMPLATE "kernels/math/sequences/context.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* rows[t] is the window of row t, [length][width]. `padding` has above + below rows, the nearest to the sequence last
 * above and first below; NULL: zeros. */
void NAME(tr_context_rows)(T *rows, const T *x, const T *padding, const tr_window *w, const int64_t *offset, int64_t count,
                           int64_t width);
/* The gradients of x and of padding; either may be NULL. */
void NAME(tr_context_rows_grad)(T *dx, T *dpadding, const T *drows, const tr_window *w, const int64_t *offset,
                                int64_t count, int64_t width);

/* out[t] = sum of x[t + i] * filter[i], element by element, over the `ahead` rows filter has. */
void NAME(tr_row_conv)(T *out, const T *x, const T *filter, int64_t ahead, const int64_t *offset, int64_t count,
                       int64_t width);
void NAME(tr_row_conv_grad_x)(T *dx, const T *dout, const T *filter, int64_t ahead, const int64_t *offset, int64_t count,
                              int64_t width);
void NAME(tr_row_conv_grad_filter)(T *dfilter, const T *dout, const T *x, int64_t ahead, const int64_t *offset,
                                   int64_t count, int64_t width);

#endif
