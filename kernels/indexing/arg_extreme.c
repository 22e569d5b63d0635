/* arg_extreme.c - arg_max and arg_min: where along an axis the largest or the smallest element stands; of equal ones the first. */
#ifndef T

#include "kernels/base/check.h"
#include "kernels/base/cut.h"
#include "kernels/math/arrays/reduce.h"

/* -- interface -------------------------------------------------------------------------------- */
enum { X };
enum { OUT };

typedef struct attrs {
    int64_t axis;
} attrs;

static const tr_slot_def in_slots[] = {TR_SLOT("X", "[n, ...]", " numbers"), {.name = NULL}};
static const tr_slot_def out_slots[] = {{"Out", "X without the axis, int64; [1] of a vector", TR_SLOT_ANY_TYPE}, {.name = NULL}};
static const tr_attr_def attr_defs[] = {
    TR_ATTR(attrs, axis, LONG, "along which dimension; negative counts from the end", .required = true,
            .range = TR_BETWEEN(-TR_MAX_RANK, TR_MAX_RANK), .axis_of = "X"),
    {.name = NULL},
};

/* -- shapes ------------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const attrs   *a = io->attrs;
    const tr_shape x = io->in[X].shape;
    tr_shape       out = {.rank = x.rank - 1};
    const int      axis = tr__axis((int)a->axis, &x);

    if (x.dim[axis] == 0)
        return tr_fail(TR_ESHAPE, "%s: there is nothing along dimension %d of X %s", io->type, axis, TR_SHAPE_STR(x));
    for (int d = 0; d < out.rank; d++)
        out.dim[d] = x.dim[d + (d >= axis)];
    io->out[OUT] = tr_meta_dense(TR_INT64, out.rank == 0 ? TR_SHAPE(1) : out);
    return TR_OK;
}

/* -- kernels -------------------------------------------------------------------------------------- */
#include "kernels/math/tools/each_number.h"

#define ARG_OP(name, what)                                                                                              \
    static const tr_op_proto name##_proto = {                                                                           \
        .doc = "Where along the axis the " what " element stands; of equal ones the first.",                            \
        .in = in_slots, .out = out_slots, .attr = attr_defs, .attrs_size = sizeof(attrs),                               \
    };                                                                                                                  \
    TR_REGISTER_OP(name, .proto = &name##_proto, .infer = infer, .kernels = TR_NUMBER_KERNELS(name))

ARG_OP(arg_max, "largest");
ARG_OP(arg_min, "smallest");

#else /* the kernels, for each T */

static tr_status NAME(arg_max)(const tr_run *io)
{
    const attrs *a = io->attrs;
    const tr_cut c = tr__cut_at(&io->in[X]->shape, (int)a->axis);

    NAME(tr_arg_max)(io->out[OUT]->data, io->in[X]->data, c.pre, c.n, c.post);
    return TR_OK;
}

static tr_status NAME(arg_min)(const tr_run *io)
{
    const attrs *a = io->attrs;
    const tr_cut c = tr__cut_at(&io->in[X]->shape, (int)a->axis);

    NAME(tr_arg_min)(io->out[OUT]->data, io->in[X]->data, c.pre, c.n, c.post);
    return TR_OK;
}

#endif
