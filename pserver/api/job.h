/* job.h - the inside of a job, for the files of this folder and for the operators. The public part is trireme_dist.h.
 *
 *     job_life.c      begin, service and end
 *     job_view.c      facts about ranks               job_calls.c      operations on their way to the thread
 *     job_setup.c     the setup that servers get      job_train.c      steps of a trainer
 *     job_send.c      gradients that leave            job_pull.c       parameters that arrive late
 *     job_tasks.c     leased tasks                    job_board.c      posts for other trainers
 *     job_compress.c  compressed gradients            job_finite.c     gradients that are not finite
 *     job_fetched.c   fetched values, for a replay    job_tables.c, job_rows.c   sparse tables
 *     job_sets.c      what a script sets between steps
 *
 * Calls are checked in the caller's thread, so a mistake is reported where it is made. Then they become commands for the communication
 * thread, and its core relies on the checks.
 *
 * A job has a part for each way in which threads use it: `rank` is for all threads (rank.h), its `driver` is the communication thread's,
 * and the rest is the owner's.
 *
 * What must stay true: only the owner uses what stands in this header. Other threads of the process read the atomic fields of blocks: they
 * were set up before `last_pull` was set for the first time. */
#pragma once

#include "framework/base/map.h"
#include "framework/tensors/pending_value.h"
#include "pserver/rank/rank.h"
#include "pserver/wire/compress.h"
#include "storage/memory/trainer_vars.h"
#include "storage/table/geo_rows.h"
#include "storage/table/row_cache.h"
#include "storage/util/keyset.h"

typedef struct tr__job_block {
    char     *param, *grad;
    int       server;
    tr_dtype  dtype;
    int64_t   bytes;
    bool      is_number, may_be_nan;  /* as in tr_job_block */
    bool      is_pushed;              /* in the present step */
    bool      for_trainers;           /* of a value: as in tr_job_value */
    const void *held;                 /* the gradient, if it waits for the step's end: job_finite.h */
    double      held_weight;
    _Atomic uint64_t pull;            /* ticket of the block's last pull; other threads read this field and the next, and `from` */
    _Atomic(void *)  to;              /* where that pull puts the block */
    uint64_t  list;                   /* number of the pull that named this block last */
    _Atomic(const void *) from;       /* where the gradient lies until its step is settled; NULL: in memory of the job */
    void     *stage;                  /* a copy of the gradient, for callers that cannot keep it */
    struct tr__job_coder *coder;      /* job_compress.c; NULL: the gradient travels as it is */
} tr__job_block;

/* Keys in the order of the caller. */
typedef struct tr__keys {
    int64_t *key;
    int64_t  count;
    uint64_t capacity;
} tr__keys;

/* Memory for one direction. Data under way lie there until their ticket is done. */
typedef struct tr__rows_transfer {
    tr_keyset       set;
    uint32_t       *number;           /* for each key: its number among the distinct keys */
    uint32_t       *place;            /* for each distinct key: its place in the order of servers */
    int64_t        *keys;             /* the distinct keys in the order of servers */
    uint8_t        *rows;             /* pulled rows, or the pieces to be pushed */
    uint64_t       *first;            /* for each server: the first of its keys */
    uint64_t        number_capacity, place_capacity, keys_capacity, rows_capacity;
    tr_client_rows  call;
    uint64_t        ticket;
    tr__keys        asked;            /* of a pull: the keys as the caller gave them */
    const uint32_t *at;               /* for each distinct key: the index of its row in `rows` */
    uint32_t       *split;            /* memory of `at`, if some rows come from the cache */
    uint64_t       *missing;          /* like `first`, but only for keys that must be asked for */
    uint64_t        split_capacity;
    uint64_t        step;             /* the step that the rows are for */
    uint64_t        clock;            /* steps of all trainers that are in the pulled rows (mode ssp) */
    bool            is_new;           /* put the rows into the cache when they come */
} tr__rows_transfer;

enum { TR__TRANSFERS = 4 };

typedef struct tr__job_table {
    char        *name;
    tr_dtype     dtype;
    int64_t      width, row_bytes;
    bool         is_pushed;           /* in the present step */
    tr__rows_transfer transfer[TR__TRANSFERS];
    tr__rows_transfer *pull, *next, *push; /* three of `transfer`; next: for the next step */
    tr__rows_transfer *later;         /* the fourth: keys of the step after the present one (or, between steps, after the next one) */
    bool         is_prefetched;       /* `pull` has the keys that the lookups of this step need */
    int64_t      taken;               /* how many of these keys lookups of this step have used */
    bool         next_is_asked;       /* the rows of `next` are here, or on their way */
    bool         has_later;           /* `later` has keys, */
    bool         is_expected;         /* which are in order, and the servers know them */
    bool         is_on_disk;          /* servers have rows on disk, and want to know later keys */
    tr_row_cache *cache;              /* kept rows, or NULL */
    tr_geo_rows  *geo;                /* mode geo: this trainer's own copy; else NULL */
} tr__job_table;

/* How far a trainer is. It only grows. */
typedef enum tr__job_life {
    TR__JOB_BEGUN,                    /* the servers have no work from this trainer yet */
    TR__JOB_SET_UP,
    TR__JOB_DRAINING,                 /* it has made its last step, and stays for the last checkpoint */
    TR__JOB_LEFT,                     /* it has said goodbye, or has ended the job */
    TR__JOB_STOPPED                   /* it has ended the job by tr_job_stop */
} tr__job_life;

/* Dense gradients and parameters: job_train.c, job_pull.c. */
typedef struct tr__job_blocks {
    int            count, value_count;    /* value_count: values of servers (tr_job_spec.values); their entries follow those of the
                                           * blocks */
    tr__job_block *item;
    tr_map         of;                /* name of a parameter or gradient -> number of its block, plus 1 */
    int            pushed;            /* blocks pushed in the present step */
    int64_t        pulled_at;         /* number of ended steps at the last pull */
    uint64_t       lists;             /* number of calls of tr_job_pull */
    _Atomic uint64_t version;         /* grows when the servers' values may have changed: with a step, and with a pull of parameters */
} tr__job_blocks;

/* A table with rows on the servers' disks. */
typedef struct tr__job_spill {
    char    *table, *folder;          /* cold rows of this table lie in this folder of each server's host */
    uint64_t memory;                  /* bytes of rows that each server keeps in memory */
} tr__job_spill;

/* Sparse tables: job_tables.c, job_rows.c. */
typedef struct tr__job_tables {
    tr__job_spill *spill;
    int            spill_count;
    int            count;
    tr__job_table *item;
    int            pushed;            /* tables pushed in the present step */
    uint64_t       unsent;            /* bytes of gathered gradients */
    int64_t        cache_staleness;
} tr__job_tables;

/* Gradients that are not finite: job_finite.c. */
typedef struct tr__job_finite {
    tr_on_nan      on_nan;
    bool           is_unfit;          /* the present step must not count (TR_ON_NAN_SKIP) */
} tr__job_finite;

/* Variables that this trainer alone has; they outlive the process: trainer_vars_ops.c. */
typedef struct tr__job_own {
    tr_trainer_vars *vars;
    bool             is_opened, is_kept;
} tr__job_own;

/* The beginning of this trainer. */
typedef struct tr__job_beginning {
    int64_t        step, run;         /* before this job */
    int64_t        at;                /* steps of this trainer at the setup; -1: no server has a step that another lacks */
    int64_t        even_from;         /* from this number of steps on no server lacks a step: tr_job_is_uneven */
} tr__job_beginning;

struct tr_job {
    tr__rank       rank;
    tr_pending     pending;           /* job_pull.c */

    /* trainers */
    tr__job_life   stage;
    tr_policy      policy;            /* the meaning of `mode`; set by tr_job_setup */
    char          *mode;
    tr__job_beginning began;
    int64_t        step;              /* steps that have ended */
    uint64_t       last_ticket;
    double         weight;
    tr__job_blocks blocks;
    tr__job_tables tables;
    tr__job_finite finite;
    tr__job_own    own;
    tr_compress    compress;
    bool           rounds;            /* parameters of float32 come back in bfloat16 (rounded.h) */
    uint32_t       task_lists;        /* lists of leased tasks that were begun */
    struct tr__board_call *call;      /* job_board.c: a post, and its answer; NULL: there was none */
    struct tr__job_sets *sets;        /* job_sets.h; NULL before the setup */
    struct tr__fetched *fetched;      /* fetched values of the last steps: job_fetched.h; NULL: no later process would read them */
    char          *checkpoints;       /* the folder for checkpoints, or NULL */
    struct tr__checkpointer *checkpointer;      /* on the trainer that makes checkpoints: job_checkpoint.h */
    struct tr__own_part *own_part;    /* this trainer's part of all checkpoints: job_own_part.h */
    struct tr__place *place;          /* its place in its data: job_place.h */
};
