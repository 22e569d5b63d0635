/* plan_update.c - an optimizer's step and the step that makes its gradient become one, where the gradient was made. See fusion.h.
 *
 * The update moves up, so nothing between the two may use the parameter or write another input of the optimizer. And nothing else
 * may read the gradient. One walk from the last step to the first keeps, for each variable, the nearest later step that
 * uses it and the nearest that writes it. So the time grows with the number of arguments alone.
 *
 * A run that fails must leave all parameters updated or none. So an update moves over gradients and optimizers alone: what they check, the forward part
 * has checked before. A function of the user (py_func), or any other operator of the forward part, may fail.
 *
 * Where a run looks for NaN, nothing is fused: a gradient that is not finite must end the run before it reaches the parameter. */
#include "framework/plans/plan_passes.h"

#include <stdlib.h>
#include <string.h>

#include "framework/gradients/grad_walk.h"
#include "framework/operators/fusion.h"
#include "framework/operators/op_registry.h"

static const tr_update_fusion *table;
static int                     table_count;

void tr_update_fusions_add(const tr_update_fusion *fusions, int count)
{
    table = fusions;
    table_count = count;
}

/* How the steps after the one at hand use a variable; numbers of steps, or -1. */
typedef struct later {
    int reads, reader;                /* how often it is read in the whole plan; one of the readers */
    int use, write;
} later;

/* The only argument of a slot; -1: there is none, or there are several. */
static int only_arg(const tr_step *step, bool output, const char *name)
{
    const tr_op_proto *proto = tr__op_proto(step->op);
    const tr_slot_def *def = output ? proto->out : proto->in;
    int                a = output ? step->in_args : 0, slot = output ? step->in_slots : 0;

    for (; def->name && strcmp(def->name, name) != 0; def++)
        a += step->count[slot++];
    return def->name && step->count[slot] == 1 ? step->arg[a] : -1;
}

static const tr_update_fusion *fusion_of(const tr_step *step)
{
    for (int k = 0; k < table_count; k++)
        if (strcmp(step->op->type, table[k].gradient) == 0)
            return &table[k];
    return NULL;
}

/* Are the optimizer's other inputs there when the gradient is made? A later step that writes one would come after the update. */
static bool inputs_are_ready(const tr_step *update, const later *var, int param, int gradient)
{
    for (int a = 0; a < update->in_args; a++) {
        const int v = update->arg[a];
        if (v >= 0 && v != param && v != gradient && var[v].write >= 0)
            return false;
    }
    return true;
}

/* Does the step, or one in the block that it runs, do more than write outputs? Such a step may fail by what is outside of the program. */
static bool has_effect(const tr_step *step)
{
    if (step->op->has_effect || step->op->reduces)
        return true;
    for (int i = 0; step->sub && i < step->sub->step_count; i++)
        if (has_effect(&step->sub->step[i]))
            return true;
    return false;
}

/* May an update move up over it? */
static bool lets_pass(const tr_plan *plan, const tr_step *step)
{
    const tr_op_desc *op = plan->program->block[plan->block->index]->op[step->op_index];
    const bool        trains = step->op->updates || tr_op_desc_attr_int(op, "op_role", 0) & (TR_ROLE_BACKWARD | TR_ROLE_OPTIMIZE);

    return trains && !has_effect(step);
}

/* The optimizer's step that can run with step `i`, or -1. It must stand above step `fence`. */
static int update_of(const tr_plan *plan, const later *var, const tr_update_fusion *fusion, int i, int fence)
{
    const int gradient = only_arg(&plan->step[i], true, fusion->made), param = only_arg(&plan->step[i], false, fusion->of);

    if (gradient < 0 || param < 0 || plan->var[gradient].home != TR_LOCAL || plan->var[gradient].captured ||
        plan->var[gradient].fetched || var[gradient].reads != 1 || plan->var[param].captured)
        return -1;
    const int      u = var[gradient].reader;
    const tr_step *update = &plan->step[u];
    if (u <= i || u > fence || strcmp(update->op->type, fusion->update) != 0 || only_arg(update, false, fusion->taken) != gradient ||
        only_arg(update, false, fusion->param) != param || only_arg(update, true, fusion->param_out) != param)
        return -1;
    return var[param].use == u && inputs_are_ready(update, var, param, gradient) ? u : -1;
}

/* The argument of a slot of the fused operator, in the steps that have such a slot. */
static const tr_step *step_with(const tr_step *const steps[2], bool output, const char *name)
{
    for (int k = 0; k < 2; k++)
        if (tr__op_desc_slot(steps[k]->desc, output, name))
            return steps[k];
    return NULL;
}

static void fill_slots(tr_op_desc *desc, const tr_slot_def *def, const tr_step *const steps[2], bool output)
{
    for (; def && def->name; def++) {
        const tr_step *step = step_with(steps, output, def->name);
        const tr_slot *slot = step ? tr__op_desc_slot(step->desc, output, def->name) : NULL;
        if (!slot)
            continue;
        if (output)
            tr_op_desc_set_output(desc, def->name, slot->count, (const char *const *)slot->arg);
        else
            tr_op_desc_set_input(desc, def->name, slot->count, (const char *const *)slot->arg);
    }
}

static void fill_attrs(tr_op_desc *desc, const tr_op_proto *proto, const tr_step *const steps[2])
{
    const tr_attr *callstack = tr__op_desc_attr(steps[0]->desc, "op_callstack");

    for (const tr_attr_def *def = proto->attr; def && def->name; def++) {
        const tr_attr *attr = tr__op_desc_attr(steps[0]->desc, def->name);
        if (attr)
            tr__attr_copy(desc, attr);
    }
    if (callstack)
        tr__attr_copy(desc, callstack);
}

static void bind_slots(tr_step *fused, const tr_step *const steps[2])
{
    const tr_op_proto *proto = tr__op_proto(fused->op);
    int                a = 0;

    for (int s = 0; s < fused->in_slots + fused->out_slots; s++) {
        const bool  output = s >= fused->in_slots;
        const char *name = output ? proto->out[s - fused->in_slots].name : proto->in[s].name;
        if (fused->count[s] == 1)
            fused->arg[a++] = only_arg(step_with(steps, output, name), output, name);
    }
}

/* Step `i` does the work of step `u`, too, which is empty from here on. */
static tr_status fuse(tr_plan *plan, const tr_update_fusion *fusion, int i, int u)
{
    const tr_step *const steps[2] = {&plan->step[i], &plan->step[u]};
    const tr_op         *op = tr_op_find(fusion->into);
    tr_op_desc          *desc = tr_op_desc_new(fusion->into);
    tr_step              fused;

    fill_slots(desc, tr__op_proto(op)->in, steps, false);
    fill_slots(desc, tr__op_proto(op)->out, steps, true);
    fill_attrs(desc, tr__op_proto(op), steps);
    tr_status status = tr__step_alloc(&fused, op, desc);
    if (status == TR_OK) {
        bind_slots(&fused, steps);
        status = tr__step_finish(plan, &fused);
    }
    if (status != TR_OK) {
        tr__step_deinit(&fused);
        return status;
    }
    fused.op_index = steps[0]->op_index;
    fused.composite = steps[0]->composite;
    tr__step_deinit(&plan->step[i]);
    tr__step_deinit(&plan->step[u]);
    plan->step[i] = fused;
    return TR_OK;
}

static void count_reads(later *var, const tr_plan *plan)
{
    for (int v = 0; v < plan->var_count; v++)
        var[v] = (later){.use = -1, .write = -1};
    for (int i = 0; i < plan->step_count; i++)
        for (int a = 0; a < plan->step[i].in_args; a++)
            if (plan->step[i].arg[a] >= 0) {
                var[plan->step[i].arg[a]].reads++;
                var[plan->step[i].arg[a]].reader = i;
            }
}

/* A step with a sub-block uses variables that are not among its arguments: those are `captured`. */
static void note_uses(later *var, const tr_step *step, int i)
{
    for (int a = 0; a < step->arg_count; a++)
        if (step->arg[a] >= 0) {
            var[step->arg[a]].use = i;
            if (a >= step->in_args)
                var[step->arg[a]].write = i;
        }
}

static tr_status fuse_backwards(tr_plan *plan, later *var)
{
    int fence = plan->step_count;     /* the nearest later step that lets no update pass */

    for (int i = plan->step_count - 1; i >= 0; i--) {
        if (!plan->step[i].op)
            continue;
        const tr_update_fusion *fusion = fusion_of(&plan->step[i]);
        const int               u = fusion ? update_of(plan, var, fusion, i, fence) : -1;
        if (u >= 0)
            TR_TRY(fuse(plan, fusion, i, u));
        note_uses(var, &plan->step[i], i);
        if (!lets_pass(plan, &plan->step[i]))
            fence = i;
    }
    return TR_OK;
}

tr_status tr__plan_fuse_updates(tr_plan *plan)
{
    if (plan->workspace->check_finite)
        return TR_OK;
    later *var = malloc(((size_t)plan->var_count + 1) * sizeof *var);
    if (!var)
        return tr_fail(TR_ENOMEM, "no memory to fuse updates");
    count_reads(var, plan);
    const tr_status status = fuse_backwards(plan, var);
    tr__plan_close_gaps(plan);
    free(var);
    return status;
}
