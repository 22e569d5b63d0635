/* trireme_checkpoint.h - the C API of checkpoints: all that a training needs to go on, in one folder.
 *
 *     DIR/step-000000123/manifest                                what is where, and the checksums: written last
 *                        part-00000-of-00002.9f3c....data        arrays, one after the other
 *                        part-00001-of-00002.9f3c....data
 *
 * A checkpoint is there when its manifest is: that is renamed into place when all parts are on the disk. Every byte of
 * a checkpoint is covered by a checksum; one that is torn, damaged or incomplete is refused with TR_EFORMAT and a text
 * that names the file, the chunk, what was expected and what was found.
 *
 * Arrays have the names of the program of one process, wherever they were trained: parts of a parameter that several
 * servers wrote are pieces of one array here. So a checkpoint is loaded onto any number of servers, or into one process.
 *
 * What must stay true: one training at a time writes to a folder. Readers may come at any time. */
#ifndef TRIREME_CHECKPOINT_H
#define TRIREME_CHECKPOINT_H

#include "framework/trireme.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The values are those of Kind in checkpoint.proto. */
typedef enum tr_state_kind {
    TR_STATE_PARAMETER = 0,
    TR_STATE_OPTIMIZER = 1,
    TR_STATE_SCHEDULE = 2,            /* learning rates, and the counters that they follow */
    TR_STATE_STATISTIC = 3,           /* moving averages and all else that persists */
    TR_STATE_TABLE = 4,               /* a sparse table's shard */
    TR_STATE_KIND_COUNT
} tr_state_kind;

/* An array, or rows of one. */
typedef struct tr_state {
    const char    *name;              /* of the variable in the program of one process */
    const char    *param;             /* the parameter that it belongs to; NULL: none, or itself */
    tr_state_kind  kind;
    tr_dtype       dtype;
    int            rank;
    const int64_t *dims;              /* of what is here */
    int64_t        row, rows;         /* the first row here of the whole, and the whole's rows; 0, 0: here is the whole */
    const void    *data;
} tr_state;

/* Where a trainer was. */
typedef struct tr_trainer_state {
    int         index;
    int64_t     steps;                /* ended */
    int64_t     runs;                 /* of its program (tr_executor_runs) */
    const void *position;             /* in its data: bytes that its reader understands; may be NULL */
    size_t      position_size;
} tr_trainer_state;

/* What is said of a checkpoint as a whole. */
typedef struct tr_checkpoint_facts {
    int64_t     step;
    const char *mode;                 /* "sync", ...; "local": one process */
    const char *digest;               /* of the program; may be NULL */
    int         trainer_count;
    const tr_trainer_state *trainers;
} tr_checkpoint_facts;

/* == writing, one process ==================================================================== */

/* Write a checkpoint of these arrays into `folder`/step-..., and remove all but the newest `keep` of the folder (0: none
 * is removed). On failure the folder holds the checkpoints that it held before. */
TR_API tr_status tr_checkpoint_save(const char *folder, const tr_checkpoint_facts *facts, int count, const tr_state *states,
                                    int keep);

/* == reading ================================================================================= */

typedef struct tr_checkpoint tr_checkpoint;

/* Open one checkpoint, `folder` = "DIR/step-000000123": its manifest is read and checked, its parts must have their
 * sizes. What they hold is checked when it is read, or by tr_checkpoint_verify. */
TR_API tr_status tr_checkpoint_open(tr_checkpoint **out, const char *folder);
/* Open the newest checkpoint of `folder` that is valid to the last byte. `*refused` (malloc'ed, tr_free; NULL: nothing) is
 * what was wrong with newer ones, one line each. TR_ENOTFOUND: there is none; the text says what was refused. */
TR_API tr_status tr_checkpoint_open_newest(tr_checkpoint **out, char **refused, const char *folder);
TR_API void      tr_checkpoint_free(tr_checkpoint *checkpoint);
/* Read all parts and compare the checksums. */
TR_API tr_status tr_checkpoint_verify(const tr_checkpoint *checkpoint);
/* Steps of the checkpoints in a folder, the newest first, valid or not, up to `room`; returns how many there are. What has no
 * manifest (yet) is none; a folder that does not exist has none. */
TR_API int       tr_checkpoint_list(int64_t *steps, int room, const char *folder);
/* The folder of a step's checkpoint, malloc'ed. */
TR_API char     *tr_checkpoint_path(const char *folder, int64_t step);

TR_API const char *tr_checkpoint_folder(const tr_checkpoint *checkpoint);
TR_API int64_t     tr_checkpoint_step(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_mode(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_digest(const tr_checkpoint *checkpoint);
TR_API const char *tr_checkpoint_version(const tr_checkpoint *checkpoint);
TR_API uint64_t    tr_checkpoint_cut(const tr_checkpoint *checkpoint);      /* tells checkpoints of one step apart */
TR_API int64_t     tr_checkpoint_created(const tr_checkpoint *checkpoint);  /* seconds since 1970 */
TR_API int64_t     tr_checkpoint_bytes(const tr_checkpoint *checkpoint);    /* of all parts */
TR_API int         tr_checkpoint_parts(const tr_checkpoint *checkpoint);
TR_API int         tr_checkpoint_trainers(const tr_checkpoint *checkpoint);
TR_API void        tr_checkpoint_trainer(tr_trainer_state *out, const tr_checkpoint *checkpoint, int index);
/* Whole arrays, sorted by name: `row` and `rows` are 0, `data` is NULL, the rest is borrowed. Pieces of tables are
 * not among them. */
TR_API int         tr_checkpoint_count(const tr_checkpoint *checkpoint);
TR_API void        tr_checkpoint_array(tr_state *out, const tr_checkpoint *checkpoint, int index);
/* The number of the array with this name; -1: there is none. */
TR_API int         tr_checkpoint_find(const tr_checkpoint *checkpoint, const char *name);
/* Read rows [row, row + rows) of an array (of one without dimensions: 0, 1) into `data`, which has `bytes` bytes: just
 * enough. Checksums are compared on the way. */
TR_API tr_status   tr_checkpoint_read(const tr_checkpoint *checkpoint, int index, int64_t row, int64_t rows, void *data,
                                      int64_t bytes);

#ifdef __cplusplus
}
#endif
#endif
