/* lstm.c - see lstm.h. A step is a product, then one pass over its rows that does everything else.
 *
 * Sequences do not know of each other, so groups of them (of ranks) go through all steps without a look at other groups: a
 * group is a slice for one thread, and what it hands from step to step stays in that thread's cache. Where a step is
 * so large that its product fills all threads, there is one group and each step is cut instead. Rows of the sequences are read and
 * written where they are; what a product needs lies by rank in `room`, for one step at a time. So an array that is read may be the one
 * that is written: gate may be input, and dinput may be gate, which leaves more of the cache to the rest. */
#ifndef T
#include "kernels/math/sequences/lstm.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/recurrent_act.h"

#include <string.h>

enum { MIN_CELLS = 2048, MIN_GROUP = 16 };                   /* of a slice; sequences of a group */
static const double LARGE_STEP = 40e6;                       /* multiplications */

/* How many groups; the shape alone decides. */
static int64_t groups_of(int64_t sequences, int64_t gates, int64_t out_width)
{
    const bool is_large = (double)sequences * (double)gates * (double)out_width > LARGE_STEP;
    return is_large ? 1 : tr_slice_count(sequences, MIN_GROUP);
}

/* How many of the ranks from `begin` to `end` are alive at step t; none where it is not positive. */
static int64_t alive_of(const tr_batches *b, int64_t t, int64_t begin, int64_t end)
{
    const int64_t alive = tr_batches_alive(b, t);
    return (alive < end ? alive : end) - begin;
}

/* The sequences' row of rank r in step t, or -1. */
static int64_t row_in_step(const tr_batches *b, int64_t t, int64_t r)
{
    return t >= 0 && t < b->steps && r < tr_batches_alive(b, t) ? b->row[b->start[t] + r] : -1;
}

/* Elements, so that what follows them is aligned. */
static int64_t aligned(int64_t count)
{
    return (count + 15) / 16 * 16;
}

/* Rows of the next step lie far from those of this one, where no prefetcher of the CPU finds them. */
TR_INLINE void prefetch(const void *row, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += TR_CACHE_LINE)
        __builtin_prefetch((const char *)row + i, 0, 2);
}

#include "kernels/math/tools/each_float.h"
#else

/* The states that the steps hand on, [count, ...] by rank, and the memory of one step. */
typedef struct {
    const NAME(tr_lstm)       *l;
    const NAME(tr_lstm_grads) *g;
    NAME(tr_factor)            weight;
    int64_t  groups;
    T       *zeros;                   /* [width]: the cell before the first row */
    T       *fed_back;                /* forward: out of the step before; backward: the gradient of out */
    T       *sums;                    /* forward: the product of fed_back and weight */
    T       *dcell, *dgate;           /* backward */
    T       *dhidden;                 /* backward; without a projection fed_back */
    T       *dbias;                   /* backward: [groups, 4 width], the sums of dgate */
} NAME(lstm_run);

/* Some ranks of step t: row r of the step is row `at + r` in batch order. */
typedef struct {
    const NAME(lstm_run) *run;
    int64_t t, at, first;             /* `first` rank of the group */
} NAME(lstm_step);

TR_INLINE T NAME(clip)(T x, T bound)
{
    x = x > bound ? bound : x;
    return x < -bound ? -bound : x;
}

/* The cell of rank r before step t. */
static const T *NAME(cell_before)(const NAME(lstm_run) *run, int64_t t, int64_t r)
{
    const NAME(tr_lstm) *l = run->l;
    const tr_batches    *b = l->batches;

    if (t > 0)
        return l->cell + b->row[b->start[t - 1] + r] * l->width;
    return l->c0 ? l->c0 + b->rank[r] * l->width : run->zeros;
}

/* -- forward ------------------------------------------------------------------------------------------------- */

typedef struct {
    const T *sums, *input, *bias, *peephole, *previous;
    T       *gate, *cell, *active, *hidden, *copy;           /* active may be hidden: then it is lost. copy: another hidden, or it */
} NAME(forward_row);

/* The activations and whether there are peepholes are constants where this is used. (An optional array in such a loop would be
 * a masked load from NULL, which the CPU does in microcode: it cost as much as all else here.) */
TR_INLINE void NAME(forward_cells)(const NAME(forward_row) *r, int64_t width, T bound, bool peeps, tr_act gate_act,
                                   tr_act cell_act, tr_act candidate_act)
{
    const T *p = peeps ? r->peephole : NULL, *sums = r->sums, *input = r->input, *bias = r->bias, *previous = r->previous;
    T       *gate = r->gate, *cell = r->cell, *hidden = r->hidden, *active = r->active, *copy = r->copy;

    TR_IVDEP
    for (int64_t j = 0; j < width; j++) {
        const T before = previous[j];
        const T candidate = NAME(tr_gate_act)(candidate_act, sums[j] + (input[j] + bias[j]));
        const T in = NAME(tr_gate_act)(gate_act, sums[width + j] + (input[width + j] + bias[width + j]) +
                                                     (p ? p[j] * before : 0));
        const T forget = NAME(tr_gate_act)(gate_act, sums[2 * width + j] + (input[2 * width + j] + bias[2 * width + j]) +
                                                         (p ? p[width + j] * before : 0));
        const T c = NAME(clip)(candidate * in + before * forget, bound);
        const T out = NAME(tr_gate_act)(gate_act, sums[3 * width + j] + (input[3 * width + j] + bias[3 * width + j]) +
                                                      (p ? p[2 * width + j] * c : 0));
        const T seen = NAME(tr_gate_act)(cell_act, c);
        gate[j] = candidate;
        gate[width + j] = in;
        gate[2 * width + j] = forget;
        gate[3 * width + j] = out;
        cell[j] = c;
        active[j] = seen;
        hidden[j] = copy[j] = out * seen;
    }
}

TR_INLINE void NAME(forward_rows)(const NAME(lstm_step) *s, int64_t begin, int64_t end, bool peeps, tr_act gate_act,
                                  tr_act cell_act, tr_act candidate_act)
{
    const NAME(tr_lstm) *l = s->run->l;
    const int64_t        width = l->width, gates = 4 * width;
    const T              bound = l->cell_clip > 0 ? l->cell_clip : (T)INFINITY;

    for (int64_t r = s->first + begin; r < s->first + end; r++) {
        const int64_t k = s->at + r, row = l->batches->row[k];
        T            *fed_back = s->run->fed_back + r * l->out_width, *sums = s->run->sums + r * gates;
        NAME(forward_row) one = {
            .sums = sums, .input = l->input + row * gates, .bias = l->bias, .peephole = l->peephole,
            .previous = NAME(cell_before)(s->run, s->t, r), .gate = l->gate ? l->gate + row * gates : sums, .cell = l->cell + row * width,
            .hidden = l->hidden ? l->hidden + k * width : fed_back,
        };
        const int64_t next = row_in_step(l->batches, s->t + 1, r);
        one.active = l->active_cell ? l->active_cell + k * width : one.hidden;
        one.copy = l->projection ? one.hidden : l->out + row * width;
        if (next >= 0) {
            prefetch(l->input + next * gates, gates * (int64_t)sizeof(T));
            if (l->gate && l->gate != l->input)
                prefetch(l->gate + next * gates, gates * (int64_t)sizeof(T));
            prefetch(l->cell + next * width, width * (int64_t)sizeof(T));
            prefetch(l->out + next * l->out_width, l->out_width * (int64_t)sizeof(T));
        }
        NAME(forward_cells)(&one, width, bound, peeps, gate_act, cell_act, candidate_act);
    }
}

TR_CLONES static void NAME(forward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(lstm_step) *s = payload;
    const NAME(tr_lstm)   *l = s->run->l;
    const bool             is_usual = l->gate_act == TR_ACT_sigmoid && l->cell_act == TR_ACT_tanh && l->candidate_act == TR_ACT_tanh;

    if (is_usual && l->peephole)
        NAME(forward_rows)(s, begin, end, true, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
    else if (is_usual)
        NAME(forward_rows)(s, begin, end, false, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
    else if (l->peephole)
        NAME(forward_rows)(s, begin, end, true, l->gate_act, l->cell_act, l->candidate_act);
    else
        NAME(forward_rows)(s, begin, end, false, l->gate_act, l->cell_act, l->candidate_act);
}

static void NAME(project)(const NAME(lstm_step) *s, int64_t rows)
{
    const NAME(tr_lstm) *l = s->run->l;
    const int64_t        k = s->at + s->first, size = rows * l->out_width;
    T                   *out = s->run->fed_back + s->first * l->out_width;

    NAME(tr_gemm)(false, false, rows, l->out_width, l->width, 1, l->hidden + k * l->width, l->width, l->projection,
                  l->out_width, 0, out, l->out_width);
    NAME(tr_act_apply)(l->projection_act, out, out, size, 0, 0);
    for (int64_t i = 0; i < size && l->projection_clip > 0; i++)
        out[i] = NAME(clip)(out[i], l->projection_clip);
    tr_rows_scatter(l->out, l->batches->row + k, out, rows, l->out_width * (int64_t)sizeof(T));
}

static void NAME(forward_group)(void *payload, int64_t group)
{
    const NAME(lstm_run) *run = payload;
    const NAME(tr_lstm)  *l = run->l;
    const tr_batches     *b = l->batches;
    const int64_t         gates = 4 * l->width;
    int64_t               first, end;

    tr_slice_range(&first, &end, b->count, 1, run->groups, group);
    for (int64_t t = 0, rows; t < b->steps && (rows = alive_of(b, t, first, end)) > 0; t++) {
        NAME(lstm_step) s = {run, t, b->start[t], first};
        T              *sums = run->sums + first * gates;
        if (t > 0 || l->h0)
            NAME(tr_gemm_factor)(rows, run->fed_back + first * l->out_width, l->out_width, &run->weight, 0, sums, gates);
        else
            memset(sums, 0, (size_t)(rows * gates) * sizeof(T));
        tr_parallel_range(rows, 1 + MIN_CELLS / (1 + l->width), NAME(forward_range), &s);
        if (l->projection)
            NAME(project)(&s, rows);
    }
}

int64_t NAME(tr_lstm_room)(const NAME(tr_lstm) *l, int64_t sequences, int64_t rows)
{
    return aligned(l->width) + aligned(sequences * l->out_width) + aligned(sequences * 4 * l->width) +
           NAME(tr_factor_size)(4 * l->width, l->out_width, rows);
}

void NAME(tr_lstm_forward)(const NAME(tr_lstm) *l)
{
    const tr_batches *b = l->batches;
    const int64_t     gates = 4 * l->width, state = l->out_width * (int64_t)sizeof(T);
    NAME(lstm_run)    run = {.l = l, .groups = groups_of(b->count, gates, l->out_width), .zeros = l->room};

    run.fed_back = run.zeros + aligned(l->width);
    run.sums = run.fed_back + aligned(b->count * l->out_width);
    memset(run.zeros, 0, (size_t)l->width * sizeof(T));
    if (l->h0)
        tr_rows_gather(run.fed_back, l->h0, b->rank, b->count, state, -1);
    NAME(tr_factor_init)(&run.weight, false, gates, l->out_width, l->weight, gates, b->rows,
                         run.sums + aligned(b->count * gates));
    tr_parallel(run.groups, NAME(forward_group), &run);
}

/* -- backward ------------------------------------------------------------------------------------------------ */

typedef struct {
    const T *gate, *cell, *peephole, *previous, *dhidden;
    T       *dcell, *dgate, *dinput;                         /* dcell becomes that of the step before; dinput is dgate once more */
} NAME(backward_row);

TR_INLINE void NAME(backward_cells)(const NAME(backward_row) *r, int64_t width, T bound, bool peeps, tr_act gate_act,
                                    tr_act cell_act, tr_act candidate_act)
{
    const T *p = peeps ? r->peephole : NULL, *gate = r->gate, *cell = r->cell, *previous = r->previous, *dhidden = r->dhidden;
    T       *dcell = r->dcell, *dgate = r->dgate, *dinput = r->dinput;

    TR_IVDEP
    for (int64_t j = 0; j < width; j++) {
        const T before = previous[j], c = cell[j], active = NAME(tr_gate_act)(cell_act, c);
        const T candidate = gate[j], in = gate[width + j], forget = gate[2 * width + j], out = gate[3 * width + j];
        const T dout = NAME(tr_gate_dact)(gate_act, dhidden[j] * active, out);
        const T through = dcell[j] + NAME(tr_gate_dact)(cell_act, dhidden[j] * out, active) + (p ? p[2 * width + j] * dout : 0);
        const T dc = ((c < bound) & (c > -bound)) ? through : 0;
        const T din = NAME(tr_gate_dact)(gate_act, dc * candidate, in);
        const T dforget = NAME(tr_gate_dact)(gate_act, dc * before, forget);
        dgate[j] = dinput[j] = NAME(tr_gate_dact)(candidate_act, dc * in, candidate);
        dgate[width + j] = dinput[width + j] = din;
        dgate[2 * width + j] = dinput[2 * width + j] = dforget;
        dgate[3 * width + j] = dinput[3 * width + j] = dout;
        dcell[j] = dc * forget + (p ? p[j] * din + p[width + j] * dforget : 0);
    }
}

/* to += from; NULL is zeros. */
TR_INLINE void NAME(add_row)(T *to, const T *from, int64_t row, int64_t width)
{
    if (!from)
        return;
    TR_IVDEP
    for (int64_t j = 0; j < width; j++)
        to[j] += from[row * width + j];
}

TR_INLINE void NAME(backward_rows)(const NAME(lstm_step) *s, int64_t begin, int64_t end, bool peeps, tr_act gate_act,
                                   tr_act cell_act, tr_act candidate_act)
{
    const NAME(lstm_run)      *run = s->run;
    const NAME(tr_lstm)       *l = run->l;
    const NAME(tr_lstm_grads) *g = run->g;
    const int64_t              width = l->width, gates = 4 * width;
    const T                    bound = l->cell_clip > 0 ? l->cell_clip : (T)INFINITY;

    for (int64_t r = s->first + begin; r < s->first + end; r++) {
        const int64_t row = l->batches->row[s->at + r];
        const NAME(backward_row) one = {
            .gate = l->gate + row * gates, .cell = l->cell + row * width, .peephole = l->peephole,
            .previous = NAME(cell_before)(run, s->t, r), .dhidden = run->dhidden + r * width,
            .dcell = run->dcell + r * width, .dgate = run->dgate + r * gates, .dinput = g->dinput + row * gates,
        };
        const int64_t next = row_in_step(l->batches, s->t - 1, r), before_next = row_in_step(l->batches, s->t - 2, r);
        if (next >= 0) {
            prefetch(l->gate + next * gates, gates * (int64_t)sizeof(T));
            if (g->dinput != l->gate)
                prefetch(g->dinput + next * gates, gates * (int64_t)sizeof(T));
            if (g->dout)
                prefetch(g->dout + next * l->out_width, l->out_width * (int64_t)sizeof(T));
            if (g->dcell)
                prefetch(g->dcell + next * width, width * (int64_t)sizeof(T));
        }
        if (before_next >= 0)
            prefetch(l->cell + before_next * width, width * (int64_t)sizeof(T));
        if (!l->projection)
            NAME(add_row)(run->fed_back + r * width, g->dout, row, width);
        NAME(add_row)(one.dcell, g->dcell, row, width);
        NAME(backward_cells)(&one, width, bound, peeps, gate_act, cell_act, candidate_act);
    }
}

TR_CLONES static void NAME(backward_range)(void *payload, int64_t begin, int64_t end)
{
    const NAME(lstm_step) *s = payload;
    const NAME(tr_lstm)   *l = s->run->l;
    const bool             is_usual = l->gate_act == TR_ACT_sigmoid && l->cell_act == TR_ACT_tanh && l->candidate_act == TR_ACT_tanh;

    if (is_usual && l->peephole)
        NAME(backward_rows)(s, begin, end, true, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
    else if (is_usual)
        NAME(backward_rows)(s, begin, end, false, TR_ACT_sigmoid, TR_ACT_tanh, TR_ACT_tanh);
    else if (l->peephole)
        NAME(backward_rows)(s, begin, end, true, l->gate_act, l->cell_act, l->candidate_act);
    else
        NAME(backward_rows)(s, begin, end, false, l->gate_act, l->cell_act, l->candidate_act);
}

/* From the gradient of out, which is fed_back and dout, to that of hidden. */
static void NAME(project_grad)(const NAME(lstm_step) *s, int64_t rows)
{
    const NAME(lstm_run) *run = s->run;
    const NAME(tr_lstm)  *l = run->l;
    const int64_t         width = l->out_width, k = s->at + s->first;
    const T               bound = l->projection_clip;
    T                    *dprojected = run->g->dprojected + k * width;

    for (int64_t r = 0; r < rows; r++) {
        const int64_t row = l->batches->row[k + r];
        const T      *out = l->out + row * width;
        T            *d = dprojected + r * width;
        memcpy(d, run->fed_back + (s->first + r) * width, (size_t)width * sizeof(T));
        NAME(add_row)(d, run->g->dout, row, width);
        for (int64_t j = 0; j < width && bound > 0; j++)
            if (out[j] >= bound || out[j] <= -bound)
                d[j] = 0;
        NAME(tr_act_grad)(l->projection_act, d, d, NULL, out, width, 0, 0);
    }
    NAME(tr_gemm)(false, true, rows, l->width, width, 1, dprojected, width, l->projection, width, 0,
                  run->dhidden + s->first * l->width, l->width);
}

enum { NAME(SUM_COLS) = 64 };

/* sum[j] += the sum of x[r][j], while the rows are in cache. */
TR_CLONES static void NAME(add_rows)(T *sum, const T *x, int64_t rows, int64_t cols)
{
    for (int64_t j = 0; j < cols; j += NAME(SUM_COLS)) {
        const int64_t count = cols - j < NAME(SUM_COLS) ? cols - j : NAME(SUM_COLS);
        T             of_step[NAME(SUM_COLS)] = {0};
        for (int64_t r = 0; r < rows; r++)
            for (int64_t i = 0; i < count; i++)
                of_step[i] += x[r * cols + j + i];
        for (int64_t i = 0; i < count; i++)
            sum[j + i] += of_step[i];
    }
}

static void NAME(backward_group)(void *payload, int64_t group)
{
    const NAME(lstm_run) *run = payload;
    const NAME(tr_lstm)  *l = run->l;
    const tr_batches     *b = l->batches;
    const int64_t         gates = 4 * l->width;
    int64_t               first, end;

    tr_slice_range(&first, &end, b->count, 1, run->groups, group);
    for (int64_t t = b->steps - 1; t >= 0; t--) {
        const int64_t   rows = alive_of(b, t, first, end);
        NAME(lstm_step) s = {run, t, b->start[t], first};
        if (rows <= 0)
            continue;
        if (l->projection)
            NAME(project_grad)(&s, rows);
        tr_parallel_range(rows, 1 + MIN_CELLS / (1 + l->width), NAME(backward_range), &s);
        NAME(add_rows)(run->dbias + group * aligned(gates), run->dgate + first * gates, rows, gates);
        if (t > 0 || run->g->dh0)
            NAME(tr_gemm_factor)(rows, run->dgate + first * gates, gates, &run->weight, 0, run->fed_back + first * l->out_width,
                                 l->out_width);
    }
}

int64_t NAME(tr_lstm_backward_room)(const NAME(tr_lstm) *l, int64_t sequences, int64_t rows)
{
    const int64_t width = aligned(sequences * l->width);
    return aligned(l->width) + aligned(sequences * l->out_width) + (l->projection ? 6 : 5) * width +
           groups_of(sequences, 4 * l->width, l->out_width) * aligned(4 * l->width) +
           NAME(tr_factor_size)(l->out_width, 4 * l->width, rows);
}

void NAME(tr_lstm_backward)(const NAME(tr_lstm) *l, const NAME(tr_lstm_grads) *g)
{
    const tr_batches *b = l->batches;
    const int64_t     gates = 4 * l->width, width = aligned(b->count * l->width), size = (int64_t)sizeof(T);
    NAME(lstm_run)    run = {.l = l, .g = g, .groups = groups_of(b->count, gates, l->out_width), .zeros = g->room};

    run.fed_back = run.zeros + aligned(l->width);
    run.dcell = run.fed_back + aligned(b->count * l->out_width);
    run.dbias = run.dcell + width;
    run.dgate = run.dbias + run.groups * aligned(gates);
    run.dhidden = l->projection ? run.dgate + 4 * width : run.fed_back;
    memset(run.zeros, 0, (size_t)(run.dgate - run.zeros) * sizeof(T));
    NAME(tr_factor_init)(&run.weight, true, l->out_width, gates, l->weight, gates, b->rows,
                         run.dgate + (l->projection ? 5 : 4) * width);
    tr_parallel(run.groups, NAME(backward_group), &run);
    for (int64_t j = 0; j < gates && g->dbias; j++) {
        g->dbias[j] = 0;
        for (int64_t i = 0; i < run.groups; i++)
            g->dbias[j] += run.dbias[i * aligned(gates) + j];
    }
    if (g->dh0)
        tr_rows_scatter(g->dh0, b->rank, run.fed_back, b->count, l->out_width * size);
    if (g->dc0)
        tr_rows_scatter(g->dc0, b->rank, run.dcell, b->count, l->width * size);
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
