/* where.c - where a tensor is true:  row i of Out holds the indices of the i-th element of Condition that is true.
 *
 * How many there are is known to the kernel alone. Indices have no gradient. */
#include <string.h>

#include "kernels/base/check.h"

/* -- interface ------------------------------------------------------------------------------ */
enum { CONDITION };
enum { OUT };

static const tr_op_proto proto = {
    .doc = "Row i of Out holds the indices of the i-th element of Condition that is true, in the order of the elements.",
    .in = TR_SLOTS({"Condition", "any shape of at least 1 dimension, bool", TR_SLOT_ANY_TYPE}),
    .out = TR_SLOTS({"Out", "[number of true elements, rank of Condition] int64"}),
};

/* -- shapes ----------------------------------------------------------------------------------- */
static tr_status infer(const tr_infer *io)
{
    const tr_meta *condition = &io->in[CONDITION];

    TR_TRY(tr__check_dense(io, "Condition", condition));
    TR_TRY(tr__check_dtype(io, "Condition", condition, TR_BOOL));
    TR_TRY(tr__check_min_rank(io, "Condition", condition, 1));
    io->out[OUT] = tr_meta_dense(TR_INT64, TR_SHAPE(-1, condition->shape.rank));
    return TR_OK;
}

/* -- kernel ----------------------------------------------------------------------------------- */

/* The next index in the order of the elements. */
static void advance(int64_t *index, const tr_shape *shape)
{
    for (int d = shape->rank - 1; d >= 0 && ++index[d] == shape->dim[d]; d--)
        index[d] = 0;
}

static tr_status run(const tr_run *io)
{
    const tr_tensor *condition = io->in[CONDITION];
    const tr_shape  *shape = &condition->shape;
    const uint8_t   *is_true = condition->data;
    const int64_t    size = tr_tensor_count(condition);
    int64_t          count = 0, index[TR_MAX_RANK] = {0};

    for (int64_t i = 0; i < size; i++)
        count += is_true[i] != 0;
    TR_TRY(tr_run_resize(io, OUT, 0, TR_INT64, &TR_SHAPE(count, shape->rank)));
    int64_t *row = io->out[OUT]->data;
    for (int64_t i = 0; i < size; i++, advance(index, shape))
        if (is_true[i]) {
            memcpy(row, index, (size_t)shape->rank * sizeof *row);
            row += shape->rank;
        }
    return TR_OK;
}

/* -- registration: of later versions of Fluid the second name ---------------------------------------- */
TR_REGISTER_OP(where, .proto = &proto, .infer = infer, .run = run);
TR_REGISTER_OP(where_index, .proto = &proto, .infer = infer, .run = run);
