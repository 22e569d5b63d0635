/* trireme_trainer.h - the C API of Trireme's training without Python: data of text files and tables, and loops over it.
 *
 *     tr_dataset *data = NULL;
 *     tr_loop    *loop = NULL;
 *     status = tr_dataset_new(&data, &spec);                // what the files look like, what to feed
 *     status = tr_loop_new(&loop, program, scope, data, &options);
 *     do
 *         status = tr_loop_run(loop, 1.0, &report);         // a second of it, or until there is something to tell
 *     while (status == TR_OK && !report.is_at_end);
 *
 * What must stay true: a dataset is used by one loop, or by one thread, at a time. */
#ifndef TRIREME_TRAINER_H
#define TRIREME_TRAINER_H

#include "pserver/trireme_dist.h"
#include "trainer/checkpoint_policy.h"

#ifdef __cplusplus
extern "C" {
#endif

/* == data =================================================================================== */

typedef enum tr_data_format {
    TR_DATA_MULTISLOT = 0,            /* a line: for each slot a count, then so many numbers */
    TR_DATA_CSV = 1,                  /* fields between delimiters, perhaps quoted; perhaps a first line of names */
    TR_DATA_LIBSVM = 2,               /* a label, then index:value ... */
    TR_DATA_TABLE = 3,                /* rows of tables (Parquet, Arrow), which a tr_table_reader hands over */
    TR_DATA_FORMAT_COUNT
} tr_data_format;

/* One variable that is fed, and where in a line its values stand. */
typedef struct tr_data_slot {
    const char        *name;          /* of the variable; NULL: the slot is read and dropped (multislot) */
    tr_dtype           dtype;         /* TR_INT64, TR_FP32 or TR_FP64 */
    int                rank;          /* of the variable: 1 .. TR_MAX_RANK */
    const int64_t     *dims;          /* dims[0] is the batch, -1; the others are known */
    int                lod_level;     /* 0: a line has one row of dims[1..]; 1: a sequence of any number of rows */
    /* CSV and tables: */
    int                column_count;  /* 0: the column named like the variable; of CSV else the next dims[1] * ... ones */
    const char *const *columns;       /* names; "#3" is the fourth column */
    int64_t            hash_buckets;  /* 0: fields are numbers; else the id of a text is its hash modulo this */
    bool               has_missing;   /* an empty field, NA, N/A, null, NaN (any case) or ? is read as `missing`; else it is an error */
    double             missing;       /* finite; whole for int64 */
} tr_data_slot;

/* An array in the layout of Apache Arrow's C data interface (ArrowArray): whoever holds it calls `release` once, from any thread. */
typedef struct tr_arrow_array {
    int64_t                 length, null_count, offset, n_buffers, n_children;
    const void            **buffers;
    struct tr_arrow_array **children;
    struct tr_arrow_array  *dictionary;
    void                  (*release)(struct tr_arrow_array *array);   /* NULL: it holds nothing */
    void                   *private_data;
} tr_arrow_array;

/* Rows of a table. The array `rows` has a child for each column of each slot, in their order: max(1, column_count) of a slot. A child holds
 * values of the slot's type, or, where the slot hashes, large_binary; or a large_list of these. */
typedef struct tr_table_block {
    tr_arrow_array rows;
    int64_t        group, first;      /* the row group of the file, and the place of the first row in it: both from 0 */
    int64_t        bytes;             /* about so many */
    bool           is_last;           /* of the piece */
} tr_table_block;

/* Reads tables. The parsing threads call it one at a time, from `open` to the next `open` or `close`. A row group belongs to the piece of the
 * file in which it begins: of n groups of a file of s bytes group i begins at byte i * s / n. A failure writes its text to `error`. */
enum { TR_TABLE_ERROR_SIZE = 1024 };
typedef struct tr_table_reader {
    tr_status (*open)(void *payload, const char *path, int64_t begin, int64_t end, char *error);
    tr_status (*next)(void *payload, tr_table_block *out, char *error);
    void      (*close)(void *payload);
    void       *payload;              /* outlives the dataset */
} tr_table_reader;

/* How the trainers of a job share the data. In one process all mean the same. */
typedef enum tr_data_split {
    TR_SPLIT_BATCHES = 0,             /* all read the same; each takes its slice of each batch, as one process would go */
    TR_SPLIT_FILES = 1,               /* the files are this trainer's own */
    TR_SPLIT_TASKS = 2,               /* files are cut into tasks, which are dealt out; no batch has lines of two */
    TR_SPLIT_COUNT
} tr_data_split;

/* Zero and NULL stand for the default in every field but the first five. */
typedef struct tr_data_spec {
    tr_data_format      format;
    int                 slot_count;
    const tr_data_slot *slots;
    int                 file_count;
    const char *const  *files;        /* a name that ends in .gz is unpacked */
    int64_t             batch_size;   /* 1 */
    bool                drop_last;    /* leave out a last batch that is smaller */
    int                 threads;      /* that parse; 1. The batches are the same for any number. */
    bool                is_unordered; /* batches as they come: faster where lines differ much in length */
    int64_t             bad_lines;    /* so many lines that cannot be read are skipped and counted, -1: any number; 0 */
    const char         *pipe_command; /* a shell command that turns a file (its input) into lines (its output) */
    char                delimiter;    /* CSV; ',' */
    bool                has_header;   /* CSV: the first line of every file names the columns */
    int                 column_count; /* CSV without such a line: the names are ... */
    const char *const  *columns;
    tr_table_reader     reader;       /* tables */
    int64_t             first_index;  /* libsvm: index of the first feature; 0 */
    int64_t             block_bytes;  /* read at a time; 1048576 */
    tr_data_split       split;
    int64_t             task_bytes;   /* of one task; 67108864. A file that is unpacked or piped is one task. */
} tr_data_spec;

typedef struct tr_dataset tr_dataset;

/* Copies the description. Files are opened when lines are read. */
TR_API tr_status tr_dataset_new(tr_dataset **out, const tr_data_spec *spec);
TR_API void      tr_dataset_free(tr_dataset *dataset);
/* Take part `part` of `parts`, as `split` says. A trainer of a job calls it with its index, between two passes. */
TR_API tr_status tr_dataset_set_part(tr_dataset *dataset, int part, int parts);

/* Read all lines into memory; passes then go over these, without a file. Works for about `seconds` and says in *done
 * whether that was all; call it again until it was. TR_EFORMAT names file, line and column of a line that cannot be
 * read. */
TR_API tr_status tr_dataset_load(bool *done, tr_dataset *dataset, double seconds);
/* Put the lines in memory into an order that depends on the seed, their number and the order before. */
TR_API tr_status tr_dataset_shuffle(tr_dataset *dataset, uint64_t seed);
/* Give the memory back: passes read the files again. */
TR_API void      tr_dataset_release(tr_dataset *dataset);
TR_API int64_t   tr_dataset_lines_in_memory(const tr_dataset *dataset);   /* -1: they are not loaded */

/* A pass over the data begins. Threads read ahead until its end. */
TR_API tr_status tr_dataset_begin(tr_dataset *dataset);
/* End the pass here, even if lines are left. */
TR_API void      tr_dataset_end(tr_dataset *dataset);

/* Memory for one batch, used again for each. */
typedef struct tr_batch tr_batch;
TR_API tr_batch *tr_batch_new(const tr_dataset *dataset);        /* NULL: no memory */
TR_API void      tr_batch_free(tr_batch *batch);
/* The next batch of the pass; false in *got: there is none, the pass has ended. Waits no longer than `seconds` for
 * the data: TR_ETIMEOUT then, and a later call goes on. Several threads may call it at a time, each with a batch of
 * its own. */
TR_API tr_status tr_dataset_next(bool *got, tr_batch *batch, tr_dataset *dataset, double seconds);
TR_API int64_t   tr_batch_samples(const tr_batch *batch);        /* lines */
TR_API int       tr_batch_feed_count(const tr_batch *batch);
/* The feeds for tr_plan_run, in the order of the named slots; valid until the batch is filled again. */
TR_API const tr_feed *tr_batch_feeds(const tr_batch *batch);

typedef struct tr_data_counts {
    int64_t lines;                    /* read since the dataset was made, without the bad ones */
    int64_t bad_lines;                /* skipped */
    int64_t bytes;                    /* of text */
    int64_t wait_nanoseconds;         /* that takers of batches waited for lines */
} tr_data_counts;

TR_API void        tr_dataset_count(const tr_dataset *dataset, tr_data_counts *out);
/* The first bad line that was skipped: file, line, column, expected, got. "" when there was none. */
TR_API const char *tr_dataset_first_bad_line(const tr_dataset *dataset);
/* The id that a CSV slot with hash_buckets gives a text: FNV-1a of its bytes, 64 bits, modulo `buckets`. */
TR_API int64_t     tr_data_hash(const char *text, size_t size, int64_t buckets);

/* == loops ================================================================================== */

/* Zero and NULL stand for the default in every field. */
typedef struct tr_loop_options {
    int                fetch_count;
    const char *const *fetches;       /* variables that reports show */
    const char *const *labels;        /* and how they are called; NULL: by their names */
    int                loss;          /* which of them is the loss, from 1: in a job it is told the launcher; 0: none */
    int64_t            report_every;  /* steps from one report to the next; 0: none is made */
    int64_t            epochs;        /* passes over the data; 1 */
    int64_t            steps;         /* end after so many steps, even within a pass; 0: no limit */
    int                threads;       /* 1. More: each takes batches and updates the same parameters without waiting for
                                       * the others (Hogwild): results then depend on chance. In a job one only. */
    bool               is_shuffled;   /* the lines, which are in memory, are shuffled before each epoch: */
    uint64_t           shuffle_seed;  /* by this and the number of the epoch, from 0 */
    bool               has_leases;    /* in a job of mode async, ssp or geo, with data split in tasks: these are leased from
                                       * server 0 for `lease` seconds each (300) and `epochs` passes of all trainers */
    double             lease;
    bool               has_weight;    /* in a job: the gradients of each step weigh as `weight` samples; else as there are */
    double             weight;
    int64_t            skip;          /* so many steps were made before: their batches are read, and nothing is run */
    int64_t            runs;          /* of the program, made before: random numbers go on from there */
    tr_program        *idle;          /* in a job: the program of a step without samples; NULL: the loop's program */
    tr_program        *flush;         /* with leases: the program that runs when a task ends, so that the servers get all of its updates;
                                         NULL: none */
    bool               has_means;     /* each step is fetched, for tr_loop_means */
    bool               check_finite;
    bool               has_precision; /* matrix products have this one; else that of the process */
    tr_precision       precision;
} tr_loop_options;

/* The loop's progress when tr_loop_run returns. */
typedef struct tr_loop_report {
    bool        is_at_end;            /* nothing is left to do */
    bool        is_due;               /* a step was fetched: `line` tells of it */
    bool        is_paused;            /* all steps that were begun are ended, and no other will be */
    int64_t     epoch;                /* passes ended */
    int64_t     step;                 /* steps ended; of a due report the step that was fetched */
    int64_t     samples;              /* lines in them */
    const char *line;                 /* "step 100: loss=0.25 acc=0.5", until the next call; "" when none is due */
} tr_loop_report;

typedef struct tr_loop tr_loop;

/* Prepare to run `program` in `scope`, which holds its parameters, once for each batch. All three outlive the loop
 * and are its own until it is freed. In a process of a job the program is the trainer's part. */
TR_API tr_status tr_loop_new(tr_loop **out, tr_program *program, tr_scope *scope, tr_dataset *data,
                             const tr_loop_options *options);
/* End the steps under way, and free the loop. */
TR_API void      tr_loop_free(tr_loop *loop);
/* The means of the fetches over all steps so far, weighted by their samples: `means` has room for one of each fetch; of a fetch of several
 * elements, and without any step, NaN. *samples is the weight. With options.has_means, at the end or in a pause. */
TR_API void      tr_loop_means(const tr_loop *loop, double *means, double *samples);
/* Begin no step behind step `step` until the next call of this function; 0: go on. Steps count as in reports; a lower number means the
 * steps that are begun by now. In a pause, which tr_loop_run reports, no program of the loop runs. */
TR_API void      tr_loop_pause_at(tr_loop *loop, int64_t step);
/* Go on for about `seconds`. Return earlier when a report is due, in a pause, or at the end. */
TR_API tr_status tr_loop_run(tr_loop *loop, double seconds, tr_loop_report *report);

/* == saved jobs ============================================================================== */

/* Rows [begin, end) of a trainer's variable; begin < 0: all of it. */
typedef struct tr_saved_rows {
    const char *source;
    int64_t     begin, end;
} tr_saved_rows;

/* The programs and blocks of a job with a certain number of servers; see the comments of Cut in proto/job.proto. */
typedef struct tr_saved_partition {
    tr_job_spec          spec;        /* of the values only server and name are used */
    const tr_saved_rows *block_rows;  /* the rows of the trainers' variables that each block holds */
    const tr_saved_rows *value_rows;
    tr_job_program       trainer, idle, prepare, begin, flush;     /* NULL bytes: there is none */
    int                  table_count;
    const char *const   *tables;      /* sparse ones: variables of the trainers */
    const char *const   *fetches;     /* by their names in the trainer's program, as many as the loop's */
    int                  on_server_count;
    const char *const   *on_servers;
} tr_saved_partition;

/* A variable that a checkpoint holds, as in a tr_checkpoint_item. */
typedef struct tr_saved_state {
    const char   *name, *param;
    tr_state_kind kind;
} tr_saved_state;

/* Choices of the user who runs the job; they are not saved with it. */
typedef struct tr_checkpoint_options {
    const char *folder;               /* NULL: no checkpoints are kept */
    int64_t     every_steps;          /* as in a tr_checkpoint_start */
    double      every_seconds;
    int         keep;                 /* the newest so many stay; 0: all */
    bool        resume;               /* go on from the newest valid one, if there is one */
} tr_checkpoint_options;

typedef struct tr_saved_job_desc {
    tr_job_program      startup, main;
    tr_data_spec        data;
    bool                in_memory;    /* all lines are read before the first epoch */
    tr_loop_options     loop;
    const char         *save_folder;  /* NULL: nothing is saved */
    int                 saved_count;
    const char *const  *saved;
    int                 partition_count;
    const tr_saved_partition *partitions;
    int                 kept_count;
    const tr_saved_state *kept;
    tr_checkpoint_options checkpoints;
} tr_saved_job_desc;

typedef struct tr_saved_job tr_saved_job;

/* Write a file, which is there whole or not at all. */
TR_API tr_status tr_saved_job_write(const char *path, const tr_saved_job_desc *desc);
/* Read a saved job; `path` may be a folder that holds it as "job". A damaged file is refused with TR_EFORMAT and a text that names the
 * damage. */
TR_API tr_status tr_saved_job_load(tr_saved_job **out, const char *path);
TR_API void      tr_saved_job_free(tr_saved_job *job);
TR_API const tr_saved_job_desc *tr_saved_job_get(const tr_saved_job *job);   /* lives as long as the job */

/* Called with each report, and after the last one with `is_at_end` set. */
typedef void (*tr_saved_job_watcher)(const tr_loop_report *report, double seconds, void *payload);

/* Run it: in a process of a job started by mpirun as a trainer (`job`), otherwise alone (NULL). `desc` is the job's, or a
 * copy with other settings. Trainer 0 saves. *is_stopped: SIGTERM or SIGUSR1 asked for a checkpoint and the end; the process is to
 * end with TR_STOPPED. */
TR_API tr_status tr_saved_job_run(bool *is_stopped, const tr_saved_job_desc *desc, tr_job *job, tr_saved_job_watcher watcher,
                                  void *payload);

#ifdef __cplusplus
}
#endif
#endif
