/* loss_scaling.c - gradients of a loss that was multiplied by a factor (mixed precision).
 *
 * check_finite_and_unscale divides all gradients by the factor and tells whether one of them was not finite.
 * update_loss_scaling then keeps the factor: a step that was not finite counts as bad, and all of its gradients become 0; after
 * some bad steps in a row the factor shrinks, after some good ones it grows. Out is mostly the same variables as X. */
#ifndef T

#include <math.h>
#include <string.h>

#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/elementwise.h"

/* -- check_finite_and_unscale ------------------------------------------------------------------- */

enum { X, SCALE };                                    enum { OUT, FOUND };

static const tr_op_proto unscale_proto = {
    .doc = "Out = X / Scale, for each X. FoundInfinite = some element of some X is infinite or NaN.",
    .in = TR_SLOTS({"X", "any shapes, float, or selected rows", TR_SLOT_REPEATED | TR_SLOT_ROWS},
                   TR_SLOT("Scale", "[1]", " float32; not 0", TR_SLOT_FP32)),
    .out = TR_SLOTS({"Out", "like X; may be the same variables", TR_SLOT_REPEATED},
                    TR_SLOT("FoundInfinite", "[1]", " bool", TR_SLOT_BOOL)),
};

static tr_status infer_pairs(const tr_infer *io)
{
    if (io->outs[OUT].count != io->ins[X].count)
        return tr_fail(TR_EINVAL, "%s: there are %d X, so there must be as many Out; got %d", io->type, io->ins[X].count,
                       io->outs[OUT].count);
    for (int i = 0; i < io->ins[X].count; i++)
        io->outs[OUT].item[i] = io->ins[X].item[i];
    return TR_OK;
}

/* -- update_loss_scaling -------------------------------------------------------------------------- */

enum { U_X, IS_INFINITE, SCALING, GOOD, BAD };        enum { U_OUT, SCALING_OUT, GOOD_OUT, BAD_OUT };

typedef struct attrs {
    int32_t incr_every_n_steps, decr_every_n_nan_or_inf;
    float   incr_ratio, decr_ratio;
    bool    stop_update;
} attrs;

static const tr_op_proto update_proto = {
    .doc = "Out = X, or zeros where FoundInfinite. LossScaling = PrevLossScaling, times incr_ratio after incr_every_n_steps good steps in a row, times "
           "decr_ratio (but at least 1) after decr_every_n_nan_or_inf bad ones.",
    .in = TR_SLOTS({"X", "any shapes, float, or selected rows", TR_SLOT_REPEATED | TR_SLOT_ROWS},
                   TR_SLOT("FoundInfinite", "[1]", " bool; the step was bad", TR_SLOT_BOOL),
                   TR_SLOT("PrevLossScaling", "[1]", " float32", TR_SLOT_FP32),
                   TR_SLOT("InGoodSteps", "[1]", " int32; good steps in a row", TR_SLOT_INT32),
                   TR_SLOT("InBadSteps", "[1]", " int32; bad steps in a row", TR_SLOT_INT32)),
    .out = TR_SLOTS({"Out", "like X; may be the same variables", TR_SLOT_REPEATED},
                    TR_SLOT("LossScaling", "like PrevLossScaling", "; may be the same variable", TR_SLOT_ANY_TYPE),
                    TR_SLOT("OutGoodSteps", "like InGoodSteps", "; may be the same variable", TR_SLOT_ANY_TYPE),
                    TR_SLOT("OutBadSteps", "like InBadSteps", "; may be the same variable", TR_SLOT_ANY_TYPE)),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, incr_every_n_steps, INT, "good steps after which the factor grows", .number = 1000, .range = TR_AT_LEAST(1)),
        TR_ATTR(attrs, decr_every_n_nan_or_inf, INT, "bad steps after which it shrinks", .number = 2, .range = TR_AT_LEAST(1)),
        TR_ATTR(attrs, incr_ratio, FLOAT, "by which it grows", .number = 2, .range = TR_GREATER(1)),
        TR_ATTR(attrs, decr_ratio, FLOAT, "by which it shrinks", .number = 0.8, .range = TR_BETWEEN(0, 1)),
        TR_ATTR(attrs, stop_update, BOOL, "leave the factor as it is")),
};

/* A factor that would become infinite stays. */
static void update(float *scaling, int32_t *good, int32_t *bad, bool was_bad, const attrs *a)
{
    *good = was_bad ? 0 : *good + 1;
    *bad = was_bad ? *bad + 1 : 0;
    if (*bad == a->decr_every_n_nan_or_inf) {
        *scaling = fmaxf(*scaling * a->decr_ratio, 1);
        *bad = 0;
    } else if (*good == a->incr_every_n_steps) {
        *scaling = isfinite(*scaling * a->incr_ratio) ? *scaling * a->incr_ratio : *scaling;
        *good = 0;
    }
}

static void update_numbers(const tr_run *io)
{
    const attrs *a = io->attrs;
    float        scaling = *(const float *)io->in[SCALING]->data;
    int32_t      good = *(const int32_t *)io->in[GOOD]->data, bad = *(const int32_t *)io->in[BAD]->data;

    if (!a->stop_update)
        update(&scaling, &good, &bad, *(const uint8_t *)io->in[IS_INFINITE]->data, a);
    *(float *)io->out[SCALING_OUT]->data = scaling;
    *(int32_t *)io->out[GOOD_OUT]->data = good;
    *(int32_t *)io->out[BAD_OUT]->data = bad;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- registration ------------------------------------------------------------------------------- */

TR_REGISTER_OP(check_finite_and_unscale, .proto = &unscale_proto, .infer = infer_pairs, .kernels = TR_FLOAT_KERNELS(check_finite_and_unscale), .updates = true);
TR_REGISTER_OP(update_loss_scaling, .proto = &update_proto, .infer = infer_pairs, .kernels = TR_FLOAT_KERNELS(update_loss_scaling),
               .updates = true);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(check_finite_and_unscale)(const tr_run *io)
{
    const float scale = *(const float *)io->in[SCALE]->data;
    bool        found = false;

    if (!(scale > 0) || isinf(scale))
        return tr_fail(TR_ERANGE, "check_finite_and_unscale: Scale '%s' is %g; it must be finite and above 0", tr_run_in_name(io, SCALE, 0),
                       (double)scale);
    for (int i = 0; i < io->ins[X].count; i++) {
        const tr_tensor *x = io->ins[X].item[i];
        tr_tensor       *out = io->outs[OUT].item[i];
        found = found || !NAME(tr_all_finite)(x->data, tr_tensor_count(x));
        NAME(tr_scale)(out->data, x->data, 1 / (T)scale, 0, tr_tensor_count(x));
        TR_TRY(tr__rows_copy(out, x));
    }
    *(uint8_t *)io->out[FOUND]->data = found;
    return TR_OK;
}

static tr_status NAME(update_loss_scaling)(const tr_run *io)
{
    const bool was_bad = *(const uint8_t *)io->in[IS_INFINITE]->data;

    for (int i = 0; i < io->ins[U_X].count; i++) {
        const tr_tensor *x = io->ins[U_X].item[i];
        tr_tensor       *out = io->outs[U_OUT].item[i];
        const size_t     bytes = (size_t)tr_tensor_bytes(x);
        TR_TRY(tr__rows_copy(out, x));
        if (was_bad)
            memset(out->data, 0, bytes);
        else if (out->data != x->data && bytes > 0)
            memcpy(out->data, x->data, bytes);
    }
    update_numbers(io);
    return TR_OK;
}

#endif
