/* static_rnn_grad.c - the gradient of the operator `recurrent`, see static_rnn.c.
 *
 * The gradient block runs once for each kept frame, last first. It finds the gradients of output slices and of states
 * in variables of its own, leaves those of input slices and ex_states in others (attributes name them), and adds to
 * those of `parameters` where they are. An ex_state's gradient is the state's of the step before. */
#include "kernels/control_flow/static_rnn_grad.h"

#include "kernels/control_flow/loop_products.h"
#include "kernels/control_flow/rnn_slices.h"

#include <stdlib.h>
#include <string.h>

#include "kernels/control_flow/step_frames.h"
#include "kernels/tensor_arrays/tensor_array.h"

static const char empty_name[] = "@EMPTY@";

/* -- interface ------------------------------------------------------------------------------------ */

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
                   {"outputs@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_HOLES}, {"step_scopes", "the kept steps", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"inputs@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_HOLES},
                    {"initial_states@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_HOLES},
                    {"parameters@GRAD", "or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_HOLES}),
    TR_ATTRS_OF(grad_attrs,
        TR_ATTR(grad_attrs, reverse, BOOL, "forward, the last step ran first"),
        TR_ATTR(grad_attrs, sub_block, BLOCK, "the gradient block", .required = true),
        TR_ATTR(grad_attrs, inputs, STRINGS, "the forward block's names of the slices of inputs", .required = true),
        TR_ATTR(grad_attrs, states, STRINGS, "its names of the states after a step", .required = true),
        TR_ATTR(grad_attrs, input_grads, STRINGS, "where the block leaves the slices of inputs@GRAD, or @EMPTY@"),
        TR_ATTR(grad_attrs, ex_state_grads, STRINGS, "where it leaves the gradients of states before the step"),
        TR_ATTR(grad_attrs, output_grads, STRINGS, "where it finds the slices of outputs@GRAD"),
        TR_ATTR(grad_attrs, state_grads, STRINGS, "where it finds the gradients of states after the step")),
};

/* -- shapes --------------------------------------------------------------------------------------- */

static bool are_as_many(const tr_infer *io, int slot, int made, const tr_strings *a, const tr_strings *b)
{
    const int count = io->ins[slot].count;

    return a->count == count && b->count == count && (made < 0 || io->outs[made].count == 0 || io->outs[made].count == count);
}

static tr_status infer_grad(const tr_infer *io)
{
    const grad_attrs *a = io->attrs;

    if (!are_as_many(io, G_INPUTS, G_DINPUTS, &a->inputs, &a->input_grads) ||
        !are_as_many(io, G_INITIAL, G_DINITIAL, &a->states, &a->ex_state_grads) || a->state_grads.count != a->states.count ||
        !are_as_many(io, G_DOUTPUTS, -1, &a->output_grads, &a->output_grads) ||
        io->outs[G_DPARAMETERS].count > io->ins[G_PARAMETERS].count)
        return tr_fail(TR_EINVAL, "%s: variables, their gradients and the block's names for them must be as many", io->type);
    for (int s = 0; s < 3; s++)
        for (int i = 0; i < io->outs[s].count; i++)
            if (io->outs[s].item[i].kind != TR_KIND_NONE)
                io->outs[s].item[i] = io->ins[s].item[i];
    return TR_OK;
}

/* -- backward ------------------------------------------------------------------------------------- */

typedef struct grad_numbers {
    const int *inputs, *states;                        /* in the forward block */
    const int *dinputs, *dex, *doutputs, *dstates;     /* in the gradient block */
} grad_numbers;

static int *number_all(int *number, const tr_plan *plan, const tr_strings *names, bool at_begin)
{
    for (int i = 0; i < names->count; i++) {
        const int v = at_begin ? tr_plan_var_at_begin(plan, names->item[i]) : tr_plan_var_at_end(plan, names->item[i]);
        *number++ = at_begin && v >= 0 && plan->var[v].home != TR_LOCAL ? -1 : v;     /* slices are put into the block's own */
    }
    return number;
}

static tr_status find_grad_numbers(grad_numbers *out, const tr_run *io)
{
    const grad_attrs *a = io->attrs;
    const tr_plan    *sub = io->step->sub;
    const int         inputs = a->inputs.count, states = a->states.count, outputs = a->output_grads.count;
    int              *notes, *number;

    TR_TRY(tr_run_notes((void **)&notes, io, (size_t)(1 + 2 * inputs + 3 * states + outputs) * sizeof *notes));
    out->inputs = number = notes + 1;
    out->states = out->inputs + inputs;
    out->dinputs = out->states + states;
    out->dex = out->dinputs + inputs;
    out->doutputs = out->dex + states;
    out->dstates = out->doutputs + outputs;
    if (notes[0])
        return TR_OK;
    notes[0] = 1;
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

/* The gradients that the gradient block finds: of the slices of outputs, and of the states, which are those of ex_states
 * in the step behind. */
static tr_status seed(tr_frame *frame, const tr_frame *behind, const tr_frame *forward, const tr_run *io,
                      const grad_numbers *n, int64_t step)
{
    const tr_args *douts = &io->ins[G_DOUTPUTS];

    for (int i = 0; i < douts->count; i++)
        if (douts->item[i] && n->doutputs[i] >= 0)
            tr__slice_point(tr__frame_tensor(frame, n->doutputs[i]), douts->item[i], step);
    for (int i = 0; i < io->ins[G_INITIAL].count; i++) {
        if (n->dstates[i] < 0)
            continue;
        tr_tensor *from = behind ? tr__frame_tensor(behind, n->dex[i]) : NULL;
        TR_TRY(from ? tr_tensor_copy(tr__frame_tensor(frame, n->dstates[i]), from)
                    : tr__zeros_like(tr__frame_tensor(frame, n->dstates[i]), tr__frame_tensor(forward, n->states[i])));
    }
    return TR_OK;
}

static tr_status collect_inputs(const tr_frame *frame, const tr_run *io, const grad_numbers *n, int64_t step)
{
    const tr_args *dx = &io->outs[G_DINPUTS];

    for (int i = 0; i < dx->count; i++) {
        const tr_tensor *slice = dx->item[i] ? tr__frame_tensor(frame, n->dinputs[i]) : NULL;
        if (!slice)
            continue;
        if (slice->dtype != dx->item[i]->dtype || tr_tensor_bytes(slice) * dx->item[i]->shape.dim[0] !=
                                                      tr_tensor_bytes(dx->item[i]))
            return tr_fail(TR_ESHAPE, "the gradient of a step of '%s' is %s", tr_run_in_name(io, G_INPUTS, i),
                           TR_SHAPE_STR(slice->shape));
        if (tr_tensor_count(slice) > 0)
            memcpy(tr__slice_data(dx->item[i], step), slice->data, (size_t)tr_tensor_bytes(slice));
    }
    return TR_OK;
}

static tr_status collect_initial(const tr_frame *frame, const tr_run *io, const grad_numbers *n)
{
    const tr_args *dinitial = &io->outs[G_DINITIAL];

    for (int i = 0; i < dinitial->count; i++)
        if (dinitial->item[i] && n->dex[i] >= 0)
            TR_TRY(tr_tensor_copy(dinitial->item[i], tr__frame_tensor(frame, n->dex[i])));
    return TR_OK;
}

static tr_status run_one_grad(tr_frame *frame, const tr_frame *behind, tr_frame *forward, const tr_run *io,
                              const grad_numbers *numbers, int64_t step, tr_loop_products *products)
{
    tr__slice_inputs(forward, &io->ins[G_INPUTS], numbers->inputs, step);
    TR_TRY(seed(frame, behind, forward, io, numbers, step));
    TR_TRY(tr__loop_run(products, frame));
    return collect_inputs(frame, io, numbers, step);
}

/* Each of them has a slice for each kept step. */
static tr_status check_steps(const tr_run *io, const tr_args *args, int64_t steps)
{
    for (int i = 0; i < args->count; i++)
        if (args->item[i] && (args->item[i]->shape.rank == 0 || args->item[i]->shape.dim[0] != steps))
            return tr_fail(TR_ESHAPE, "%s: %lld steps were kept, but an argument is %s", io->step->op->type, (long long)steps,
                           TR_SHAPE_STR(args->item[i]->shape));
    return TR_OK;
}

static tr_status run_grad(const tr_run *io)
{
    const bool      reverse = ((const grad_attrs *)io->attrs)->reverse;
    tr_step_frames *kept = tr__step_frames_of(io->in[G_SCOPES]);
    const int64_t   steps = kept ? kept->count : 0;
    tr_frame       *frame = NULL, *behind = NULL;
    grad_numbers    numbers = {.inputs = NULL};
    tr_loop_products products = {.io = io};
    tr_status       status = TR_OK;

    TR_TRY(find_grad_numbers(&numbers, io));
    TR_TRY(check_steps(io, &io->ins[G_INPUTS], steps));
    TR_TRY(check_steps(io, &io->ins[G_DOUTPUTS], steps));
    TR_TRY(start_gradients(io));
    for (int64_t n = steps - 1; n >= 0 && status == TR_OK; n--, behind = frame) {
        tr_frame *forward = kept->frame[kept->count - 1];
        if ((status = tr_frame_open(&frame, io, forward)) != TR_OK)
            break;
        kept->count--;
        status = run_one_grad(frame, behind, forward, io, &numbers, reverse ? steps - 1 - n : n, &products);
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

/* -- the rule --------------------------------------------------------------------------------------- */

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

tr_status tr__make_recurrent_grad(tr_grad_maker *maker)
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

/* -- registration --------------------------------------------------------------------------------- */

TR_REGISTER_OP(recurrent_grad, .proto = &grad_proto, .infer = infer_grad, .run = run_grad, .has_block = true);
