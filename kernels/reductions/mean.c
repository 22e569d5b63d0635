/* mean.c - Out = the mean of all elements of X.
 *
 * Backward: every element of dX is dOut / (number of elements); the values of X are not read. */
#ifndef T

#include "framework/gradients/grad_second.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/reduce.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };             enum { OUT };      /* slots of mean: inputs, outputs */
enum { GX, GDOUT };     enum { GDX };      /* of mean_grad; GX is X */

static const tr_op_proto proto = {
    .doc = "Out = the mean of all elements of X. That of no elements is NaN, as in NumPy; no gradient comes of it.",
    .in = TR_SLOTS({"X", "any shape, float"}),
    .out = TR_SLOTS({"Out", "[1]"}),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static const tr_grad_rule grad = {
    .op = "mean_grad", .reads = {TR_IN_SHAPE(X), TR_DOUT(OUT)}, .makes = {TR_DIN(X)},
    .second = tr__second_linear,
};

TR_REGISTER_OP(mean, .proto = &proto, .infer = tr__infer_one_element, .kernels = TR_FLOAT_KERNELS(mean),
               .grad = &grad);
TR_REGISTER_OP(mean_grad, .grad_of = &tr_op_record_mean, .kernels = TR_FLOAT_KERNELS(mean_grad));

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(mean)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];

    NAME(tr_reduce_apply)(TR_REDUCE_MEAN, io->out[OUT]->data, x->data, 1, tr_tensor_count(x), 1);
    return TR_OK;
}

static tr_status NAME(mean_grad)(const tr_run *io)
{
    NAME(tr_reduce_grad)(TR_REDUCE_MEAN, io->out[GDX]->data, io->in[GDOUT]->data, NULL, NULL, 1,
                         tr_tensor_count(io->in[GX]), 1);
    return TR_OK;
}

#endif
