/* plan_layout.c - shapes and memory of a root plan's temporaries, for one set of shapes of what it is given.
 *
 * Temporaries lie in an arena (plan_arena.h). An output that may take over an input's memory, and is computed by that
 * input's last reader, shares its offset instead. */
#include "framework/plans/plan_layout.h"

#include <stdlib.h>

#include "framework/base/size.h"
#include "framework/operators/infer.h"
#include "framework/plans/plan_arena.h"

void tr__layout_free(tr_layout *layout)
{
    if (!layout)
        return;
    free(layout->given);
    free(layout->meta);
    free(layout->offset);
    free(layout->shares);
    free(layout->dynamic);
    free(layout->lod_from);
    free(layout->has_lod_copies);
    free(layout->may_have_lod);
    free(layout->foreseen);
    free(layout);
}

static tr_layout *layout_alloc(int vars, int steps)
{
    tr_layout *layout = calloc(1, sizeof *layout);
    if (!layout)
        return NULL;
    layout->given = calloc((size_t)vars + 1, sizeof *layout->given);
    layout->meta = calloc((size_t)vars + 1, sizeof *layout->meta);
    layout->offset = malloc(((size_t)vars + 1) * sizeof *layout->offset);
    layout->shares = malloc(((size_t)vars + 1) * sizeof *layout->shares);
    layout->lod_from = malloc(((size_t)vars + 1) * sizeof *layout->lod_from);
    layout->dynamic = calloc((size_t)steps + 1, sizeof *layout->dynamic);
    layout->has_lod_copies = calloc((size_t)steps + 1, sizeof *layout->has_lod_copies);
    layout->may_have_lod = calloc((size_t)vars + 1, sizeof *layout->may_have_lod);
    layout->foreseen = calloc((size_t)vars + 1, sizeof *layout->foreseen);
    if (!layout->given || !layout->meta || !layout->offset || !layout->shares || !layout->dynamic || !layout->lod_from ||
        !layout->has_lod_copies || !layout->may_have_lod || !layout->foreseen) {
        tr__layout_free(layout);
        return NULL;
    }
    return layout;
}

/* -- what is known before the run ------------------------------------------------------------------- */

static tr_meta unknown_meta(int var)
{
    tr_meta meta = tr_meta_dense(TR_DTYPE_NONE, (tr_shape){.rank = 0});
    meta.lod_source = var;
    return meta;
}

/* Of an array never: its elements differ, and come and go. */
static bool is_known(const tr_meta *meta)
{
    return meta->kind != TR_KIND_ARRAY && meta->shape.rank > 0 && tr_shape_is_known(&meta->shape) &&
           meta->dtype != TR_DTYPE_NONE;
}

/* An input that has no shape to be waited for: an object from outside, such as a sparse table, on which no shape depends. */
static bool says_enough(const tr_meta *meta)
{
    return is_known(meta) || meta->kind == TR_KIND_RAW;
}

static tr_meta meta_of_tensor(const tr_var *var, int number)
{
    tr_meta meta = unknown_meta(number);
    const tr_tensor *tensor = &var->tensor;

    if (var->kind == TR_KIND_RAW)
        meta.kind = TR_KIND_RAW;
    if (var->kind != TR_KIND_TENSOR || tensor->dtype == TR_DTYPE_NONE)
        return meta;
    meta.dtype = tensor->dtype;
    meta.shape = tensor->shape;
    meta.lod_level = tr_tensor_lod_levels(tensor);
    if (tensor->rows) {
        meta.kind = TR_KIND_SELECTED_ROWS;
        meta.height = tensor->rows->height;
    }
    return meta;
}

static bool given_from_outside(const tr_plan_var *var)
{
    return var->home == TR_FED || (var->home == TR_SCOPE && var->read);
}

bool tr__layout_fits(const tr_layout *layout, const tr_plan *plan, tr_var *const *vars)
{
    for (int i = 0; i < plan->outside_count; i++) {
        const int v = plan->outside[i];
        if (!given_from_outside(&plan->var[v]))
            continue;
        const tr_meta   *meta = &layout->given[v];
        const tr_tensor *tensor = &vars[v]->tensor;
        if (tensor->dtype != meta->dtype && vars[v]->kind == TR_KIND_TENSOR && meta->dtype != TR_DTYPE_NONE)
            return false;
        if (meta->shape.rank > 0 && (!tr_shape_equal(&tensor->shape, &meta->shape) ||
                                     tr_tensor_lod_levels(tensor) != meta->lod_level))
            return false;
    }
    return true;
}

/* -- inference ----------------------------------------------------------------------------------------- */

/* The state of a variable after the steps so far. */
enum { WAS_READ = 1, WAS_WRITTEN = 2 };

/* Variables of the scope get the memory for their one shape before the first step. */
typedef struct inference {
    tr_layout     *layout;
    const tr_plan *plan;
    uint8_t       *use;               /* per variable: by the steps before */
    bool          *unsettled;         /* written with several shapes, or with an unknown one: by dynamic steps alone */
    bool           again;             /* a variable was found to be unsettled after a step that took it for settled */
} inference;

static void unsettle(inference *f, int v)
{
    f->again = f->again || ((f->use[v] & WAS_WRITTEN) && !f->unsettled[v]);
    f->unsettled[v] = true;
}

static void mark_dynamic(inference *f, const tr_step *step, int index)
{
    f->layout->dynamic[index] = true;
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v < 0)
            continue;
        f->layout->meta[v] = unknown_meta(v);
        if (f->plan->var[v].home == TR_SCOPE)
            unsettle(f, v);
    }
}

/* Has a step before this one used the variable with another shape or type? */
static bool changes_shape(const inference *f, int v, const tr_meta *made)
{
    const tr_meta *now = &f->layout->meta[v];

    return f->plan->var[v].home == TR_SCOPE && f->use[v] && now->shape.rank > 0 &&
           (now->dtype != made->dtype || !tr_shape_equal(&now->shape, &made->shape));
}

/* Outputs take the LoD of the input that infer names, if that one has any. */
static void plan_lod(tr_layout *layout, const tr_step *step, int index, const tr_meta *out, int var)
{
    const int source = out->lod_source;

    layout->lod_from[var] = -1;
    if (source < 0 || source == var || layout->meta[source].shape.dim[0] != out->shape.dim[0] ||
        (layout->meta[source].lod_level == 0 && layout->lod_from[source] < 0))
        return;
    layout->lod_from[var] = source;
    layout->has_lod_copies[index] = true;
    (void)step;
}

/* Can this step be inferred before the run? */
static bool is_static(const inference *f, const tr_step *step)
{
    if (step->sub)
        return false;
    for (int a = 0; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v >= 0 && (f->layout->foreseen[v] || (a < step->in_args ? !says_enough(&f->layout->meta[v])
                                                                    : f->plan->var[v].written_inside || f->unsettled[v])))
            return false;
    }
    return true;
}

/* Is what the program says of the inputs that are not known enough to try? */
static bool may_be_foreseen(const inference *f, const tr_step *step)
{
    for (int a = 0; a < step->in_args; a++)
        if (step->arg[a] >= 0 && !says_enough(&f->layout->meta[step->arg[a]]) && !f->plan->var[step->arg[a]].desc)
            return false;
    return !step->sub;
}

/* The shape of an output may follow from the inputs that are known, as a gradient's does from its variable. So it has its place in the arena, and may
 * have an input's. The run infers it again: if it is another then, the output owns its memory. */
static void foresee(inference *f, const tr_step *step, const tr_meta *made)
{
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v < 0 || f->plan->var[v].home != TR_LOCAL || f->plan->var[v].written_inside || (f->use[v] & WAS_WRITTEN) ||
            made[a].kind != TR_KIND_TENSOR || !is_known(&made[a]))
            continue;
        f->layout->meta[v] = made[a];
        f->layout->meta[v].lod_source = v;
        f->layout->foreseen[v] = true;
    }
}

static void fill_frame(tr_infer_frame *frame, const inference *f, const tr_step *step)
{
    for (int a = 0; a < step->arg_count; a++) {
        const int v = step->arg[a];
        frame->meta[a] = v < 0 ? (tr_meta){.kind = TR_KIND_NONE, .dtype = TR_DTYPE_NONE, .height = -1, .lod_source = -1}
                       : a < step->in_args && says_enough(&f->layout->meta[v]) ? f->layout->meta[v]
                       : f->plan->var[v].desc ? tr__meta_of_desc(f->plan->var[v].desc) : unknown_meta(v);
        if (v >= 0)
            frame->meta[a].lod_source = v;
    }
}

/* Lay the outputs out as inference has found them, unless another step gives them another type or shape. */
static tr_status take_outputs(inference *f, const tr_step *step, int index, const tr_meta *made)
{
    bool settled = true;

    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v < 0)
            continue;
        TR_TRY(tr__plan_var_check(&f->plan->var[v], &made[a]));
        settled = settled && is_known(&made[a]) && !changes_shape(f, v, &made[a]);
    }
    if (!settled) {
        mark_dynamic(f, step, index);
        return TR_OK;
    }
    for (int a = step->in_args; a < step->arg_count; a++) {
        const int v = step->arg[a];
        if (v < 0)
            continue;
        plan_lod(f->layout, step, index, &made[a], v);
        f->layout->meta[v] = made[a];
        f->layout->meta[v].lod_source = v;
    }
    return TR_OK;
}

static tr_status infer_step(inference *f, int index)
{
    const tr_step *step = &f->plan->step[index];
    const bool     is_certain = is_static(f, step);
    tr_infer_frame frame;
    tr_status      status;

    if (!is_certain)
        mark_dynamic(f, step, index);
    if (!is_certain && !may_be_foreseen(f, step))
        return TR_OK;
    TR_TRY(tr__infer_frame_init(&frame, step->op, step->count));
    fill_frame(&frame, f, step);
    status = tr__step_name_argument(tr__infer_frame_run(&frame, step->op, step->attrs), f->plan, step, &frame);
    if (status == TR_OK && is_certain)
        status = take_outputs(f, step, index, frame.meta);
    else if (status == TR_OK)
        foresee(f, step, frame.meta);
    tr__infer_frame_deinit(&frame);
    return status == TR_OK || !is_certain ? TR_OK : tr_context(status, "while laying out %s", tr__step_text(f->plan, step));
}

static tr_status check_initialised(const tr_plan *plan, int v, const tr_var *var, const uint8_t *use)
{
    const tr_plan_var *pv = &plan->var[v];

    if (pv->home != TR_SCOPE || (use[v] & WAS_WRITTEN) || var->kind != TR_KIND_TENSOR || var->tensor.dtype != TR_DTYPE_NONE ||
        (pv->desc && pv->desc->kind != TR_KIND_TENSOR && pv->desc->kind != TR_KIND_SELECTED_ROWS))
        return TR_OK;
    return tr_fail(TR_ENOTFOUND, "variable '%s' has no value yet: run the startup program (or load it) first", pv->name);
}

static tr_status check_inputs(const inference *f, const tr_step *step, tr_var *const *vars)
{
    for (int a = 0; a < step->in_args; a++)
        if (step->arg[a] >= 0) {
            const tr_status status = check_initialised(f->plan, step->arg[a], vars[step->arg[a]], f->use);
            if (status != TR_OK)
                return tr_context(status, "wanted by %s", tr__step_text(f->plan, step));
            f->use[step->arg[a]] |= WAS_READ;
        }
    return TR_OK;
}

static tr_status infer_pass(inference *f, tr_var *const *vars)
{
    tr_layout     *layout = f->layout;
    const tr_plan *plan = f->plan;

    f->again = false;
    for (int v = 0; v < plan->var_count; v++) {
        f->use[v] = 0;
        layout->lod_from[v] = -1;
        layout->foreseen[v] = false;
        layout->meta[v] = layout->given[v] = given_from_outside(&plan->var[v]) && !plan->var[v].written_inside
                                           ? meta_of_tensor(vars[v], v) : unknown_meta(v);
        TR_TRY(tr__plan_var_check(&plan->var[v], &layout->given[v]));
    }
    for (int i = 0; i < plan->step_count; i++) {
        const tr_step *step = &plan->step[i];
        layout->dynamic[i] = layout->has_lod_copies[i] = false;
        TR_TRY(check_inputs(f, step, vars));
        TR_TRY(infer_step(f, i));
        for (int a = step->in_args; a < step->arg_count; a++)
            if (step->arg[a] >= 0)
                f->use[step->arg[a]] |= WAS_WRITTEN;
    }
    for (int i = 0; i < plan->fetch_count; i++)
        TR_TRY(check_initialised(plan, plan->fetch_var[i], vars[plan->fetch_var[i]], f->use));
    return TR_OK;
}

static tr_status infer_all(tr_layout *layout, const tr_plan *plan, tr_var *const *vars)
{
    const size_t size = (size_t)plan->var_count + 1;
    inference    f = {.layout = layout, .plan = plan};
    tr_status    status;

    f.use = calloc(size, sizeof *f.use);
    f.unsettled = calloc(size, sizeof *f.unsettled);
    if (!f.use || !f.unsettled)
        status = tr_fail(TR_ENOMEM, "no memory for a layout");
    else
        do                                         /* each pass but the last unsettles one more variable */
            status = infer_pass(&f, vars);
        while (status == TR_OK && f.again);
    free(f.use);
    free(f.unsettled);
    return status;
}

/* -- memory ----------------------------------------------------------------------------------------------- */

enum { ALIGNMENT = 64 };

/* Inference has checked (op_check.c) that one tensor's bytes can be counted; those of all are summed with size.h. */
static int64_t exact_bytes(const tr_meta *meta)
{
    return tr_size_mul(tr_shape_numel(&meta->shape), tr_dtype_size(meta->dtype));
}

static int64_t bytes_of(const tr_meta *meta)
{
    return tr_size_add(exact_bytes(meta), ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* Does the arena hold it? */
static bool is_placed(const tr_layout *layout, const tr_plan *plan, int v, const bool *made_dynamically)
{
    const tr_plan_var *var = &plan->var[v];
    return var->home == TR_LOCAL && !var->captured && !var->fetched && !made_dynamically[v] && is_known(&layout->meta[v]);
}

static void find_spans(tr_span *spans, const tr_plan *plan)
{
    for (int v = 0; v < plan->var_count; v++)
        spans[v] = (tr_span){.var = v, .from = -1, .to = -1};
    for (int i = 0; i < plan->step_count; i++) {
        const tr_step *step = &plan->step[i];
        for (int a = 0; a < step->arg_count; a++) {
            const int v = step->arg[a];
            if (v < 0)
                continue;
            if (a < step->in_args && !tr__step_reads_data(step, a))
                continue;
            if (spans[v].from < 0)
                spans[v].from = i;
            spans[v].to = i;
        }
    }
}

static int first_arg_of_slot(const tr_step *step, int slot)
{
    int a = 0;
    for (int s = 0; s < slot; s++)
        a += step->count[s];
    return a;
}

static int times_read(const tr_step *step, int var)
{
    int n = 0;
    for (int a = 0; a < step->in_args; a++)
        n += step->arg[a] == var && tr__step_reads_data(step, a);
    return n;
}

/* Let the outputs of step `i` take over the memory of inputs that nobody needs any more. `root[v]` is whose
 * memory v lies in; the span of that one grows. */
static void share_in_place(tr_layout *layout, const tr_plan *plan, int i, tr_span *spans, const int64_t *placed_bytes)
{
    const tr_step *step = &plan->step[i];

    for (int k = 0; k < step->op->inplace_count; k++) {
        const int in_slot = step->op->inplace[k].in, out_slot = step->in_slots + step->op->inplace[k].out;
        if (step->count[in_slot] != 1 || step->count[out_slot] != 1)
            continue;
        const int in = step->arg[first_arg_of_slot(step, in_slot)];
        const int out = step->arg[first_arg_of_slot(step, out_slot)];
        if (in < 0 || out < 0 || in == out || placed_bytes[in] == 0 || placed_bytes[out] == 0 ||
            exact_bytes(&layout->meta[in]) != exact_bytes(&layout->meta[out]) || layout->shares[out] >= 0 ||
            times_read(step, in) != 1)
            continue;
        const int root = layout->shares[in] >= 0 ? layout->shares[in] : in;
        if (spans[in].to != i || spans[root].to != i)
            continue;
        layout->shares[out] = root;
        spans[root].to = spans[out].to > spans[root].to ? spans[out].to : spans[root].to;
    }
}

static void mark_made_dynamically(bool *made, const tr_layout *layout, const tr_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++)
        for (int a = plan->step[i].in_args; layout->dynamic[i] && a < plan->step[i].arg_count; a++)
            if (plan->step[i].arg[a] >= 0 && !layout->foreseen[plan->step[i].arg[a]])
                made[plan->step[i].arg[a]] = true;
}

static tr_status assign_memory(tr_layout *layout, const tr_plan *plan)
{
    const size_t vars = (size_t)plan->var_count + 1;
    tr_status    status = TR_OK;
    tr_span     *spans = malloc(vars * sizeof *spans);
    int64_t     *bytes = calloc(vars, sizeof *bytes);
    bool        *made = calloc(vars, sizeof *made);
    int          count = 0;
    tr_arena_size size;

    if (!spans || !bytes || !made) {
        status = tr_fail(TR_ENOMEM, "no memory for a layout of %d variables", plan->var_count);
        goto done;
    }
    mark_made_dynamically(made, layout, plan);
    find_spans(spans, plan);
    for (int v = 0; v < plan->var_count; v++) {
        layout->offset[v] = layout->shares[v] = -1;
        if (spans[v].from >= 0 && is_placed(layout, plan, v, made))
            spans[v].bytes = bytes[v] = bytes_of(&layout->meta[v]);
    }
    for (int i = 0; i < plan->step_count; i++)
        share_in_place(layout, plan, i, spans, bytes);
    for (int v = 0; v < plan->var_count; v++)
        if (bytes[v] > 0 && layout->shares[v] < 0)
            spans[count++] = spans[v];
    TR_TRY_GOTO(done, tr__arena_place(&size, spans, count));
    layout->arena_bytes = size.bytes;
    for (int n = 0; n < count; n++)
        layout->offset[spans[n].var] = spans[n].offset;
    for (int v = 0; v < plan->var_count; v++)
        if (layout->shares[v] >= 0)
            layout->offset[v] = layout->offset[layout->shares[v]];
        else if (is_placed(layout, plan, v, made) && bytes[v] == 0)
            layout->offset[v] = 0;            /* empty, or only its shape is ever used */
done:
    free(spans);
    free(bytes);
    free(made);
    return status;
}

static void mark_lod_vars(tr_layout *layout, const tr_plan *plan)
{
    for (int i = 0; i < plan->step_count; i++)
        for (int a = plan->step[i].in_args; a < plan->step[i].arg_count; a++) {
            const int v = plan->step[i].arg[a];
            if (v >= 0 && plan->var[v].home == TR_LOCAL &&
                (layout->dynamic[i] || layout->lod_from[v] >= 0 || layout->meta[v].lod_level > 0))
                layout->may_have_lod[v] = layout->has_lods = true;
        }
}

tr_status tr__layout_new(tr_layout **out, const tr_plan *plan, tr_var *const *vars)
{
    tr_layout *layout = layout_alloc(plan->var_count, plan->step_count);
    tr_status  status;

    if (!layout)
        return tr_fail(TR_ENOMEM, "no memory for a layout of %d variables", plan->var_count);
    TR_TRY_GOTO(fail, infer_all(layout, plan, vars));
    TR_TRY_GOTO(fail, assign_memory(layout, plan));
    mark_lod_vars(layout, plan);
    *out = layout;
    return TR_OK;
fail:
    tr__layout_free(layout);
    return status;
}
