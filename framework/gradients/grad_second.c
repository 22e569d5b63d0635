/* grad_second.c - see grad_second.h.
 *
 * In the names here, `op` is the gradient operator whose turn it is, and `forward` the record of the operator whose gradient
 * it is. The slots of `op` are called after those of `forward`: X, Out, Out@GRAD among its inputs, X@GRAD among its outputs. */
#include "framework/gradients/grad_second.h"

#include <assert.h>
#include <stdlib.h>

#include "framework/base/memory.h"
#include "framework/gradients/grad_walk.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/op_desc.h"

typedef struct second {
    tr_grad_maker     *maker;
    const tr_op_desc  *op;
    const tr_op       *forward;
    const tr_op_proto *proto;         /* of `forward` */
} second;

static second begin(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    const tr_op      *forward = tr_op_find(op->type)->grad_of;

    return (second){maker, op, forward, tr__op_proto(forward)};
}

static bool makes(const second *s, int slot)
{
    return tr__grad_item_find(s->forward->grad->makes, TR_GRAD_DIN, slot) >= 0;
}

/* -- arguments ----------------------------------------------------------------------------------------------------- */

static const tr_slot *grad_slot(const second *s, const tr_slot_def *def, bool output)
{
    return tr__op_desc_slot(s->op, output, tr__grad_intern(s->maker->w, "%s@GRAD", def->name));
}

/* The gradient of output X@GRAD, argument `index`; NULL: none arrives. */
static const char *arrived(const second *s, const tr_slot_def *def, int index)
{
    const tr_slot *made = grad_slot(s, def, true);

    return made && index < made->count ? tr_grad_of_output(s->maker, made->arg[index]) : NULL;
}

static bool any_arrived(const second *s, const tr_slot_def *def)
{
    const tr_slot *made = grad_slot(s, def, true);

    for (int i = 0; made && i < made->count; i++)
        if (tr_grad_of_output(s->maker, made->arg[i]))
            return true;
    return false;
}

/* The gradient that arrived for X@GRAD, or zeros like X. */
static tr_status arrived_or_zeros(const char **out, const second *s, const tr_slot_def *def, int index)
{
    const tr_slot *x = tr__op_desc_slot(s->op, false, def->name);

    *out = arrived(s, def, index);
    if (*out)
        return TR_OK;
    assert(x && index < x->count && "a rule of this kind reads the shape of each input whose gradient it makes");
    *out = tr__grad_intern(s->maker->w, "%s@ZERO@%d", x->arg[index], ++s->maker->w->renames);
    return tr_grad_append(s->maker, tr__grad_unary("fill_zeros_like", x->arg[index], *out));
}

static void set_args(tr_op_desc *to, bool output, const char *slot, int count, const char *const *names)
{
    (output ? tr_op_desc_set_output : tr_op_desc_set_input)(to, slot, count, names);
}

/* The arguments that `op` has read in a slot are read again. */
static void read_again(tr_op_desc *to, const second *s, const char *name)
{
    const tr_slot *slot = tr__op_desc_slot(s->op, false, name);

    if (!slot || slot->count == 0)
        return;
    const char **names = tr__must_alloc((size_t)slot->count * sizeof *names);
    for (int i = 0; i < slot->count; i++)
        names[i] = tr_grad_saved(s->maker, slot->arg[i], false);
    set_args(to, false, name, slot->count, names);
    free(names);
}

/* As many arguments as X has, each the gradient that has arrived for it. */
static tr_status read_arrived(tr_op_desc *to, const second *s, const tr_slot_def *def, const char *as)
{
    const tr_slot *x = tr__op_desc_slot(s->op, false, def->name), *made = grad_slot(s, def, true);
    const int      count = x ? x->count : made ? made->count : 0;
    const char   **names = tr__must_alloc((size_t)(count + 1) * sizeof *names);
    tr_status      status = TR_OK;

    for (int i = 0; status == TR_OK && i < count; i++)
        status = arrived_or_zeros(&names[i], s, def, i);
    if (status == TR_OK && count > 0)
        set_args(to, false, as, count, names);
    free(names);
    return status;
}

/* Contributions to the gradients of the arguments that `op` has read in slot `from`, as outputs in slot `as`. False: nobody
 * wants one. */
static bool write_gradients(tr_op_desc *to, const second *s, const char *from, const char *as)
{
    const tr_slot *slot = tr__op_desc_slot(s->op, false, from);
    bool           any = false;

    if (!slot || slot->count == 0)
        return false;
    const char **names = tr__must_alloc((size_t)slot->count * sizeof *names);
    for (int i = 0; i < slot->count; i++) {
        names[i] = tr_grad_for_input(s->maker, slot->arg[i]);
        any = any || names[i];
        if (!names[i])
            names[i] = tr__grad_intern(s->maker->w, "%s@UNUSED@%d", slot->arg[i], ++s->maker->w->renames);
    }
    set_args(to, true, as, slot->count, names);
    free(names);
    return any;
}

static tr_op_desc *new_op(const second *s, const char *type)
{
    tr_op_desc *to = tr_op_desc_new(type);

    for (int a = 0; a < s->op->attr_count; a++)
        tr__attr_copy(to, &s->op->attr[a]);
    return to;
}

static bool wants_any(const second *s, const char *name)
{
    const tr_slot *slot = tr__op_desc_slot(s->op, false, name);

    for (int i = 0; slot && i < slot->count; i++)
        if (tr__grad_is_wanted(s->maker->w, slot->arg[i]))
            return true;
    return false;
}

/* -- F again --------------------------------------------------------------------------------------------------------- */

/* An output of F that F_grad reads and has no gradient of: a third gradient will read it, too. */
static void write_beside(tr_op_desc *to, const second *s, int slot)
{
    const char    *name = s->proto->out[slot].name;
    const tr_slot *read = tr__op_desc_slot(s->op, false, name);

    if (!read || read->count != 1 || tr__op_desc_slot(to, true, name))
        return;
    const char *made = tr__grad_intern(s->maker->w, "%s@UNUSED@%d", read->arg[0], ++s->maker->w->renames);
    set_args(to, true, name, 1, &made);
}

/* F with the gradient that arrived in place of input `replaced` (-1: of all inputs that F is linear in); its outputs are
 * contributions to the gradients of Out@GRAD. */
static tr_status forward_again(const second *s, int replaced)
{
    tr_op_desc *to = new_op(s, s->forward->type);
    bool        any = false;
    tr_status   status = TR_OK;

    for (int i = 0; status == TR_OK && s->proto->in && s->proto->in[i].name; i++) {
        const tr_slot_def *def = &s->proto->in[i];
        if (replaced < 0 ? makes(s, i) : i == replaced)
            status = read_arrived(to, s, def, def->name);
        else
            read_again(to, s, def->name);
    }
    for (int i = 0; status == TR_OK && s->proto->out[i].name; i++) {
        any |= write_gradients(to, s, tr__grad_intern(s->maker->w, "%s@GRAD", s->proto->out[i].name), s->proto->out[i].name);
        write_beside(to, s, i);
    }
    if (status == TR_OK && any)
        return tr_grad_append(s->maker, to);
    tr_op_desc_free(to);
    return status;
}

static bool wants_dout(const second *s)
{
    for (const tr_slot_def *def = s->proto->out; def->name; def++)
        if (wants_any(s, tr__grad_intern(s->maker->w, "%s@GRAD", def->name)))
            return true;
    return false;
}

tr_status tr__second_linear(tr_grad_maker *maker)
{
    const second s = begin(maker);

    return wants_dout(&s) ? forward_again(&s, -1) : TR_OK;
}

/* -- F_grad again ------------------------------------------------------------------------------------------------------ */

/* The gradient of input `wanted`: F_grad with the gradient that arrived for input `replaced` in its place. */
static tr_status backward_again(const second *s, int wanted, int replaced)
{
    const tr_slot_def *want = &s->proto->in[wanted], *def = &s->proto->in[replaced];
    const tr_slot     *slots = s->op->in;

    if (!any_arrived(s, def) || !wants_any(s, want->name))
        return TR_OK;
    tr_op_desc *to = new_op(s, s->op->type);
    tr_status   status = TR_OK;
    for (int i = 0; status == TR_OK && i < s->op->in_count; i++)
        if (strcmp(slots[i].name, def->name) == 0)
            status = read_arrived(to, s, def, def->name);
        else
            read_again(to, s, slots[i].name);
    if (status != TR_OK) {
        tr_op_desc_free(to);
        return status;
    }
    write_gradients(to, s, want->name, tr__grad_intern(s->maker->w, "%s@GRAD", want->name));
    return tr_grad_append(s->maker, to);
}

tr_status tr__second_bilinear(tr_grad_maker *maker)
{
    const second        s = begin(maker);
    const tr_grad_item *made = s.forward->grad->makes;
    const int           a = made[0].slot, b = made[1].slot;

    for (int k = 2; k < TR_RULE_MAX && made[k].what != TR_GRAD_END; k++)
        if (any_arrived(&s, &s.proto->in[made[k].slot]))
            return tr_fail(TR_EUNSUPPORTED, "%s: the gradient of %s has no gradient; leave %s out, and add it by elementwise_add",
                           s.op->type, s.proto->in[made[k].slot].name, s.proto->in[made[k].slot].name);
    if (wants_dout(&s) && any_arrived(&s, &s.proto->in[a]))
        TR_TRY(forward_again(&s, a));
    if (wants_dout(&s) && any_arrived(&s, &s.proto->in[b]))
        TR_TRY(forward_again(&s, b));
    TR_TRY(backward_again(&s, a, b));
    return backward_again(&s, b, a);
}

tr_status tr__second_gate(tr_grad_maker *maker)
{
    const second       s = begin(maker);
    const tr_grad_rule *rule = s.forward->grad;
    const tr_slot_def *x = &s.proto->in[rule->makes[0].slot];
    const char        *dout = NULL, *grad = arrived(&s, x, 0);

    for (int k = 0; k < TR_RULE_MAX && rule->reads[k].what != TR_GRAD_END; k++)
        if (rule->reads[k].what == TR_GRAD_DOUT)
            dout = tr__grad_intern(maker->w, "%s@GRAD", s.proto->out[rule->reads[k].slot].name);
    assert(dout && "a gate reads the gradient of one output");
    if (!grad || !wants_any(&s, dout))
        return TR_OK;
    tr_op_desc *to = new_op(&s, s.op->type);
    for (int i = 0; i < s.op->in_count; i++)
        if (strcmp(s.op->in[i].name, dout) != 0)
            read_again(to, &s, s.op->in[i].name);
    set_args(to, false, dout, 1, &grad);
    write_gradients(to, &s, dout, tr__grad_intern(maker->w, "%s@GRAD", x->name));
    return tr_grad_append(maker, to);
}

/* -- the turn of an operator without a rule ------------------------------------------------------------------------------ */

static const tr_grad_rule *rule_of_forward(const tr_op *record)
{
    return !record->proto && record->grad_of ? record->grad_of->grad : NULL;
}

/* A gradient operator, or another one that an earlier walk has added. fill_zeros_like, which walks add, reads a variable for its
 * shape alone. */
static bool is_of_gradients(const tr_op *record, const tr_op_desc *op)
{
    const bool is_backward = tr_op_desc_attr_int(op, "op_role", 0) & TR_ROLE_BACKWARD;

    return record->grad_of || (is_backward && strcmp(op->type, "fill_zeros_like") != 0);
}

bool tr__grad_flows(const tr_op *record, const tr_op_desc *op)
{
    return record->grad || is_of_gradients(record, op);
}

tr_status tr__grad_second(tr_grad_maker *maker, const tr_op *record)
{
    const tr_grad_rule *rule = rule_of_forward(record);
    const tr_op_desc   *op = tr_grad_forward(maker);

    if (rule && rule->second)
        return rule->second(maker);
    if (!is_of_gradients(record, op))
        return TR_OK;
    return tr_fail(TR_EUNSUPPORTED, "gradients of gradients: operator '%s' has no gradient, and it computes '%s', on which the target "
                   "depends; set stop_gradient of this variable to take it for a constant", op->type, tr_op_desc_output_args(op) > 0
                   ? tr_op_desc_output_arg(op, 0) : "nothing");
}
