/* minus.c - Out = X - Y, for tensors of one shape. The gradients are an assign and a scale by -1. */
#ifndef T

#include "framework/operators/op.h"
#include "kernels/base/grad_ops.h"
#include "kernels/base/shapes.h"
#include "kernels/math/arrays/elementwise.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = X - Y",
    .in = TR_SLOTS({"X", "any shape, float"}, TR_SLOT("Y", "like X", "")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    TR_TRY(tr__grad_pass(maker, "X", 0));
    tr_op_desc *negate = tr__grad_from_dout(maker, "scale", "Y", 0);
    if (!negate)
        return TR_OK;
    tr_op_desc_set_float(negate, "scale", -1);
    return tr_grad_append(maker, negate);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(minus, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_FLOAT_KERNELS(minus), .grad = &grad,
               .inplace = {{X, OUT}, {Y, OUT}}, .inplace_count = 2, .is_itemwise = true);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(minus)(const tr_run *io)
{
    NAME(tr_binary_apply)(TR_BINARY_SUB, io->out[OUT]->data, io->in[X]->data, io->in[Y]->data, 1,
                          tr_tensor_count(io->in[X]), 1);
    return TR_OK;
}

#endif
