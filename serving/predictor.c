/* predictor.c - the model that is served, and the runners that threads take and give back.
 *
 * A forked child may go on with a predictor. Runs of other threads do not exist there: their runners and models are left as they are. */
#include "serving/raw_rows.h"
#include "serving/runner.h"
#include "serving/trireme_serving.h"

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"
#include "framework/tensors/tensor.h"
#include "pserver/trireme_dist.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct tr_predictor {
    tr_fork_lock  lock;               /* of `model`, its users and its idle runners */
    tr_model     *model;              /* that new runs take */
    char         *folder;
    bool          is_export;
    tr_model_ends feeds, fetches;     /* as at first; those of newer models are the same */
    struct tr_raw_slots *slots;       /* so are these, where there are any */
    atomic_llong  allocations;        /* of runners */
};

/* == life ========================================================================================= */

static void copy_ends(tr_model_ends *to, const tr_model_ends *from)
{
    to->count = from->count;
    to->name = tr__must_array((size_t)from->count + 1, sizeof *to->name);
    for (int i = 0; i < from->count; i++)
        to->name[i] = tr__must_strdup(from->name[i]);
}

static tr_status load_newest(tr_model **out, const char *folder)
{
    tr_export export;

    TR_TRY(tr_export_read(&export, folder));
    const tr_status status = tr_model_load(out, &export, NULL, NULL);
    tr_export_deinit(&export);
    return status;
}

static tr_status load_saved(tr_model **out, const char *folder, const char *model_file, const char *params_file)
{
    tr_export lone;

    TR_TRY(tr_export_lone(&lone, folder, model_file ? model_file : "__model__"));
    const tr_status status = tr_model_load(out, &lone, model_file, params_file);
    tr_export_deinit(&lone);
    return status;
}

static void end_model(tr_model *model)
{
    while (model->idle) {
        tr_runner *runner = model->idle;
        model->idle = runner->next;
        tr_runner_free(runner);
    }
    tr_model_free(model);
}

tr_status tr_predictor_load_files(tr_predictor **out, const char *folder, const char *model_file, const char *params_file)
{
    tr_model  *model = NULL;
    const bool is_export = !model_file && !params_file && tr_export_is(folder);

    TR_TRY(tr_dist_init());
    TR_TRY(is_export ? load_newest(&model, folder) : load_saved(&model, folder, model_file, params_file));
    tr_predictor *predictor = tr__must_alloc(sizeof *predictor);
    tr__fork_lock_init(&predictor->lock);
    atomic_init(&predictor->allocations, 0);
    predictor->model = model;
    predictor->folder = tr__must_strdup(folder);
    predictor->is_export = is_export;
    copy_ends(&predictor->feeds, &model->feeds);
    copy_ends(&predictor->fetches, &model->fetches);
    predictor->slots = model->slots;
    model->slots = NULL;
    *out = predictor;
    return TR_OK;
}

tr_status tr_predictor_load(tr_predictor **out, const char *folder)
{
    return tr_predictor_load_files(out, folder, NULL, NULL);
}

void tr_predictor_free(tr_predictor *predictor)
{
    if (!predictor)
        return;
    end_model(predictor->model);
    tr__fork_lock_deinit(&predictor->lock);
    tr_model_ends_free(&predictor->feeds);
    tr_model_ends_free(&predictor->fetches);
    tr_raw_slots_free(predictor->slots);
    free(predictor->folder);
    free(predictor);
}

/* == what it takes and gives ========================================================================= */

int tr_predictor_feed_count(const tr_predictor *predictor)
{
    return predictor->feeds.count;
}

const char *tr_predictor_feed(const tr_predictor *predictor, int index)
{
    return index >= 0 && index < predictor->feeds.count ? predictor->feeds.name[index] : NULL;
}

int tr_predictor_fetch_count(const tr_predictor *predictor)
{
    return predictor->fetches.count;
}

const char *tr_predictor_fetch(const tr_predictor *predictor, int index)
{
    return index >= 0 && index < predictor->fetches.count ? predictor->fetches.name[index] : NULL;
}

int tr_predictor_slot_count(const tr_predictor *predictor)
{
    return predictor->slots ? predictor->slots->count : 0;
}

const tr_raw_slot *tr_predictor_slot(const tr_predictor *predictor, int index)
{
    return index >= 0 && index < tr_predictor_slot_count(predictor) ? &predictor->slots->slot[index] : NULL;
}

tr_status tr_raw_rows_new(tr_raw_rows **out, const tr_predictor *predictor)
{
    return tr__raw_rows_new(out, predictor->slots, predictor->folder);
}

/* == taking a model and a runner ====================================================================== */

/* Who only looks has users counted, too. */
static tr_fork_lock *lock_of(const tr_predictor *predictor)
{
    return (tr_fork_lock *)(uintptr_t)&predictor->lock;
}

static tr_model *take_model(const tr_predictor *predictor)
{
    tr__fork_lock_take(lock_of(predictor));
    tr_model *model = predictor->model;
    model->users++;
    tr__fork_lock_release(lock_of(predictor));
    return model;
}

/* The last user of a model that is served no more frees it. */
static void leave_model(const tr_predictor *predictor, tr_model *model)
{
    tr__fork_lock_take(lock_of(predictor));
    const bool is_last = --model->users == 0;
    tr__fork_lock_release(lock_of(predictor));
    if (is_last)
        end_model(model);
}

static tr_status take_runner(tr_runner **out, tr_predictor *predictor, tr_model *model)
{
    tr__fork_lock_take(&predictor->lock);
    *out = model->idle;
    if (*out)
        model->idle = (*out)->next;
    tr__fork_lock_release(&predictor->lock);
    if (*out)
        return TR_OK;
    atomic_fetch_add(&predictor->allocations, 1);
    return tr_runner_new(out, model);
}

static void leave_runner(tr_predictor *predictor, tr_runner *runner)
{
    tr__fork_lock_take(&predictor->lock);
    runner->next = runner->model->idle;
    runner->model->idle = runner;
    tr__fork_lock_release(&predictor->lock);
}

tr_status tr_predictor_run_version(tr_predictor *predictor, const tr_feed *feeds, tr_tensor *const *results, int64_t *version)
{
    tr_model *model = take_model(predictor);
    tr_runner *runner = NULL;
    tr_status status = take_runner(&runner, predictor, model);

    *version = model->version;
    if (status == TR_OK) {
        status = tr_runner_run(runner, feeds, results);
        leave_runner(predictor, runner);
    }
    leave_model(predictor, model);
    return status;
}

tr_status tr_predictor_run(tr_predictor *predictor, const tr_feed *feeds, tr_tensor *const *results)
{
    int64_t version;

    return tr_predictor_run_version(predictor, feeds, results, &version);
}

/* The type of what a program says of a variable; NULL: it says nothing. */
static tr_status read_type(const tr_var_desc *var, const char *what, int index, tr_dtype *dtype, int *rank, int64_t *dims, int *lod_level)
{
    if (!var)
        return tr_fail(TR_ERANGE, "the model has no %s %d, or its program does not describe it", what, index);
    *dtype = tr_var_desc_dtype(var);
    *rank = tr_var_desc_rank(var);
    memcpy(dims, tr_var_desc_dims(var), (size_t)*rank * sizeof *dims);
    *lod_level = tr_var_desc_lod_level(var);
    return TR_OK;
}

tr_status tr_predictor_feed_type(const tr_predictor *predictor, int index, tr_dtype *dtype, int *rank, int64_t *dims, int *lod_level)
{
    tr_model       *model = take_model(predictor);
    const tr_status status = read_type(tr_model_feed(model, index), "feed", index, dtype, rank, dims, lod_level);

    leave_model(predictor, model);
    return status;
}

tr_status tr_predictor_fetch_type(const tr_predictor *predictor, int index, tr_dtype *dtype, int *rank, int64_t *dims, int *lod_level)
{
    tr_model       *model = take_model(predictor);
    const tr_status status = read_type(tr_model_fetch(model, index), "fetch", index, dtype, rank, dims, lod_level);

    leave_model(predictor, model);
    return status;
}

/* == newer exports ==================================================================================== */

static bool has_names(const tr_model_ends *ends, const tr_model_ends *of)
{
    bool same = ends->count == of->count;

    for (int i = 0; same && i < ends->count; i++)
        same = strcmp(ends->name[i], of->name[i]) == 0;
    return same;
}

/* A newer model must take and give what runs do, and turn the rows that they fill in the same way. */
static tr_status check_same(const tr_predictor *predictor, const tr_model *model)
{
    if (!has_names(&predictor->feeds, &model->feeds) || !has_names(&predictor->fetches, &model->fetches))
        return tr_fail(TR_EINVAL, "the newer export in '%s' takes or gives other variables than the model that is served",
                       predictor->folder);
    if (predictor->slots && !tr_raw_slots_equal(predictor->slots, model->slots))
        return tr_fail(TR_EINVAL, "the newer export in '%s' has other slots than the model that is served: load it anew",
                       predictor->folder);
    return TR_OK;
}

static tr_status load_if_newer(tr_model **out, tr_predictor *predictor)
{
    tr_export export;
    tr_status status = TR_OK;

    TR_TRY(tr_export_read(&export, predictor->folder));
    if (export.version != predictor->model->version)
        status = tr_model_load(out, &export, NULL, NULL);
    tr_export_deinit(&export);
    return status;
}

tr_status tr_predictor_refresh(tr_predictor *predictor, bool *is_new)
{
    tr_model *model = NULL;

    *is_new = false;
    if (!predictor->is_export)
        return TR_OK;
    TR_TRY(load_if_newer(&model, predictor));
    if (!model)
        return TR_OK;
    const tr_status status = check_same(predictor, model);
    if (status != TR_OK) {
        tr_model_free(model);
        return status;
    }
    tr__fork_lock_take(&predictor->lock);
    tr_model *old = predictor->model;
    predictor->model = model;
    tr__fork_lock_release(&predictor->lock);
    leave_model(predictor, old);
    *is_new = true;
    return TR_OK;
}

int64_t tr_predictor_version(const tr_predictor *predictor)
{
    tr_model     *model = take_model(predictor);
    const int64_t version = model->version;

    leave_model(predictor, model);
    return version;
}

bool tr_predictor_has_checksums(const tr_predictor *predictor)
{
    tr_model  *model = take_model(predictor);
    const bool has = model->has_sums;

    leave_model(predictor, model);
    return has;
}

int64_t tr_predictor_step(const tr_predictor *predictor)
{
    tr_model     *model = take_model(predictor);
    const int64_t step = model->step;

    leave_model(predictor, model);
    return step;
}

int64_t tr_predictor_allocations(const tr_predictor *predictor)
{
    return atomic_load(&predictor->allocations) + tr__tensor_allocations();
}
