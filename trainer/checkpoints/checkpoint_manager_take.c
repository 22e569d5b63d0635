/* checkpoint_manager_take.c - writing one checkpoint: the values that this process has, its place in the data, and the outcome. */
#include "trainer/checkpoints/checkpoint_manager_state.h"

#include <stdio.h>
#include <stdlib.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/scope.h"
#include "framework/tensors/watched.h"
#include "pserver/trireme_rows.h"

/* == contents ==================================================================================== */

tr_status tr__checkpoints_place(tr_trainer_state *out, const tr_checkpoint_manager *m, int64_t later)
{
    const tr_checkpoint_contents *c = &m->contents;

    *out = (tr_trainer_state){.steps = tr_checkpoint_manager_steps(m) + later, .runs = tr_checkpoint_manager_runs(m) + later};
    return c->position ? c->position(&out->position, &out->position_size, c->payload) : TR_OK;
}

static tr_status describe_array(tr_checkpoint_item *to, const tr_checkpoint_manager *m, const char *name)
{
    const tr_var *var = tr_scope_find(m->contents.scope, name);

    if (var && var->kind != TR_KIND_TENSOR && var->kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EUNSUPPORTED, "a checkpoint holds dense arrays; '%s' holds something else", name);
    if (!var || !var->tensor.data)
        return tr_fail(TR_ENOTFOUND, "'%s' has no value: run the startup program before a checkpoint", name);
    if (tr_tensor_has_rows(&var->tensor) || tr_tensor_lod_levels(&var->tensor))
        return tr_fail(TR_EUNSUPPORTED, "a checkpoint holds dense arrays; '%s' has %s", name,
                       tr_tensor_has_rows(&var->tensor) ? "selected rows" : "sequence offsets");
    to->dtype = var->tensor.dtype;
    to->rank = var->tensor.shape.rank;
    to->dims = var->tensor.shape.dim;
    to->data = var->tensor.data;
    return TR_OK;
}

/* Get the values that the servers have of the variables that this process writes. */
static tr_status fetch_all(const tr_checkpoint_manager *m)
{
    for (int i = 0; i < m->contents.count; i++) {
        const tr_checkpoint_variable *v = &m->contents.variables[i];
        const tr_var                 *var = v->is_on_servers ? NULL : tr_scope_find(m->contents.scope, v->name);
        if (var)
            tr__tell_wanted(var->tensor.watch);
    }
    return tr__watcher_fetch();
}

/* Describe the variables that this process writes, into arrays with room for all. */
static tr_status describe_all(int *count, tr_checkpoint_item *items, tr_job_table *tables, const tr_checkpoint_manager *m)
{
    *count = 0;
    TR_TRY(fetch_all(m));
    for (int i = 0; i < m->contents.count; i++) {
        const tr_checkpoint_variable *v = &m->contents.variables[i];
        const int                     n = *count;
        if (v->is_on_servers)
            continue;
        items[n] = (tr_checkpoint_item){.name = v->name, .param = v->param, .kind = v->kind};
        if (v->kind != TR_STATE_TABLE) {
            TR_TRY(describe_array(&items[n], m, v->name));
        } else {
            TR_TRY(tr_job_describe_table(&tables[n], m->contents.scope, v->name));
            items[n].data = &tables[n];
        }
        ++*count;
    }
    return TR_OK;
}

/* In one process the checkpoint is written when the call returns, and *number is its number. */
static tr_status write_items(uint64_t *number, tr_checkpoint_manager *m, tr_job_checkpoint_spec *spec, tr_checkpoint_item *items,
                             tr_job_table *tables)
{
    TR_TRY(tr__checkpoints_digest(&spec->digest, m));
    TR_TRY(describe_all(&spec->count, items, tables, m));
    spec->states = items;
    if (m->job)
        return tr_job_checkpoint(m->job, spec);
    const tr_checkpoint_facts facts = {
        .step = spec->step, .mode = "local", .digest = spec->digest, .trainer_count = 1, .trainers = &spec->place, .base = spec->base,
        .rows = spec->rows};
    return tr_checkpoint_save(number, spec->folder, &facts, spec->count, items, spec->keep);
}

static tr_status write_one(uint64_t *number, tr_checkpoint_manager *m, tr_job_checkpoint_spec *spec)
{
    tr_checkpoint_item *items = tr__must_array((size_t)m->contents.count + 1, sizeof *items);
    tr_job_table       *tables = tr__must_array((size_t)m->contents.count + 1, sizeof *tables);

    const tr_status status = write_items(number, m, spec, items, tables);
    free(items);
    free(tables);
    return status;
}

/* == by the policy =============================================================================== */

static int64_t label(const tr_checkpoint_manager *m)
{
    const int64_t steps = tr_checkpoint_manager_steps(m);
    return m->checkpoints ? tr_checkpoint_policy_label(m->checkpoints, steps) : steps;
}

/* The next checkpoint may build on this one, or (number 0) has to be full. */
static void set_base(tr_checkpoint_manager *m, int64_t step, uint64_t number)
{
    m->since_full = number && m->base.number ? m->since_full + 1 : 0;
    m->base = (tr_checkpoint_base){step, number && m->since_full + 1 < m->options.full_every ? number : 0};
}

static tr_status note(tr_checkpoint_manager *m, tr_status status, bool is_given_up)
{
    const bool is_told = tr_checkpoint_policy_ended(m->checkpoints, status, is_given_up);

    if (status == TR_EPEER)
        return status;
    if (status != TR_OK)
        snprintf(m->why, sizeof m->why, "%s", tr_error());
    if (is_told)
        tr__checkpoints_say(m, true, "a checkpoint was not written: %s", m->why);
    return TR_OK;
}

tr_status tr__checkpoints_wait(tr_checkpoint_manager *m)
{
    tr_job_checkpoint_report report = {0};
    const tr_status          status = tr_job_checkpoint_wait(m->job, TR_CHECKPOINT_PATIENCE, &report);
    char                    *text = status == TR_OK ? tr_checkpoint_report_text(&report) : NULL;

    if (text)
        tr__checkpoints_say(m, false, "%s", text);
    free(text);
    set_base(m, report.step, status == TR_OK ? report.number : 0);
    return note(m, status, report.is_given_up);
}

/* The script may have written a checkpoint of its own into the folder, which has taken the place of the base, or has removed it. */
static void check_base(tr_checkpoint_manager *m, int64_t step)
{
    if (m->base.number && (m->base.step == step || !tr_checkpoint_has(m->options.folder, &m->base)))
        m->base.number = 0;
}

/* In a job the checkpoint is written in the background; the policy asks for its outcome later. */
tr_status tr__checkpoints_take(tr_checkpoint_manager *m)
{
    tr_job_checkpoint_spec spec = {.folder = m->options.folder, .step = label(m), .keep = m->options.keep, .rows = m->options.rows};
    uint64_t               number = 0;

    check_base(m, spec.step);
    spec.base = m->base;
    TR_TRY(tr__checkpoints_place(&spec.place, m, 0));
    tr_checkpoint_policy_begun(m->checkpoints, tr_checkpoint_manager_steps(m), tr__clock());
    const tr_status status = write_one(&number, m, &spec);
    if (status == TR_OK && m->job)
        return TR_OK;
    set_base(m, spec.step, status == TR_OK ? number : 0);
    return note(m, status, false);
}

/* == on request ================================================================================== */

/* Wait until another checkpoint can be begun. */
static tr_status wait_for_last(tr_checkpoint_manager *m)
{
    if (m->checkpoints && tr_checkpoint_policy_is_pending(m->checkpoints))
        return tr__checkpoints_wait(m);
    const tr_status status = tr_job_checkpoint_wait(m->job, TR_CHECKPOINT_PATIENCE, NULL);
    return status == TR_ENOTFOUND ? TR_OK : status;                /* there was none */
}

tr_status tr_checkpoint_manager_take_whole(tr_checkpoint_manager *manager, const tr_checkpoint_request *request)
{
    const int64_t counted = tr_checkpoint_manager_steps(manager), deadline = tr__clock() + (int64_t)TR_CHECKPOINT_PATIENCE * 1000000000;
    tr_job_checkpoint_report report = {.is_given_up = true};
    tr_status                status = TR_EPEER;
    tr_job_checkpoint_spec   spec = {.folder = request->folder,
                                     .step = request->step < 0 ? label(manager) : request->step,
                                     .keep = request->keep,
                                     .place = {.steps = manager->job || request->step < 0 ? counted : request->step,
                                               .runs = request->runs < 0 ? tr_checkpoint_manager_runs(manager) : request->runs,
                                               .position = request->position, .position_size = request->position_size}};

    if (!manager->job)
        return write_one(NULL, manager, &spec);
    TR_TRY(wait_for_last(manager));
    while (status != TR_OK && report.is_given_up && tr__clock() < deadline) {
        report.is_given_up = false;
        TR_TRY(write_one(NULL, manager, &spec));
        status = tr_job_checkpoint_wait(manager->job, TR_CHECKPOINT_PATIENCE, &report);
    }
    return status;
}
