/* foreign_inputs.c - see foreign_inputs.h. */
#include "framework/gradients/foreign_inputs.h"

#include <string.h>

#include "framework/gradients/grad_walk.h"
#include "framework/operators/op_registry.h"

/* A gradient operator and its place. */
typedef struct search {
    const tr_program *program;
    const tr_block   *block;
    int               index;
    const tr_op_desc *grad;
    const tr_op      *record;
} search;

static bool is_missing(const tr_op_desc *op, const tr_slot_def *def)
{
    const tr_slot *slot = tr__op_desc_slot(op, false, def->name);

    return (!slot || slot->count == 0) && !(def->flags & TR_SLOT_OPTIONAL);
}

/* Slots of the gradient operator stand in the order of what its rule reads. */
static bool lacks_inputs(const search *s)
{
    if (!s->record || !s->record->grad_of || s->record->proto)
        return false;
    const tr_grad_item *reads = s->record->grad_of->grad->reads;
    const tr_slot_def  *in = tr__op_proto(s->record)->in;
    for (int k = 0; k < TR_RULE_MAX && reads[k].what != TR_GRAD_END; k++)
        if (reads[k].what != TR_GRAD_DOUT && is_missing(s->grad, &in[k]))
            return true;
    return false;
}

/* -- inputs that are not read -------------------------------------------------------------------------------- */

static bool names_slot(const tr_slot_def *slots, const char *name, size_t length)
{
    for (int i = 0; slots && slots[i].name; i++)
        if (strlen(slots[i].name) == length && strncmp(slots[i].name, name, length) == 0)
            return true;
    return false;
}

static bool is_zeros(const tr_block *block, int index, const char *var)
{
    while (--index >= 0)
        if (tr__grad_op_writes(block->op[index], var))
            return strcmp(block->op[index]->type, "fill_zeros_like") == 0;
    return false;
}

/* May a gradient operator have this slot, though it does not read it? */
static bool may_stay(const tr_op *record, const tr_block *block, int index, const tr_slot *slot)
{
    const size_t length = strlen(slot->name), end = length > 5 ? length - 5 : 0;

    if (!record->grad_of || record->proto)
        return false;
    const tr_op_proto *forward = tr__op_proto(record->grad_of);
    if (names_slot(forward->in, slot->name, length) || names_slot(forward->out, slot->name, length))
        return true;
    bool is_gradient = strcmp(slot->name + end, "@GRAD") == 0 && names_slot(forward->out, slot->name, end);
    for (int i = 0; is_gradient && i < slot->count; i++)
        is_gradient = tr__grad_is_empty_name(slot->arg[i]) || is_zeros(block, index, slot->arg[i]);
    return is_gradient;
}

static bool is_used(const tr_slot *slot)
{
    for (int i = 0; i < slot->count; i++)
        if (!tr__grad_is_empty_name(slot->arg[i]))
            return true;
    return false;
}

tr_status tr__check_unread_inputs(const tr_block *block, int index)
{
    const tr_op_desc *op = block->op[index];
    const tr_op      *record = tr_op_find(op->type);

    for (int i = 0; record && i < op->in_count; i++) {
        const tr_slot *slot = &op->in[i];
        if (is_used(slot) && !names_slot(tr__op_proto(record)->in, slot->name, strlen(slot->name)) && !may_stay(record, block, index, slot))
            return tr_fail(TR_EUNSUPPORTED, "%s: there is no input named %s, which the program gives '%s'; without it the result would be another one",
                           op->type, slot->name, slot->arg[0]);
    }
    return TR_OK;
}

/* -- the forward operator --------------------------------------------------------------------------------- */

/* v@GRAD, or another name that begins so: walks and sums put something behind it. */
static bool is_gradient_of(const char *grad, const char *var)
{
    const size_t length = strlen(var);

    return strncmp(grad, var, length) == 0 && strncmp(grad + length, "@GRAD", 5) == 0;
}

/* Each gradient that is read is that of an output of `forward`; one of them at least. */
static bool is_forward(const search *s, const tr_op_desc *forward)
{
    const tr_grad_item *reads = s->record->grad_of->grad->reads;
    const tr_slot_def  *out = tr__op_proto(s->record->grad_of)->out, *in = tr__op_proto(s->record)->in;
    bool                any = false;

    if (strcmp(forward->type, s->record->grad_of->type) != 0)
        return false;
    for (int k = 0; k < TR_RULE_MAX && reads[k].what != TR_GRAD_END; k++) {
        if (reads[k].what != TR_GRAD_DOUT)
            continue;
        const tr_slot *grads = tr__op_desc_slot(s->grad, false, in[k].name), *vars = tr__op_desc_slot(forward, true, out[reads[k].slot].name);
        for (int i = 0; grads && i < grads->count; i++) {
            if (tr__grad_is_empty_name(grads->arg[i]))
                continue;
            if (!vars || i >= vars->count || !is_gradient_of(grads->arg[i], vars->arg[i]))
                return false;
            any = true;
        }
    }
    return any;
}

/* The last one before the gradient operator, in its block or in the block whose gradient block that is; *from is where. */
static const tr_op_desc *find_forward(const tr_block **from, int *at, const search *s)
{
    const tr_block *forward = s->block->has_forward && s->block->forward >= 0 ? s->program->block[s->block->forward] : NULL;

    *from = s->block;
    for (*at = s->index - 1; *at >= 0; --*at)
        if (is_forward(s, s->block->op[*at]))
            return s->block->op[*at];
    *from = forward;
    for (*at = forward ? forward->op_count - 1 : -1; *at >= 0; --*at)
        if (is_forward(s, forward->op[*at]))
            return forward->op[*at];
    return NULL;
}

static bool is_overwritten(const search *s, const tr_block *from, int at, bool is_output, const tr_slot *slot)
{
    const int end = from == s->block ? s->index : from->op_count;

    for (int i = at + (is_output ? 1 : 0); i < end; i++)
        for (int a = 0; a < slot->count; a++)
            if (tr__grad_op_writes(from->op[i], slot->arg[a]))
                return true;
    return false;
}

/* -- completing --------------------------------------------------------------------------------------------- */

static void complete(tr_op_desc *op, const search *s)
{
    const tr_op_proto  *forward_proto = tr__op_proto(s->record->grad_of);
    const tr_grad_item *reads = s->record->grad_of->grad->reads;
    const tr_slot_def  *in = tr__op_proto(s->record)->in;
    const tr_block     *from;
    int                 at;
    const tr_op_desc   *forward = find_forward(&from, &at, s);

    for (int k = 0; forward && k < TR_RULE_MAX && reads[k].what != TR_GRAD_END; k++) {
        const bool is_output = reads[k].what == TR_GRAD_OUT;
        if (reads[k].what == TR_GRAD_DOUT || !is_missing(op, &in[k]))
            continue;
        const tr_slot *slot = tr__op_desc_slot(forward, is_output, (is_output ? forward_proto->out : forward_proto->in)[reads[k].slot].name);
        if (slot && slot->count > 0 && (reads[k].shape_only || !is_overwritten(s, from, at, is_output, slot)))
            tr_op_desc_set_input(op, in[k].name, slot->count, (const char *const *)slot->arg);
    }
}

/* Calls `act` for each gradient operator that lacks an input, until it returns true. */
static bool each_lacking(const tr_program *program, bool (*act)(const search *s))
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->block[b]->op_count; i++) {
            const tr_op_desc *op = program->block[b]->op[i];
            const search      s = {.program = program, .block = program->block[b], .index = i, .grad = op, .record = tr_op_find(op->type)};
            if (lacks_inputs(&s) && act(&s))
                return true;
        }
    return false;
}

static bool is_found(const search *s)
{
    (void)s;
    return true;
}

static bool complete_it(const search *s)
{
    complete(s->block->op[s->index], s);
    return false;
}

bool tr__gradients_lack_inputs(const tr_program *program) { return each_lacking(program, is_found); }
void tr__gradients_complete(tr_program *program)          { each_lacking(program, complete_it); }
