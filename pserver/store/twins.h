/* twins.h - the double buffer of a server: each variable that updates change has a twin.
 *
 * An update reads the present values and writes the twins. tr_twins_switch exchanges the two and so commits the update.
 *
 * What must stay true: a switch exchanges the memory of two tensors, while each name stays with its tensor. So no plan looks up a variable again. */
#ifndef TR_PSERVER_TWINS_H
#define TR_PSERVER_TWINS_H

#include "framework/shape.h"
#include "framework/trireme.h"
#include "pserver/memory/state.h"

typedef struct tr_twin {
    tr_tensor *now, *next;            /* borrowed */
} tr_twin;

typedef struct tr_twins {
    uint32_t count;
    tr_twin *item;
} tr_twins;

/* Point a tensor at new memory of `state`, which outlives the process. */
tr_status tr_twins_place(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape);
/* Make `next` the twin of `now`: a tensor of the same shape with memory of its own. */
tr_status tr_twins_add(tr_twins *twins, tr_state *state, tr_tensor *now, tr_tensor *next);
void      tr_twins_deinit(tr_twins *twins);
void      tr_twins_switch(tr_twins *twins);
/* The values of `tensor` before the last switch. For a tensor that no update changes: its present values. */
void     *tr_twins_before(const tr_twins *twins, tr_tensor *tensor);

#endif
