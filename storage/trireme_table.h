/* trireme_table.h - the C API of sparse tables: what describes one, and what one reports. */
#ifndef TRIREME_TABLE_H
#define TRIREME_TABLE_H

#include "framework/trireme.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { TR_JOB_TABLE_STATES = 8 };

/* A sparse table: int64 key -> row. In a job all servers share its rows. The operator lookup_sparse_table_update of their programs, whose W
 * has the table's name, updates it. */
typedef struct tr_job_table {
    const char *name;
    tr_dtype    dtype;                /* of the rows: TR_FP32, TR_FP16 or TR_BF16 */
    int64_t     width;                /* values of a row */
    int         states;               /* the optimizer's numbers for each value, and their first values */
    float       state_value[TR_JOB_TABLE_STATES];
    int         init;                 /* kind of the first values: 0 constant a, 1 uniform in [a, b), 2 normal with mean a and standard */
    double      a, b;                 /* deviation b, 3 the same within two of them */
    uint64_t    random_key;
    int64_t     entry_count;          /* the update, of those that use a key, that makes its row */
    double      entry_probability;    /* share of the keys that can get a row; 0: all */
    int64_t     max_age, keep_count;  /* a row that no step has used for more than max_age steps is removed, unless keep_count steps used it; 0:
                                       * none is removed, no exception */
    int64_t     max_rows;             /* rows of the whole table, at most; 0: no limit */
    int64_t     updates;              /* steps that were made before: the steps of rows count on from there */
    const void *first_rows;           /* trainer 0: rows to begin with, as from tr_job_describe_table; NULL: none */
    const void *first_files; /* trainer 0: files with rows to begin with, likewise; NULL: none */
} tr_job_table;

enum { TR_TABLE_HOT_KEYS = 32 };

typedef struct tr_table_hot_key {
    int64_t key;
    int64_t updates;                  /* that changed its row. A key that is in every step has one for each step */
} tr_table_hot_key;

/* The part of a table on one server; in one process, the whole table. The row counts and their bytes are of rows in use. Memory that is
 * ready for further rows counts only in `bytes`. */
typedef struct tr_table_part {
    int64_t          rows;
    int64_t          waiting;         /* keys that fewer than `entry_count` updates used: they have no row yet */
    int64_t          row_bytes;       /* of one row: values, states, header */
    int64_t          value_bytes, state_bytes, header_bytes;
    int64_t          index_bytes;
    int64_t          journal_bytes;   /* of the undo log of an update */
    int64_t          bytes;           /* memory of this process for the table in all */
    int64_t          updates;         /* the table's clock, by which rows age: updates of this table, before this job, too */
    int64_t          hot_count;
    tr_table_hot_key hot[TR_TABLE_HOT_KEYS];     /* in order of falling `updates`; of equal ones the smaller key first */
} tr_table_part;

/* The rows of a table that lie on disk; all zeros where all rows are in memory. */
typedef struct tr_table_disk {
    int64_t rows;                     /* that lie on disk; tr_table_part counts them, too */
    int64_t file_bytes;               /* of their file */
    int64_t looked_up, found_in_memory; /* keys of all calls; those of them that had a row in memory */
    int64_t reads, read_bytes;        /* rows that calls have read, and what was read of the disk for them */
    int64_t reads_ahead;              /* rows that calls needed, and that were read before, because they were announced */
    int64_t written_bytes;
    int64_t wait_microseconds;        /* that calls have waited for these reads */
} tr_table_disk;

enum { TR_ROW_FILE_HEAD = 128 }; /* bytes of the header of a file for serving: the rest has checksums of its own */

/* A part of a table as a file of its own: the rows of some virtual shards, of 0 .. 1023. */
typedef struct tr_table_file {
    const char *path; /* absolute, or a URI; its folder exists */
    const void *head; /* what stands before the packed rows, such as NumPy's header; NULL: the file is one for serving */
    int64_t     head_bytes, count_at; /* the 20 bytes of `head` from `count_at` on become the number of rows */
    int         shard, shards; /* rows of so many shards from `shard` on */
    int64_t     since; /* only rows that a later update of their server changed; 0: all */
    /* Filled in by tr_table_save_files, and said to tr_table_load_files: */
    int64_t     rows; /* of the file */
    int64_t     crc; /* CRC-32C of the packed rows; -1: not known */
    int64_t     last; /* the newest update of one of the rows; 0: there is none */
} tr_table_file;

/* Bytes of a memory page that large tables get on this machine: 2 MiB or 4096. The call tries it out. */
TR_API int64_t tr_table_page_bytes(void);

#ifdef __cplusplus
}
#endif
#endif
