/* control_flow.c - while and conditional_block: operators that run a sub-block.
 *
 * A sub-block runs in a frame of its own, under the frame of the operator; variables of outer blocks are
 * written where they are. When a gradient will be asked for (somebody reads StepScopes / Scope) the frames are
 * kept in that variable, one an iteration; otherwise one frame serves all iterations, so that memory does not
 * grow with their number.
 *
 * Backward: the gradient block (framework/gradients/backward.c builds it) runs once for each kept frame, last first,
 * under that frame. It finds the gradient of each outer variable in X@GRAD and leaves the new one there:
 * replaced if the block writes the variable, added to otherwise. So X@GRAD starts as the gradient of what the
 * loop left behind (Out@GRAD), or as zeros. */
#include <stdlib.h>
#include <string.h>

#include "framework/gradients/grad_block.h"
#include "framework/operators/op.h"
#include "framework/runs/frame.h"
#include "kernels/control_flow/loop_products.h"
#include "kernels/control_flow/step_frames.h"

/* -- running a block ------------------------------------------------------------------------------ */

/* Run the sub-block once; the frame is kept, or goes back. */
static tr_status run_block(const tr_run *io, tr_loop_products *products, tr_step_frames *kept)
{
    tr_frame *frame;

    TR_TRY(tr_frame_open(&frame, io, io->frame));
    tr_status status = tr__loop_run(products, frame);
    if (status == TR_OK && kept)
        status = tr__step_frames_push(kept, frame);
    if (status != TR_OK || !kept)
        tr_frame_close(frame);
    return status;
}

/* -- interface ------------------------------------------------------------------------------------ */

typedef struct while_attrs {
    int32_t sub_block;
    bool    is_test;
} while_attrs;

enum { W_X, W_CONDITION };
enum { W_OUT, W_STEP_SCOPES };

static const tr_op_proto while_proto = {
    .doc = "Runs sub_block as long as Condition is true; it is tested before each iteration.",
    .in = TR_SLOTS({"X", "variables of outer blocks that the sub-block reads", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND},
                   {"Condition", "[1] bool; the sub-block writes it", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "variables of outer blocks that the sub-block writes", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                    {"StepScopes", "what the backward pass needs of each iteration", TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    TR_ATTRS_OF(while_attrs, TR_ATTR(while_attrs, sub_block, BLOCK, "the block to run", .required = true),
                             TR_ATTR(while_attrs, is_test, BOOL, "keep nothing for a backward pass"),
                             TR_ATTR_IGNORED("skip_eager_deletion_vars", STRINGS)),
};

typedef struct conditional_attrs {
    int32_t sub_block;
    bool    is_scalar_condition;
} conditional_attrs;

enum { C_COND, C_INPUT };
enum { C_OUT, C_SCOPE };

static const tr_op_proto conditional_proto = {
    .doc = "Runs sub_block if the condition holds: with is_scalar_condition if the one element of Cond is true, "
           "otherwise if no tensor of Cond is empty. A bool tensor there is a mask for rows (IfElse): the block runs for no rows, too.",
    .in = TR_SLOTS({"Cond", "[1] bool, or tensors to test for emptiness", TR_SLOT_REPEATED},
                   {"Input", "variables of outer blocks that the sub-block reads; those of Cond may be left out",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"Out", "variables of outer blocks that the sub-block writes", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL},
                    {"Scope", "what the backward pass needs", TR_SLOT_OPTIONAL}),
    TR_ATTRS_OF(conditional_attrs, TR_ATTR(conditional_attrs, sub_block, BLOCK, "the block to run", .required = true),
                                   TR_ATTR(conditional_attrs, is_scalar_condition, BOOL, "Cond is one truth value")),
};

static const tr_op_proto block_grad_proto = {
    .doc = "Runs a gradient block for each kept iteration of a while or conditional_block, last first.",
    .in = TR_SLOTS({"X", "the outer variables whose gradients are made", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND},
                   {"X@GRAD@IN", "for each X the gradient of what the block left in it, or @EMPTY@",
                    TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_ANY_KIND | TR_SLOT_HOLES},
                   {"StepScopes", "the kept iterations", TR_SLOT_ANY_KIND}),
    .out = TR_SLOTS({"X@GRAD", "for each X its gradient, or @EMPTY@", TR_SLOT_REPEATED | TR_SLOT_OPTIONAL | TR_SLOT_HOLES}),
    TR_ATTRS_OF(while_attrs, TR_ATTR(while_attrs, sub_block, BLOCK, "the gradient block", .required = true)),
};

/* -- shapes --------------------------------------------------------------------------------------- */

/* The outputs are variables of outer blocks: they stay what the program says of them. */
static tr_status infer_scopes(const tr_infer *io, int slot)
{
    if (io->outs[slot].count > 0)
        io->out[slot].kind = TR_KIND_STEP_SCOPES;
    return TR_OK;
}

static tr_status check_condition(const tr_infer *io, int slot)
{
    const tr_meta *cond = &io->in[slot];

    if (cond->dtype != TR_BOOL && cond->dtype != TR_DTYPE_NONE)
        return tr_fail(TR_EDTYPE, "%s: the condition must be bool, got %s", io->type, tr_dtype_name(cond->dtype));
    if (cond->shape.rank > 0 && tr_shape_numel(&cond->shape) != 1 && tr_shape_is_known(&cond->shape))
        return tr_fail(TR_ESHAPE, "%s: the condition must have one element, got shape %s", io->type,
                       TR_SHAPE_STR(cond->shape));
    return TR_OK;
}

static tr_status infer_while(const tr_infer *io)
{
    TR_TRY(check_condition(io, W_CONDITION));
    return infer_scopes(io, W_STEP_SCOPES);
}

static tr_status infer_conditional(const tr_infer *io)
{
    const conditional_attrs *attrs = io->attrs;

    if (attrs->is_scalar_condition)
        TR_TRY(check_condition(io, C_COND));
    return infer_scopes(io, C_SCOPE);
}

enum { G_X, G_DIN_BEFORE, G_SCOPES };
enum { G_DX };

static tr_status infer_block_grad(const tr_infer *io)
{
    const int count = io->ins[G_X].count;

    if (io->ins[G_DIN_BEFORE].count != count || io->outs[G_DX].count != count)
        return tr_fail(TR_EINVAL, "%s: X has %d variables, so X@GRAD@IN and X@GRAD must have as many; got %d and %d", io->type,
                       count, io->ins[G_DIN_BEFORE].count, io->outs[G_DX].count);
    for (int i = 0; i < io->outs[G_DX].count; i++)
        if (io->outs[G_DX].item[i].kind != TR_KIND_NONE)
            io->outs[G_DX].item[i] = io->ins[G_X].item[i];
    return TR_OK;
}

/* -- running -------------------------------------------------------------------------------------- */

static tr_status read_condition(bool *out, const tr_run *io, int slot)
{
    const tr_tensor *cond = io->in[slot];

    if (cond->dtype != TR_BOOL || tr_tensor_count(cond) != 1)
        return tr_fail(TR_ESHAPE, "%s: condition '%s' must be one bool, got %s %s", io->step->op->type,
                       tr_run_in_name(io, slot, 0), tr_dtype_name(cond->dtype), TR_SHAPE_STR(cond->shape));
    *out = *(const bool *)cond->data;
    return TR_OK;
}

static tr_status run_while(const tr_run *io)
{
    const while_attrs *attrs = io->attrs;
    tr_loop_products   products = {.io = io};
    tr_step_frames    *kept;
    bool               go_on;

    TR_TRY(tr__step_frames_start(&kept, io->out[W_STEP_SCOPES], !attrs->is_test && tr__is_read_later(io, W_STEP_SCOPES)));
    TR_TRY(read_condition(&go_on, io, W_CONDITION));
    while (go_on) {
        TR_TRY(run_block(io, &products, kept));
        TR_TRY(read_condition(&go_on, io, W_CONDITION));
    }
    return TR_OK;
}

static tr_status run_conditional(const tr_run *io)
{
    const conditional_attrs *attrs = io->attrs;
    tr_loop_products         products = {.io = io, .is_begun = true};         /* one step: nothing is packed twice */
    tr_step_frames          *kept;
    bool                     holds = true;

    TR_TRY(tr__step_frames_start(&kept, io->out[C_SCOPE], tr__is_read_later(io, C_SCOPE)));
    if (attrs->is_scalar_condition)
        TR_TRY(read_condition(&holds, io, C_COND));
    for (int i = 0; !attrs->is_scalar_condition && i < io->ins[C_COND].count; i++)
        holds = holds && (io->ins[C_COND].item[i]->dtype == TR_BOOL || tr_tensor_count(io->ins[C_COND].item[i]) > 0);
    return holds ? run_block(io, &products, kept) : TR_OK;
}

static tr_status run_block_grad(const tr_run *io)
{
    tr_step_frames  *kept = tr__step_frames_of(io->in[G_SCOPES]);
    tr_loop_products products = {.io = io, .is_begun = kept && kept->count == 1};

    for (int i = 0; i < io->outs[G_DX].count; i++)
        if (io->outs[G_DX].item[i])
            TR_TRY(tr__start_gradient(io->outs[G_DX].item[i], io->ins[G_DIN_BEFORE].item[i], io->ins[G_X].item[i]));
    while (kept && kept->count > 0) {
        tr_frame *forward = kept->frame[kept->count - 1], *frame;
        TR_TRY(tr_frame_open(&frame, io, forward));
        kept->count--;
        const tr_status status = tr__loop_run(&products, frame);
        tr_frame_close(frame);
        tr_frame_close(forward);
        TR_TRY(status);
    }
    return TR_OK;
}

/* -- gradients ------------------------------------------------------------------------------------ */

typedef struct name_list {
    int          count;
    const char **name;
} name_list;

static bool holds(const name_list *list, const char *name)
{
    for (int i = 0; i < list->count; i++)
        if (strcmp(list->name[i], name) == 0)
            return true;
    return false;
}

static void add_slot(name_list *list, const tr_op_desc *op, const char *slot, bool output)
{
    const int count = output ? tr_op_desc_output_count(op, slot) : tr_op_desc_input_count(op, slot);
    for (int i = 0; i < count; i++) {
        const char *name = output ? tr_op_desc_output(op, slot, i) : tr_op_desc_input(op, slot, i);
        if (!holds(list, name))
            list->name[list->count++] = name;
    }
}

static bool op_reads(const tr_op_desc *op, const char *name)
{
    for (int s = 0; s < op->in_count; s++)
        for (int i = 0; i < op->in[s].count; i++)
            if (strcmp(op->in[s].arg[i], name) == 0)
                return true;
    return false;
}

/* The conditions that the block reads: Fluid's programs name such a variable in the condition's slot alone. */
static void add_conditions(name_list *list, const tr_op_desc *op, const char *slot, const tr_block *sub)
{
    for (int i = 0; i < tr_op_desc_input_count(op, slot); i++)
        for (int k = 0; sub && k < sub->op_count; k++)
            if (op_reads(sub->op[k], tr_op_desc_input(op, slot, i)) && !holds(list, tr_op_desc_input(op, slot, i)))
                list->name[list->count++] = tr_op_desc_input(op, slot, i);
}

/* The gradient operator of a block operator. Its outer variables are those of the slots `inputs` and Out, and the
 * conditions that the block reads. */
static tr_status make_block_grad(tr_grad_maker *maker, const char *inputs, const char *conditions, const char *scopes,
                                 const char *grad_type)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const int         most = tr_op_desc_input_count(op, inputs) + tr_op_desc_input_count(op, conditions) +
                     tr_op_desc_output_count(op, "Out");
    const char      **names = calloc((size_t)most * 3 + 1, sizeof *names);
    tr_status         status = TR_OK;
    int               block = (int)tr_op_desc_attr_int(op, "sub_block", 0), grad_block;

    if (!names)
        return tr_fail(TR_ENOMEM, "%s: no memory for its gradient", grad_type);
    name_list    vars = {0, names};
    const char **before = names + most, **after = names + 2 * most;
    const char  *scope = tr_op_desc_output(op, scopes, 0);
    add_slot(&vars, op, inputs, false);
    add_conditions(&vars, op, conditions, tr_program_block(op->block->program, block));
    add_slot(&vars, op, "Out", true);
    if (!scope) {
        status = tr_fail(TR_EINVAL, "%s: output %s is needed to differentiate it", tr_op_desc_type(op), scopes);
        goto done;
    }
    for (int i = 0; i < vars.count; i++) {
        before[i] = tr_grad_of_output(maker, vars.name[i]);
        after[i] = tr_grad_for_input(maker, vars.name[i]);
    }
    tr_op_desc *grad = tr_op_desc_new(grad_type);
    const char *const empty = "@EMPTY@";
    tr_op_desc_set_input(grad, "X", vars.count, vars.name);
    tr_op_desc_set_input(grad, "StepScopes", 1, &scope);
    for (int i = 0; i < vars.count; i++)
        before[i] = before[i] ? before[i] : empty;
    tr_op_desc_set_input(grad, "X@GRAD@IN", vars.count, before);
    /* The gradient variables must exist before the block that names them is built. */
    for (int i = 0; i < vars.count; i++)
        if (after[i])
            TR_TRY_GOTO(drop, tr_grad_declare(maker, after[i], vars.name[i]));
    TR_TRY_GOTO(drop, tr_grad_sub_block(&grad_block, maker, block, vars.count, vars.name, after));
    for (int i = 0; i < vars.count; i++)
        after[i] = after[i] ? after[i] : empty;
    tr_op_desc_set_output(grad, "X@GRAD", vars.count, after);
    tr_op_desc_set_int(grad, "sub_block", grad_block, TR_ATTR_BLOCK);
    status = tr_grad_append(maker, grad);
    goto done;
drop:
    tr_op_desc_free(grad);
done:
    free(names);
    return status;
}

static tr_status make_while_grad(tr_grad_maker *maker)
{
    return make_block_grad(maker, "X", "Condition", "StepScopes", "while_grad");
}

static tr_status make_conditional_grad(tr_grad_maker *maker)
{
    return make_block_grad(maker, "Input", "Cond", "Scope", "conditional_block_grad");
}

static const tr_grad_rule while_rule = {.make = make_while_grad};
static const tr_grad_rule conditional_rule = {.make = make_conditional_grad};

/* -- registration --------------------------------------------------------------------------------- */

TR_REGISTER_OP(while, .proto = &while_proto, .infer = infer_while, .run = run_while, .grad = &while_rule,
               .has_block = true);
TR_REGISTER_OP(while_grad, .proto = &block_grad_proto, .infer = infer_block_grad, .run = run_block_grad,
               .has_block = true);
TR_REGISTER_OP(conditional_block, .proto = &conditional_proto, .infer = infer_conditional, .run = run_conditional,
               .grad = &conditional_rule, .has_block = true);
TR_REGISTER_OP(conditional_block_grad, .proto = &block_grad_proto, .infer = infer_block_grad, .run = run_block_grad,
               .has_block = true);
