/* backward.c - see backward.h. */
#include "framework/backward.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/op_registry.h"

enum { ROLE_BACKWARD = 1, ROLE_LOSS = 0x100 };

/* The contributions to one variable's gradient that are waiting for its producer's turn. */
typedef struct pending {
    int    count, capacity;
    char **name;
} pending;

/* The walk over one block. */
typedef struct walk {
    tr_program        *program;
    tr_block          *block;         /* whose operators are walked */
    tr_block          *target;        /* where gradient operators go: `block` itself, or its gradient block */
    const char        *suffix;        /* of gradient names */
    tr_map             pending;       /* variable -> pending, owned */
    tr_map             wants;         /* variables that want a gradient */
    tr_map             made;          /* variables that this block's operators write */
    const tr_map      *no_grad;
    const struct walk *outer;
    int                position;      /* of the operator whose turn it is */
    int                renames;
    tr_map             strings;       /* names made here, kept until the walk ends */
} walk;

struct tr_grad_maker {
    walk       *w;
    tr_op_desc *forward;
    tr_map      dout;                 /* output variable -> name of its gradient */
};

static tr_status walk_ops(walk *w, int count);

/* -- small helpers ------------------------------------------------------------------------------------- */

static bool is_empty_name(const char *name) { return strcmp(name, "@EMPTY@") == 0; }

/* A name that lives as long as the walk. */
__attribute__((format(printf, 2, 3))) static const char *intern(walk *w, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    char *found = tr_map_find(&w->strings, text);
    if (found)
        return found;
    char *copy = strdup(text);
    if (!copy || tr_map_put(&w->strings, copy, copy) != 0)
        abort();                      /* a few bytes: like every setter of a desc */
    return copy;
}

static bool is_float_var(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var && (var->kind == TR_KIND_ARRAY || var->dtype == TR_DTYPE_NONE || tr_dtype_is_float(var->dtype));
}

static bool wants_grad(const walk *w, const char *name)
{
    if (is_empty_name(name) || tr_map_find(w->no_grad, name) || !is_float_var(w->block, name))
        return false;
    for (; w; w = w->outer)
        if (tr_map_find(&w->made, name))
            return tr_map_find(&w->wants, name) != NULL;
    return true;                      /* a leaf: a parameter, or data that nobody stopped */
}

static void set_int_attr(tr_op_desc *op, const char *name, int64_t value)
{
    tr_op_desc_set_int(op, name, value, TR_ATTR_INT);
}

static tr_status append(walk *w, tr_op_desc *op, const tr_op_desc *origin, int role)
{
    const tr_attr *callstack = origin ? tr__op_desc_attr(origin, "op_callstack") : NULL;

    set_int_attr(op, "op_role", role);
    if (callstack)
        tr__attr_copy(op, callstack);
    const tr_status status = tr_block_insert_op(w->target, -1, op);
    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

static tr_op_desc *unary(const char *type, const char *x, const char *out)
{
    tr_op_desc *op = tr_op_desc_new(type);
    tr_op_desc_set_input(op, "X", 1, &x);
    tr_op_desc_set_output(op, "Out", 1, &out);
    return op;
}

/* -- contributions ---------------------------------------------------------------------------------------- */

static pending *pending_of(walk *w, const char *var)
{
    pending *p = tr_map_find(&w->pending, var);
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p || tr_map_put(&w->pending, intern(w, "%s", var), p) != 0)
            abort();
    }
    return p;
}

static void contribute(walk *w, const char *var, const char *grad)
{
    pending *p = pending_of(w, var);

    if (p->count == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 4;
        p->name = realloc(p->name, (size_t)p->capacity * sizeof *p->name);
        if (!p->name)
            abort();
    }
    p->name[p->count++] = (char *)(uintptr_t)intern(w, "%s", grad);
}

static bool is_array(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var && var->kind == TR_KIND_ARRAY;
}

/* The one gradient of `var`, summed if need be, which is then no longer pending; NULL: there is none. That of a
 * tensor array is itself an array, one for all its readers and writers: they add to its elements, or take one
 * out, in place; so it stays pending. */
static tr_status take_grad(const char **out, walk *w, const char *var, const tr_op_desc *origin)
{
    pending *p = tr_map_find(&w->pending, var);

    *out = NULL;
    if (!p || p->count == 0)
        return TR_OK;
    *out = p->name[0];
    if (is_array(w->block, var))
        return TR_OK;
    if (p->count > 1) {
        *out = intern(w, "%s%s", var, w->suffix);
        tr_op_desc *sum = tr_op_desc_new("sum");
        tr_op_desc_set_input(sum, "X", p->count, (const char *const *)p->name);
        tr_op_desc_set_output(sum, "Out", 1, out);
        TR_TRY(append(w, sum, origin, ROLE_BACKWARD));
    }
    p->count = 0;
    return TR_OK;
}

/* The gradient array of an array lives where the array does. */
static const char *array_gradient(walk *w, const char *var)
{
    const pending *p = pending_of(w, var);
    if (p->count > 0)
        return p->name[0];
    if (w->outer && tr_block_find_var(w->block, var) == NULL)
        contribute(w, var, array_gradient((walk *)(uintptr_t)w->outer, var));
    else
        contribute(w, var, intern(w, "%s%s", var, w->suffix));
    return p->name[0];
}

static const char *new_contribution(walk *w, const char *var)
{
    if (is_array(w->block, var))
        return array_gradient(w, var);
    const pending *p = pending_of(w, var);
    const char    *name = p->count == 0 ? intern(w, "%s%s", var, w->suffix)
                                        : intern(w, "%s%s@RENAME@%d", var, w->suffix, ++w->renames);
    contribute(w, var, name);
    return name;
}

/* -- what rules see -------------------------------------------------------------------------------------------- */

const tr_op_desc *tr_grad_forward(const tr_grad_maker *maker) { return maker->forward; }

const char *tr_grad_of_output(const tr_grad_maker *maker, const char *var)
{
    return tr_map_find(&maker->dout, var);
}

const char *tr_grad_for_input(tr_grad_maker *maker, const char *var)
{
    return wants_grad(maker->w, var) ? new_contribution(maker->w, var) : NULL;
}

tr_status tr_grad_append(tr_grad_maker *maker, tr_op_desc *op)
{
    return append(maker->w, op, maker->forward, ROLE_BACKWARD);
}

static bool writes(const tr_op_desc *op, const char *var)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            if (strcmp(op->out[s].arg[i], var) == 0)
                return true;
    return false;
}

/* Will `var` hold another value when the gradient operator runs? Inside a loop's body, a variable of an outer
 * block that the body writes anywhere is overwritten by the next iteration; and what a block around writes behind
 * the operator that runs this one comes in between, too. */
static bool is_overwritten(const walk *w, const char *var, bool is_output)
{
    const tr_var_desc *desc = tr_block_find_var_recursive(w->block, var);
    int                first = w->position + (is_output ? 1 : 0);

    if (!desc || desc->kind != TR_KIND_TENSOR || desc->persistable)
        return false;
    for (; w; w = w->outer) {
        const bool is_inside = w->target != w->block && desc->block != w->block;
        for (int i = is_inside ? 0 : first; i < w->block->op_count; i++)
            if (writes(w->block->op[i], var))
                return true;
        if (desc->block == w->block)
            return false;             /* every activation of the block has its own */
        first = w->outer ? w->outer->position + 1 : 0;
    }
    return false;
}

/* How often the block has written `var` before (or up to) the operator whose turn it is. */
static int version_of(const walk *w, const char *var, bool is_output)
{
    int writers = 0;
    for (int i = 0; i < w->position + (is_output ? 1 : 0); i++)
        writers += writes(w->block->op[i], var);
    return writers;
}

const char *tr_grad_saved(tr_grad_maker *maker, const char *var, bool is_output)
{
    walk *w = maker->w;

    if (is_empty_name(var) || !is_overwritten(w, var, is_output))
        return var;
    const char *saved = intern(w, "%s@SAVED@%d", var, version_of(w, var, is_output));
    if (!tr_block_find_var(w->block, saved)) {
        tr_op_desc *assign = unary("assign", var, saved);
        tr_block_create_var(w->block, saved);      /* here, whatever blocks around have saved */
        if (tr_block_insert_op(w->block, w->position + (is_output ? 1 : 0), assign) != TR_OK) {
            tr_op_desc_free(assign);  /* something that cannot be copied: read what is there */
            tr_block_remove_var(w->block, saved);
            return var;
        }
        w->position += is_output ? 0 : 1;
    }
    return saved;
}

/* -- rules that are data ----------------------------------------------------------------------------------------- */

static const char *grad_slot_name(walk *w, const tr_op_proto *proto, const tr_grad_item *item)
{
    const tr_slot_def *def = item->what == TR_GRAD_IN || item->what == TR_GRAD_DIN ? &proto->in[item->slot]
                                                                                   : &proto->out[item->slot];
    return item->what == TR_GRAD_DOUT || item->what == TR_GRAD_DIN ? intern(w, "%s@GRAD", def->name) : def->name;
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
    *out = intern(maker->w, "%s%s@ZERO", var, maker->w->suffix);
    return tr_grad_append(maker, unary("fill_zeros_like", var, *out));
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

static tr_status apply_data_rule(tr_grad_maker *maker, const tr_op *record)
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

/* -- the walk -------------------------------------------------------------------------------------------------------- */

static bool any_input_wants(const walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->in_count; s++)
        for (int i = 0; i < op->in[s].count; i++)
            if (wants_grad(w, op->in[s].arg[i]))
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

static bool has_pending_output(const walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const pending *p = tr_map_find(&w->pending, op->out[s].arg[i]);
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
            TR_TRY(take_grad(&grad, maker->w, op->out[s].arg[i], op));
            if (grad && tr_map_put(&maker->dout, op->out[s].arg[i], (void *)(uintptr_t)grad) != 0)
                return tr_fail(TR_ENOMEM, "no memory for the gradient of '%s'", op->type);
        }
    return TR_OK;
}

/* What overwrites an element must take its gradient out of the gradient array, wanted or not. */
static bool writes_array(const walk *w, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            if (is_array(w->block, op->out[s].arg[i]))
                return true;
    return false;
}

static tr_status take_turn(walk *w, tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);
    tr_status    status;

    if (!record || !has_pending_output(w, op))
        return TR_OK;
    tr_grad_maker maker = {.w = w, .forward = op};
    TR_TRY_GOTO(done, take_output_grads(&maker));
    if (!record->grad || !(any_input_wants(w, op) || record->has_block || writes_array(w, op)))
        goto done;
    status = record->grad->make ? record->grad->make(&maker) : apply_data_rule(&maker, record);
    if (status != TR_OK)
        tr_context(status, "while making the gradient of operator '%s' (block %d)", op->type, w->block->index);
done:
    tr_map_deinit(&maker.dout);
    return status;
}

/* Which variables want gradients, in program order: those computed from something that does. */
static void find_wants(walk *w, int count)
{
    for (int n = 0; n < count; n++) {
        const tr_op_desc *op = w->block->op[n];
        const tr_op      *record = tr_op_find(op->type);
        /* What comes from nothing (an initializer, a constant) is a leaf. */
        const bool        flows = record && (count_inputs(op) == 0 || (record->grad && any_input_wants(w, op)));
        for (int s = 0; s < op->out_count; s++)
            for (int i = 0; i < op->out[s].count; i++) {
                const char *name = op->out[s].arg[i];
                tr_map_put(&w->made, name, op->out[s].arg[i]);
                if (flows && !tr_map_find(w->no_grad, name) && is_float_var(w->block, name))
                    tr_map_put(&w->wants, name, op->out[s].arg[i]);
            }
    }
}

static tr_status walk_ops(walk *w, int count)
{
    for (int n = count - 1; n >= 0; n--) {
        w->position = n;
        TR_TRY(take_turn(w, w->block->op[n]));
    }
    return TR_OK;
}

/* What is still pending belongs to leaves: sum what came several times. */
static tr_status finish_leaves(walk *w)
{
    for (size_t i = 0; i < w->pending.entry_count; i++) {
        const char *grad;
        if (!w->pending.entries[i].key)
            continue;
        TR_TRY(take_grad(&grad, w, w->pending.entries[i].key, NULL));
    }
    return TR_OK;
}

static void walk_deinit(walk *w)
{
    for (size_t i = 0; i < w->pending.entry_count; i++)
        if (w->pending.entries[i].key) {
            pending *p = w->pending.entries[i].value;
            free(p->name);
            free(p);
        }
    tr_map_deinit(&w->pending);
    tr_map_deinit(&w->wants);
    tr_map_deinit(&w->made);
    for (size_t i = 0; i < w->strings.entry_count; i++)
        free(w->strings.entries[i].value);
    tr_map_deinit(&w->strings);
}

/* -- sub-blocks --------------------------------------------------------------------------------------------------------- */

static bool block_writes(const tr_block *block, const char *var)
{
    for (int i = 0; i < block->op_count; i++)
        if (writes(block->op[i], var))
            return true;
    return false;
}

/* Leave the gradient of outer variable `var` in `grad`. */
static tr_status settle(walk *w, const char *var, const char *grad, const tr_op_desc *origin)
{
    const char *inner;

    if (is_array(w->block, var))
        return TR_OK;                 /* changed in place */
    TR_TRY(take_grad(&inner, w, var, origin));
    if (block_writes(w->block, var)) {
        if (inner && strcmp(inner, grad) == 0)
            return TR_OK;             /* nothing in the block touched it on the way */
        return append(w, inner ? unary("assign", inner, grad) : unary("fill_zeros_like", grad, grad), origin, ROLE_BACKWARD);
    }
    if (!inner)
        return TR_OK;
    const char *const terms[] = {grad, inner};
    tr_op_desc       *sum = tr_op_desc_new("sum");
    tr_op_desc_set_input(sum, "X", 2, terms);
    tr_op_desc_set_output(sum, "Out", 1, &grad);
    return append(w, sum, origin, ROLE_BACKWARD);
}

/* A variable of the walk's target that looks like another one. */
static tr_status declare_like(walk *w, const char *name, const char *like)
{
    const tr_var_desc *from = tr_block_find_var_recursive(w->block, like);

    if (!from)
        return tr_fail(TR_ENOTFOUND, "backward: there is no variable '%s'", like);
    if (from->kind == TR_KIND_ARRAY && tr_block_find_var_recursive(w->target, name))
        return TR_OK;                 /* the one of a block around */
    tr_var_desc *var = tr_block_create_var(w->target, name);
    tr_var_desc_set_kind(var, from->kind);
    tr_var_desc_set_dtype(var, from->dtype);
    tr_var_desc_set_lod_level(var, from->lod_level);
    return tr_var_desc_set_shape(var, from->shape.rank, from->shape.dim);
}

tr_status tr_grad_declare(tr_grad_maker *maker, const char *grad, const char *like)
{
    return declare_like(maker->w, grad, like);
}

static tr_status begin_links(walk *w, tr_grad_maker *maker, const tr_grad_links *links)
{
    for (int i = 0; i < links->out_count; i++) {
        const char *grad = new_contribution(w, links->out[i]);
        TR_TRY(declare_like(w, grad, links->out[i]));
        links->out_grad[i] = intern(maker->w, "%s", grad);
    }
    return TR_OK;
}

static tr_status end_links(walk *w, tr_grad_maker *maker, const tr_grad_links *links)
{
    for (int i = 0; i < links->in_count; i++) {
        const char *grad;
        TR_TRY(take_grad(&grad, w, links->in[i], maker->forward));
        links->in_grad[i] = grad ? intern(maker->w, "%s", grad) : NULL;
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
    walk w = {.program = maker->w->program, .block = forward, .target = target, .suffix = suffix,
              .no_grad = maker->w->no_grad, .outer = maker->w};
    for (int i = 0; i < count; i++)
        if (grads[i] && block_writes(forward, vars[i])) {
            tr_map_put(&w.wants, vars[i], (void *)(uintptr_t)vars[i]);
            contribute(&w, vars[i], grads[i]);
        }
    find_wants(&w, forward->op_count);
    TR_TRY_GOTO(done, begin_links(&w, maker, links));
    TR_TRY_GOTO(done, walk_ops(&w, forward->op_count));
    TR_TRY_GOTO(done, end_links(&w, maker, links));
    for (int i = 0; i < count; i++)
        if (grads[i])
            TR_TRY_GOTO(done, settle(&w, vars[i], grads[i], maker->forward));
    *grad_block = target->index;
done:
    walk_deinit(&w);
    return status;
}

/* -- entry points --------------------------------------------------------------------------------------------------------- */

static tr_status seed_target(walk *w, const char *target, const char *given, int role)
{
    const char *name = intern(w, "%s@GRAD", target);

    if (given) {
        contribute(w, target, given);
        return TR_OK;
    }
    const tr_var_desc *var = tr_block_find_var(w->block, target);
    if (tr_shape_numel(&var->shape) == 1 && var->shape.rank > 0) {
        tr_op_desc *fill = tr_op_desc_new("fill_constant");
        tr_op_desc_set_ints(fill, "shape", var->shape.rank, var->shape.dim, TR_ATTR_LONGS);
        set_int_attr(fill, "dtype", var->dtype);
        tr_op_desc_set_float(fill, "value", 1.0);
        tr_op_desc_set_output(fill, "Out", 1, &name);
        TR_TRY(append(w, fill, NULL, role));
    } else {
        const char *zeros = intern(w, "%s@GRAD@ZERO", target);
        TR_TRY(append(w, unary("fill_zeros_like", target, zeros), NULL, role));
        tr_op_desc *ones = unary("scale", zeros, name);
        tr_op_desc_set_float(ones, "bias", 1.0);
        TR_TRY(append(w, ones, NULL, role));
    }
    contribute(w, target, name);
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

static tr_status append_gradients(tr_program *program, int target_count, const char *const *targets,
                                  const char *const *target_grads, int no_grad_count, const char *const *no_grad_names,
                                  int seed_role)
{
    tr_block *block = tr_program_block(program, 0);
    const int forward_ops = block->op_count;
    tr_map    no_grad = {0};
    walk      w = {.program = program, .block = block, .target = block, .suffix = "@GRAD", .no_grad = &no_grad};
    tr_status status = TR_OK;

    for (int i = 0; i < no_grad_count; i++)
        tr_map_put(&no_grad, no_grad_names[i], (void *)(uintptr_t)no_grad_names[i]);
    find_wants(&w, forward_ops);
    for (int i = 0; i < target_count; i++) {
        TR_TRY_GOTO(done, check_target(block, targets[i]));
        TR_TRY_GOTO(done, seed_target(&w, targets[i], target_grads ? target_grads[i] : NULL, seed_role));
    }
    TR_TRY_GOTO(done, walk_ops(&w, forward_ops));
    TR_TRY_GOTO(done, finish_leaves(&w));
done:
    walk_deinit(&w);
    tr_map_deinit(&no_grad);
    return status;
}

tr_status tr_append_gradients(tr_program *program, int target_count, const char *const *targets,
                              const char *const *target_grads, int no_grad_count, const char *const *no_grad)
{
    return append_gradients(program, target_count, targets, target_grads, no_grad_count, no_grad, ROLE_BACKWARD);
}

tr_status tr_append_backward(tr_program *program, const char *loss, int no_grad_count, const char *const *no_grad)
{
    const tr_var_desc *var = tr_block_find_var(tr_program_block(program, 0), loss);

    if (var && var->shape.rank > 0 && tr_shape_numel(&var->shape) != 1)
        return tr_fail(TR_ESHAPE, "backward: the loss '%s' must have one element, it is %s; take its mean or sum", loss,
                       TR_SHAPE_STR(var->shape));
    return append_gradients(program, 1, &loss, NULL, no_grad_count, no_grad, ROLE_BACKWARD | ROLE_LOSS);
}
