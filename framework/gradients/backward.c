/* backward.c - turning gradient rules into operators of the program: the entry points.
 *
 * Reverse mode over a block's operators, from the last to the first. An operator is asked for its rule if one of its inputs
 * wants a gradient and one of its outputs has one. A variable read several times gets one
 * contribution from each reader, summed just before its producer's turn. Values that a rule wants to read but
 * that a later operator overwrites are saved by an assign in the forward block.
 *
 * grad_walk.h has the contributions and their names, grad_maker.h one operator's turn, grad_turn.h the order of the
 * turns, grad_block.h what operators with a sub-block need.
 * Autodiff itself needs four operators: fill_constant, fill_zeros_like, sum, assign (and scale, for ones). */
#include "framework/gradients/grad_turn.h"

#include <stdlib.h>

static tr_status seed_target(tr_grad_walk *w, const char *target, const char *given, int role)
{
    if (given) {
        tr__grad_contribute(w, target, given);
        return TR_OK;
    }
    const char        *name = tr__grad_new_contribution(w, target);
    const tr_var_desc *var = tr_block_find_var(w->block, target);
    if (tr_shape_numel(&var->shape) == 1 && var->shape.rank > 0) {
        tr_op_desc *fill = tr_op_desc_new("fill_constant");
        tr_op_desc_set_ints(fill, "shape", var->shape.rank, var->shape.dim, TR_ATTR_LONGS);
        tr_op_desc_set_int(fill, "dtype", var->dtype, TR_ATTR_INT);
        tr_op_desc_set_float(fill, "value", 1.0);
        tr_op_desc_set_output(fill, "Out", 1, &name);
        TR_TRY(tr__grad_append_op(w, fill, NULL, role));
    } else {
        const char *zeros = tr__grad_intern(w, "%s@ZERO", name);
        TR_TRY(tr__grad_append_op(w, tr__grad_unary("fill_zeros_like", target, zeros), NULL, role));
        tr_op_desc *ones = tr__grad_unary("scale", zeros, name);
        tr_op_desc_set_float(ones, "bias", 1.0);
        TR_TRY(tr__grad_append_op(w, ones, NULL, role));
    }
    return TR_OK;
}

static tr_status check_target(tr_block *block, const char *target)
{
    const tr_var_desc *var = tr_block_find_var(block, target);

    if (!var)
        return tr_fail(TR_ENOTFOUND, "backward: there is no variable '%s' in the global block", target);
    if (!tr_dtype_is_float(var->dtype))
        return tr_fail(TR_EDTYPE, "backward: '%s' is %s; only floating-point variables have gradients", target,
                       tr_dtype_name(var->dtype));
    return TR_OK;
}

/* The earlier answer of tr_var_desc_gradient. */
static void forget_gradients(tr_block *block)
{
    for (size_t i = 0; i < block->vars.entry_count; i++)
        if (block->vars.entries[i].key) {
            tr_var_desc *var = block->vars.entries[i].value;
            free(var->gradient);
            var->gradient = NULL;
        }
}

/* A caller's request. */
typedef struct request {
    int                target_count, input_count, no_grad_count;
    const char *const *targets, *const *target_grads, *const *inputs, *const *no_grad;
    bool               only_inputs;
    int                seed_role;
} request;

static void put_names(tr_map *map, int count, const char *const *names)
{
    for (int i = 0; i < count; i++)
        tr_map_put(map, names[i], (void *)(uintptr_t)names[i]);
}

static tr_status append_gradients(tr_program *program, const request *r)
{
    tr_block    *block = tr_program_block(program, 0);
    const int    forward_ops = block->op_count;
    tr_map       no_grad = {0}, inputs = {0};
    tr_grad_walk w = {.program = program, .block = block, .target = block, .suffix = "@GRAD", .no_grad = &no_grad,
                      .inputs = &inputs, .only_inputs = r->only_inputs};
    tr_status    status = TR_OK;

    forget_gradients(block);
    put_names(&no_grad, r->no_grad_count, r->no_grad);
    put_names(&inputs, r->input_count, r->inputs);
    tr__grad_find_wants(&w, forward_ops);
    for (int i = 0; i < r->target_count; i++) {
        TR_TRY_GOTO(done, check_target(block, r->targets[i]));
        TR_TRY_GOTO(done, seed_target(&w, r->targets[i], r->target_grads ? r->target_grads[i] : NULL, r->seed_role));
    }
    TR_TRY_GOTO(done, tr__grad_walk_ops(&w, forward_ops));
    TR_TRY_GOTO(done, tr__grad_finish_leaves(&w));
done:
    tr__grad_walk_deinit(&w);
    tr_map_deinit(&inputs);
    tr_map_deinit(&no_grad);
    return status;
}

tr_status tr_append_gradients(tr_program *program, int target_count, const char *const *targets,
                              const char *const *target_grads, int input_count, const char *const *inputs,
                              int no_grad_count, const char *const *no_grad)
{
    const request r = {.target_count = target_count, .targets = targets, .target_grads = target_grads, .input_count = input_count,
                       .inputs = inputs, .only_inputs = input_count > 0, .no_grad_count = no_grad_count, .no_grad = no_grad,
                       .seed_role = TR_ROLE_BACKWARD};

    return append_gradients(program, &r);
}

tr_status tr_append_backward(tr_program *program, const char *loss, int input_count, const char *const *inputs, int no_grad_count,
                             const char *const *no_grad)
{
    const tr_var_desc *var = tr_block_find_var(tr_program_block(program, 0), loss);
    const request      r = {.target_count = 1, .targets = &loss, .input_count = input_count, .inputs = inputs, .no_grad_count = no_grad_count, .no_grad = no_grad,
                            .seed_role = TR_ROLE_BACKWARD | TR_ROLE_LOSS};

    if (var && var->shape.rank > 0 && tr_shape_numel(&var->shape) != 1)
        return tr_fail(TR_ESHAPE, "backward: the loss '%s' must have one element, it is %s; take its mean or sum", loss,
                       TR_SHAPE_STR(var->shape));
    return append_gradients(program, &r);
}
