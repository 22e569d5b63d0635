/* sampling_id.c - one column of each row, drawn with the probabilities that the row gives.
 *
 * r is uniform in [min, max); column j is taken when r is below X[0] + ... + X[j] for the first time, the last column when it never is. */
#ifndef T

#include "framework/tensors/random.h"
#include "framework/operators/op.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    float   min, max;
    int32_t seed;
} attrs;

static const tr_op_proto proto = {
    .doc = "Draws a column of each row, with the probabilities that the row gives.",
    .in = TR_SLOTS(TR_SLOT("X", "[rows, columns]", " float; probabilities")),
    .out = TR_SLOTS(TR_SLOT("Out", "[rows]", " int64; column numbers", TR_SLOT_INT64)),
    TR_ATTRS_OF(attrs, TR_ATTR(attrs, min, FLOAT, "the least random number"),
                       TR_ATTR(attrs, max, FLOAT, "all random numbers are below this", .number = 1),
                       TR_ATTR(attrs, seed, INT, "0: other draws in each run; else the same ones in every run")),
};

static tr_status check(const void *attributes)
{
    const attrs *a = attributes;

    if (!(a->min <= a->max))
        return tr_fail(TR_ERANGE, "sampling_id: attribute 'min' is %g, so 'max' must be at least that; got %g", (double)a->min, (double)a->max);
    return TR_OK;
}

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    if (io->in[X].shape.dim[1] == 0)
        return tr_fail(TR_ESHAPE, "%s: X is %s; a row must have a column to draw", io->type, TR_SHAPE_STR(io->in[X].shape));
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_float.h"

TR_REGISTER_OP(sampling_id, .proto = &proto, .infer = infer, .check = check, .kernels = TR_FLOAT_KERNELS(sampling_id),
               .is_random = true, .is_varying = true);

#else /* the kernel, for each T */

static tr_status NAME(sampling_id)(const tr_run *io)
{
    const attrs   *a = io->attrs;
    const uint64_t key = a->seed == 0 ? io->random_key : tr_random_key(0, (uint64_t)(uint32_t)a->seed, 0);
    const int64_t  rows = io->in[X]->shape.dim[0], columns = io->in[X]->shape.dim[1];
    const T       *x = io->in[X]->data;

    for (int64_t i = 0; i < rows; i++, x += columns) {
        double  r, sum = 0;
        int64_t j = 0;
        tr_random_uniform_f64(&r, 1, key, (uint64_t)i, (double)a->min, (double)a->max);
        for (sum = (double)x[0]; j < columns - 1 && !(r < sum); sum += (double)x[j])
            j++;
        ((int64_t *)io->out[OUT]->data)[i] = j;
    }
    return TR_OK;
}

#endif
