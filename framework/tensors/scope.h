/* scope.h - variables by name, and the scopes that hold them.
 *
 * A variable's address never changes while its scope lives: plans and handles keep it. An erased variable is empty. Its name gets
 * the same address when it is made again. tr_scope.generation counts what changes which variable a name means. */
#pragma once

#include "framework/base/bond.h"
#include "framework/base/map.h"
#include "framework/tensors/tensor.h"

/* A variable's content depends on its kind: a dense tensor and SelectedRows use `tensor`, an array
 * `item`; other kinds of operators' own (step scopes, rank tables) hang an object on `object`. */
struct tr_var {
    tr_tensor   tensor;               /* first: see tr_var_of */
    tr_var_kind kind;
    tr_tensor **item;                 /* of an array */
    int64_t     item_count, item_capacity;
    void       *object;
    void      (*object_free)(void *object);
};

void tr__var_init(tr_var *var);
void tr__var_deinit(tr_var *var);
/* The variable around a tensor that an operator was handed. */
static inline tr_var *tr_var_of(tr_tensor *tensor) { return (tr_var *)tensor; }
/* Element `index` of an array, which grows by empty tensors as needed (with the memory they had before). */
tr_status tr__var_array_at(tr_tensor **out, tr_var *var, int64_t index);
void      tr__var_array_clear(tr_var *var);      /* keeps the items' memory for the next use */
/* Hang an object of an operator's own on the variable; the one before is freed. */
void      tr__var_set_object(tr_var *var, tr_var_kind kind, void *object, void (*object_free)(void *));

struct tr_scope {
    tr_scope *parent;
    tr_map    vars, erased;           /* name -> tr_scope_entry */
    uint64_t  id;                     /* never used twice in a process */
    uint64_t  generation;
    tr_bond  *bonds;                  /* what goes with it */
};

/* Of the scope and those around it: when it changes, addresses may be stale. */
uint64_t tr__scope_generation(const tr_scope *scope);
/* tr_scope_var for a name that was checked before, or derived from such a one. NULL: no memory. */
tr_var *tr__scope_var(tr_scope *scope, const char *name);
