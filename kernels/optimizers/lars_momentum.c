/* lars_momentum.c - momentum with a learning rate that follows the ratio of the norms of Param and Grad, or of their rows.
 *
 * rate = LearningRate lars_coeff |Param| / (|Grad| + lars_weight_decay |Param|), LearningRate where a norm is 0;
 * Velocity = mu Velocity + rate (Grad + lars_weight_decay Param); Param -= Velocity. */
#ifndef T

#include <math.h>

#include "framework/threads/threadpool.h"
#include "kernels/base/check.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/exact.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/optimizers/optimizer.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { PARAM, GRAD, VELOCITY, LEARNING_RATE };
enum { PARAM_OUT, VELOCITY_OUT };

typedef struct attrs {
    float mu, lars_coeff, lars_weight_decay;
    bool  per_row;
} attrs;

static const tr_op_proto proto = {
    .doc = "Momentum whose learning rate for a whole parameter is scaled by |Param| / |Grad|, for large batches.",
    .in = TR_SLOTS(TR_PARAM_SLOT, TR_SLOT("Grad", "like Param", "; or selected rows of it, dense where per_row", TR_SLOT_ROWS),
                   TR_SLOT("Velocity", "like Param", "; the running step"), TR_RATE_SLOT),
    .out = TR_SLOTS(TR_PARAM_OUT_SLOT, TR_STATE_OUT_SLOT("Velocity")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, mu, FLOAT, "the share of the velocity that stays", .required = true),
                       TR_ATTR(attrs, lars_coeff, FLOAT, "how far a parameter is trusted", .number = 0.001),
                       TR_ATTR(attrs, lars_weight_decay, FLOAT, "weight of Param in the step", .number = 0.0005),
                       TR_ATTR(attrs, per_row, BOOL, "each row of Param is a parameter of its own")),
};

static const tr_optimizer_state states[] = {{PARAM, PARAM_OUT}, {VELOCITY, VELOCITY_OUT}, TR_LAST_STATE};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs *a = io->attrs;

    return a->per_row ? tr__check_dense(io, "Grad", &io->in[GRAD]) : TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------- */
TR_REGISTER_OP(lars_momentum, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(lars_momentum), .updates = true);

#else /* the kernel, for each T */

/* Memory for the sum of values of one row. */
static T *NAME(row_sum)(const tr_grad_rows *g)
{
    return g->order ? tr_thread_scratch(TR_SCRATCH_COLUMNS, (size_t)g->width * sizeof(T)) : NULL;
}

/* The same with and without rows of zeros: a sparse gradient gives the bits of a dense one. */
static double NAME(grad_norm)(const tr_grad_rows *g)
{
    tr_exact squares = {0};
    T       *sum = NAME(row_sum)(g);

    for (int64_t i = 0; i < g->count; i++)
        NAME(tr_exact_add_squares)(&squares, NAME(tr_grad_row)(sum, g, i), g->width);
    return sqrt(tr_exact_round_f64(&squares));
}

/* One parameter of `n` elements; of its gradient the rows that are not 0, and its norm. */
static void NAME(step)(T *p, T *v, const tr_grad_rows *g, double g_norm, int64_t n, double rate, const attrs *a)
{
    const double p_norm = sqrt(NAME(tr_sum_squares)(p, n)), decay = (double)a->lars_weight_decay;

    if (p_norm > 0 && g_norm > 0)
        rate *= (double)a->lars_coeff * p_norm / (g_norm + decay * p_norm);
    NAME(tr_scale)(v, v, a->mu, 0, n);
    T *sum = NAME(row_sum)(g);
    for (int64_t i = 0; i < g->count; i++)
        NAME(tr_axpy)(v + g->rows[i] * g->width, (T)rate, NAME(tr_grad_row)(sum, g, i), g->width);
    NAME(tr_axpy)(v, (T)(rate * decay), p, n);
    NAME(tr_axpy)(p, -1, v, n);
}

static tr_status NAME(lars_momentum)(const tr_run *io)
{
    static const int64_t first = 0;
    double               rate;

    TR_TRY(tr__optimizer_rate(&rate, io, LEARNING_RATE));
    const attrs         *a = io->attrs;
    const int64_t        n = tr_tensor_count(io->in[PARAM]), params = a->per_row ? io->in[PARAM]->shape.dim[0] : 1;
    T                   *p = io->out[PARAM_OUT]->data, *v = io->out[VELOCITY_OUT]->data;
    tr_grad_rows         g = {.values = io->in[GRAD]->data, .rows = &first, .count = 1, .width = params ? n / params : 0};

    if (io->in[GRAD]->rows)
        TR_TRY(NAME(tr__grad_rows)(&g, io, PARAM, GRAD));
    tr__optimizer_load(io, states);
    if (!a->per_row)
        NAME(step)(p, v, &g, NAME(grad_norm)(&g), n, rate, a);
    for (int64_t i = 0; a->per_row && i < params; i++, g.values = (const T *)g.values + g.width)
        NAME(step)(p + i * g.width, v + i * g.width, &g, sqrt(NAME(tr_sum_squares)(g.values, g.width)), g.width, rate, a);
    return TR_OK;
}

#endif
