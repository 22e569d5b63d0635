/* backward.c - see backward.h. */
#include "framework/backward.h"

#include <stdlib.h>

#include "framework/grad_walk.h"
#include "framework/op_registry.h"

/* -- what rules see -------------------------------------------------------------------------------------------- */

const tr_op_desc *tr_grad_forward(const tr_grad_maker *maker) { return maker->forward; }

const char *tr_grad_of_output(const tr_grad_maker *maker, const char *var)
{
    return tr_map_find(&maker->dout, var);
}

const char *tr_grad_for_input(tr_grad_maker *maker, const char *var)
{
    return tr__grad_is_wanted(maker->w, var) ? tr__grad_new_contribution(maker->w, var) : NULL;
}

tr_status tr_grad_append(tr_grad_maker *maker, tr_op_desc *op)
{
    return tr__grad_append_op(maker->w, op, maker->forward, TR_ROLE_BACKWARD);
}

/* Will `var` hold another value when the gradient operator runs? Inside a loop's body, a variable of an outer
 * block that the body writes anywhere is overwritten by the next iteration; and what a block around writes behind
 * the operator that runs this one comes in between, too. */
static bool is_overwritten(const tr_grad_walk *w, const char *var, bool is_output)
{
    const tr_var_desc *desc = tr_block_find_var_recursive(w->block, var);
    int                first = w->position + (is_output ? 1 : 0);

    if (!desc || desc->kind != TR_KIND_TENSOR || desc->persistable)
        return false;
    for (; w; w = w->outer) {
        const bool is_inside = w->target != w->block && desc->block != w->block;
        for (int i = is_inside ? 0 : first; i < w->block->op_count; i++)
            if (tr__grad_op_writes(w->block->op[i], var))
                return true;
        if (desc->block == w->block)
            return false;             /* every activation of the block has its own */
        first = w->outer ? w->outer->position + 1 : 0;
    }
    return false;
}

/* How often the block has written `var` before (or up to) the operator whose turn it is. */
static int version_of(const tr_grad_walk *w, const char *var, bool is_output)
{
    int writers = 0;
    for (int i = 0; i < w->position + (is_output ? 1 : 0); i++)
        writers += tr__grad_op_writes(w->block->op[i], var);
    return writers;
}

const char *tr_grad_saved(tr_grad_maker *maker, const char *var, bool is_output)
{
    tr_grad_walk *w = maker->w;

    if (tr__grad_is_empty_name(var) || !is_overwritten(w, var, is_output))
        return var;
    const char *saved = tr__grad_intern(w, "%s@SAVED@%d", var, version_of(w, var, is_output));
    if (!tr_block_find_var(w->block, saved)) {
        tr_op_desc *assign = tr__grad_unary("assign", var, saved);
        tr__block_var(w->block, saved);      /* here, whatever blocks around have saved */
        if (tr_block_insert_op(w->block, w->position + (is_output ? 1 : 0), assign) != TR_OK) {
            tr_op_desc_free(assign);  /* something that cannot be copied: read what is there */
            tr_block_remove_var(w->block, saved);
            return var;
        }
        w->position += is_output ? 0 : 1;
    }
    return saved;
}

tr_status tr_grad_declare(tr_grad_maker *maker, const char *grad, const char *like)
{
    return tr__grad_declare_like(maker->w, grad, like);
}

/* -- rules that are data ----------------------------------------------------------------------------------------- */

static const char *grad_slot_name(tr_grad_walk *w, const tr_op_proto *proto, const tr_grad_item *item)
{
    const tr_slot_def *def = item->what == TR_GRAD_IN || item->what == TR_GRAD_DIN ? &proto->in[item->slot]
                                                                                   : &proto->out[item->slot];
    return item->what == TR_GRAD_DOUT || item->what == TR_GRAD_DIN ? tr__grad_intern(w, "%s@GRAD", def->name) : def->name;
}

static const tr_slot *forward_slot(const tr_grad_maker *maker, const tr_op_proto *proto, const tr_grad_item *item)
{
    const bool input = item->what == TR_GRAD_IN || item->what == TR_GRAD_DIN;
    return tr__op_desc_slot(maker->forward, !input, input ? proto->in[item->slot].name : proto->out[item->slot].name);
}

/* The gradient of an output; zeros when it has none but another output of the operator has. */
static tr_status dout_or_zeros(const char **out, tr_grad_maker *maker, const char *var)
{
    *out = tr_grad_of_output(maker, var);
    if (*out)
        return TR_OK;
    *out = tr__grad_intern(maker->w, "%s@ZERO", tr__grad_name(maker->w, var));
    return tr_grad_append(maker, tr__grad_unary("fill_zeros_like", var, *out));
}

static tr_status fill_reads(tr_op_desc *grad, tr_grad_maker *maker, const tr_op_proto *proto, const tr_grad_item *item)
{
    const tr_slot *slot = forward_slot(maker, proto, item);

    if (!slot || slot->count == 0)
        return TR_OK;
    const char **names = malloc((size_t)slot->count * sizeof *names);
    tr_status    status = names ? TR_OK : tr_fail(TR_ENOMEM, "%s: no memory for its gradient", maker->forward->type);
    for (int i = 0; status == TR_OK && i < slot->count; i++) {
        if (item->what == TR_GRAD_DOUT)
            status = dout_or_zeros(&names[i], maker, slot->arg[i]);
        else
            names[i] = item->shape_only ? slot->arg[i] : tr_grad_saved(maker, slot->arg[i], item->what == TR_GRAD_OUT);
    }
    if (status == TR_OK)
        tr_op_desc_set_input(grad, grad_slot_name(maker->w, proto, item), slot->count, names);
    free(names);
    return status;
}

static void fill_makes(tr_op_desc *grad, tr_grad_maker *maker, const tr_op_proto *proto, const tr_grad_item *item)
{
    const tr_slot *slot = forward_slot(maker, proto, item);
    bool           any = false;

    if (!slot || slot->count == 0)
        return;
    const char **names = malloc((size_t)slot->count * sizeof *names);
    if (!names)
        abort();
    for (int i = 0; i < slot->count; i++) {
        const char *name = tr_grad_for_input(maker, slot->arg[i]);
        any = any || name;
        names[i] = name ? name : "@EMPTY@";
    }
    if (any)
        tr_op_desc_set_output(grad, grad_slot_name(maker->w, proto, item), slot->count, names);
    free(names);
}

tr_status tr__grad_apply_rule(tr_grad_maker *maker, const tr_op *record)
{
    const tr_op_proto  *proto = tr__op_proto(record);
    const tr_grad_rule *rule = record->grad;
    tr_op_desc         *grad = tr_op_desc_new(rule->op);

    for (int a = 0; a < maker->forward->attr_count; a++)
        tr__attr_copy(grad, &maker->forward->attr[a]);
    for (int k = 0; k < TR_RULE_MAX && rule->reads[k].what != TR_GRAD_END; k++) {
        const tr_status status = fill_reads(grad, maker, proto, &rule->reads[k]);
        if (status != TR_OK) {
            tr_op_desc_free(grad);
            return status;
        }
    }
    for (int k = 0; k < TR_RULE_MAX && rule->makes[k].what != TR_GRAD_END; k++)
        fill_makes(grad, maker, proto, &rule->makes[k]);
    return tr_grad_append(maker, grad);
}

/* -- entry points --------------------------------------------------------------------------------------------------------- */

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

/* What tr_var_desc_gradient tells of before. */
static void forget_gradients(tr_block *block)
{
    for (size_t i = 0; i < block->vars.entry_count; i++)
        if (block->vars.entries[i].key) {
            tr_var_desc *var = block->vars.entries[i].value;
            free(var->gradient);
            var->gradient = NULL;
        }
}

static tr_status append_gradients(tr_program *program, int target_count, const char *const *targets,
                                  const char *const *target_grads, int no_grad_count, const char *const *no_grad_names,
                                  int seed_role)
{
    tr_block *block = tr_program_block(program, 0);
    const int forward_ops = block->op_count;
    tr_map    no_grad = {0};
    tr_grad_walk      w = {.program = program, .block = block, .target = block, .suffix = "@GRAD", .no_grad = &no_grad};
    tr_status status = TR_OK;

    forget_gradients(block);
    for (int i = 0; i < no_grad_count; i++)
        tr_map_put(&no_grad, no_grad_names[i], (void *)(uintptr_t)no_grad_names[i]);
    tr__grad_find_wants(&w, forward_ops);
    for (int i = 0; i < target_count; i++) {
        TR_TRY_GOTO(done, check_target(block, targets[i]));
        TR_TRY_GOTO(done, seed_target(&w, targets[i], target_grads ? target_grads[i] : NULL, seed_role));
    }
    TR_TRY_GOTO(done, tr__grad_walk_ops(&w, forward_ops));
    TR_TRY_GOTO(done, tr__grad_finish_leaves(&w));
done:
    tr__grad_walk_deinit(&w);
    tr_map_deinit(&no_grad);
    return status;
}

tr_status tr_append_gradients(tr_program *program, int target_count, const char *const *targets,
                              const char *const *target_grads, int no_grad_count, const char *const *no_grad)
{
    return append_gradients(program, target_count, targets, target_grads, no_grad_count, no_grad, TR_ROLE_BACKWARD);
}

tr_status tr_append_backward(tr_program *program, const char *loss, int no_grad_count, const char *const *no_grad)
{
    const tr_var_desc *var = tr_block_find_var(tr_program_block(program, 0), loss);

    if (var && var->shape.rank > 0 && tr_shape_numel(&var->shape) != 1)
        return tr_fail(TR_ESHAPE, "backward: the loss '%s' must have one element, it is %s; take its mean or sum", loss,
                       TR_SHAPE_STR(var->shape));
    return append_gradients(program, 1, &loss, NULL, no_grad_count, no_grad, TR_ROLE_BACKWARD | TR_ROLE_LOSS);
}
