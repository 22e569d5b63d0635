/* optimizer.c - see optimizer.h. A sweep over a sparse gradient lays it out range by range, each of which stays in
 * cache: a dense copy of a large table's gradient never exists. */
#ifndef T

#include "kernels/optimizers/optimizer.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "framework/plans/plan.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"

enum { SWEEP_ITEMS = 1 << 16 };           /* of one range: 256 KiB of float32 */

void tr__optimizer_load(const tr_run *io, const tr_optimizer_state *states)
{
    for (const tr_optimizer_state *s = states; s->in >= 0; s++) {
        const tr_tensor *in = io->in[s->in];
        if (!in || !io->out[s->out] || io->out[s->out]->data == in->data)
            continue;
        memcpy(io->out[s->out]->data, in->data, (size_t)(tr_tensor_count(in) * tr_dtype_size(in->dtype)));
    }
}

double tr__optimizer_number(const tr_tensor *tensor)
{
    return tensor->dtype == TR_FP64 ? *(const double *)tensor->data : (double)*(const float *)tensor->data;
}

tr_status tr__optimizer_rate(double *out, const tr_run *io, int slot)
{
    *out = tr__optimizer_number(io->in[slot]);
    if (isfinite(*out) && *out >= 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "%s: the learning rate in '%s' is %g; it must be finite and at least 0", io->step->op->type,
                   tr_run_in_name(io, slot, 0), *out);
}

static tr_status check_rows(const tr_run *io, int param, int grad)
{
    const tr_rows *rows = io->in[grad]->rows;
    const int64_t  height = io->in[param]->shape.dim[0];
    const int64_t  bad = tr_rows_check(rows->index, rows->count, height, -1);

    if (bad < 0)
        return TR_OK;
    return tr_fail(TR_ERANGE, "'%s' holds row %" PRId64 " (at position %" PRId64 "), but '%s' has %" PRId64,
                   tr_run_in_name(io, grad, 0), rows->index[bad], bad, tr_run_in_name(io, param, 0), height);
}

static bool is_ascending(const int64_t *rows, int64_t count)
{
    for (int64_t i = 1; i < count; i++)
        if (rows[i] <= rows[i - 1])
            return false;
    return true;
}

#include "kernels/math/tools/each_float.h"

#else

/* As tr__grad_rows; *extra is that much more scratch memory. */
static tr_status NAME(merge)(tr_grad_rows *out, void **extra, const tr_run *io, int param, int grad_slot,
                             size_t extra_bytes)
{
    const tr_tensor *grad = io->in[grad_slot];
    const tr_rows   *rows = grad->rows;
    tr_row_groups    g;

    TR_TRY(check_rows(io, param, grad_slot));
    *out = (tr_grad_rows){.values = grad->data, .rows = rows->index, .count = rows->count, .width = tr__rows_width(grad)};
    if (is_ascending(rows->index, rows->count))
        return tr_run_scratch(extra, io, extra_bytes);
    TR_TRY(tr__rows_groups(&g, io, grad, extra_bytes));
    out->rows = g.unique;
    out->first = g.first;
    out->order = g.order;
    out->count = g.count;
    *extra = g.extra;
    return TR_OK;
}

tr_status NAME(tr__grad_rows)(tr_grad_rows *out, const tr_run *io, int param, int grad)
{
    void *extra;
    return NAME(merge)(out, &extra, io, param, grad, 0);
}

void NAME(tr__optimizer_from)(const T *from[TR_OPTIMIZER_ARRAYS], const tr_run *io, const tr_optimizer_state *states)
{
    int count = 0;

    memset(from, 0, TR_OPTIMIZER_ARRAYS * sizeof *from);
    for (const tr_optimizer_state *s = states; s->in >= 0; s++)
        if (io->in[s->in])
            from[count++] = io->in[s->in]->data;
}

tr_status NAME(tr__sweep_begin)(NAME(tr_sweep) *s, const tr_run *io, const tr_optimizer_state *states, int grad, int rate)
{
    const tr_tensor *g = io->in[grad];
    const int        param = states[0].in;
    double           learning_rate = 0;
    void            *buffer;

    if (rate >= 0)
        TR_TRY(tr__optimizer_rate(&learning_rate, io, rate));
    *s = (NAME(tr_sweep)){.g = g->data, .rate = (T)learning_rate, .numel = tr_tensor_count(io->in[param])};
    s->step = s->numel;
    for (int i = 0; states[i].in >= 0; i++)
        s->to[i] = io->out[states[i].out] ? io->out[states[i].out]->data : NULL;
    if (!g->rows) {                                        /* one range */
        NAME(tr__optimizer_from)(s->inputs, io, states);
        s->from = s->inputs;
        return TR_OK;
    }
    tr__optimizer_load(io, states);
    const int64_t width = tr__rows_width(g);
    const int64_t range_rows = width > 0 && width < SWEEP_ITEMS ? SWEEP_ITEMS / width : 1;
    s->step = range_rows * width;
    TR_TRY(NAME(merge)(&s->sparse, &buffer, io, param, grad, (size_t)s->step * sizeof(T)));
    s->g = s->buffer = buffer;
    return TR_OK;
}

/* Lay the rows that lie in [begin, begin + count) out in the buffer. */
static void NAME(fill_buffer)(NAME(tr_sweep) *s)
{
    const int64_t width = s->sparse.width, first = s->begin / width, end = (s->begin + s->count) / width;

    if (!s->buffer_is_zero)
        memset(s->buffer, 0, (size_t)s->step * sizeof(T));
    s->buffer_is_zero = true;
    for (; s->next_row < s->sparse.count && s->sparse.rows[s->next_row] < end; s->next_row++) {
        T       *to = s->buffer + (s->sparse.rows[s->next_row] - first) * width;
        const T *row = NAME(tr_grad_row)(to, &s->sparse, s->next_row);
        if (row != to)
            memcpy(to, row, (size_t)width * sizeof(T));
        s->buffer_is_zero = false;
    }
}

bool NAME(tr__sweep_next)(NAME(tr_sweep) *s)
{
    for (int i = 0; i < TR_OPTIMIZER_ARRAYS && s->to[i]; i++)
        s->to[i] += s->count;
    s->begin += s->count;
    if (s->begin >= s->numel)
        return false;
    s->count = s->numel - s->begin < s->step ? s->numel - s->begin : s->step;
    if (s->buffer)
        NAME(fill_buffer)(s);
    return true;
}

#endif
