/* trireme_data.h - data for training: text files and tables that become batches.
 *
 *     tr_dataset *data = NULL;
 *     tr_batch   *batch;
 *     bool        got;
 *     status = tr_dataset_new(&data, &spec);                // the format of the files, and the variables to feed
 *     batch = tr_batch_new(data);
 *     status = tr_dataset_begin(data);
 *     status = tr_dataset_next(&got, batch, data, 1.0);     // tr_batch_feeds(batch) are for tr_plan_run
 *
 * What must stay true: one loop, or one thread, uses a dataset at a time; only tr_dataset_next is for several threads. */
#ifndef TRIREME_DATA_H
#define TRIREME_DATA_H

#include "framework/trireme.h"
#include "storage/trireme_store.h"

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

/* Reads tables. The parsing threads call it one at a time, from `open` to the next `open` or `close`. A row group belongs to the piece of
 * the file in which it begins: of n groups of a file of s bytes group i begins at byte i * s / n. A failure writes its text to `error`. */
enum { TR_TABLE_ERROR_SIZE = 1024 };
typedef struct tr_table_reader {
    tr_status (*open)(void *payload, const char *path, int64_t begin, int64_t end, char *error);
    tr_status (*next)(void *payload, tr_table_block *out, char *error);
    void      (*close)(void *payload);
    void       *payload;              /* outlives the dataset */
} tr_table_reader;

/* How the trainers of a job share the data. In one process all three do the same. */
typedef enum tr_data_split {
    TR_SPLIT_BATCHES = 0,             /* all trainers read the same data, and each takes its slice of each batch; the steps are those of one
                                       * process */
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

#ifdef __cplusplus
}
#endif
#endif
