/* grad_block.c - see grad_block.h. */
#include "framework/gradients/grad_block.h"

#include <stdio.h>

#include "framework/gradients/grad_turn.h"

static bool block_writes(const tr_block *block, const char *var)
{
    for (int i = 0; i < block->op_count; i++)
        if (tr__grad_op_writes(block->op[i], var))
            return true;
    return false;
}

/* Leave the gradient of outer variable `var` in `grad`. */
static tr_status settle(tr_grad_walk *w, const char *var, const char *grad, const tr_op_desc *origin)
{
    const char *inner;

    if (tr__grad_is_array(w->block, var))
        return TR_OK;                 /* changed in place */
    TR_TRY(tr__grad_take(&inner, w, var, origin));
    if (block_writes(w->block, var)) {
        if (inner && strcmp(inner, grad) == 0)
            return TR_OK;             /* nothing in the block touched it on the way */
        return tr__grad_append_op(w, inner ? tr__grad_unary("assign", inner, grad)
                                           : tr__grad_unary("fill_zeros_like", grad, grad), origin, TR_ROLE_BACKWARD);
    }
    if (!inner)
        return TR_OK;
    const char *const terms[] = {grad, inner};
    tr_op_desc       *sum = tr_op_desc_new("sum");
    tr_op_desc_set_input(sum, "X", 2, terms);
    tr_op_desc_set_output(sum, "Out", 1, &grad);
    return tr__grad_append_op(w, sum, origin, TR_ROLE_BACKWARD);
}

static tr_status begin_links(tr_grad_walk *w, tr_grad_maker *maker, const tr_grad_links *links)
{
    for (int i = 0; i < links->out_count; i++) {
        const char *grad = tr__grad_new_contribution(w, links->out[i]);
        TR_TRY(tr__grad_declare_like(w, grad, links->out[i]));
        links->out_grad[i] = tr__grad_intern(maker->w, "%s", grad);
    }
    return TR_OK;
}

static tr_status end_links(tr_grad_walk *w, tr_grad_maker *maker, const tr_grad_links *links)
{
    for (int i = 0; i < links->in_count; i++) {
        const char *grad;
        TR_TRY(tr__grad_take(&grad, w, links->in[i], maker->forward));
        links->in_grad[i] = grad ? tr__grad_intern(maker->w, "%s", grad) : NULL;
    }
    return TR_OK;
}

tr_status tr_grad_sub_block(int *grad_block, tr_grad_maker *maker, int sub_block, int count, const char *const *vars,
                            const char *const *grads)
{
    const tr_grad_links none = {.out_count = 0};

    return tr_grad_linked_block(grad_block, maker, sub_block, count, vars, grads, &none);
}

tr_status tr_grad_linked_block(int *grad_block, tr_grad_maker *maker, int sub_block, int count, const char *const *vars,
                               const char *const *grads, const tr_grad_links *links)
{
    tr_block *forward = tr_program_block(maker->w->program, sub_block);
    tr_block *target = forward ? tr_program_append_block(maker->w->program, maker->w->target->index) : NULL;
    tr_status status = TR_OK;

    if (!target)
        return tr_fail(TR_EFORMAT, "%s: attribute sub_block names no block", maker->forward->type);
    tr_block_set_forward(target, sub_block);
    char suffix[32];
    snprintf(suffix, sizeof suffix, "@GRAD@B%d", target->index);
    tr_grad_walk w = {.program = maker->w->program, .block = forward, .target = target, .suffix = suffix,
                      .no_grad = maker->w->no_grad, .inputs = maker->w->inputs,
                      .only_inputs = maker->w->only_inputs, .outer = maker->w};
    for (int i = 0; i < count; i++)
        if (grads[i] && block_writes(forward, vars[i])) {
            tr_map_put(&w.wants, vars[i], (void *)(uintptr_t)vars[i]);
            tr__grad_contribute(&w, vars[i], grads[i]);
        }
    tr__grad_find_wants(&w, forward->op_count);
    TR_TRY_GOTO(done, begin_links(&w, maker, links));
    TR_TRY_GOTO(done, tr__grad_walk_ops(&w, forward->op_count));
    TR_TRY_GOTO(done, end_links(&w, maker, links));
    for (int i = 0; i < count; i++)
        if (grads[i])
            TR_TRY_GOTO(done, settle(&w, vars[i], grads[i], maker->forward));
    *grad_block = target->index;
done:
    tr__grad_walk_deinit(&w);
    return status;
}
