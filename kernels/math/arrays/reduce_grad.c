/* reduce_grad.c - the gradients of reductions (reduce.h), element by element in pieces of rows. */
#ifndef T
#include "kernels/math/arrays/reduce.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

enum { PIECE = 16384 };               /* elements of a slice, at least; of a row that is cut */

#include "kernels/math/tools/each_float.h"
#else

typedef struct {
    tr_reduce op;
    T        *dx;
    const T  *d, *x, *out;
    int64_t   n, post, length, pieces;                       /* length of a row, and the pieces that it is cut into */
    T         factor;
} NAME(job);

/* d and out are one value for the whole row. */
TR_CLONES static void NAME(even_row)(const NAME(job) *j, T *dx, const T *x, T d, T out, int64_t n)
{
    if (tr_reduce_is_sum(j->op))
        for (int64_t k = 0; k < n; k++)
            dx[k] = d * j->factor;
    else if (j->op == TR_REDUCE_PROD)
        for (int64_t k = 0; k < n; k++)
            dx[k] = d * out / x[k];
    else
        for (int64_t k = 0; k < n; k++)
            dx[k] = x[k] == out ? d : 0;
}

TR_CLONES static void NAME(row)(const NAME(job) *j, T *dx, const T *x, const T *d, const T *out, int64_t n)
{
    if (tr_reduce_is_sum(j->op))
        for (int64_t k = 0; k < n; k++)
            dx[k] = d[k] * j->factor;
    else if (j->op == TR_REDUCE_PROD)
        for (int64_t k = 0; k < n; k++)
            dx[k] = d[k] * out[k] / x[k];
    else
        for (int64_t k = 0; k < n; k++)
            dx[k] = x[k] == out[k] ? d[k] : 0;
}

static void NAME(pieces_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t i = begin; i < end; i++) {
        const int64_t r = i / j->pieces, at = i % j->pieces * PIECE, left = j->length - at, n = j->pieces > 1 && left > PIECE ? PIECE : left;
        T            *dx = j->dx + r * j->length + at;
        const T      *x = j->x ? j->x + r * j->length + at : NULL;
        const int64_t from = j->post == 1 ? r : r / j->n * j->post + at;
        if (j->post == 1)
            NAME(even_row)(j, dx, x, j->d[from], j->out ? j->out[from] : 0, n);
        else
            NAME(row)(j, dx, x, j->d + from, j->out ? j->out + from : NULL, n);
    }
}

/* Of a product the only zero of a line: dx = d times the others. With two zeros all are 0. */
static void NAME(product_of_others)(const NAME(job) *j, int64_t line)
{
    const int64_t at = line / j->post * j->n * j->post + line % j->post;
    int64_t       zeros = 0, zero = 0;
    T             product = 1;
    for (int64_t i = 0; i < j->n; i++)
        if (j->x[at + i * j->post] == 0) {
            zeros++;
            zero = at + i * j->post;
            j->dx[zero] = 0;
        } else {
            product *= j->x[at + i * j->post];
        }
    if (zeros == 1)
        j->dx[zero] = j->d[line] * product;
}

static void NAME(products_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(job) *j = payload;
    for (int64_t line = begin; line < end; line++)
        if (j->out[line] == 0)
            NAME(product_of_others)(j, line);
}

void NAME(tr_reduce_grad)(tr_reduce op, T *dx, const T *dout, const T *x, const T *out, int64_t pre, int64_t n, int64_t post)
{
    NAME(job)     j = {op, dx, dout, x, out, n, post, post == 1 ? n : post, 1, op == TR_REDUCE_MEAN ? 1 / (T)n : 1};
    const int64_t rows = post == 1 ? pre : pre * n;
    if (tr_reduce_is_sum(op))
        j.x = j.out = NULL;
    if (j.length <= 0)
        return;
    j.pieces = (j.length + PIECE - 1) / PIECE;
    tr_parallel_range(rows * j.pieces, 1 + PIECE / (j.pieces > 1 ? 2 * PIECE : j.length), NAME(pieces_range), &j);
    if (op == TR_REDUCE_PROD)
        tr_parallel_range(pre * post, 1 + PIECE / (n > 0 ? n : 1), NAME(products_range), &j);
}

#endif
