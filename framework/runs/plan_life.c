/* plan_life.c - see plan_life.h. */
#include "framework/runs/plan_life.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "framework/plans/plan_build.h"
#include "framework/runs/frame.h"
#include "framework/runs/reduction.h"

static _Atomic int64_t plan_count;    /* that have their memory */

/* -- the end -------------------------------------------------------------------------------------------------- */

static void free_names(char **names, int count)
{
    for (int i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
}

static void free_sub_plans(tr_plan *plan);

/* All but the struct. */
static void clear(tr_plan *plan)
{
    tr__plan_free_frames(plan);
    tr__reduction_free(plan->own_reduction);
    free_sub_plans(plan);
    for (int i = 0; i < plan->step_count; i++)
        tr__step_deinit(&plan->step[i]);
    for (int v = 0; v < plan->var_count; v++)
        free(plan->var[v].name);
    while (plan->layouts) {
        tr_layout *next = plan->layouts->next;
        tr__layout_free(plan->layouts);
        plan->layouts = next;
    }
    free_names(plan->feed_name, plan->feed_count);
    free_names(plan->fetch_name, plan->fetch_count);
    tr_map_deinit(&plan->feed_of);
    tr_map_deinit(&plan->current);
    free(plan->feed_var);
    free(plan->fetch_var);
    free(plan->step);
    free(plan->outside);
    free(plan->reads);
    free(plan->unset);
    free(plan->writes);
    free(plan->var);
    tr__expanded_free(plan->expanded);
    atomic_fetch_sub(&plan_count, plan->root == plan);
}

static void free_sub_plans(tr_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++) {
        tr_plan *sub = plan->step[i].sub;
        plan->step[i].sub = NULL;
        if (sub)
            clear(sub);
        free(sub);
    }
}

/* With the lock held: the plan is no longer its binding's, and is to be ended. */
static void mark_gone(tr_plan *plan)
{
    plan->binding = NULL;
    plan->next = NULL;
}

/* Of a plan that is gone. Those that retained it keep an empty one. */
static void end(tr_plan *plan)
{
    clear(plan);
    tr__bonds_lock();
    const int users = plan->users - 1;         /* without the binding */
    *plan = (tr_plan){.users = users};
    tr__bonds_unlock();
    if (users == 0)
        free(plan);
}

/* With the lock held: take the first plan from a list, or NULL. */
static tr_plan *take_first(tr_plan **plans)
{
    tr_plan *plan = *plans;

    if (plan) {
        *plans = plan->next;
        mark_gone(plan);
    }
    return plan;
}

static void cut_binding(tr_bond *bond)
{
    tr_binding *binding = (tr_binding *)bond;

    for (;;) {
        tr__bonds_lock();
        tr_plan *plan = take_first(&binding->plans);
        tr__bonds_unlock();
        if (!plan)
            break;
        end(plan);
    }
    free(binding);
}

void tr__plans_forget(tr_executor *executor, const tr_program *program)
{
    tr__bonds_cut(&executor->bonds, TR_BOND_EXECUTOR, program ? &((tr_program *)(uintptr_t)program)->bonds : NULL, TR_BOND_PROGRAM);
}

void tr_plan_retain(tr_plan *plan)
{
    tr__bonds_lock();
    plan->users++;
    tr__bonds_unlock();
}

/* With the lock held. */
static void take(tr_plan *plan)
{
    tr_plan **link = &plan->binding->plans;

    while (*link != plan)
        link = &(*link)->next;
    take_first(link);
}

void tr_plan_release(tr_plan *plan)
{
    tr__bonds_lock();
    const int  users = --plan->users;
    const bool ends = users == 1 && plan->binding;
    if (ends)
        take(plan);
    tr__bonds_unlock();
    if (ends)
        end(plan);
    else if (users == 0)
        free(plan);
}

bool tr_plan_is_current(const tr_plan *plan)
{
    return plan->binding && plan->revision == plan->program->revision;
}

int64_t tr_plan_count(void)
{
    return atomic_load(&plan_count);
}

/* -- finding ---------------------------------------------------------------------------------------------------- */

static bool same_names(char *const *have, int have_count, const char *const *want, int want_count)
{
    if (have_count != want_count)
        return false;
    for (int i = 0; i < want_count; i++)
        if (strcmp(have[i], want[i]) != 0)
            return false;
    return true;
}

/* With the lock held. */
static tr_binding *find_binding(tr_executor *executor, const tr_program *program, const tr_scope *scope)
{
    tr_bond **const owner[TR_BOND_ENDS] = {[TR_BOND_EXECUTOR] = &executor->bonds,
                                           [TR_BOND_PROGRAM] = &((tr_program *)(uintptr_t)program)->bonds,
                                           [TR_BOND_SCOPE] = &((tr_scope *)(uintptr_t)scope)->bonds};

    return (tr_binding *)tr__bond_find(owner);
}

/* The same, or a new one; NULL: no memory. */
static tr_binding *need_binding(tr_executor *executor, tr_program *program, tr_scope *scope)
{
    tr_bond **const owner[TR_BOND_ENDS] = {&executor->bonds, &program->bonds, &scope->bonds};

    tr__bonds_lock();
    tr_binding *binding = (tr_binding *)tr__bond_find(owner);
    if (!binding && (binding = calloc(1, sizeof *binding))) {
        binding->bond.cut = cut_binding;
        tr__bond_tie(&binding->bond, owner);
    }
    tr__bonds_unlock();
    return binding;
}

static tr_plan *find_plan(tr_executor *executor, const tr_program *program, const tr_scope *scope, int feed_count,
                          const char *const *feeds, int fetch_count, const char *const *fetches)
{
    tr__bonds_lock();
    const tr_binding *binding = find_binding(executor, program, scope);
    tr_plan          *plan = binding ? binding->plans : NULL;
    while (plan && !(plan->revision == program->revision && same_names(plan->feed_name, plan->feed_count, feeds, feed_count) &&
                     same_names(plan->fetch_name, plan->fetch_count, fetches, fetch_count)))
        plan = plan->next;
    tr__bonds_unlock();
    return plan;
}

/* With the lock held: take a plan of an older revision of a program from one executor, in any scope; NULL: there is none. */
static tr_plan *take_stale(tr_executor *executor, tr_program *program)
{
    for (tr_bond *bond = program->bonds; bond; bond = bond->end[TR_BOND_PROGRAM].next)
        for (tr_plan **link = &((tr_binding *)bond)->plans; bond->end[TR_BOND_EXECUTOR].owner == &executor->bonds && *link; link = &(*link)->next)
            if ((*link)->revision != program->revision)
                return take_first(link);
    return NULL;
}

static void drop_stale(tr_executor *executor, tr_program *program)
{
    for (tr_plan *stale; ; end(stale)) {
        tr__bonds_lock();
        stale = take_stale(executor, program);
        tr__bonds_unlock();
        if (!stale)
            break;
    }
}

int64_t tr_executor_runs(const tr_executor *executor, const tr_program *program, const tr_scope *scope)
{
    tr__bonds_lock();
    const tr_binding *binding = find_binding((tr_executor *)(uintptr_t)executor, program, scope);
    const int64_t     runs = binding ? (int64_t)binding->runs : 0;
    tr__bonds_unlock();
    return runs;
}

tr_status tr_executor_set_runs(tr_executor *executor, tr_program *program, tr_scope *scope, int64_t runs)
{
    if (runs < 0)
        return tr_fail(TR_ERANGE, "tr_executor_set_runs: %lld", (long long)runs);
    tr_binding *binding = need_binding(executor, program, scope);
    if (!binding)
        return tr_fail(TR_ENOMEM, "no memory to count the runs of a program");
    binding->runs = (uint64_t)runs;
    return TR_OK;
}

/* -- making ------------------------------------------------------------------------------------------------------ */

static tr_status copy_names(char ***out, int count, const char *const *names)
{
    *out = calloc((size_t)count + 1, sizeof **out);
    for (int i = 0; *out && i < count; i++)
        if (!((*out)[i] = strdup(names[i])))
            return tr_fail(TR_ENOMEM, "no memory for the names of a plan");
    return *out ? TR_OK : tr_fail(TR_ENOMEM, "no memory for the names of a plan");
}

static tr_status fill(tr_plan *plan, int feed_count, const char *const *feeds, int fetch_count, const char *const *fetches)
{
    TR_TRY(tr__expand(&plan->expanded, plan->program));
    plan->block = tr_program_block(plan->expanded ? plan->expanded->program : plan->program, 0);
    plan->feed_count = feed_count;
    TR_TRY(copy_names(&plan->feed_name, feed_count, feeds));
    plan->fetch_count = fetch_count;
    TR_TRY(copy_names(&plan->fetch_name, fetch_count, fetches));
    TR_TRY(tr__plan_build(plan));
    TR_TRY(tr__frame_new(&plan->frame, plan, NULL, NULL));
    plan->scope_generation = tr__scope_generation(plan->scope);
    return TR_OK;
}

tr_status tr_executor_prepare(tr_plan **out, tr_executor *executor, tr_program *program, tr_scope *scope, int feed_count,
                              const char *const *feeds, int fetch_count, const char *const *fetches)
{
    *out = find_plan(executor, program, scope, feed_count, feeds, fetch_count, fetches);
    if (*out)
        return TR_OK;
    TR_TRY(tr_num_threads_check());
    TR_TRY(tr_matmul_precision_check());
    drop_stale(executor, program);
    tr_binding *binding = need_binding(executor, program, scope);
    tr_plan    *plan = calloc(1, sizeof *plan);
    if (!plan || !binding) {
        free(plan);
        return tr_fail(TR_ENOMEM, "no memory for a plan");
    }
    *plan = (tr_plan){.workspace = &executor->workspace, .program = program, .root = plan, .scope = scope, .revision = program->revision,
                      .binding = binding, .runs = &binding->runs, .users = 1};
    atomic_fetch_add(&plan_count, 1);
    const tr_status status = fill(plan, feed_count, feeds, fetch_count, fetches);
    if (status != TR_OK) {
        mark_gone(plan);
        end(plan);
        return status;
    }
    tr__bonds_lock();
    plan->next = binding->plans;
    binding->plans = plan;
    tr__bonds_unlock();
    *out = plan;
    return TR_OK;
}
