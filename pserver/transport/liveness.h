/* liveness.h - who is alive: one small interface, fed by whoever knows first.
 *
 * Every message from a rank is a sign of life; a rank that has nothing to say sends a BEAT once a period. A rank
 * that was silent for longer than the time-out is dead, whatever MPI thinks: a process that is stopped, or a
 * host that is cut off, is dead to nobody's MPI. MPI's errors and the kernel's word about a process of the same
 * host come earlier, through tr_liveness_kill. Time is an argument (nanoseconds).
 *
 * What must stay true: dead is for ever; a rank that said goodbye is neither watched nor ever dead. It still waits for the
 * others' goodbyes, and so for signs of their life. */
#ifndef TR_PSERVER_LIVENESS_H
#define TR_PSERVER_LIVENESS_H

#include <stdbool.h>
#include <stdint.h>

typedef enum tr_life { TR_LIFE_ALIVE, TR_LIFE_LEFT, TR_LIFE_DEAD } tr_life;

typedef struct tr_liveness tr_liveness;

/* Periods in nanoseconds. */
tr_liveness *tr_liveness_new(int self, int size, int64_t period, int64_t timeout, int64_t now);
void         tr_liveness_free(tr_liveness *liveness);

void    tr_liveness_heard(tr_liveness *liveness, int rank, int64_t now);
void    tr_liveness_sent(tr_liveness *liveness, int rank, int64_t now);
void    tr_liveness_left(tr_liveness *liveness, int rank);
/* True when that is news. */
bool    tr_liveness_kill(tr_liveness *liveness, int rank);
/* It had left, and its process has ended: it waits for nothing any more. */
void    tr_liveness_gone(tr_liveness *liveness, int rank);
/* Is it dead, or was that said of it? */
bool    tr_liveness_is_gone(const tr_liveness *liveness, int rank);
tr_life tr_liveness_of(const tr_liveness *liveness, int rank);
/* No rank is alive but this one. */
bool    tr_liveness_all_left(const tr_liveness *liveness);

/* A rank that wants a BEAT now, one that left among them unless it is gone, or -1; it counts as sent. */
int     tr_liveness_beat(tr_liveness *liveness, int64_t now);
/* A rank that was silent for too long, or -1; it is dead from now on. A process that was stopped itself, or
 * starved, finds everybody silent: it gives the others one more period to be heard first. */
int     tr_liveness_silent(tr_liveness *liveness, int64_t now);

#endif
