/* trireme_dist.h - the C API of a Trireme job: trainers that share parameters through servers.
 *
 *     mpirun -np 2 trireme-pserver : -np 4 python train.py
 *
 * Every rank starts a job and learns the role and number of all ranks. Trainers then agree on the work and train:
 *
 *     tr_job *job = NULL;
 *     tr_job_start(&job, TR_ROLE_TRAINER, NULL);
 *     tr_job_setup(job, &spec);                    // programs, blocks and first values of the servers
 *     tr_job_pull(job, n, blocks, memory, &ticket);
 *     tr_job_wait(job, ticket);                    // now all trainers hold the same parameters
 *     for (each step) {
 *         for (each block)
 *             tr_job_push(job, block, gradient, bytes, samples, NULL);
 *         tr_job_step_end(job, NULL);              // the servers may apply what was pushed
 *         tr_job_pull(job, n, blocks, memory, &ticket);
 *         tr_job_wait(job, ticket);
 *     }
 *     tr_job_goodbye(job);                         // the others go on without this one
 *     tr_job_free(job);
 *
 * A server calls tr_job_start(TR_ROLE_SERVER), tr_job_serve and tr_job_free, and nothing else. The program `trireme-pserver` does that.
 *
 * Why tickets: the call of a push or pull only queues it. A communication thread of the job moves the data, so that computing and
 * communicating overlap. A ticket is done when the servers have acknowledged all of its requests. Tickets are done in the order in which
 * the calls returned them: waiting for one waits for all before it.
 *
 * Errors that any call of a trainer can return, and that are not repeated below:
 * - TR_EINVAL: the rank is no trainer, or has said goodbye; or the call needs tr_job_setup before it.
 * - TR_ERANGE: a block, a table, a count or a number is out of range.
 * - TR_EPEER: the job has failed. tr_error() names the rank that caused it and what was waited for.
 * - TR_ETIMEOUT: a wait was longer than `wait_timeout`, or than the call's own seconds.
 *
 * What must stay true:
 * - Memory handed to a pull stays alive until the ticket of the pull is done. A pushed gradient stays alive and unchanged until the
 *   ticket of the step's end is done: a standby that takes a dead server's place gets the gradient again.
 * - One thread of the program uses a job at a time.
 * - No call waits without a bound. A job fails when a rank refuses the work. It also fails when a rank dies or falls silent, no standby
 *   takes its place, and the mode cannot go on without it (docs/distributed.md). Then every call of every other rank fails with
 *   TR_EPEER, and one rank prints the reason. A process that has not ended by itself after `grace` seconds is ended with exit code 1. */
#ifndef TRIREME_DIST_H
#define TRIREME_DIST_H

#include "framework/trireme.h"
#include "storage/trireme_checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tr_role {
    TR_ROLE_TRAINER = 0,
    TR_ROLE_SERVER = 1,
    TR_ROLE_STANDBY = 2,                /* waits; takes the place of a dead server of its host or of a dead trainer, or becomes a server's
                                         * replica */
    TR_ROLE_REPLICA = 3,              /* repeats all updates of one server of another host; no trainer asks it */
    TR_ROLE_COUNT
} tr_role;

typedef struct tr_job tr_job;

/* Handle of a queued request. 0 is a request that is done. */
typedef uint64_t tr_ticket;

/* Times are in seconds. Zero and NULL stand for the default, which stands after each field. */
typedef struct tr_job_options {
    double      heartbeat;            /* the longest time between two signs of life;                   0.5 */
    double      timeout;              /* a rank that is silent for this long is dead; TRIREME_TIMEOUT or 3 */
    double      start_timeout;        /* all ranks must have joined by then; TRIREME_START_TIMEOUT or 60 */
    double      wait_timeout;         /* the longest wait for ranks that live (they may compute);      3600 */
    double      grace;                /* time for this process to end after another one's death;       0.5 */
    int64_t     chunk_bytes;          /* larger blocks travel in pieces of this size: a multiple of 64, 4096 .. 16777216; 524288 */
    int64_t     window_bytes;         /* bytes pushed to a server and not yet acknowledged, at most; at least chunk_bytes; 67108864 */
    bool        can_replace;          /* a standby may also take a dead trainer's place: see tr_job_serve */
    const char *transport;            /* path of trireme_mpi.so; NULL: TRIREME_TRANSPORT, else the file beside this library */
} tr_job_options;

/* Initialize the library as tr_init does. Also register the operators that talk to servers and those of sparse tables
 * (docs/operators.md). A process that uses this header calls it instead of tr_init. */
TR_API tr_status tr_dist_init(void);

/* True in a process that mpirun (or srun) started. Such a process has a job to start. */
TR_API bool tr_job_is_launched(void);
/* Let this process end when mpirun ends, and tell the launcher, if there is one, that this rank has begun. tr_job_start does the former,
 * too. Call this earlier where a rank prepares for long before it starts its job. */
TR_API void tr_job_prepare(void);
/* Tell the launcher, if there is one, that this process ends by itself, with this exit code (its low 8 bits) and reason. So the launcher
 * does not take the end for a death. */
TR_API void tr_job_tell_failure(int code, const char *why);

/* Start MPI on a communication thread and exchange hellos with all ranks. *out: the job, to be freed by tr_job_free. `options` may be
 * NULL; it is copied. TR_EINVAL, TR_ERANGE: a bad role or option. TR_EUNSUPPORTED: mpirun did not start this process. TR_EEXIST: this
 * process has started a job before (MPI starts only once). */
TR_API tr_status tr_job_start(tr_job **out, tr_role role, const tr_job_options *options);
/* Let the runs of an executor take part in the job: operators such as send and recv ask their run for it. NULL: in none. When the job is
 * freed, and in a child made by fork, the executor has no job. */
TR_API void    tr_executor_set_job(tr_executor *executor, tr_job *job);
/* Say goodbye if the trainer has not done so, wait (bounded) until all ranks are at their end, stop MPI and free the job. Returns the
 * failure of the job, if there was one. The handle is invalid in any case. NULL is fine. */
TR_API tr_status tr_job_free(tr_job *job);

/* After tr_job_free: must this process end by _exit? True after a job that went on without a dead rank: MPI is not finalized, because
 * MPI would wait for that rank. Also true if MPI does not end because its daemon does not answer. */
TR_API bool    tr_job_must_exit(void);
/* For a process that has left well (tr_job_free) and will end by `exit`: tell the launcher an exit code that is not 0, which becomes the
 * job's exit code. Ends the process by _exit where tr_job_must_exit asks for it. `name`: the rank's name, copied. */
TR_API void    tr_job_watch_exit(const char *name);

TR_API int     tr_job_rank(const tr_job *job);
TR_API int     tr_job_size(const tr_job *job);
TR_API tr_role tr_job_role(const tr_job *job);
TR_API bool    tr_job_is_replacement(const tr_job *job);             /* is it a trainer that was a standby? */
TR_API int     tr_job_index(const tr_job *job);               /* among the ranks of its role, from 0 */
TR_API int     tr_job_servers(const tr_job *job);
TR_API int     tr_job_trainers(const tr_job *job);
/* "rank 1 (server 1, host n03, pid 4711)"; "?" for a number that is no rank. Borrowed: it lives as long as the job. */
TR_API const char *tr_job_rank_name(const tr_job *job, int rank);

/* == servers ================================================================================= */

/* The work of a server, a standby or a replica. Returns TR_OK when every trainer has said goodbye, or the reason why the job has failed.
 * A standby waits; it may become a server or a replica within this call.
 *
 * A standby with `can_replace` may also be called to replace a dead trainer. Then it returns TR_OK early, and tr_job_role is
 * TR_ROLE_TRAINER. The caller goes on as that trainer; tr_job_resumed tells how many steps the dead trainer had made. TR_EINVAL: the
 * rank is a trainer. */
TR_API tr_status tr_job_serve(tr_job *job);

/* == trainers: what the servers are to do ==================================================== */

/* A part of one parameter: whole rows that lie on one server, under names of their own. */
typedef struct tr_job_block {
    const char *param;                /* name of the parameter's part in the server's program */
    const char *grad;                 /* name of its gradient there */
    int         server;               /* the server that holds it, 0 .. servers - 1 */
    tr_dtype    dtype;                /* of parameter and gradient: TR_FP32 or TR_FP64 */
    int64_t     bytes;                /* size of the parameter, and of the gradient */
    bool        is_exact;             /* the gradient is a number such as the loss: it travels uncompressed, and NaN in it is an error,
                                       * unless */
    bool        may_be_nan;           /* any value is allowed: the number changes no parameter */
} tr_job_block;

/* The first value of a persistable variable of one server: parts of parameters and of the optimizers' state,
 * learning rates. */
typedef struct tr_job_value {
    int            server;
    const char    *name;
    tr_dtype       dtype;
    int            rank;
    const int64_t *dims;
    const void    *data;              /* must stay alive until tr_job_setup returns */
    /* For checkpoints, as in a tr_checkpoint_item. `source` NULL: checkpoints do not hold this variable. */
    const char    *source;
    const char    *param;
    tr_state_kind  state;
    int64_t        row, rows;
    bool           is_restored;       /* with `restores`: the servers read it from the checkpoint; `data` is not used */
    bool           for_trainers;      /* no update uses this variable: trainers pull its first value by tr_job_pull_first. Every trainer
                                       * lists these */
} tr_job_value;

/* A serialized ProgramDesc. One run of block 0 is one whole apply step. Borrowed. */
typedef struct tr_job_program {
    const void *bytes;
    size_t      size;
} tr_job_program;

/* A fact that all trainers must agree on, in words: {"seed", "90"}, {"batch size", "32"}. Borrowed. */
typedef struct tr_job_fact {
    const char *key;
    const char *value;
} tr_job_fact;

/* The meaning of a consistency mode. It is made once, from the mode's text. All code that depends on the mode reads it.
 * docs/distributed.md explains the modes under "Consistency". */
typedef struct tr_policy {
    bool    is_lockstep;              /* all servers make the same updates in the same order; a server that is one update ahead goes back */
    bool    gathers_per_trainer;            /* gradients of different trainers are gathered apart from each other */
    bool    decides;                  /* server 0 decides for all servers which gradients make an update */
    bool    goes_on;                  /* an update that lacks a dead trainer's gradient is made of the others' */
    bool    survives_trainers;        /* the other trainers go on when one dies without a replacement */
    bool    snapshots_all;            /* every trainer takes part in a snapshot; otherwise its initiator alone does */
    bool    leases_tasks;             /* tasks of the data are leased (trireme_tasks.h); otherwise each trainer has its share */
    bool    caches_rows;              /* trainers may keep rows of sparse tables between steps */
    bool    trains_copies;            /* trainers run the optimizers on copies of their own; servers add what was changed */
    int64_t backups;                  /* slowest trainers that an update does not wait for: 0, 1, ... */
    int64_t lead;                     /* steps that a trainer may be ahead of the slowest: 0, 1, ...; -1: any number */
    int64_t period;                   /* steps of a trainer that make one step of the servers: 1, 2, ... */
    double  compensation;             /* factor x of the correction for delay, x times the squared gradient; 0: none */
    const char *text;                 /* the mode's present name, where it has an earlier one, too; else NULL */
} tr_policy;

/* Parse "sync", "sync(degraded)", "sync(backups=1)", "async", "async(compensation=0.04)", "ssp(3)", "geo(10)" or "average(10)". TR_EINVAL
 * or TR_ERANGE for any other text; the message lists what is possible. "sync(fewer)" is the earlier name of "sync(degraded)". */
TR_API tr_status tr_policy_parse(tr_policy *out, const char *mode);
/* The forms of the mode with this number, from 0, as "ssp(N)"; several are separated by ", ". NULL: there is no such number. The text lives
 * as long as the process. */
TR_API const char *tr_policy_texts(int index);

/* How gradients travel to the servers: see docs/distributed.md, "Compression". */
typedef enum tr_compress_kind {
    TR_COMPRESS_NONE = 0,
    TR_COMPRESS_FP16,
    TR_COMPRESS_BF16,
    TR_COMPRESS_INT8,
    TR_COMPRESS_TOPK,
    TR_COMPRESS_NONZERO,
    TR_COMPRESS_KIND_COUNT
} tr_compress_kind;

typedef struct tr_compress {
    tr_compress_kind kind;
    double           share;           /* of TR_COMPRESS_TOPK: the share of the values that travel, above 0 and up to 1 */
} tr_compress;

/* Parse "none", "fp16", "bf16", "int8", "nonzero" or "topk(0.01)". TR_EINVAL or TR_ERANGE for any other text; the message lists what is
 * possible. */
TR_API tr_status tr_compress_parse(tr_compress *out, const char *text);
/* Parse how parameters come back: "none" or "bf16", which sets *is_rounded. TR_EINVAL for any other text; the message lists what is
 * possible. */
TR_API tr_status tr_compress_parse_parameters(bool *is_rounded, const char *text);

/* What a trainer does with a gradient or a loss that is NaN or infinite: see docs/distributed.md, "NaN". */
typedef enum tr_on_nan {
    TR_ON_NAN_STOP = 0,               /* the push fails with TR_ENAN, and the step does not count */
    TR_ON_NAN_SKIP,                   /* this trainer's whole step is left out, on all servers */
    TR_ON_NAN_IGNORE,                 /* gradients are not checked */
    TR_ON_NAN_COUNT
} tr_on_nan;

/* Parse "stop", "skip" or "ignore". TR_EINVAL for any other text; the message lists what is possible. */
TR_API tr_status tr_on_nan_parse(tr_on_nan *out, const char *text);

typedef struct tr_job_spec {
    const char           *mode;       /* as for tr_policy_parse; the same in all trainers */
    int                   program_count;      /* one for each server, in order */
    const tr_job_program *programs;
    int                   block_count;
    const tr_job_block   *blocks;     /* the calls below number blocks by their place in this list */
    int                   value_count;        /* only trainer 0's count; the other trainers may leave it 0 */
    const tr_job_value   *values;
    int                   fact_count;
    const tr_job_fact    *facts;
    int                   table_count;
    const tr_job_table   *tables;
    int64_t               cache_rows; /* modes async and ssp: rows of each table that a trainer keeps; 0: none */
    int64_t               cache_staleness;    /* a kept row is used in so many of the trainer's own steps */
    int64_t               first_step, first_run;  /* steps of this trainer and runs of its program before this job: see tr_job_set_place */
    const void           *first_position;         /* the trainer's position in its data before this job; NULL: unknown */
    size_t                first_position_size;
    bool restores; /* trainer 0: the job goes on from the checkpoint of this number, by tr_job_restore; all tables come from */
    uint64_t              restored;   /* there, whatever their first_rows are */
    const void           *tasks;      /* trainer 0: the tasks in the checkpoint that the job goes on from; NULL: none */
    size_t                tasks_size;
    const char           *checkpoints;        /* the folder for checkpoints; servers then reserve memory for copies of their state, and
                                               * leave SIGTERM to the trainers. NULL: no checkpoints */
    int                   own_count;  /* variables of the operator keep_variables of which a checkpoint has every trainer's value */
    const tr_checkpoint_item *own;    /* these variables, with their present values; see job_own_part.h */
    const char           *compress;   /* how gradients travel, as for tr_compress_parse; NULL: uncompressed. TRIREME_COMPRESS
                                       * takes precedence */
    const char           *compress_parameters;        /* how parameters come back, as for tr_compress_parse_parameters; NULL: unchanged.
                                                       * TRIREME_COMPRESS_PARAMETERS takes precedence */
    const char           *on_nan;     /* as for tr_on_nan_parse; NULL: stop. TRIREME_ON_NAN takes precedence */
} tr_job_spec;

/* Trainer 0 gives the servers their work; the other trainers prove that they mean the same work. Every trainer calls this once. It
 * compares versions, programs, blocks, number of trainers, mode and facts. A difference fails with TR_EPEER on every rank; the text says
 * what differs between which ranks. The call copies what it needs. TR_EEXIST: it was called before. TR_EINVAL, TR_ERANGE, TR_EDTYPE,
 * TR_ESHAPE: the spec is wrong. */
TR_API tr_status tr_job_setup(tr_job *job, const tr_job_spec *spec);
/* Before the setup: let each server read the part of a checkpoint that it needs; together they compare every byte. All trainers call it for
 * the same ones in the same order. `path` begins with '/'. TR_EFORMAT: it is damaged. TR_ENOTFOUND: a server's host does not have it. */
TR_API tr_status tr_job_restore(tr_job *job, const char *path, uint64_t number);
/* *resumes: do the servers have the state of an earlier start of the job? *step: this trainer's steps in that state, perhaps 0. This
 * trainer's data begins after these steps. Waits until all servers have answered. */
TR_API tr_status tr_job_resumed(tr_job *job, bool *resumes, int64_t *step);
/* Restore the variables that this trainer alone has (the operator keep_variables keeps them) as they were after the last of the resumed
 * steps. *count: the number of variables. It is 0 where nothing was kept: at the first start, or when another host had the memory. */
TR_API tr_status tr_job_load_own(tr_job *job, const tr_scope *scope, int *count);
/* From here on notice what is written to variables of `scope` of which the servers have the values: the sources of tr_job_spec.values. They
 * hold what the servers have now. The operator send_sets, with which a step begins, sends the servers what was set. The `remote` ones of
 * them change with the servers' updates, and no step brings their values: these are pulled when they are read. */
TR_API tr_status tr_job_watch(tr_job *job, tr_scope *scope, int remote_count, const char *const *remote);
/* Was this variable set since the last step? NULL: any of them. */
TR_API bool      tr_job_is_set(tr_job *job, const char *name);
/* What was written to this variable, or to all of them (NULL), is no value that the servers should get. */
TR_API void      tr_job_unset(tr_job *job, const char *name);
/* From now on write the values that each step fetches into this file. A value that is computed before the step's end is in the file
 * before the servers hear of that end. python/trireme/distributed/fetched.py reads the file. It is made if it does not exist. TR_EIO: it
 * cannot be opened. */
TR_API tr_status tr_job_keep_fetched(tr_job *job, const char *path);
/* The number of the block whose parameter or gradient has this name; -1: none. */
TR_API int     tr_job_find_block(const tr_job *job, const char *name);
/* The number of the table of this name; -1: none. */
TR_API int     tr_job_find_table(const tr_job *job, const char *name);
TR_API int     tr_job_block_count(const tr_job *job);
TR_API int64_t tr_job_block_bytes(const tr_job *job, int block);

/* == trainers: steps ========================================================================= */

/* Set the number of samples of the gradients that the operator `send` pushes from now on; 1 at first. TR_ERANGE: negative or not
 * finite. */
TR_API tr_status tr_job_set_weight(tr_job *job, double weight);
TR_API double    tr_job_weight(const tr_job *job);
/* Push a block's gradient for the present step. `weight`: the number of samples; 0 is allowed. `data`: exactly `bytes` bytes, the
 * block's size. `ticket` may be NULL, here and below.
 *
 * In mode sync the servers take the mean over the trainers, weighted by `weight` and summed in the order of the trainers. So the result
 * is bitwise the same for any timing and any number of servers. In the other modes the gradient is an update of its own.
 *
 * The call waits until all servers have applied the step before, and all pulls are complete. With TR_ON_NAN_SKIP the gradient leaves at
 * the step's end: then `data` must stay unchanged until the ticket of the step's end is done. TR_ENAN: the gradient is not finite
 * (TR_ON_NAN_STOP). TR_ESHAPE: another size. TR_EINVAL: the block was pushed already in this step. */
TR_API tr_status tr_job_push(tr_job *job, int block, const void *data, int64_t bytes, double weight,
                             tr_ticket *ticket);
/* End the step, after every block and every table was pushed once (else TR_EINVAL). The ticket is done when the servers have applied the
 * step, or dropped it because it came too late (mode sync(backups=N)). If the step before was followed by a pull, follow this step by a
 * pull or a wait, too. Otherwise a server that sleeps on this processor may hear of the step's end some milliseconds later. */
TR_API tr_status tr_job_step_end(tr_job *job, tr_ticket *ticket);
/* A step has failed before its end. Forget its gradients if none has been sent: then the step can be made again. Returns false if gradients
 * were sent; then the servers have a part of the step, and the job cannot go on. */
TR_API bool      tr_job_step_retract(tr_job *job);
/* Fetch blocks into `data[i]`, which has room for the whole block. In mode sync they are as after the last ended step of all trainers
 * (before the first step: as they were set up). In the other modes they are as they are now, with this trainer's own steps. Under ssp
 * this waits for trainers that are too far behind. TR_EINVAL: a block is being pulled already. */
TR_API tr_status tr_job_pull(tr_job *job, int count, const int *blocks, void *const *data, tr_ticket *ticket);
/* Fetch the first values of all variables that are `for_trainers`, in the order of tr_job_spec.values. data[i] NULL: that one is not
 * wanted. */
TR_API tr_status tr_job_pull_first(tr_job *job, int count, void *const *data, tr_ticket *ticket);
/* Send queued requests, such as pulls, at once. The caller goes on and waits later. */
TR_API tr_status tr_job_flush(tr_job *job);
/* Wait until all pulls are complete. tr_tensor_data, tr_plan_run and writing to a file wait by themselves for a tensor that a pull
 * fills; call this only before other reads. */
TR_API tr_status tr_job_finish_pulls(tr_job *job);
/* Fetch the rows of `count` keys, which may repeat, as a pull at this moment would. `out` is [count, width], float32. Returns when the
 * rows are here. */
TR_API tr_status tr_job_lookup(tr_job *job, int table, int64_t count, const int64_t *keys, float *out);
/* Ask for rows that this step's lookups will need. Such a lookup finds them here, or on their way, if its keys are the same. Calls for
 * several lookups come in the order of the lookups. */
TR_API tr_status tr_job_prefetch(tr_job *job, int table, int64_t count, const int64_t *keys);
/* The same for the step after the present one. The rows are asked for when the present step ends, and come as they are then. A
 * tr_job_prefetch with these keys finds them; other keys are asked for anew. In mode sync(backups=N) all keys are asked for anew. The
 * keys are copied; only the last call of a step counts. */
TR_API tr_status tr_job_prefetch_next(tr_job *job, int table, int64_t count, const int64_t *keys);
/* Push the rows of a table's gradient for the present step: values [count, width], float32; rows of equal keys add up. Call it once a
 * step for every table, with count 0 if there are no rows. The servers take the mean as for blocks. Keys and values are copied. */
TR_API tr_status tr_job_push_rows(tr_job *job, int table, int64_t count, const int64_t *keys, const float *values, double weight,
                                  tr_ticket *ticket);
/* Wait until the ticket, and all before it, are done. TR_ETIMEOUT after `wait_timeout` seconds. TR_ERANGE: no call has returned this
 * ticket. */
TR_API tr_status tr_job_wait(tr_job *job, tr_ticket ticket);
/* Is the ticket done? Never waits. */
TR_API bool      tr_job_is_done(const tr_job *job, tr_ticket ticket);
/* The newest ticket. Waiting for it waits for all requests. */
TR_API tr_ticket tr_job_last_ticket(const tr_job *job);
/* Between two steps: say that the next step may be long in coming. Work that would wait for this trainer's next step, such as a
 * checkpoint, is done now. */
TR_API tr_status tr_job_rest(tr_job *job);
/* The number of steps that this trainer has ended. */
TR_API int64_t   tr_job_step(const tr_job *job);
/* In a job with checkpoints, when this trainer's data has ended: wait for requests under way, leave the steps to the other trainers, and
 * stay until the last checkpoint. While the call returns TR_ETIMEOUT (after `seconds`), call it again. TR_OK fills *last: then make the
 * last checkpoint if it is this trainer's, and call tr_job_goodbye. */
typedef struct tr_job_last {
    bool is_mine;                     /* no trainer makes steps any more, and this trainer makes the last checkpoint. False: another trainer
                                       * has made it */
    bool has_more;                    /* the servers have made more updates than this trainer has made steps */
} tr_job_last;

TR_API tr_status tr_job_stay(tr_job *job, double seconds, tr_job_last *last);
/* This trainer's data has ended: wait for requests under way, and leave the steps to the other trainers. TR_EINVAL: in the middle of a
 * step. */
TR_API tr_status tr_job_goodbye(tr_job *job);
/* End the job because of an error in this trainer's program. The job fails on every rank with this text, and one rank prints it. Returns
 * TR_EPEER. Call tr_job_free next. */
TR_API tr_status tr_job_abort(tr_job *job, const char *why);
/* The same with an exit code for all ranks, 1 .. 255 (else TR_ERANGE). 75 (EX_TEMPFAIL) asks for a later start. */
TR_API tr_status tr_job_stop(tr_job *job, const char *why, int exit_code);
/* The exit code for this process after a job that has failed. */
TR_API int       tr_job_exit_code(void);

/* == checkpoints ============================================================================= */

/* A request of the trainer that makes checkpoints. docs/checkpoints.md describes the steps. */
typedef struct tr_job_checkpoint_spec {
    const char      *folder;          /* the checkpoint becomes `folder`/step-... */
    int64_t          step;
    const char      *digest;          /* of the program, copied; may be NULL */
    int              keep;            /* how many of the newest checkpoints stay, with those that they build on; 0: all */
    tr_checkpoint_base base;          /* rows of tables that have not changed since then are not written, where a server remembers it */
    tr_checkpoint_rows rows;
    tr_trainer_state place;           /* of this trainer in its data; tr_job_checkpoint fills in the index */
    int              count;           /* variables that trainers have and servers do not */
    const tr_checkpoint_item  *states;          /* copied, with their values */
} tr_job_checkpoint_spec;

typedef struct tr_job_checkpoint_report {
    int64_t step, bytes;
    uint64_t number;                  /* tr_checkpoint_number */
    double  seconds;                  /* from the call until the checkpoint was complete */
    double  pause;                    /* the longest time that a server let trainers wait */
    bool    is_given_up;              /* there is none: a rank died or a standby was on its way; another one may be begun at once */
} tr_job_checkpoint_report;

/* Does this trainer make the checkpoints now? It is the first trainer that makes steps. When no trainer makes steps, it is the first
 * that stays (tr_job_stay). */
TR_API bool      tr_job_makes_checkpoints(const tr_job *job);
/* Called by that trainer between its steps: let the servers copy their state as it is after this step, and write it in the background.
 * In modes other than sync the copy waits until all trainers have ended a step; the call brings this about. TR_EEXIST: the last
 * checkpoint is still being written. TR_EINVAL: this trainer makes no checkpoints, or is in the middle of a step. */
TR_API tr_status tr_job_checkpoint(tr_job *job, const tr_job_checkpoint_spec *spec);
TR_API bool      tr_job_checkpoint_is_under_way(const tr_job *job);
/* Should this trainer wait with a checkpoint? True in two cases. After a restart one server may have a step of this trainer that another
 * lacks, until the trainer has made it again; parts of a checkpoint would not be of one moment. Or a replacement has made no step yet:
 * in modes async, ssp and geo its first step may take minutes, and all trainers would wait for it. tr_job_checkpoint itself waits for a
 * replacement, two minutes at most, so a trainer that has steps to make calls it later. */
TR_API bool      tr_job_is_uneven(const tr_job *job);
/* Wait for the checkpoint that was begun last. TR_OK: it is complete. TR_ETIMEOUT: it is not, after so many seconds. TR_ENOTFOUND: none
 * was begun. Any other status is the reason why it was not written; the job goes on. `report` may be NULL. */
TR_API tr_status tr_job_checkpoint_wait(tr_job *job, double seconds, tr_job_checkpoint_report *report);
/* Any trainer: set its place in the data at the end of the present (or the next) step. A checkpoint after that step holds this place.
 * `index` is filled in, and what it points at is copied. With NULL, and before the first call, the place is computed: the first step and
 * run of tr_job_setup plus the steps in this job. */
TR_API tr_status tr_job_set_place(tr_job *job, const tr_trainer_state *place);

/* == observation ============================================================================= */

enum { TR_STALENESS_BINS = 16 };

/* For logs and the launcher's progress line; training does not depend on it. Call it when a trainer has a step's data. The time from its
 * last wait until this call counts as its script's own time. */
TR_API void tr_job_step_begin(tr_job *job);
/* For the same readers: a run that is no step, such as that of a test program, has ended. */
TR_API void tr_job_other_run_ended(tr_job *job);
/* Set the loss of the newest step, for the same readers. */
TR_API void tr_job_set_loss(tr_job *job, double loss);

typedef struct tr_job_stats {
    int64_t steps;                    /* trainer: ended steps; server: applied updates */
    int64_t messages_sent;
    int64_t messages_received;
    int64_t bytes_sent;               /* payload and headers */
    int64_t bytes_received;
    int64_t wait_nanoseconds;         /* trainer: time inside tr_job_wait; server: time without work */
    int64_t wire_nanoseconds;         /* time in which any thread moved messages */
    int64_t apply_nanoseconds;        /* server: time in its optimizers */
    /* server: gradients by staleness, the number of updates between the pull of the parameters that they were computed with and their
     * own update: 0, 1, 2-3, 4-7, ...; the last bin takes all above. In mode sync all are 0. */
    int64_t staleness[TR_STALENESS_BINS];
    int64_t dropped;                  /* server: gradients that came too late in mode sync(backups=N) */
    int64_t rows_wanted;              /* trainer: distinct rows of sparse tables that the lookups of all steps wanted */
    int64_t rows_ahead;               /* of these: rows asked for before their step began */
    int64_t rows_cached;              /* of these: rows found in the trainer's cache */
    int64_t skipped;                  /* trainer: steps left out because a gradient was not finite (TR_ON_NAN_SKIP) */
} tr_job_stats;

TR_API void tr_job_get_stats(const tr_job *job, tr_job_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
