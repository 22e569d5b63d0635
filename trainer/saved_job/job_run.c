/* job_run.c - runs a saved job, alone or as a trainer in a job of several ranks. The steps are those of Executor.run and
 * train_from_dataset in a script, in the same order, so both give the same bits. */
#include "trainer/trireme_trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/tensors/scope.h"
#include "framework/base/status.h"
#include "pserver/util/wake.h"
#include "trainer/checkpoints/stop_signal.h"
#include "trainer/saved_job/job_save.h"

/* The same in python/trireme/distributed: transpiler.py and geo.py. */
enum { SEED_OF_TRAINER = 1000003 };
static const char EXCHANGE_COUNT[] = "exchange_deltas@COUNT";

typedef struct running {
    const tr_saved_job_desc *desc;
    const tr_partition      *partition;     /* NULL: alone */
    tr_policy   policy;               /* of the partition's mode */
    tr_job     *job;
    tr_scope   *scope;
    tr_program *main;                 /* of one process */
    tr_program *program, *idle, *flush;       /* that run here */
    tr_dataset *data;
    tr_loop    *loop;
    tr_checkpoint_manager  *manager;
    tr_checkpoint_variable *variables;        /* that checkpoints hold */
    bool        is_stopped;
} running;

/* == programs ================================================================================= */

/* Run a program once. */
static tr_status run_once(const running *r, const tr_job_program *bytes, const char *what)
{
    tr_program  *program = NULL;
    tr_executor *executor = tr_executor_new();
    tr_plan     *plan;
    tr_status    status = bytes->bytes ? tr_program_parse(&program, bytes->bytes, bytes->size) : TR_OK;

    tr_executor_set_job(executor, r->job);
    if (status == TR_OK && program) {
        status = tr_executor_prepare(&plan, executor, program, r->scope, 0, NULL, 0, NULL);
        if (status == TR_OK)
            status = tr_plan_run(plan, NULL, NULL);
    }
    tr_executor_free(executor);
    tr_program_free(program);
    return status == TR_OK ? TR_OK : tr_context(status, "in the job's %s program", what);
}

/* == in a job of several ======================================================================= */

static tr_status find_partition(running *r)
{
    char   known[128] = "";
    size_t used = 0;

    for (int i = 0; i < r->desc->partition_count; i++) {
        const int servers = r->desc->partitions[i].spec.program_count;
        if (servers == tr_job_servers(r->job))
            r->partition = &r->desc->partitions[i];
        if (used < sizeof known)
            used += (size_t)snprintf(known + used, sizeof known - used, "%s%d", i ? ", " : "", servers);
    }
    if (r->partition)
        return tr_policy_parse(&r->policy, r->partition->spec.mode);
    return tr_fail(TR_ENOTFOUND, "the job was saved for %s servers, but %d are here: start as many, or save it with servers=%d",
                   r->desc->partition_count ? known : "no", tr_job_servers(r->job), tr_job_servers(r->job));
}

/* Does server 0 lease the tasks of the data? It does so in modes where an update is not made of all trainers' gradients. */
static bool has_leases(const running *r)
{
    return r->partition && r->desc->data.split == TR_SPLIT_TASKS && !r->desc->in_memory && r->policy.leases_tasks;
}

/* == preparing ================================================================================ */

static bool is_held_by_servers(const running *r, const tr_checkpoint_variable *variable)
{
    for (int i = 0; r->partition && i < r->partition->spec.value_count; i++)
        if (!strcmp(r->partition->value_rows[i].source, variable->name))
            return true;
    return r->partition && variable->kind == TR_STATE_TABLE;
}

/* Find where the training goes on, and take the values from there. */
static tr_status prepare_checkpoints(running *r)
{
    const tr_saved_job_desc *desc = r->desc;

    if (desc->checkpoints.folder && !desc->variable_count)
        return tr_fail(TR_EUNSUPPORTED, "the job does not say what a checkpoint of it holds: save it anew");
    r->variables = tr__must_array((size_t)desc->variable_count + 1, sizeof *r->variables);
    for (int i = 0; i < desc->variable_count; i++) {
        r->variables[i] = desc->variables[i];
        r->variables[i].is_on_servers = is_held_by_servers(r, &desc->variables[i]);
    }
    r->manager = tr_checkpoint_manager_new(&desc->checkpoints, r->job);
    const tr_checkpoint_contents contents = {.program = r->main,
                                             .scope = r->scope,
                                             .count = desc->variable_count,
                                             .variables = r->variables,
                                             .mode = r->partition ? r->partition->spec.mode : NULL,
                                             .exchange_count = r->policy.trains_copies ? EXCHANGE_COUNT : NULL};
    TR_TRY(tr_checkpoint_manager_begin(r->manager, &contents));
    if (desc->checkpoints.folder)
        tr_stop_signal_listen();
    return tr_checkpoint_manager_load(r->manager);
}

static tr_status prepare_programs(running *r)
{
    int loaded;

    r->scope = tr_scope_new(NULL);
    TR_TRY(tr_program_parse(&r->main, r->desc->main.bytes, r->desc->main.size));
    TR_TRY(run_once(r, &r->desc->startup, "startup"));
    TR_TRY(prepare_checkpoints(r));
    if (!r->partition)
        return TR_OK;
    TR_TRY(tr_program_parse(&r->program, r->partition->trainer.bytes, r->partition->trainer.size));
    /* Each trainer draws its own random numbers. The saved seed is trainer 0's. */
    const int64_t seed = (int64_t)SEED_OF_TRAINER * tr_job_index(r->job);
    tr_program_set_random_seed(r->program, tr_program_random_seed(r->program) + seed);
    if (r->partition->idle.bytes) {
        TR_TRY(tr_program_parse(&r->idle, r->partition->idle.bytes, r->partition->idle.size));
        tr_program_set_random_seed(r->idle, tr_program_random_seed(r->idle) + seed);
    }
    if (r->partition->flush.bytes)
        TR_TRY(tr_program_parse(&r->flush, r->partition->flush.bytes, r->partition->flush.size));
    TR_TRY(run_once(r, &r->partition->prepare, "first"));
    TR_TRY(tr_partition_join(r->partition, r->job, r->manager, r->scope, r->program));
    TR_TRY(tr_partition_pull(r->partition, r->job, r->scope, false));
    TR_TRY(run_once(r, &r->partition->begin, "second"));
    TR_TRY(tr_job_load_own(r->job, r->scope, &loaded));
    if (loaded)
        TR_TRY(run_once(r, &r->partition->after, "third"));        /* what was kept was kept before the step's new parameters came */
    return r->policy.trains_copies ? TR_OK : tr_job_watch(r->job, r->scope, r->partition->remote_count, r->partition->remote);
}

static tr_status prepare_data(running *r)
{
    bool done = !r->desc->in_memory;

    TR_TRY(tr_dataset_new(&r->data, &r->desc->data));
    if (r->job)
        TR_TRY(tr_dataset_set_part(r->data, tr_job_index(r->job), tr_job_trainers(r->job)));
    while (!done)
        TR_TRY(tr_dataset_load(&done, r->data, 1));
    return TR_OK;
}

/* == running ================================================================================== */

static tr_status train(running *r, tr_saved_job_watcher watcher, void *payload)
{
    tr_loop_options options = r->desc->loop;
    tr_loop_report  report = {0};

    options.job = r->job;
    options.idle = r->idle;
    options.flush = r->flush;
    options.has_leases = has_leases(r);
    options.manager = r->manager;
    options.runs = tr_checkpoint_manager_runs(r->manager);
    options.skip = options.has_leases ? 0 : tr_checkpoint_manager_steps(r->manager);
    if (r->partition)
        options.fetches = r->partition->fetches;
    TR_TRY(tr_loop_new(&r->loop, r->program ? r->program : r->main, r->scope, r->data, &options));
    const int64_t from = tr__clock();
    while (!report.is_at_end && !report.is_stopped) {
        TR_TRY(tr_loop_run(r->loop, 0.2, &report));
        if (watcher && (report.is_due || report.is_at_end))
            watcher(&report, (double)(tr__clock() - from) / 1e9, payload);
    }
    r->is_stopped = report.is_stopped;
    return TR_OK;
}

/* A signal asked for the end: it is the end of the whole job. */
static tr_status stop(const running *r)
{
    char *text = tr_checkpoint_manager_stop_text(r->manager);
    char *said = r->job ? tr__must_format("%s %s", tr_job_rank_name(r->job, tr_job_rank(r->job)), text) : tr__must_strdup(text);

    const tr_status status = r->job ? tr_job_stop(r->job, said, TR_STOPPED) : TR_OK;
    if (!r->job)
        fprintf(stderr, "trireme: %s\n", said);
    free(text);
    free(said);
    return status;
}

static tr_status wait_for_others(const running *r)
{
    tr_status status;

    do
        status = tr_checkpoint_manager_end(r->manager, TR_CHECKPOINT_LOOK_MILLISECONDS / 1e3);
    while (status == TR_ETIMEOUT);
    return status;
}

/* All trainers have the same parameters, so trainer 0 writes them. */
static tr_status save(const running *r)
{
    if (!r->desc->save_folder || (r->job && tr_job_index(r->job) != 0))
        return TR_OK;
    return tr_saved_job_save(r->desc, r->scope);
}

static tr_status run_all(running *r, tr_saved_job_watcher watcher, void *payload)
{
    TR_TRY(tr_dist_init());
    if (r->job)
        TR_TRY(find_partition(r));
    /* First open the data: so a mistake in its files is found before other trainers wait for this one. */
    TR_TRY(prepare_data(r));
    TR_TRY(prepare_programs(r));
    TR_TRY(train(r, watcher, payload));
    if (r->is_stopped)
        return stop(r);
    if (r->partition)
        TR_TRY(run_once(r, &r->partition->flush, "last"));
    TR_TRY(save(r));
    return wait_for_others(r);
}

tr_status tr_saved_job_run(bool *is_stopped, const tr_saved_job_desc *desc, tr_job *job, tr_saved_job_watcher watcher,
                           void *payload)
{
    running r = {.desc = desc, .job = job};

    const tr_status status = run_all(&r, watcher, payload);
    *is_stopped = r.is_stopped;
    tr_checkpoint_manager_free(r.manager);
    free(r.variables);
    tr_loop_free(r.loop);
    tr_dataset_free(r.data);
    tr_scope_free(r.scope);
    tr_program_free(r.main);
    tr_program_free(r.program);
    tr_program_free(r.idle);
    tr_program_free(r.flush);
    return status;
}
