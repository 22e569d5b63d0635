/* reduction.h - where the replicas of a program put values together within a step.
 *
 * Replicas run on threads of their own (plan_replicas.c). A kernel that needs values of all replicas offers its own one, then waits until
 * every replica has offered one for the same step:
 *
 *     TR_TRY(tr_run_offer((void **)&mine, io, bytes));        write into mine
 *     TR_TRY(tr_run_gather(&all, io));                        read all[0] .. all[tr_run_replicas(io) - 1]
 *
 * Each replica reads the offers in the same order, so each computes the same bits. The values stay until the replica's next offer but one.
 * An operator that does this has `.reduces` in its record.
 *
 * What must stay true:
 *   - A replica waits only for replicas that run. One that has ended its step, by a failure or by another path through the program, ends
 *     the wait of the others with a failure.
 *   - The offers have two sides, used in turn. A replica that is one reduction ahead writes on the other side. It cannot be two ahead,
 *     because the next reduction needs all replicas. */
#pragma once

#include "framework/operators/op.h"

typedef struct tr_reduction tr_reduction;

/* How many replicas run this step at the same time; 1: nobody else does, and there is no one to wait for. */
int       tr_run_replicas(const tr_run *io);
tr_status tr_run_offer(void **mine, const tr_run *io, size_t bytes);
tr_status tr_run_gather(const void *const **all, const tr_run *io);

/* -- for plan_replicas.c ------------------------------------------------------------------------------- */

tr_reduction *tr__reduction_new(void);                     /* NULL: no memory */
void        tr__reduction_free(tr_reduction *reduction);
/* A run of `count` replicas begins. */
tr_status   tr__reduction_begin(tr_reduction *reduction, int count);
/* Replica `replica` has ended its step. */
void        tr__reduction_leave(tr_reduction *reduction, int replica);
/* The replica that ended first, while others waited for it or later; -1: none has. */
int         tr__reduction_first_left(const tr_reduction *reduction);
