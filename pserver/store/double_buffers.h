/* double_buffers.h - the double buffer of a server: each variable that updates change has two buffers: the present values, and those of the
 * next update.
 *
 * An update reads the present values and writes the next ones. tr_double_buffers_switch exchanges the two and so commits the update.
 *
 * What must stay true: a switch exchanges the memory of two tensors, while each name stays with its tensor. So no plan looks up a variable
 * again. */
#pragma once

#include "framework/tensors/shape.h"
#include "framework/trireme.h"
#include "pserver/state/state.h"

typedef struct tr_double_buffer {
    tr_tensor *now, *next;            /* borrowed */
} tr_double_buffer;

typedef struct tr_double_buffers {
    uint32_t count;
    tr_double_buffer *item;
} tr_double_buffers;

/* Point a tensor at new memory of `state`, which outlives the process. */
tr_status tr_double_buffers_put(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape);
/* Make `next` the second buffer of `now`: a tensor of the same shape with memory of its own. */
tr_status tr_double_buffers_add(tr_double_buffers *buffers, tr_state *state, tr_tensor *now, tr_tensor *next);
void      tr_double_buffers_deinit(tr_double_buffers *buffers);
void      tr_double_buffers_switch(tr_double_buffers *buffers);
