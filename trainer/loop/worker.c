/* worker.c - see worker.h. */
#include "trainer/loop/worker.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/programs/program.h"
#include "framework/tensors/scope.h"
#include "storage/table/table_var.h"
#include "trainer/loop/step.h"

enum { SEED_OF_WORKER = 1000003 };    /* each worker draws its own random numbers; the first draws those of a single worker */

/* == life ===================================================================================== */

static tr_status check_names(tr_program *program, const tr_worker *worker)
{
    tr_block *block = tr_program_block(program, 0);

    for (int i = 0; i < tr_batch_feed_count(worker->batch); i++)
        if (!tr_block_find_var(block, worker->feed_name[i]))
            return tr_fail(TR_ENOTFOUND, "slot '%s' of the data is no variable of the program", worker->feed_name[i]);
    for (int i = 0; i < worker->fetch_count; i++)
        if (!tr_block_find_var(block, worker->fetch_name[i]))
            return tr_fail(TR_ENOTFOUND, "'%s', which is to be fetched, is no variable of the program",
                           worker->fetch_name[i]);
    return TR_OK;
}

static void take_names(tr_worker *worker, const tr_loop_options *options)
{
    const int count = tr_batch_feed_count(worker->batch), fetches = options->fetch_count;

    worker->feed_name = tr__must_alloc((size_t)count * sizeof *worker->feed_name);
    for (int i = 0; i < count; i++)
        worker->feed_name[i] = tr_batch_feeds(worker->batch)[i].name;
    worker->fetch_count = fetches;
    worker->loss = options->loss <= fetches ? options->loss : 0;
    worker->fetch_name = tr__must_alloc((size_t)fetches * sizeof *worker->fetch_name);
    worker->label = tr__must_alloc((size_t)fetches * sizeof *worker->label);
    worker->fetched = tr__must_alloc((size_t)fetches * sizeof *worker->fetched);
    worker->sum = options->has_means ? tr__must_array((size_t)fetches + 1, sizeof *worker->sum) : NULL;
    for (int i = 0; i < fetches; i++) {
        worker->fetch_name[i] = tr__must_strdup(options->fetches[i]);
        worker->label[i] = tr__must_strdup(options->labels ? options->labels[i] : options->fetches[i]);
    }
}

static tr_status make_own(tr_worker *worker, tr_program *program, tr_scope *scope)
{
    worker->program = tr_program_clone(program);
    worker->scope = tr_scope_new(scope);
    if (!worker->program || !worker->scope)
        return tr_fail(TR_ENOMEM, "no memory for worker %d", worker->number);
    tr_program_set_random_seed(worker->program, tr_program_random_seed(program) + SEED_OF_WORKER * worker->number);
    return TR_OK;
}

/* Is it of use to announce rows: do they come from servers, or from disk? */
static bool has_distant_rows(const tr_worker *worker)
{
    tr_block *block = tr_program_block(worker->program, 0);
    bool      has = worker->job != NULL;

    for (int i = 0; !has && i < tr_block_var_count(block); i++)
        has = tr_table_var_place(tr_scope_find(worker->scope, tr_var_desc_name(tr_block_var_at(block, i)))).spill != NULL;
    return has;
}

/* Prepare to ask for the rows of the next batch. */
static tr_status make_ahead(tr_worker *worker, const tr_dataset *data)
{
    const int count = tr_batch_feed_count(worker->batch);

    if (has_distant_rows(worker))
        TR_TRY(tr_step_ahead(&worker->ahead_program, worker->program, count, worker->feed_name));
    if (!worker->ahead_program)
        return TR_OK;
    worker->next = tr_batch_new(data);
    if (!worker->next)
        return tr_fail(TR_ENOMEM, "no memory for the batch after that of worker %d", worker->number);
    return tr_executor_prepare(&worker->ahead, worker->executor, worker->ahead_program, worker->scope, count, worker->feed_name, 0, NULL);
}

tr_status tr_worker_init(tr_worker *worker, int number, bool is_lone, tr_program *program, tr_scope *scope,
                         const tr_dataset *data, const tr_loop_options *options)
{
    *worker = (tr_worker){.number = number, .job = options->job, .is_lone = is_lone, .program = program, .scope = scope};
    worker->executor = tr_executor_new();
    worker->batch = tr_batch_new(data);
    if (!worker->executor || !worker->batch)
        return tr_fail(TR_ENOMEM, "no memory for worker %d", number);
    tr_executor_set_job(worker->executor, options->job);
    if (options->check_finite)
        tr_executor_check_finite(worker->executor, true);
    if (options->has_precision)
        TR_TRY(tr_executor_set_matmul_precision(worker->executor, tr_precision_name(options->precision)));
    take_names(worker, options);
    TR_TRY(check_names(program, worker));
    if (!is_lone)
        TR_TRY(make_own(worker, program, scope));
    if (options->idle)
        TR_TRY(tr_executor_prepare(&worker->idle, worker->executor, options->idle, worker->scope,
                                   tr_batch_feed_count(worker->batch), worker->feed_name, 0, NULL));
    if (options->flush)
        TR_TRY(tr_executor_prepare(&worker->flush, worker->executor, options->flush, worker->scope, 0, NULL, 0, NULL));
    if (options->runs)
        TR_TRY(tr_executor_set_runs(worker->executor, worker->program, worker->scope, options->runs));
    TR_TRY(make_ahead(worker, data));
    return tr_executor_prepare(&worker->plain, worker->executor, worker->program, worker->scope,
                               tr_batch_feed_count(worker->batch), worker->feed_name, 0, NULL);
}

void tr_worker_deinit(tr_worker *worker)
{
    for (int i = 0; i < worker->fetch_count; i++) {
        free(worker->fetch_name[i]);
        free(worker->label[i]);
        tr_tensor_free(worker->fetched[i]);
    }
    free(worker->fetch_name);
    free(worker->label);
    free(worker->fetched);
    free(worker->sum);
    free(worker->feed_name);
    tr_batch_free(worker->batch);
    tr_batch_free(worker->next);
    tr_executor_free(worker->executor);            /* free the executor before the scope that its plans read */
    tr_program_free(worker->ahead_program);
    if (!worker->is_lone) {
        tr_scope_free(worker->scope);
        tr_program_free(worker->program);
    }
    *worker = (tr_worker){0};
}

tr_status tr_worker_settle_scope(tr_program *program, tr_scope *scope)
{
    tr_block *block = tr_program_block(program, 0);

    for (int i = 0; i < tr_block_var_count(block); i++) {
        const tr_var_desc *desc = tr_block_var_at(block, i);
        tr_var            *var = tr_var_desc_persistable(desc) ? tr_scope_find(scope, tr_var_desc_name(desc)) : NULL;
        tr_tensor          own;
        if (!var || !var->tensor.data || tr__tensor_is_sole_owner(&var->tensor))
            continue;
        tr_tensor_init(&own);
        TR_TRY(tr_tensor_copy(&own, &var->tensor));
        tr_tensor_share(&var->tensor, &own);
        tr_tensor_deinit(&own);
    }
    return TR_OK;
}

/* == batches ================================================================================== */

static void swap_batches(tr_worker *worker)
{
    tr_batch *batch = worker->next;

    worker->next = worker->batch;
    worker->batch = batch;
}

tr_status tr_worker_take(bool *got, tr_worker *worker, tr_dataset *data, double seconds)
{
    const bool is_here = worker->has_next;

    if (worker->next && (is_here || worker->next->is_open))
        swap_batches(worker);
    worker->has_next = false;
    *got = is_here;
    return is_here ? TR_OK : tr_dataset_next(got, worker->batch, data, seconds);
}

tr_status tr_worker_look_ahead(tr_worker *worker, tr_dataset *data)
{
    if (!worker->ahead || worker->batch->ends_task)
        return TR_OK;
    if (tr_dataset_next(&worker->has_next, worker->next, data, 0) != TR_OK || !worker->has_next)
        return TR_OK;                              /* the thread that takes the batch will report the failure */
    return tr_plan_run(worker->ahead, tr_batch_feeds(worker->next), NULL);
}

/* == running ================================================================================== */

static double element(const tr_tensor *tensor, int64_t i)
{
    switch (tensor->dtype) {
    case TR_FP64:
        return ((const double *)tensor->data)[i];
    case TR_FP32:
        return (double)((const float *)tensor->data)[i];
    case TR_INT64:
        return (double)((const int64_t *)tensor->data)[i];
    case TR_INT32:
        return ((const int32_t *)tensor->data)[i];
    default:
        return ((const uint8_t *)tensor->data)[i];
    }
}

/* "loss=0.25", "p=[0.1 0.2 ... of 64]" */
static void tell(tr_text *line, const char *label, const tr_tensor *tensor)
{
    enum { MOST = 8 };
    const int64_t count = tr_tensor_count(tensor);

    tr_text_add(line, " %s=%s", label, count == 1 ? "" : "[");
    for (int64_t i = 0; i < count && i < MOST; i++)
        tr_text_add(line, "%s%.6g", i ? " " : "", element(tensor, i));
    if (count > MOST)
        tr_text_add(line, " ... of %lld", (long long)count);
    tr_text_add(line, "%s", count == 1 ? "" : "]");
}

static void tell_loss(const tr_worker *worker)
{
    const tr_tensor *loss = worker->loss > 0 ? worker->fetched[worker->loss - 1] : NULL;

    if (loss && worker->job)
        tr_step_end(worker->job, loss->dtype, tr_tensor_count(loss), loss->data);
}

static void add_to_sums(tr_worker *worker)
{
    const double samples = (double)tr_batch_samples(worker->batch);

    for (int i = 0; i < worker->fetch_count; i++)
        worker->sum[i] += samples * (tr_tensor_count(worker->fetched[i]) == 1 ? element(worker->fetched[i], 0) : (double)NAN);
    worker->weight += samples;
}

static tr_status run_fetching(tr_worker *worker, tr_text *line)
{
    if (!worker->fetching)
        TR_TRY(tr_executor_prepare(&worker->fetching, worker->executor, worker->program, worker->scope,
                                   tr_batch_feed_count(worker->batch), worker->feed_name, worker->fetch_count,
                                   (const char *const *)worker->fetch_name));
    for (int i = 0; i < worker->fetch_count; i++)
        if (!worker->fetched[i] && !(worker->fetched[i] = tr_tensor_new()))
            return tr_fail(TR_ENOMEM, "no memory for a fetched value");
    TR_TRY(tr_plan_run(worker->fetching, tr_batch_feeds(worker->batch), worker->fetched));
    tell_loss(worker);
    if (worker->sum)
        add_to_sums(worker);
    for (int i = 0; i < worker->fetch_count; i++) {
        if (line)
            tell(line, worker->label[i], worker->fetched[i]);
        tr_tensor_deinit(worker->fetched[i]);      /* drop the references to shared memory */
        tr_tensor_init(worker->fetched[i]);
    }
    return TR_OK;
}

tr_status tr_worker_run(tr_worker *worker, tr_text *line)
{
    if (worker->idle && !tr_batch_samples(worker->batch)) {
        if (line)
            tr_text_add(line, " no samples");
        return tr_plan_run(worker->idle, tr_batch_feeds(worker->batch), NULL);
    }
    return line || worker->sum ? run_fetching(worker, line) : tr_plan_run(worker->plain, tr_batch_feeds(worker->batch), NULL);
}

tr_status tr_worker_flush(tr_worker *worker)
{
    return worker->flush ? tr_plan_run(worker->flush, NULL, NULL) : TR_OK;
}
