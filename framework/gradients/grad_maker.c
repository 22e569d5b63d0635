/* grad_maker.c - see grad_maker.h. */
#include "framework/gradients/grad_maker.h"

#include <stdlib.h>

#include "framework/gradients/grad_walk.h"
#include "framework/operators/op_registry.h"

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

    if (!desc || desc->kind != TR_KIND_TENSOR || desc->persistable)
        return false;
    if (!is_output && tr__grad_op_writes(w->block->op[w->position], var))
        return true;
    for (; w; w = w->outer) {
        const bool is_inside = w->target != w->block && desc->block != w->block;
        if (tr__grad_writes(is_inside ? &w->writes : &w->later, var) > 0)
            return true;
        if (desc->block == w->block)
            return false;             /* every activation of the block has its own */
    }
    return false;
}

/* How often the block has written `var` before (or up to) the operator whose turn it is. */
static int version_of(const tr_grad_walk *w, const char *var, bool is_output)
{
    const bool writes = !is_output && tr__grad_op_writes(w->block->op[w->position], var);

    return tr__grad_writes(&w->writes, var) - tr__grad_writes(&w->later, var) - writes;
}

const char *tr_grad_saved(tr_grad_maker *maker, const char *var, bool is_output)
{
    tr_grad_walk *w = maker->w;

    if (tr__grad_is_empty_name(var) || !is_overwritten(w, var, is_output))
        return var;
    const char *saved = tr__grad_intern(w, "%s@SAVED@%d", var, version_of(w, var, is_output));
    if (!tr_block_find_var(w->block, saved)) {
        tr_op_desc *assign = tr__grad_unary("assign", var, saved);
        if (tr_op_desc_attr_int(maker->forward, "op_role", 0) & TR_ROLE_BACKWARD)
            tr_op_desc_set_int(assign, "op_role", TR_ROLE_BACKWARD, TR_ATTR_INT);
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

/* An output may have no gradient where another output of the operator has one. */
tr_status tr_grad_of_output_or_zeros(const char **out, tr_grad_maker *maker, const char *var)
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
            status = tr_grad_of_output_or_zeros(&names[i], maker, slot->arg[i]);
        else
            names[i] = item->shape_only ? slot->arg[i] : tr_grad_saved(maker, slot->arg[i], item->what == TR_GRAD_OUT);
    }
    if (status == TR_OK)
        tr_op_desc_set_input(grad, grad_slot_name(maker->w, proto, item), slot->count, names);
    free(names);
    return status;
}

/* False: nobody wants a gradient of this slot. */
static bool fill_makes(tr_op_desc *grad, tr_grad_maker *maker, const tr_op_proto *proto, const tr_grad_item *item)
{
    const tr_slot *slot = forward_slot(maker, proto, item);
    bool           any = false;

    if (!slot || slot->count == 0)
        return false;
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
    return any;
}

tr_status tr__grad_apply_rule(tr_grad_maker *maker, const tr_op *record)
{
    const tr_op_proto  *proto = tr__op_proto(record);
    const tr_grad_rule *rule = record->grad;
    tr_op_desc         *grad = tr_op_desc_new(rule->op);
    bool                any = false;

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
        any |= fill_makes(grad, maker, proto, &rule->makes[k]);
    if (any)
        return tr_grad_append(maker, grad);
    tr_op_desc_free(grad);               /* only inputs without a gradient are wanted, such as one that lends its sequences */
    return TR_OK;
}
