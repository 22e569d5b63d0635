/* trainer_vars_ops.c - the operator that keeps a trainer's own variables beyond its process, and the function by which the next process
 * restores them.
 *
 * Nothing is kept without TRIREME_STATE, which `trireme launch` sets: no later process would read it. Only where checkpoints have each
 * trainer's accumulators (job_own_part.h) there are copies in any case. */
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/tensors/scope.h"
#include "framework/tensors/tensor.h"
#include "pserver/api/job.h"
#include "pserver/api/job_own_part.h"
#include "pserver/ops/comm_ops.h"
#include "storage/memory/trainer_vars.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { X, COUNT };

typedef struct attrs {
    int64_t period;
} attrs;

static const tr_op_proto proto = {
    .doc = "Keeps X, variables that this trainer alone has, beyond the process: a job that is started again goes on with them. It stands "
           "before the end of the step, and makes a copy with every one; with Count, before exchange_deltas, with every exchange.",
    .in = TR_SLOTS({"X", "persistent, each of the same size in all runs", TR_SLOT_REPEATED},
                   {"Count", "[1] int64, that of the exchange_deltas after it", TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(attrs, period, LONG, "that of the exchange_deltas after it", .number = 1, .range = TR_AT_LEAST(0))),
    .attrs_size = sizeof(attrs),
};

/* Make the name of the memory that keeps this trainer's variables; false: nothing is kept. */
static bool find_name(char *out, size_t size, const tr_job *job)
{
    const char *prefix = getenv("TRIREME_STATE");

    return prefix && *prefix && tr_trainer_vars_name(out, size, prefix, tr_job_index(job));
}

/* == restoring ================================================================================== */

static tr_status take_over(const tr_scope *scope, const tr_trainer_var *from)
{
    tr_var *var = tr_scope_find(scope, from->name);

    if (!var || !var->tensor.data || (uint64_t)tr_tensor_bytes(&var->tensor) != from->bytes)
        return tr_fail(TR_ENOTFOUND,
                       "'%s', of which an earlier process of this trainer has kept %llu bytes, is not the same variable here: "
                       "is this another script?",
                       from->name, (unsigned long long)from->bytes);
    tr_tensor own;                                 /* the variable's present memory may be shared */
    tr_tensor_init(&own);
    TR_TRY(tr_tensor_copy(&own, &var->tensor));
    memcpy(own.data, from->data, from->bytes);
    tr_tensor_share(&var->tensor, &own);
    tr_tensor_deinit(&own);
    return TR_OK;
}

static tr_status load_all(int *count, const tr_job *job, const tr_scope *scope, uint64_t step)
{
    tr_trainer_var from;

    for (int i = 0; i < tr_trainer_vars_count(job->own.vars); i++)
        if (tr_trainer_vars_find(&from, job->own.vars, step, i)) {
            TR_TRY(take_over(scope, &from));
            ++*count;
        }
    return TR_OK;
}

tr_status tr_job_load_own(tr_job *job, const tr_scope *scope, int *count)
{
    char    name[TR_SEGMENT_NAME];
    int64_t step;
    bool    resumes;

    *count = 0;
    TR_TRY(tr_job_resumed(job, &resumes, &step));
    if (step == 0)
        return TR_OK;
    if (find_name(name, sizeof name, job) && (job->own.vars || tr_trainer_vars_attach(&job->own.vars, name) == TR_OK)) {
        tr__own_part_show(job->own_part, job->own.vars);
        TR_TRY(load_all(count, job, scope, (uint64_t)step));
    }
    if (*count == 0 && job->step == step)
        tr__own_part_begin(job->own_part, scope);
    return TR_OK;
}

/* == keeping ==================================================================================== */

static tr_status open_anew(tr_job *job, const char *name, int count, tr_trainer_var *vars, const tr_run *io)
{
    for (int i = 0; i < count; i++)
        vars[i].name = tr_run_in_name(io, X, i);
    if (!job->own.vars && job->step > 0 && name)
        tr_trainer_vars_attach(&job->own.vars, name);
    if (job->own.vars && tr_trainer_vars_are(job->own.vars, count, vars))
        return TR_OK;
    tr__own_part_show(job->own_part, NULL);
    tr_trainer_vars_free(job->own.vars, true);
    job->own.vars = NULL;
    return tr_trainer_vars_create(&job->own.vars, name, count, vars);
}

static void say_not_kept(const tr_job *job)
{
    fprintf(stderr, "trireme warning: %s: %s; the variables that this trainer alone has are lost if the job is started again\n",
            tr_job_rank_name(job, tr_job_rank(job)), tr_error());
}

/* A trainer that cannot keep them trains all the same. For checkpoints it has copies that do not outlive it. */
static void open(tr_job *job, int count, tr_trainer_var *vars, const tr_run *io)
{
    char       name[TR_SEGMENT_NAME];
    const bool has_name = find_name(name, sizeof name, job), has_copies = has_name && open_anew(job, name, count, vars, io) == TR_OK;

    job->own.is_opened = true;
    if (has_name && !has_copies)
        say_not_kept(job);
    job->own.is_kept = has_copies || (tr__own_part_wants_copies(job->own_part) && open_anew(job, NULL, count, vars, io) == TR_OK);
    if (job->own.is_kept)
        tr__own_part_show(job->own_part, job->own.vars);
}

static bool is_due(const tr_run *io)
{
    const attrs     *a = io->attrs;
    const tr_tensor *count = io->in[COUNT];

    if (!count)
        return true;
    const int64_t made = *(const int64_t *)count->data;
    return a->period == 0 ? made > 0 : made + 1 >= a->period;
}

static tr_status run(const tr_run *io)
{
    const tr_args  *x = &io->ins[X];
    tr_trainer_var *vars;
    tr_job         *job;
    void           *scratch;

    TR_TRY(tr__comm_find_job(&job, io));
    if ((job->own.is_opened && !job->own.is_kept) || !is_due(io))
        return TR_OK;
    TR_TRY(tr_run_scratch(&scratch, io, (size_t)x->count * sizeof *vars));
    vars = scratch;
    for (int i = 0; i < x->count; i++)
        vars[i] = (tr_trainer_var){NULL, x->item[i]->data, (uint64_t)tr_tensor_bytes(x->item[i])};
    if (!job->own.is_opened)
        open(job, x->count, vars, io);
    if (job->own.is_kept && !tr_trainer_vars_keep(job->own.vars, (uint64_t)job->step + 1, x->count, vars))
        return tr_fail(TR_ESHAPE, "keep_variables: a variable has not the size that it had in the first step; that of '%s' is %s now",
                       tr_run_in_name(io, X, 0), TR_SHAPE_STR(x->item[0]->shape));
    return TR_OK;
}

TR_REGISTER_OP(keep_variables, .proto = &proto, .run = run, .has_effect = true, .io = TR_IO_PEERS);
