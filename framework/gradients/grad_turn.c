/* grad_turn.c - see grad_turn.h. */
#include "framework/gradients/grad_turn.h"

#include "framework/gradients/grad_maker.h"
#include "framework/gradients/grad_second.h"
#include "framework/operators/op_registry.h"

static bool any_input_wants(const tr_grad_walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->in_count; s++)
        for (int i = 0; i < op->in[s].count; i++)
            if (tr__grad_is_wanted(w, op->in[s].arg[i]))
                return true;
    return false;
}

static int count_inputs(const tr_op_desc *op)
{
    int count = 0;
    for (int s = 0; s < op->in_count; s++)
        count += op->in[s].count;
    return count;
}

static bool has_pending_output(const tr_grad_walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const tr_grad_pending *p = tr_map_find(&w->pending, op->out[s].arg[i]);
            if (p && p->count > 0)
                return true;
        }
    return false;
}

static tr_status take_output_grads(tr_grad_maker *maker)
{
    tr_op_desc *op = maker->forward;

    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const char *grad;
            TR_TRY(tr__grad_take(&grad, maker->w, op->out[s].arg[i], op));
            if (grad && tr_map_put(&maker->dout, op->out[s].arg[i], (void *)(uintptr_t)grad) != 0)
                return tr_fail(TR_ENOMEM, "no memory for the gradient of '%s'", op->type);
        }
    return TR_OK;
}

/* An operator that overwrites an element must take its gradient out of the gradient array, wanted or not. */
static bool writes_array(const tr_grad_walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            if (tr__grad_is_array(w->block, op->out[s].arg[i]))
                return true;
    return false;
}

/* The first argument of output `slot` that has a gradient, or NULL. */
static const char *find_arrived(const tr_grad_maker *maker, const tr_slot_def *def)
{
    const tr_slot *slot = tr__op_desc_slot(maker->forward, true, def->name);

    for (int i = 0; slot && i < slot->count; i++)
        if (tr_grad_of_output(maker, slot->arg[i]))
            return slot->arg[i];
    return NULL;
}

/* A gradient may have arrived for an output alone whose gradient the rule does not read. Such gradients end at running statistics. At an
 * intermediate output, which second gradients lead to, none is lost. */
static tr_status apply_rule(tr_grad_maker *maker, const tr_op *record)
{
    const tr_slot_def *out = tr__op_proto(record)->out;
    const char        *lost = NULL;
    bool               any_read = false;

    for (int s = 0; out && out[s].name; s++) {
        const char *arrived = find_arrived(maker, &out[s]);
        const bool  is_read = tr__grad_item_find(record->grad->reads, TR_GRAD_DOUT, s) >= 0;
        any_read |= arrived && is_read;
        if (arrived && !is_read && out[s].flags & TR_SLOT_INTERMEDIATE)
            lost = arrived;
    }
    if (any_read)
        TR_TRY(tr__grad_apply_rule(maker, record));
    if (lost && record->grad->rest)
        return record->grad->rest(maker);
    return lost ? tr_fail(TR_EUNSUPPORTED, "%s: no gradient flows through its output '%s', on which the target depends; set stop_gradient of this "
                          "variable to take it for a constant", maker->forward->type, lost) : TR_OK;
}

static tr_status take_turn(tr_grad_walk *w, tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);
    tr_status    status;

    if (!record || record->updates || !has_pending_output(w, op))
        return TR_OK;
    tr_grad_maker maker = {.w = w, .forward = op};
    TR_TRY_GOTO(done, take_output_grads(&maker));
    if (!(any_input_wants(w, op) || (record->grad && (record->has_block || writes_array(w, op)))))
        goto done;
    if (!record->grad)
        status = tr__grad_second(&maker, record);
    else
        status = record->grad->make ? record->grad->make(&maker) : apply_rule(&maker, record);
    if (status != TR_OK)
        tr_context(status, "while making the gradient of operator '%s' (block %d)", op->type, w->block->index);
done:
    tr_map_deinit(&maker.dout);
    return status;
}

/* Does an operator hand on to its outputs that they want gradients? One that reads nothing (an initializer, a constant) makes leaves. */
static bool hands_on(const tr_grad_walk *w, const tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);

    if (!record || count_inputs(op) == 0)
        return record && !w->only_inputs;
    return tr__grad_flows(record, op) && any_input_wants(w, op);
}

void tr__grad_find_wants(tr_grad_walk *w, int count)
{
    for (int n = 0; n < count; n++) {
        const tr_op_desc *op = w->block->op[n];
        const tr_op      *record = tr_op_find(op->type);
        const bool        flows = hands_on(w, op);
        tr__grad_count_writes(&w->writes, op);
        if (record && record->updates)                 /* what an optimizer has updated is a leaf, as before */
            continue;
        for (int s = 0; s < op->out_count; s++)
            for (int i = 0; i < op->out[s].count; i++) {
                const char *name = op->out[s].arg[i];
                tr_map_put(&w->made, name, op->out[s].arg[i]);
                const bool  asked = flows || tr_map_find(w->inputs, name);
                if (asked && !tr_map_find(w->no_grad, name) && tr__grad_is_float(w->block, name))
                    tr_map_put(&w->wants, name, op->out[s].arg[i]);
            }
    }
}

tr_status tr__grad_walk_ops(tr_grad_walk *w, int count)
{
    for (int n = count - 1; n >= 0; n--) {
        tr_op_desc *op = w->block->op[n];
        w->position = n;
        TR_TRY(take_turn(w, op));
        tr__grad_count_writes(&w->later, op);
    }
    return TR_OK;
}
