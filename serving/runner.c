/* runner.c - see runner.h. */
#include "serving/runner.h"

#include "framework/base/memory.h"

#include <stdlib.h>

/* A variable that persists and is fed keeps its value in the runner's own scope: other runners read that of the model. */
static tr_status own_what_is_fed(tr_runner *runner)
{
    tr_block *block = tr_program_block(runner->program, 0);

    for (int i = 0; i < runner->model->feeds.count; i++) {
        const char        *name = runner->model->feeds.name[i];
        const tr_var_desc *desc = tr_block_find_var(block, name);
        if (desc && tr_var_desc_persistable(desc) && !tr_scope_var(runner->scope, name))
            return tr_fail(TR_ENOMEM, "no memory for variable '%s'", name);
    }
    return TR_OK;
}

static tr_status prepare(tr_runner *runner)
{
    const tr_model *model = runner->model;

    TR_TRY(own_what_is_fed(runner));
    return tr_executor_prepare(&runner->plan, runner->executor, runner->program, runner->scope, model->feeds.count,
                               (const char *const *)model->feeds.name, model->fetches.count, (const char *const *)model->fetches.name);
}

tr_status tr_runner_new(tr_runner **out, tr_model *model)
{
    tr_runner *runner = tr__must_alloc(sizeof *runner);
    tr_status  status;

    runner->model = model;
    runner->program = tr_program_clone(model->program);
    runner->scope = tr_scope_new(model->scope);
    runner->executor = tr_executor_new();
    runner->feed = tr__must_array((size_t)model->feeds.count + 1, sizeof *runner->feed);
    runner->result = tr__must_array((size_t)model->fetches.count + 1, sizeof *runner->result);
    for (int i = 0; i < model->fetches.count; i++)
        runner->result[i] = tr_tensor_new();
    status = runner->program && runner->scope && runner->executor ? prepare(runner) : tr_fail(TR_ENOMEM, "no memory for a run");
    if (status != TR_OK) {
        tr_runner_free(runner);
        return status;
    }
    *out = runner;
    return TR_OK;
}

void tr_runner_free(tr_runner *runner)
{
    if (!runner)
        return;
    for (int i = 0; i < runner->model->fetches.count; i++)
        tr_tensor_free(runner->result[i]);
    tr_executor_free(runner->executor);
    tr_scope_free(runner->scope);
    tr_program_free(runner->program);
    free(runner->result);
    free(runner->feed);
    free(runner);
}

tr_status tr_runner_run(tr_runner *runner, const tr_feed *feeds, tr_tensor *const *results)
{
    const tr_model *model = runner->model;

    for (int i = 0; i < model->feeds.count; i++) {
        runner->feed[i] = feeds[i];
        runner->feed[i].name = model->feeds.name[i];
    }
    tr_weight_cache        *before = tr__weight_cache_enter(model->kept);
    const tr_status status = tr_plan_run(runner->plan, runner->feed, runner->result);
    tr__weight_cache_enter(before);
    TR_TRY(status);
    for (int i = 0; i < model->fetches.count; i++)
        TR_TRY(tr_tensor_copy(results[i], runner->result[i]));
    return TR_OK;
}
