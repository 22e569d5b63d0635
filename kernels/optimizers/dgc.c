/* dgc.c - deep gradient compression (kernels/math/training/dgc.h): dgc, and dgc_clip_by_norm, which clips a trainer's own gradient before it.
 *
 * Until step rampup_begin_step every value goes: Grad_out is the momentum, and the update subtracts it. From then on V accumulates
 * the momentum, and of it only the largest values go. So the update is plain gradient descent from the first step to the last, and U
 * goes on where the dense steps have left it.
 *
 * A gradient that is not finite would stay in U and V for ever: it goes as it is, and U and V wait. The mean over no samples is such
 * a gradient. */
#ifndef T

#include <math.h>
#include <string.h>

#include "kernels/base/check.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/exact.h"
#include "kernels/math/training/dgc.h"

/* -- interface of dgc -------------------------------------------------------------------------------- */
enum { U, V, GRAD, CURRENT_STEP };
enum { U_OUT, V_OUT, ENCODE_GRAD, GRAD_OUT, K };

typedef struct attrs {
    float     m, rampup_begin_step, rampup_step;
    bool      use_nesterov;
    tr_floats sparsity;
} attrs;

static const tr_op_proto proto = {
    .doc = "U = m U + Grad, V = V + U; the largest values of V are Grad_out, and become 0 in U and V. Before rampup_begin_step Grad_out = U.",
    .in = TR_SLOTS({"U", "like Grad; the momentum"}, {"V", "like Grad; what has not been sent"}, {"Grad", "[...] float"},
                   TR_SLOT("current_step", "[1]", " int64, int32, float32 or float64; 0 in the first step", TR_SLOT_ANY_TYPE)),
    .out = TR_SLOTS(TR_SLOT("U_out", "like U", "; the same variable"), TR_SLOT("V_out", "like V", "; the same variable"),
                    TR_SLOT("EncodeGrad", "[2 k]", "; the places of the k values as bits of whole numbers, then the values", TR_SLOT_OPTIONAL),
                    TR_SLOT("Grad_out", "like Grad", "; what is sent, 0 elsewhere"),
                    TR_SLOT("k", "[1]", " float32; how many values are sent", TR_SLOT_OPTIONAL | TR_SLOT_FP32)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, m, FLOAT, "the share of the momentum that stays", .number = 0.9, .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, use_nesterov, BOOL, "look ahead by one step", .number = true),
                       TR_ATTR(attrs, sparsity, FLOATS, "the shares of the values that are not sent, one period after the other; the last one stays",
                               .required = true),
                       TR_ATTR(attrs, rampup_begin_step, FLOAT, "the first step that sends the largest values alone", .range = TR_AT_LEAST(0)),
                       TR_ATTR(attrs, rampup_step, FLOAT, "how many steps all periods take together", .required = true, .range = TR_GREATER(0))),
};

/* -- interface of dgc_clip_by_norm --------------------------------------------------------------------- */
enum { C_X, C_CURRENT_STEP };
enum { C_OUT };

typedef struct clip_attrs {
    float max_norm, rampup_begin_step;
} clip_attrs;

static const tr_op_proto clip_proto = {
    .doc = "Out = X before rampup_begin_step. From then on X where its l2 norm is at most max_norm, else X scaled down to that norm.",
    .in = TR_SLOTS({"X", "any shape, float"},
                   TR_SLOT("current_step", "[1]", " int64, int32, float32 or float64; 0 in the first step", TR_SLOT_ANY_TYPE)),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(clip_attrs, TR_ATTR(clip_attrs, max_norm, FLOAT, "the greatest norm", .required = true, .range = TR_GREATER(0)),
                            TR_ATTR(clip_attrs, rampup_begin_step, FLOAT, "the first step that clips", .number = -1)),
};

/* -- shapes and attributes --------------------------------------------------------------------------------- */
static tr_status check_step(const tr_infer *io, const tr_meta *step)
{
    switch (step->dtype) {
    case TR_INT64: case TR_INT32: case TR_FP32: case TR_FP64: case TR_DTYPE_NONE:
        return TR_OK;
    default:
        return tr_fail(TR_EDTYPE, "%s: current_step must be int64, int32, float32 or float64, got %s", io->type, tr_dtype_name(step->dtype));
    }
}

static tr_status infer(const tr_infer *io)
{
    TR_TRY(check_step(io, &io->in[CURRENT_STEP]));
    TR_TRY(tr__check_like(io, "U", &io->in[U], &io->in[GRAD]));
    return tr__check_like(io, "V", &io->in[V], &io->in[GRAD]);
}

static tr_status infer_clip(const tr_infer *io) { return check_step(io, &io->in[C_CURRENT_STEP]); }

static tr_status check(const void *decoded)
{
    const attrs *a = decoded;

    if (a->sparsity.count == 0)
        return tr_fail(TR_EINVAL, "dgc: attribute 'sparsity' is empty; shares of values that are not sent are possible, such as [0.75, 0.999]");
    for (int i = 0; i < a->sparsity.count; i++)
        if (!(a->sparsity.item[i] >= 0 && a->sparsity.item[i] < 1))
            return tr_fail(TR_ERANGE, "dgc: attribute 'sparsity' holds %g; shares from 0 to below 1 are possible", (double)a->sparsity.item[i]);
    return TR_OK;
}

/* -- what a step sends --------------------------------------------------------------------------------------- */

static double step_of(const tr_tensor *step)
{
    switch (step->dtype) {
    case TR_INT64: return (double)*(const int64_t *)step->data;
    case TR_INT32: return *(const int32_t *)step->data;
    case TR_FP64:  return *(const double *)step->data;
    default:       return (double)*(const float *)step->data;
    }
}

/* The values that go of n in a step; n: this step is a dense one. */
static int64_t sent_of(const attrs *a, double step, int64_t n)
{
    const double since = step - (double)a->rampup_begin_step;

    if (!(since >= 0))
        return n;
    const double  period = floor(since * a->sparsity.count / (double)a->rampup_step);
    const float   sparsity = a->sparsity.item[period < a->sparsity.count ? (int)period : a->sparsity.count - 1];
    const int64_t k = llround((double)n * (double)(1 - sparsity));
    return k < 1 ? 1 : k > n ? n : k;
}

/* -- kernels: the end of this file, once for each type -------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- registration ---------------------------------------------------------------------------------------------- */
TR_REGISTER_OP(dgc, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(dgc), .check = check, .updates = true);
TR_REGISTER_OP(dgc_clip_by_norm, .proto = &clip_proto, .infer = infer_clip, .kernels = TR_FLOAT_KERNELS(dgc_clip_by_norm),
               .inplace = {{C_X, C_OUT}}, .inplace_count = 1);

#else /* -- kernels ------------------------------------------------------------------------------------------------ */

/* The places and values of what is sent. */
static tr_status NAME(encode)(const tr_run *io, const T *sent, int64_t k, int64_t n)
{
    const tr_shape shape = TR_SHAPE(2 * k);
    int64_t        found = 0;

    TR_TRY(tr_run_resize(io, ENCODE_GRAD, 0, io->out[GRAD_OUT]->dtype, &shape));
    T *out = io->out[ENCODE_GRAD]->data;
    memset(out, 0, (size_t)(2 * k) * sizeof *out);
    for (int64_t i = 0; i < n && found < k; i++)
        if (sent[i] != 0) {
            memcpy(&out[found], &i, sizeof(T));            /* the low half, where T is a float */
            out[k + found++] = sent[i];
        }
    return TR_OK;
}

/* U and V as they come in: the outputs may be other variables. */
static void NAME(carry)(const tr_run *io, int in, int out, int64_t n)
{
    if (io->out[out]->data != io->in[in]->data)
        memcpy(io->out[out]->data, io->in[in]->data, (size_t)n * sizeof(T));
}

static tr_status NAME(dgc)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const int64_t n = tr_tensor_count(io->in[GRAD]);
    const double  step = step_of(io->in[CURRENT_STEP]);
    const T      *g = io->in[GRAD]->data;
    T            *sent = io->out[GRAD_OUT]->data;
    int64_t       k = sent_of(a, step, n);

    NAME(carry)(io, U, U_OUT, n);
    NAME(carry)(io, V, V_OUT, n);
    T *u = io->out[U_OUT]->data, *v = io->out[V_OUT]->data;
    if (!NAME(tr_all_finite)(g, n)) {
        if (sent != g)
            memcpy(sent, g, (size_t)n * sizeof *sent);
        k = n;
    } else if (step < (double)a->rampup_begin_step) {
        NAME(tr_dgc_momentum)(sent, u, g, a->m, a->use_nesterov, n);
    } else if (n > 0) {
        NAME(tr_dgc_accumulate)(v, u, g, a->m, a->use_nesterov, n);
        NAME(tr_dgc_take)(sent, v, u, k, n);
    }
    if (io->out[K])
        *(float *)io->out[K]->data = (float)k;
    return io->out[ENCODE_GRAD] ? NAME(encode)(io, sent, k, n) : TR_OK;
}

static tr_status NAME(dgc_clip_by_norm)(const tr_run *io)
{
    const clip_attrs *a = io->attrs;
    const T          *x = io->in[C_X]->data;
    const int64_t     n = tr_tensor_count(io->in[C_X]);
    tr_exact          squares = {0};
    T                 factor = 1;

    if (step_of(io->in[C_CURRENT_STEP]) >= (double)a->rampup_begin_step) {
        NAME(tr_exact_add_squares)(&squares, x, n);
        const double norm = sqrt(tr_exact_round_f64(&squares));
        factor = norm > (double)a->max_norm ? (T)((double)a->max_norm / norm) : 1;
    }
    NAME(tr_scale)(io->out[C_OUT]->data, x, factor, 0, n);
    return TR_OK;
}

#endif
