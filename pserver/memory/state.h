/* state.h - what a server must not forget: its work, its variables, and which of its trainers' steps are in them.
 *
 * It lies in one segment (segment.h), so that it outlives the process where the segment has a name. Memory is taken in
 * the order in which it is asked for: whoever attaches asks for the same sizes in the same order and gets what was there.
 *
 * What an update changes has two buffers; a commit says which of them counts, how many updates are in it and how many
 * steps of each trainer. There are two places for commits, and one store switches from the one to the other: a kill at any
 * instruction leaves the state before the update or after it. Until the next update begins to write, the state before
 * is still there, and can be gone back to.
 *
 * What must stay true: between two commits only the buffers that do not count are written. */
#ifndef TR_PSERVER_STATE_H
#define TR_PSERVER_STATE_H

#include "framework/status.h"

#include <stddef.h>

typedef struct tr_state tr_state;

/* What is known of a trainer. */
enum {
    TR_TRAINER_GONE = 1,              /* it has said goodbye, or died where that is survived */
    TR_TRAINER_LOST = 2,              /* it died, or all agreed to take it for dead */
    TR_TRAINER_IN   = 4,              /* update `decided` has its next step (server_decision.c) */
    TR_TRAINER_OUT  = 8               /* no update after `decided` has anything of it */
};

typedef struct tr_commit {
    uint64_t        updates;          /* applied */
    const uint64_t *settled;          /* steps of each trainer that are applied or dropped */
    const uint8_t  *trainer;          /* of each: the flags above */
    uint64_t        decided;          /* the last update of which is decided what makes it: `updates` or the next */
    uint64_t        decisions;         /* how many were given */
    uint32_t        start;            /* of the job, in which it was made: 1, 2, ...; 0: nothing was committed yet */
} tr_commit;

/* A new one; one of this name that nobody has is removed. `name` may be NULL: it ends with the process. `setup` is kept. */
tr_status tr_state_create(tr_state **out, const char *name, const void *setup, uint64_t bytes, int trainers);
/* The one of this name. TR_ENOTFOUND: there is none, or it was never complete (tr_state_ready). TR_EEXIST: a living process
 * has it. TR_EFORMAT: it is damaged: the setup, the last commit or what says where they are, by their checksums. */
tr_status tr_state_attach(tr_state **out, const char *name);
/* Let go of it; `forget`: and remove it. */
void      tr_state_free(tr_state *state, bool forget);

/* The name of server `server`'s in a job whose states' names begin with `prefix`; false: it is too long. */
bool      tr_state_name(char *out, size_t size, const char *prefix, int server);

/* Of several states of one server, on several hosts, the one of the highest age is the newest. 0: it is not whole, or not yet what
 * its server has. */
uint32_t  tr_state_age(const tr_state *state);
void      tr_state_set_age(tr_state *state, uint32_t age);
/* The rank that has all of this state, too, in this start of the job; -1, as in a new one: none. */
int       tr_state_replica_rank(const tr_state *state);
void      tr_state_set_replica_rank(tr_state *state, int rank);

/* Those of a job that are complete, of an age, and on this host: one malloc. Waits a moment for a process that looks at one, too. */
typedef struct tr_state_found {
    uint32_t server, age;
} tr_state_found;

tr_status tr_state_find(tr_state_found **out, int *count, const char *prefix);

const void *tr_state_setup(const tr_state *state, uint64_t *bytes);
int         tr_state_trainers(const tr_state *state);

/* The next `bytes` bytes, aligned to 64; zero in a new one. TR_EFORMAT: one that was attached has not so many. */
tr_status tr_state_take(void **out, tr_state *state, uint64_t bytes);
/* All is there, and committed: from here on it can be attached to. */
void      tr_state_ready(tr_state *state);

/* Which of the two buffers counts: 0 or 1. */
int       tr_state_side(const tr_state *state);
/* The last commit; its arrays live until the next. */
tr_commit tr_state_committed(const tr_state *state);
/* Let this count. `switches`: and the other buffer with it. */
void      tr_state_commit(tr_state *state, const tr_commit *commit, bool switches);
/* Go back by one update: to the other buffer. Only before anything was written since the last commit that switched. `commit`: what counts
 * then. NULL: which steps count is not known, and those of the update do until the next commit. */
void      tr_state_go_back(tr_state *state, const tr_commit *commit);

#endif
