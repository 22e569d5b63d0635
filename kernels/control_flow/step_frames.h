/* step_frames.h - the frames of a block's iterations, kept for the backward pass.
 *
 * They hang on the variable of the forward operator's output StepScopes (Scope, step_scopes), in the order in which
 * they ran. The backward pass takes them from the last to the first, and closes each when it is done with it; what it
 * leaves is closed when the forward operator runs again. */
#pragma once

#include "framework/runs/frame.h"

typedef struct tr_step_frames {
    tr_frame **frame;
    int        count, capacity;
} tr_step_frames;

/* The list of output variable `scopes`, emptied; NULL in `out` when nobody will read it. */
tr_status tr__step_frames_start(tr_step_frames **out, tr_tensor *scopes, bool is_wanted);
/* The list of an input variable; NULL: nothing was kept. */
tr_step_frames *tr__step_frames_of(tr_tensor *scopes);
tr_status tr__step_frames_push(tr_step_frames *frames, tr_frame *frame);

/* Does a step of the plan, or of a gradient block under it, read the variable of this output slot? */
bool      tr__is_read_later(const tr_run *io, int slot);
/* A gradient that the gradient block adds to, or replaces: it starts as the gradient from after the operator
 * (`from`), or as zeros like x. */
tr_status tr__start_gradient(tr_tensor *to, const tr_tensor *from, tr_tensor *x);
