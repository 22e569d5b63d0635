/* simulator_state.h - the inside of the simulator, shared by simulator.c (events and turns), simulator_machine.c (the services for a
 * loop) and simulator_net.c (messages under way). */
#pragma once

#include "pserver/transport/comm_state.h"
#include "tests/support/simulator.h"

#include <setjmp.h>

/* == messages ================================================================================= */

/* A message under way. A small payload is a copy after the struct; a large one is in its sender's memory. */
typedef struct tr__parcel {
    int         from, to;
    uint8_t     header[TR_TRANSPORT_HEADER];
    const void *payload;
    int64_t     bytes;
    void       *token;
    bool        is_large;
    bool        is_sent;              /* the sender may get the token back, or has got it */
    bool        is_direct;            /* large message: its reader has said where the payload goes */
    bool        is_whole;             /* large message: the payload has arrived */
    void       *to_place;
    int         holders;              /* references: of the two rings, and of an event */
} tr__parcel;

/* The messages of one rank to and from another rank. */
typedef struct tr__link {
    bool      is_dropped;             /* this rank has dropped the other one */
    bool      is_reported;            /* MPI has noticed that the other rank is dead */
    struct {  /* rings of messages, in order */
        tr__parcel **item;
        unsigned     first, count, capacity;
    } in, out;
    int64_t   last;                   /* latest arrival from the other rank so far */
    int64_t   cut;                    /* the other rank has died: messages under way arrive until this time */
} tr__link;

struct tr_transport {
    tr_sim    *sim;
    int        rank;
    tr_transport_events events;
    tr__link   *way;                   /* one for each other rank */
    bool       is_fresh;              /* the next poll may move something */
    tr__parcel *in_hand;              /* the message that the loop receives now */
    void       *token;                /* of the message that the loop sends now, while it hears of dead ranks */
    int        reports;               /* deaths that the loop has not been told */
    int64_t    out_free, in_free;     /* when the messages leaving this rank, and those reaching it, are through */
};

/* == ranks ==================================================================================== */

typedef enum tr__owner_phase {
    TR__OWNER_STARTS, TR__OWNER_FREE, TR__OWNER_WAITS, TR__OWNER_IDLE, TR__OWNER_LEAVES, TR__OWNER_FAILS, TR__OWNER_GOES
} tr__owner_phase;

enum { TR__OWNER, TR__THREAD, TR__BEATER, TR__THREADS };

typedef struct tr__sim_rank {
    tr_sim         *sim;
    int             rank;
    tr_sim_program  program;
    int             host;                          /* the first rank on this host */
    tr_comm        *comm;
    tr_transport    transport;
    tr__thread      thread;
    tr__wait        wait;
    tr__owner_phase owner;
    bool            has_begun, thread_is_over;
    bool            has_ended, is_dead, has_heard;
    int64_t         stopped_until, busy_until;
    bool            is_stuck;                      /* busy without progress: its threads wait for each other */
    tr__pulse       pulse;
    tr__rest        rest[TR__THREADS];             /* how each thread rests until its next turn */
    int64_t         gone_at;                       /* TR__OWNER_FAILS: when the owner gives up */
} tr__sim_rank;

typedef enum tr__event_kind { TR__ARRIVE, TR__WHOLE, TR__CALL, TR__KILL, TR__REPORT, TR__STOP, TR__FREE } tr__event_kind;

typedef struct tr__event {
    int64_t        time;
    uint64_t       order;
    tr__event_kind kind;
    int            rank, about;
    tr__parcel    *parcel;
    void         (*call)(void *payload);
    void          *payload;
    int64_t        duration;
} tr__event;

struct tr_sim {
    tr_sim_options options;
    int            size;
    uint64_t       random;
    int64_t        now;
    tr__sim_rank  *rank;
    tr_doorbell   *bell;                           /* one for each rank */
    int64_t       *at;                             /* next turn of each rank's threads; INT64_MAX: the thread sleeps until a ring */
    tr__event     *heap;
    size_t         count, capacity;
    uint64_t       created;
    int            running;                        /* the rank whose turn runs; -1: none */
    jmp_buf        turn;                           /* jumped to when a rank ends in its own turn */
    int            left;                           /* processes that are still alive */
};

/* == simulator_events.c == */
void tr__sim_push(tr_sim *sim, tr__event event);
tr__event tr__sim_pop(tr_sim *sim);
bool tr__sim_happens(tr_sim *sim, double probability);
/* A time from 1 to `most`; with is_steady exactly `most`. */
int64_t tr__sim_time(tr_sim *sim, int64_t most);
/* Set the time of a thread's next turn. */
int64_t *tr__sim_turn_of(tr_sim *sim, int rank, int thread);
void tr__sim_set_turn(tr_sim *sim, int rank, int thread, int64_t at);
/* Set this thread's next turn to now. */
void tr__sim_rouse(tr_sim *sim, int rank, int thread);
/* A poll of this rank would move something: wake its threads that poll. */
void tr__sim_stir(tr_sim *sim, int rank);

/* == simulator_machine.c == */
/* End the rank's process now. */
void tr__sim_end(tr_sim *sim, int rank, bool is_dead);
tr_machine tr__sim_machine(tr__sim_rank *r);

/* == simulator_net.c == */
extern const tr_transport_table tr__sim_transport;
void tr__sim_net_init(tr_transport *transport, tr_sim *sim, int rank);
void tr__sim_net_deinit(tr_transport *transport);
void tr__sim_arrive(tr_sim *sim, tr__parcel *parcel);
void tr__sim_release(tr__parcel *parcel);
void tr__sim_whole(tr_sim *sim, tr__parcel *parcel);
/* The rank is dead: lose its messages under way from a random one on. */
void tr__sim_net_die(tr_sim *sim, int rank);
void tr__sim_report(tr_sim *sim, int rank, int dead);
