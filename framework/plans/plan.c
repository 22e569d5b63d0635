/* plan.c - see plan.h. */
#include "framework/plans/plan.h"

#include "framework/operators/op_check.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/operators/kernel.h"
#include "framework/operators/op_attrs.h"
#include "framework/operators/op_registry.h"
#include "framework/tensors/random.h"

/* -- variables ------------------------------------------------------------------------------------------ */

tr_status tr__plan_add_var(int *out, tr_plan *plan, const char *name, tr_home home, int outer)
{
    if (plan->var_count == plan->var_capacity) {
        const int    capacity = plan->var_capacity ? plan->var_capacity * 2 : 64;
        tr_plan_var *var = realloc(plan->var, (size_t)capacity * sizeof *var);
        if (!var)
            return tr_fail(TR_ENOMEM, "no memory for a plan of %d variables", capacity);
        plan->var = var;
        plan->var_capacity = capacity;
    }
    tr_plan_var *var = &plan->var[plan->var_count];
    *var = (tr_plan_var){.name = strdup(name), .home = home, .outer = outer,
                         .desc = tr_block_find_var_recursive(plan->block, name)};
    if (!var->name)
        return tr_fail(TR_ENOMEM, "no memory for the name of a variable");
    /* The key must not move with the array: strdup'ed names do not. */
    if (tr_map_put(&plan->current, var->name, (void *)(intptr_t)(plan->var_count + 1)) != 0)
        return tr_fail(TR_ENOMEM, "no memory for the names of a plan");
    *out = plan->var_count++;
    return TR_OK;
}

tr_status tr__plan_add_temporary(int *out, tr_plan *plan, int like)
{
    char           *name = tr__must_format("%s@NEW@%d", plan->var[like].name, plan->var_count);
    const tr_status status = tr__plan_add_var(out, plan, name, TR_LOCAL, -1);

    free(name);
    if (status == TR_OK)
        plan->var[*out].desc = plan->var[like].desc;
    return status;
}

tr_status tr__plan_var_check(const tr_plan_var *var, const tr_meta *is)
{
    const tr_var_desc *desc = var->desc;

    if (!desc || !tr__kind_is_tensor(is->kind) || is->dtype == TR_DTYPE_NONE)
        return TR_OK;
    if (!tr__kind_is_tensor(desc->kind))
        return tr_fail(TR_EINVAL, "the program declares variable '%s' as another kind of variable, but it holds a tensor", var->name);
    if (desc->dtype != is->dtype && desc->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "the program declares variable '%s' as %s, but it holds %s", var->name,
                       tr_dtype_name(desc->dtype), tr_dtype_name(is->dtype));
    return TR_OK;
}

/* -- steps ---------------------------------------------------------------------------------------------- */

tr_status tr__step_alloc(tr_step *step, const tr_op *op, tr_op_desc *desc)
{
    const tr_op_proto *proto = tr__op_proto(op);

    *step = (tr_step){.op = op, .desc = desc};
    step->in_slots = tr__slot_count(proto->in);
    step->out_slots = tr__slot_count(proto->out);
    step->count = calloc((size_t)(step->in_slots + step->out_slots) + 1, sizeof *step->count);
    step->attrs = calloc(1, proto->attrs_size + 1);
    if (!step->count || !step->attrs)
        return tr_fail(TR_ENOMEM, "%s: no memory to plan it", op->type);
    for (int s = 0; s < step->in_slots + step->out_slots; s++) {
        const bool           output = s >= step->in_slots;
        const tr_slot_def   *def = output ? &proto->out[s - step->in_slots] : &proto->in[s];
        const tr_slot       *slot = tr__op_desc_slot(desc, output, def->name);
        step->count[s] = slot ? slot->count : 0;
        step->arg_count += step->count[s];
        if (!output)
            step->in_args = step->arg_count;
    }
    step->arg = malloc((size_t)(step->arg_count + 1) * sizeof *step->arg);
    return step->arg ? TR_OK : tr_fail(TR_ENOMEM, "%s: no memory to plan it", op->type);
}

static tr_status choose_kernel(const tr_plan *plan, tr_step *step)
{
    int from, to;

    tr__kernel_key_args(&from, &to, step->op, step->count);
    for (int a = from; a < to; a++) {
        const tr_plan_var *var = step->arg[a] >= 0 ? &plan->var[step->arg[a]] : NULL;
        if (var && var->desc)
            return tr__kernel_choose(&step->kernel, step->op, step->count, a, var->name, var->desc->dtype);
    }
    return tr__kernel_choose(&step->kernel, step->op, step->count, -1, NULL, TR_DTYPE_NONE);
}

tr_status tr__step_finish(tr_plan *plan, tr_step *step)
{
    TR_TRY(tr__attrs_check(step->op, step->desc, true));
    TR_TRY(tr__attrs_decode(step->attrs, step->op, step->desc));
    TR_TRY(tr__op_check_attrs(step->op, step->attrs));
    if (step->op->is_random && step->arg_count > step->in_args && step->arg[step->in_args] >= 0) {
        const char *name = plan->var[step->arg[step->in_args]].name;
        step->random_seed = tr_hash_bytes(name, strlen(name));
    }
    return choose_kernel(plan, step);
}

void tr__step_deinit(tr_step *step)
{
    assert(!step->sub);
    tr_op_desc_free(step->desc);
    free(step->attrs);
    free(step->count);
    free(step->arg);
    if (step->infer)
        tr__infer_frame_deinit(step->infer);
    free(step->infer);
    free(step->notes);
    *step = (tr_step){0};
}

void tr__plan_close_gaps(tr_plan *plan)
{
    int kept = 0;
    for (int i = 0; i < plan->step_count; i++)
        if (plan->step[i].op)
            plan->step[kept++] = plan->step[i];
    plan->step_count = kept;
}

bool tr__step_reads_data(const tr_step *step, int arg)
{
    const tr_op *forward = step->op->grad_of;
    int slot = 0;

    if (!forward || !forward->grad || step->op->proto)
        return true;
    for (int a = arg; a >= step->count[slot]; a -= step->count[slot++])
        ;
    return !forward->grad->reads[slot].shape_only;
}

const char *tr__step_text(const tr_plan *plan, const tr_step *step)
{
    static _Thread_local char text[512];
    const char *origin = tr__op_desc_origin(step->desc);

    snprintf(text, sizeof text, "operator '%s' (%s%s%sblock %d, operator %d%s%s)", step->op->type,
             step->composite ? "part of '" : "", step->composite ? step->composite : "", step->composite ? "', " : "",
             plan->block->index, step->op_index, *origin ? ", at " : "", origin);
    return text;
}

tr_status tr__step_name_argument(tr_status status, const tr_plan *plan, const tr_step *step, const tr_infer_frame *frame)
{
    const int a = status == TR_OK ? -1 : tr__op_wrong_kind(frame);

    if (a < 0 || step->arg[a] < 0)
        return status;
    return tr_context(status, frame->meta[a].kind == TR_KIND_RAW
                      ? "the sparse table is '%s': give the operator rows that lookup_table (layers.embedding) has looked up in it"
                      : "it is '%s'", plan->var[step->arg[a]].name);
}
