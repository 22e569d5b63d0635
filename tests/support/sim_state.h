/* sim_state.h - the inside of a simulated job, shared by sim_job.c (ranks, and running them), sim_model.c (what is computed),
 * sim_rows.c (the same for a sparse table), sim_tasks.c (leased tasks), sim_meet.c (collectives), sim_store.c (what a server holds), sim_snapshot.c
 * (checkpoints), sim_trainer.c (what a trainer does) and sim_check.c (what must have come out). */
#pragma once

#include "tests/support/sim_job.h"

#include "proto/pserver.pb-c.h"
#include "pserver/wire/compress.h"
#include "pserver/wire/rounded.h"

/* Behind the keys of the table each batch of a leased task has a row on every server, which counts it. */
enum { SIM_ROWS = SIM_KEYS + SIM_BATCHES, SIM_MOST_STEPS = 1024 };

/* What it held at a moment. */
typedef struct sim_frozen {
    int     count;                    /* blocks */
    float **param, **momentum;
    float   rows[SIM_ROWS * SIM_WIDTH];
} sim_frozen;

/* What a server holds; it is there when its rank is not any more. */
typedef struct sim_place {
    sim_job   *job;
    tr_server *server;                /* of who serves here now */
    tr_replica *replica;              /* or keeps it for a server elsewhere */
    int        count;                 /* blocks */
    int64_t   *size;
    float    **param[2], **momentum[2];
    int        side;                  /* that counts */
    bool     **is_computed;           /* element by element: in the update that is being gathered */
    tr_update  update;
    bool       is_ready;              /* was committed */
    int        replica_rank;                /* rank + 1 of the replica that counts */
    bool       has_counted;           /* in this start of the job or an earlier one */
    bool       counts;                /* as a replica: has all that its server tells others */
    struct sim_frozen *frozen;        /* what a new replica gets */
    bool       may_fall;              /* it went back, or begins again where others had not dropped a step; not committed since */
    uint64_t   updates, decided, decisions, *settled;
    uint32_t   start;                 /* of the job, that committed last */
    uint8_t   *flags;                 /* of each trainer */
    tr_member *member;                /* the same */
    bool       knows_members;
    tr_decided_snapshot decided_snapshot;
    uint32_t     newest_snapshot;
    uint64_t **history;               /* of each update and trainer: the step that it has of it; 0: none */
    uint64_t   history_count;
    uint64_t  *seen;                  /* a digest of each block after each commit; where answers are to be of one update */
    size_t     seen_count;            /* commits */
    uint8_t   *packed;
    uint64_t   packed_bytes;
    float      rows[2][SIM_ROWS * SIM_WIDTH];
    tr_rows_merge merge;
    uint8_t   *tasks;                 /* the state of leased tasks */
    uint64_t   tasks_bytes;
    uint8_t   *board;                 /* what trainers have posted */
    uint64_t   board_bytes;
    uint64_t   reading;               /* number of the checkpoint that it reads; 0: values of one */
} sim_place;

/* Leased tasks of a trainer: `skip` of the first counts on. */
typedef struct sim_tasks {
    tr_task  lease[3], answer;
    int      held;
    bool     is_asking, is_over;
    uint64_t ticket;
    int64_t  ask_at, ask_after;
    int      batch[SIM_TASK_BATCHES], batches;     /* of the step that is being made */
} sim_tasks;

enum { SIM_WISHES = 64 };
enum { SIM_MOST_KEYS = SIM_KEYS + SIM_SERVERS * SIM_TASK_BATCHES };

/* Rows of a trainer that are on their way. */
typedef struct sim_rows {
    int64_t        keys[SIM_MOST_KEYS];
    uint64_t       first[SIM_SERVERS + 1], clock;
    float          value[SIM_KEYS * SIM_WIDTH];
    uint8_t        pieces[SIM_MOST_KEYS * (sizeof(int64_t) + SIM_WIDTH * sizeof(float))];
    tr_client_rows call;
} sim_rows;

typedef enum sim_phase { SIM_START, SIM_RESTORE, SIM_SETUP, SIM_TOLD_TASKS, SIM_FIRST_PULL, SIM_PULL, SIM_MEET, SIM_STAY, SIM_LAST, SIM_GOODBYE, SIM_END } sim_phase;

typedef struct sim_trainer {
    sim_job    *job;
    tr_client  *client;
    tr_carrier *carrier;              /* around the client */
    int         rank;
    int         index, steps, step;
    int         known;                /* steps that servers may have had before the job was started again */
    bool        was_over;             /* it had made all its steps before the job was started again */
    sim_phase   phase;
    uint64_t    ticket, posted, made; /* the operation that it waits for; the last one that it has posted, and that its core has begun */
    float      *param, *grad;
    float      *momentum;             /* as it was pulled, in jobs that are looked at */
    bool        takes_snapshot;           /* a snapshot that it has begun is not answered */
    struct { uint32_t number; uint64_t step; } seen[8];       /* snapshots that it knew of, and its last steps in them */
    bool        has_answers;              /* the core has begun it: its answers are of this one */
    bool        last_is_whole;              /* the last one that it has begun was whole */
    int         snapshot_step, snapshot_run;          /* the step behind its last snapshot; snapshots that it has begun step by step until then */
    bool        wants_snapshot;           /* a death has cost one, and it is begun anew behind the next step */
    int         tries;                /* of the last snapshot */
    int64_t     asleep_until;         /* a replacement */
    int64_t     waits_since, waited;  /* for the step that comes; longest of all */
    float      *residual;             /* of compression, for all blocks */
    uint8_t    *payload;
    tr_client_pieces *pieces;         /* of each block */
    double      weight;
    const char *fact;
    bool        has_computed;             /* the gradients that it sends next; in a cluster */
    int64_t     first_step_at, last_step_at;
    sim_rows   *pulled, *pushed;      /* of this process: one that wakes behind its death may write there */
    sim_tasks   tasks;
    int         met;                  /* collectives */
    bool        is_meeting;           /* the last post is not answered */
    int         idle;                 /* of its steps, the last ones, were made without a gradient: others waited for them */
    bool        has_stopped;          /* it has asked all to end */
    tr_client_post post;
    uint32_t    checkpoint;           /* that it asks for: the newest is 2 */
    tr_client_restored restored[SIM_SERVERS];
    int         wish[SIM_WISHES];     /* what it was asked to do (sim_script.c), a ring */
    unsigned    wishes_first, wishes_end;
    bool        is_asking;            /* it has asked for a part of the parameters */
} sim_trainer;

/* A collective's first result. */
enum { SIM_MEETINGS = 32 };
typedef struct sim_meeting {
    uint8_t *bytes;
    uint64_t size;
} sim_meeting;

/* What a trainer asks of its core, in the turn of who drives; `data` and `weight` of the commands are not used. */
typedef enum sim_op {
    SIM_OP_SET_UP, SIM_OP_SET, SIM_OP_PUSH, SIM_OP_PUSH_COMPRESSED, SIM_OP_PUSH_ROWS, SIM_OP_STEP_END, SIM_OP_STEP_IDLE, SIM_OP_PULL, SIM_OP_EXPECT_ROWS,
    SIM_OP_PULL_ROWS,
    SIM_OP_STAY, SIM_OP_GOODBYE, SIM_OP_TASKS, SIM_OP_TASK_ASK, SIM_OP_TASK_END, SIM_OP_POST, SIM_OP_RESTORE,
    SIM_OP_SNAPSHOT, SIM_OP_REST, SIM_OP_FLUSH     /* from here on they are no operations */
} sim_op;

/* Of what SIM_OP_PULL asks for: everything, the first parameter, the others. */
typedef enum sim_part { SIM_ALL, SIM_FIRST, SIM_OTHERS } sim_part;

/* A rank: its core, in its event loop. */
typedef struct sim_rank {
    sim_job     *job;
    int          number;
    char         host[12];            /* its own, in a cluster */
    const tr_roster *roster;          /* the loop's; NULL until all ranks are known */
    tr_server   *server;              /* a server's core, or a standby's that took a place */
    tr_standby    *standby;
    tr_replica  *replica;
    sim_trainer *trainer;
    sim_trainer *corpse;              /* what died here, when another rank is that trainer now; `trainer` is the same */
    bool         is_over;             /* there is nothing left to do */
    int          first_goodbye;       /* who hears its first goodbye */
    int          dies_behind;         /* so many of them; -1: by itself it does not die */
    bool         is_dying;
} sim_rank;

typedef struct sim_block {
    int     param, server;
    int64_t size, at;                 /* in the vector of all */
} sim_block;

/* An apply that takes time ends in a rank that may be dead by then, or replaced. */
typedef struct sim_applied {
    struct sim_applied *next;         /* of the job's, which frees them: a run may end before they happen */
    sim_place          *place;
    tr_server          *server;
    tr_replica         *replica;
    int                 rank;
    uint8_t            *bytes;        /* of a part of a snapshot on its way to the disk */
    size_t              size;
} sim_applied;

struct sim_job {
    sim_options      options;
    tr_policy        policy;
    tr_compress      compress;
    tr_sim          *sim;
    int              size, blocks;
    sim_rank        *rank;
    sim_place       *place;           /* of each server, then of each replica */
    sim_trainer     *trainer;
    sim_block       *block;
    tr_client_value *first;           /* of each server, room for all blocks */
    int              snapshot_run;                    /* the longest of all trainers */
    bool             is_even, is_slow;
    int              replacements;           /* that took a place */
    int              called;          /* ranks that became replicas, and count */
    int              start;           /* of the job: 1, 2, ... */
    int              losses;          /* trainers that died before this start of the job */
    bool            *left_out;        /* of each server, trainer and step: it has no gradient there */
    sim_applied     *applied;
    sim_snapshot    *snapshots;
    sim_meeting      meeting[SIM_MEETINGS];
    int              speakers;        /* ranks that have printed why the job has failed */
};

/* sim_model.c */
/* Is everything a whole number? */
bool      sim__is_whole(const sim_job *job);
/* Is this trainer the first one of its host group? */
bool      sim__begins_group(const sim_job *job, int trainer);
void      sim__first_params(const sim_job *job, float *param);
void      sim__first_momentum(const sim_job *job, float *momentum);
void      sim__gradient(const sim_job *job, float *grad, const float *param, int who, int step, double weight);
double    sim__weight(const sim_job *job, int who, int step);
/* Do scripts set values before this step? Then put them into these arrays; NULL: no matter. *block: whose they are. */
bool      sim__set(const sim_job *job, int step, int *block, float *param, float *momentum);
/* What a trainer computes step `step` with: `param` as it has been pulled, and what it sets. `out` is room for it. */
const float *sim__seen(const sim_job *job, float *out, const float *param, int step);
/* What a trainer gets of a server's values: these, or `out` with them rounded. */
const float *sim__pulled(const sim_job *job, float *out, const float *values, int64_t count);
/* Does a block of this size travel compressed? */
bool      sim__is_compressed(const sim_job *job, int64_t size);
/* A gradient of all blocks as it arrives from a trainer with this residual, which becomes what it has left out. */
void      sim__arrive(const sim_job *job, float *grad, float *residual, double weight);
void      sim__descend(const sim_job *job, float *to, float *momentum_to, const float *param, const float *momentum,
                       const float *grad, int64_t count);

/* How many steps a trainer may be ahead of any other, mode ssp: more than the mode says while a snapshot is gathered (server_snapshots.c). */
int64_t   sim__bound(const sim_job *job);

/* sim_rows.c */
void      sim__first_rows(const sim_job *job, float *rows);
tr_status sim__store_rows(void *self, uint32_t table, const int64_t *keys, int64_t n, void *out, uint32_t *hints);
tr_status sim__store_rows_before(void *self, uint32_t table, const int64_t *keys, int64_t n, void *out);
void      sim__apply_rows(sim_place *p);
/* Ask for the rows of the step that comes; push those of the one that is being made. */
void      sim__pull_rows(sim_trainer *t);
void      sim__expect_rows(sim_trainer *t);
tr_status sim__store_expect_rows(void *self, uint32_t index, const int64_t *keys, int64_t n);
void      sim__push_rows(sim_trainer *t);
void      sim__check_clock(const sim_trainer *t);
void      sim__check_rows_in_step(const sim_job *job);
void      sim__check_decided_rows(const sim_job *job, const sim_place *all);
void      sim__check_settled_rows(const sim_job *job);

/* sim_job.c */
/* Tell who watches: what the store of a server or replica does. */
void      sim__tell(const sim_place *p, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* sim_script.c */
void      sim__tell_commit(const sim_place *p, const tr_commit *commit, bool is_update);
tr_sim_plan sim__scripted_go_on(sim_trainer *t);

/* sim_meet.c */
/* Take part in the next collective that the trainer's steps say. False: in all of them it has. */
bool      sim__meet(sim_trainer *t);
/* Does it make another step without a gradient, since others wait for it, or have made more than this trainer that waited for them? */
bool      sim__meet_makes_step(sim_trainer *t);
void      sim__meet_command(sim_trainer *t);
/* Ask all to end, where this trainer does so after this step; else look whether it has heard of it in time. False: it has not asked. */
bool      sim__stop(sim_trainer *t);
void      sim__meet_deinit(sim_trainer *t);
void      sim__meetings_forget(sim_job *job);

/* sim_tasks.c */
/* Say what the tasks are. */
void      sim__tasks_begin(sim_trainer *t);
/* Is there a batch to make? Where all is over the trainer has made its last step. */
bool      sim__tasks_have_batch(sim_trainer *t);
/* What it does while it has none. */
tr_sim_plan sim__tasks_wait(const sim_trainer *t);
void      sim__tasks_command(sim_trainer *t, sim_op op, uint32_t lease);
/* There is none: in ssp the trainer keeps pace by a step without a gradient. False: it waits. */
bool      sim__tasks_idle(sim_trainer *t);
/* The step that is being made is of the next batches. */
void      sim__tasks_make_step(sim_trainer *t);
/* Rows that count the batches which a job has behind it that goes on from a snapshot. */
void      sim__tasks_first_rows(const sim_job *job, float *rows);
/* Trainers that died, in all starts of the job. */
int       sim__losses(const sim_job *job);
/* The position in a snapshot is that of what its servers have. */
void      sim__check_position(const sim_job *job, const sim_snapshot *one);

/* sim_store.c */
/* Did this server let the trainer leave this step out? */
bool       sim__is_left_out(const sim_job *job, int server, int trainer, uint64_t step);
/* The core of server `index`, in this rank, over what is in its place. */
tr_server *sim__server_new(sim_rank *r, int index);
/* The core of its replica. */
tr_replica *sim__replica_new(sim_rank *r, int index);
/* In the middle of the job. */
tr_replica *sim__replica_new_called(sim_rank *r, int index);
void       sim__place_free(sim_place *p);

/* The rank that serves in this place, or did last. */
int        sim__place_rank(const sim_place *p);
/* For what comes later: NULL when this server is not there any more by then. */
sim_applied *sim__later(sim_place *p);
bool       sim__is_there(const sim_applied *later);

/* sim_snapshot.c */
void      sim__store_snapshot(void *self, const Trireme__Pserver__SnapshotTarget *target);
/* Where the trainer is, packed, as the client wants it for a snapshot that another has begun. */
/* Note the snapshot that this trainer knows of. */
void      sim__see_snapshot(sim_trainer *t);
uint8_t  *sim__pack_place(void *self, size_t *size, uint64_t step);
void      sim__snapshot(sim_trainer *t);
void      sim__snapshot_command(sim_trainer *t, uint64_t step);
/* The snapshot is answered: keep it if it is whole. */
void      sim__take_answers(sim_trainer *t);
void      sim__snapshots_free(sim_job *job);

/* sim_check.c */
/* Where it is decided what makes an update: all servers have done the same, whether the job went well or not. */
void      sim__check_agreement(const sim_job *job);
/* Remember what blocks are like; each block that a trainer has pulled is like one of those. */
void      sim__note_blocks(sim_place *p);
bool      sim__is_looked_at(const sim_job *job);
void      sim__check_pulled(const sim_trainer *t);

/* sim_trainer.c */
/* Memory of its own, and nothing done yet. */
void      sim__trainer_init(sim_trainer *t, sim_job *job, int index, int rank);
void      sim__trainer_deinit(sim_trainer *t);
/* Is the process dead that is this trainer, or was it last? */
bool      sim__trainer_is_dead(const sim_job *job, int index);
/* A replacement that is slow to come does nothing for a while. */
void      sim__trainer_sleep(sim_trainer *t);
/* Hand a command over to the core. Returns its ticket if it is an operation. */
uint64_t  sim__ask(sim_trainer *t, sim_op op, uint32_t of);
/* The same to be done at once, without company. */
void      sim__ask_now(sim_trainer *t, sim_op op);
void      sim__trainer_command(sim_trainer *t, const tr_command *command);
/* Do the next thing. */
tr_sim_plan sim__trainer_go_on(sim_trainer *t);
/* Begin: ask for the setup, or for a checkpoint before it. */
void      sim__begin(sim_trainer *t);
/* All servers have answered. False: another checkpoint is asked for. */
bool      sim__has_restored(sim_trainer *t);
