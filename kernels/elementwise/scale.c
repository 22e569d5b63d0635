/* scale.c - Out = scale * X + bias, or scale * (X + bias).
 *
 * X may be selected rows: what is scaled are the rows held. The gradient is a scale again, without the bias. */
#ifndef T

#include "kernels/base/grad_ops.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/tools/wrap.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

typedef struct attrs {
    float scale, bias;
    bool  bias_after_scale;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = scale * X + bias, or scale * (X + bias) when bias_after_scale is false.",
    .in = TR_SLOTS({"X", "any shape; selected rows too", TR_SLOT_ROWS}),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs,
        TR_ATTR(attrs, scale, FLOAT, "factor", .number = 1),
        TR_ATTR(attrs, bias, FLOAT, "summand"),
        TR_ATTR(attrs, bias_after_scale, BOOL, "add the bias to the product, not to X", .number = true)),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    tr_op_desc *op = tr__grad_from_dout(maker, "scale", "X", 0);

    if (!op)
        return TR_OK;
    tr_op_desc_set_float(op, "scale", tr_op_desc_attr_float(tr_grad_forward(maker), "scale", 0));
    return tr_grad_append(maker, op);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(scale, .locality = TR_POINTWISE, .proto = &proto, .kernels = TR_NUMBER_KERNELS(scale), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1, .is_itemwise = true);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(scale)(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *x = io->in[X];
    const T          factor = (T)a->scale, bias = (T)a->bias;

    NAME(tr_scale)(io->out[OUT]->data, x->data, factor, a->bias_after_scale ? bias : NAME(tr_times)(factor, bias),
                   tr_tensor_count(x));
    return tr__rows_copy(io->out[OUT], x);
}

#endif
