/* loop_products.c - see loop_products.h. */
#include "kernels/control_flow/loop_products.h"

#include "kernels/control_flow/rnn_slices.h"

/* Of a variable that may be a weight. Packing is not worth its while below; a larger one is a table, of which a step reads some rows. */
static const int64_t LEAST = 4096, MOST = (int64_t)64 << 20;

/* Does a variable have the same value in all steps, and may it be the right side of a product? */
static bool stays(const tr_plan_var *var, const tr_tensor *value)
{
    const bool is_outer = var->home != TR_LOCAL && var->home != TR_FED;

    return is_outer && var->read && !var->written && !var->written_inside && value->dtype == TR_FP32 && value->shape.rank >= 2 && value->data &&
           !value->rows && tr_tensor_bytes(value) >= LEAST && tr_tensor_bytes(value) <= MOST;
}

/* A weight is read along one side forward, and along the other one backward. */
static size_t room_of(const tr_tensor *value)
{
    const int64_t rows = value->shape.dim[0], cols = tr_tensor_count(value) / rows;

    return tr__weight_cache_room(tr_factor_size_f32(cols, rows, TR_FACTOR_MOST_ROWS)) + tr__weight_cache_room(tr_factor_size_f32(rows, cols, TR_FACTOR_MOST_ROWS));
}

static tr_status begin(tr_loop_products *loop, const tr_frame *frame)
{
    const tr_plan *sub = frame->plan;
    size_t         room = 0;
    int            count = 0;
    void          *memory;

    loop->is_begun = true;
    if (tr__weight_cache_is_entered())
        return TR_OK;
    for (int v = 0; v < sub->var_count; v++)
        if (stays(&sub->var[v], tr__frame_tensor(frame, v)) && room_of(tr__frame_tensor(frame, v)) > 0) {
            room += room_of(tr__frame_tensor(frame, v));
            count++;
        }
    if (count == 0)
        return TR_OK;
    TR_TRY(tr_run_loop_scratch(&memory, loop->io, tr__weight_cache_bytes(count, room)));
    loop->cache = tr__weight_cache_new_in(memory, count, room);
    for (int v = 0; v < sub->var_count; v++) {
        const tr_tensor *value = tr__frame_tensor(frame, v);
        if (stays(&sub->var[v], value) && room_of(value) > 0)
            tr__weight_cache_add(loop->cache, value->data, (size_t)tr_tensor_bytes(value));
    }
    return TR_OK;
}

tr_status tr__loop_run(tr_loop_products *loop, tr_frame *frame)
{
    if (!loop->is_begun)
        TR_TRY(begin(loop, frame));
    if (!loop->cache)
        return tr_frame_run(frame);
    tr_weight_cache *before = tr__weight_cache_enter(loop->cache);
    const tr_status  status = tr_frame_run(frame);
    tr__weight_cache_enter(before);
    return status;
}
