/* plan_fuse.c - replacing chains of steps by one step. See fusion.h for what a fusion says.
 *
 * A chain's steps disappear and the fused one stands where the last of them stood. That is sound where temporaries
 * are never written twice (plan_build.c); a chain is left alone when something in between writes what it reads: a
 * scope variable, or one that a sub-block writes where it is. */
#include <stdlib.h>
#include <string.h>

#include "framework/fusion.h"
#include "framework/op_registry.h"
#include "framework/plan.h"

enum { MAX_TABLES = 8 };

static struct {
    const tr_fusion *fusions;
    int              count;
} tables[MAX_TABLES];
static int table_count;

void tr_fusions_add(const tr_fusion *fusions, int count)
{
    if (table_count < MAX_TABLES) {
        tables[table_count].fusions = fusions;
        tables[table_count++].count = count;
    }
}

/* Who uses a variable: computed once per pass. */
typedef struct uses {
    int data;                         /* arguments that read its data */
    int reader;                       /* the step of the last of them */
} uses;

static void count_uses(uses *use, const tr_plan *plan)
{
    memset(use, 0, (size_t)plan->var_count * sizeof *use);
    for (int i = 0; i < plan->step_count; i++)
        for (int a = 0; a < plan->step[i].in_args; a++) {
            const int v = plan->step[i].arg[a];
            if (v >= 0 && tr__step_reads_data(&plan->step[i], a)) {
                use[v].data++;
                use[v].reader = i;
            }
        }
}

/* The step that alone continues the chain after step `i`, if its type and first input fit; or -1. */
static int next_in_chain(const tr_plan *plan, const uses *use, int i, const char *type)
{
    const tr_step *step = &plan->step[i];

    if (step->out_slots < 1 || step->count[step->in_slots] != 1 || step->arg[step->in_args] < 0)
        return -1;
    const int          v = step->arg[step->in_args];
    const tr_plan_var *var = &plan->var[v];
    if (var->place != TR_LOCAL || var->captured || var->fetched || use[v].data != 1)
        return -1;
    const tr_step *next = &plan->step[use[v].reader];
    if (strcmp(next->op->type, type) != 0 || next->count[0] != 1 || next->arg[0] != v)
        return -1;
    return use[v].reader;
}

static bool writes_between(const tr_plan *plan, int from, int to, int var)
{
    for (int i = from + 1; i < to; i++)
        for (int a = plan->step[i].in_args; a < plan->step[i].arg_count; a++)
            if (plan->step[i].arg[a] == var)
                return true;
    return false;
}

/* Moving step `from` down to `to` must not carry a read over a write of the same variable. */
static bool may_move(const tr_plan *plan, int from, int to)
{
    const tr_step *step = &plan->step[from];
    for (int a = 0; a < step->in_args; a++)
        if (step->arg[a] >= 0 && writes_between(plan, from, to, step->arg[a]))
            return false;
    return true;
}

static int match(int *matched, const tr_plan *plan, const uses *use, const tr_fusion *fusion, int first)
{
    int n = 0;

    if (strcmp(plan->step[first].op->type, fusion->chain[0]) != 0)
        return 0;
    matched[n++] = first;
    for (; n < TR_FUSION_MAX && fusion->chain[n]; n++) {
        matched[n] = next_in_chain(plan, use, matched[n - 1], fusion->chain[n]);
        if (matched[n] < 0)
            return 0;
    }
    for (int i = 0; i + 1 < n; i++)
        if (!may_move(plan, matched[i], matched[n - 1]))
            return 0;
    return n;
}

/* The variable a name of the fused operator means: what it meant in the matched steps. */
static int find_arg(const tr_plan *plan, const int *matched, int n, const char *name, bool output)
{
    for (int i = n - 1; i >= 0; i--) {
        const tr_step *step = &plan->step[matched[i]];
        const int from = output ? step->in_args : 0, to = output ? step->arg_count : step->in_args;
        for (int a = from; a < to; a++)
            if (step->arg[a] >= 0 && strcmp(plan->var[step->arg[a]].name, name) == 0)
                return step->arg[a];
    }
    return -1;
}

static tr_status bind_fused(tr_plan *plan, tr_step *fused, const int *matched, int n)
{
    const tr_op_proto *proto = tr__op_proto(fused->op);
    int a = 0;

    for (int s = 0; s < fused->in_slots + fused->out_slots; s++) {
        const bool     output = s >= fused->in_slots;
        const tr_slot *slot = tr__op_desc_slot(fused->desc, output,
                                               output ? proto->out[s - fused->in_slots].name : proto->in[s].name);
        for (int i = 0; i < fused->count[s]; i++)
            fused->arg[a++] = find_arg(plan, matched, n, slot->arg[i], output);
    }
    return tr__step_finish(plan, fused);
}

/* Whoever wanted only the shape of an intermediate now looks at the end of the chain. */
static void redirect_shapes(tr_plan *plan, const int *matched, int n)
{
    const tr_step *last = &plan->step[matched[n - 1]];
    const int      final = last->arg[last->in_args];

    for (int m = 0; m + 1 < n; m++) {
        const int gone = plan->step[matched[m]].arg[plan->step[matched[m]].in_args];
        for (int i = 0; i < plan->step_count; i++)
            for (int a = 0; a < plan->step[i].in_args; a++)
                if (plan->step[i].arg[a] == gone && i > matched[n - 1])
                    plan->step[i].arg[a] = final;
    }
}

/* An intermediate that is looked at before the chain ends cannot vanish. */
static bool is_seen_early(const tr_plan *plan, const int *matched, int n)
{
    for (int m = 0; m + 1 < n; m++) {
        const int gone = plan->step[matched[m]].arg[plan->step[matched[m]].in_args];
        for (int i = 0; i < matched[n - 1]; i++)
            for (int a = 0; a < plan->step[i].in_args; a++)
                if (plan->step[i].arg[a] == gone && i != matched[m + 1])
                    return true;
    }
    return false;
}

static tr_status fuse_matched(tr_plan *plan, const tr_fusion *fusion, const int *matched, int n, bool *done)
{
    const tr_op_desc *descs[TR_FUSION_MAX] = {NULL};
    tr_op_desc       *desc = tr_op_desc_new(fusion->into);
    tr_step           fused;

    *done = false;
    for (int i = 0; i < n; i++)
        descs[i] = plan->step[matched[i]].desc;
    if (is_seen_early(plan, matched, n) || !fusion->build(desc, descs, plan->block)) {
        tr_op_desc_free(desc);
        return TR_OK;
    }
    const tr_attr *callstack = tr__op_desc_attr(descs[0], "op_callstack");
    if (callstack)
        tr__attr_copy(desc, callstack);
    tr_status status = tr__step_alloc(&fused, tr_op_find(fusion->into), desc);
    if (status == TR_OK)
        status = bind_fused(plan, &fused, matched, n);
    if (status != TR_OK) {
        tr__step_deinit(&fused);
        return status;
    }
    fused.op_index = plan->step[matched[n - 1]].op_index;
    redirect_shapes(plan, matched, n);
    for (int i = 0; i < n; i++)
        tr__step_deinit(&plan->step[matched[i]]);
    plan->step[matched[n - 1]] = fused;
    *done = true;
    return TR_OK;
}

/* Close the gaps that fused steps left (their op is NULL). */
static void compact(tr_plan *plan)
{
    int kept = 0;
    for (int i = 0; i < plan->step_count; i++)
        if (plan->step[i].op)
            plan->step[kept++] = plan->step[i];
    plan->step_count = kept;
}

static tr_status fuse_all(tr_plan *plan, const tr_fusion *fusion, uses *use)
{
    int  matched[TR_FUSION_MAX];
    bool done;

    for (int i = 0; i < plan->step_count; i++) {
        const int n = match(matched, plan, use, fusion, i);
        if (n == 0)
            continue;
        TR_TRY(fuse_matched(plan, fusion, matched, n, &done));
        if (done) {
            compact(plan);
            count_uses(use, plan);
            i--;
        }
    }
    return TR_OK;
}

tr_status tr__plan_fuse(tr_plan *plan)
{
    tr_status status = TR_OK;
    uses     *use = malloc(((size_t)plan->var_count + 1) * sizeof *use);

    if (!use)
        return tr_fail(TR_ENOMEM, "no memory to fuse steps");
    count_uses(use, plan);
    for (int t = 0; t < table_count; t++)
        for (int f = 0; f < tables[t].count; f++)
            TR_TRY_GOTO(done, fuse_all(plan, &tables[t].fusions[f], use));
done:
    free(use);
    return status;
}
