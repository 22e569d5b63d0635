/* executor.c - finding or making a plan, and running it. */
#include <stdlib.h>
#include <string.h>

#include "framework/call.h"
#include "framework/frame.h"
#include "framework/interrupt.h"
#include "framework/meeting.h"
#include "framework/late.h"
#include "framework/plan_build.h"
#include "framework/precision.h"
#include "framework/watched.h"

/* How often a program was run in a scope: random operators differ from run to run. */
typedef struct tr_run_count {
    uint64_t             program_id, scope_id, runs;
    struct tr_run_count *next;
} tr_run_count;

struct tr_executor {
    tr_plan      *plans;
    tr_run_count *counts;
    tr_workspace  workspace;
};

enum { MAX_LAYOUTS = 16 };            /* per plan; the one used longest ago makes room */

static bool says_check_nan(void)
{
    const char *text = getenv("TRIREME_CHECK_NAN");

    return text && *text && strcmp(text, "0") != 0;
}

static void free_names(char **names, int count)
{
    for (int i = 0; names && i < count; i++)
        free(names[i]);
    free(names);
}

static void free_plan(tr_plan *plan)
{
    if (!plan)
        return;
    tr__plan_free_frames(plan);
    tr__meeting_free(plan->own_meeting);
    for (int i = 0; i < plan->step_count; i++) {
        free_plan(plan->step[i].sub);
        plan->step[i].sub = NULL;
        tr__step_deinit(&plan->step[i]);
    }
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
    free(plan->unset);
    free(plan->writes);
    free(plan->var);
    tr__expanded_free(plan->expanded);
    free(plan);
}

tr_executor *tr_executor_new(void)
{
    tr_executor *executor = calloc(1, sizeof *executor);
    if (executor) {
        tr_tensor_init(&executor->workspace.arena);
        tr_tensor_init(&executor->workspace.scratch);
        tr_tensor_init(&executor->workspace.loop_scratch);
        tr_tensor_init(&executor->workspace.widened);
        executor->workspace.check_finite = says_check_nan();
        executor->workspace.precision = -1;
    }
    return executor;
}

void tr_executor_free(tr_executor *executor)
{
    if (!executor)
        return;
    while (executor->plans) {
        tr_plan *next = executor->plans->next;
        free_plan(executor->plans);
        executor->plans = next;
    }
    while (executor->counts) {
        tr_run_count *next = executor->counts->next;
        free(executor->counts);
        executor->counts = next;
    }
    tr_tensor_deinit(&executor->workspace.arena);
    tr_tensor_deinit(&executor->workspace.scratch);
    tr_tensor_deinit(&executor->workspace.loop_scratch);
    tr_tensor_deinit(&executor->workspace.widened);
    free(executor);
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

/* -- plans ----------------------------------------------------------------------------------------------- */

static uint64_t generation_of(const tr_scope *scope)
{
    uint64_t sum = 0;
    for (; scope; scope = scope->parent)
        sum += scope->generation;
    return sum;
}

static bool same_names(char *const *have, int have_count, const char *const *want, int want_count)
{
    if (have_count != want_count)
        return false;
    for (int i = 0; i < want_count; i++)
        if (strcmp(have[i], want[i]) != 0)
            return false;
    return true;
}

static tr_plan *find_plan(const tr_executor *executor, const tr_program *program, const tr_scope *scope, int feed_count,
                          const char *const *feeds, int fetch_count, const char *const *fetches)
{
    for (tr_plan *plan = executor->plans; plan; plan = plan->next)
        if (plan->program_id == program->id && plan->revision == program->revision && plan->scope_id == scope->id &&
            same_names(plan->feed_name, plan->feed_count, feeds, feed_count) &&
            same_names(plan->fetch_name, plan->fetch_count, fetches, fetch_count))
            return plan;
    return NULL;
}

/* Drop the plans of a program: all of them, or only those of older revisions. */
static void drop_plans(tr_executor *executor, const tr_program *program, bool only_stale)
{
    for (tr_plan **link = &executor->plans; *link;) {
        tr_plan *plan = *link;
        if (plan->program_id == program->id && (!only_stale || plan->revision != program->revision)) {
            *link = plan->next;
            free_plan(plan);
        } else {
            link = &plan->next;
        }
    }
}

void tr_executor_forget(tr_executor *executor, const tr_program *program)
{
    drop_plans(executor, program, false);
}

static uint64_t *run_counter(tr_executor *executor, uint64_t program_id, uint64_t scope_id)
{
    for (tr_run_count *count = executor->counts; count; count = count->next)
        if (count->program_id == program_id && count->scope_id == scope_id)
            return &count->runs;
    tr_run_count *count = malloc(sizeof *count);
    if (!count)
        return NULL;
    *count = (tr_run_count){program_id, scope_id, 0, executor->counts};
    executor->counts = count;
    return &count->runs;
}

int64_t tr_executor_runs(const tr_executor *executor, const tr_program *program, const tr_scope *scope)
{
    for (const tr_run_count *count = executor->counts; count; count = count->next)
        if (count->program_id == program->id && count->scope_id == scope->id)
            return (int64_t)count->runs;
    return 0;
}

tr_status tr_executor_set_runs(tr_executor *executor, const tr_program *program, const tr_scope *scope, int64_t runs)
{
    uint64_t *counter = run_counter(executor, program->id, scope->id);

    if (runs < 0)
        return tr_fail(TR_ERANGE, "tr_executor_set_runs: %lld", (long long)runs);
    if (!counter)
        return tr_fail(TR_ENOMEM, "no memory to count the runs of a program");
    *counter = (uint64_t)runs;
    return TR_OK;
}

static tr_status copy_names(char ***out, int count, const char *const *names)
{
    *out = calloc((size_t)count + 1, sizeof **out);
    for (int i = 0; *out && i < count; i++)
        if (!((*out)[i] = strdup(names[i])))
            return tr_fail(TR_ENOMEM, "no memory for the names of a plan");
    return *out ? TR_OK : tr_fail(TR_ENOMEM, "no memory for the names of a plan");
}

static tr_status new_plan(tr_plan **out, tr_executor *executor, tr_program *program, tr_scope *scope, int feed_count,
                          const char *const *feeds, int fetch_count, const char *const *fetches)
{
    tr_plan  *plan = calloc(1, sizeof *plan);
    tr_status status;

    if (!plan)
        return tr_fail(TR_ENOMEM, "no memory for a plan");
    plan->workspace = &executor->workspace;
    plan->program = program;
    plan->root = plan;
    plan->scope = scope;
    plan->program_id = program->id;
    plan->revision = program->revision;
    plan->scope_id = scope->id;
    plan->runs = run_counter(executor, program->id, scope->id);
    if (!plan->runs) {
        status = tr_fail(TR_ENOMEM, "no memory for a plan");
        goto fail;
    }
    TR_TRY_GOTO(fail, tr__expand(&plan->expanded, program));
    plan->block = tr_program_block(plan->expanded ? plan->expanded->program : program, 0);
    plan->feed_count = feed_count;
    TR_TRY_GOTO(fail, copy_names(&plan->feed_name, feed_count, feeds));
    plan->fetch_count = fetch_count;
    TR_TRY_GOTO(fail, copy_names(&plan->fetch_name, fetch_count, fetches));
    TR_TRY_GOTO(fail, tr__plan_build(plan));
    TR_TRY_GOTO(fail, tr__frame_new(&plan->frame, plan, NULL, NULL));
    plan->scope_generation = generation_of(scope);
    *out = plan;
    return TR_OK;
fail:
    free_plan(plan);
    return status;
}

tr_status tr_executor_prepare(tr_plan **out, tr_executor *executor, tr_program *program, tr_scope *scope, int feed_count,
                              const char *const *feeds, int fetch_count, const char *const *fetches)
{
    *out = find_plan(executor, program, scope, feed_count, feeds, fetch_count, fetches);
    if (*out)
        return TR_OK;
    TR_TRY(tr_num_threads_check());
    TR_TRY(tr_matmul_precision_check());
    drop_plans(executor, program, true);
    TR_TRY(new_plan(out, executor, program, scope, feed_count, feeds, fetch_count, fetches));
    (*out)->next = executor->plans;
    executor->plans = *out;
    return TR_OK;
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
    return feed->rank > 0 && feed->lod_offsets[last][feed->lod_counts[last] - 1] == feed->dims[0];
}

static tr_status set_feed_lod(tr_tensor *tensor, const tr_feed *feed)
{
    if (same_lod(tensor, feed))
        return TR_OK;
    const tr_status status = tr_tensor_set_lod(tensor, feed->lod_levels, feed->lod_counts, feed->lod_offsets);
    return status == TR_OK ? TR_OK : tr_context(status, "in feed '%s'", feed->name);
}

/* Of a variable that persists. Memory that is lent to hold just this is written, and not replaced (frame.c). */
static tr_status set_in_scope(tr_tensor *tensor, const tr_feed *feed, const tr_shape *shape)
{
    const bool fits = tensor->data && tensor->dtype == feed->dtype && tr_shape_equal(&tensor->shape, shape);

    TR_TRY(tr_tensor_await(tensor));
    tr__tensor_drop_rows(tensor);
    if (!fits || (tensor->buffer && !tr__tensor_is_sole_owner(tensor)))
        TR_TRY(tr__tensor_reserve(tensor, feed->dtype, shape));
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
    if (var->place == TR_SCOPE)
        return set_in_scope(&plan->frame->var[v]->tensor, feed, &shape);
    if (may_be_indices(feed->dtype) || (var->captured && var->written)) {      /* a sub-block writes it: not into the caller's memory */
        TR_TRY(tr__tensor_reserve(tensor, feed->dtype, &shape));
        memcpy(tensor->data, feed->data, (size_t)tr_tensor_bytes(tensor));
    } else {
        tr__tensor_point(tensor, feed->dtype, &shape, (void *)(uintptr_t)feed->data);
    }
    return set_feed_lod(tensor, feed);
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
    TR_TRY(tr__tensor_grow(&plan->workspace->arena, (size_t)layout->arena_bytes));
    frame->arena = plan->workspace->arena.data;
    return tr__frame_set_layout(frame, layout, frame->arena);
}

static tr_status give_fetch(tr_tensor *out, const tr_plan *plan, int fetch)
{
    const int v = plan->fetch_var[fetch];
    tr_var   *var = plan->frame->var[v];

    if (var->kind != TR_KIND_TENSOR && var->kind != TR_KIND_SELECTED_ROWS)
        return tr_fail(TR_EUNSUPPORTED, "fetch '%s': it is no tensor", plan->fetch_name[fetch]);
    if (var->tensor.dtype == TR_DTYPE_NONE)
        return tr_fail(TR_ENOTFOUND, "fetch '%s': the run gave it no value", plan->fetch_name[fetch]);
    if (plan->var[v].place != TR_LOCAL) {
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

static tr_status compute(tr_plan *plan)
{
    TR_TRY(choose_layout(plan));
    TR_TRY(tr__frame_prepare_outputs(plan->frame));
    return tr__frame_run(plan->frame);
}

static tr_status run(tr_plan *plan, const tr_feed *feeds, tr_tensor *const *fetches)
{
    const uint64_t generation = generation_of(plan->scope);

    if (plan->uses_scope && !plan->awaits)         /* the variables' values may still be coming */
        TR_TRY(tr__late_wait_all());
    if (generation != plan->scope_generation) {
        TR_TRY(tr__frame_bind(plan->frame));
        plan->scope_generation = generation_of(plan->scope);
        plan->frame->layout = NULL;
    }
    tr__frame_drop_lods(plan->frame);
    for (int i = 0; i < plan->feed_count; i++)
        if (plan->feed_var[i] >= 0)
            TR_TRY(set_feed(plan, &feeds[i], plan->feed_var[i]));
    plan->workspace->looks = plan->workspace->check_finite && has_samples(plan, feeds);
    tell_written(plan);
    const tr_status status = compute(plan);
    if (status != TR_OK)
        return name_feeds(status, plan, feeds);
    for (int i = 0; i < plan->fetch_count; i++)
        TR_TRY(give_fetch(fetches[i], plan, i));
    return TR_OK;
}

tr_status tr_plan_run(tr_plan *plan, const tr_feed *feeds, tr_tensor *const *fetches)
{
    if (tr__call_is_running())
        return tr_fail(TR_EUNSUPPORTED, "a function that a program calls (py_func) may not run a program: the run that has called it is not over");
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
