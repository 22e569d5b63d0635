/* gru.c - see gru.h. The reset gate stands between two products, so a step has two passes over its rows. */
#ifndef T
#include "kernels/math/sequences/gru.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/sequences/recurrent_act.h"

enum { MIN_CELLS = 2048 };                                   /* of a slice */

#include "kernels/math/tools/each_float.h"
#else

/* One pass over the rows of a step, which begin at `at` in batch order. */
typedef struct {
    const NAME(tr_gru) *u;
    int64_t  at;
    const T *previous;                /* hidden states; NULL: zeros */
    T       *dgate, *dreset, *dhidden, *dprevious;
} NAME(gru_step);

#define PREVIOUS(r) (s->previous ? s->previous + (r) * width : NULL)
#define DPREVIOUS(r) (s->dprevious ? s->dprevious + (r) * width : NULL)

/* Update, reset, r h'. Whether there is a state before is a constant where this is used: an optional array in the loop would be a
 * masked load from NULL, which the CPU does in microcode. */
TR_INLINE void NAME(gate_rows)(const NAME(gru_step) *s, int64_t begin, int64_t end, tr_act gate_act, bool has_previous)
{
    const int64_t width = s->u->width;

    for (int64_t r = begin; r < end; r++) {
        T       *gate = s->u->gate + (s->at + r) * 3 * width, *reset = s->u->reset + (s->at + r) * width;
        const T *previous = has_previous ? s->previous + r * width : NULL;
        TR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            gate[j] = NAME(tr_gate_act)(gate_act, gate[j]);
            gate[width + j] = NAME(tr_gate_act)(gate_act, gate[width + j]);
            reset[j] = previous ? gate[width + j] * previous[j] : 0;
        }
    }
}

TR_INLINE void NAME(gates)(const NAME(gru_step) *s, int64_t begin, int64_t end, tr_act gate_act)
{
    if (s->previous)
        NAME(gate_rows)(s, begin, end, gate_act, true);
    else
        NAME(gate_rows)(s, begin, end, gate_act, false);
}

/* Candidate and hidden state. */
TR_INLINE void NAME(output)(const NAME(gru_step) *s, int64_t begin, int64_t end, tr_act candidate_act)
{
    const int64_t width = s->u->width;
    const bool    origin = s->u->origin_mode;

    for (int64_t r = begin; r < end; r++) {
        T       *gate = s->u->gate + (s->at + r) * 3 * width, *hidden = s->u->hidden + (s->at + r) * width;
        const T *previous = PREVIOUS(r);
        TR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            const T before = previous ? previous[j] : 0, update = gate[j];
            const T candidate = NAME(tr_gate_act)(candidate_act, gate[2 * width + j]);
            gate[2 * width + j] = candidate;
            hidden[j] = origin ? candidate + update * (before - candidate) : before + update * (candidate - before);
        }
    }
}

/* From the hidden state to update, candidate and the state before. */
TR_INLINE void NAME(output_grad)(const NAME(gru_step) *s, int64_t begin, int64_t end, tr_act gate_act, tr_act candidate_act)
{
    const int64_t width = s->u->width;
    const bool    origin = s->u->origin_mode;

    for (int64_t r = begin; r < end; r++) {
        const T *gate = s->u->gate + (s->at + r) * 3 * width, *dhidden = s->dhidden + (s->at + r) * width;
        const T *previous = PREVIOUS(r);
        T       *dgate = s->dgate + (s->at + r) * 3 * width, *dprevious = DPREVIOUS(r);
        TR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            const T before = previous ? previous[j] : 0, d = dhidden[j];
            const T candidate = gate[2 * width + j], apart = origin ? before - candidate : candidate - before;
            const T kept = origin ? gate[j] : 1 - gate[j];
            dgate[j] = NAME(tr_gate_dact)(gate_act, d * apart, gate[j]);
            dgate[2 * width + j] = NAME(tr_gate_dact)(candidate_act, d * (1 - kept), candidate);
            if (dprevious)
                dprevious[j] += d * kept;
        }
    }
}

/* From r h' to the reset gate and the state before. */
TR_INLINE void NAME(reset_grad)(const NAME(gru_step) *s, int64_t begin, int64_t end, tr_act gate_act)
{
    const int64_t width = s->u->width;

    for (int64_t r = begin; r < end; r++) {
        const T *reset = s->u->gate + (s->at + r) * 3 * width + width, *dreset = s->dreset + (s->at + r) * width;
        const T *previous = PREVIOUS(r);
        T       *dgate = s->dgate + (s->at + r) * 3 * width + width, *dprevious = DPREVIOUS(r);
        TR_IVDEP
        for (int64_t j = 0; j < width; j++) {
            dgate[j] = NAME(tr_gate_dact)(gate_act, dreset[j] * (previous ? previous[j] : 0), reset[j]);
            if (dprevious)
                dprevious[j] += dreset[j] * reset[j];
        }
    }
}

/* Each pass, for the usual activations and for any, over a range of rows. */
#define PASS(name, usual, any)                                                                                  \
    TR_CLONES static void NAME(name##_range)(void *payload, int64_t begin, int64_t end)                         \
    {                                                                                                               \
        const NAME(gru_step) *s = payload;                                                                      \
        if (s->u->gate_act == TR_ACT_sigmoid && s->u->candidate_act == TR_ACT_tanh)                             \
            NAME(name)(s, begin, end, usual);                                                                   \
        else                                                                                                    \
            NAME(name)(s, begin, end, any);                                                                     \
    }
#define BOTH(a, b) a, b
PASS(gates, TR_ACT_sigmoid, s->u->gate_act)
PASS(output, TR_ACT_tanh, s->u->candidate_act)
PASS(output_grad, BOTH(TR_ACT_sigmoid, TR_ACT_tanh), BOTH(s->u->gate_act, s->u->candidate_act))
PASS(reset_grad, TR_ACT_sigmoid, s->u->gate_act)
#undef BOTH
#undef PASS
#undef PREVIOUS
#undef DPREVIOUS

/* -- all steps ------------------------------------------------------------------------------------------------- */

void NAME(tr_gru_forward)(const NAME(tr_gru) *u)
{
    const tr_batches *b = u->batches;
    const int64_t     width = u->width, min_rows = 1 + MIN_CELLS / (1 + width);

    for (int64_t t = 0; t < b->steps; t++) {
        const int64_t  at = b->start[t], rows = tr_batches_alive(b, t);
        const T       *previous = t > 0 ? u->hidden + b->start[t - 1] * width : u->h0;
        T             *gate = u->gate + at * 3 * width;
        NAME(gru_step) s = {.u = u, .at = at, .previous = previous};
        if (previous)
            NAME(tr_gemm)(false, false, rows, 2 * width, width, 1, previous, width, u->weight, 2 * width, 1, gate, 3 * width);
        tr_parallel_range(rows, min_rows, NAME(gates_range), &s);
        if (previous)
            NAME(tr_gemm)(false, false, rows, width, width, 1, u->reset + at * width, width, u->weight + 2 * width * width,
                          width, 1, gate + 2 * width, 3 * width);
        tr_parallel_range(rows, min_rows, NAME(output_range), &s);
    }
}

void NAME(tr_gru_backward)(const NAME(tr_gru) *u, T *dgate, T *dreset, T *dhidden, T *dh0)
{
    const tr_batches *b = u->batches;
    const int64_t     width = u->width, min_rows = 1 + MIN_CELLS / (1 + width);

    for (int64_t t = b->steps - 1; t >= 0; t--) {
        const int64_t  at = b->start[t], rows = tr_batches_alive(b, t), before = t > 0 ? b->start[t - 1] : 0;
        T             *dprevious = t > 0 ? dhidden + before * width : dh0, *dgate_t = dgate + at * 3 * width;
        NAME(gru_step) s = {u, at, t > 0 ? u->hidden + before * width : u->h0, dgate, dreset, dhidden, dprevious};
        tr_parallel_range(rows, min_rows, NAME(output_grad_range), &s);
        NAME(tr_gemm)(false, true, rows, width, width, 1, dgate_t + 2 * width, 3 * width, u->weight + 2 * width * width,
                      width, 0, dreset + at * width, width);
        tr_parallel_range(rows, min_rows, NAME(reset_grad_range), &s);
        if (dprevious)
            NAME(tr_gemm)(false, true, rows, width, 2 * width, 1, dgate_t, 3 * width, u->weight, 2 * width, 1, dprevious, width);
    }
}

void NAME(tr_gru_weight_grad)(T *dweight, const T *dgate, const T *previous, const T *reset, int64_t rows, int64_t width)
{
    NAME(tr_gemm)(true, false, width, 2 * width, rows, 1, previous, width, dgate, 3 * width, 0, dweight, 2 * width);
    NAME(tr_gemm)(true, false, width, width, rows, 1, reset, width, dgate + 2 * width, 3 * width, 0,
                  dweight + 2 * width * width, width);
}

#endif
