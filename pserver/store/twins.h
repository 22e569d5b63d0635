/* twins.h - the double buffer of a server: each variable that updates change has a twin.
 *
 * Only this file rewrites the optimizer program of a server. (The transpiler in Python decides which operators and rows a server gets.
 * server_pieces.h moves operators into smaller programs and leaves them as they are.) After the rewriting an update reads the present
 * values and writes the twins. tr_twins_switch exchanges the two and so commits the update.
 *
 * What must stay true: names keep their buffer; the memory behind two names is exchanged. So no plan looks up a variable again. */
#ifndef TR_PSERVER_TWINS_H
#define TR_PSERVER_TWINS_H

#include "framework/program_desc.h"
#include "framework/scope.h"
#include "pserver/memory/state.h"

/* A variable that updates change. */
typedef struct tr_twin {
    tr_tensor *now, *next;            /* borrowed from the scope */
} tr_twin;

typedef struct tr_twins {
    tr_scope *scope;                  /* borrowed: it holds all variables that are kept between updates */
    tr_state *state;                  /* borrowed: memory of the twins */
    uint32_t  count;
    tr_twin  *item;
} tr_twins;

/* Rewrite block 0 of `program`: each operator writes the twins of the scope's variables, and each later operator reads them there. */
tr_status tr_twins_init(tr_twins *twins, tr_program *program, tr_scope *scope, tr_state *state);
void      tr_twins_deinit(tr_twins *twins);
/* Let a tensor of the scope lie in memory that outlives the process. */
tr_status tr_twins_place(tr_state *state, tr_tensor *tensor, tr_dtype dtype, const tr_shape *shape);
void      tr_twins_switch(tr_twins *twins);
/* The values before the last switch; where no update changes the tensor, its own. */
void     *tr_twins_before(const tr_twins *twins, tr_tensor *tensor);

#endif
