/* sum_of_squares.c - Out = the sum of the squares of all elements of all X, rounded once.
 *
 * The sum is exact before it is rounded (math/arrays/exact.h), so it is the same however its elements are cut into tensors: a
 * job whose servers hold parts of the parameters clips by the same global norm as one process (exchange_squares). No
 * gradient flows through it: it is applied to gradients. */
#ifndef T

#include "framework/operators/op.h"
#include "kernels/math/arrays/exact.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = the sum of the squares of all elements of all X, computed exactly and rounded once.",
    .in = TR_SLOTS({"X", "tensors of any shapes, float, of one type", TR_SLOT_REPEATED}),
    .out = TR_SLOTS(TR_SLOT("Out", "[1]", "")),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- registration ------------------------------------------------------------------------------- */

TR_REGISTER_OP(sum_of_squares, .proto = &proto, .kernels = TR_FLOAT_KERNELS(sum_of_squares));

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(sum_of_squares)(const tr_run *io)
{
    const tr_args *x = &io->ins[X];
    tr_exact       sum = {0};

    for (int i = 0; i < x->count; i++)
        NAME(tr_exact_add_squares)(&sum, x->item[i]->data, tr_tensor_count(x->item[i]));
    *(T *)io->out[OUT]->data = NAME(tr_exact_round)(&sum);
    return TR_OK;
}

#endif
