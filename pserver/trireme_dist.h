/* trireme_dist.h - the C API of a Trireme job: trainers that share parameters through servers.
 *
 *     mpirun -np 2 trireme-pserver : -np 4 python train.py
 *
 * Every rank starts a job and learns who is who. Trainers then agree on the work and train:
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
 * A server's whole life is tr_job_start(TR_ROLE_SERVER), tr_job_serve, tr_job_free; the program
 * `trireme-pserver` does that.
 *
 * Why tickets: a push or pull is only queued by its call; a thread of the job's own moves the data, so that
 * computing and communicating overlap. A ticket is done when the servers have acknowledged all of it.
 * Tickets are done in the order in which they were given out: waiting for one waits for all before it.
 *
 * What must stay true:
 *   - Memory handed to a pull stays alive until its ticket is done; a pushed gradient stays, unchanged, until the ticket
 *     of the step's end is: a server that takes a dead one's place gets it again.
 *   - One thread of the program uses a job at a time.
 *   - No call waits without a bound. When a rank refuses, or dies or falls silent and neither a standby takes its place nor
 *     the mode does without it (docs/distributed.md), every call of every other rank fails with TR_EPEER, tr_error() names
 *     the rank and what was waited for, one rank of the job prints that line, and a process that has not ended by itself after `grace` seconds is ended with exit code 1.
 */
#ifndef TRIREME_DIST_H
#define TRIREME_DIST_H

#include "framework/trireme.h"
#include "pserver/trireme_checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tr_role {
    TR_ROLE_TRAINER = 0,
    TR_ROLE_SERVER = 1,
    TR_ROLE_STANDBY = 2,                /* waits, and becomes what has died: a server of its host, a trainer, a replica of another host's server */
    TR_ROLE_REPLICA = 3,              /* keeps what a server of another host has; serves nobody */
    TR_ROLE_COUNT
} tr_role;

typedef struct tr_job tr_job;

/* A promise of the job; 0 is one that is done. */
typedef uint64_t tr_ticket;

/* Times are in seconds. Zero and NULL stand for the default in every field. */
typedef struct tr_job_options {
    double      heartbeat;            /* a sign of life at least this often;                      0.5 */
    double      timeout;              /* a rank silent for this long is dead;  TRIREME_TIMEOUT or 3 */
    double      start_timeout;        /* all said hello by then;        TRIREME_START_TIMEOUT or 60 */
    double      wait_timeout;         /* no wait for living ranks lasts longer (they may compute); 3600 */
    double      grace;                /* for this process to end after another one's death;       0.5 */
    int64_t     chunk_bytes;          /* larger blocks travel in pieces of this size;             524288 */
    int64_t     window_bytes;         /* pushed to a server and not yet acknowledged, at most;    67108864 */
    bool        can_inherit;          /* a standby that takes a dead trainer's place, too: see tr_job_serve */
    const char *transport;            /* path of trireme_mpi.so; else TRIREME_TRANSPORT, else beside this library */
} tr_job_options;

/* What tr_init does, and makes known the operators that talk to servers and those of sparse tables (docs/operators.md). A process
 * that uses this header calls it instead of tr_init. */
TR_API tr_status tr_dist_init(void);

/* True in a process that mpirun (or srun) started: it has a job to start. */
TR_API bool tr_job_is_launched(void);
/* Of a process that mpirun started: end when it does, and tell the launcher, if there is one, that this rank has begun.
 * tr_job_start does the former too, but a rank may have much to do before. */
TR_API void tr_job_prepare(void);
/* Tell the launcher, if there is one, that this process ends by its own doing, with which exit code and why: it has not died. */
TR_API void tr_job_tell_failure(int code, const char *why);

/* Start MPI in a thread of the job's own and exchange hellos. Options may be NULL. At most one job per
 * process: MPI starts only once. */
TR_API tr_status tr_job_start(tr_job **out, tr_role role, const tr_job_options *options);
/* The job that is started and not freed, or NULL: what the operators send and recv use. */
TR_API tr_job *tr_job_current(void);
/* Say goodbye if that was not done, wait (bounded) until all ranks are at their end, stop MPI, forget the
 * job. Returns what went wrong in the job's life, if anything did; the job is gone in any case. */
TR_API tr_status tr_job_free(tr_job *job);

/* After a job that went on without a rank that died: MPI is not finalized, which would wait for the dead one. Or MPI does
 * not end, since its daemon does not answer. The process is to end by _exit. */
TR_API bool    tr_job_must_exit(void);
/* Of who has left well (tr_job_free) and goes on to its end by `exit`: an exit code that is not 0 is told to the launcher, if there is one,
 * and makes the job's. `name` is the rank's. Where the process is to end by _exit, it does. */
TR_API void    tr_job_watch_exit(const char *name);

TR_API int     tr_job_rank(const tr_job *job);
TR_API int     tr_job_size(const tr_job *job);
TR_API tr_role tr_job_role(const tr_job *job);
TR_API bool    tr_job_is_replacement(const tr_job *job);             /* is it a trainer that was a standby? */
TR_API int     tr_job_index(const tr_job *job);               /* among the ranks of its role, from 0 */
TR_API int     tr_job_servers(const tr_job *job);
TR_API int     tr_job_trainers(const tr_job *job);
/* "rank 1 (server 1, host n03, pid 4711)"; "?" for a number that is no rank. */
TR_API const char *tr_job_rank_name(const tr_job *job, int rank);

/* == servers ================================================================================= */

/* Serve, or as a standby wait to serve, or as a replica keep what a server has, until every trainer has said goodbye (TR_OK) or the
 * job has failed. A standby that can inherit returns early, too, when it is called as a dead trainer's replacement: then its role
 * (tr_job_role) is TR_ROLE_TRAINER, and it does what that one would. tr_job_resumed says how many steps that had made. */
TR_API tr_status tr_job_serve(tr_job *job);

/* == trainers: what the servers are to do ==================================================== */

/* A part of one parameter: whole rows that lie on one server, under names of their own. */
typedef struct tr_job_block {
    const char *param;                /* name of the parameter's part in the server's program */
    const char *grad;                 /* name of its gradient there */
    int         server;               /* who holds it, 0 .. servers - 1 */
    tr_dtype    dtype;                /* of both: TR_FP32 or TR_FP64 */
    int64_t     bytes;                /* of both */
    bool        is_exact;             /* the gradient is a number to be read, and travels as it is: a loss, unless */
    bool        may_be_nan;           /* any value will do: a number that is read alone, and changes no parameter */
} tr_job_block;

/* The first value of a persistable variable of one server: parts of parameters and of the optimizers' state,
 * learning rates. */
typedef struct tr_job_value {
    int            server;
    const char    *name;
    tr_dtype       dtype;
    int            rank;
    const int64_t *dims;
    const void    *data;              /* must live until tr_job_setup returns */
    /* For checkpoints, as in a tr_checkpoint_item; `source` NULL: they do not hold it. */
    const char    *source;
    const char    *param;
    tr_state_kind  state;
    int64_t        row, rows;
} tr_job_value;

/* Describe the table that lookup_sparse_table_init made in the variable `name`; the name is borrowed. */
TR_API tr_status tr_job_describe_table(tr_job_table *out, const tr_scope *scope, const char *name);

/* Bytes of the pages that large tables of servers get on this machine, found by trying: 2 MiB, or 4096. */
TR_API int64_t tr_table_page_bytes(void);
/* Make such a table, empty, in a variable of the scope. */
TR_API tr_status tr_table_declare(tr_scope *scope, const tr_job_table *table);
/* The rows of virtual shard 0 .. 1023 of a table, packed: of each its key (int64), updates and the last of them (uint32), `width`
 * values in the table's type, padded to 4 bytes, states [states, width] float32, padded to 8. From the servers where the process's
 * job has a table of this name, else from the variable. `since`: only rows that a later update of their server touched; 0: all. `*out` is to be
 * freed by tr_free. */
TR_API tr_status tr_table_read_rows(void **out, int64_t *bytes, const tr_scope *scope, const char *name, int shard, int64_t since);
/* Put packed rows into the table of a variable; `clear`: into an empty one. In a job those of trainer 0 are what the first step
 * begins with; after it this fails. */
TR_API tr_status tr_table_write_rows(const tr_scope *scope, const char *name, const void *rows, int64_t bytes, bool clear);

/* -- what a table takes, and which keys are hot ----------------------------------------------------- */

enum { TR_TABLE_HOT_KEYS = 32 };

typedef struct tr_table_hot_key {
    int64_t key;
    int64_t updates;                  /* that touched its row; a key that is in every step has one for each */
} tr_table_hot_key;

/* What one server has of a table; in one process, all of it. Bytes of rows are those that live; what lies ready for rows to come
 * is in `bytes` alone. */
typedef struct tr_table_part {
    int64_t          rows;
    int64_t          waiting;         /* keys that updates touched, but not `entry_count` times yet */
    int64_t          row_bytes;       /* of one row: values, states, header */
    int64_t          value_bytes, state_bytes, header_bytes;
    int64_t          index_bytes;
    int64_t          journal_bytes;   /* kept to take an update back */
    int64_t          bytes;           /* taken from the machine in all */
    int64_t          hot_count;
    tr_table_hot_key hot[TR_TABLE_HOT_KEYS];     /* most updates first; of equal ones the smaller key first */
} tr_table_part;

/* `server` is 0 .. servers - 1 where the process's job has a table of this name, else 0. Reads the header of each row. On a server it
 * waits for the updates of this trainer's ended steps. */
TR_API tr_status tr_table_get_part(tr_table_part *out, const tr_scope *scope, const char *name, int server);

/* A serialized ProgramDesc; operators of block 0, in order, are one whole apply step. */
typedef struct tr_job_program {
    const void *bytes;
    size_t      size;
} tr_job_program;

/* Something all trainers must agree on, in words: {"seed", "90"}, {"batch size", "32"}. */
typedef struct tr_job_fact {
    const char *key;
    const char *value;
} tr_job_fact;

/* What a job's policy mode means. It is made once, from the mode's text; everything that depends on the mode asks it. The modes are
 * explained in docs/distributed.md, "Consistency". */
typedef struct tr_policy {
    bool    is_lockstep;              /* all servers make the same updates in the same order; a server that is one ahead goes back */
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
    double  compensation;             /* of delay, a factor of the squared gradient; 0: none */
} tr_policy;

/* Understand "sync", "sync(fewer)", "sync(backups=1)", "async", "async(compensation=0.04)", "ssp(3)", "geo(10)" or "average(10)". TR_EINVAL or
 * TR_ERANGE for anything else, with a text that says what is possible. */
TR_API tr_status tr_policy_parse(tr_policy *out, const char *mode);

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
    double           share;           /* topk: of the values, above 0 and up to 1 */
} tr_compress;

/* Understand "none", "fp16", "bf16", "int8", "nonzero" or "topk(0.01)". TR_EINVAL or TR_ERANGE for anything else, with a text that says
 * what is possible. */
TR_API tr_status tr_compress_parse(tr_compress *out, const char *text);
/* How parameters come back: "none" or "bf16", which sets *is_rounded. TR_EINVAL for anything else, with a text that says what is possible. */
TR_API tr_status tr_compress_parse_parameters(bool *is_rounded, const char *text);

/* What a trainer does where a gradient, or the loss, that it is about to send is not finite: see docs/distributed.md, "NaN". */
typedef enum tr_on_nan {
    TR_ON_NAN_STOP = 0,               /* pushing it fails with TR_ENAN, and the step is not made */
    TR_ON_NAN_SKIP,                   /* nothing of this trainer's step counts, on any server */
    TR_ON_NAN_IGNORE,                 /* it is not looked at */
    TR_ON_NAN_COUNT
} tr_on_nan;

/* Understand "stop", "skip" or "ignore". TR_EINVAL for anything else, with a text that says what is possible. */
TR_API tr_status tr_on_nan_parse(tr_on_nan *out, const char *text);

typedef struct tr_job_spec {
    const char           *mode;       /* as tr_policy_parse takes it; all trainers the same */
    int                   program_count;      /* one for each server, in order */
    const tr_job_program *programs;
    int                   block_count;
    const tr_job_block   *blocks;     /* a block's number in the calls below is its place in this list */
    int                   value_count;        /* read from trainer 0 alone; others may leave it 0 */
    const tr_job_value   *values;
    int                   fact_count;
    const tr_job_fact    *facts;
    int                   table_count;
    const tr_job_table   *tables;
    int64_t               cache_rows; /* of each table, that a trainer keeps in modes async and ssp to use them again, 0: none; */
    int64_t               cache_staleness;    /* for so many of its own steps */
    int64_t               first_step, first_run;  /* of this trainer and its program, before the job: see tr_job_set_place */
    const void           *first_position;         /* the same: in its data; NULL: it did not say */
    size_t                first_position_size;
    const void           *tasks;      /* of trainer 0: those of the checkpoint that it goes on from; NULL: none */
    size_t                tasks_size;
    const char           *checkpoints;        /* the folder where there will be some: servers have memory for them ready, and leave
                                         SIGTERM to trainers. NULL: there will be none */
    const char           *compress;   /* how gradients travel, as tr_compress_parse takes it; NULL: as they are. TRIREME_COMPRESS,
                                         where it is set, stands in its place */
    const char           *compress_parameters;        /* how parameters come back, as tr_compress_parse_parameters takes it; NULL: as they are.
                                         TRIREME_COMPRESS_PARAMETERS, where it is set, stands in its place */
    const char           *on_nan;     /* as tr_on_nan_parse takes it; NULL: stop. TRIREME_ON_NAN, where it is set, stands in its place */
} tr_job_spec;

/* Give the servers their work (trainer 0) or prove to mean the same work (the others): every trainer calls
 * this once. Versions, programs, blocks, number of trainers, mode and facts are compared; a difference fails
 * with TR_EPEER on every rank and a text that says what differs between which ranks. Copies what it needs. */
TR_API tr_status tr_job_setup(tr_job *job, const tr_job_spec *spec);
/* *resumes: whether the servers have what an earlier start of the job has done; *step: steps of this trainer in that, of which there may be none. Waits
 * until all servers have said so. A trainer's data begins behind that many steps. */
TR_API tr_status tr_job_resumed(tr_job *job, bool *resumes, int64_t *step);
/* Give the variables that this trainer alone has (the operator keep_variables keeps them) the values that they had behind the last of these
 * steps. *count: how many; 0 where nothing was kept: at the first start, or when the memory was another host's. */
TR_API tr_status tr_job_load_own(tr_job *job, const tr_scope *scope, int *count);
/* Write what each further step fetches into this file, as far as it is computed by then, before the step's end is sent: python/trireme/distributed/fetched.py
 * reads it. Made if it is not there. TR_EIO: it cannot be. */
TR_API tr_status tr_job_keep_fetched(tr_job *job, const char *path);
/* The number of the block whose parameter or gradient has this name; -1: there is none. */
TR_API int     tr_job_find_block(const tr_job *job, const char *name);
/* The number of the table of this name; -1: there is none. */
TR_API int     tr_job_find_table(const tr_job *job, const char *name);
TR_API int     tr_job_block_count(const tr_job *job);
TR_API int64_t tr_job_block_bytes(const tr_job *job, int block);

/* == trainers: steps ========================================================================= */

/* Samples behind the gradients that the operator `send` pushes from now on; 1 at first. */
TR_API tr_status tr_job_set_weight(tr_job *job, double weight);
TR_API double    tr_job_weight(const tr_job *job);
/* Push a block's gradient for the step that is being made. In mode sync the servers take the mean over the trainers,
 * weighted by `weight` (number of samples; 0 is allowed), summed in the order of the trainers: the result is
 * bitwise the same for any timing and any number of servers. In the others the gradient is an update of its own.
 * Waits until all servers have applied the step before, and all pulls are here. `ticket` may be NULL here and below. With TR_ON_NAN_SKIP
 * the gradient leaves at the step's end: `data` must stay until that one's ticket is done. TR_ENAN: it is not finite (TR_ON_NAN_STOP). */
TR_API tr_status tr_job_push(tr_job *job, int block, const void *data, int64_t bytes, double weight,
                             tr_ticket *ticket);
/* The step is complete: every block was pushed once. Its ticket is done when the servers have applied the step (or,
 * for one that came too late in mode sync(backups=N), have dropped it). Where the step before was followed by a pull, pull or wait for
 * something behind this one, too, or a server that sleeps on this processor hears of it some milliseconds later. */
TR_API tr_status tr_job_step_end(tr_job *job, tr_ticket *ticket);
/* Fetch blocks into `data[i]`, which has room for the whole block: in mode sync as they are after the last ended step
 * of all trainers (before the first one: as they were set up); in the others as they are now, this trainer's own
 * steps in them. Under ssp this waits for trainers that are too far behind. */
TR_API tr_status tr_job_pull(tr_job *job, int count, const int *blocks, void *const *data, tr_ticket *ticket);
/* Pulls, and what else was asked for, leave at once: the caller goes on and waits later. */
TR_API tr_status tr_job_flush(tr_job *job);
/* Wait until all that was pulled is here. Whoever looks at a tensor that a pull fills by tr_tensor_data, tr_plan_run or a file need not
 * call it: those wait by themselves. */
TR_API tr_status tr_job_finish_pulls(tr_job *job);
/* Fetch the rows of `count` keys, repeated ones too, as they are when a pull would be answered: out is [count, width], float32.
 * Returns when they are here. */
TR_API tr_status tr_job_lookup(tr_job *job, int table, int64_t count, const int64_t *keys, float *out);
/* Ask for rows that the lookups of this step will want, one after the other: they find them here, or on their way, when
 * their keys are the same. */
TR_API tr_status tr_job_prefetch(tr_job *job, int table, int64_t count, const int64_t *keys);
/* The same for the step after the one that is being made. Its rows are asked for when this one is ended, and come as they are
 * then: tr_job_prefetch with these keys finds them. Other keys ask anew, as any
 * do in mode sync(backups=N). The keys are copied; the last call counts. */
TR_API tr_status tr_job_prefetch_next(tr_job *job, int table, int64_t count, const int64_t *keys);
/* Push the rows of a table's gradient for the step that is being made, values [count, width]; those of repeated keys add up.
 * Once a step for every table, if only with no rows. The servers take the mean as for blocks. Keys and values are copied. */
TR_API tr_status tr_job_push_rows(tr_job *job, int table, int64_t count, const int64_t *keys, const float *values, double weight,
                                  tr_ticket *ticket);
/* Wait until the ticket, and all before it, are done; TR_ETIMEOUT after `wait_timeout` seconds. */
TR_API tr_status tr_job_wait(tr_job *job, tr_ticket ticket);
/* Is it done? Never waits. */
TR_API bool      tr_job_is_done(const tr_job *job, tr_ticket ticket);
/* The last ticket given out: waiting for it waits for everything. */
TR_API tr_ticket tr_job_last_ticket(const tr_job *job);
/* Between two steps: the next may be long in coming. What others wait for at this trainer's next step (a checkpoint) comes now. */
TR_API tr_status tr_job_rest(tr_job *job);
/* Steps that this trainer has ended. */
TR_API int64_t   tr_job_step(const tr_job *job);
/* This trainer's data has ended, in a job that keeps checkpoints: wait for what is under way, leave the steps to the others, and stay for
 * the last checkpoint. To be called until it returns another status than TR_ETIMEOUT: that is, "not yet, after so many seconds". Then
 * comes tr_job_goodbye; where it is this trainer's to make the last checkpoint, behind that. */
typedef struct tr_job_last {
    bool is_mine;                     /* nobody makes steps any more, and this trainer makes the last checkpoint; else it is made */
    bool has_more;                    /* servers have made more updates than this trainer has made steps */
} tr_job_last;

TR_API tr_status tr_job_stay(tr_job *job, double seconds, tr_job_last *last);
/* This trainer's data has ended: wait for what is under way and leave the steps to the others. */
TR_API tr_status tr_job_goodbye(tr_job *job);
/* End the job because of an error of this trainer's program: it fails on every rank, with this text, which one rank
 * prints. Returns TR_EPEER; tr_job_free comes next. */
TR_API tr_status tr_job_abort(tr_job *job, const char *why);
/* The same with an exit code for all ranks, 1 .. 255: 75 (EX_TEMPFAIL) asks for another start. */
TR_API tr_status tr_job_stop(tr_job *job, const char *why, int exit_code);
/* After a job that has failed: what this process should end with. */
TR_API int       tr_job_exit_code(void);

/* == trainers: for each other ================================================================ */

/* Trainers meet: each posts a few bytes on server 0's board, and gets those of the others. Barrier, broadcast, sums and lists of all
 * trainers' values are made of this (python/trireme/distributed/collectives.py). They are no way for gradients: a post has 256 KiB at most.
 *
 * Collectives are numbered: the n-th of each trainer is the n-th of all. A trainer that has left takes no part; one that is dead and that a
 * standby will replace is waited for. What was complete stays as it was: a trainer that runs its script again posts again, and gets what was
 * posted first. Servers keep the newest 8 MiB of that, in memory that outlives them. */
enum { TR_JOB_POST_LIMIT = 1 << 18 };

typedef enum tr_job_until {
    TR_JOB_NOW = 0,                   /* the answer is what has been posted by now */
    TR_JOB_ALL = 1,                   /* when all trainers have posted that have not left */
    TR_JOB_ONE = 2                    /* when trainer `of` has posted, or has left */
} tr_job_until;

typedef struct tr_job_post {
    int64_t      number;              /* of a collective: 1, 2, ...; 0: a notice, by its name. A trainer posts each of them once */
    const char  *name;                /* of the notice, up to 4 KiB; NULL in a collective */
    const char  *call;                /* a collective: what the script calls; all trainers must say the same. "all_reduce(float32[3], op='sum')" */
    const char  *line;                /* where, for messages: "train.py:41"; may be NULL */
    const void  *data;                /* copied; NULL: a question */
    int64_t      bytes;               /* up to TR_JOB_POST_LIMIT */
    tr_job_until until;
    int          of;
    int          stops;               /* a notice: it asks all trainers to end their training of this number (tr_job_stops); 0: it does not */
} tr_job_post;

typedef struct tr_job_posted {
    int          count;               /* posts that there are, in the order of the trainers */
    const int   *trainer;             /* of each; these three stay until the next tr_job_post_begin */
    const void *const *data;
    const int64_t *bytes;
    bool         is_forgotten;        /* a collective that was complete and is not kept any more; count is 0 */
} tr_job_posted;

/* Between two steps, before the setup, too. Other calls in other orders than other trainers' end the job: TR_EPEER, with both calls. */
TR_API tr_status tr_job_post_begin(tr_job *job, const tr_job_post *post);
/* Trainers count their trainings: 1, 2, ... Return the highest number of one that a notice asks to end, as far as this trainer has heard; 0: none.
 * A look at memory. What one trainer posts behind its step s, all have heard in mode sync when their step s + 2 is over. */
TR_API int       tr_job_stops(const tr_job *job);
/* Wait for the answer to the last one; TR_ETIMEOUT when it is not there after so many seconds: call it again. */
TR_API tr_status tr_job_post_wait(tr_job *job, double seconds, tr_job_posted *out);

/* == checkpoints ============================================================================= */

/* What the trainer that makes them asks for; docs/checkpoints.md says how it comes about. */
typedef struct tr_job_checkpoint_spec {
    const char      *folder;          /* the checkpoint becomes `folder`/step-... */
    int64_t          step;
    const char      *digest;          /* of the program; may be NULL */
    int              keep;            /* the newest so many stay; 0: all */
    tr_trainer_state place;           /* of this trainer; its index is filled in */
    int              count;           /* what the trainers have and the servers do not */
    const tr_checkpoint_item  *states;          /* copied */
    bool             without_tables;
} tr_job_checkpoint_spec;

typedef struct tr_job_checkpoint_report {
    int64_t step, bytes;
    double  seconds;                  /* from the call until the checkpoint was there */
    double  pause;                    /* the longest that a server let trainers wait */
    bool    is_given_up;              /* it is not there because a rank died, or a standby was on its way: another may be begun at once */
} tr_job_checkpoint_report;

/* Is it this trainer that makes checkpoints now? It is the first of those that make steps; where nobody does, of those that stay. */
TR_API bool      tr_job_makes_checkpoints(const tr_job *job);
/* That trainer, between its steps: let the servers copy their state as it is after this step of this trainer (in the other
 * modes than sync: as soon as all trainers have ended a step, which the call brings about by itself), and write it in
 * the background. TR_EEXIST: the one before is not complete. */
TR_API tr_status tr_job_checkpoint(tr_job *job, const tr_job_checkpoint_spec *spec);
TR_API bool      tr_job_checkpoint_is_under_way(const tr_job *job);
/* After a new start of the job one server may have a step of this trainer that another lacks, until the trainer has made it again: a
 * checkpoint waits for that, or its parts are not of one moment. And a standby that takes a dead trainer's place may need minutes for its
 * first step, which all others would wait for in modes async, ssp and geo: tr_job_checkpoint waits for it instead, two minutes at most, so a
 * trainer that has steps to make calls it later. */
TR_API bool      tr_job_is_uneven(const tr_job *job);
/* Wait for the last one that was begun; TR_OK when it is there, TR_ETIMEOUT when it is not after so many seconds. Its failure does not end
 * the job. `report` may be NULL. */
TR_API tr_status tr_job_checkpoint_wait(tr_job *job, double seconds, tr_job_checkpoint_report *report);
/* Any trainer: where it will be when the step that comes, or is being made, is ended. A checkpoint that it takes part in
 * then says so; `index` is filled in, what it points at copied. NULL, and before the first call: the setup's first step and run and
 * the steps in this job. */
TR_API tr_status tr_job_set_place(tr_job *job, const tr_trainer_state *place);

/* == watching ================================================================================ */

enum { TR_STALENESS_BINS = 16 };

/* For logs and the launcher's line, and without effect on training. A trainer says that it has a step's data now: what came between its last
 * wait and this is its script's own time. */
TR_API void tr_job_step_begin(tr_job *job);
/* What the newest step's loss was. */
TR_API void tr_job_set_loss(tr_job *job, double loss);

typedef struct tr_job_stats {
    int64_t steps;                    /* trainer: ended; server: applied */
    int64_t messages_sent;
    int64_t messages_received;
    int64_t bytes_sent;               /* payload and headers */
    int64_t bytes_received;
    int64_t wait_nanoseconds;         /* trainer: inside tr_job_wait; server: nothing to do */
    int64_t wire_nanoseconds;         /* in which messages were moved, by any thread */
    int64_t apply_nanoseconds;        /* server: running the optimizers */
    /* server: gradients by how many updates were applied between the pull of the parameters that they were computed
     * with and their own: 0, 1, 2-3, 4-7, ...; the last takes all above. In mode sync all are 0. */
    int64_t staleness[TR_STALENESS_BINS];
    int64_t dropped;                  /* server: gradients that came too late for sync(backups=N) */
    int64_t rows_wanted;              /* trainer: different rows of sparse tables that steps' lookups wanted; */
    int64_t rows_ahead;               /* of them asked for before their step began; */
    int64_t rows_cached;              /* not asked for, as they were here */
    int64_t skipped;                  /* trainer: steps that were left out, as their gradients were not finite (TR_ON_NAN_SKIP) */
} tr_job_stats;

TR_API void tr_job_get_stats(const tr_job *job, tr_job_stats *stats);

#ifdef __cplusplus
}
#endif
#endif
