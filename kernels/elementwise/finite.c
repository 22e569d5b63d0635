/* finite.c - isfinite, isinf, isnan: one bool for a whole tensor. All elements are finite; some are infinite; some
 * are NaN.
 *
 * Mostly all are finite, which is found out at memory speed; only otherwise the two kinds are told apart. */
#ifndef T

#include "framework/operators/op.h"
#include "kernels/math/arrays/elementwise.h"

#include <math.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_slot_def in_slots[] = {{"X", "any shape, float"}, {NULL}};
static const tr_slot_def out_slots[] = {TR_SLOT("Out", "[1]", " bool", TR_SLOT_BOOL), {NULL}};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- registration ------------------------------------------------------------------------------- */

#define PREDICATE(name, about)                                                                      \
    static const tr_op_proto name##_proto = {.doc = about, .in = in_slots, .out = out_slots};       \
    TR_REGISTER_OP(name, .proto = &name##_proto, .kernels = TR_FLOAT_KERNELS(name##_kernel));

PREDICATE(isfinite, "Out = no element of X is infinite or NaN")
PREDICATE(isinf,    "Out = some element of X is infinite")
PREDICATE(isnan,    "Out = some element of X is NaN")

#else /* -- kernels ---------------------------------------------------------------------------- */

static bool NAME(holds)(const tr_tensor *x, bool want_nan)
{
    const T      *data = x->data;
    const int64_t n = tr_tensor_count(x);

    if (NAME(tr_all_finite)(data, n))
        return false;
    for (int64_t i = 0; i < n; i++)
        if (want_nan ? isnan(data[i]) : isinf(data[i]))
            return true;
    return false;
}

static tr_status NAME(isfinite_kernel)(const tr_run *io)
{
    *(uint8_t *)io->out[OUT]->data = NAME(tr_all_finite)(io->in[X]->data, tr_tensor_count(io->in[X]));
    return TR_OK;
}

static tr_status NAME(isinf_kernel)(const tr_run *io)
{
    *(uint8_t *)io->out[OUT]->data = NAME(holds)(io->in[X], false);
    return TR_OK;
}

static tr_status NAME(isnan_kernel)(const tr_run *io)
{
    *(uint8_t *)io->out[OUT]->data = NAME(holds)(io->in[X], true);
    return TR_OK;
}

#endif
