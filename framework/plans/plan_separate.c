/* plan_separate.c - a step whose output would overwrite an input that its kernel still reads.
 *
 * Each write of a temporary makes a new variable (plan_build.c), but a variable of the scope or of a block around is
 * written where it is. When such a variable is both an input and an output of a step, the kernel must be made for it:
 * the record says so by `updates`, or by an in-place rule for that pair of slots. Otherwise the step gets a temporary as
 * its output, and an assign after it stores the temporary in the variable. Operators with a sub-block are left alone: the
 * steps of the sub-block write their outputs, and have been looked at. */
#include "framework/plans/plan_passes.h"

#include <stdlib.h>

static int slot_of(const tr_step *step, int arg)
{
    int slot = 0;

    while (arg >= step->count[slot])
        arg -= step->count[slot++];
    return slot;
}

static bool is_first_of_slot(const tr_step *step, int arg)
{
    return arg == 0 || slot_of(step, arg - 1) != slot_of(step, arg);
}

static bool has_rule(const tr_step *step, int in_arg, int out_arg)
{
    const int in = slot_of(step, in_arg), out = slot_of(step, out_arg) - step->in_slots;

    for (int k = 0; k < step->op->inplace_count; k++)
        if (step->op->inplace[k].in == in && step->op->inplace[k].out == out)
            return true;
    return false;
}

/* May the kernel write `out_arg`, the variable of input `in_arg`, too? A list of selected rows becomes longer than its
 * first item, so an in-place rule for the list is one for dense tensors. */
static bool may_overwrite(const tr_plan *plan, const tr_step *step, int in_arg, int out_arg)
{
    const tr_var_desc *desc = plan->var[step->arg[out_arg]].desc;
    const bool         is_list = step->count[slot_of(step, in_arg)] > 1;

    return has_rule(step, in_arg, out_arg) && is_first_of_slot(step, in_arg) &&
           !(is_list && desc && desc->kind == TR_KIND_SELECTED_ROWS);
}

static bool must_separate(const tr_plan *plan, const tr_step *step, int out_arg)
{
    const int v = step->arg[out_arg];
    int       kept_apart = 0;

    if (v < 0 || plan->var[v].home == TR_LOCAL || step->op->updates || step->op->has_block)
        return false;
    if (plan->var[v].desc && plan->var[v].desc->kind == TR_KIND_ARRAY)
        return false;                 /* written element by element */
    for (int a = 0; a < step->in_args; a++)
        kept_apart += step->arg[a] == v && tr__step_reads_data(step, a) && !may_overwrite(plan, step, a, out_arg);
    return kept_apart > 0;
}

/* The step that stores temporary `from` in variable `to`. */
static tr_status make_store(tr_step *out, tr_plan *plan, const tr_step *behind, int from, int to)
{
    const char *const names[] = {plan->var[from].name, plan->var[to].name};
    const tr_attr    *callstack = tr__op_desc_attr(behind->desc, "op_callstack");
    tr_op_desc       *desc = tr_op_desc_new("assign");

    tr_op_desc_set_input(desc, "X", 1, &names[0]);
    tr_op_desc_set_output(desc, "Out", 1, &names[1]);
    if (callstack)
        tr__attr_copy(desc, callstack);
    TR_TRY(tr__step_alloc(out, tr_op_find("assign"), desc));
    out->arg[0] = from;
    out->arg[1] = to;
    out->op_index = behind->op_index;
    out->composite = behind->composite;
    return tr__step_finish(plan, out);
}

static tr_status separate(tr_plan *plan, tr_step *step, int out_arg, tr_step *store)
{
    const int v = step->arg[out_arg];
    int       temporary;

    TR_TRY(tr__plan_add_temporary(&temporary, plan, v));
    step->arg[out_arg] = temporary;
    return make_store(store, plan, step, temporary, v);
}

tr_status tr__plan_separate(tr_plan *plan)
{
    int       more = 0, count = 0;
    tr_status status = TR_OK;

    for (int i = 0; i < plan->step_count; i++)
        for (int a = plan->step[i].in_args; a < plan->step[i].arg_count; a++)
            more += must_separate(plan, &plan->step[i], a);
    if (more == 0)
        return TR_OK;
    tr_step *steps = calloc((size_t)(plan->step_count + more) + 1, sizeof *steps);
    if (!steps)
        return tr_fail(TR_ENOMEM, "no memory for a plan of %d steps", plan->step_count + more);
    for (int i = 0; i < plan->step_count; i++) {
        tr_step *const step = &steps[count++];
        *step = plan->step[i];
        for (int a = step->in_args; status == TR_OK && a < step->arg_count; a++)
            if (must_separate(plan, step, a))
                status = separate(plan, step, a, &steps[count++]);
    }
    free(plan->step);
    plan->step = steps;
    plan->step_count = count;
    return status;
}
