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


#ifdef __cplusplus
}
#endif
#endif
