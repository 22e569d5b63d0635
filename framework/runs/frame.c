/* frame.c - see frame.h.
 *
 * A run of a root frame: the executor points fed variables at the caller's memory, sets the layout, and here
 * the steps run one after the other: static ones with nothing before the kernel but LoD sharing, dynamic ones
 * after inference. Their outputs own their memory, but those whose shape the layout foresaw.
 *
 * What is fetched must outlive the next run: its buffer is handed out, and the frame takes another. Two spare
 * buffers per fetch are enough for a caller that holds the last result while it gets the next. */
#include "framework/runs/frame.h"

#include <stdlib.h>

#include "framework/operators/infer.h"
#include "framework/tensors/random.h"
#include "framework/tensors/tensor_finite.h"
#include "framework/threads/interrupt.h"
#include "framework/threads/profiler.h"

enum { SPARES = 2 };

/* -- life --------------------------------------------------------------------------------------------- */

void tr__frame_free(tr_frame *frame)
{
    if (!frame)
        return;
    for (int v = 0; frame->local && v < frame->plan->var_count; v++)
        tr__var_deinit(&frame->local[v]);
    for (int i = 0; frame->spare && i < frame->plan->fetch_count * SPARES; i++)
        tr_tensor_deinit(&frame->spare[i]);
    free(frame->local);
    free(frame->var);
    free(frame->arg);
    free(frame->first);
    free(frame->args);
    free(frame->run);
    free(frame->spare);
    free(frame);
}

void tr__plan_free_frames(tr_plan *plan)
{
    tr__frame_free(plan->frame);
    plan->frame = NULL;
    while (plan->closed) {
        tr_frame *next = plan->closed->next;
        tr__frame_free(plan->closed);
        plan->closed = next;
    }
}

static tr_var *locate(tr_frame *frame, int v)
{
    const tr_plan_var *var = &frame->plan->var[v];
    tr_var *found;

    switch (var->home) {
    case TR_SCOPE:
        found = tr_scope_find(frame->plan->scope, var->name);
        return found ? found : tr__scope_var(frame->plan->scope, var->name);
    case TR_OUTER:
        return frame->parent->var[var->outer];
    case TR_CALLERS:
        return frame->caller->var[var->outer];
    default:
        return &frame->local[v];
    }
}

tr_status tr__frame_bind(tr_frame *frame)
{
    const tr_plan *plan = frame->plan;

    for (int v = 0; v < plan->var_count; v++)
        if (!(frame->var[v] = locate(frame, v)))
            return tr_fail(TR_ENOMEM, "no memory for variable '%s'", plan->var[v].name);
    for (int i = 0; i < plan->step_count; i++) {
        const tr_step *step = &plan->step[i];
        tr_tensor    **arg = frame->arg + step->first_arg;
        int            a = 0;
        for (int k = 0; k < step->arg_count; k++)
            arg[k] = step->arg[k] >= 0 ? &frame->var[step->arg[k]]->tensor : NULL;
        for (int s = 0; s < step->in_slots + step->out_slots; s++) {
            frame->args[step->first_slot + s] = (tr_args){step->count[s], arg + a};
            frame->first[step->first_slot + s] = step->count[s] > 0 ? arg[a] : NULL;
            a += step->count[s];
        }
    }
    return TR_OK;
}

static void fill_runs(tr_frame *frame)
{
    for (int i = 0; i < frame->plan->step_count; i++) {
        const tr_step *step = &frame->plan->step[i];
        frame->run[i] = (tr_run){.in = frame->first + step->first_slot,
                                 .out = frame->first + step->first_slot + step->in_slots,
                                 .ins = frame->args + step->first_slot,
                                 .outs = frame->args + step->first_slot + step->in_slots,
                                 .attrs = step->attrs, .frame = frame, .step = step};
    }
}

tr_status tr__frame_new(tr_frame **out, tr_plan *plan, tr_frame *parent, tr_frame *caller)
{
    tr_frame *frame = calloc(1, sizeof *frame);
    tr_status status;

    tr__tensor_count_allocation();
    if (!frame)
        return tr_fail(TR_ENOMEM, "no memory for a frame");
    frame->plan = plan;
    frame->parent = parent;
    frame->caller = caller;
    frame->local = calloc((size_t)plan->var_count + 1, sizeof *frame->local);
    frame->var = calloc((size_t)plan->var_count + 1, sizeof *frame->var);
    frame->arg = calloc((size_t)plan->total_args + 1, sizeof *frame->arg);
    frame->first = calloc((size_t)plan->total_slots + 1, sizeof *frame->first);
    frame->args = calloc((size_t)plan->total_slots + 1, sizeof *frame->args);
    frame->run = calloc((size_t)plan->step_count + 1, sizeof *frame->run);
    frame->spare = calloc((size_t)plan->fetch_count * SPARES + 1, sizeof *frame->spare);
    if (!frame->local || !frame->var || !frame->arg || !frame->first || !frame->args || !frame->run || !frame->spare) {
        status = tr_fail(TR_ENOMEM, "no memory for a frame of %d variables", plan->var_count);
        goto fail;
    }
    for (int v = 0; v < plan->var_count; v++)
        tr__var_init(&frame->local[v]);
    for (int i = 0; i < plan->fetch_count * SPARES; i++)
        tr_tensor_init(&frame->spare[i]);
    TR_TRY_GOTO(fail, tr__frame_bind(frame));
    fill_runs(frame);
    *out = frame;
    return TR_OK;
fail:
    tr__frame_free(frame);
    return status;
}

/* -- memory ------------------------------------------------------------------------------------------- */

static bool owns_nothing(const tr_tensor *tensor) { return !tensor->buffer; }

static tr_status for_var(tr_status status, const tr_frame *frame, int v)
{
    return status == TR_OK ? TR_OK : tr_context(status, "for variable '%s'", frame->plan->var[v].name);
}

static tr_status reserve(tr_frame *frame, int v, const tr_meta *meta)
{
    return for_var(tr__tensor_reserve(&frame->var[v]->tensor, meta->dtype, &meta->shape), frame, v);
}

tr_status tr__frame_set_layout(tr_frame *frame, tr_layout *layout, void *arena)
{
    const tr_plan *plan = frame->plan;

    for (int v = 0; v < plan->var_count; v++) {
        if (plan->var[v].home != TR_LOCAL)
            continue;
        tr_tensor *tensor = &frame->local[v].tensor;
        tr__tensor_drop_lod(tensor);
        if (layout->offset[v] >= 0)
            tr__tensor_point(tensor, layout->meta[v].dtype, &layout->meta[v].shape, (char *)arena + layout->offset[v]);
        else if (plan->var[v].fetched)
            continue;                 /* tr__frame_prepare_outputs */
        else if (layout->meta[v].shape.rank > 0 && tr_shape_is_known(&layout->meta[v].shape))
            TR_TRY(reserve(frame, v, &layout->meta[v]));
        else if (owns_nothing(tensor)) {
            tr__tensor_forget(tensor);
            tensor->data = NULL;
        }
    }
    frame->layout = layout;
    return TR_OK;
}

void tr__frame_drop_lods(tr_frame *frame)
{
    const tr_layout *layout = frame->layout;

    if (layout && !layout->has_lods)
        return;
    for (int v = 0; v < frame->plan->var_count; v++)
        if (!layout || layout->may_have_lod[v])
            tr__tensor_drop_lod(&frame->local[v].tensor);
}

/* Take a buffer that nobody else holds: the variable's own, or a spare. */
static void rotate_fetched(tr_frame *frame, int fetch)
{
    tr_tensor *tensor = &frame->var[frame->plan->fetch_var[fetch]]->tensor;

    if (owns_nothing(tensor) || tr__tensor_is_sole_owner(tensor))
        return;
    for (int k = 0; k < SPARES; k++) {
        tr_tensor *spare = &frame->spare[fetch * SPARES + k];
        if (owns_nothing(spare) || tr__tensor_is_sole_owner(spare)) {
            const tr_tensor held = *tensor;
            *tensor = *spare;
            *spare = held;
            tr__tensor_drop_lod(tensor);
            return;
        }
    }
}

tr_status tr__frame_prepare_outputs(tr_frame *frame)
{
    const tr_plan   *plan = frame->plan;
    const tr_layout *layout = frame->layout;

    for (int i = 0; i < plan->fetch_count; i++) {
        const int v = plan->fetch_var[i];
        if (plan->var[v].home != TR_LOCAL)
            continue;
        rotate_fetched(frame, i);
        if (layout->meta[v].shape.rank > 0)
            TR_TRY(reserve(frame, v, &layout->meta[v]));
    }
    for (int i = 0; i < plan->outside_count; i++) {
        const int      v = plan->outside[i];
        tr_tensor     *tensor = &frame->var[v]->tensor;
        const tr_meta *meta = &layout->meta[v];
        if (plan->var[v].home == TR_SCOPE && plan->var[v].written && meta->shape.rank > 0 &&
            (tensor->dtype != meta->dtype || !tr_shape_equal(&tensor->shape, &meta->shape)))
            TR_TRY(reserve(frame, v, meta));
    }
    return TR_OK;
}

/* Is the variable's memory lent to hold just this? Of one in the scope it may be somebody else's (what a server keeps, say). */
static bool is_lent(const tr_frame *frame, int v)
{
    const tr_layout *layout = frame->layout;
    const bool       is_placed = layout && layout->offset[v] >= 0 && frame->var[v]->tensor.data == (char *)frame->arena + layout->offset[v];

    return owns_nothing(&frame->var[v]->tensor) && (is_placed || frame->plan->var[v].home == TR_SCOPE);
}

/* Memory for an output of a dynamic step. When the variable is an input as well, its contents stay. Lent memory is written, as by steps
 * with a layout. */
static tr_status own_output(tr_tensor *tensor, const tr_meta *meta, bool is_input, bool is_lent)
{
    const bool    fits = tensor->dtype == meta->dtype && tr_shape_equal(&tensor->shape, &meta->shape);
    const int64_t bytes = tr_shape_numel(&meta->shape) * tr_dtype_size(meta->dtype);

    if (is_input && tensor->dtype != TR_DTYPE_NONE && bytes != tr_tensor_bytes(tensor))
        return tr_fail(TR_ESHAPE, "it reads and writes the same variable, which would become %s%s instead of %s%s while it is read; "
                       "write to another variable, and assign that", tr_dtype_name(meta->dtype), TR_SHAPE_STR(meta->shape),
                       tr_dtype_name(tensor->dtype), TR_SHAPE_STR(tensor->shape));

    if (meta->kind == TR_KIND_TENSOR && tensor->rows && !is_input)
        tr__tensor_drop_rows(tensor);
    if (fits && (is_lent || tr__tensor_is_sole_owner(tensor)))
        return TR_OK;
    if (!is_input || !fits)
        return tr__tensor_reserve(tensor, meta->dtype, &meta->shape);
    const tr_tensor old = *tensor;                 /* shared or borrowed: write to a copy */
    tr_tensor       copy;
    tr_tensor_init(&copy);
    TR_TRY(tr_tensor_copy(&copy, &old));
    tr_tensor_share(tensor, &copy);
    tr_tensor_deinit(&copy);
    return TR_OK;
}

/* -- dynamic steps ----------------------------------------------------------------------------------------- */

static tr_status meta_of_input(tr_meta *out, const tr_frame *frame, int v)
{
    const tr_var      *var = frame->var[v];
    const tr_plan_var *pv = &frame->plan->var[v];
    const tr_var_kind  declared = pv->desc ? pv->desc->kind : TR_KIND_TENSOR;

    if (var->kind != TR_KIND_TENSOR || !tr__kind_is_tensor(declared)) {
        *out = pv->desc ? tr__meta_of_desc(pv->desc) : tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
        out->kind = var->kind != TR_KIND_TENSOR ? var->kind : declared;
        return TR_OK;
    }
    *out = tr_meta_dense(var->tensor.dtype, var->tensor.shape);
    out->lod_level = tr_tensor_lod_levels(&var->tensor);
    out->lod_source = v;
    if (var->tensor.dtype == TR_DTYPE_NONE)
        return tr_fail(TR_ENOTFOUND, pv->written_inside ? "variable '%s' has no value: the block that writes it did not run"
                                                        : "variable '%s' has no value yet", pv->name);
    if (var->tensor.shape.rank == 0)
        return tr_fail(TR_ESHAPE, "variable '%s' has no dimensions: one number is a tensor of shape [1]", pv->name);
    if (var->tensor.rows) {
        out->kind = TR_KIND_SELECTED_ROWS;
        out->height = var->tensor.rows->height;
    }
    return TR_OK;
}

static const tr_meta absent = {.kind = TR_KIND_NONE, .dtype = TR_DTYPE_NONE, .height = -1, .lod_source = -1};

/* *changed: they are not those that the outputs were inferred from. */
static tr_status fill_inputs(bool *changed, const tr_frame *frame, const tr_step *step)
{
    *changed = false;
    for (int a = 0; a < step->in_args; a++) {
        tr_meta now = absent, *before = &step->infer->meta[a];
        if (step->arg[a] >= 0)
            TR_TRY(meta_of_input(&now, frame, step->arg[a]));
        if (tr__meta_equal(&now, before))
            continue;
        *before = now;
        *changed = true;
    }
    return TR_OK;
}

static void fill_outputs(const tr_frame *frame, const tr_step *step)
{
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int          v = step->arg[a];
        const tr_var_desc *desc = v >= 0 ? frame->plan->var[v].desc : NULL;
        tr_meta           *meta = &step->infer->meta[a];
        *meta = v < 0 ? absent : desc ? tr__meta_of_desc(desc) : tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
        meta->lod_source = -1;
    }
}

/* Inference is a function of the inputs' metas: those of the last time give the outputs' of the last time. */
static tr_status infer_dynamic(const tr_frame *frame, const tr_step *step)
{
    bool changed;

    TR_TRY(fill_inputs(&changed, frame, step));
    if (!changed && step->infer->is_inferred)
        return TR_OK;
    step->infer->is_inferred = false;
    fill_outputs(frame, step);
    TR_TRY(tr__step_name_argument(tr__infer_frame_run(step->infer, step->op, step->attrs), frame->plan, step, step->infer));
    for (int a = 0; a < step->arg_count; a++)
        if (step->arg[a] >= 0)
            TR_TRY(tr__plan_var_check(&frame->plan->var[step->arg[a]], &step->infer->meta[a]));
    step->infer->is_inferred = true;
    return TR_OK;
}

static bool is_input_of(const tr_step *step, int v)
{
    for (int a = 0; a < step->in_args; a++)
        if (step->arg[a] == v)
            return true;
    return false;
}

/* See tensor.h: within the frame LoD is shared, what is outside gets a copy. */
static tr_status hand_on_lod(tr_frame *frame, int to, int from)
{
    tr_tensor       *tensor = &frame->var[to]->tensor;
    const tr_tensor *source = &frame->var[from]->tensor;

    if (frame->plan->var[to].home != TR_LOCAL)
        return tr__tensor_copy_lod(tensor, source);
    tr__tensor_share_lod(tensor, source);
    return TR_OK;
}

/* Sequences are of rows: they go with an output of as many. An output that gets its shape later has unknown rows. */
static bool has_rows_of(const tr_meta *meta, const tr_tensor *from)
{
    return meta->shape.rank > 0 && (meta->shape.dim[0] < 0 || meta->shape.dim[0] == from->shape.dim[0]);
}

static tr_status give_outputs(tr_frame *frame, const tr_step *step)
{
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int      v = step->arg[a];
        const tr_meta *meta = &step->infer->meta[a];
        if (v < 0 || !tr__kind_is_tensor(meta->kind))
            continue;
        tr_tensor *tensor = &frame->var[v]->tensor;
        if (meta->shape.rank > 0 && tr_shape_is_known(&meta->shape) && meta->dtype != TR_DTYPE_NONE)
            TR_TRY(for_var(own_output(tensor, meta, is_input_of(step, v), is_lent(frame, v)), frame, v));
        if (meta->lod_source >= 0 && meta->lod_source != v && has_rows_of(meta, &frame->var[meta->lod_source]->tensor))
            TR_TRY(hand_on_lod(frame, v, meta->lod_source));
    }
    return TR_OK;
}

static tr_status run_dynamic(tr_frame *frame, int i)
{
    tr_step *step = &frame->plan->step[i];

    if (!step->sub) {
        if (!step->infer) {
            if (!(step->infer = calloc(1, sizeof *step->infer)))
                return tr_fail(TR_ENOMEM, "%s: no memory to infer shapes", step->op->type);
            TR_TRY(tr__infer_frame_init(step->infer, step->op, step->count));
        }
        TR_TRY(infer_dynamic(frame, step));
        TR_TRY(give_outputs(frame, step));
    }
    return step->kernel(&frame->run[i]);
}

/* -- running ------------------------------------------------------------------------------------------------ */

static tr_status hand_on_lods(tr_frame *frame, const tr_step *step)
{
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v >= 0 && frame->layout->lod_from[v] >= 0)
            TR_TRY(hand_on_lod(frame, v, frame->layout->lod_from[v]));
    }
    return TR_OK;
}

static inline tr_status run_step(tr_frame *frame, int i)
{
    const tr_layout *layout = frame->layout;

    if (!layout || layout->dynamic[i])
        return run_dynamic(frame, i);
    if (layout->has_lod_copies[i])
        TR_TRY(hand_on_lods(frame, &frame->plan->step[i]));
    return frame->plan->step[i].kernel(&frame->run[i]);
}

static tr_status check_outputs(const tr_frame *frame, const tr_step *step)
{
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v >= 0)
            TR_TRY(tr_tensor_await(&frame->var[v]->tensor));
        if (v >= 0 && frame->var[v]->kind == TR_KIND_TENSOR && !tr__tensor_is_finite(&frame->var[v]->tensor))
            return tr_fail(TR_ENAN, "variable '%s' has a value that is not finite (NaN or infinity)",
                           frame->plan->var[v].name);
    }
    return TR_OK;
}

/* The loop with instruments: the profiler, the search for NaN. */
static tr_status run_step_watched(tr_frame *frame, int i)
{
    const tr_step *step = &frame->plan->step[i];
    const uint64_t start = tr_clock_ns();

    TR_TRY(run_step(frame, i));
    if (tr_profiler_is_on())
        tr_profiler_record(step->op->type, frame->plan->parent ? "sub-block" : "step", start, tr_clock_ns());
    if (frame->plan->workspace->looks && !step->op->only_copies)
        TR_TRY(check_outputs(frame, step));
    return TR_OK;
}

static void set_random_keys(tr_frame *frame)
{
    tr_plan       *plan = frame->plan;
    const uint64_t run = *plan->root->runs;

    for (int i = 0; i < plan->step_count; i++) {
        const tr_op *op = plan->step[i].op;
        if (!op->is_random)
            continue;
        const uint64_t turn = !op->is_varying ? 0 : plan->parent ? tr_hash_u64(run) + ++plan->activations : run;
        frame->run[i].random_key = tr_random_key((uint64_t)plan->program->random_seed, plan->step[i].random_seed, turn);
    }
}

/* Without this, what a block has written in the run before would seem to be of this run where the block does not run. */
static void clear_unset(tr_frame *frame)
{
    for (int i = 0; i < frame->plan->unset_count; i++) {
        tr_var *var = &frame->local[frame->plan->unset[i]];
        if (var->kind == TR_KIND_ARRAY)
            tr__var_array_clear(var);
        else if (var->kind == TR_KIND_TENSOR)
            tr__tensor_forget(&var->tensor);
    }
}

tr_status tr__frame_run(tr_frame *frame)
{
    const int  count = frame->plan->step_count;
    const bool watched = tr_profiler_is_on() || frame->plan->workspace->looks;
    const unsigned noted = tr__interrupt_noted();

    if (tr__is_interrupted_since(noted))               /* each iteration of a loop comes here, even one without steps */
        return tr__fail_interrupted("the run");
    if (frame->plan->is_random)
        set_random_keys(frame);
    clear_unset(frame);
    for (int i = 0; i < count; i++) {
        const tr_status status = watched ? run_step_watched(frame, i) : run_step(frame, i);
        if (__builtin_expect(status != TR_OK, 0))
            return tr_context(status, "while running %s", tr__step_text(frame->plan, &frame->plan->step[i]));
        if (tr__is_interrupted_since(noted))
            return tr_context(tr__fail_interrupted("the run"), "after %s", tr__step_text(frame->plan, &frame->plan->step[i]));
    }
    return TR_OK;
}
