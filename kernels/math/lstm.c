/* lstm.c - see lstm.h. A step is a product, then one pass over its rows that does everything else. */
#ifndef T
#include "kernels/math/lstm.h"

#include "framework/compiler.h"
#include "framework/threadpool.h"
#include "kernels/math/blas.h"
#include "kernels/math/recurrent_act.h"

#include <string.h>

enum { MIN_CELLS = 2048 };                                   /* of a slice */

#define TR_TEMPLATE "kernels/math/lstm.c"
#include "kernels/math/each_float.h"
#else

/* One step: the rows from `at` on, in batch order. */
typedef struct {
    const NAME(tr_lstm)       *l;
    const NAME(tr_lstm_grads) *g;
    int64_t  at;
    const T *previous;                /* cells, row by row; NULL: zeros */
    T       *dprevious;               /* NULL: not wanted */
} NAME(lstm_step);

TR_INLINE T NAME(clip)(T x, T bound)
{
    x = x > bound ? bound : x;
    return x < -bound ? -bound : x;
}

TR_INLINE void NAME(forward_row)(const NAME(tr_lstm) *l, int64_t row, const T *previous, tr_act gate_act, tr_act cell_act,
                                 tr_act candidate_act)
{
    const int64_t width = l->width;
    T            *gate = l->gate + row * 4 * width, *cell = l->cell + row * width, *hidden = l->hidden + row * width;
    const T      *p = l->peephole;
    const T       bound = l->cell_clip > 0 ? l->cell_clip : (T)INFINITY;

    TR_IVDEP
    for (int64_t j = 0; j < width; j++) {
        const T before = previous ? previous[j] : 0;
        const T candidate = NAME(tr_gate_act)(candidate_act, gate[j]);
        const T in = NAME(tr_gate_act)(gate_act, gate[width + j] + (p ? p[j] * before : 0));
        const T forget = NAME(tr_gate_act)(gate_act, gate[2 * width + j] + (p ? p[width + j] * before : 0));
        const T c = NAME(clip)(candidate * in + before * forget, bound);
        const T out = NAME(tr_gate_act)(gate_act, gate[3 * width + j] + (p ? p[2 * width + j] * c : 0));
        gate[j] = candidate;
        gate[width + j] = in;
        gate[2 * width + j] = forget;
        gate[3 * width + j] = out;
        cell[j] = c;
        hidden[j] = out * NAME(tr_gate_act)(cell_act, c);
    }
}

TR_INLINE void NAME(backward_row)(const NAME(lstm_step) *s, int64_t row, const T *previous, T *dprevious, tr_act gate_act,
                                  tr_act cell_act, tr_act candidate_act)
{
    const NAME(tr_lstm) *l = s->l;
    const int64_t        width = l->width;
    const T             *gate = l->gate + row * 4 * width, *cell = l->cell + row * width, *p = l->peephole;
    const T             *dhidden = s->g->dhidden + row * width, *dcell = s->g->dcell + row * width;
    T                   *dgate = s->g->dgate + row * 4 * width;
    const T              bound = l->cell_clip > 0 ? l->cell_clip : (T)INFINITY;

    TR_IVDEP
    for (int64_t j = 0; j < width; j++) {
        const T before = previous ? previous[j] : 0, c = cell[j], active = NAME(tr_gate_act)(cell_act, c);
        const T candidate = gate[j], in = gate[width + j], forget = gate[2 * width + j], out = gate[3 * width + j];
        const T dout = NAME(tr_gate_dact)(gate_act, dhidden[j] * active, out);
        const T through = dcell[j] + NAME(tr_gate_dact)(cell_act, dhidden[j] * out, active) + (p ? p[2 * width + j] * dout : 0);
        const T dc = ((c < bound) & (c > -bound)) ? through : 0;
        const T din = NAME(tr_gate_dact)(gate_act, dc * candidate, in);
        const T dforget = NAME(tr_gate_dact)(gate_act, dc * before, forget);
        dgate[j] = NAME(tr_gate_dact)(candidate_act, dc * in, candidate);
        dgate[width + j] = din;
        dgate[2 * width + j] = dforget;
        dgate[3 * width + j] = dout;
        if (dprevious)
            dprevious[j] += dc * forget + (p ? p[j] * din + p[width + j] * dforget : 0);
    }
}

TR_INLINE void NAME(forward_rows)(const NAME(lstm_step) *s, int64_t begin, int64_t end, tr_act gate_act, tr_act cell_act,
                                  tr_act candidate_act)
{
    for (int64_t r = begin; r < end; r++)
        NAME(forward_row)(s->l, s->at + r, s->previous ? s->previous + r * s->l->width : NULL, gate_act, cell_act, candidate_act);
}

TR_INLINE void NAME(backward_rows)(const NAME(lstm_step) *s, int64_t begin, int64_t end, tr_act gate_act, tr_act cell_act,
                                   tr_act candidate_act)
{
    const int64_t width = s->l->width;

    for (int64_t r = begin; r < end; r++)
        NAME(backward_row)(s, s->at + r, s->previous ? s->previous + r * width : NULL,
                           s->dprevious ? s->dprevious + r * width : NULL, gate_act, cell_act, candidate_act);
}

TR_CLONES static void NAME(forward_usual)(const NAME(lstm_step) *s, int64_t begin, int64_t end)
{
    NAME(forward_rows)(s, begin, end, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
}

TR_CLONES static void NAME(forward_any)(const NAME(lstm_step) *s, int64_t begin, int64_t end)
{
    NAME(forward_rows)(s, begin, end, s->l->gate_act, s->l->cell_act, s->l->candidate_act);
}

TR_CLONES static void NAME(backward_usual)(const NAME(lstm_step) *s, int64_t begin, int64_t end)
{
    NAME(backward_rows)(s, begin, end, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
}

TR_CLONES static void NAME(backward_any)(const NAME(lstm_step) *s, int64_t begin, int64_t end)
{
    NAME(backward_rows)(s, begin, end, s->l->gate_act, s->l->cell_act, s->l->candidate_act);
}

static bool NAME(is_usual)(const NAME(tr_lstm) *l)
{
    return l->gate_act == TR_ACT_sigmoid && l->cell_act == TR_ACT_tanh && l->candidate_act == TR_ACT_tanh;
}

static void NAME(forward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(lstm_step) *s = payload;
    (NAME(is_usual)(s->l) ? NAME(forward_usual) : NAME(forward_any))(s, begin, end);
}

static void NAME(backward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(lstm_step) *s = payload;
    (NAME(is_usual)(s->l) ? NAME(backward_usual) : NAME(backward_any))(s, begin, end);
}

/* -- the projection ------------------------------------------------------------------------------------------ */

static void NAME(project)(const NAME(tr_lstm) *l, int64_t at, int64_t rows)
{
    T *out = l->out + at * l->out_width;

    NAME(tr_gemm)(false, false, rows, l->out_width, l->width, 1, l->hidden + at * l->width, l->width, l->projection,
                  l->out_width, 0, out, l->out_width);
    NAME(tr_act_apply)(l->projection_act, out, out, rows * l->out_width, 0, 0);
    for (int64_t i = 0; i < rows * l->out_width && l->projection_clip > 0; i++)
        out[i] = NAME(clip)(out[i], l->projection_clip);
}

static void NAME(project_grad)(const NAME(tr_lstm) *l, const NAME(tr_lstm_grads) *g, int64_t at, int64_t rows)
{
    const T *out = l->out + at * l->out_width, bound = l->projection_clip;
    T       *dout = g->dout + at * l->out_width;

    for (int64_t i = 0; i < rows * l->out_width && bound > 0; i++)
        if (out[i] >= bound || out[i] <= -bound)
            dout[i] = 0;
    NAME(tr_act_grad)(l->projection_act, dout, dout, NULL, out, rows * l->out_width, 0, 0);
    NAME(tr_gemm)(false, true, rows, l->width, l->out_width, 1, dout, l->out_width, l->projection, l->out_width, 0,
                  g->dhidden + at * l->width, l->width);
}

/* -- all steps ------------------------------------------------------------------------------------------------- */

void NAME(tr_lstm_forward)(const NAME(tr_lstm) *l)
{
    const tr_batches *b = l->batches;
    const int64_t     gates = 4 * l->width;

    for (int64_t t = 0; t < b->steps; t++) {
        const int64_t   at = b->start[t], rows = tr_batches_alive(b, t);
        const T        *fed_back = t > 0 ? l->out + b->start[t - 1] * l->out_width : l->h0;
        NAME(lstm_step) s = {l, NULL, at, t > 0 ? l->cell + b->start[t - 1] * l->width : l->c0, NULL};
        if (fed_back)
            NAME(tr_gemm)(false, false, rows, gates, l->out_width, 1, fed_back, l->out_width, l->weight, gates, 1,
                          l->gate + at * gates, gates);
        tr_parallel_range(rows, 1 + MIN_CELLS / (1 + l->width), NAME(forward_range), &s);
        if (l->projection)
            NAME(project)(l, at, rows);
    }
    if (l->active_cell)
        NAME(tr_act_apply)(l->cell_act, l->active_cell, l->cell, b->rows * l->width, 0, 0);
}

void NAME(tr_lstm_backward)(const NAME(tr_lstm) *l, const NAME(tr_lstm_grads) *g)
{
    const tr_batches *b = l->batches;
    const int64_t     gates = 4 * l->width;

    for (int64_t t = b->steps - 1; t >= 0; t--) {
        const int64_t   at = b->start[t], rows = tr_batches_alive(b, t), before = t > 0 ? b->start[t - 1] : 0;
        T              *fed_back = t > 0 ? g->dout + before * l->out_width : g->dh0;
        NAME(lstm_step) s = {l, g, at, t > 0 ? l->cell + before * l->width : l->c0,
                             t > 0 ? g->dcell + before * l->width : g->dc0};
        if (l->projection)
            NAME(project_grad)(l, g, at, rows);
        tr_parallel_range(rows, 1 + MIN_CELLS / (1 + l->width), NAME(backward_range), &s);
        if (fed_back)
            NAME(tr_gemm)(false, true, rows, l->out_width, gates, 1, g->dgate + at * gates, gates, l->weight, gates, 1,
                          fed_back, l->out_width);
    }
}

TR_CLONES void NAME(tr_lstm_peephole_grad)(T *dpeephole, const T *dgate, const T *cell, const T *previous, int64_t rows,
                                           int64_t width)
{
    memset(dpeephole, 0, (size_t)(3 * width) * sizeof(T));
    for (int64_t r = 0; r < rows; r++, dgate += 4 * width, cell += width, previous += width) {
        TR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            dpeephole[j] += dgate[width + j] * previous[j];
            dpeephole[width + j] += dgate[2 * width + j] * previous[j];
            dpeephole[2 * width + j] += dgate[3 * width + j] * cell[j];
        }
    }
}

#endif
