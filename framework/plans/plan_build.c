/* plan_build.c - from a block's operators to steps on numbered variables. See plan.h. */
#include "framework/plans/plan_build.h"
#include "framework/plans/plan_passes.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/nearest.h"
#include "framework/gradients/foreign_inputs.h"
#include "framework/operators/infer.h"
#include "framework/operators/op_check.h"
#include "framework/operators/op_registry.h"

static bool is_empty_name(const char *name) { return strcmp(name, "@EMPTY@") == 0; }

/* -- which operators are needed ------------------------------------------------------------------- */

/* Feeds and fetches are the plan's business, not steps. */
static bool is_feed_or_fetch(const tr_op_desc *op)
{
    return strcmp(op->type, "feed") == 0 || strcmp(op->type, "fetch") == 0;
}

static bool is_persistable(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var && var->persistable;
}

static tr_block *sub_block_of(tr_block *block, const tr_op_desc *op)
{
    const tr_attr *attr = tr__op_desc_attr(op, "sub_block");
    return attr ? tr_program_block(block->program, (int)attr->i) : NULL;
}

static void need(tr_map *needed, const tr_slot *slots, int count)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++)
            tr_map_put(needed, slots[s].arg[i], slots[s].arg[i]);
}

/* Everything an operator may read: its inputs, and what its sub-block's operators name. A block that was `seen`
 * has added its names: blocks of a damaged program may contain each other. */
static void need_inputs(tr_map *needed, bool *seen, tr_block *block, const tr_op_desc *op)
{
    need(needed, op->in, op->in_count);
    tr_block *sub = sub_block_of(block, op);
    if (!sub || seen[sub->index])
        return;
    seen[sub->index] = true;
    for (int i = 0; i < sub->op_count; i++) {
        need(needed, sub->op[i]->out, sub->op[i]->out_count);
        need_inputs(needed, seen, sub, sub->op[i]);
    }
}

/* Does the operator, or one in the block that it runs, do more than write outputs? `acts` says so of blocks. */
static bool has_effect(const bool *acts, tr_block *block, const tr_op_desc *op, const tr_op *record)
{
    const tr_block *sub = record && record->has_block ? sub_block_of(block, op) : NULL;
    return record && (record->has_effect || (sub && acts[sub->index]));
}

/* A block mostly stands after the one that it is in, so the last is first. A program from a file may have another order: until nothing changes. */
static void mark_acting_blocks(bool *acts, tr_program *program)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int b = program->block_count - 1; b >= 0; b--) {
            tr_block *block = program->block[b];
            for (int i = 0; i < block->op_count && !acts[b]; i++)
                if (has_effect(acts, block, block->op[i], tr_op_find(block->op[i]->type)))
                    acts[b] = changed = true;
        }
    }
}

static bool is_needed(const tr_map *needed, const bool *acts, tr_block *block, const tr_op_desc *op, const tr_op *record)
{
    if (has_effect(acts, block, op, record))
        return true;
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            if (tr_map_find(needed, op->out[s].arg[i]) || is_persistable(block, op->out[s].arg[i]))
                return true;
    return false;
}

static tr_status mark_with(bool *keep, tr_map *needed, bool *seen, const bool *acts, const tr_plan *plan)
{
    tr_block *block = plan->block;

    for (int i = 0; i < plan->fetch_count; i++)
        tr_map_put(needed, plan->fetch_name[i], plan->fetch_name[i]);
    for (int i = block->op_count - 1; i >= 0; i--) {
        const tr_op_desc *op = block->op[i];
        const tr_op      *record = tr_op_find(op->type);
        if (!record)
            return tr_fail(TR_EUNSUPPORTED, "the program uses operator '%s' (block %d, operator %d), which this version "
                           "does not have", op->type, block->index, i);
        /* A sub-block's steps all stay: a gradient block may look at any of them. */
        keep[i] = !is_feed_or_fetch(op) && (plan->parent || is_needed(needed, acts, block, op, record));
        if (keep[i])
            need_inputs(needed, seen, block, op);
    }
    return TR_OK;
}

/* keep[i]: operator i is wanted by a fetch, a persistable variable or an effect. */
static tr_status mark_needed(bool *keep, const tr_plan *plan)
{
    tr_program *program = plan->block->program;
    bool       *seen = calloc((size_t)program->block_count + 1, sizeof *seen), *acts = calloc((size_t)program->block_count + 1, sizeof *acts);
    tr_map      needed = {0};
    tr_status   status = TR_OK;

    if (!seen || !acts)
        TR_TRY_GOTO(done, tr_fail(TR_ENOMEM, "no memory for a plan"));
    if (!plan->parent)
        mark_acting_blocks(acts, program);
    TR_TRY_GOTO(done, mark_with(keep, &needed, seen, acts, plan));
done:
    tr_map_deinit(&needed);
    free(seen);
    free(acts);
    return status;
}

/* -- variables -------------------------------------------------------------------------------------- */

static int current_var(const tr_plan *plan, const char *name)
{
    return (int)(intptr_t)tr_map_find(&plan->current, name) - 1;
}

static tr_status map_feeds(tr_plan *plan)
{
    for (int i = plan->feed_count - 1; i >= 0; i--)
        if (tr_map_put(&plan->feed_of, plan->feed_name[i], (void *)(intptr_t)(i + 1)) != 0)
            return tr_fail(TR_ENOMEM, "no memory for a plan of %d feeds", plan->feed_count);
    return TR_OK;
}

static int feed_number(const tr_plan *plan, const char *name)
{
    return (int)(intptr_t)tr_map_find(&plan->feed_of, name) - 1;
}

static tr_status resolve_in_root(int *out, tr_plan *plan, const char *name)
{
    const int  feed = feed_number(plan, name);
    const bool stays = is_persistable(plan->block, name);

    if (feed >= 0)
        return tr__plan_add_var(out, plan, name, stays ? TR_SCOPE : TR_FED, feed);
    if (stays || tr_scope_find(plan->scope, name))
        return tr__plan_add_var(out, plan, name, TR_SCOPE, -1);
    if (!tr_block_find_var(plan->block, name))
        return tr_fail(TR_ENOTFOUND, "there is no variable '%s' in the program or the scope", name);
    return tr_fail(TR_ENOTFOUND, "variable '%s' is used, but it is neither fed nor computed before; add it to feed",
                   name);
}

/* Is it a variable of a gradient block that this gradient block is nested in? */
static bool is_callers(const tr_plan *plan, const char *name)
{
    if (plan->caller == plan->parent)
        return false;
    for (const tr_plan *caller = plan->caller; caller->parent; caller = caller->caller)
        if (tr_block_find_var(caller->block, name))
            return true;
    return false;
}

/* The plan in which a name that is not this plan's own is looked up. */
static tr_plan *plan_around(const tr_plan *plan, const char *name)
{
    return is_callers(plan, name) ? plan->caller : plan->parent;
}

static tr_status add_outer_var(int *out, tr_plan *plan, const char *name, tr_plan *around, int outer)
{
    around->var[outer].captured = true;
    return tr__plan_add_var(out, plan, name, around == plan->parent ? TR_OUTER : TR_CALLERS, outer);
}

static tr_status resolve(int *out, tr_plan *plan, const char *name)
{
    int outer;

    *out = current_var(plan, name);
    if (*out >= 0)
        return TR_OK;
    if (!plan->parent)
        return resolve_in_root(out, plan, name);
    /* Declared here, written by no operator so far: the step that runs the block puts it there. */
    if (tr_block_find_var(plan->block, name) && !is_persistable(plan->block, name)) {
        TR_TRY(tr__plan_add_var(out, plan, name, TR_LOCAL, -1));
        plan->var[*out].is_handed = true;
        return TR_OK;
    }
    tr_plan *around = plan_around(plan, name);
    TR_TRY(resolve(&outer, around, name));
    return add_outer_var(out, plan, name, around, outer);
}

/* Arrays are written element by element, where they are. */
static bool is_array(const tr_plan_var *var)
{
    return var->desc && var->desc->kind == TR_KIND_ARRAY;
}

static void mark_written(tr_plan *plan, int v, bool is_set)
{
    plan->var[v].written = true;
    while (plan->var[v].home == TR_OUTER || plan->var[v].home == TR_CALLERS) {
        tr_plan *around = plan->var[v].home == TR_OUTER ? plan->parent : plan->caller;
        v = plan->var[v].outer;
        plan = around;
        plan->var[v].written = plan->var[v].written_inside = true;
    }
    plan->var[v].is_set |= is_set;
}

/* A write. A temporary of this block gets a new version; what belongs to others is written where it is. */
static tr_status resolve_output(int *out, tr_plan *plan, const char *name, bool keep_version)
{
    const int  now = current_var(plan, name);
    const bool is_mine = tr_block_find_var(plan->block, name) != NULL;

    if (now >= 0 && (plan->var[now].home == TR_SCOPE || plan->var[now].home == TR_OUTER ||
                     plan->var[now].home == TR_CALLERS || keep_version || is_array(&plan->var[now]))) {
        *out = now;
    } else if (is_persistable(plan->block, name)) {
        TR_TRY(plan->parent ? resolve(out, plan, name) : tr__plan_add_var(out, plan, name, TR_SCOPE, -1));
    } else if (!is_mine && plan->parent) {
        tr_plan *around = plan_around(plan, name);
        int      outer;
        TR_TRY(resolve_output(&outer, around, name, true));
        TR_TRY(add_outer_var(out, plan, name, around, outer));
    } else {
        TR_TRY(tr__plan_add_var(out, plan, name, TR_LOCAL, -1));
    }
    return TR_OK;
}

/* -- steps ------------------------------------------------------------------------------------------- */

static tr_status bind_inputs(tr_plan *plan, tr_step *step)
{
    const tr_op_proto *proto = tr__op_proto(step->op);
    int a = 0;

    for (int s = 0; s < step->in_slots; s++) {
        const tr_slot *slot = tr__op_desc_slot(step->desc, false, proto->in[s].name);
        for (int i = 0; i < step->count[s]; i++, a++) {
            if (is_empty_name(slot->arg[i])) {
                step->arg[a] = -1;
                continue;
            }
            TR_TRY(resolve(&step->arg[a], plan, slot->arg[i]));
            plan->var[step->arg[a]].read = true;
        }
    }
    return TR_OK;
}

static tr_status bind_outputs(tr_plan *plan, tr_step *step)
{
    const tr_op_proto *proto = tr__op_proto(step->op);
    int a = step->in_args;

    for (int s = 0; s < step->out_slots; s++) {
        const tr_slot *slot = tr__op_desc_slot(step->desc, true, proto->out[s].name);
        for (int i = 0; i < step->count[step->in_slots + s]; i++, a++) {
            if (is_empty_name(slot->arg[i]))
                step->arg[a] = -1;
            else
                TR_TRY(resolve_output(&step->arg[a], plan, slot->arg[i], step->op->has_block));
            if (step->arg[a] >= 0)
                mark_written(plan, step->arg[a], !(step->op->io & TR_IO_PEERS));
            if (step->arg[a] >= 0 && step->op->has_block)
                plan->var[step->arg[a]].written_inside = true;
        }
    }
    return TR_OK;
}

static tr_step *find_step_of_block(tr_plan *plan, int block_index)
{
    for (; plan; plan = plan->parent)
        for (int i = 0; i < plan->step_count; i++)
            if (plan->step[i].sub && plan->step[i].sub->block->index == block_index)
                return &plan->step[i];
    return NULL;
}

static bool is_running(const tr_plan *plan, const tr_block *block)
{
    for (; plan; plan = plan->caller)
        if (plan->block == block)
            return true;
    return false;
}

/* A gradient block lives under its forward block's plan, any other one under the plan of its step. */
static tr_status build_sub_plan(tr_plan *plan, tr_step *step)
{
    tr_block *block = sub_block_of(plan->block, step->desc);
    tr_plan  *parent = plan;

    if (!block)
        return tr_fail(TR_EFORMAT, "%s: attribute sub_block names no block", step->op->type);
    if (is_running(plan, block))
        return tr_fail(TR_EFORMAT, "%s: its sub_block %d is the block that it stands in, or one around it", step->op->type,
                       block->index);
    if (block->forward >= 0) {
        tr_step *forward = find_step_of_block(plan, block->forward);
        if (!forward)
            return tr_fail(TR_EFORMAT, "%s: its forward block %d is not run before it", step->op->type, block->forward);
        parent = forward->sub;
    }
    tr_plan *sub = calloc(1, sizeof *sub);
    if (!sub)
        return tr_fail(TR_ENOMEM, "no memory for the plan of block %d", block->index);
    step->sub = sub;
    sub->workspace = plan->workspace;
    sub->program = plan->program;
    sub->block = block;
    sub->parent = parent;
    sub->caller = plan;
    sub->root = plan->root;
    sub->scope = plan->scope;
    return tr__plan_build(sub);
}

/* The slots, or, with `infer`, all that the program says of the arguments. An operator with a sub-block is inferred here
 * alone: its outputs are variables that the block writes. */
static tr_status check_declared(const tr_plan *plan, const tr_step *step, bool infer)
{
    tr_infer_frame frame;

    TR_TRY(tr__infer_frame_init(&frame, step->op, step->count));
    for (int a = 0; a < step->arg_count; a++) {
        const tr_plan_var *var = step->arg[a] >= 0 ? &plan->var[step->arg[a]] : NULL;
        frame.meta[a] = tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
        if (!var)
            frame.meta[a].kind = TR_KIND_NONE;
        else if (var->desc)
            frame.meta[a] = tr__meta_of_desc(var->desc);
    }
    const tr_status status = infer ? tr__infer_frame_run(&frame, step->op, step->attrs) : tr__op_check_slots(&frame, step->op);
    tr__infer_frame_deinit(&frame);
    return status;
}

static tr_status build_step(tr_plan *plan, int op_index)
{
    tr_step    *step = &plan->step[plan->step_count++];
    tr_op_desc *desc = tr__op_desc_clone(plan->block->op[op_index]);
    tr_status   status;

    TR_TRY_GOTO(fail, tr__step_alloc(step, tr_op_find(desc->type), desc));
    step->op_index = op_index;
    if (plan->root->expanded) {
        const tr_origin *origin = &plan->root->expanded->origin[plan->block->index][op_index];
        step->op_index = origin->op_index;
        step->composite = origin->composite;
    }
    TR_TRY_GOTO(fail, tr__check_unread_inputs(plan->block, op_index));
    TR_TRY_GOTO(fail, bind_inputs(plan, step));
    TR_TRY_GOTO(fail, bind_outputs(plan, step));
    TR_TRY_GOTO(fail, check_declared(plan, step, false));
    if (step->op->has_block)
        TR_TRY_GOTO(fail, build_sub_plan(plan, step));
    TR_TRY_GOTO(fail, tr__step_finish(plan, step));
    if (step->sub)
        TR_TRY_GOTO(fail, check_declared(plan, step, true));
    return TR_OK;
fail:
    return tr_context(status, "while planning %s", tr__step_text(plan, step));
}

/* -- the whole ------------------------------------------------------------------------------------------ */

static tr_status no_such_fetch(const tr_plan *plan, const char *name)
{
    tr_nearest nearest = {.wanted = name};

    for (int i = 0; i < tr_block_var_count(plan->block); i++)
        tr_nearest_try(&nearest, tr_var_desc_name(tr_block_var_at(plan->block, i)));
    if (tr_nearest_is_close(&nearest))
        return tr_fail(TR_ENOTFOUND, "fetch '%s': the program computes no such variable and the scope has none; did you mean '%s'?",
                       name, nearest.best);
    return tr_fail(TR_ENOTFOUND, "fetch '%s': the program computes no such variable and the scope has none", name);
}

static tr_status bind_feeds_and_fetches(tr_plan *plan)
{
    plan->feed_var = calloc((size_t)plan->feed_count + 1, sizeof *plan->feed_var);
    plan->fetch_var = calloc((size_t)plan->fetch_count + 1, sizeof *plan->fetch_var);
    if (!plan->feed_var || !plan->fetch_var)
        return tr_fail(TR_ENOMEM, "no memory for a plan");
    for (int i = 0; i < plan->fetch_count; i++) {
        int var;
        if (resolve(&var, plan, plan->fetch_name[i]) != TR_OK)
            return no_such_fetch(plan, plan->fetch_name[i]);
        plan->var[var].fetched = plan->var[var].read = true;
        plan->fetch_var[i] = var;
    }
    for (int i = 0; i < plan->feed_count; i++) {
        int var;
        plan->feed_var[i] = -1;
        if (!tr_block_find_var(plan->block, plan->feed_name[i]))
            return tr_fail(TR_ENOTFOUND, "feed '%s': the program has no such variable", plan->feed_name[i]);
        if (!plan->parent && is_persistable(plan->block, plan->feed_name[i]))      /* what nothing reads stays in the scope, too */
            TR_TRY(resolve(&var, plan, plan->feed_name[i]));
        for (int v = 0; v < plan->var_count; v++)
            if ((plan->var[v].home == TR_FED || plan->var[v].home == TR_SCOPE) && plan->var[v].outer == i)
                plan->feed_var[i] = v;
    }
    return TR_OK;
}

/* Number each step's pointers in a frame's tables. */
static void number_steps(tr_plan *plan)
{
    plan->total_args = plan->total_slots = 0;
    for (int i = 0; i < plan->step_count; i++) {
        plan->step[i].first_arg = plan->total_args;
        plan->step[i].first_slot = plan->total_slots;
        plan->total_args += plan->step[i].arg_count;
        plan->total_slots += plan->step[i].in_slots + plan->step[i].out_slots;
    }
}

/* Lists that spare each run a look through all variables and steps. */
static tr_status sum_up(tr_plan *plan)
{
    plan->outside = malloc(((size_t)plan->var_count + 1) * sizeof *plan->outside);
    plan->unset = malloc(((size_t)plan->var_count + 1) * sizeof *plan->unset);
    plan->writes = malloc(((size_t)plan->var_count + 1) * sizeof *plan->writes);
    plan->reads = malloc(((size_t)plan->var_count + 1) * sizeof *plan->reads);
    if (!plan->outside || !plan->unset || !plan->writes || !plan->reads)
        return tr_fail(TR_ENOMEM, "no memory for a plan of %d variables", plan->var_count);
    for (int v = 0; v < plan->var_count; v++) {
        const tr_home home = plan->var[v].home;
        if (home == TR_LOCAL && (is_array(&plan->var[v]) || (plan->var[v].written_inside && !plan->var[v].is_handed)))
            plan->unset[plan->unset_count++] = v;
        plan->uses_scope = plan->uses_scope || home == TR_SCOPE;
        if (home == TR_FED || home == TR_SCOPE)
            plan->outside[plan->outside_count++] = v;
        if (home == TR_SCOPE && plan->var[v].is_set)
            plan->writes[plan->write_count++] = v;
        if (home == TR_SCOPE && (plan->var[v].read || plan->var[v].captured))
            plan->reads[plan->read_count++] = v;
    }
    for (int i = 0; i < plan->step_count; i++) {
        plan->awaits = plan->awaits || plan->step[i].op->awaits;
        plan->is_random = plan->is_random || plan->step[i].op->is_random;
        plan->root->reduces = plan->root->reduces || plan->step[i].op->reduces;
    }
    return TR_OK;
}

tr_status tr__plan_build(tr_plan *plan)
{
    const int ops = plan->block->op_count;
    tr_status status;
    bool     *keep = calloc((size_t)ops + 1, sizeof *keep);

    plan->step = calloc((size_t)ops + 1, sizeof *plan->step);
    if (!keep || !plan->step) {
        status = tr_fail(TR_ENOMEM, "no memory for a plan of %d operators", ops);
        goto done;
    }
    TR_TRY_GOTO(done, map_feeds(plan));
    TR_TRY_GOTO(done, mark_needed(keep, plan));
    for (int i = 0; i < ops; i++)
        if (keep[i])
            TR_TRY_GOTO(done, build_step(plan, i));
    TR_TRY_GOTO(done, bind_feeds_and_fetches(plan));
    if (!plan->parent)
        TR_TRY_GOTO(done, tr__plan_fuse(plan));
    if (!plan->parent)
        TR_TRY_GOTO(done, tr__plan_fuse_updates(plan));
    TR_TRY_GOTO(done, tr__plan_separate(plan));
    TR_TRY_GOTO(done, sum_up(plan));
    number_steps(plan);
done:
    free(keep);
    return status;
}

