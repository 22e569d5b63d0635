/* state.h - the durable state of a server: its setup, its variables, and the trainers' steps that are in them.
 *
 * The state lies in one segment (segment.h), so it outlives the process where the segment has a name. Memory is handed out in the order of
 * the calls. A process that attaches makes the same calls in the same order, and gets the memory that was there.
 *
 * Variables that an update changes have two buffers. A commit says which buffer counts, how many updates are in it, and how many steps of
 * each trainer. There is room for two commits, and one store switches between them. So a kill at any instruction leaves the state before
 * the update or the state after it. The state before an update stays available until the next update begins to write.
 *
 * What must stay true: between two commits only the buffer that does not count is written. */
#ifndef TR_PSERVER_STATE_H
#define TR_PSERVER_STATE_H

#include "framework/base/status.h"

#include <stddef.h>

typedef struct tr_state tr_state;

/* Flags of a trainer. */
enum {
    TR_TRAINER_GONE = 1,              /* the trainer has said goodbye, or died in a mode that goes on without it */
    TR_TRAINER_LOST = 2,              /* the trainer died, or all servers agreed to treat it as dead */
    TR_TRAINER_IN   = 4,              /* update `decided` contains the trainer's next step (server_decisions.h) */
    TR_TRAINER_OUT  = 8               /* the trainer is out for good: every server has all of its steps, or goes on without them */
};

/* The process that is a trainer, or that is called to become this trainer. */
typedef struct tr_member {
    uint32_t incarnation;                   /* of the process, as this trainer (tr_roster_next_incarnation) */
    int32_t  rank;
} tr_member;

/* What server 0 has decided about a snapshot (server_decisions.h). */
typedef struct tr_decided_snapshot {
    uint32_t number;                  /* of the newest one of which anything is decided; 0: none */
    bool     is_taken;                /* every server takes its part; otherwise the snapshot is given up */
    uint64_t update;                  /* where server 0 decides about updates, and it is taken: the state of this update */
} tr_decided_snapshot;

typedef struct tr_commit {
    uint64_t         updates;         /* updates that are applied */
    const uint64_t  *settled;         /* for each trainer, the steps that are applied or dropped */
    const uint8_t   *trainer;         /* for each trainer, the flags above */
    uint64_t         decided;         /* the last update whose contributions are decided: `updates` or the next one */
    uint64_t         decisions;       /* the number of the newest decision; 0: there was none */
    uint32_t         start;           /* the start of the job in which this commit was made: 1, 2, ...; 0: nothing was committed yet */
    const tr_member *member;          /* for each trainer, what the newest decision says; NULL: this state does not know */
    tr_decided_snapshot snapshot;
    uint32_t         newest_snapshot; /* the highest number of a snapshot that this server knows; 0: none */
} tr_commit;

/* Make a new state with a copy of `setup`. An old one of this name that no process holds is removed. `name` NULL: the state ends with the
 * process. */
tr_status tr_state_create(tr_state **out, const char *name, const void *setup, uint64_t bytes, int trainers);
/* Attach to the state of this name. TR_ENOTFOUND: there is none, or it was never complete (tr_state_ready). TR_EEXIST: a living process
 * holds it. TR_EFORMAT: by its checksums the setup, the last commit or the header is damaged. */
tr_status tr_state_attach(tr_state **out, const char *name);
/* Detach from the state. With `forget` also remove it. */
void      tr_state_free(tr_state *state, bool forget);

/* Make the name of a server's state, for a job whose states' names begin with `prefix`. False: the name is too long. */
bool      tr_state_name(char *out, size_t size, const char *prefix, int server);

/* The state generation. Of several states of one server on several hosts, the one with the highest generation is the newest. 0: the state
 * is incomplete, or not yet equal to its server's. */
uint32_t  tr_state_generation(const tr_state *state);
void      tr_state_set_generation(tr_state *state, uint32_t generation);
/* The rank that has all of this state, too, in this start of the job. -1: none, as in a new state. */
int       tr_state_replica_rank(const tr_state *state);
void      tr_state_set_replica_rank(tr_state *state, int rank);

/* List a job's complete states on this host with their generations, in one malloc. The call waits a moment for a process that looks at the
 * same state. */
typedef struct tr_state_found {
    uint32_t server, generation;
} tr_state_found;

tr_status tr_state_find(tr_state_found **out, int *count, const char *prefix);

const void *tr_state_setup(const tr_state *state, uint64_t *bytes);
int         tr_state_trainers(const tr_state *state);

/* Hand out the next `bytes` bytes, aligned to 64; in a new state they are zero. TR_EFORMAT: an attached state has fewer. */
tr_status tr_state_take(void **out, tr_state *state, uint64_t bytes);
/* The state is complete and committed: from here on another process can attach to it. */
void      tr_state_ready(tr_state *state);

/* Which of the two buffers counts: 0 or 1. */
int       tr_state_side(const tr_state *state);
/* The last commit. Its arrays are valid until the next commit. */
tr_commit tr_state_committed(const tr_state *state);
/* Make this commit count. With `switches` the other buffer counts from now on, too. */
void      tr_state_commit(tr_state *state, const tr_commit *commit, bool switches);
/* Go back by one update, to the other buffer. This is possible only before anything was written since the last commit that switched.
 * `commit` counts from then on. NULL: the settled steps are not known, and those of the undone update count until the next commit. */
void      tr_state_go_back(tr_state *state, const tr_commit *commit);

#endif
