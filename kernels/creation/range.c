/* range.c - Out = Start, Start + Step, ... up to End, which is left out. How many depends on the values. */
#ifndef T

#include "framework/base/size.h"
#include "framework/operators/op.h"
#include "kernels/math/tools/wrap.h"

#include <math.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { START, END, STEP };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = Start, Start + Step, ..., as long as that is before End",
    .in = TR_SLOTS(TR_SLOT("Start", "[1]", ""), TR_SLOT("End", "[1]", ", same dtype"), TR_SLOT("Step", "[1]", ", same dtype, not 0")),
    .out = TR_SLOTS(TR_SLOT("Out", "[n]", ", same dtype")),
};

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_number.h"

/* -- registration ------------------------------------------------------------------------------- */

TR_REGISTER_OP(range, .proto = &proto, .kernels = TR_NUMBER_KERNELS(range));

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(range)(const tr_run *io)
{
    const T start = *(const T *)io->in[START]->data, end = *(const T *)io->in[END]->data;
    const T step = *(const T *)io->in[STEP]->data;
    const double span = ((double)end - (double)start) / (double)step;

    if (!(step != 0) || !isfinite(span) || span > (double)TR_MAX_BYTES)
        return tr_fail(TR_ERANGE, "range: Step must be neither 0 nor infinite, and memory must hold all steps; Start %g, End %g, Step %g",
                       (double)start, (double)end, (double)step);
    const tr_shape shape = TR_SHAPE(span > 0 ? (int64_t)ceil(span) : 0);
    TR_TRY(tr_run_resize(io, OUT, 0, io->in[START]->dtype, &shape));
    T *out = io->out[OUT]->data;
    for (int64_t i = 0; i < shape.dim[0]; i++)
        out[i] = NAME(tr_plus)(start, NAME(tr_times)((T)i, step));
    return TR_OK;
}

#endif
