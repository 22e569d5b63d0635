/* batch_order.c - see batch_order.h. */
#include "kernels/recurrent/batch_order.h"

#include "framework/plans/plan.h"
#include "kernels/math/arrays/rows.h"

enum { NO_PADDING = -1 };

tr_status tr__check_first_state(const tr_run *io, int slot, int64_t sequences)
{
    const tr_op     *op = io->step->op;
    const tr_tensor *state = io->in[slot];

    if (!state || state->shape.dim[0] == sequences)
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: %s '%s' is %s; it must have one row for each of the %lld sequences", op->type,
                   tr_op_input_name(op, slot), tr_run_in_name(io, slot, 0), TR_SHAPE_STR(state->shape), (long long)sequences);
}

void tr__state_to_ranks(void *ranked, const tr_tensor *state, const tr_batches *b)
{
    if (state)
        tr_rows_gather(ranked, state->data, b->rank, b->count, tr__row_bytes(state), NO_PADDING);
}

void tr__state_from_ranks(tr_tensor *state, const void *ranked, const tr_batches *b)
{
    if (state)
        tr_rows_scatter(state->data, b->rank, ranked, b->count, tr__row_bytes(state));
}

void tr__rows_to_batches(void *batched, const tr_tensor *x, const tr_batches *b)
{
    tr_rows_gather(batched, x->data, b->row, b->rows, tr__row_bytes(x), NO_PADDING);
}

void tr__rows_from_batches(tr_tensor *x, const void *batched, const tr_batches *b)
{
    if (x)
        tr_rows_scatter(x->data, b->row, batched, b->rows, tr__row_bytes(x));
}
