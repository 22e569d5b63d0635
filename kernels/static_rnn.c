/* static_rnn.c - the operator `recurrent`: a block for each step along dimension 0 of its inputs (StaticRNN).
 *
 * The block has variables of its own under the names of `inputs` (slice t of each), of ex_states (the state that the
 * step before left, at first initial_states) and of `outputs` (slice t of each). A step runs in a frame; frames are
 * kept when a gradient will be asked for, otherwise one serves all steps. Slices are not copied: they point into the
 * input. Names are turned into numbers at the first run.
 *
 * Backward: the gradient block runs once for each kept frame, last first. It finds the gradients of output slices and
 * of states in variables of its own, leaves those of input slices and ex_states in others (attributes of the gradient
 * operator name them), and adds to those of `parameters` where they are. An ex_state's gradient is the state's of the
 * step before. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "framework/backward.h"
#include "framework/frame.h"
#include "kernels/step_frames.h"
#include "kernels/tensor_array.h"

static const char empty_name[] = "@EMPTY@";

/* -- interface ------------------------------------------------------------------------------------ */

typedef struct recurrent_attrs {
    bool       has_states, reverse, is_train;
    int32_t    sub_block;
    tr_strings ex_states, states;
} recurrent_attrs;

enum { INPUTS, INITIAL, PARAMETERS };
enum { OUTPUTS, SCOPES };

static const tr_op_proto proto = {
    .doc = "Runs sub_block for each step along dimension 0 of the inputs; states go from step to step.",
    .in = TR_SLOTS({"inputs", "[steps, ...]; the block sees one step under the same name", TR_SLOT_REPEATED},
                   {"initial_states", "the states before the first step", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                   {"parameters", "variables of outer blocks that the block reads", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"outputs", "[steps, ...]; the block has one step under the same name", TR_SLOT_REPEATED},
                    {"step_scopes", "what the backward pass needs of each step", TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(
        TR_ATTR(recurrent_attrs, has_states, BOOL, "there are states"),
        TR_ATTR(recurrent_attrs, ex_states, STRINGS, "the block's names for the states before a step", .required = true),
        TR_ATTR(recurrent_attrs, states, STRINGS, "its names for the states after it", .required = true),
        TR_ATTR(recurrent_attrs, sub_block, BLOCK, "the block to run", .required = true),
        TR_ATTR(recurrent_attrs, reverse, BOOL, "from the last step to the first"),
        TR_ATTR(recurrent_attrs, is_train, BOOL, "keep what a backward pass needs", .number = 1)),
    .attrs_size = sizeof(recurrent_attrs),
};

typedef struct grad_attrs {
    bool       reverse;
    int32_t    sub_block;
    tr_strings inputs, states, input_grads, ex_state_grads, output_grads, state_grads;
} grad_attrs;

enum { G_INPUTS, G_INITIAL, G_PARAMETERS, G_DOUTPUTS, G_SCOPES };
enum { G_DINPUTS, G_DINITIAL, G_DPARAMETERS };

static const tr_op_proto grad_proto = {
    .doc = "Runs a gradient block for each kept step of a recurrent, last first.",
    .in = TR_SLOTS({"inputs", "as forward", TR_SLOT_REPEATED},
                   {"initial_states", "as forward", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                   {"parameters", "as forward", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                   {"outputs@GRAD", "or @EMPTY@", TR_SLOT_REPEATED}, {"step_scopes", "the kept steps"}),
    .out = TR_SLOTS({"inputs@GRAD", "or @EMPTY@", TR_SLOT_REPEATED},
                    {"initial_states@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                    {"parameters@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(
        TR_ATTR(grad_attrs, reverse, BOOL, "forward, the last step ran first"),
        TR_ATTR(grad_attrs, sub_block, BLOCK, "the gradient block", .required = true),
        TR_ATTR(grad_attrs, inputs, STRINGS, "the forward block's names of the slices of inputs", .required = true),
        TR_ATTR(grad_attrs, states, STRINGS, "its names of the states after a step", .required = true),
        TR_ATTR(grad_attrs, input_grads, STRINGS, "where the block leaves the slices of inputs@GRAD, or @EMPTY@"),
        TR_ATTR(grad_attrs, ex_state_grads, STRINGS, "where it leaves the gradients of states before the step"),
        TR_ATTR(grad_attrs, output_grads, STRINGS, "where it finds the slices of outputs@GRAD"),
        TR_ATTR(grad_attrs, state_grads, STRINGS, "where it finds the gradients of states after the step")),
    .attrs_size = sizeof(grad_attrs),
};

/* -- shapes --------------------------------------------------------------------------------------- */

/* Outputs are what the program says of them. */
static tr_status infer(const tr_infer *io)
{
    const recurrent_attrs *attrs = io->attrs;
    const tr_meta_list    *inputs = &io->ins[INPUTS];
    int64_t                steps = -1;

    for (int i = 0; i < inputs->count; i++) {
        const tr_shape *shape = &inputs->item[i].shape;
        const int64_t   mine = shape->rank > 0 ? shape->dim[0] : -1;
        if (steps >= 0 && mine >= 0 && mine != steps)
            return tr_fail(TR_ESHAPE, "recurrent: the inputs must have as many steps each; inputs[%d] is %s, but another "
                           "one has %" PRId64, i, TR_SHAPE_STR(*shape), steps);
        steps = mine >= 0 ? mine : steps;
    }
    if (attrs->ex_states.count != io->ins[INITIAL].count || attrs->states.count != io->ins[INITIAL].count)
        return tr_fail(TR_EINVAL, "recurrent: %d initial_states, %d ex_states and %d states; they must be as many",
                       io->ins[INITIAL].count, attrs->ex_states.count, attrs->states.count);
    if (io->outs[SCOPES].count > 0)
        io->out[SCOPES].kind = TR_KIND_STEP_SCOPES;
    return TR_OK;
}

static tr_status infer_grad(const tr_infer *io)
{
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < io->outs[s].count; i++)
            if (io->outs[s].item[i].kind != TR_KIND_NONE)
                io->outs[s].item[i] = io->ins[s].item[i];
    return TR_OK;
}

/* -- slices --------------------------------------------------------------------------------------- */

static tr_shape slice_shape(const tr_tensor *x)
{
    tr_shape shape = {.rank = x->shape.rank - 1};

    for (int d = 0; d < shape.rank; d++)
        shape.dim[d] = x->shape.dim[d + 1];
    if (shape.rank == 0)
        shape = TR_SHAPE(1);          /* a step of [steps] is one number */
    return shape;
}

static char *slice_data(const tr_tensor *x, int64_t step)
{
    return (char *)x->data + (x->shape.dim[0] > 0 ? step * (tr_tensor_bytes(x) / x->shape.dim[0]) : 0);
}

static void point_at_slice(tr_tensor *slice, const tr_tensor *x, int64_t step)
{
    const tr_shape shape = slice_shape(x);
    tr__tensor_point(slice, x->dtype, &shape, slice_data(x, step));
}

/* The variable of number `v`; NULL for -1. */
static tr_tensor *var_of(const tr_frame *frame, int v)
{
    return v >= 0 ? &frame->var[v]->tensor : NULL;
}

static void point_inputs(tr_frame *frame, const tr_args *inputs, const int *numbers, int64_t step)
{
    for (int i = 0; i < inputs->count; i++)
        if (numbers[i] >= 0)
            point_at_slice(var_of(frame, numbers[i]), inputs->item[i], step);
}

/* -- forward -------------------------------------------------------------------------------------- */

/* Numbers of the block's variables: inputs, ex_states, states, outputs, one after the other. */
static tr_status find_numbers(int **out, const tr_run *io)
{
    const recurrent_attrs *attrs = io->attrs;
    const tr_plan         *sub = io->step->sub;
    const int inputs = io->ins[INPUTS].count, states = attrs->states.count, outputs = io->outs[OUTPUTS].count;
    bool      is_new;

    TR_TRY(tr_run_notes((void **)out, &is_new, io, (size_t)(inputs + 2 * states + outputs) * sizeof(int)));
    if (!is_new)
        return TR_OK;
    int *number = *out;
    for (int i = 0; i < inputs; i++)
        *number++ = tr_plan_var_at_begin(sub, tr_run_in_name(io, INPUTS, i));
    for (int i = 0; i < states; i++)
        *number++ = tr_plan_var_at_begin(sub, attrs->ex_states.item[i]);
    for (int i = 0; i < states; i++)
        *number++ = tr_plan_var_at_end(sub, attrs->states.item[i]);
    for (int i = 0; i < outputs; i++)
        *number++ = tr_plan_var_at_end(sub, tr_run_out_name(io, OUTPUTS, i));
    return TR_OK;
}

static tr_status count_steps(int64_t *out, const tr_run *io)
{
    const tr_args *inputs = &io->ins[INPUTS];

    for (int i = 0; i < inputs->count; i++) {
        const tr_shape *shape = &inputs->item[i]->shape;
        if (shape->rank == 0)
            return tr_fail(TR_ESHAPE, "input '%s' has no dimension to step along", tr_run_in_name(io, INPUTS, i));
        if (i > 0 && shape->dim[0] != *out)
            return tr_fail(TR_ESHAPE, "input '%s' is %s, but '%s' has %" PRId64 " steps", tr_run_in_name(io, INPUTS, i),
                           TR_SHAPE_STR(*shape), tr_run_in_name(io, INPUTS, 0), *out);
        *out = shape->dim[0];
    }
    return TR_OK;
}

/* ex_states before a step: what the step before left, or initial_states. */
static tr_status hand_states(tr_frame *frame, const tr_frame *before, const tr_run *io, const int *ex, const int *state)
{
    for (int i = 0; i < io->ins[INITIAL].count; i++) {
        if (ex[i] < 0)
            continue;
        if (before && state[i] < 0)
            return tr_fail(TR_ENOTFOUND, "the step block computes no state '%s'",
                           ((const recurrent_attrs *)io->attrs)->states.item[i]);
        TR_TRY(tr_tensor_copy(var_of(frame, ex[i]), before ? var_of(before, state[i]) : io->ins[INITIAL].item[i]));
    }
    return TR_OK;
}

static tr_status store_output(const tr_run *io, int i, const tr_tensor *value, int64_t step, int64_t steps, bool first)
{
    tr_tensor *out = io->outs[OUTPUTS].item[i];
    tr_shape   shape = {.rank = value->shape.rank + 1};

    if (shape.rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "output '%s' would have rank %d", tr_run_out_name(io, OUTPUTS, i), shape.rank);
    shape.dim[0] = steps;
    for (int d = 1; d < shape.rank; d++)
        shape.dim[d] = value->shape.dim[d - 1];
    if (first)
        TR_TRY(tr_run_resize(io, OUTPUTS, i, value->dtype, &shape));
    if (out->dtype != value->dtype || !tr_shape_equal(&out->shape, &shape))
        return tr_fail(TR_ESHAPE, "output '%s' is %s at step %" PRId64 ", but the steps before make it %s",
                       tr_run_out_name(io, OUTPUTS, i), TR_SHAPE_STR(value->shape), step, TR_SHAPE_STR(out->shape));
    if (tr_tensor_count(value) > 0)
        memcpy(slice_data(out, step), value->data, (size_t)tr_tensor_bytes(value));
    return TR_OK;
}

static tr_status store_outputs(const tr_run *io, const tr_frame *frame, const int *number, int64_t step, int64_t steps,
                               bool first)
{
    for (int i = 0; i < io->outs[OUTPUTS].count; i++) {
        if (number[i] < 0)
            return tr_fail(TR_ENOTFOUND, "the step block computes no output '%s'", tr_run_out_name(io, OUTPUTS, i));
        TR_TRY(store_output(io, i, var_of(frame, number[i]), step, steps, first));
    }
    return TR_OK;
}

/* Without a step, outputs are what the program says of them, with no step. */
static tr_status empty_outputs(const tr_run *io)
{
    for (int i = 0; i < io->outs[OUTPUTS].count; i++) {
        const tr_var_desc *desc = tr_block_find_var_recursive(io->frame->plan->block, tr_run_out_name(io, OUTPUTS, i));
        tr_shape shape = desc && desc->shape.rank > 0 ? desc->shape : TR_SHAPE(0);
        shape.dim[0] = 0;
        for (int d = 1; d < shape.rank; d++)
            shape.dim[d] = shape.dim[d] < 0 ? 0 : shape.dim[d];
        TR_TRY(tr_run_resize(io, OUTPUTS, i, desc && desc->dtype != TR_DTYPE_NONE ? desc->dtype : TR_FP32, &shape));
    }
    return TR_OK;
}

typedef struct loop {
    const int      *inputs, *ex, *states, *outputs;    /* numbers of variables */
    int64_t         steps;
    tr_step_frames *kept;                              /* NULL: one frame serves all steps */
} loop;

static tr_status run_one(const tr_run *io, const loop *l, tr_frame *frame, const tr_frame *before, int64_t n)
{
    const int64_t step = ((const recurrent_attrs *)io->attrs)->reverse ? l->steps - 1 - n : n;

    point_inputs(frame, &io->ins[INPUTS], l->inputs, step);
    TR_TRY(hand_states(frame, before, io, l->ex, l->states));
    TR_TRY(tr_frame_run(frame));
    return store_outputs(io, frame, l->outputs, step, l->steps, n == 0);
}

static tr_status run_steps(const tr_run *io, const loop *l)
{
    tr_frame *frame = NULL, *before = NULL;
    tr_status status = TR_OK;

    for (int64_t n = 0; n < l->steps; n++, before = frame) {
        if (!frame || l->kept)
            TR_TRY(tr_frame_open(&frame, io, io->frame));
        status = run_one(io, l, frame, before, n);
        if (status == TR_OK && l->kept)
            status = tr__step_frames_push(l->kept, frame);
        if (status != TR_OK)
            break;
    }
    if (frame && (!l->kept || status != TR_OK))
        tr_frame_close(frame);
    return status;
}

static tr_status run(const tr_run *io)
{
    const recurrent_attrs *attrs = io->attrs;
    loop                   l = {.steps = 0};
    int                   *number;

    TR_TRY(find_numbers(&number, io));
    l.inputs = number;
    l.ex = l.inputs + io->ins[INPUTS].count;
    l.states = l.ex + attrs->states.count;
    l.outputs = l.states + attrs->states.count;
    TR_TRY(count_steps(&l.steps, io));
    TR_TRY(tr__step_frames_start(&l.kept, io->out[SCOPES], attrs->is_train && tr__is_read_later(io, SCOPES)));
    return l.steps > 0 ? run_steps(io, &l) : empty_outputs(io);
}

/* -- backward ------------------------------------------------------------------------------------- */

typedef struct grad_numbers {
    const int *inputs, *states;                        /* in the forward block */
    const int *dinputs, *dex, *doutputs, *dstates;     /* in the gradient block */
} grad_numbers;

static int *number_all(int *number, const tr_plan *plan, const tr_strings *names, bool at_begin)
{
    for (int i = 0; i < names->count; i++)
        *number++ = at_begin ? tr_plan_var_at_begin(plan, names->item[i]) : tr_plan_var_at_end(plan, names->item[i]);
    return number;
}

static tr_status find_grad_numbers(grad_numbers *out, const tr_run *io)
{
    const grad_attrs *a = io->attrs;
    const tr_plan    *sub = io->step->sub;
    const int         inputs = a->inputs.count, states = a->states.count, outputs = a->output_grads.count;
    bool              is_new;
    int              *number;

    TR_TRY(tr_run_notes((void **)&number, &is_new, io, (size_t)(2 * inputs + 3 * states + outputs) * sizeof *number));
    out->inputs = number;
    out->states = out->inputs + inputs;
    out->dinputs = out->states + states;
    out->dex = out->dinputs + inputs;
    out->doutputs = out->dex + states;
    out->dstates = out->doutputs + outputs;
    if (!is_new)
        return TR_OK;
    number = number_all(number, sub->parent, &a->inputs, true);
    number = number_all(number, sub->parent, &a->states, false);
    number = number_all(number, sub, &a->input_grads, false);
    number = number_all(number, sub, &a->ex_state_grads, false);
    number = number_all(number, sub, &a->output_grads, true);
    number_all(number, sub, &a->state_grads, true);
    return TR_OK;
}

static tr_status start_gradients(const tr_run *io)
{
    for (int s = G_DINPUTS; s <= G_DPARAMETERS; s++)
        for (int i = 0; i < io->outs[s].count; i++)
            if (io->outs[s].item[i])
                TR_TRY(tr__start_gradient(io->outs[s].item[i], NULL, io->ins[s].item[i]));
    return TR_OK;
}

/* What the gradient block finds: gradients of the slices of outputs, and of the states, which are those of ex_states
 * in the step behind. */
static tr_status seed(tr_frame *frame, const tr_frame *behind, const tr_frame *forward, const tr_run *io,
                      const grad_numbers *n, int64_t step)
{
    const tr_args *douts = &io->ins[G_DOUTPUTS];

    for (int i = 0; i < douts->count; i++)
        if (douts->item[i] && n->doutputs[i] >= 0)
            point_at_slice(var_of(frame, n->doutputs[i]), douts->item[i], step);
    for (int i = 0; i < io->ins[G_INITIAL].count; i++) {
        if (n->dstates[i] < 0)
            continue;
        tr_tensor *from = behind ? var_of(behind, n->dex[i]) : NULL;
        TR_TRY(from ? tr_tensor_copy(var_of(frame, n->dstates[i]), from)
                    : tr__zeros_like(var_of(frame, n->dstates[i]), var_of(forward, n->states[i])));
    }
    return TR_OK;
}

static tr_status collect_inputs(const tr_frame *frame, const tr_run *io, const grad_numbers *n, int64_t step)
{
    const tr_args *dx = &io->outs[G_DINPUTS];

    for (int i = 0; i < dx->count; i++) {
        const tr_tensor *slice = dx->item[i] ? var_of(frame, n->dinputs[i]) : NULL;
        if (!slice)
            continue;
        if (slice->dtype != dx->item[i]->dtype || tr_tensor_bytes(slice) * dx->item[i]->shape.dim[0] !=
                                                      tr_tensor_bytes(dx->item[i]))
            return tr_fail(TR_ESHAPE, "the gradient of a step of '%s' is %s", tr_run_in_name(io, G_INPUTS, i),
                           TR_SHAPE_STR(slice->shape));
        if (tr_tensor_count(slice) > 0)
            memcpy(slice_data(dx->item[i], step), slice->data, (size_t)tr_tensor_bytes(slice));
    }
    return TR_OK;
}

static tr_status collect_initial(const tr_frame *frame, const tr_run *io, const grad_numbers *n)
{
    const tr_args *dinitial = &io->outs[G_DINITIAL];

    for (int i = 0; i < dinitial->count; i++)
        if (dinitial->item[i] && n->dex[i] >= 0)
            TR_TRY(tr_tensor_copy(dinitial->item[i], var_of(frame, n->dex[i])));
    return TR_OK;
}

static tr_status run_one_grad(tr_frame *frame, const tr_frame *behind, tr_frame *forward, const tr_run *io,
                              const grad_numbers *numbers, int64_t step)
{
    point_inputs(forward, &io->ins[G_INPUTS], numbers->inputs, step);
    TR_TRY(seed(frame, behind, forward, io, numbers, step));
    TR_TRY(tr_frame_run(frame));
    return collect_inputs(frame, io, numbers, step);
}

static tr_status run_grad(const tr_run *io)
{
    const bool      reverse = ((const grad_attrs *)io->attrs)->reverse;
    tr_step_frames *kept = tr_var_of(io->in[G_SCOPES])->object;
    const int64_t   steps = kept ? kept->count : 0;
    tr_frame       *frame = NULL, *behind = NULL;
    grad_numbers    numbers = {.inputs = NULL};
    tr_status       status = TR_OK;

    TR_TRY(find_grad_numbers(&numbers, io));
    TR_TRY(start_gradients(io));
    for (int64_t n = steps - 1; n >= 0 && status == TR_OK; n--, behind = frame) {
        tr_frame *forward = kept->frame[--kept->count];
        TR_TRY(tr_frame_open(&frame, io, forward));
        status = run_one_grad(frame, behind, forward, io, &numbers, reverse ? steps - 1 - n : n);
        if (behind)
            tr_frame_close(behind);
        tr_frame_close(forward);
    }
    if (frame && status == TR_OK)
        status = collect_initial(frame, io, &numbers);
    if (frame)
        tr_frame_close(frame);
    return status;
}

/* -- gradient and registration -------------------------------------------------------------------- */

typedef struct grad_names {
    int         inputs, states, parameters, outputs;   /* how many */
    const char **input, **state, **ex_state, **initial, **parameter;
    const char **dinput, **dinitial, **dparameter, **doutput;
    const char **linked, **linked_grad;                /* out of the block: wanted outputs and states */
    const char **handed, **handed_grad;                /* into the block: inputs and ex_states */
    const char **output_grad;
} grad_names;

static tr_status names_alloc(grad_names *n, const tr_op_desc *op)
{
    n->inputs = tr_op_desc_input_count(op, "inputs");
    n->states = tr_op_desc_input_count(op, "initial_states");
    n->parameters = tr_op_desc_input_count(op, "parameters");
    n->outputs = tr_op_desc_output_count(op, "outputs");
    const char ***lists[] = {&n->input, &n->state, &n->ex_state, &n->initial, &n->parameter, &n->dinput, &n->dinitial,
                             &n->dparameter, &n->doutput, &n->linked, &n->linked_grad, &n->handed, &n->handed_grad,
                             &n->output_grad};
    const int   most = n->inputs + n->states + n->parameters + n->outputs, count = (int)(sizeof lists / sizeof *lists);
    const char **memory = calloc((size_t)(most * count) + 1, sizeof *memory);
    if (!memory)
        return tr_fail(TR_ENOMEM, "recurrent: no memory for its gradient");
    for (int i = 0; i < count; i++)
        *lists[i] = memory + i * most;
    return TR_OK;
}

/* Which gradients there are, and which are wanted. */
static tr_status fill_names(grad_names *n, tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);

    for (int i = 0; i < n->inputs; i++) {
        n->input[i] = n->handed[i] = tr_op_desc_input(op, "inputs", i);
        n->dinput[i] = tr_grad_for_input(maker, n->input[i]);
    }
    for (int i = 0; i < n->states; i++) {
        n->initial[i] = tr_op_desc_input(op, "initial_states", i);
        n->dinitial[i] = tr_grad_for_input(maker, n->initial[i]);
        n->ex_state[i] = n->handed[n->inputs + i] = tr_op_desc_attr_string(op, "ex_states", i, NULL);
        n->state[i] = n->linked[i] = tr_op_desc_attr_string(op, "states", i, NULL);
    }
    for (int i = 0; i < n->parameters; i++) {
        n->parameter[i] = tr_op_desc_input(op, "parameters", i);
        n->dparameter[i] = tr_grad_for_input(maker, n->parameter[i]);
        if (n->dparameter[i])
            TR_TRY(tr_grad_declare(maker, n->dparameter[i], n->parameter[i]));
    }
    for (int i = 0; i < n->outputs; i++)
        n->doutput[i] = tr_grad_of_output(maker, tr_op_desc_output(op, "outputs", i));
    return TR_OK;
}

static tr_status build_block(int *block, grad_names *n, tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    int               linked = n->states;

    for (int i = 0; i < n->outputs; i++)
        if (n->doutput[i])
            n->linked[linked++] = tr_op_desc_output(op, "outputs", i);
    const tr_grad_links links = {.out_count = linked, .out = n->linked, .out_grad = n->linked_grad,
                                 .in_count = n->inputs + n->states, .in = n->handed, .in_grad = n->handed_grad};
    TR_TRY(tr_grad_linked_block(block, maker, (int)tr_op_desc_attr_int(op, "sub_block", 0), n->parameters, n->parameter,
                                n->dparameter, &links));
    linked = n->states;
    for (int i = 0; i < n->outputs; i++)
        n->output_grad[i] = n->doutput[i] ? n->linked_grad[linked++] : NULL;
    return TR_OK;
}

/* @EMPTY@ for every NULL. */
static const char *const *or_empty(const char **names, int count)
{
    for (int i = 0; i < count; i++)
        names[i] = names[i] ? names[i] : empty_name;
    return names;
}

static tr_op_desc *grad_op(grad_names *n, const tr_op_desc *op, int block)
{
    tr_op_desc *grad = tr_op_desc_new("recurrent_grad");
    const char *scopes = tr_op_desc_output(op, "step_scopes", 0);

    tr_op_desc_set_input(grad, "inputs", n->inputs, n->input);
    tr_op_desc_set_input(grad, "initial_states", n->states, n->initial);
    tr_op_desc_set_input(grad, "parameters", n->parameters, n->parameter);
    tr_op_desc_set_input(grad, "outputs@GRAD", n->outputs, or_empty(n->doutput, n->outputs));
    tr_op_desc_set_input(grad, "step_scopes", 1, &scopes);
    tr_op_desc_set_output(grad, "inputs@GRAD", n->inputs, or_empty(n->dinput, n->inputs));
    tr_op_desc_set_output(grad, "initial_states@GRAD", n->states, or_empty(n->dinitial, n->states));
    tr_op_desc_set_output(grad, "parameters@GRAD", n->parameters, or_empty(n->dparameter, n->parameters));
    tr_op_desc_set_int(grad, "sub_block", block, TR_ATTR_BLOCK);
    tr_op_desc_set_int(grad, "reverse", tr_op_desc_attr_int(op, "reverse", 0), TR_ATTR_BOOL);
    tr_op_desc_set_strings(grad, "inputs", n->inputs, n->handed);
    tr_op_desc_set_strings(grad, "states", n->states, n->state);
    tr_op_desc_set_strings(grad, "input_grads", n->inputs, or_empty(n->handed_grad, n->inputs));
    tr_op_desc_set_strings(grad, "ex_state_grads", n->states, or_empty(n->handed_grad + n->inputs, n->states));
    tr_op_desc_set_strings(grad, "output_grads", n->outputs, or_empty(n->output_grad, n->outputs));
    tr_op_desc_set_strings(grad, "state_grads", n->states, n->linked_grad);
    return grad;
}

static tr_status make_grad(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    grad_names        n;
    tr_status         status;
    int               block = 0;

    if (tr_op_desc_output_count(op, "step_scopes") == 0)
        return tr_fail(TR_EINVAL, "recurrent: output step_scopes is needed to differentiate it");
    TR_TRY(names_alloc(&n, op));
    TR_TRY_GOTO(done, fill_names(&n, maker));
    TR_TRY_GOTO(done, build_block(&block, &n, maker));
    for (int i = 0; i < n.inputs; i++)
        n.input[i] = tr_grad_saved(maker, n.input[i], false);
    status = tr_grad_append(maker, grad_op(&n, op, block));
done:
    free(n.input);                    /* the first of the lists, which are one piece of memory */
    return status;
}

static const tr_grad_rule rule = {.make = make_grad};

TR_REGISTER_OP(recurrent, .proto = &proto, .infer = infer, .run = run, .grad = &rule, .has_block = true);
TR_REGISTER_OP(recurrent_grad, .proto = &grad_proto, .infer = infer_grad, .run = run_grad, .has_block = true);
