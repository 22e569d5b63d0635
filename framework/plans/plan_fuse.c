/* plan_fuse.c - replacing chains of steps by one step. See fusion.h for what a fusion says.
 *
 * A chain's steps disappear and the fused one stands where the last of them stood. That is sound where temporaries
 * are never written twice (plan_build.c); a chain is left alone when something in between writes what it reads: a
 * scope variable, or one that a sub-block writes where it is. */
#include "framework/plans/plan_passes.h"

#include <stdlib.h>
#include <string.h>

#include "framework/operators/fusion.h"
#include "framework/operators/op_registry.h"

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

/* The arguments that read a variable's data. Only the reader of a single one is ever asked for: it is the sum then, which is kept up to
 * date by adding and subtracting. */
typedef struct uses {
    int     data;                     /* how many */
    int64_t reader_sum;               /* of the numbers of their steps */
} uses;

typedef struct reader {
    int step, next;                   /* next in the list of the same variable, or -1 */
} reader;

/* The tables of the fusion. Steps keep their numbers until the end, so nothing of this is made twice. */
typedef struct fusing {
    tr_plan *plan;
    uses    *use;                     /* per variable */
    int     *first;                   /* per variable: its list in `reader`, or -1; whoever reads its data or its shape */
    reader  *reader;
    int      reader_count, reader_capacity;
    int     *into;                    /* per step: the one that it has become part of, or itself */
} fusing;

static tr_status add_reader(fusing *f, int var, int step)
{
    if (f->reader_count == f->reader_capacity) {
        const int capacity = f->reader_capacity ? 2 * f->reader_capacity : 64;
        reader   *grown = realloc(f->reader, (size_t)capacity * sizeof *grown);
        if (!grown)
            return tr_fail(TR_ENOMEM, "no memory to fuse steps");
        f->reader = grown;
        f->reader_capacity = capacity;
    }
    f->reader[f->reader_count] = (reader){step, f->first[var]};
    f->first[var] = f->reader_count++;
    return TR_OK;
}

/* Count what a step reads (`sign` 1), or no longer reads (-1). */
static void count_uses(fusing *f, const tr_step *step, int number, int sign)
{
    for (int a = 0; a < step->in_args; a++) {
        const int v = step->arg[a];
        if (v >= 0 && tr__step_reads_data(step, a)) {
            f->use[v].data += sign;
            f->use[v].reader_sum += (int64_t)sign * number;
        }
    }
}

static tr_status look_at_steps(fusing *f)
{
    for (int v = 0; v < f->plan->var_count; v++)
        f->first[v] = -1;
    for (int i = 0; i < f->plan->step_count; i++) {
        const tr_step *step = &f->plan->step[i];
        f->into[i] = i;
        count_uses(f, step, i, 1);
        for (int a = 0; a < step->in_args; a++)
            if (step->arg[a] >= 0)
                TR_TRY(add_reader(f, step->arg[a], i));
    }
    return TR_OK;
}

/* The step that has become of a reader. */
static int step_of(const fusing *f, int r)
{
    int step = f->reader[r].step;
    while (f->into[step] != step)
        step = f->into[step];
    return step;
}

static bool reads(const tr_step *step, int var)
{
    for (int a = 0; a < step->in_args; a++)
        if (step->arg[a] == var)
            return true;
    return false;
}

/* The step that alone continues the chain after step `i`, if its type and first input fit; or -1. */
static int next_in_chain(const tr_plan *plan, const uses *use, int i, const char *type)
{
    const tr_step *step = &plan->step[i];

    if (step->out_slots < 1 || step->count[step->in_slots] != 1 || step->arg[step->in_args] < 0)
        return -1;
    const int          v = step->arg[step->in_args];
    const tr_plan_var *var = &plan->var[v];
    if (var->home != TR_LOCAL || var->captured || var->fetched || use[v].data != 1)
        return -1;
    const int      number = (int)use[v].reader_sum;
    const tr_step *next = &plan->step[number];
    if (strcmp(next->op->type, type) != 0 || next->count[0] != 1 || next->arg[0] != v)
        return -1;
    return number;
}

static bool writes_between(const tr_plan *plan, int from, int to, int var)
{
    for (int i = from + 1; i < to; i++)
        for (int a = plan->step[i].in_args; plan->step[i].op && a < plan->step[i].arg_count; a++)
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

    if (!plan->step[first].op || strcmp(plan->step[first].op->type, fusion->chain[0]) != 0)
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
static tr_status redirect_shapes(fusing *f, const int *matched, int n)
{
    const tr_step *last = &f->plan->step[matched[n - 1]];
    const int      final = last->arg[last->in_args];

    for (int m = 0; m + 1 < n; m++) {
        const int gone = f->plan->step[matched[m]].arg[f->plan->step[matched[m]].in_args];
        for (int r = f->first[gone]; r >= 0; r = f->reader[r].next) {
            const int      i = step_of(f, r);
            const tr_step *step = &f->plan->step[i];
            if (i <= matched[n - 1] || !reads(step, gone))
                continue;
            for (int a = 0; a < step->in_args; a++)
                step->arg[a] = step->arg[a] == gone ? final : step->arg[a];
            TR_TRY(add_reader(f, final, i));
        }
    }
    return TR_OK;
}

/* An intermediate that is looked at before the chain ends cannot vanish. */
static bool is_seen_early(const fusing *f, const int *matched, int n)
{
    for (int m = 0; m + 1 < n; m++) {
        const int gone = f->plan->step[matched[m]].arg[f->plan->step[matched[m]].in_args];
        for (int r = f->first[gone]; r >= 0; r = f->reader[r].next) {
            const int i = step_of(f, r);
            if (i < matched[n - 1] && i != matched[m + 1] && reads(&f->plan->step[i], gone))
                return true;
        }
    }
    return false;
}

/* Put the fused step in the place of the last one; the others are empty from here on. */
static tr_status replace(fusing *f, const int *matched, int n, tr_step *fused)
{
    const int last = matched[n - 1];

    fused->op_index = f->plan->step[last].op_index;
    fused->composite = f->plan->step[last].composite;
    const tr_status status = redirect_shapes(f, matched, n);
    for (int i = 0; i < n; i++) {
        count_uses(f, &f->plan->step[matched[i]], matched[i], -1);
        tr__step_deinit(&f->plan->step[matched[i]]);
        f->into[matched[i]] = last;
    }
    f->plan->step[last] = *fused;
    count_uses(f, fused, last, 1);
    return status;
}

static tr_status fuse_matched(fusing *f, const tr_fusion *fusion, const int *matched, int n)
{
    const tr_op_desc *descs[TR_FUSION_MAX] = {NULL};
    tr_op_desc       *desc = tr_op_desc_new(fusion->into);
    tr_plan          *plan = f->plan;
    tr_step           fused;

    for (int i = 0; i < n; i++)
        descs[i] = plan->step[matched[i]].desc;
    if (is_seen_early(f, matched, n) || !fusion->build(desc, descs, plan->block)) {
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
    return replace(f, matched, n, &fused);
}

static tr_status fuse_all(fusing *f, const tr_fusion *fusion)
{
    int matched[TR_FUSION_MAX];

    for (int i = 0; i < f->plan->step_count; i++) {
        const int n = match(matched, f->plan, f->use, fusion, i);
        if (n > 0)
            TR_TRY(fuse_matched(f, fusion, matched, n));
    }
    return TR_OK;
}

tr_status tr__plan_fuse(tr_plan *plan)
{
    const size_t vars = (size_t)plan->var_count + 1, steps = (size_t)plan->step_count + 1;
    tr_status    status = TR_OK;
    fusing       f = {.plan = plan, .use = calloc(vars, sizeof *f.use), .first = malloc(vars * sizeof *f.first),
                      .into = malloc(steps * sizeof *f.into)};

    if (!f.use || !f.first || !f.into) {
        status = tr_fail(TR_ENOMEM, "no memory to fuse steps");
        goto done;
    }
    TR_TRY_GOTO(done, look_at_steps(&f));
    for (int t = 0; t < table_count; t++)
        for (int k = 0; k < tables[t].count; k++)
            TR_TRY_GOTO(done, fuse_all(&f, &tables[t].fusions[k]));
    tr__plan_close_gaps(plan);
done:
    free(f.use);
    free(f.first);
    free(f.reader);
    free(f.into);
    return status;
}
