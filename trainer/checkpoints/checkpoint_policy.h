/* checkpoint_policy.h - when a training writes a checkpoint: one state machine for scripts and for trireme-trainer.
 *
 * The policy does no I/O and reads no clock. Its caller, trainer/checkpoints/checkpoint_manager.c, tells it events and obeys its answers:
 *
 *     if (tr_checkpoint_policy_becomes_initiator(policy, is_initiator))          // look into the folder, then
 *         tr_checkpoint_policy_take_over(policy, steps, newest, age, now);
 *     switch (tr_checkpoint_policy_look(policy, &view)) {                // between two steps
 *     case TR_CHECKPOINT_REPORT:                                         // ask how the last one ended, then look again
 *         says = tr_checkpoint_policy_ended(policy, status, is_given_up);
 *     case TR_CHECKPOINT_BEGIN:                                          // begin one
 *         tr_checkpoint_policy_begun(policy, steps, now);
 *     case TR_CHECKPOINT_STOP: ...                                       // make the last one, then end with TR_STOPPED
 *     }
 *     while ((action = tr_checkpoint_policy_finish(policy, steps, has_more)) != TR_CHECKPOINT_GO_ON) ...     // the last one
 *
 * What must stay true: all steps are steps of this trainer, those of earlier starts included. All times are nanoseconds of one
 * monotonic clock. */
#pragma once

#include "pserver/trireme_dist.h"
#include "storage/trireme_checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Exit code of all ranks of a job that was asked to stop and wrote its checkpoint: EX_TEMPFAIL. */
enum { TR_STOPPED = 75 };

enum {
    TR_CHECKPOINT_SECONDS = 600,      /* between two checkpoints, where neither steps nor seconds are given */
    TR_CHECKPOINT_PATIENCE = 3600,    /* seconds to wait for a disk */
    TR_CHECKPOINT_LOOK_MILLISECONDS = 100     /* between two looks at signals while a trainer waits for the end of the others */
};

/* -- where a training goes on from -------------------------------------------------------------------- */

typedef enum tr_checkpoint_origin {
    TR_ORIGIN_BEGINNING = 0,          /* no step was made before */
    TR_ORIGIN_CHECKPOINT = 1,         /* the newest valid checkpoint of the folder */
    TR_ORIGIN_SERVERS = 2             /* the servers hold the state; tr_beginning_read says where they began to count */
} tr_checkpoint_origin;

/* servers_have_state: the job was started again, or this trainer replaces a dead one. has_some: the folder holds a checkpoint. */
TR_API tr_checkpoint_origin tr_checkpoint_origin_of(bool servers_have_state, bool resume, bool has_some);
/* Does a training from this origin read the newest checkpoint? steps: of this trainer until now. has_some: as above. */
TR_API bool tr_checkpoint_origin_reads(tr_checkpoint_origin origin, int64_t steps, bool has_some);
/* Does it take a variable's value from the checkpoint? The servers' state is newer than any checkpoint; of
 * the rest only statistics are better old than new. */
TR_API bool tr_checkpoint_origin_takes(tr_checkpoint_origin origin, tr_state_kind kind, bool is_on_servers);
/* The origin in words, in which all trainers must agree: "step 12, snapshot 00000000deadbeef"; NULL: "the beginning". Free it by
 * tr_free. */
TR_API char *tr_checkpoint_origin_text(const tr_checkpoint *from);

/* -- when a checkpoint is due ------------------------------------------------------------------------- */

/* What the policy must know at its start. */
typedef struct tr_checkpoint_start {
    int64_t every_steps;              /* write after each multiple of so many steps; 0: the number of steps does not matter */
    double  every_seconds;            /* write when the last one is so old; 0: the time does not matter. Both 0: 600 s */
    int64_t first;                    /* steps of this trainer when the launch began */
    int64_t steps_on_servers; /* further steps, which an earlier start of this launch left with the servers */
    int64_t resumed;                  /* the step in the name of the checkpoint that the training goes on from; -1: none */
    int64_t newest;                   /* the newest step in the folder now; -1: none */
    bool    servers_have_state;       /* as in tr_checkpoint_origin_of */
    bool    is_first;                 /* the only process, or trainer 0: it makes the checkpoints of a new job */
    bool    can_lag;                  /* other trainers may make steps while this one makes none (tr_policy.snapshots_all) */
} tr_checkpoint_start;

/* What the caller sees between two steps. */
typedef struct tr_checkpoint_view {
    int64_t steps;                    /* ended */
    int64_t now;
    bool    is_possible;              /* false: between two exchanges of mode geo, or tr_job_is_uneven */
    bool    is_under_way;             /* the last checkpoint is still being written (tr_job_checkpoint_is_under_way) */
    bool    is_asked;                 /* a signal asked for the end */
} tr_checkpoint_view;

typedef enum tr_checkpoint_action {
    TR_CHECKPOINT_GO_ON = 0,          /* make the next step; of tr_checkpoint_policy_finish: nothing is left to do */
    TR_CHECKPOINT_REPORT = 1,         /* wait for the last checkpoint, tell its outcome by _ended, and ask again */
    TR_CHECKPOINT_BEGIN = 2,          /* begin a checkpoint and say so by _begun */
    TR_CHECKPOINT_STOP = 3            /* make the last checkpoint by _finish, then end the process with TR_STOPPED */
} tr_checkpoint_action;

typedef struct tr_checkpoint_policy tr_checkpoint_policy;

TR_API tr_checkpoint_policy *tr_checkpoint_policy_new(const tr_checkpoint_start *start, int64_t now);
TR_API void                  tr_checkpoint_policy_free(tr_checkpoint_policy *policy);

/* Note whether this trainer makes the checkpoints now. True: it has just begun to; call tr_checkpoint_policy_take_over. */
TR_API bool tr_checkpoint_policy_becomes_initiator(tr_checkpoint_policy *policy, bool is_initiator);
/* Another trainer made checkpoints until now. newest: the newest step in the folder, -1: none. age: tr_checkpoint_age. */
TR_API void tr_checkpoint_policy_take_over(tr_checkpoint_policy *policy, int64_t steps, int64_t newest, double age, int64_t now);

/* Between two steps of the trainer that makes checkpoints: what to do. */
TR_API tr_checkpoint_action tr_checkpoint_policy_look(const tr_checkpoint_policy *policy, const tr_checkpoint_view *view);
/* Steps that a loop may make before the next look; 0: any number. */
TR_API int64_t tr_checkpoint_policy_steps_to_look(const tr_checkpoint_policy *policy, const tr_checkpoint_view *view);
/* A training ends: what to do for its last checkpoint. Call it until it returns TR_CHECKPOINT_GO_ON. A checkpoint that failed is tried
 * once more, because a dying server takes its part along. has_more: the servers made more updates than this trainer made steps. */
TR_API tr_checkpoint_action tr_checkpoint_policy_finish(tr_checkpoint_policy *policy, int64_t steps, bool has_more);

/* A checkpoint of so many steps was begun. */
TR_API void tr_checkpoint_policy_begun(tr_checkpoint_policy *policy, int64_t steps, int64_t now);
/* It has ended with this status; is_given_up: because a rank died, so another one is begun soon. True: tell the user of the failure.
 * Only the first failure in a row is told. */
TR_API bool tr_checkpoint_policy_ended(tr_checkpoint_policy *policy, tr_status status, bool is_given_up);

/* One was begun, and its outcome was not told yet. */
TR_API bool tr_checkpoint_policy_is_pending(const tr_checkpoint_policy *policy);
/* The step in the name of a checkpoint that is made now. It is never lower than the step of a checkpoint before. */
TR_API int64_t tr_checkpoint_policy_label(const tr_checkpoint_policy *policy, int64_t steps);
/* Are these steps in a checkpoint? */
TR_API bool tr_checkpoint_policy_has_saved(const tr_checkpoint_policy *policy, int64_t steps);
/* The status of the last checkpoint: TR_OK, or why it was not written. Training goes on without it; a training that ends without its
 * last checkpoint fails. */
TR_API tr_status tr_checkpoint_policy_status(const tr_checkpoint_policy *policy);
/* "checkpoint of step 12: 4096 bytes in 0.012 s, trainers waited 0.40 ms", by TRIREME_CHECKPOINT_REPORT=1; NULL: nobody asked for it. Free
 * it by tr_free. */
TR_API char *tr_checkpoint_report_text(const tr_job_checkpoint_report *report);
/* "stopped by SIGTERM after step 12; the checkpoint is DIR/step-000000012", or that there is none; free it by tr_free. */
TR_API char *tr_checkpoint_policy_stop_text(const tr_checkpoint_policy *policy, const char *folder, const char *signal, int64_t steps);

#ifdef __cplusplus
}
#endif
