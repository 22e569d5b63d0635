/* twins.h - the double buffer of a server: each variable that updates change has a twin.
 *
 * An update reads the present values and writes the twins. tr_twins_switch exchanges the two and so commits the update.
 *
 * What must stay true: names keep their buffer; the memory behind two names is exchanged. So no plan looks up a variable again. */
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

/* Let a tensor lie in memory that outlives the process. */
tr_status tr_twins_place(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape);
/* Let `next` be the twin of `now`, in memory of its own. */
tr_status tr_twins_add(tr_twins *twins, tr_state *state, tr_tensor *now, tr_tensor *next);
void      tr_twins_deinit(tr_twins *twins);
void      tr_twins_switch(tr_twins *twins);
/* The values before the last switch; where no update changes the tensor, its own. */
void     *tr_twins_before(const tr_twins *twins, tr_tensor *tensor);

#endif
