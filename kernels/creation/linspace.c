/* linspace.c - numbers at equal distances:  Out[i] = Start + i (Stop - Start) / (Num - 1); Start alone where Num is 1. */
#ifndef T

#include "framework/operators/op.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { START, STOP, NUM };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Num numbers at equal distances from Start to Stop, both included.",
    .in = TR_SLOTS(TR_SLOT("Start", "[1]", " float; the first"), TR_SLOT("Stop", "[1]", ", same dtype; the last"),
                   TR_SLOT("Num", "[1]", " int32; how many, at least 1", TR_SLOT_INT32)),
    .out = TR_SLOTS(TR_SLOT("Out", "[Num]", "")),
};

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(linspace, .proto = &proto, .kernels = TR_FLOAT_KERNELS(linspace));

#else /* the kernel, for each T */

static tr_status NAME(linspace)(const tr_run *io)
{
    const double  start = (double)*(const T *)io->in[START]->data, stop = (double)*(const T *)io->in[STOP]->data;
    const int32_t count = *(const int32_t *)io->in[NUM]->data;

    if (count < 1)
        return tr_fail(TR_ERANGE, "linspace: Num '%s' is %d; it must be at least 1", tr_run_in_name(io, NUM, 0), count);
    TR_TRY(tr_run_resize(io, OUT, 0, io->in[START]->dtype, &TR_SHAPE(count)));
    for (int32_t i = 0; i < count; i++)
        ((T *)io->out[OUT]->data)[i] = (T)(count == 1 ? start : i == count - 1 ? stop : start + i * ((stop - start) / (count - 1)));
    return TR_OK;
}

#endif
