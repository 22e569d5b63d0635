/* compare.c - comparisons of two tensors, element by element:  Out = X op Y, a bool.
 *
 * Y may be smaller than X (see broadcast.h). No gradient flows through a comparison. */
#ifndef T

#include "kernels/math/arrays/elementwise.h"
#include "kernels/elementwise/broadcast.h"

/* -- interface ------------------------------------------------------------------------------ */

enum { X, Y };
enum { OUT };

static const tr_slot_def in_slots[] = {
    {"X", "any shape"}, {"Y", "a run of X's dimensions, same dtype as X"}, {NULL},
};
static const tr_slot_def out_slots[] = {TR_SLOT("Out", "like X", ", bool", TR_SLOT_BOOL), {NULL}};
static const tr_attr_def attrs[] = {
    TR_BROADCAST_ATTR,
    TR_ATTR_IGNORED("force_cpu", BOOL, .number = true),
    {NULL},
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- from function to operator ---------------------------------------------------------------- */

#define KERNEL(name, op, type) \
    static tr_status name##_##type(const tr_run *io) { return apply_##type(io, TR_COMPARE_##op); }

#define COMPARISON(name, op, formula)                                                               \
    KERNEL(name, op, f32) KERNEL(name, op, f64) KERNEL(name, op, i32) KERNEL(name, op, i64)         \
    static const tr_op_proto name##_proto = {                                                       \
        .doc = formula, .in = in_slots, .out = out_slots, .attr = attrs,                            \
        .attrs_size = sizeof(tr_broadcast_attrs),                                                   \
    };                                                                                              \
    TR_REGISTER_OP(name, .locality = TR_POINTWISE, .proto = &name##_proto, .infer = tr__broadcast_check, .kernels = TR_NUMBER_KERNELS(name));

COMPARISON(equal,         EQ, "Out = X equals Y")
COMPARISON(not_equal,     NE, "Out = X differs from Y")
COMPARISON(less_than,     LT, "Out = X is less than Y")
COMPARISON(less_equal,    LE, "Out = X is less than Y or equal")
COMPARISON(greater_than,  GT, "Out = X is greater than Y")
COMPARISON(greater_equal, GE, "Out = X is greater than Y or equal")

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(apply)(const tr_run *io, tr_compare op)
{
    const tr_broadcast_attrs *a = io->attrs;
    const tr_tensor          *x = io->in[X], *y = io->in[Y];
    const tr_cut              c = tr__broadcast_of(&x->shape, &y->shape, a->axis);

    NAME(tr_compare_apply)(op, io->out[OUT]->data, x->data, y->data, c.pre, c.n, c.post);
    return TR_OK;
}

#endif
