/* executor.c - running plans. */
#include <stdlib.h>
#include <string.h>

#include "framework/runs/call.h"
#include "framework/runs/frame.h"
#include "framework/runs/plan_life.h"
#include "framework/tensors/pending_value.h"
#include "framework/tensors/watched.h"
#include "framework/threads/interrupt.h"
#include "framework/threads/precision.h"

enum { MAX_LAYOUTS = 16 };            /* per plan; the one used longest ago makes room */

static bool says_check_nan(void)
{
    const char *text = getenv("TRIREME_CHECK_NAN");

    return text && *text && strcmp(text, "0") != 0;
}

static void for_memory(tr_workspace *workspace, void (*act)(tr_tensor *tensor))
{
    act(&workspace->arena);
    act(&workspace->scratch);
    act(&workspace->loop_scratch);
    act(&workspace->upcast);
}

tr_executor *tr_executor_new(void)
{
    tr_executor *executor = calloc(1, sizeof *executor);
    if (executor) {
        for_memory(&executor->workspace, tr_tensor_init);
        executor->workspace.check_finite = says_check_nan();
        executor->workspace.precision = -1;
    }
    return executor;
}

void tr_executor_free(tr_executor *executor)
{
    if (!executor)
        return;
    tr__plans_forget(executor, NULL);
    for_memory(&executor->workspace, tr_tensor_deinit);
    tr__weak_release(executor->workspace.job);
    free(executor);
}

void tr_executor_forget(tr_executor *executor, const tr_program *program)
{
    tr__plans_forget(executor, program);
}

void tr__executor_set_job(tr_executor *executor, tr_weak *job)
{
    tr_weak *before = executor->workspace.job;

    executor->workspace.job = tr__weak_retain(job);
    tr__weak_release(before);
}

void tr_executor_check_finite(tr_executor *executor, bool check)
{
    executor->workspace.check_finite = check;
}

tr_status tr_executor_set_matmul_precision(tr_executor *executor, const char *name)
{
    tr_precision precision;

    if (!name) {
        executor->workspace.precision = -1;
        return TR_OK;
    }
    TR_TRY(tr_precision_parse(&precision, name));
    executor->workspace.precision = (int)precision;
    return TR_OK;
}

static tr_precision precision_of(const tr_workspace *workspace)
{
    return workspace->precision < 0 ? tr_matmul_precision() : (tr_precision)workspace->precision;
}

tr_precision tr_executor_matmul_precision(const tr_executor *executor)
{
    return precision_of(&executor->workspace);
}

/* -- one run ----------------------------------------------------------------------------------------------- */

static tr_status check_feed(const tr_feed *feed, const tr_var_desc *desc)
{
    if (!tr_dtype_is_valid(feed->dtype) || feed->rank < 1 || feed->rank > TR_MAX_RANK)
        return tr_fail(TR_EINVAL, "feed '%s': not a tensor of rank 1 to %d", desc->name, TR_MAX_RANK);
    const tr_shape shape = tr_shape_of(feed->rank, feed->dims);
    if (desc->dtype != TR_DTYPE_NONE && feed->dtype != desc->dtype)
        return tr_fail(TR_EDTYPE, "feed '%s': the program declares %s, got %s", desc->name, tr_dtype_name(desc->dtype),
                       tr_dtype_name(feed->dtype));
    if (desc->shape.rank > 0 && desc->shape.rank != shape.rank)
        return tr_fail(TR_ESHAPE, "feed '%s': the program declares shape %s, got %s", desc->name,
                       TR_SHAPE_STR(desc->shape), TR_SHAPE_STR(shape));
    return TR_OK;
}

/* Shapes are inferred from what is fed, also where a program declares another number, as for shorter sequences. Where an operator
 * then refuses its inputs, the trail ends with the feeds that are not as declared. */
static tr_status name_feeds(tr_status status, const tr_plan *plan, const tr_feed *feeds)
{
    for (int i = 0; i < plan->feed_count; i++) {
        if (plan->feed_var[i] < 0)
            continue;
        const tr_var_desc *desc = plan->var[plan->feed_var[i]].desc;
        const tr_shape     shape = tr_shape_of(feeds[i].rank, feeds[i].dims);
        if (desc->shape.rank > 0 && !tr_shape_fits(&desc->shape, &shape))
            status = tr_context(status, "with feed '%s' of shape %s, which the program declares as %s", desc->name,
                                TR_SHAPE_STR(shape), TR_SHAPE_STR(desc->shape));
    }
    return status;
}

static bool same_lod(const tr_tensor *tensor, const tr_feed *feed)
{
    if (tr_tensor_lod_levels(tensor) != feed->lod_levels)
        return false;
    for (int l = 0; l < feed->lod_levels; l++)
        if (tr_tensor_lod_count(tensor, l) != feed->lod_counts[l] ||
            memcmp(tr_tensor_lod_offsets(tensor, l), feed->lod_offsets[l],
                   (size_t)feed->lod_counts[l] * sizeof(int64_t)) != 0)
            return false;
    if (feed->lod_levels == 0)
        return true;
    const int last = feed->lod_levels - 1;      /* the number of rows may have changed */
    return feed->rank > 0 && tr_tensor_lod_offsets(tensor, last)[tr_tensor_lod_count(tensor, last) - 1] == feed->dims[0];
}

static tr_status set_feed_lod(tr_tensor *tensor, const tr_feed *feed)
{
    if (same_lod(tensor, feed))
        return TR_OK;
    const tr_status status = tr_tensor_set_lod(tensor, feed->lod_levels, feed->lod_counts, feed->lod_offsets);
    return status == TR_OK ? TR_OK : tr_context(status, "in feed '%s'", feed->name);
}

static tr_status reserve_feed(tr_tensor *tensor, const tr_feed *feed, const tr_shape *shape)
{
    const tr_status status = tr__tensor_reserve(tensor, feed->dtype, shape);
    return status == TR_OK ? TR_OK : tr_context(status, "for feed '%s'", feed->name);
}

/* Of a variable that persists. Memory that is lent to hold just this is written, and not replaced (frame.c). */
static tr_status set_in_scope(tr_tensor *tensor, const tr_feed *feed, const tr_shape *shape)
{
    const bool fits = tensor->data && tensor->dtype == feed->dtype && tr_shape_equal(&tensor->shape, shape);

    TR_TRY(tr_tensor_await(tensor));
    tr__tensor_drop_rows(tensor);
    if (!fits || (tensor->buffer && !tr__tensor_is_sole_owner(tensor)))
        TR_TRY(reserve_feed(tensor, feed, shape));
    memmove(tensor->data, feed->data, (size_t)tr_tensor_bytes(tensor));
    return set_feed_lod(tensor, feed);
}

/* Another thread of the caller may change an array that is fed. Floats are then any values. Integers and flags may say where memory is read and
 * written, and a kernel reads them more than once: so a run has a copy of its own, and its forward and backward parts see the same. */
static bool may_be_indices(tr_dtype dtype)
{
    return dtype == TR_INT64 || dtype == TR_INT32 || dtype == TR_INT16 || dtype == TR_BOOL || dtype == TR_SIZE_T;
}

static tr_status set_feed(tr_plan *plan, const tr_feed *feed, int v)
{
    const tr_plan_var *var = &plan->var[v];
    tr_tensor         *tensor = &plan->frame->local[v].tensor;

    TR_TRY(check_feed(feed, var->desc));
    const tr_shape shape = tr_shape_of(feed->rank, feed->dims);
    if (var->home == TR_SCOPE)
        return set_in_scope(&plan->frame->var[v]->tensor, feed, &shape);
    if (may_be_indices(feed->dtype) || (var->captured && var->written)) {      /* a sub-block writes it: not into the caller's memory */
        TR_TRY(reserve_feed(tensor, feed, &shape));
        memcpy(tensor->data, feed->data, (size_t)tr_tensor_bytes(tensor));
    } else {
        tr__tensor_point(tensor, feed->dtype, &shape, (void *)(uintptr_t)feed->data);
    }
    return set_feed_lod(tensor, feed);
}

/* Memory for the temporaries of a run. */
static tr_status get_arena(tr_plan *plan, const tr_layout *layout)
{
    const tr_status status = tr__tensor_grow(&plan->workspace->arena, (size_t)layout->arena_bytes);
    int64_t         most = -1;
    int             largest = 0;

    if (status == TR_OK)
        return TR_OK;
    for (int v = 0; v < plan->var_count; v++)
        if (layout->offset[v] >= 0 && tr_shape_numel(&layout->meta[v].shape) * tr_dtype_size(layout->meta[v].dtype) > most) {
            most = tr_shape_numel(&layout->meta[v].shape) * tr_dtype_size(layout->meta[v].dtype);
            largest = v;
        }
    return tr_context(status, "for a run's temporaries, the largest of which is '%s', %s%s", plan->var[largest].name,
                      tr_dtype_name(layout->meta[largest].dtype), TR_SHAPE_STR(layout->meta[largest].shape));
}

/* The layout for the present shapes: the one in force, one of the others, or a new one. */
static tr_status choose_layout(tr_plan *plan)
{
    tr_frame *frame = plan->frame;
    int       count = 0;

    if (frame->layout && tr__layout_fits(frame->layout, plan, frame->var)) {
        if ((char *)plan->workspace->arena.data == (char *)frame->arena)
            return TR_OK;
    }
    tr_layout **link = &plan->layouts;
    while (*link && !tr__layout_fits(*link, plan, frame->var)) {
        count++;
        if (count >= MAX_LAYOUTS && !(*link)->next && *link != frame->layout) {
            tr__layout_free(*link);
            *link = NULL;
            break;
        }
        link = &(*link)->next;
    }
    tr_layout *layout = *link;
    if (layout)
        *link = layout->next;
    else
        TR_TRY(tr__layout_new(&layout, plan, frame->var));
    layout->next = plan->layouts;
    plan->layouts = layout;
    TR_TRY(get_arena(plan, layout));
    frame->arena = plan->workspace->arena.data;
    return tr__frame_set_layout(frame, layout, frame->arena);
}

static tr_status give_fetch(tr_tensor *out, const tr_plan *plan, int fetch)
{
    const int v = plan->fetch_var[fetch];
    tr_var   *var = plan->frame->var[v];

    if (var->kind == TR_KIND_RAW)
        return tr_fail(TR_EUNSUPPORTED, "fetch '%s': it is a sparse table, and a fetch gives tensors; fetch rows that lookup_table (layers.embedding) "
                       "has looked up in it, or save the table (io.save_persistables)", plan->fetch_name[fetch]);
    if (var->kind != TR_KIND_TENSOR && var->kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EUNSUPPORTED, "fetch '%s': it is no tensor", plan->fetch_name[fetch]);
    if (var->tensor.dtype == TR_DTYPE_NONE)
        return tr_fail(TR_ENOTFOUND, "fetch '%s': the run gave it no value", plan->fetch_name[fetch]);
    if (plan->var[v].home != TR_LOCAL) {
        TR_TRY(tr_tensor_await(&var->tensor));
        return tr_tensor_copy(out, &var->tensor);
    }
    TR_TRY(tr__tensor_copy_lod(&var->tensor, &var->tensor));     /* not that of another variable: see tensor.h */
    tr_tensor_share(out, &var->tensor);
    return TR_OK;
}

/* The mean of no samples is NaN, and counts for nothing. The batch is the first feed that is no variable of the scope. */
static bool has_samples(const tr_plan *plan, const tr_feed *feeds)
{
    for (int i = 0; i < plan->feed_count; i++) {
        const tr_var_desc *desc = tr_block_find_var(plan->block, plan->feed_name[i]);
        if (!desc->persistable)
            return feeds[i].rank < 1 || (feeds[i].lod_levels > 0 ? feeds[i].lod_counts[0] > 1 : feeds[i].dims[0] > 0);
    }
    return true;
}

/* Tell who watches them that the variables get other values. The trainer's part of a training does not tell: what it writes is no script's. */
static void tell_written(const tr_plan *plan)
{
    for (int i = 0; !plan->awaits && i < plan->write_count; i++)
        tr__tell_written(plan->frame->var[plan->writes[i]]->tensor.watch);
}

/* Of the variables that the run reads, somebody else may have newer values. */
static tr_status fetch_watched(const tr_plan *plan, const int *vars, int count)
{
    uint32_t any = 0;

    for (int i = 0; i < count; i++) {
        const uint32_t watch = plan->frame->var[vars[i]]->tensor.watch;
        tr__tell_wanted(watch);
        any |= watch;
    }
    return any ? tr__watcher_fetch() : TR_OK;
}

static tr_status compute(tr_plan *plan)
{
    TR_TRY(choose_layout(plan));
    TR_TRY(tr__frame_prepare_outputs(plan->frame));
    tr_team_choice    *team = &plan->frame->layout->team;
    const tr_team_step step = tr__team_begin(team);
    const tr_status    status = tr__frame_run(plan->frame);
    tr__team_end(team, &step);
    return status;
}

static tr_status run(tr_plan *plan, const tr_feed *feeds, tr_tensor *const *fetches)
{
    const uint64_t generation = tr__scope_generation(plan->scope);

    if (plan->uses_scope && !plan->awaits)         /* the variables' values may still be coming */
        TR_TRY(tr__pending_wait_all());
    if (generation != plan->scope_generation) {
        TR_TRY(tr__frame_bind(plan->frame));
        plan->scope_generation = tr__scope_generation(plan->scope);
        plan->frame->layout = NULL;
    }
    TR_TRY(fetch_watched(plan, plan->reads, plan->read_count));
    tr__frame_drop_lods(plan->frame);
    for (int i = 0; i < plan->feed_count; i++)
        if (plan->feed_var[i] >= 0)
            TR_TRY(set_feed(plan, &feeds[i], plan->feed_var[i]));
    plan->workspace->looks = plan->workspace->check_finite && has_samples(plan, feeds);
    tell_written(plan);
    const tr_status status = compute(plan);
    if (status != TR_OK)
        return name_feeds(status, plan, feeds);
    TR_TRY(fetch_watched(plan, plan->fetch_var, plan->fetch_count));
    for (int i = 0; i < plan->fetch_count; i++)
        TR_TRY(give_fetch(fetches[i], plan, i));
    return TR_OK;
}

tr_status tr_plan_run(tr_plan *plan, const tr_feed *feeds, tr_tensor *const *fetches)
{
    if (tr__call_is_running())
        return tr_fail(TR_EUNSUPPORTED, "a function that a program calls (py_func) may not run a program: the run that has called it is not over");
    if (!plan->binding)
        return tr_fail(TR_EINVAL, "the plan is gone: its executor, its program or its scope was freed, or the program has changed; prepare another one");
    const int64_t      before = tr__tensor_allocations();
    const tr_precision precision = tr__precision_enter(precision_of(plan->workspace));

    tr__interruptible_begin();
    const tr_status status = run(plan, feeds, fetches);
    tr__interruptible_end();
    tr__precision_enter(precision);
    plan->allocations += tr__tensor_allocations() - before;
    ++*plan->runs;
    return status;
}

int64_t tr_plan_allocations(const tr_plan *plan)
{
    return plan->allocations;
}
