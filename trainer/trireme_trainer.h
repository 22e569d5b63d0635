/* trireme_trainer.h - the C API of Trireme's training without Python: data of text files and tables, and loops over it.
 *
 *     tr_dataset *data = NULL;
 *     tr_loop    *loop = NULL;
 *     status = tr_dataset_new(&data, &spec);                // the format of the files, and the variables to feed
 *     status = tr_loop_new(&loop, program, scope, data, &options);
 *     do
 *         status = tr_loop_run(loop, 1.0, &report);         // runs for a second, or until a report is due
 *     while (status == TR_OK && !report.is_at_end);
 *
 * What must stay true: one loop, or one thread, uses a dataset at a time. */
#ifndef TRIREME_TRAINER_H
#define TRIREME_TRAINER_H

#include "pserver/trireme_dist.h"
#include "trainer/partition.h"

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

/* One variable that is fed, and the place of its values in a line. */
typedef struct tr_data_slot {
    const char        *name;          /* name of the variable; NULL: the slot is read and dropped (multislot) */
    tr_dtype           dtype;         /* TR_INT64, TR_FP32 or TR_FP64 */
    int                rank;          /* number of the variable's dimensions: 1 .. TR_MAX_RANK */
    const int64_t     *dims;          /* dims[0] is the batch, -1; the others are known */
    int                lod_level;     /* 0: a line has one row of dims[1..]; 1: a sequence of any number of rows */
    /* CSV and tables: */
    int                column_count;  /* 0: the column named like the variable; if a CSV file has none, the next dims[1] * ... columns */
    const char *const *columns;       /* names; "#3" is the fourth column */
    int64_t            hash_buckets;  /* 0: fields are numbers; otherwise fields are texts, and the id of a text is its hash modulo this */
    bool               has_missing;   /* an empty field, NA, N/A, null, NaN (any case) or ? is read as `missing`; else it is an error */
    double             missing;       /* finite; whole for int64 */
} tr_data_slot;

/* An array in the layout of Apache Arrow's C data interface (ArrowArray). Its holder calls `release` once, from any thread. */
typedef struct tr_arrow_array {
    int64_t                 length, null_count, offset, n_buffers, n_children;
    const void            **buffers;
    struct tr_arrow_array **children;
    struct tr_arrow_array  *dictionary;
    void                  (*release)(struct tr_arrow_array *array);   /* NULL: it holds nothing */
    void                   *private_data;
} tr_arrow_array;

/* Rows of a table. The array `rows` has a child for each column of each slot, in their order; a slot has max(1, column_count) columns. A
 * child holds values of the slot's type; or large_binary, if the slot hashes; or a large_list of these. */
typedef struct tr_table_block {
    tr_arrow_array rows;
    int64_t        group, first;      /* the row group of the file, and the place of the first row in it: both from 0 */
    int64_t        bytes;             /* number of bytes of the rows, roughly */
    bool           is_last;           /* this is the last block of its piece */
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

/* How the trainers of a job share the data. In one process all three do the same. */
typedef enum tr_data_split {
    TR_SPLIT_BATCHES = 0,             /* all trainers read the same data, and each takes its slice of each batch; the steps are those of one process */
    TR_SPLIT_FILES = 1,               /* the files are this trainer's own */
    TR_SPLIT_TASKS = 2,               /* files are cut into tasks, and each trainer gets some; no batch has lines of two tasks */
    TR_SPLIT_COUNT
} tr_data_split;

/* Zero and NULL stand for the default in every field except the first five. */
typedef struct tr_data_spec {
    tr_data_format      format;
    int                 slot_count;
    const tr_data_slot *slots;
    int                 file_count;
    const char *const  *files;        /* a name that ends in .gz is unpacked */
    int64_t             batch_size;   /* 1 */
    bool                drop_last;    /* leave out a last batch that is smaller */
    int                 threads;      /* threads that parse; 1. The batches are the same for any number. */
    bool                is_unordered; /* take batches in any order: faster where lines differ much in length */
    int64_t             bad_lines;    /* how many lines that cannot be read are skipped and counted, -1: any number; 0 */
    const char         *pipe_command; /* a shell command that turns a file (its standard input) into lines (its output) */
    char                delimiter;    /* CSV; ',' */
    bool                has_header;   /* CSV: the first line of every file names the columns */
    int                 column_count; /* CSV without such a line: the names are ... */
    const char *const  *columns;
    tr_table_reader     reader;       /* tables */
    int64_t             first_index;  /* libsvm: index of the first feature; 0 */
    int64_t             block_bytes;  /* bytes that are read at a time; 1048576 */
    tr_data_split       split;
    int64_t             task_bytes;   /* bytes of one task; 67108864. A file that is unpacked or piped is one task. */
} tr_data_spec;

typedef struct tr_dataset tr_dataset;

/* Make a dataset of this description, which is copied. Files are opened when lines are read. */
TR_API tr_status tr_dataset_new(tr_dataset **out, const tr_data_spec *spec);
TR_API void      tr_dataset_free(tr_dataset *dataset);
/* Read only part `part` of `parts`, as `split` says. A trainer of a job passes its index. Call it between two passes. */
TR_API tr_status tr_dataset_set_part(tr_dataset *dataset, int part, int parts);

/* Read all lines into memory; later passes use these lines instead of the files. The call works for about `seconds`, and *done says
 * whether it has finished; if not, call it again. TR_EFORMAT: the text names file, line and column of a line that cannot be read. */
TR_API tr_status tr_dataset_load(bool *done, tr_dataset *dataset, double seconds);
/* Shuffle the lines in memory. The new order depends on the seed, the number of lines and the order before. */
TR_API tr_status tr_dataset_shuffle(tr_dataset *dataset, uint64_t seed);
/* Free the lines in memory. Later passes read the files again. */
TR_API void      tr_dataset_release(tr_dataset *dataset);
TR_API int64_t   tr_dataset_lines_in_memory(const tr_dataset *dataset);   /* The number of lines in memory; -1: they are not loaded. */

/* Begin a pass over the data. Threads read ahead until its end. */
TR_API tr_status tr_dataset_begin(tr_dataset *dataset);
/* End the pass here, even if lines are left. */
TR_API void      tr_dataset_end(tr_dataset *dataset);

/* Memory for one batch; each tr_dataset_next may use it again. */
typedef struct tr_batch tr_batch;
TR_API tr_batch *tr_batch_new(const tr_dataset *dataset);        /* NULL: no memory */
TR_API void      tr_batch_free(tr_batch *batch);
/* Get the next batch of the pass. *got is false when the pass has ended. Waits at most `seconds` for the data, then returns TR_ETIMEOUT;
 * a later call goes on. Several threads may call it at a time, each with a batch of its own. */
TR_API tr_status tr_dataset_next(bool *got, tr_batch *batch, tr_dataset *dataset, double seconds);
TR_API int64_t   tr_batch_samples(const tr_batch *batch);        /* lines */
TR_API int       tr_batch_feed_count(const tr_batch *batch);
/* The feeds for tr_plan_run, in the order of the named slots; valid until the batch is filled again. */
TR_API const tr_feed *tr_batch_feeds(const tr_batch *batch);

typedef struct tr_data_counts {
    int64_t lines;                    /* lines read since the dataset was made, without the bad ones */
    int64_t bad_lines;                /* lines skipped */
    int64_t bytes;                    /* bytes of text */
    int64_t wait_nanoseconds;         /* time that callers waited for lines */
} tr_data_counts;

TR_API void        tr_dataset_count(const tr_dataset *dataset, tr_data_counts *out);
/* The first bad line that was skipped: file, line, column, expected, got. "" when there was none. */
TR_API const char *tr_dataset_first_bad_line(const tr_dataset *dataset);
/* The id that a CSV slot with hash_buckets gives to a text: FNV-1a of its bytes, 64 bits, modulo `buckets`. */
TR_API int64_t     tr_data_hash(const char *text, size_t size, int64_t buckets);

/* == commands =============================================================================== */

/* A shell command that runs beside this process, and how it ended: also where this process ignores SIGCHLD, or collects all its children. */
typedef struct tr_command tr_command;

/* Start a command with the descriptor `input` as its standard input. It owns `input` from now on, also after a failure. *output: the read
 * end of a pipe from the command, the caller's to close. The pipe ends when the command has ended. */
TR_API tr_status tr_command_start(tr_command **out, int *output, int input, const char *text);
/* End the command and its children. Call it from any thread, before tr_command_end. */
TR_API void      tr_command_kill(tr_command *command);
/* Wait for the command's end, and free it. A failure: it did not end with exit code 0. `path` is the file that it read, for the message, or
 * NULL. */
TR_API tr_status tr_command_end(tr_command *command, const char *path);

/* == loops ================================================================================== */

/* Zero and NULL stand for the default in every field. */
typedef struct tr_loop_options {
    int                fetch_count;
    const char *const *fetches;       /* variables that reports show */
    const char *const *labels;        /* their labels in a report; NULL: their names */
    int                loss;          /* which fetch is the loss, from 1; a job reports it to the launcher. 0: none */
    int64_t            report_every;  /* steps from one report to the next; 0: none is made */
    int64_t            epochs;        /* passes over the data; 1 */
    int64_t            steps;         /* end after so many steps, even within a pass; 0: no limit */
    int                threads;       /* workers; 1. With more, each takes batches and updates the same parameters without waiting for
                                       * the others (Hogwild), so results depend on chance. In a job only 1. */
    bool               is_shuffled;   /* shuffle the lines, which are in memory, before each epoch: */
    uint64_t           shuffle_seed;  /* the seed of the order, together with the number of the epoch, from 0 */
    bool               has_leases;    /* in a job of mode async, ssp or geo, with split in tasks: lease the tasks from server 0,
                                       * for `lease` seconds each (300), in `epochs` passes of all trainers together */
    double             lease;
    bool               has_weight;    /* in a job: the gradients of each step get the weight `weight`; otherwise their number of samples */
    double             weight;
    int64_t            skip;          /* steps that were made before: their batches are read, and nothing is run */
    int64_t            runs;          /* runs of the program that were made before: random numbers continue after them */
    tr_checkpoint_manager *manager;   /* of the training's checkpoints: it counts the steps, and does its work between two of them, except while
                                       * the loop skips steps. It outlives the loop. NULL: none */
    tr_job            *job;           /* in which the steps take part; it outlives the loop. NULL: none */
    tr_program        *idle;          /* in a job: the program of a step without samples; NULL: the loop's program */
    tr_program        *flush;         /* with leases: a program that runs when a task ends, so that the servers get all of the task's updates;
                                       * NULL: none */
    bool               has_means;     /* fetch in each step, for tr_loop_means */
    bool               check_finite;
    bool               has_precision; /* precision of matrix products; otherwise that of the process */
    tr_precision       precision;
} tr_loop_options;

/* The loop's progress when tr_loop_run returns. */
typedef struct tr_loop_report {
    bool        is_at_end;            /* no step is left to do */
    bool        is_due;               /* a step was fetched: `line` shows the values */
    bool        is_paused;            /* a pause that tr_loop_pause_at asked for: all steps that were begun have ended, and no other begins */
    bool        is_stopped;           /* a signal asked for the end, and the last checkpoint is written: no step begins, and the process should end with
                                       * TR_STOPPED. tr_checkpoint_manager_stop_text tells its user */
    int64_t     epoch;                /* passes ended */
    int64_t     step;                 /* steps ended; with a report, the step that was fetched */
    int64_t     samples;              /* lines in these steps */
    const char *line;                 /* "step 100: loss=0.25 acc=0.5", valid until the next call; "" when no report is due */
} tr_loop_report;

typedef struct tr_loop tr_loop;

/* Prepare to run `program` once for each batch. `scope` holds its parameters. Program, scope and dataset must outlive the loop, and only
 * the loop may use them until it is freed. In a process of a job the program is the trainer's part. */
TR_API tr_status tr_loop_new(tr_loop **out, tr_program *program, tr_scope *scope, tr_dataset *data,
                             const tr_loop_options *options);
/* End the steps under way, and free the loop. */
TR_API void      tr_loop_free(tr_loop *loop);
/* Compute the means of the fetches over all steps so far, weighted by samples. `means` has room for one value for each fetch. A fetch of
 * several elements, or of no step at all, gives NaN. *samples is the total weight. Call it with options.has_means, at the end or in a
 * pause. */
TR_API void      tr_loop_means(const tr_loop *loop, double *means, double *samples);
/* Begin no step after step `step` until the next call of this function; 0: no limit. Steps count as in reports. A lower number means all
 * steps that are begun by now. In a pause, which tr_loop_run reports, the loop runs no program. */
TR_API void      tr_loop_pause_at(tr_loop *loop, int64_t step);
/* Run for about `seconds`. Returns earlier when a report is due, in a pause, or at the end. */
TR_API tr_status tr_loop_run(tr_loop *loop, double seconds, tr_loop_report *report);

/* == saved jobs ============================================================================== */

typedef struct tr_saved_job_desc {
    tr_job_program      startup, main;
    tr_data_spec        data;
    bool                in_memory;    /* all lines are read before the first epoch */
    tr_loop_options     loop;
    const char         *save_folder;  /* NULL: nothing is saved */
    int                 saved_count;
    const char *const  *saved;
    int                 partition_count;
    const tr_partition *partitions;
    int                 variable_count;
    const tr_checkpoint_variable *variables;  /* that checkpoints hold; name, param and kind are used */
    tr_checkpoint_options checkpoints;        /* choices of the user who runs the job; they are not saved with it */
} tr_saved_job_desc;

typedef struct tr_saved_job tr_saved_job;

/* Write a file. After a crash the file is complete or does not exist. */
TR_API tr_status tr_saved_job_write(const char *path, const tr_saved_job_desc *desc);
/* Read a saved job; `path` may be a folder that holds it as "job". A damaged file is refused with TR_EFORMAT and a text that names the
 * damage. */
TR_API tr_status tr_saved_job_load(tr_saved_job **out, const char *path);
TR_API void      tr_saved_job_free(tr_saved_job *job);
TR_API const tr_saved_job_desc *tr_saved_job_get(const tr_saved_job *job);   /* lives as long as the job */

/* Called with each report, and after the last one with `is_at_end` set. */
typedef void (*tr_saved_job_watcher)(const tr_loop_report *report, double seconds, void *payload);

/* Run a saved job: as a trainer if `job` is a job that mpirun started, alone if it is NULL. `desc` is the job's description, or a copy
 * with other settings. Trainer 0 saves. *is_stopped: SIGTERM or SIGUSR1 asked for a checkpoint and the end; the process should end with
 * TR_STOPPED. */
TR_API tr_status tr_saved_job_run(bool *is_stopped, const tr_saved_job_desc *desc, tr_job *job, tr_saved_job_watcher watcher,
                                  void *payload);

#ifdef __cplusplus
}
#endif
#endif
