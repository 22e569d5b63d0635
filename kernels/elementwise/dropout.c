/* dropout.c - set each element to 0 with probability dropout_prob.
 *
 * The mask is a pure function of the run's key and the element's index. `downgrade_in_infer` leaves what is kept as
 * it is and multiplies by 1 - dropout_prob in tests; `upscale_in_train` divides by it in training and changes nothing
 * in tests. Backward reads the mask alone, so Out may lie in X's memory. */
#ifndef T

#include <string.h>

#include "framework/gradients/grad_second.h"
#include "framework/tensors/random.h"
#include "framework/operators/op.h"
#include "kernels/math/arrays/elementwise.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT, MASK };
enum { G_MASK, G_DOUT };
enum { G_DX };

typedef struct attrs {
    float       dropout_prob;
    bool        is_test, fix_seed;
    int32_t     seed;
    enum { DOWNGRADE_IN_INFER, UPSCALE_IN_TRAIN } dropout_implementation;
} attrs;

static const tr_op_proto proto = {
    .doc = "Sets each element of X to 0 with probability dropout_prob.",
    .in = TR_SLOTS({"X", "[...] float"}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "; may share X's memory"),
                    TR_SLOT("Mask", "like X", ", uint8; 1 where the element was kept", TR_SLOT_INTERMEDIATE | TR_SLOT_UINT8)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, dropout_prob, FLOAT, "probability of 0", .number = 0.5,
                               .range = TR_BETWEEN(0, 1)),
                       TR_ATTR(attrs, is_test, BOOL, "nothing is set to 0"),
                       TR_ATTR(attrs, fix_seed, BOOL, "the same mask in each run, that of `seed`"),
                       TR_ATTR(attrs, seed, INT, "of the random numbers; 0: the program's"),
                       TR_ATTR(attrs, dropout_implementation, STRING, "when the scale of Out is made good",
                               .text = "downgrade_in_infer",
                               .range = TR_ONE_OF({"downgrade_in_infer", DOWNGRADE_IN_INFER}, {"upscale_in_train", UPSCALE_IN_TRAIN}))),
};

/* The factor of what is kept. */
static double kept_scale(const attrs *a)
{
    const double keep = 1.0 - (double)a->dropout_prob;
    const bool   upscale = a->dropout_implementation == UPSCALE_IN_TRAIN;

    if (a->is_test)
        return upscale ? 1.0 : keep;
    return upscale && keep > 0 ? 1.0 / keep : 1.0;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------- */
static const tr_grad_rule grad = {
    .op = "dropout_grad",
    .reads = {TR_OUT(MASK), TR_DOUT(OUT)},
    .makes = {TR_DIN(X)},
    .second = tr__second_gate,
};

TR_REGISTER_OP(dropout, .proto = &proto, .kernels = TR_FLOAT_KERNELS(dropout), .grad = &grad,
               .is_random = true, .is_varying = true, .inplace = {{X, OUT}}, .inplace_count = 1);
TR_REGISTER_OP(dropout_grad, .locality = TR_POINTWISE, .grad_of = &tr_op_record_dropout, .kernels = TR_FLOAT_KERNELS(dropout_grad), .key = TR_KEY_IN_SLOT, .key_slot = G_DOUT,
               .inplace = {{G_DOUT, G_DX}}, .inplace_count = 1, .is_itemwise = true);

#else /* the kernels, for each T */

static tr_status NAME(dropout)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    const T       *x = io->in[X]->data;
    T             *out = io->out[OUT]->data;
    const int64_t  n = tr_tensor_count(io->in[X]);
    const T        scale = (T)kept_scale(a);
    const uint64_t key = a->fix_seed ? tr_random_key(0, (uint64_t)a->seed, 0) : io->random_key;
    uint8_t       *mask;

    if (a->is_test) {
        NAME(tr_scale)(out, x, scale, 0, n);
        return TR_OK;
    }
    if (io->out[MASK])
        mask = io->out[MASK]->data;
    else
        TR_TRY(tr_run_scratch((void **)&mask, io, (size_t)n));
    NAME(tr_dropout)(out, mask, x, n, key, 0, 1.0 - (double)a->dropout_prob, scale);
    return TR_OK;
}

static tr_status NAME(dropout_grad)(const tr_run *io)
{
    const attrs  *a = io->attrs;
    const T      *dout = io->in[G_DOUT]->data;
    T            *dx = io->out[G_DX]->data;
    const int64_t n = tr_tensor_count(io->in[G_DOUT]);

    if (a->is_test)
        NAME(tr_scale)(dx, dout, (T)kept_scale(a), 0, n);
    else
        NAME(tr_dropout_grad)(dx, dout, io->in[G_MASK]->data, n, (T)kept_scale(a));
    return TR_OK;
}

#endif
