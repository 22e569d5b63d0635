/* turns.h - a schedule (pserver/util/schedule.h) for ranks that are forked from one process: the threads of all ranks take turns, one
 * at a time, in virtual time and under a seed. So a job is a function of its seed. It also kills ranks at moments of this time.
 *
 * The state lies in memory that the ranks share. Only the thread whose turn it is writes there; where a process has ended in the
 * middle of its turn, its parent (turns_reap). */
#pragma once

#include "pserver/transport/machine.h"
#include "pserver/util/schedule.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { MOST_RANKS = 16, MOST_THREADS = 8, MOST_KILLS = 16 };

typedef enum turns_state { TURNS_FREE, TURNS_RESTS, TURNS_RUNS } turns_state;

/* A thread that takes part. Times are nanoseconds of virtual time. */
typedef struct turns_thread {
    atomic_uint   turn;               /* 1: it may go on */
    turns_state   state;
    int64_t       at;                 /* when it goes on by itself */
    bool          polls;              /* a message ends its rest */
    atomic_uint  *word;               /* a ring of this word under one of the bits `who` ends its rest; in its own process, or shared */
    unsigned      who;
} turns_thread;

typedef struct turns_rank {
    pid_t        pid;                 /* 0: it has not begun */
    bool         is_gone;             /* its process has ended, or is about to */
    int64_t      reported[MOST_RANKS];        /* when the transport reports the death of another rank to it; 0: never */
    turns_thread thread[MOST_THREADS];
    tr_doorbell  bell;
} turns_rank;

typedef struct turns {
    int         size;
    uint64_t    random;
    int64_t     begun, now, delay, notice;   /* a message takes up to `delay`; a death is reported within `notice`; -1: never */
    int64_t     handed;               /* turns so far */
    uint64_t    digest;               /* of all turns: two jobs of one seed have the same */
    atomic_int  awaited;              /* ranks that have not begun */
    int         runs_rank;            /* whose turn it is; -1: nobody's */
    struct { int rank; int64_t at; } kill[MOST_KILLS];
    turns_rank  rank[MOST_RANKS];
} turns;

/* What the ranks of this process share; NULL: TRIREME_RINGS is not set. */
turns      *turns_of(int *rank);
/* 1 to `most`. */
int64_t     turns_draw(turns *t, int64_t most);
/* A message for this rank comes at that time. */
void        turns_message(turns *t, int rank, int64_t at);
/* When a message that is on its way, or a report, reaches this rank next (rings.c); INT64_MAX: none is. */
int64_t     rings_next(void);
extern const tr_schedule turns_schedule;
/* Let the ranks share their doorbells, and see one processor. */
void        turns_adapt(tr_machine *machine);
/* For scripts, which sleep in the job's time. */
void        turns_sleep(int64_t nanoseconds);

/* == the parent of the ranks ================================================================== */
/* Map the memory, which a file has, at the address where all ranks have it. A job at a time. NULL: it cannot. */
void *turns_map(int file, size_t bytes);
void turns_unmap(void *memory, size_t bytes);
/* `memory` has zeros. `now`: the time at which the job begins. */
void turns_prepare(void *memory, int size, uint64_t seed, int64_t now, int64_t delay, int64_t notice);
/* Kill the rank so long after the begin of the job; before the ranks are forked. */
void turns_kill(void *memory, int rank, int64_t after);
/* The process of the rank has ended. `has_failed`: the transport reports its death. */
void turns_reap(void *memory, int rank, bool has_failed);
/* Turns, virtual nanoseconds since the begin, and the digest. */
void turns_count(const void *memory, int64_t out[3]);
