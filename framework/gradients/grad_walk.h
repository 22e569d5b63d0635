/* grad_walk.h - what a walk over one block's operators collects: contributions to gradients, and their names.
 *
 * Between the files of autodiff only. backward.c walks the global block, grad_block.c walks a sub-block while the
 * walk around it stands at the operator that runs that block (`outer`). A walk owns the names that it makes; they
 * live until it ends. */
#pragma once

#include <string.h>

#include "framework/operators/op.h"
#include "framework/programs/program.h"

enum { TR_ROLE_BACKWARD = 1, TR_ROLE_OPTIMIZE = 2, TR_ROLE_LOSS = 0x100 };

/* The contributions to one variable's gradient that are waiting for its producer's turn. */
typedef struct tr_grad_pending {
    int    count, capacity;
    char **name;
} tr_grad_pending;

typedef struct tr_grad_walk {
    tr_program  *program;
    tr_block    *block;               /* whose operators are walked */
    tr_block    *target;              /* where gradient operators go: `block` itself, or its gradient block */
    const char  *suffix;              /* of gradient names */
    tr_map       grad_name;           /* variable -> what its gradient is called in this walk */
    tr_map       pending;             /* variable -> tr_grad_pending, owned */
    tr_map       wants;               /* variables that want a gradient */
    tr_map       made;                /* variables that this block's operators write */
    tr_map       writes;              /* variable -> how often operators of the block write it */
    tr_map       later;               /* likewise of those behind the operator whose turn it is */
    const tr_map *no_grad;
    const tr_map *inputs;             /* variables that want a gradient, with what is computed from them, whatever they are made of */
    bool          only_inputs;        /* no leaf but those wants one */
    const struct tr_grad_walk *outer;
    int          position;            /* of the operator whose turn it is */
    int          renames;
    tr_map       strings;             /* names made here, kept until the walk ends */
} tr_grad_walk;

/* The turn of one forward operator (grad_maker.h). */
struct tr_grad_maker {
    tr_grad_walk *w;
    tr_op_desc   *forward;
    tr_map        dout;               /* output variable -> name of its gradient */
};

/* -- the walk: everything zero but program, block, target, suffix, no_grad, inputs, only_inputs and outer ------------------------- */

/* The gradients that are still pending belong to leaves: sum those that came several times. */
tr_status tr__grad_finish_leaves(tr_grad_walk *w);
void      tr__grad_walk_deinit(tr_grad_walk *w);

/* -- contributions ------------------------------------------------------------------------------------------- */

bool        tr__grad_is_wanted(const tr_grad_walk *w, const char *name);
void        tr__grad_contribute(tr_grad_walk *w, const char *var, const char *grad);
/* The name of one more contribution to the gradient of `var`. */
const char *tr__grad_new_contribution(tr_grad_walk *w, const char *var);
/* The one gradient of `var`, summed if need be, which is then no longer pending; NULL: there is none. That of a
 * tensor array is itself an array, one for all its readers and writers: they add to its elements, or take one
 * out, in place; so it stays pending. */
tr_status   tr__grad_take(const char **out, tr_grad_walk *w, const char *var, const tr_op_desc *origin);

/* -- operators and names ------------------------------------------------------------------------------------- */

/* The name of a variable's gradient: v@GRAD, or v@GRAD_0, v@GRAD_1, ... where a walk before has made that. */
const char *tr__grad_name(tr_grad_walk *w, const char *var);
/* A name that lives as long as the walk. */
const char *tr__grad_intern(tr_grad_walk *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Append to the target, with the origin of another operator (NULL: none). Takes `op` over, on failure too. */
tr_status   tr__grad_append_op(tr_grad_walk *w, tr_op_desc *op, const tr_op_desc *origin, int role);
tr_op_desc *tr__grad_unary(const char *type, const char *x, const char *out);
/* A variable of the walk's target that looks like another one. */
tr_status   tr__grad_declare_like(tr_grad_walk *w, const char *name, const char *like);
bool        tr__grad_op_writes(const tr_op_desc *op, const char *var);
/* Add an operator's outputs to `writes` or `later`, and ask these maps. */
void        tr__grad_count_writes(tr_map *map, const tr_op_desc *op);
int         tr__grad_writes(const tr_map *map, const char *var);
bool        tr__grad_is_array(tr_block *block, const char *name);

/* A variable that can have a gradient: floating-point, or not yet known. */
bool        tr__grad_is_float(tr_block *block, const char *name);

static inline bool tr__grad_is_empty_name(const char *name) { return strcmp(name, "@EMPTY@") == 0; }
