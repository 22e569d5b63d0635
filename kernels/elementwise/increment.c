/* increment.c - Out = X + step, for a counter: X is one number. Mostly Out is X itself.
 *
 * The gradient is an assign. */
#ifndef T

#include "framework/operators/op.h"
#include "kernels/base/grad_ops.h"
#include "kernels/base/shapes.h"
#include "kernels/math/tools/wrap.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

typedef struct attrs {
    float step;
} attrs;

static const tr_op_proto proto = {
    .doc = "Out = X + step, of one number",
    .in = TR_SLOTS(TR_SLOT("X", "[1]", "")),
    .out = TR_SLOTS(TR_SLOT("Out", "like X", "")),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, step, FLOAT, "what is added", .number = 1)),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker)
{
    return tr__grad_pass(maker, "X", 0);
}

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(increment, .proto = &proto, .kernels = TR_NUMBER_KERNELS(increment), .grad = &grad,
               .inplace = {{X, OUT}}, .inplace_count = 1);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(increment)(const tr_run *io)
{
    const attrs *a = io->attrs;

    *(T *)io->out[OUT]->data = NAME(tr_plus)(*(const T *)io->in[X]->data, (T)a->step);
    return TR_OK;
}

#endif
