/* trainer_vars.h - variables that a trainer alone has (moving averages, counters, statistics), kept for the process that takes its place.
 *
 * One segment (segment.h) holds the variables' names and sizes, and two copies of their values. A copy has the number of the step that it
 * was made after. While a copy is written that number is 0, and the last store sets it: so a kill at any instruction leaves the other copy.
 * A copy is made before the servers hear of the step's end. So the servers may have settled the step of the newest copy or the step before,
 * and both are there.
 *
 * What must stay true: copies are made step after step, by the process that holds the segment. */
#pragma once

#include "framework/base/status.h"

#include <stddef.h>

typedef struct tr_trainer_vars tr_trainer_vars;

typedef struct tr_trainer_var {
    const char *name;
    void       *data;
    uint64_t    bytes;
} tr_trainer_var;

/* Make the name of a trainer's segment, for a job whose states' names begin with `prefix`. False: the name is too long. */
bool      tr_trainer_vars_name(char *out, size_t size, const char *prefix, int trainer);

/* Make a segment for variables of these names and sizes, without a copy; `name` NULL: for this process alone. An old one of this name that no process holds is removed. */
tr_status tr_trainer_vars_create(tr_trainer_vars **out, const char *name, int count, const tr_trainer_var *vars);
/* Attach to the segment of this name. The call waits a moment for a process that is about to end. TR_ENOTFOUND: there is none, or it was
 * never complete. TR_EEXIST: a living process holds it. TR_EFORMAT: it is damaged. */
tr_status tr_trainer_vars_attach(tr_trainer_vars **out, const char *name);
/* Detach from the segment. With `forget` also remove it. */
void      tr_trainer_vars_free(tr_trainer_vars *kept, bool forget);

/* Are these the variables, in this order? */
bool      tr_trainer_vars_are(const tr_trainer_vars *kept, int count, const tr_trainer_var *vars);
/* Copy the values as they are after step `step`, which counts from 1. The variables have the order of the list. False: a variable has
 * another size. */
bool      tr_trainer_vars_keep(tr_trainer_vars *kept, uint64_t step, int count, const tr_trainer_var *vars);

/* The values have not changed since step `from`: make its copy that of step `to`, which comes later. Does nothing if there is no such
 * copy, or `kept` is NULL. */
void      tr_trainer_vars_stay(tr_trainer_vars *kept, uint64_t from, uint64_t to);

int       tr_trainer_vars_count(const tr_trainer_vars *kept);
/* Variable `index` as it was after that step. False: there is no such copy. The memory is valid while `kept` lives, until two more
 * copies were made. */
bool      tr_trainer_vars_find(tr_trainer_var *out, const tr_trainer_vars *kept, uint64_t step, int index);
