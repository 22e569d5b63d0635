/* simulator_state.h - the inside of the simulator, shared by simulator.c (events, and whose turn it is), simulator_machine.c (what a loop asks
 * of its machine) and simulator_net.c (messages on their way). */
#ifndef TR_PSERVER_SIMULATOR_STATE_H
#define TR_PSERVER_SIMULATOR_STATE_H

#include "pserver/transport/comm_state.h"
#include "pserver/transport/simulator.h"

#include <setjmp.h>

/* == messages ================================================================================= */

/* A message on its way. The payload of a small one is a copy behind the struct; that of a large one lies where its sender has it. */
typedef struct tr__parcel {
    int         from, to;
    uint8_t     header[TR_TRANSPORT_HEADER];
    const void *payload;
    int64_t     bytes;
    void       *token;
    bool        is_large;
    bool        is_sent;              /* its sender may have the token back, or has */
    bool        is_placed;            /* a large one's reader has said where it goes */
    bool        is_whole;             /* and its payload is there */
    void       *to_place;
    int         holders;              /* of the two rings, and of an event */
} tr__parcel;

/* What one rank has on the way to another one and from it. */
typedef struct tr__way {
    bool      is_dropped;             /* this rank has nothing more to do with that one */
    bool      is_reported;            /* MPI knows that it is dead */
    struct {  /* rings of parcels, in order */
        tr__parcel **item;
        unsigned     first, count, capacity;
    } in, out;
    int64_t   last;                   /* arrival from there, so far */
    int64_t   cut;                    /* that one has died: what was on its way arrives until then */
} tr__way;

struct tr_transport {
    tr_sim    *sim;
    int        rank;
    tr_transport_events events;
    tr__way   *way;                   /* of each other rank */
    bool       is_fresh;              /* a look may move something */
    tr__parcel *in_hand;              /* that the loop gets now */
    int        reports;               /* of deaths that the loop has not heard */
    int64_t    out_free, in_free;     /* when what leaves it, and reaches it, is through */
};

/* == ranks ==================================================================================== */

typedef enum tr__owner_phase {
    TR__OWNER_STARTS, TR__OWNER_FREE, TR__OWNER_WAITS, TR__OWNER_IDLE, TR__OWNER_LEAVES, TR__OWNER_FAILS, TR__OWNER_GOES
} tr__owner_phase;

enum { TR__OWNER, TR__THREAD, TR__THREADS };

typedef struct tr__sim_rank {
    tr_sim         *sim;
    int             rank;
    tr_sim_program  program;
    int             host;                          /* the first rank on it */
    tr_comm        *comm;
    tr_transport    transport;
    tr__thread      thread;
    tr__wait        wait;
    tr__owner_phase owner;
    bool            has_begun, thread_is_over;
    bool            has_ended, is_dead, has_word;
    int64_t         stopped_until;
    tr__rest        rest[TR__THREADS];             /* how each rests until its next turn */
    int64_t         gone_at;                       /* TR__OWNER_FAILS: when it gives up */
} tr__sim_rank;

typedef enum tr__event_kind { TR__ARRIVE, TR__WHOLE, TR__CALL, TR__KILL, TR__REPORT, TR__STOP } tr__event_kind;

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
    tr_doorbell   *bell;                           /* of each rank */
    int64_t       *at;                             /* of each rank's threads: the next turn; INT64_MAX: somebody must wake it */
    tr__event     *heap;
    size_t         count, capacity;
    uint64_t       created;
    int            running;                        /* its turn it is; -1: nobody's */
    jmp_buf        turn;                           /* where a turn ends that ends its rank */
    int            left;                           /* processes that have not ended */
};

/* == simulator_events.c == */
void tr__sim_push(tr_sim *sim, tr__event event);
tr__event tr__sim_pop(tr_sim *sim);
bool tr__sim_happens(tr_sim *sim, double probability);
/* 1 to `most`, or just that. */
int64_t tr__sim_time(tr_sim *sim, int64_t most);
/* When a thread's next turn is. */
int64_t *tr__sim_turn_of(tr_sim *sim, int rank, int thread);
void tr__sim_set_turn(tr_sim *sim, int rank, int thread, int64_t at);
/* This thread's next turn is now. */
void tr__sim_rouse(tr_sim *sim, int rank, int thread);
/* Something is here that a look would move: whoever looks all the time sees it. */
void tr__sim_stir(tr_sim *sim, int rank);

/* == simulator_machine.c == */
/* The process ends now. */
void tr__sim_end(tr_sim *sim, int rank, bool is_dead);
tr_machine tr__sim_machine(tr__sim_rank *r);

/* == simulator_net.c == */
extern const tr_transport_table tr__sim_transport;
void tr__sim_net_init(tr_transport *transport, tr_sim *sim, int rank);
void tr__sim_net_deinit(tr_transport *transport);
void tr__sim_arrive(tr_sim *sim, tr__parcel *parcel);
void tr__sim_whole(tr_sim *sim, tr__parcel *parcel);
/* What a dead rank had on its way is lost from some message on. */
void tr__sim_net_die(tr_sim *sim, int rank);
void tr__sim_report(tr_sim *sim, int rank, int dead);

#endif
