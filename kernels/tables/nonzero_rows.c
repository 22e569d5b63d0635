/* nonzero_rows.c - the rows of a dense tensor in which a value is not zero, as selected rows.
 *
 * A sparse gradient travels to a parameter server as a dense block; this is how an optimizer that leaves rows without a
 * gradient as they are (adam's lazy_mode) gets its rows back. Row by row, so a block may be some rows of a parameter.
 *
 * Out stands for the same tensor as X. So the gradient of X is Out's, dense or selected rows. */
#ifndef T

#include "kernels/base/grad_ops.h"
#include "kernels/base/selected_rows.h"
#include "kernels/math/arrays/rows.h"

#include <string.h>

/* -- interface ------------------------------------------------------------------------------ */

enum { X };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Out = the rows of X in which a value is not zero.",
    .in = TR_SLOTS(TR_SLOT("X", "[height, ...]", " float, dense")),
    .out = TR_SLOTS({"Out", "selected rows, ascending"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */

static tr_status infer(const tr_infer *io)
{
    io->out[OUT] = tr__rows_grad_meta(&io->in[X], true, -1);
    return TR_OK;
}

/* -- kernels: the end of this file, once for each type ---------------------------------------- */

#include "kernels/math/tools/each_float.h"

/* -- gradient and registration ------------------------------------------------------------------ */

static tr_status make_grad(tr_grad_maker *maker) { return tr__grad_pass(maker, "X", 0); }

static const tr_grad_rule grad = {.make = make_grad};

TR_REGISTER_OP(nonzero_rows, .proto = &proto, .infer = infer, .kernels = TR_FLOAT_KERNELS(nonzero_rows), .grad = &grad);

#else /* -- kernels ---------------------------------------------------------------------------- */

static tr_status NAME(nonzero_rows)(const tr_run *io)
{
    const tr_tensor *x = io->in[X];
    const T         *values = x->data;
    const int64_t    height = x->shape.dim[0], width = tr__rows_width(x);
    tr_shape         shape = x->shape;
    int64_t         *found, *index, count = 0;

    TR_TRY(tr_run_scratch((void **)&found, io, (size_t)height * sizeof *found));
    for (int64_t row = 0; row < height; row++)
        if (!NAME(tr_row_is_zero)(values + row * width, width))
            found[count++] = row;
    shape.dim[0] = count;
    TR_TRY(tr_run_resize(io, OUT, 0, x->dtype, &shape));
    TR_TRY(tr__tensor_reserve_rows(io->out[OUT], height, count, &index));
    memcpy(index, found, (size_t)count * sizeof *index);
    tr_rows_gather(io->out[OUT]->data, values, index, count, width * (int64_t)sizeof(T), -1);
    return TR_OK;
}

#endif
