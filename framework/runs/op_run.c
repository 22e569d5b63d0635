/* op_run.c - what an operator asks of the frame that runs it (op.h): frames of its block, memory, names, what is fetched. */
#include "framework/runs/frame.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "framework/operators/op_registry.h"
#include "framework/tensors/half.h"

tr_status tr_frame_open(tr_frame **out, const tr_run *io, tr_frame *parent)
{
    tr_plan *plan = io->step->sub;

    assert(plan);
    if (parent->plan != plan->parent)
        return tr_fail(TR_EFORMAT, "%s: its block %d belongs to block %d, but the frame that it is given is of block %d",
                       io->step->op->type, plan->block->index, plan->parent->block->index, parent->plan->block->index);
    if (!plan->closed)
        return tr__frame_new(out, plan, parent, io->frame);
    tr_frame *frame = plan->closed;
    frame->parent = parent;
    frame->caller = io->frame;
    TR_TRY(tr__frame_bind(frame));                     /* a frame that cannot be bound stays among the closed ones */
    plan->closed = frame->next;
    frame->next = NULL;
    *out = frame;
    return TR_OK;
}

void tr_frame_close(tr_frame *frame)
{
    tr__frame_drop_lods(frame);
    frame->next = frame->plan->closed;
    frame->plan->closed = frame;
}

tr_status tr_frame_run(tr_frame *frame)
{
    return tr__frame_run(frame);
}

int tr_plan_var_at_begin(const tr_plan *plan, const char *name)
{
    for (int v = 0; v < plan->var_count; v++)
        if (strcmp(plan->var[v].name, name) == 0)
            return v;
    return -1;
}

int tr_plan_var_at_end(const tr_plan *plan, const char *name)
{
    return (int)(intptr_t)tr_map_find(&plan->current, name) - 1;
}

/* Of a stand-in (upcast.c). Where the shape of the output was known, it has its memory already. */
static tr_status resize_stand_in(tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape)
{
    const tr_dtype wide = tr_dtype_is_half(dtype) ? TR_FP32 : dtype;

    if (!tensor->buffer && tensor->dtype == wide && tr_shape_equal(&tensor->shape, shape))
        return TR_OK;
    return tr__tensor_reserve(tensor, wide, shape);
}

tr_status tr_run_resize(const tr_run *io, int slot, int index, tr_dtype dtype, const tr_shape *shape)
{
    if (index >= io->outs[slot].count || !io->outs[slot].item[index])
        return tr_fail(TR_EINVAL, "%s: output %s is missing", io->step->op->type, tr__op_proto(io->step->op)->out[slot].name);
    tr_tensor *tensor = io->outs[slot].item[index];
    return io->is_upcast ? resize_stand_in(tensor, dtype, shape) : tr__tensor_reserve(tensor, dtype, shape);
}

static tr_status grown(void **out, tr_tensor *scratch, size_t bytes)
{
    const tr_status status = tr__tensor_grow(scratch, bytes);
    if (status != TR_OK)
        return tr_context(status, "of scratch space");
    *out = scratch->data;
    return TR_OK;
}

tr_status tr_run_scratch(void **out, const tr_run *io, size_t bytes)
{
    return grown(out, &io->frame->plan->workspace->scratch, bytes);
}

tr_status tr_run_loop_scratch(void **out, const tr_run *io, size_t bytes)
{
    return grown(out, &io->frame->plan->workspace->loop_scratch, bytes);
}

tr_status tr_run_notes(void **out, const tr_run *io, size_t bytes)
{
    tr_step *step = &io->frame->plan->step[io->step - io->frame->plan->step];

    if (!step->notes) {
        step->notes = calloc(1, bytes);
        step->note_bytes = bytes;
    }
    assert(step->note_bytes == bytes);             /* one owner: two callers with notes of their own would write over each other's */
    if (!step->notes)
        return tr_fail(TR_ENOMEM, "%s: no memory for what it must remember", step->op->type);
    *out = step->notes;
    return TR_OK;
}

int tr_run_fetch_count(const tr_run *io)
{
    return io->frame->plan->fetch_count;
}

const tr_tensor *tr_run_fetch(const char **name, const tr_run *io, int index)
{
    const tr_plan *plan = io->frame->plan;

    *name = plan->fetch_name[index];
    return &io->frame->var[plan->fetch_var[index]]->tensor;
}

bool tr_run_has_made_fetch(const tr_run *io, int index)
{
    const tr_plan *plan = io->frame->plan;

    for (int s = (int)(io->step - plan->step); s < plan->step_count; s++)
        for (int a = plan->step[s].in_args; a < plan->step[s].arg_count; a++)
            if (plan->step[s].arg[a] == plan->fetch_var[index])
                return false;
    return true;
}

void *tr_run_job(const tr_run *io) { return tr__weak_object(io->frame->plan->workspace->job); }

const char *tr_run_op_type(const tr_run *io) { return io->step->op->type; }

static const char *arg_name(const tr_run *io, int slot, int index)
{
    int a = index;
    for (int s = 0; s < slot; s++)
        a += io->step->count[s];
    const int v = index < io->step->count[slot] ? io->step->arg[a] : -1;
    return v >= 0 ? io->frame->plan->var[v].name : "(absent)";
}

const char *tr_run_in_name(const tr_run *io, int slot, int index) { return arg_name(io, slot, index); }

const char *tr_run_out_name(const tr_run *io, int slot, int index)
{
    return arg_name(io, io->step->in_slots + slot, index);
}
