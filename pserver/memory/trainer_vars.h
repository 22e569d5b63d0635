/* trainer_vars.h - what a trainer alone has (moving averages, counters, statistics), where the next process in its place finds it.
 *
 * One segment (segment.h) holds the variables' names and sizes and two copies of their values. A copy says behind which step it
 * was made, and of none while it is written: the last store makes it count, and a kill at any instruction leaves the other one. A
 * copy is made before the servers hear that the step is ended. So they may have settled the step of the newest copy or
 * the one before, and both are there.
 *
 * What must stay true: copies are made of step after step, each by the process that holds the segment. */
#ifndef TR_PSERVER_TRAINER_VARS_H
#define TR_PSERVER_TRAINER_VARS_H

#include "framework/status.h"

#include <stddef.h>

typedef struct tr_trainer_vars tr_trainer_vars;

typedef struct tr_trainer_var {
    const char *name;
    void       *data;
    uint64_t    bytes;
} tr_trainer_var;

/* The name of trainer `trainer`'s segment in a job whose states' names begin with `prefix`; false: it is too long. */
bool      tr_trainer_vars_name(char *out, size_t size, const char *prefix, int trainer);

/* A new one for variables of these names and sizes, with no copy; one of this name that nobody has is removed. */
tr_status tr_trainer_vars_create(tr_trainer_vars **out, const char *name, int count, const tr_trainer_var *vars);
/* The one of this name; waits a moment for a process that is about to end. TR_ENOTFOUND: there is none, or it was never complete;
 * TR_EEXIST: a living process has it; TR_EFORMAT: it is damaged. */
tr_status tr_trainer_vars_attach(tr_trainer_vars **out, const char *name);
/* Let go of it; `forget`: and remove it. */
void      tr_trainer_vars_free(tr_trainer_vars *kept, bool forget);

/* Is it one of these variables, in this order? */
bool      tr_trainer_vars_are(const tr_trainer_vars *kept, int count, const tr_trainer_var *vars);
/* Copy the values: they are those behind step `step`, from 1. Names are not looked at. false: one has another size. */
bool      tr_trainer_vars_keep(tr_trainer_vars *kept, uint64_t step, int count, const tr_trainer_var *vars);

/* Nothing has changed since: the copy of step `from` is that of step `to`, which comes after it, too. Nothing where there is none (or NULL). */
void      tr_trainer_vars_stay(tr_trainer_vars *kept, uint64_t from, uint64_t to);

int       tr_trainer_vars_count(const tr_trainer_vars *kept);
/* Variable `index` as it was behind that step; false: there is no such copy. What it points at lives as long as `kept`, and until two more
 * copies were made. */
bool      tr_trainer_vars_find(tr_trainer_var *out, const tr_trainer_vars *kept, uint64_t step, int index);

#endif
