/* transport_sim.h - all ranks of a job in one process, under a seeded scheduler and virtual time.
 *
 * Messages of one pair stay in order, as MPI keeps them; among pairs everything may happen in any order. A receipt that its reader
 * does not await lies until another message of the pair comes, or it does await one: it would wake nobody. On
 * demand messages are lost or come twice, ranks are killed. A run is a function of its seed: one that fails
 * fails again. It drives cores (node.h), not threads.
 *
 * What must stay true: headers pass through the wire format; payloads are copied when they are sent, those on loan when they
 * arrive. */
#ifndef TR_PSERVER_TRANSPORT_SIM_H
#define TR_PSERVER_TRANSPORT_SIM_H

#include "pserver/core/node.h"

typedef struct tr_sim_options {
    uint64_t seed;
    int64_t  delay;                   /* nanoseconds a message takes at most */
    double   drop, duplicate;         /* probabilities */
    int64_t  notice;                  /* nanoseconds until a death is noticed, at most */
} tr_sim_options;

typedef struct tr_sim tr_sim;

tr_sim *tr_sim_new(int size, const tr_sim_options *options);
void    tr_sim_free(tr_sim *sim);
void    tr_sim_attach(tr_sim *sim, int rank, const tr_node *node);
/* Call this function once, at this time from now. */
void    tr_sim_call(tr_sim *sim, int64_t after, void (*call)(void *payload), void *payload);
/* The rank is killed then: nothing it sends leaves, the others learn of it within `notice`. */
void    tr_sim_kill(tr_sim *sim, int rank, int64_t after);
bool    tr_sim_is_dead(const tr_sim *sim, int rank);
int64_t tr_sim_now(const tr_sim *sim);
/* A number from the run's own stream, 0 <= n < limit. */
uint64_t tr_sim_random(tr_sim *sim, uint64_t limit);
/* Let time pass, event by event; `drive` is called after each (what the ranks' programs do) until it says that
 * all is over: true. False: nothing moves any more, or `limit` events have passed. */
bool    tr_sim_run(tr_sim *sim, int64_t limit, bool (*drive)(void *payload), void *payload);

#endif
