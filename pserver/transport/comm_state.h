/* comm_state.h - the inside of the event loop, shared by comm.c (the owner's calls), comm_thread.c (the thread's begin and end), comm_drive.c
 * (a turn of who drives, and how it rests), comm_send.c (what leaves), comm_receive.c (what comes from other ranks), comm_watch.c (who
 * lives; what happens when somebody does not).
 *
 * Both threads of a rank run in turns: tr__comm_thread_turn and tr__comm_wait_turn. A turn never waits; it says how to rest before the next one.
 * comm.c and comm_thread.c rest in the real world (tr__comm_rest). The simulator (simulator.h) calls the same turns in virtual time. */
#ifndef TR_PSERVER_COMM_STATE_H
#define TR_PSERVER_COMM_STATE_H

#include "pserver/core/outbox.h"
#include "pserver/transport/comm.h"
#include "pserver/transport/liveness.h"
#include "pserver/transport/machine.h"
#include "pserver/util/wake.h"

#include <pthread.h>

enum { TR__RING = 4096 };
/* How often who does not drive looks at who does: nanoseconds, as all here. It often wakes in what the driver computes then. */
#define TR__LOOK ((int64_t)3000000)

/* What the owner sees. Grows only. LEFT: everybody's goodbye is here, MPI is to be stopped. */
typedef enum tr__comm_state { TR__STARTING, TR__RUNNING, TR__LEFT, TR__FAILED, TR__ENDED } tr__comm_state;

/* A message that came before the core was there. */
typedef struct tr__early {
    struct tr__early *next;
    int               peer;
    tr_wire           wire;
    void             *payload;
} tr__early;

struct tr_comm {
    tr_comm_options options;
    tr_comm_core    core;
    tr_machine      machine;
    char            transport_path[1024];
    pthread_t       thread;
    bool            has_thread;

    /* between the threads */
    atomic_int       state;
    atomic_ullong    done;
    atomic_uint      owner_bell;                  /* of an owner that does not drive */
    tr_doorbell     *own_doorbell;                /* of who drives, and of the thread that stands aside */
    int              doorbell_file;
    pthread_mutex_t  drive;                       /* held by who drives: all that is "the driver's own" below */
    tr_counter       turns;                       /* of whoever drives */
    atomic_bool      owner_drives;                /* the thread keeps out of the way */
    atomic_bool      thread_sleeps;
    int64_t          gathers_since;               /* of who drives: there are commands that were not flushed; 0: none */
    atomic_uint      ring_head, ring_tail;        /* taken by the thread, put by the owner */
    tr_command       ring[TR__RING];
    atomic_bool      is_leaving, is_parked;
    bool             is_well;                     /* read when is_leaving is set */
    atomic_int       exit_code;                   /* after a failure; 0 stands for 1 */
    atomic_bool      is_told;                     /* the failure was printed, here or elsewhere */
    tr_traffic       sent, received;
    tr_counter       moving;                      /* time in turns that moved something */
    pthread_mutex_t  lock;                        /* of the two below */
    tr_status        status;
    char             text[4096];

    /* the driver's own */
    const tr_transport_table *table;
    tr_transport    *transport;
    tr_roster       *roster;
    tr_liveness     *liveness;
    tr_outbox       *out;                         /* for each peer */
    int              out_waiting;                 /* messages in them */
    tr_node          node;
    bool             has_node;
    tr__early       *early, **early_end;
    tr_doorbell    **doorbell;                    /* of each peer on this host, or NULL */
    int             *to_ring, to_ring_count;      /* peers that were sent something since they were last rung */
    bool            *is_to_ring, *has_news;       /* of each peer: it is one of them; and was sent more than receipts */
    int64_t          unrung_since;
    unsigned         short_waits;                 /* in a row */
    bool             is_crowded;                  /* this host has more ranks than processors for them */
    bool             is_rung_by_all;              /* all peers are on this host, where who can be rung can ring, and large messages need no help */
    int             *process;                     /* of each peer on this host (machine.h), or -1 */
    int64_t         *gone_at;                     /* when its process was seen to have ended; 0: it has not */
    int64_t          now, turned_at, watched_at, start_deadline;
    int64_t          tick_at;                     /* when the core wants to be asked for the time again */
    atomic_bool      has_survived;                /* a death: MPI cannot be finalized any more */
    int64_t          woke_at;                     /* after longer than the others wait: it was stopped, or starved; 0: never */
    int64_t          failed_at, report_at;
    int              culprit;
    bool             said_bye;
};

static inline int64_t tr__comm_clock(const tr_comm *comm)
{
    return comm->machine.clock(comm->machine.self);
}

/* How long until the next turn. */
typedef enum tr__rest_kind {
    TR__REST_NONE,                    /* at once */
    TR__REST_HOT,                     /* a moment: a message is likely */
    TR__REST_YIELD,                   /* the same, and others want the processor */
    TR__REST_NAP,                     /* until the doorbell rings */
    TR__REST_OVER                     /* there is none */
} tr__rest_kind;

typedef struct tr__rest {
    tr__rest_kind kind;
    unsigned      who, seen;          /* NAP: a bit of the doorbell, and its rings before the last look */
    int64_t       nanoseconds;        /* NAP: at most; HOT and YIELD: after so many without a message it is over */
} tr__rest;

/* == comm_drive.c == */
/* Nothing moves: the longer the quiet, the deeper the sleep. The doorbell ends it. */
typedef struct tr__rhythm {
    unsigned who;                     /* as the doorbell knows it */
    int64_t  quiet_since, looked_at;
    bool     is_aside;                /* nobody waits for what moves: leave the processor to those who compute */
    bool     has_armed;               /* the doorbell, and then was looked once more */
    unsigned wakes_as;                /* as of the last turn, as what follows: what it is to be armed as */
    bool     is_brisk, hears_all;
} tr__rhythm;

/* A rank that is killed in the middle of a message may leave a queue of shared memory in which its reader's MPI turns in a
 * circle for ever. The others take such a reader for dead; it must end by itself, too, as the dead do: an exit code would be the
 * job's to mpirun. Whoever does not drive looks: a driver
 * that makes no turn while this thread has run a thousand times, and for longer than a peer may be silent, is stuck. */
typedef struct tr__stuck {
    int64_t turns;
    int64_t since;
    int     looks;
} tr__stuck;

bool tr__comm_has_commands(const tr_comm *comm);
/* Of an owner that drives but does not wait: let messages wake the thread if it sleeps. Call it before the turn, which looks once more. */
void tr__comm_arm_for_thread(tr_comm *comm);
/* Of who drives: a message, or a receipt that now matters, would not wake the thread. */
bool tr__comm_is_thread_deaf(const tr_comm *comm);
/* Become who drives: take the lock. Returns how long that took; without another driver 0. */
int64_t tr__comm_take_drive(tr_comm *comm);
/* One turn of who drives, which begins now. Returns how much has moved; then `comm->now` is its end. */
int  tr__comm_drive(tr_comm *comm, tr__rhythm *r, int64_t now);
/* How to rest behind a turn in which nothing moved. `seen`: the doorbell's rings before it. */
tr__rest tr__comm_choose_rest(tr_comm *comm, tr__rhythm *r, unsigned seen);
/* Rest so, on the real machine. */
void tr__comm_rest(tr_comm *comm, const tr__rest *rest);
void tr__comm_look_whether_stuck(const tr_comm *comm, tr__stuck *s);

/* == comm_thread.c == */
typedef struct tr__thread {
    tr__rhythm rhythm;
    tr__stuck  owner;
} tr__thread;

/* Start the transport, and say hello. False: the state is TR__FAILED, and the thread ends. */
bool     tr__comm_thread_begin(tr_comm *comm, tr__thread *t);
/* One turn of the thread. TR__REST_OVER: tr__comm_thread_end is next, or (`is_parked`) nothing. */
tr__rest tr__comm_thread_turn(tr_comm *comm, tr__thread *t);
/* Everybody's goodbye is here: stop the transport. */
void     tr__comm_thread_end(tr_comm *comm);
/* Wake the owner, which waits for what the loop says. */
static inline void tr__comm_ring_owner(tr_comm *comm)
{
    comm->machine.ring(comm->machine.self, &comm->owner_bell, FUTEX_BITSET_MATCH_ANY);
}

/* All of it; `payload`: the tr_comm. */
void    *tr__comm_run(void *payload);

/* == comm.c: what the owner's calls are made of == */
tr_comm *tr__comm_new(const tr_comm_options *options, const tr_comm_core *core, const tr_machine *machine);
/* The thread has ended, or never began. */
void     tr__comm_free(tr_comm *comm);

/* An owner that waits. It holds the lock of who drives from `begin` to `end`. */
typedef struct tr__wait {
    tr__rhythm rhythm;
    uint64_t   done;                  /* waited for */
    int64_t    timeout, from, until_driver;
    bool       is_late, is_interrupted;
} tr__wait;

void      tr__comm_wait_begin(tr_comm *comm, tr__wait *w, uint64_t done, int64_t timeout);
/* TR__REST_OVER: the wait is over. */
tr__rest  tr__comm_wait_turn(tr_comm *comm, tr__wait *w);
tr_status tr__comm_wait_end(tr_comm *comm, tr__wait *w, tr_span *waited);
/* From here on the thread says goodbye as soon as it may. */
void      tr__comm_leave_begin(tr_comm *comm, bool is_well);

/* == comm_send.c == */
/* What the transport gives back when a message was sent: memory to be freed, or, by its lowest bit, a loan. */
static inline void *tr__token_of(const tr_message *message)
{
    return message->loan ? (char *)message->loan + 1 : message->owned;
}

void tr__comm_send(tr_comm *comm, int peer, tr_wire_kind kind, void *payload, uint64_t bytes);
/* What waits in the peers' lines; what the core has to say. Return how many messages have left. */
int  tr__comm_send_waiting(tr_comm *comm);
int  tr__comm_send_core(tr_comm *comm);
/* Ring who was sent something since it was last rung. `has_more`: those of other processors alone, the rest the next time. */
void tr__comm_ring(tr_comm *comm, bool has_more);

/* == comm_receive.c == */
tr_transport_events tr__comm_events(tr_comm *comm);
/* Give the core what came before it was there. */
void tr__comm_receive_early(tr_comm *comm);
/* The core may have failed by what it got from that peer. */
void tr__comm_check_core(tr_comm *comm, int peer);

/* == comm_watch.c == */
void tr__comm_watch_begin(tr_comm *comm);
void tr__comm_watch_end(tr_comm *comm);
/* What the clock says now; and whether it has said nothing for long. */
void tr__comm_turn_begins(tr_comm *comm, int64_t now);
/* Beats, silence, processes that ended, what a failure demands: called all the time. */
void tr__comm_watch(tr_comm *comm);
void tr__comm_dead(tr_comm *comm, int peer, const char *how);
/* Its process has ended: it is dead, or, if it had left, it cannot be there for MPI's end, nor for signs of life. */
void tr__comm_gone(tr_comm *comm, int peer, const char *how);
/* The job has failed, with this text, because of this rank. */
void tr__comm_failed(tr_comm *comm, tr_status status, int culprit, const char *text);
void tr__comm_on_abort(tr_comm *comm, int peer, const uint8_t *payload, uint64_t bytes);

#endif
