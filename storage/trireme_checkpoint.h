/* trireme_checkpoint.h - the C API of checkpoints: everything that a training needs to go on, in one folder.
 *
 *     DIR/step-000000123/manifest                                contents and checksums; written last
 *                        part-00000-of-00002.9f3c....data        arrays, one after the other
 *                        part-00001-of-00002.9f3c....data
 *
 * The manifest is renamed into place when all parts are on the disk; only then the checkpoint counts. A checksum covers every byte. A
 * damaged or incomplete checkpoint is refused with TR_EFORMAT, and the text names the file, the chunk, and the expected and found values.
 *
 * Arrays have the names of the program of one process. Parts of a parameter that several servers wrote are pieces of one array here. So a
 * checkpoint can be loaded onto any number of servers, or into one process.
 *
 * What must stay true: one training at a time writes to a folder. Readers may come at any time. */
#ifndef TRIREME_CHECKPOINT_H
#define TRIREME_CHECKPOINT_H

#include "framework/trireme.h"
#include "storage/trireme_table.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values are those of Kind in checkpoint.proto. */
typedef enum tr_state_kind {
    TR_STATE_PARAMETER = 0,
    TR_STATE_OPTIMIZER = 1,
    TR_STATE_SCHEDULE = 2,            /* learning rates, and the counters that they follow */
    TR_STATE_STATISTIC = 3,           /* moving averages and all other persistable variables */
    TR_STATE_TABLE = 4,               /* a sparse table */
    TR_STATE_KIND_COUNT
} tr_state_kind;

/* An array, or some rows of an array. */
typedef struct tr_checkpoint_item {
    const char    *name;              /* name of the variable in the program of one process */
    const char    *param;             /* name of the parameter that it belongs to; NULL: none, or itself */
    tr_state_kind  kind;
    tr_dtype       dtype;
    int            rank;
    const int64_t *dims;              /* dimensions of the rows that are here */
    int64_t        row, rows;         /* the first of these rows in the whole array, and the rows of the whole; 0, 0: this is the whole */
    const void    *data;              /* of kind TR_STATE_TABLE: its tr_job_table; type, dimensions and rows are not used */
} tr_checkpoint_item;

/* The place of a trainer in its data. */
typedef struct tr_trainer_state {
    int         index;
    int64_t     steps;                /* steps that it has ended */
    int64_t     runs;                 /* runs of its program (tr_executor_runs) */
    const void *position;             /* its position in its data: bytes that its reader understands; may be NULL */
    size_t      position_size;
} tr_trainer_state;

/* How the rows of tables are written. Everything else is always exact. */
typedef enum tr_checkpoint_rows {
    TR_ROWS_EXACT = 0,
    TR_ROWS_INT8 = 1,                 /* 8 bits a number and a scale for each row and each of its states: docs/checkpoints.md */
    TR_ROWS_COUNT
} tr_checkpoint_rows;
/* The choice of this name, "exact" or "int8". TR_EINVAL: there is none. */
TR_API tr_status tr_checkpoint_rows_parse(tr_checkpoint_rows *out, const char *name);

/* A checkpoint that another one has the changes since. */
typedef struct tr_checkpoint_base {
    int64_t  step;
    uint64_t number;                  /* tr_checkpoint_number; 0: there is none, and everything is written */
} tr_checkpoint_base;
/* Does the folder have this checkpoint still? Another one may have taken its place. */
TR_API bool tr_checkpoint_has(const char *folder, const tr_checkpoint_base *checkpoint);

/* The description of a checkpoint as a whole. */
typedef struct tr_checkpoint_facts {
    int64_t     step;
    const char *mode;                 /* "sync", ...; "local": one process */
    const char *digest;               /* digest of the program; may be NULL */
    int         trainer_count;
    const tr_trainer_state *trainers;
    const void *tasks;                /* state of leased tasks; NULL: the job has none */
    size_t      tasks_size;
    tr_checkpoint_base base;          /* rows of tables that have not changed since then are not written again */
    tr_checkpoint_rows rows;
} tr_checkpoint_facts;

/* == writing, one process ==================================================================== */

/* Write a checkpoint of these arrays into `folder`/step-..., give its number (NULL: it is not wanted), and remove all but the newest `keep`
 * of the folder (0: none is removed). The first call for a folder claims it for a run that begins (tr_checkpoint_claim), unless the caller
 * has done so. On failure the folder holds the checkpoints that it held before. */
TR_API tr_status tr_checkpoint_save(uint64_t *number, const char *folder, const tr_checkpoint_facts *facts, int count,
                                    const tr_checkpoint_item *states, int keep);

/* == a folder belongs to a run =============================================================== */

/* The training that a checkpoint belongs to: all launches that go on from each other. */
typedef struct tr_checkpoint_run {
    uint64_t    number;               /* random; 0: not known, an older version wrote the checkpoint */
    int64_t     began;                /* seconds since 1970 */
    const char *command;              /* script and arguments of the launch that wrote the checkpoint; "": not known */
} tr_checkpoint_run;

/* How a training comes to its folder. */
typedef enum tr_checkpoint_entry {
    TR_ENTRY_BEGIN = 0,               /* it begins: a folder with checkpoints of another run is refused (TR_EEXIST) */
    TR_ENTRY_ANEW = 1,                /* it begins, and moves checkpoints of other runs into DIR/aside-DATE */
    TR_ENTRY_RESUME = 2,              /* it goes on with the folder's run. A folder with several runs is refused (TR_EINVAL) */
    TR_ENTRY_RESUME_SCRIPT = 3,       /* it goes on if the same script wrote them, with whatever arguments; else the folder is refused (TR_EEXIST) */
    TR_ENTRY_RESUME_COMMAND = 4,      /* it goes on if the same script wrote them with the same arguments; else the folder is refused (TR_EEXIST) */
    TR_ENTRY_JOIN = 5                 /* it has begun already: this process was started again, or takes over from another one */
} tr_checkpoint_entry;

/* Reserve a folder for the checkpoints of this process until it ends; the folder is made where it is missing. Call it before the first step.
 * A folder that another job holds is refused (TR_EINVAL), and so is one that cannot be made or written into (TR_EIO). Under the launcher, the
 * launcher holds the folder that it was given. TR_ENTRY_JOIN always succeeds, because the process that had the folder may still be ending; the
 * caller asks again later. The same holds in a job that the launcher starts again (TRIREME_ATTEMPT).
 * command: the script and its arguments; may be NULL. *said (malloc'ed, tr_free; NULL: nothing): a line for the user. */
TR_API tr_status tr_checkpoint_claim(char **said, const char *folder, tr_checkpoint_entry entry, const char *command);
/* Would tr_checkpoint_claim refuse the folder because of the checkpoints that it holds? The launcher asks before it starts any rank. */
TR_API tr_status tr_checkpoint_check(const char *folder, tr_checkpoint_entry entry, const char *command);

/* == reading ================================================================================= */

typedef struct tr_checkpoint tr_checkpoint;

/* Open one checkpoint, `folder` = "DIR/step-000000123". Its manifest is read and checked, and its parts must have their sizes. Their
 * contents are checked when they are read, or by tr_checkpoint_verify. */
TR_API tr_status tr_checkpoint_open(tr_checkpoint **out, const char *folder);
/* Open the newest checkpoint of `folder` that is valid to the last byte: of the run that this process writes there for, or of the only run
 * (TR_EINVAL: there are several). `*refused` (malloc'ed, tr_free; NULL: none) has a line for each
 * newer one that was refused. TR_ENOTFOUND: no checkpoint is valid; the text has these lines. */
TR_API tr_status tr_checkpoint_open_newest(tr_checkpoint **out, char **refused, const char *folder);
/* The same, but `check` decides whether a checkpoint is valid: TR_EFORMAT or TR_EIO, with a text, and the one before it is tried. Any other
 * failure is returned. */
TR_API tr_status tr_checkpoint_open_newest_by(tr_checkpoint **out, char **refused, const char *folder,
                                              tr_status (*check)(const tr_checkpoint *checkpoint, void *payload), void *payload);
TR_API void      tr_checkpoint_free(tr_checkpoint *checkpoint);
/* Write the checkpoint anew in its place, full, so that it needs no file of the checkpoints that it builds on. `dir`: its folder's folder,
 * which this process must have claimed. TR_EINVAL: another checkpoint builds on this one. On failure it stays as it was. */
TR_API tr_status tr_checkpoint_compact(const tr_checkpoint *checkpoint, const char *dir);
/* Read all parts and compare the checksums. */
TR_API tr_status tr_checkpoint_verify(const tr_checkpoint *checkpoint);
/* List the steps of the checkpoints in a folder, the one that was written last first, valid or not, up to `room`; return how many there are. A folder without
 * a manifest is no checkpoint. A folder that does not exist has none. */
TR_API int       tr_checkpoint_list(int64_t *steps, int room, const char *folder);
/* The folder of a step's checkpoint, malloc'ed. */
TR_API char     *tr_checkpoint_path(const char *folder, int64_t step);

TR_API const char *tr_checkpoint_folder(const tr_checkpoint *checkpoint);
TR_API int64_t     tr_checkpoint_step(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_mode(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_digest(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_version(const tr_checkpoint *checkpoint);
TR_API uint64_t    tr_checkpoint_number(const tr_checkpoint *checkpoint);      /* tells checkpoints of one step apart */
TR_API void        tr_checkpoint_run_of(tr_checkpoint_run *out, const tr_checkpoint *checkpoint);      /* its text is borrowed */
/* The caller goes on from this checkpoint: what this process writes into its folder belongs to the same run. */
TR_API void        tr_checkpoint_follow(const tr_checkpoint *checkpoint);
TR_API int64_t     tr_checkpoint_created(const tr_checkpoint *checkpoint);  /* seconds since 1970 */
TR_API int64_t     tr_checkpoint_bytes(const tr_checkpoint *checkpoint);    /* bytes of its own parts */
/* It has the changes since the checkpoint of this step; -1: it is full. */
TR_API int64_t     tr_checkpoint_base_step(const tr_checkpoint *checkpoint);
/* How rows of tables lie in its own parts: TR_ROWS_INT8 if some are in 8 bits. */
TR_API tr_checkpoint_rows tr_checkpoint_rows_of(const tr_checkpoint *checkpoint);
TR_API int         tr_checkpoint_parts(const tr_checkpoint *checkpoint);
TR_API int         tr_checkpoint_trainers(const tr_checkpoint *checkpoint);
/* The sizes of the trainers' host groups, "4,4,2", which are the order in which their gradients are added; "": not known. */
TR_API const char *tr_checkpoint_groups(const tr_checkpoint *checkpoint);
TR_API void        tr_checkpoint_trainer(tr_trainer_state *out, const tr_checkpoint *checkpoint, int index);
/* The place where trainer `index` goes on. If the checkpoint does not know this trainer, it is the place of the trainer with the most
 * steps. */
TR_API void        tr_checkpoint_place(tr_trainer_state *out, const tr_checkpoint *checkpoint, int index);
/* The state of leased tasks; NULL: the job had none. */
TR_API const void *tr_checkpoint_tasks(size_t *size, const tr_checkpoint *checkpoint);
/* Whole arrays, sorted by name: `row` and `rows` are 0, `data` is NULL, all else is borrowed. Tables are not among them. */
TR_API int         tr_checkpoint_count(const tr_checkpoint *checkpoint);
TR_API void        tr_checkpoint_array(tr_checkpoint_item *out, const tr_checkpoint *checkpoint, int index);
/* The number of the array with this name; -1: there is none. */
TR_API int         tr_checkpoint_find(const tr_checkpoint *checkpoint, const char *name);
/* Read rows [row, row + rows) of an array into `data`, which has exactly their `bytes` bytes. For an array without dimensions pass 0 and
 * 1. Checksums are compared on the way. */
TR_API tr_status   tr_checkpoint_read(const tr_checkpoint *checkpoint, int index, int64_t row, int64_t rows, void *data,
                                      int64_t bytes);

/* -- variables of which each trainer has a value of its own: see own_values.h -- */

/* The number of the array that trainer `trainer` goes on with: its own array of this variable. A checkpoint without it may have another trainer's, or one
 * for all, of the same shape and type. -1: there is none. */
TR_API int         tr_checkpoint_find_own(const tr_checkpoint *checkpoint, const char *name, int trainer);
/* Read that array. Where another number of trainers than `trainers` had values of their own, numbers are the mean of these values: then what was
 * accumulated counts as much as before. TR_ENOTFOUND: there is no array. */
TR_API tr_status   tr_checkpoint_read_own(const tr_checkpoint *checkpoint, const char *name, int trainer, int trainers, void *data,
                                          int64_t bytes);

/* Give variables of `scope` the values of these names, for this trainer of so many `trainers` (tr_checkpoint_read_own): all of them, or none where one
 * does not fit what `program` declares. With `scope` NULL nothing is read. TR_ENOTFOUND: there is no such array. TR_ESHAPE, TR_EDTYPE: it is another one. */
TR_API tr_status   tr_checkpoint_restore(tr_scope *scope, const tr_checkpoint *checkpoint, tr_program *program, int count, const char *const *names,
                                         int trainer, int trainers);

/* -- the place where a launch began: see beginning.c -- */

/* When servers begin without state: trainer 0 notes where the job begins, at this checkpoint of the folder, or (NULL) at its beginning.
 * The note stays until the job has ended well. No effect if no launcher would start the job again (TRIREME_STATE is not set). */
TR_API void        tr_beginning_write(const char *folder, const tr_checkpoint *from);
/* Servers go on with the state of an earlier start of the launch: read the steps and runs of trainer `index` where that launch began.
 * Without a note they are 0. */
TR_API void        tr_beginning_read(tr_trainer_state *out, const char *folder, int index);
/* The age of the newest checkpoint in seconds, or the time since this launch began, if a note of that exists and is later. Below 0:
 * neither is known. A trainer that begins to make checkpoints counts from there. */
TR_API double      tr_checkpoint_age(const char *folder);

/* -- sparse tables: sorted by name -- */

TR_API int         tr_checkpoint_tables(const tr_checkpoint *checkpoint);
/* Describe a table; the name is borrowed. `rows`: its number of rows. */
TR_API void        tr_checkpoint_table(tr_job_table *out, int64_t *rows, const tr_checkpoint *checkpoint, int index);
/* The number of the table of this name; -1: there is none. */
TR_API int         tr_checkpoint_find_table(const tr_checkpoint *checkpoint, const char *name);
/* Read the rows of some virtual shards, into which keys are divided by their hashes, packed as by tr_table_read_rows: of a large table
 * some at a time. There are 1024; from 0, 1024 are all rows. Free *out by tr_free. TR_ERANGE: there is no such table, or shard. */
TR_API tr_status   tr_checkpoint_read_table(void **out, int64_t *bytes, const tr_checkpoint *checkpoint, int index, uint32_t first_shard,
                                            uint32_t shard_count);
/* Put the table with all its rows into the variable of its name, and replace its contents. A table that is there already decides about
 * admission and first values; type, width and states must be the same (TR_ESHAPE). */
TR_API tr_status   tr_checkpoint_load_table(tr_scope *scope, const tr_checkpoint *checkpoint, int index);
/* Compare the description of the table with the table of that name in the scope. Nothing is loaded. The errors are those of
 * tr_checkpoint_load_table. */
TR_API tr_status   tr_checkpoint_check_table(tr_scope *scope, const tr_checkpoint *checkpoint, int index);

/* == checksums of the files of a model ======================================================= */

/* A text has them. Its first line is `trireme-checksums 1`, its last one `end CRC`, the checksum of all bytes before; between stand lines of
 * tr_checksums_line. Checksums are CRC-32C, in hexadecimal digits. A folder of an export has the text in this file: */
#define TR_CHECKSUMS_FILE "__checksums__"
/* In a saved model the text stands at the end of the program's file, in a field that Fluid skips. After the text stand the u32 length of the whole
 * field, and these four bytes, which are the last of the file: */
#define TR_CHECKSUMS_END "TRSM"
enum { TR_CHECKSUMS_FIELD = 20190 };

typedef struct tr_checksums tr_checksums;

/* The checksum of some bytes. */
TR_API uint32_t    tr_checksums_of(const void *bytes, size_t size);
/* Make the line of a file of a folder: `CRC COVERED BYTES NAME`. Of a file of rows, which has checksums of its own, the header is covered. Free *out
 * by tr_free. */
TR_API tr_status   tr_checksums_line(char **out, const char *folder, const char *name);
/* Read a folder's checksums: from its file of checksums, or from its program's file `model_file`. *out is NULL where there are none. */
TR_API tr_status   tr_checksums_read(tr_checksums **out, const char *folder, const char *model_file);
TR_API void        tr_checksums_free(tr_checksums *sums);
/* Compare a file with its checksum. TR_EFORMAT: it is another file than was written; the text names it. Without `sums`, or where these do not name the
 * file, there is nothing to compare. */
TR_API tr_status   tr_checksums_check(const tr_checksums *sums, const char *name);

#ifdef __cplusplus
}
#endif
#endif
