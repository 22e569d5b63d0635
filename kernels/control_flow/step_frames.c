/* step_frames.c - see step_frames.h. */
#include "kernels/control_flow/step_frames.h"

#include <stdlib.h>

#include "kernels/tensor_arrays/tensor_array.h"

/* The frames that are left belong to the plan's list of closed frames. */
static void close_all(tr_step_frames *frames)
{
    while (frames->count > 0)
        tr_frame_close(frames->frame[--frames->count]);
}

static void frames_free(void *object)
{
    tr_step_frames *frames = object;

    for (int i = 0; i < frames->count; i++)
        tr__frame_free(frames->frame[i]);
    free(frames->frame);
    free(frames);
}

tr_status tr__step_frames_push(tr_step_frames *frames, tr_frame *frame)
{
    if (frames->count == frames->capacity) {
        const int  capacity = frames->capacity ? frames->capacity * 2 : 16;
        tr_frame **grown = realloc(frames->frame, (size_t)capacity * sizeof *grown);
        tr__tensor_count_allocation();
        if (!grown)
            return tr_fail(TR_ENOMEM, "no memory to keep %d step frames", capacity);
        frames->frame = grown;
        frames->capacity = capacity;
    }
    frames->frame[frames->count++] = frame;
    return TR_OK;
}

tr_status tr__step_frames_start(tr_step_frames **out, tr_tensor *scopes, bool is_wanted)
{
    *out = NULL;
    if (!scopes || !is_wanted)
        return TR_OK;
    tr_var *var = tr_var_of(scopes);
    if (var->kind != TR_KIND_STEP_SCOPES) {
        tr_step_frames *fresh = calloc(1, sizeof *fresh);
        if (!fresh)
            return tr_fail(TR_ENOMEM, "no memory to keep step frames");
        tr__var_set_object(var, TR_KIND_STEP_SCOPES, fresh, frames_free);
    }
    *out = var->object;
    close_all(*out);
    return TR_OK;
}

tr_step_frames *tr__step_frames_of(tr_tensor *scopes)
{
    const tr_var *var = tr_var_of(scopes);

    return var->kind == TR_KIND_STEP_SCOPES ? var->object : NULL;
}

bool tr__is_read_later(const tr_run *io, int slot)
{
    int a = io->step->in_args;

    for (int s = 0; s < slot; s++)
        a += io->step->count[io->step->in_slots + s];
    if (io->step->count[io->step->in_slots + slot] == 0)
        return false;
    const tr_plan_var *var = &io->frame->plan->var[io->step->arg[a]];
    return var->read || var->captured;
}

tr_status tr__start_gradient(tr_tensor *to, const tr_tensor *from, tr_tensor *x)
{
    if (tr_var_of(x)->kind == TR_KIND_ARRAY)
        return TR_OK;                 /* one for all of the program, changed in place */
    return from ? tr_tensor_copy(to, from) : tr__zeros_like(to, x);
}
