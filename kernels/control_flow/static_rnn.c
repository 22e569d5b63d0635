/* static_rnn.c - the operator `recurrent`: a block for each step along dimension 0 of its inputs (StaticRNN).
 *
 * The block has variables of its own under the names of `inputs` (slice t of each), of ex_states (the state that the
 * step before left, at first initial_states) and of `outputs` (slice t of each). A step runs in a frame; frames are
 * kept when a gradient will be asked for (static_rnn_grad.c), otherwise one serves all steps. Slices are not copied:
 * they point into the input. Names are turned into numbers at the first run. */
#include "kernels/control_flow/loop_products.h"
#include "kernels/control_flow/rnn_slices.h"
#include "kernels/control_flow/static_rnn_grad.h"

#include <inttypes.h>
#include <string.h>

#include "kernels/control_flow/step_frames.h"

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
                   {"parameters", "variables of outer blocks that the block reads",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"outputs", "[steps, ...]; the block has one step under the same name", TR_SLOT_REPEATED},
                    {"step_scopes", "what the backward pass needs of each step", TR_SLOT_OPTIONAL}),
    TR_ATTRS_OF(recurrent_attrs,
        TR_ATTR(recurrent_attrs, has_states, BOOL, "there are states"),
        TR_ATTR(recurrent_attrs, ex_states, STRINGS, "the block's names for the states before a step",
                .required = true),
        TR_ATTR(recurrent_attrs, states, STRINGS, "its names for the states after it", .required = true),
        TR_ATTR(recurrent_attrs, sub_block, BLOCK, "the block to run", .required = true),
        TR_ATTR(recurrent_attrs, reverse, BOOL, "from the last step to the first"),
        TR_ATTR(recurrent_attrs, is_train, BOOL, "keep what a backward pass needs", .number = 1)),
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
            return tr_fail(TR_ESHAPE, "recurrent: the inputs must have as many steps each; inputs[%d] is %s, but "
                           "another one has %" PRId64, i, TR_SHAPE_STR(*shape), steps);
        steps = mine >= 0 ? mine : steps;
    }
    if (attrs->ex_states.count != io->ins[INITIAL].count || attrs->states.count != io->ins[INITIAL].count)
        return tr_fail(TR_EINVAL, "recurrent: %d initial_states, %d ex_states and %d states; they must be as many",
                       io->ins[INITIAL].count, attrs->ex_states.count, attrs->states.count);
    if (io->outs[SCOPES].count > 0)
        io->out[SCOPES].kind = TR_KIND_STEP_SCOPES;
    return TR_OK;
}

/* -- slices --------------------------------------------------------------------------------------- */

/* -- forward -------------------------------------------------------------------------------------- */

/* A variable that the block declares and no operator of it has written yet; -1: nobody reads it. */
static tr_status own_variable(int *number, const tr_plan *sub, const char *name)
{
    *number = tr_plan_var_at_begin(sub, name);
    if (*number >= 0 && sub->var[*number].home != TR_LOCAL)
        return tr_fail(TR_EFORMAT, "block %d reads '%s', but does not declare it: it would see the outer variable, "
                       "not one step", sub->block->index, name);
    return TR_OK;
}

/* Numbers of the block's variables: inputs, ex_states, states, outputs, one after the other, after a number that is
 * not 0 when they have been found. */
static tr_status find_numbers(const int **out, const tr_run *io)
{
    const recurrent_attrs *attrs = io->attrs;
    const tr_plan         *sub = io->step->sub;
    const int inputs = io->ins[INPUTS].count, states = attrs->states.count, outputs = io->outs[OUTPUTS].count;
    int      *notes, *number;

    TR_TRY(tr_run_notes((void **)&notes, io, (size_t)(1 + inputs + 2 * states + outputs) * sizeof *notes));
    *out = number = notes + 1;
    if (notes[0])
        return TR_OK;
    for (int i = 0; i < inputs; i++)
        TR_TRY(own_variable(number++, sub, tr_run_in_name(io, INPUTS, i)));
    for (int i = 0; i < states; i++)
        TR_TRY(own_variable(number++, sub, attrs->ex_states.item[i]));
    for (int i = 0; i < states; i++)
        *number++ = tr_plan_var_at_end(sub, attrs->states.item[i]);
    for (int i = 0; i < outputs; i++)
        *number++ = tr_plan_var_at_end(sub, tr_run_out_name(io, OUTPUTS, i));
    notes[0] = 1;
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
        const tr_tensor *from = before ? tr__frame_tensor(before, state[i]) : io->ins[INITIAL].item[i];
        TR_TRY(tr_tensor_copy(tr__frame_tensor(frame, ex[i]), from));
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
        memcpy(tr__slice_data(out, step), value->data, (size_t)tr_tensor_bytes(value));
    return TR_OK;
}

static tr_status store_outputs(const tr_run *io, const tr_frame *frame, const int *number, int64_t step, int64_t steps,
                               bool first)
{
    for (int i = 0; i < io->outs[OUTPUTS].count; i++) {
        if (number[i] < 0)
            return tr_fail(TR_ENOTFOUND, "the step block computes no output '%s'", tr_run_out_name(io, OUTPUTS, i));
        TR_TRY(store_output(io, i, tr__frame_tensor(frame, number[i]), step, steps, first));
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
    tr_loop_products products;
} loop;

static tr_status run_one(const tr_run *io, loop *l, tr_frame *frame, const tr_frame *before, int64_t n)
{
    const int64_t step = ((const recurrent_attrs *)io->attrs)->reverse ? l->steps - 1 - n : n;

    tr__slice_inputs(frame, &io->ins[INPUTS], l->inputs, step);
    TR_TRY(hand_states(frame, before, io, l->ex, l->states));
    TR_TRY(tr__loop_run(&l->products, frame));
    return store_outputs(io, frame, l->outputs, step, l->steps, n == 0);
}

static tr_status run_steps(const tr_run *io, loop *l)
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
    loop                   l = {.products = {.io = io}};
    const int             *number = NULL;

    TR_TRY(find_numbers(&number, io));
    l.inputs = number;
    l.ex = l.inputs + io->ins[INPUTS].count;
    l.states = l.ex + attrs->states.count;
    l.outputs = l.states + attrs->states.count;
    TR_TRY(count_steps(&l.steps, io));
    TR_TRY(tr__step_frames_start(&l.kept, io->out[SCOPES], attrs->is_train && tr__is_read_later(io, SCOPES)));
    return l.steps > 0 ? run_steps(io, &l) : empty_outputs(io);
}

/* -- registration --------------------------------------------------------------------------------- */

static const tr_grad_rule rule = {.make = tr__make_recurrent_grad};

TR_REGISTER_OP(recurrent, .proto = &proto, .infer = infer, .run = run, .grad = &rule, .has_block = true);
