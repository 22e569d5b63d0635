/* comm_state.h - the inside of the event loop. These files share it:
 *
 *   comm.c          the owner's calls
 *   comm_thread.c   the life of the communication thread
 *   comm_drive.c    one turn of the driver, and its rest after that
 *   comm_pulse.c    signs of life while the driver is busy
 *   comm_bundles.c  small messages of the core share one message
 *   comm_send.c     messages to other ranks
 *   comm_receive.c  messages from other ranks
 *   comm_watch.c    living and dead ranks
 *
 * Both threads of a rank run in turns: tr__comm_thread_turn and tr__comm_wait_turn. A turn never waits; it says how to rest before the next
 * one. comm.c and comm_thread.c rest in the real world (tr__comm_rest). The simulator (tests/support/simulator.h) calls the same turns in
 * virtual time. */
#pragma once

#include "pserver/core/base/outbox.h"
#include "pserver/transport/comm.h"
#include "pserver/transport/liveness.h"
#include "pserver/transport/machine.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"

#include <pthread.h>
#include <sched.h>

enum { TR__RING = 4096 };
/* How often the thread that does not drive checks the driver: nanoseconds, as all times here. It often wakes while the driver computes.
 * In a long wait of an owner it checks less often, TR__LOOK_MAX at most. */
#define TR__LOOK     ((int64_t)3000000)
#define TR__LOOK_MAX ((int64_t)48000000)

/* The loop's state, as the owner sees it. It only grows. LEFT: all goodbyes are here, and MPI must be stopped. */
typedef enum tr__comm_state { TR__STARTING, TR__RUNNING, TR__LEFT, TR__FAILED, TR__ENDED } tr__comm_state;

/* What the owner wants of the thread. It only grows: STAY -> LEAVE or LEAVE_WELL -> PARK. */
typedef enum tr__wish {
    TR__STAY,
    TR__LEAVE,                        /* after a failure */
    TR__LEAVE_WELL,
    TR__PARK                          /* touch nothing more: the job has failed, and MPI is not finalized */
} tr__wish;

/* Who is inside of the transport, or may enter it at any moment: the driver; nobody, because the driver works for the core; the thread of
 * comm_pulse.c. */
enum { TR__DRIVER, TR__AWAY, TR__PULSE };

/* A message that came before the core was made. */
typedef struct tr__early {
    struct tr__early *next;
    int               peer;
    tr_wire           wire;
    void             *payload;
} tr__early;

typedef union tr__command_slot {
    tr_command head;
    void      *aligned[TR_COMMAND_BYTES / sizeof(void *)];
} tr__command_slot;

/* Commands on their way from the owner to the driver. */
typedef struct tr__commands {
    int64_t          gather_since;                /* driver's: when the commands came that are not flushed yet; 0: there are none */
    atomic_uint      head, tail;                  /* head: next command for the driver; tail: next free slot for the owner */
    tr__command_slot slot[TR__RING];
} tr__commands;

/* comm_pulse.c: heartbeats while the driver is away. */
typedef struct tr__beats {
    atomic_llong     at;                          /* when the last ones were sent; 0: never */
    tr_counter       count;
    tr_background    thread;
    atomic_bool      ends;
    atomic_uint      bell;
} tr__beats;

/* comm_watch.c: which ranks live, and how the job has failed. */
typedef struct tr__watch {
    int64_t          at, start_deadline;          /* of the last look */
    int64_t          woke_at;                     /* when this process woke after a pause longer than the others' time-out; 0: never */
    int64_t          failed_at, report_at;
    int              culprit;
    int              ended;                       /* ranks whose process was seen to have ended, and which are not gone yet */
    atomic_int       exit_code;                   /* after a failure; 0 stands for 1 */
    atomic_bool      is_told;                     /* some rank has printed the failure */
    atomic_bool      has_survived;                /* the job survived a death: MPI cannot be finalized any more */
} tr__watch;

/* comm_bundles.c: the memory of a bundle. While it is in use it has one reader. */
typedef struct tr__bundle {
    struct tr__bundle *next;
    tr_loan            loan;
    _Alignas(64) uint8_t payload[TR_LIMIT_BUNDLE];
} tr__bundle;

/* comm_bundles.c: small messages to one peer, which the core had in this turn. */
typedef struct tr__gathered {
    tr_message       first;                       /* it leaves as it is if it stays alone */
    uint32_t         count;
    uint8_t         *payload;                     /* of a bundle; with one message there is none */
    uint64_t         bytes;
    bool             has_news, is_listed;         /* not all are acknowledgements; the peer is in `gathering` */
} tr__gathered;

typedef struct tr__peer {
    tr_outbox        out;
    tr__gathered     gathered;
    tr_doorbell     *bell;                        /* of a peer on this host; NULL: it is elsewhere */
    bool             is_due, has_news;            /* it is in `due` of the bells; it got other messages than acknowledgements */
    int              process;                     /* of a peer on this host (machine.h), or -1 */
    int64_t          gone_at;                     /* when its process was seen to have ended; 0: it lives; -1: it is gone */
} tr__peer;

/* comm_send.c: the doorbells of peers. */
typedef struct tr__bells {
    int             *due, due_count;              /* peers that got a message since they were last rung */
    int64_t          due_since;
    bool             are_mutual;                  /* all peers are on this host and can ring this rank, and large messages need no
                                                   * polling */
} tr__bells;

struct tr_comm {
    tr_comm_options options;
    tr_comm_core    core;
    tr_machine      machine;
    tr_background   thread;

    /* shared by both threads */
    atomic_int       state;
    atomic_ullong    done;
    atomic_uint      owner_bell;                  /* wakes an owner that does not drive */
    tr_doorbell     *own_doorbell;                /* wakes the driver, and the thread while an owner drives */
    int              doorbell_file;
    pthread_mutex_t  drive;                       /* held by the driver. It protects the fields of "the driver's own" below */
    tr_counter       turns;                       /* turns of all drivers */
    atomic_bool      owner_drives;                /* an owner drives, so the thread keeps away */
    atomic_bool      thread_sleeps;
    atomic_bool      sleeps_long;                 /* longer than TR__LOOK: an owner that stops driving wakes the thread */
    atomic_int       wish;                        /* the owner's: a tr__wish */
    atomic_int       inside;                      /* TR__DRIVER, TR__AWAY or TR__PULSE */
    tr_traffic       sent, received;
    tr_counter       moving;                      /* time in turns that moved something */
    pthread_mutex_t  lock;                        /* protects the two fields below */
    tr_status        status;
    char             text[4096];

    tr__commands     commands;
    tr__beats        pulse;
    tr__watch        watch;

    /* only the driver uses the fields below */
    tr__bells        bells;
    const tr_transport_table *table;
    tr_transport    *transport;
    tr_roster       *roster;
    tr_liveness     *liveness;
    tr__peer        *peer;                        /* of each rank */
    int              out_waiting;                 /* messages in all queues */
    tr__bundle      *bundles;                     /* all, in use or not */
    int             *gathering, gathering_count;  /* peers for which messages are gathered */
    tr_node          node;
    bool             has_node;
    tr__early       *early, **early_end;
    unsigned         short_waits;                 /* number of waits in a row that were short */
    bool             is_crowded;                  /* this host has more ranks than processors */
    int              ranks_here;                  /* of this host, for each of its processors; 1 at least */
    int64_t          now, turned_at;
    int64_t          tick_at;                     /* when the core wants its next tick */
    bool             said_bye;
};

static inline int64_t tr__comm_clock(const tr_comm *comm)
{
    return comm->machine.clock(comm->machine.self);
}

/* The driver begins to work for the core, which may take long, and ends it. Between the calls it does not enter the transport. */
static inline void tr__comm_away(tr_comm *comm)
{
    atomic_store_explicit(&comm->inside, TR__AWAY, memory_order_release);
}

static inline void tr__comm_back(tr_comm *comm)
{
    for (int away = TR__AWAY;
         !atomic_compare_exchange_weak_explicit(&comm->inside, &away, TR__DRIVER, memory_order_acquire, memory_order_relaxed);
         away = TR__AWAY)
        sched_yield();
}

/* The rest before the next turn. */
typedef enum tr__rest_kind {
    TR__REST_NONE,                    /* no rest */
    TR__REST_HOT,                     /* a short pause: a message is likely */
    TR__REST_YIELD,                   /* the same, and other threads need the processor */
    TR__REST_NAP,                     /* sleep until the doorbell rings */
    TR__REST_OVER                     /* there is no next turn */
} tr__rest_kind;

typedef struct tr__rest {
    tr__rest_kind kind;
    unsigned      who, seen;          /* NAP: the bit of the doorbell to sleep under, and its rings before the last look */
    int64_t       nanoseconds;        /* NAP: the longest sleep; HOT and YIELD: the polling ends after so long without a message */
} tr__rest;

/* == comm_drive.c == */
/* A driver's rests. The longer nothing moves, the longer it sleeps. The doorbell ends the sleep. */
typedef struct tr__rhythm {
    unsigned who;                     /* its bit of the doorbell: TR_BELL_OWNER or TR_BELL_THREAD */
    int64_t  quiet_since, looked_at;
    bool     is_aside;                /* no thread waits for messages: leave the processor to threads that compute */
    bool     has_armed;               /* it has armed the doorbell, and then looked once more */
    unsigned wakes_as;                /* the bits to arm the doorbell with. This field and the next ones describe the last turn */
    bool     is_brisk, hears_all;
    bool     is_patient;              /* it waits for the hellos or the goodbyes of other ranks */
    int64_t  until_tick;              /* nanoseconds from the last turn of this driver until the core wants a tick */
} tr__rhythm;

/* Detects a driver that is stuck. A rank that is killed in the middle of a message may leave a damaged queue in shared memory, in which
 * its reader's MPI loops for ever. The other ranks declare that reader dead. It must kill itself, too, because its exit code would count
 * as the job's. The thread that does not drive checks for this. A driver is stuck if it makes no turn while this thread has slept a
 * thousand times TR__LOOK, and for longer than a peer may be silent. */
typedef struct tr__stuck {
    int64_t turns;                    /* and heartbeats of comm_pulse.c */
    int64_t since;
    int     looks;
} tr__stuck;

bool tr__comm_has_commands(const tr_comm *comm);
/* Called by an owner that drives one turn without a wait: arm the doorbell for the thread, if it sleeps. Call it before the turn, which
 * looks once more. */
void tr__comm_arm_for_thread(tr_comm *comm);
/* Called by the driver: would a message, or an acknowledgement that now matters, fail to wake the thread? */
bool tr__comm_is_thread_deaf(const tr_comm *comm);
/* Become the driver: take the lock. Returns how long that took; 0 if there was no other driver. */
int64_t tr__comm_take_drive(tr_comm *comm);
/* Make one turn as the driver; `now` is its begin. Returns the number of messages and commands that moved. If any did, `comm->now` is
 * the end of the turn. */
int  tr__comm_drive(tr_comm *comm, tr__rhythm *r, int64_t now);
/* Choose the rest after a turn in which nothing moved. `seen`: the doorbell's rings before the turn. */
tr__rest tr__comm_choose_rest(tr_comm *comm, tr__rhythm *r, unsigned seen);
/* Take this rest, on the real machine. */
void tr__comm_rest(tr_comm *comm, const tr__rest *rest);
/* `looks`: how many looks the last sleep stands for. */
void tr__comm_look_whether_stuck(const tr_comm *comm, tr__stuck *s, int looks);

/* == comm_pulse.c == */
/* What the thread that beats for a busy driver saw at its last look. */
typedef struct tr__pulse {
    int64_t turns, since;             /* turns of the driver, and when their number was new */
    int64_t progress;                 /* of the machine */
    bool    is_owed;                  /* there was progress, and no heartbeat since */
} tr__pulse;

/* One turn of that thread. TR__REST_OVER: it ends. */
tr__rest tr__comm_pulse_turn(tr_comm *comm, tr__pulse *p);
void     tr__comm_pulse_begin(tr_comm *comm);
void     tr__comm_pulse_end(tr_comm *comm);

/* == comm_thread.c == */
typedef struct tr__thread {
    tr__rhythm rhythm;
    tr__stuck  owner;
    int64_t    aside_since;           /* an owner has driven since then; 0: none does */
    int64_t    nap;                   /* the last one while an owner drove */
} tr__thread;

/* Start the transport, and say hello. False: the state is TR__FAILED, and the thread ends. */
bool     tr__comm_thread_begin(tr_comm *comm, tr__thread *t);
/* One turn of the thread. TR__REST_OVER: call tr__comm_thread_end next, or (if parked) nothing. */
tr__rest tr__comm_thread_turn(tr_comm *comm, tr__thread *t);
/* All goodbyes are here: stop the transport. */
void     tr__comm_thread_end(tr_comm *comm);
/* Wake the owner, which waits for a change of the loop's state. */
static inline void tr__comm_ring_owner(tr_comm *comm)
{
    comm->machine.ring(comm->machine.self, &comm->owner_bell, FUTEX_BITSET_MATCH_ANY);
}

/* The whole life of the thread; `payload`: the tr_comm. */
void    *tr__comm_run(void *payload);

/* == comm.c: parts of the owner's calls == */
tr_comm *tr__comm_new(const tr_comm_options *options, const tr_comm_core *core, const tr_machine *machine);
/* Free a loop whose thread has ended, or never began. */
void     tr__comm_free(tr_comm *comm);

/* A wait of the owner. It holds the driver's lock from `begin` to `end`. */
typedef struct tr__wait {
    tr__rhythm rhythm;
    uint64_t   done;                  /* the operation that it waits for */
    int64_t    timeout, from, until_driver;
    bool       is_late, is_interrupted;
} tr__wait;

void      tr__comm_wait_begin(tr_comm *comm, tr__wait *w, uint64_t done, int64_t timeout);
/* TR__REST_OVER: the wait is over. */
tr__rest  tr__comm_wait_turn(tr_comm *comm, tr__wait *w);
tr_status tr__comm_wait_end(tr_comm *comm, tr__wait *w, tr_span *waited);
/* The thread may say goodbye as soon as possible. */
void      tr__comm_leave_begin(tr_comm *comm, bool is_well);

/* == comm_bundles.c == */
/* Gather a message of the core, or send it if it is large. After the last message of a turn the gathered ones are sent. */
void     tr__comm_gather(tr_comm *comm, const tr_message *message);
void     tr__comm_send_gathered(tr_comm *comm);
/* Take memory for the payload of a bundle. `end`: it is not used any more. */
uint8_t *tr__comm_bundle_begin(tr_comm *comm);
void     tr__comm_bundle_end(uint8_t *payload);
void     tr__comm_free_bundles(tr_comm *comm);

/* == comm_send.c == */
/* The transport returns this token when a message was sent: memory to free, or a loan, which its lowest bit marks. */
static inline void *tr__token_of(const tr_message *message)
{
    return message->loan ? (char *)message->loan + 1 : message->owned;
}

/* Queue a message. A slow peer holds up no other peer, because each has a queue of its own. */
void tr__comm_post_message(tr_comm *comm, const tr_message *message);
void tr__comm_send(tr_comm *comm, int peer, tr_wire_kind kind, void *payload, uint64_t bytes);
/* Send the messages in the queues; send the messages of the core. Both return how many were sent. */
int  tr__comm_send_waiting(tr_comm *comm);
int  tr__comm_send_core(tr_comm *comm);
/* Ring the peers that got messages since they were last rung. `has_more`: only those on other processors; the others next time. */
void tr__comm_ring(tr_comm *comm, bool has_more);

/* == comm_receive.c == */
tr_transport_events tr__comm_events(tr_comm *comm);
/* Give the core the messages that came before it was made. */
void tr__comm_receive_early(tr_comm *comm);
/* Check whether the core has failed because of a message from that peer. */
void tr__comm_check_core(tr_comm *comm, int peer);

/* == comm_watch.c == */
void tr__comm_watch_begin(tr_comm *comm);
void tr__comm_watch_end(tr_comm *comm);
/* Set the loop's time. Note whether this process was away for longer than the others' time-out. */
void tr__comm_turn_begins(tr_comm *comm, int64_t now);
/* Send heartbeats, and handle silence, ended processes and failures. The driver calls it in each turn. */
void tr__comm_watch(tr_comm *comm);
void tr__comm_dead(tr_comm *comm, int peer, const char *how);
/* A peer's process has ended. If it had not left it is dead. If it had left, it cannot take part in MPI's end, and needs no heartbeats. */
void tr__comm_gone(tr_comm *comm, int peer, const char *how);
/* The job has failed with this text; rank `culprit` is the cause. */
void tr__comm_failed(tr_comm *comm, tr_status status, int culprit, const char *text);
void tr__comm_on_abort(tr_comm *comm, int peer, const uint8_t *payload, uint64_t bytes);
