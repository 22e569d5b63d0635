/* plan_print.c - a plan as text: what runs, where results lie. Tests read it. */
#include "framework/base/text.h"
#include "framework/operators/op_registry.h"
#include "framework/plans/plan_layout.h"

static void print_home(tr_text *text, const tr_plan *plan, const tr_layout *layout, int v)
{
    const tr_plan_var *var = &plan->var[v];

    tr_text_add(text, "%s", var->name);
    if (layout && layout->meta[v].shape.rank > 0)
        tr_text_add(text, " : %s%s", tr_dtype_name(layout->meta[v].dtype), TR_SHAPE_STR(layout->meta[v].shape));
    if (var->home == TR_SCOPE)
        tr_text_add(text, " (scope)");
    else if (var->home == TR_OUTER)
        tr_text_add(text, " (outer)");
    else if (var->fetched)
        tr_text_add(text, " (fetched)");
    else if (layout && layout->shares[v] >= 0)
        tr_text_add(text, " (in place of %s)", plan->var[layout->shares[v]].name);
    else if (layout && layout->offset[v] >= 0)
        tr_text_add(text, " (arena %lld)", (long long)layout->offset[v]);
    else
        tr_text_add(text, " (own)");
}

static void print_args(tr_text *text, const tr_plan *plan, const tr_step *step)
{
    const tr_op_proto *proto = tr__op_proto(step->op);
    bool               first = true;
    int                a = 0;

    for (int s = 0; s < step->in_slots; s++)
        for (int i = 0; i < step->count[s]; i++, a++) {
            if (step->arg[a] < 0)
                continue;
            tr_text_add(text, "%s%s=%s", first ? "" : ", ", proto->in[s].name, plan->var[step->arg[a]].name);
            first = false;
        }
}

static void print_plan(tr_text *text, const tr_plan *plan, const tr_layout *layout, int indent)
{
    for (int i = 0; i < plan->step_count; i++) {
        const tr_step *step = &plan->step[i];
        bool           first = true;
        tr_text_add(text, "%*s%3d  ", indent, "", i);
        for (int a = step->in_args; a < step->arg_count; a++) {
            if (step->arg[a] < 0)
                continue;
            tr_text_add(text, "%s", first ? "" : ", ");
            print_home(text, plan, layout, step->arg[a]);
            first = false;
        }
        tr_text_add(text, "%s%s(", first ? "" : " = ", step->op->type);
        print_args(text, plan, step);
        tr_text_add(text, ")%s\n", layout && layout->dynamic[i] ? " dynamic" : "");
        if (step->sub)
            print_plan(text, step->sub, NULL, indent + 4);
    }
}

tr_status tr_plan_to_string(char **out, const tr_plan *plan)
{
    tr_text text = {0};

    tr_text_add(&text, "plan of %d steps, %d variables", plan->step_count, plan->var_count);
    if (plan->layouts)
        tr_text_add(&text, ", arena of %lld bytes", (long long)plan->layouts->arena_bytes);
    tr_text_add(&text, "\n");
    print_plan(&text, plan, plan->layouts, 0);
    return tr_text_take(out, &text);
}
