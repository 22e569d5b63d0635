/* liveness.h - which ranks are alive. Several sources of news feed this small interface.
 *
 * Every message from a rank is a sign of life. A rank without messages sends a BEAT once a period. A rank that was silent for longer
 * than the time-out is dead, whatever MPI reports: MPI does not notice a stopped process or a host that is cut off. MPI's errors, and
 * the kernel's news of a process of this host, come earlier, through tr_liveness_kill. Time is an argument (nanoseconds).
 *
 * What must stay true: a dead rank stays dead. A rank that said goodbye is not watched and never becomes dead. It still waits for the
 * others' goodbyes, and so for signs of their life. */
#pragma once

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
/* True if the rank was not known to be dead. */
bool    tr_liveness_kill(tr_liveness *liveness, int rank);
/* The rank had left, and its process has ended: it needs no more signs of life. */
void    tr_liveness_gone(tr_liveness *liveness, int rank);
/* Is the rank dead, or was tr_liveness_gone called? */
bool    tr_liveness_is_gone(const tr_liveness *liveness, int rank);
tr_life tr_liveness_of(const tr_liveness *liveness, int rank);
/* Has every other rank left or died? */
bool    tr_liveness_all_left(const tr_liveness *liveness);

/* Return a rank that needs a BEAT now, or -1; the BEAT counts as sent. A rank that has left needs BEATs, too, until it is gone. */
int     tr_liveness_beat(tr_liveness *liveness, int64_t now);
/* Return a rank that was silent for too long, or -1; it is dead from now on. A process that was stopped itself finds all others silent.
 * So it first gives them one more period. */
int     tr_liveness_silent(tr_liveness *liveness, int64_t now);
