/* checkpoint_manager.h - the checkpoints of one training: the place where it goes on, the contents of a checkpoint, and when one is
 * written. Scripts and saved jobs, alone and as trainers of a job, have the same manager (docs/adr/0055). checkpoint_policy.h decides when
 * one is due.
 *
 *     manager = tr_checkpoint_manager_new(&options, job);
 *     status = tr_checkpoint_manager_begin(manager, &contents);          // after the startup program: where does the training go on?
 *     status = tr_checkpoint_manager_load(manager);                      // the scope's variables get the values of the checkpoint
 *     status = tr_checkpoint_manager_begin_step(&stops, manager);        // before each step. A tr_loop looks by itself, between its steps
 *     while ((status = tr_checkpoint_manager_end(manager, 0.1)) == TR_ETIMEOUT) ...     // after the last step: the last checkpoint
 *
 * What must stay true: a process has one manager for a training. One thread uses it at a time, between two steps. */
#pragma once

#include "trainer/checkpoints/checkpoint_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tr_checkpoint_manager tr_checkpoint_manager;

/* The user's choices. */
typedef struct tr_checkpoint_options {
    const char *folder;               /* NULL: no checkpoints are kept; the manager counts steps */
    int64_t     every_steps;          /* as in a tr_checkpoint_start */
    double      every_seconds;
    int         keep;                 /* how many of the newest stay; 0: all */
    int64_t     full_every;           /* of so many checkpoints in a row one is full, and the others have only changed rows of tables; 0
                                       * and 1: all are full */
    tr_checkpoint_rows rows;          /* how rows of tables are written */
    bool        resume;               /* go on from the newest valid one, if there is one; a line says if there is none */
    bool        needs_one;            /* beside resume: refuse a folder without any (TR_ENOTFOUND) */
    tr_checkpoint_entry entry;        /* of a training that begins or resumes */
    const char *command;              /* the script or job and its arguments, as in tr_checkpoint_claim; may be NULL */
} tr_checkpoint_options;

/* A variable that a checkpoint holds, as in a tr_checkpoint_item. */
typedef struct tr_checkpoint_variable {
    const char   *name, *param;
    tr_state_kind kind;
    bool          is_on_servers;      /* the servers write it; a table always is, in a job */
    bool          is_pulled;          /* trainers other than trainer 0 need no value of the checkpoint: it comes from the servers, or nobody
                                       * reads it */
} tr_checkpoint_variable;

/* The contents of the checkpoints of a training, and what the manager asks its caller. All of it must outlive the manager. */
typedef struct tr_checkpoint_contents {
    tr_program       *program;        /* declares the variables */
    tr_scope         *scope;
    int               count;
    const tr_checkpoint_variable *variables;
    const char       *mode;           /* of the job, as for tr_policy_parse; NULL: one process */
    const char       *exchange_count; /* a mode that trains copies: the int64 variable that is 0 right after an exchange; else NULL */
    /* Set *bytes, the place in the data, valid until the next call. NULL: nobody knows it. */
    tr_status       (*position)(const void **bytes, size_t *size, void *payload);
    /* Set *text, a digest of the program. It is asked for when it is first needed. NULL: checkpoints have none. */
    tr_status       (*digest)(const char **text, void *payload);
    /* Tell the user a line. NULL: on standard error. */
    void            (*say)(const char *text, bool is_warning, void *payload);
    void             *payload;
} tr_checkpoint_contents;

/* The place where a training begins. */
typedef struct tr_checkpoint_beginning {
    tr_checkpoint_origin origin;
    const tr_checkpoint *checkpoint;  /* of origin TR_ORIGIN_CHECKPOINT: borrowed from the manager. Else NULL */
    const char          *refused;     /* a line for each newer checkpoint that was refused; NULL: none */
    int64_t              steps, runs; /* of this trainer until then */
    const void          *position;    /* of this trainer in its data, as the checkpoint has it; NULL: unknown */
    size_t               position_size;
} tr_checkpoint_beginning;

TR_API tr_checkpoint_manager *tr_checkpoint_manager_new(const tr_checkpoint_options *options, tr_job *job);
TR_API void      tr_checkpoint_manager_free(tr_checkpoint_manager *manager);

/* Find where the training begins; the place is found once. Where the servers hold the state (tr_checkpoint_origin), it is the place where
 * the launch began. Otherwise it is the newest checkpoint, or the beginning. */
TR_API tr_status tr_checkpoint_manager_find(tr_checkpoint_beginning *out, tr_checkpoint_manager *manager);

/* The training begins: claim the folder, find the place, and tell the user of a checkpoint that the training goes on from. */
TR_API tr_status tr_checkpoint_manager_begin(tr_checkpoint_manager *manager, const tr_checkpoint_contents *contents);
/* Give the scope's variables the values of the checkpoint, if the training goes on from one. */
TR_API tr_status tr_checkpoint_manager_load(tr_checkpoint_manager *manager);
/* Has `load` given this variable a value that is older than the servers' state? Statistics are better old than new. */
TR_API bool      tr_checkpoint_manager_has_old(const tr_checkpoint_manager *manager, const char *name);

/* -- steps ------------------------------------------------------------------------------------------- */

/* Steps of this trainer that have ended, those of earlier starts included; and runs of its program. */
TR_API int64_t   tr_checkpoint_manager_steps(const tr_checkpoint_manager *manager);
TR_API int64_t   tr_checkpoint_manager_runs(const tr_checkpoint_manager *manager);
/* How many of these steps an earlier start of this launch has left with the servers. */
TR_API int64_t   tr_checkpoint_manager_steps_on_servers(const tr_checkpoint_manager *manager);

/* A step begins: do the work that is due before it. It counts from now on. *stops: a signal asked for the end, and the last checkpoint
 * is written. Then no step begins, and the process ends with TR_STOPPED. */
TR_API tr_status tr_checkpoint_manager_begin_step(bool *stops, tr_checkpoint_manager *manager);
/* So many steps were made without a run of the program. */
TR_API void      tr_checkpoint_manager_count_idle(tr_checkpoint_manager *manager, int64_t steps);
/* A run has failed, and the job has retracted its step. has_begun: the step had begun here, too. */
TR_API void      tr_checkpoint_manager_retract(tr_checkpoint_manager *manager, bool has_begun);

/* A loop does the same by these. It begins: in one process its program has made `runs` runs until now; in a job, as many as were
 * counted. */
TR_API tr_status tr_checkpoint_manager_begin_loop(tr_checkpoint_manager *manager, int64_t runs);
/* The loop has made so many steps. */
TR_API void      tr_checkpoint_manager_count(tr_checkpoint_manager *manager, int64_t made);
/* Between two steps of the loop: do the work that is due. *stops: as above. */
TR_API tr_status tr_checkpoint_manager_look(bool *stops, tr_checkpoint_manager *manager);
/* Steps until the next look, where checkpoints depend on the number of steps; 0: they do not. */
TR_API int64_t   tr_checkpoint_manager_steps_to_look(tr_checkpoint_manager *manager);

/* The training is over. Wait until all trainers have made their steps, and make the last checkpoint if that is this trainer's task.
 * TR_ETIMEOUT: others still make steps, after so many seconds; call it again. Any other failure: the last checkpoint was not written. */
TR_API tr_status tr_checkpoint_manager_end(tr_checkpoint_manager *manager, double seconds);

/* "stopped by SIGTERM after step 12; the checkpoint is DIR/step-000000012", or that there is none; free it by tr_free. */
TR_API char     *tr_checkpoint_manager_stop_text(const tr_checkpoint_manager *manager);

/* -- a checkpoint on request --------------------------------------------------------------------------- */

typedef struct tr_checkpoint_request {
    const char *folder;
    int         keep;                 /* how many of the newest stay; 0: all */
    int64_t     step;                 /* in its name; -1: the trainer's steps. In one process it is the number of these steps, too */
    int64_t     runs;                 /* of the trainer's program; -1: as many as were counted */
    const void *position;             /* of this trainer in its data; NULL: unknown */
    size_t      position_size;
} tr_checkpoint_request;

/* Make a checkpoint now, and wait for it. In a job, one that a rank's death costs is made again when the rank is replaced. */
TR_API tr_status tr_checkpoint_manager_take_whole(tr_checkpoint_manager *manager, const tr_checkpoint_request *request);

#ifdef __cplusplus
}
#endif
