/* job_run.c - runs a saved job, alone or as a trainer in a job of several ranks. The steps are those of Executor.run and
 * train_from_dataset in a script, in the same order, so both give the same bits. */
#include "trainer/trireme_trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/tensors/beside.h"
#include "framework/base/memory.h"
#include "framework/tensors/scope.h"
#include "framework/base/status.h"
#include "trainer/accumulators.h"
#include "trainer/feed_threads.h"
#include "trainer/checkpoint_manager.h"

enum { SEED_OF_TRAINER = 1000003 };   /* the same in python/trireme/distributed/transpiler.py */

typedef struct running {
    const tr_saved_job_desc *desc;
    const tr_saved_partition      *partition;     /* NULL: alone */
    tr_policy   policy;               /* of the partition's mode */
    tr_job     *job;
    tr_scope   *scope;
    tr_program *program, *idle, *flush;
    tr_dataset *data;
    tr_loop    *loop;
    tr_checkpoint_manager   manager;
    int64_t     made;                 /* steps */
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

static tr_status find_tensor(tr_tensor **out, const running *r, const char *name)
{
    tr_var *var = tr_scope_find(r->scope, name);

    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value: the job's startup program does not make it", name);
    *out = &var->tensor;
    return TR_OK;
}

/* Find the memory of some rows of a variable. */
static tr_status find_rows(char **out, const running *r, const char *name, int64_t begin, int64_t bytes)
{
    tr_tensor *t = NULL;

    TR_TRY(find_tensor(&t, r, name));
    const int64_t all = tr_tensor_bytes(t), rows = t->shape.rank ? t->shape.dim[0] : 1;
    if (begin < 0 || begin > rows || rows == 0 || bytes < 0 || bytes > all - begin * (all / rows))
        return tr_fail(TR_ESHAPE, "'%s' has %lld rows of %lld bytes; the job speaks of %lld bytes from row %lld on", name,
                       (long long)rows, (long long)(rows ? all / rows : 0), (long long)bytes, (long long)begin);
    *out = (char *)t->data + begin * (all / rows);
    return TR_OK;
}

/* The first values of the servers are parts of the variables that the startup program made here. */
static tr_status fill_value(tr_job_value *value, const running *r, const tr_saved_rows *rows, int64_t *dims)
{
    tr_tensor *t = NULL;
    char      *data;

    TR_TRY(find_tensor(&t, r, rows->source));
    memcpy(dims, t->shape.dim, (size_t)t->shape.rank * sizeof *dims);
    value->dtype = t->dtype;
    value->rank = t->shape.rank;
    value->dims = dims;
    value->data = t->data;
    if (rows->begin < 0)
        return TR_OK;
    if (!t->shape.rank || rows->end > dims[0])
        return tr_fail(TR_ESHAPE, "'%s' is %s; the job speaks of rows %lld to %lld", rows->source, TR_SHAPE_STR(t->shape),
                       (long long)rows->begin, (long long)rows->end);
    const int64_t row = dims[0] ? tr_tensor_bytes(t) / dims[0] : 0;
    TR_TRY(find_rows(&data, r, rows->source, rows->begin, (rows->end - rows->begin) * row));
    dims[0] = rows->end - rows->begin;
    value->data = data;
    return TR_OK;
}

static tr_status set_up(running *r, tr_job_value *values, int64_t (*dims)[TR_MAX_RANK], tr_job_table *tables)
{
    tr_job_spec spec = r->partition->spec;

    for (int i = 0; i < r->partition->table_count; i++)
        TR_TRY(tr_job_describe_table(&tables[i], r->scope, r->partition->tables[i]));
    spec.table_count = r->partition->table_count;
    spec.tables = tables;

    for (int i = 0; i < spec.value_count; i++) {
        values[i] = spec.values[i];
        TR_TRY(fill_value(&values[i], r, &r->partition->value_rows[i], dims[i]));
    }
    tr_checkpoint_manager_fill(&r->manager, &spec, values);
    spec.values = values;
    tr_checkpoint_item *own;
    TR_TRY(tr_accumulators_list(&own, &spec.own_count, r->program, r->scope));
    spec.own = own;
    const tr_status status = tr_job_setup(r->job, &spec);
    free(own);
    return status;
}

/* Pull the parameters, which trainer 0 has set. */
static tr_status pull_all(const running *r, int *blocks, void **places)
{
    const tr_job_spec *spec = &r->partition->spec;
    tr_ticket          ticket;

    for (int i = 0; i < spec->block_count; i++) {
        const tr_saved_rows *rows = &r->partition->block_rows[i];
        char                *place;
        TR_TRY(find_rows(&place, r, rows->source, rows->begin, spec->blocks[i].bytes));
        places[i] = place;
        blocks[i] = i;
    }
    TR_TRY(tr_job_pull(r->job, spec->block_count, blocks, places, &ticket));
    return tr_job_wait(r->job, ticket);
}

static tr_status join(running *r)
{
    const tr_job_spec *spec = &r->partition->spec;
    tr_job_value      *values = tr__must_alloc((size_t)spec->value_count * sizeof *values);
    int64_t          (*dims)[TR_MAX_RANK] = tr__must_alloc((size_t)spec->value_count * sizeof *dims);
    int               *blocks = tr__must_alloc((size_t)spec->block_count * sizeof *blocks);
    void             **places = tr__must_alloc((size_t)spec->block_count * sizeof *places);

    tr_job_table      *tables = tr__must_alloc((size_t)r->partition->table_count * sizeof *tables);

    tr_status status = set_up(r, values, dims, tables);
    for (int i = 0; status == TR_OK && i < r->partition->table_count; i++)
        status = tr_job_bind_table(r->job, r->scope, &tables[i]);     /* from now on the servers have the rows */
    if (status == TR_OK)
        status = pull_all(r, blocks, places);
    free(values);
    free(dims);
    free(tables);
    free(blocks);
    free(places);
    return status;
}

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

/* Steps that an earlier start of this job has left with its servers. In mode geo the servers count exchanges. */
static int64_t steps_before(const running *r)
{
    return r->partition ? tr_job_step(r->job) * r->policy.period : 0;
}

/* == preparing ================================================================================ */

static tr_status prepare_programs(running *r)
{
    const tr_job_program *main = r->partition ? &r->partition->trainer : &r->desc->main;
    int                   loaded;

    r->scope = tr_scope_new(NULL);
    TR_TRY(run_once(r, &r->desc->startup, "startup"));
    TR_TRY(tr_checkpoint_manager_init(&r->manager, r->desc, r->partition, r->partition ? &r->policy : NULL, r->job, r->scope));
    TR_TRY(tr_checkpoint_manager_load(&r->manager));
    TR_TRY(tr_program_parse(&r->program, main->bytes, main->size));
    if (!r->partition)
        return TR_OK;
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
    TR_TRY(join(r));
    TR_TRY(run_once(r, &r->partition->begin, "second"));
    TR_TRY(tr_job_load_own(r->job, r->scope, &loaded));
    return loaded ? run_once(r, &r->partition->after, "third") : TR_OK;     /* what was kept was kept before the step's new parameters came */
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
    options.runs = r->manager.first + (options.has_leases ? 0 : steps_before(r));
    options.skip = options.has_leases ? 0 : options.runs;
    if (r->partition)
        options.fetches = r->partition->fetches;
    TR_TRY(tr_loop_new(&r->loop, r->program, r->scope, r->data, &options));
    const int64_t from = tr__now();
    while (!report.is_at_end && !r->is_stopped) {
        const int64_t left = report.step >= options.skip ? tr_checkpoint_manager_steps_to_pause(&r->manager) : 0;
        tr_loop_pause_at(r->loop, left ? report.step + left : 0);
        TR_TRY(tr_loop_run(r->loop, 0.2, &report));
        if (watcher && (report.is_due || report.is_at_end))
            watcher(&report, (double)(tr__now() - from) / 1e9, payload);
        /* With one worker the caller's thread runs the steps, so it is between two steps here. */
        if ((report.is_paused || options.threads <= 1) && !report.is_at_end && report.step >= options.skip)
            TR_TRY(tr_checkpoint_manager_look(&r->is_stopped, &r->manager, report.step - options.skip));
    }
    r->made = report.step > options.skip ? report.step - options.skip : 0;
    return TR_OK;
}

static bool is_on_servers(const running *r, const char *name)
{
    for (int i = 0; r->partition && i < r->partition->on_server_count; i++)
        if (!strcmp(r->partition->on_servers[i], name))
            return true;
    return false;
}

static tr_status save_one(const running *r, const char *name)
{
    tr_tensor *t = NULL;
    char      *path;

    TR_TRY(find_tensor(&t, r, name));
    TR_TRY(tr_path_inside(&path, r->desc->save_folder, name));
    tr_status status = tr__make_folders(path);
    if (status == TR_OK)
        status = tr_tensor_save(t, path);
    free(path);
    return status;
}

/* All trainers have the same parameters, so trainer 0 writes them. */
static tr_status save(const running *r)
{
    if (!r->desc->save_folder || (r->job && tr_job_index(r->job) != 0))
        return TR_OK;
    for (int i = 0; i < r->desc->saved_count; i++)
        if (!is_on_servers(r, r->desc->saved[i]))
            TR_TRY(save_one(r, r->desc->saved[i]));
    return TR_OK;
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
        return TR_OK;
    if (r->partition)
        TR_TRY(run_once(r, &r->partition->flush, "last"));
    r->manager.made = r->made;
    TR_TRY(save(r));
    return tr_checkpoint_manager_end(&r->manager);
}

tr_status tr_saved_job_run(bool *is_stopped, const tr_saved_job_desc *desc, tr_job *job, tr_saved_job_watcher watcher,
                           void *payload)
{
    running r = {.desc = desc, .job = job};

    const tr_status status = run_all(&r, watcher, payload);
    *is_stopped = r.is_stopped;
    tr_checkpoint_manager_deinit(&r.manager);
    tr_loop_free(r.loop);
    tr_dataset_free(r.data);
    tr_scope_free(r.scope);
    tr_program_free(r.program);
    tr_program_free(r.idle);
    tr_program_free(r.flush);
    return status;
}
