/* optimizer.h - what the operators that update parameters have in common.
 *
 * An optimizer reads Param, Grad, its state and some numbers, and writes ParamOut and the state's outputs, which are
 * the same variables, or on a parameter server others: the functions of kernels/math take both. Grad is dense or selected
 * rows, whose numbers
 * may repeat; equal ones are added up first, in a fixed order. A row that is not among them has the gradient 0, which
 * still moves the state of most optimizers. tr_sweep hides the difference:
 *
 *     tr_sweep_f32 s;
 *     TR_TRY(tr__sweep_begin_f32(&s, io, states, GRAD, LEARNING_RATE));
 *     while (tr__sweep_next_f32(&s))
 *         tr_adagrad_f32(s.to[0], s.to[1], s.from, s.g, s.rate, epsilon, s.count);
 *
 * Where rows without a gradient do not change at all (SGD, Adagrad, lazy Adam), tr__grad_rows gives just the rows. */
#ifndef TR_KERNELS_OPTIMIZER_H
#define TR_KERNELS_OPTIMIZER_H

#include "framework/operators/op.h"
#include "kernels/math/training/optimizer.h"

/* Param or a state shaped as it: the input, and the output slot that it becomes. */
typedef struct tr_optimizer_state {
    int in, out;
} tr_optimizer_state;

/* Param comes first, its states follow in the order in which kernels/math/training/optimizer.h takes them. Absent inputs are passed over. */
#define TR_LAST_STATE {-1, -1}

/* One number, such as the learning rate. */
#define TR_NUMBER_SLOT(slot_name, about) TR_SLOT(slot_name, "[1]", about, TR_SLOT_FP32 | TR_SLOT_FP64)

/* The slots that nearly all have. */
#define TR_PARAM_SLOT             {"Param", "[...] float"}
#define TR_GRAD_SLOT              TR_SLOT("Grad", "like Param", ", dense or selected rows", TR_SLOT_ROWS)
#define TR_RATE_SLOT              TR_NUMBER_SLOT("LearningRate", " float")
#define TR_PARAM_OUT_SLOT         TR_SLOT("ParamOut", "like Param", "; the same variable")
#define TR_STATE_OUT_SLOT(state)  TR_SLOT(state "Out", "like Param", "; the same variable as " state)

/* Bring the state into the outputs, where it is not there already. */
void tr__optimizer_load(const tr_run *io, const tr_optimizer_state *states);
/* The number in a tensor of one element, float32 or float64. */
double tr__optimizer_number(const tr_tensor *tensor);
/* The learning rate in input `slot`, which must be finite and at least 0. */
tr_status tr__optimizer_rate(double *out, const tr_run *io, int slot);

#define TR_TEMPLATE "kernels/optimizers/optimizer.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* The rows of a sparse gradient, ascending, in scratch memory. */
tr_status NAME(tr__grad_rows)(tr_grad_rows *out, const tr_run *io, int param, int grad);

/* The arrays from which the parameter and the states are read. */
void NAME(tr__optimizer_from)(const T *from[TR_OPTIMIZER_ARRAYS], const tr_run *io, const tr_optimizer_state *states);

/* A walk over all elements of a parameter in one or more ranges, each with its gradient. */
typedef struct NAME(tr_sweep) {
    const T     *g;                       /* gradient of the elements [begin, begin + count) */
    T           *to[TR_OPTIMIZER_ARRAYS]; /* the parameter and its states from `begin` on, in the order of `states` */
    const T     *const *from;             /* where they are read; NULL: in place */
    T            rate;                    /* the learning rate */
    int64_t      begin, count;
    int64_t      numel, step;             /* of the parameter; of one range */
    tr_grad_rows sparse;                  /* rows NULL: dense */
    int64_t      next_row;                /* first of sparse.rows beyond the range */
    T           *buffer;
    bool         buffer_is_zero;
    const T     *inputs[TR_OPTIMIZER_ARRAYS];
} NAME(tr_sweep);

/* `rate` is the slot of the learning rate; -1: there is none. */
tr_status NAME(tr__sweep_begin)(NAME(tr_sweep) *s, const tr_run *io, const tr_optimizer_state *states, int grad, int rate);
bool      NAME(tr__sweep_next)(NAME(tr_sweep) *s);

#endif
