/* rank.h - what the threads of a rank share: the owner, the communication thread, the thread of the log.
 *
 * What must stay true: a field is set before the communication thread starts, or it is atomic, or it is handed over. To hand a field over,
 * one thread writes it and then sets an atomic, posts a command or lets a ticket be done; only then the other thread reads it. */
#pragma once

#include "framework/base/weak.h"
#include "pserver/core/client/client.h"
#include "pserver/core/server/server.h"
#include "pserver/observe/meter.h"
#include "pserver/store/server_program.h"
#include "pserver/transport/comm.h"

#include <pthread.h>
#include <stdatomic.h>

/* The owner's part of a driver that drives a client. The driver calls these functions. */
typedef struct tr__client_watch {
    void *self;                       /* the job */
    void (*begin)(void *self, tr_client *client);                        /* this rank is a trainer from here on */
    void (*poll)(void *self, const tr_client *client, bool has_heard);   /* has_heard: from a server, since the last call */
} tr__client_watch;

/* The driver's own part: rank_driver.h. */
typedef struct tr__driver tr__driver;

typedef struct tr__rank {
    /* set before the communication thread starts */
    tr_job_options options;           /* with the defaults filled in */
    tr_comm       *comm;
    tr_weak       *job;               /* that this rank is in, for executors: it ends with the job, and in a forked child */
    struct tr__saving *saving;        /* a server's part of checkpoints: rank_saving.h */
    struct tr__restoring *restoring;  /* of the one that the job goes on from: rank_restoring.h */
    struct tr__pieces *pieces;        /* of the next update: rank_pieces.h */
    struct tr__moving *moving;        /* rows of tables into files, and out of them: rank_moving.h */
    tr__client_watch watch;
    tr__driver    *driver;            /* opaque */

    _Atomic tr_role role;             /* a standby may become a trainer while other threads read it */
    atomic_bool    is_replacement;    /* this rank was a standby, and has replaced a dead trainer */
    _Atomic(const tr_client *) seen_client;      /* the core, for threads that only read it; NULL: the rank has another core */
    _Atomic(const tr_server *) seen_server;

    /* trainers */
    _Atomic(tr_trainer_meter *) meter;
    tr_counter     rows_wanted, rows_ahead, rows_cached;
    tr_counter     skipped;           /* steps that were not to count */
    _Atomic uint64_t last_pull, last_end;        /* tickets */
    _Atomic pthread_t owner;          /* the thread that made the last pull */
    _Atomic uint32_t stops;           /* tr_job_stops */
    atomic_bool    awaits_replacement;       /* a server waits for a replacement's first step, so it would decline a checkpoint */

    /* servers */
    int            server_index, trainer_count;  /* handed over with the core, or with the first update */
    tr_server_program *program;       /* the owner's from a piece or has_update (or wants_frozen) to TR__APPLIED (or TR__FROZEN), else the
                                       * driver's */
    tr_update      update;            /* asked for by the core; handed over by has_update */
    atomic_bool    has_update;
    tr_times       applied;           /* durations of updates */
    tr_counter     idle;
    atomic_bool    wants_frozen, wants_thaw;
    uint8_t       *share;             /* of all servers; handed over by TR__SHARE and its ticket */
    uint64_t       gatherings;        /* with the other servers; the owner's */
    atomic_bool    is_done;           /* all trainers have left */
    bool           is_abandoned;       /* or all have died; handed over by is_done */
    atomic_uint    bell;
} tr__rank;

/* A trainer's core. Other threads than the driver ask it only what does not change any more, or what a ticket has settled. */
static inline const tr_client *tr__rank_client(const tr__rank *rank)
{
    return atomic_load_explicit(&rank->seen_client, memory_order_acquire);
}

/* A server's core, for its figures; NULL: this rank is none. */
static inline const tr_server *tr__rank_server(const tr__rank *rank)
{
    return atomic_load_explicit(&rank->seen_server, memory_order_acquire);
}
