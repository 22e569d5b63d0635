/* trireme_serving.h - the C API for serving: a model is loaded once and run from many threads.
 *
 *     tr_predictor *predictor = NULL;
 *     tr_status     status = tr_predictor_load(&predictor, "model");
 *     ...
 *     status = tr_predictor_run(predictor, feeds, results);       // from any thread
 *
 * `model` is a folder of save_inference_model, or one that a training exports to again and again (python/trireme/serving). Of the latter
 * tr_predictor_refresh takes what is new, while other threads run.
 *
 * Parameters are loaded once and shared by all threads. Rows of sparse tables stay in their files, which are mapped: a model may be larger
 * than the machine's memory. A run allocates nothing once as many threads have run as run at a time.
 */
#ifndef TRIREME_SERVING_H
#define TRIREME_SERVING_H

#include "framework/trireme.h"
#include "storage/trireme_checkpoint.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tr_predictor tr_predictor;

/* Load a model. TR_ENOTFOUND: there is none; TR_EFORMAT: it is damaged; TR_EUNSUPPORTED: its program reaches files or other
 * processes, or a table was saved for training. */
TR_API tr_status   tr_predictor_load(tr_predictor **out, const char *folder);
/* The same where the program or all parameters lie in files of these names; NULL: "__model__", a file for each parameter. */
TR_API tr_status   tr_predictor_load_files(tr_predictor **out, const char *folder, const char *model_file, const char *params_file);
/* Nobody runs it any more. */
TR_API void        tr_predictor_free(tr_predictor *predictor);

/* What is to be fed, and what comes out, in order. Names live as long as the predictor. NULL beyond the end. */
TR_API int         tr_predictor_feed_count(const tr_predictor *predictor);
TR_API const char *tr_predictor_feed(const tr_predictor *predictor, int index);
TR_API int         tr_predictor_fetch_count(const tr_predictor *predictor);
TR_API const char *tr_predictor_fetch(const tr_predictor *predictor, int index);
/* The type of a feed, and its dimensions: -1 is any size. *rank comes with dims [TR_MAX_RANK]. TR_ERANGE: there is no such feed. */
TR_API tr_status   tr_predictor_feed_type(const tr_predictor *predictor, int index, tr_dtype *dtype, int *rank, int64_t *dims,
                                          int *lod_level);
/* The same of a fetch, as the program says it. */
TR_API tr_status   tr_predictor_fetch_type(const tr_predictor *predictor, int index, tr_dtype *dtype, int *rank, int64_t *dims,
                                           int *lod_level);

/* Run the model once. `feeds` are in the order of tr_predictor_feed; their names are not looked at. `results` are tensors of the caller,
 * one for each fetch; their memory is used again where it is large enough. Any number of threads may run one predictor. */
TR_API tr_status   tr_predictor_run(tr_predictor *predictor, const tr_feed *feeds, tr_tensor *const *results);
/* The same. *version is the number of the export that this run used: with a refresh in another thread, tr_predictor_version may tell a
 * newer one. */
TR_API tr_status   tr_predictor_run_version(tr_predictor *predictor, const tr_feed *feeds, tr_tensor *const *results, int64_t *version);

/* Load the newest export of a folder that a training exports to. *is_new says whether it is newer than the loaded one. Runs that are under
 * way end with the export that they began with. One thread at a time may call it, while others run. If it fails, the predictor keeps its
 * present export. */
TR_API tr_status   tr_predictor_refresh(tr_predictor *predictor, bool *is_new);
/* The number of the export that runs use: 1, 2, ...; 0: the folder is a saved model. And the training's step then. */
TR_API int64_t     tr_predictor_version(const tr_predictor *predictor);
TR_API int64_t     tr_predictor_step(const tr_predictor *predictor);
/* Whether all files of the model were compared with checksums. Models of Fluid, and of older versions of Trireme, have none. */
TR_API bool        tr_predictor_has_checksums(const tr_predictor *predictor);
/* Allocations of tensors and of memory for runs so far: a test that it stays as it is. */
TR_API int64_t     tr_predictor_allocations(const tr_predictor *predictor);

/* == raw rows ================================================================================ */

/* A model may be saved with its slots: what a row of the training's data had for each feed. Such a model takes rows of raw values. Texts
 * become ids, and missing values are filled in, as the reader of the training's data does it.
 *
 *     const tr_raw_text   users[] = {{"u7", 2}, {"u8", 2}};
 *     const int64_t       genres[] = {8, 3, 4}, offsets[] = {0, 1, 3};
 *     const tr_raw_values values[] = {{.slot = "user", .kind = TR_RAW_TEXTS, .texts = users},
 *                                     {.slot = "genres", .kind = TR_RAW_INTS, .ints = genres, .offsets = offsets}};
 *     status = tr_raw_rows_new(&rows, predictor);
 *     status = tr_raw_rows_fill(rows, 2, 2, values);                              // two rows, values of two slots
 *     status = tr_predictor_run(predictor, tr_raw_rows_feeds(rows), results);
 */

/* What a row has for one feed. */
typedef struct tr_raw_slot {
    const char *name;                 /* as the feed */
    tr_dtype    dtype;                /* of the feed: TR_INT64, TR_FP32 or TR_FP64 */
    int         rank;                 /* of the feed: 1 .. TR_MAX_RANK */
    int64_t     dims[TR_MAX_RANK];             /* of the feed; dims[0] is the batch, -1, and the others are known */
    int64_t     width;                /* the product of the others: values of a row, or of each element of a sequence */
    int         lod_level;            /* 0: a row has `width` values; 1: a sequence of any number of elements */
    int64_t     hash_buckets;         /* 0: values are numbers; else texts or integers, and the id is the text's hash modulo this */
    bool        has_missing;          /* a null is read as `missing`; without it a null is a mistake. If the slot hashes, it is the empty
                                       * text */
    double      missing;
    const char *expected;             /* a value, in words: "a text or an integer" */
} tr_raw_slot;

/* How many slots the model has: one for each feed, in their order; 0: it was saved without them. */
TR_API int                tr_predictor_slot_count(const tr_predictor *predictor);
/* It lives as long as the predictor. NULL beyond the end. */
TR_API const tr_raw_slot *tr_predictor_slot(const tr_predictor *predictor, int index);

typedef enum tr_raw_kind {
    TR_RAW_INTS = 0,                  /* for all slots. A slot that hashes takes the digits */
    TR_RAW_NUMBERS = 1,               /* for slots of floats. NaN counts as null */
    TR_RAW_TEXTS = 2,                 /* UTF-8, for slots that hash: a text is one id, with its spaces */
    TR_RAW_KIND_COUNT
} tr_raw_kind;

typedef struct tr_raw_text {
    const char *bytes;                /* without a zero at the end; NULL is possible where size is 0 */
    int64_t     size;
} tr_raw_text;

/* The values of one slot in all rows, one row after the other. */
typedef struct tr_raw_values {
    const char        *slot;          /* its name */
    tr_raw_kind        kind;
    const int64_t     *ints;          /* one of these three, as `kind` says */
    const double      *numbers;
    const tr_raw_text *texts;
    const bool        *is_null;       /* of each value; NULL: none is null */
    const int64_t     *offsets;       /* of a sequence, rows + 1 of them: row i has the values from offsets[i] up to offsets[i + 1]. The
                                       * first is 0. NULL for other slots */
} tr_raw_values;

/* Memory for rows of a predictor. Each fill uses it again, and needs the predictor. One thread at a time uses it. Free the two in any
 * order. */
typedef struct tr_raw_rows tr_raw_rows;

/* TR_EUNSUPPORTED: the model was saved without slots. */
TR_API tr_status      tr_raw_rows_new(tr_raw_rows **out, const tr_predictor *predictor);
TR_API void           tr_raw_rows_free(tr_raw_rows *rows);
/* Turn `count` rows into feeds. `values` has `value_count` items: one for each slot, in any order. They are not needed after that. A
 * mistake is TR_EINVAL: the text names the row (from 0; of several), the slot, what is expected and what was found. TR_ENOTFOUND: a slot
 * has no values, or there is no slot of a name. After a failure there are no feeds. */
TR_API tr_status      tr_raw_rows_fill(tr_raw_rows *rows, int64_t count, int value_count, const tr_raw_values *values);
/* The feeds of the last fill for tr_predictor_run, in the order of tr_predictor_feed; NULL: there are none. They are valid until the next
 * fill. */
TR_API const tr_feed *tr_raw_rows_feeds(const tr_raw_rows *rows);

/* The ids that a slot with `buckets` (above 0) gives to `count` texts, as they come over the network: each lies behind its size, a u32 of
 * little-endian bytes, and together they have `size` bytes. TR_EINVAL: the sizes do not fit, or a text is no UTF-8. */
TR_API tr_status      tr_raw_ids(int64_t *ids, int64_t count, int64_t buckets, const void *bytes, int64_t size);

#ifdef __cplusplus
}
#endif
#endif
