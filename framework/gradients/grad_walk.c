/* grad_walk.c - see grad_walk.h. */
#include "framework/gradients/grad_walk.h"

#include <stdarg.h>
#include <stdlib.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"

/* -- small helpers ------------------------------------------------------------------------------------- */

const char *tr__grad_intern(tr_grad_walk *w, const char *format, ...)
{
    char    text[1024];
    va_list args;
    va_start(args, format);
    tr__vformat(text, sizeof text, format, args);
    va_end(args);
    char *found = tr_map_find(&w->strings, text);
    if (found)
        return found;
    char *copy = strdup(text);
    if (!copy || tr_map_put(&w->strings, copy, copy) != 0)
        abort();                      /* a few bytes: like every setter of a desc */
    return copy;
}

const char *tr__grad_name(tr_grad_walk *w, const char *var)
{
    const char *name = tr_map_find(&w->grad_name, var);

    if (name)
        return name;
    name = tr__grad_intern(w, "%s%s", var, w->suffix);
    for (int i = 0; tr_block_find_var(w->target, name); i++)
        name = tr__grad_intern(w, "%s%s_%d", var, w->suffix, i);
    if (tr_map_put(&w->grad_name, tr__grad_intern(w, "%s", var), (void *)(uintptr_t)name) != 0)
        abort();
    return name;
}

bool tr__grad_is_float(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var && (var->kind == TR_KIND_ARRAY || var->dtype == TR_DTYPE_NONE || tr_dtype_is_float(var->dtype));
}

bool tr__grad_is_wanted(const tr_grad_walk *w, const char *name)
{
    const tr_grad_walk *innermost = w;

    if (tr__grad_is_empty_name(name) || tr_map_find(w->no_grad, name) || !tr__grad_is_float(w->block, name))
        return false;
    for (; w; w = w->outer)
        if (tr_map_find(&w->made, name))
            return tr_map_find(&w->wants, name) != NULL;
    /* A leaf: a parameter, data that nobody stopped, or what the operator of a sub-block hands to the block. */
    return !innermost->only_inputs || tr_map_find(innermost->inputs, name) ||
           tr_block_find_var_recursive(innermost->block, name)->block->index != 0;
}

tr_status tr__grad_append_op(tr_grad_walk *w, tr_op_desc *op, const tr_op_desc *origin, int role)
{
    const tr_attr *callstack = origin ? tr__op_desc_attr(origin, "op_callstack") : NULL;

    tr_op_desc_set_int(op, "op_role", role, TR_ATTR_INT);
    if (callstack)
        tr__attr_copy(op, callstack);
    const tr_status status = tr_block_insert_op(w->target, -1, op);
    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

tr_op_desc *tr__grad_unary(const char *type, const char *x, const char *out)
{
    tr_op_desc *op = tr_op_desc_new(type);
    tr_op_desc_set_input(op, "X", 1, &x);
    tr_op_desc_set_output(op, "Out", 1, &out);
    return op;
}

bool tr__grad_op_writes(const tr_op_desc *op, const char *var)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            if (strcmp(op->out[s].arg[i], var) == 0)
                return true;
    return false;
}

void tr__grad_count_writes(tr_map *map, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++) {
            const char *var = op->out[s].arg[i];
            if (tr_map_put(map, var, (void *)(intptr_t)(tr__grad_writes(map, var) + 1)) != 0)
                abort();
        }
}

int tr__grad_writes(const tr_map *map, const char *var)
{
    return (int)(intptr_t)tr_map_find(map, var);
}

tr_status tr__grad_declare_like(tr_grad_walk *w, const char *name, const char *like)
{
    const tr_var_desc *from = tr_block_find_var_recursive(w->block, like);

    if (!from)
        return tr_fail(TR_ENOTFOUND, "backward: there is no variable '%s'", like);
    if (from->kind == TR_KIND_ARRAY && tr_block_find_var_recursive(w->target, name))
        return TR_OK;                 /* the one of a block around */
    tr_var_desc *var = tr__block_var(w->target, name);
    tr_var_desc_set_kind(var, from->kind);
    tr_var_desc_set_dtype(var, from->dtype);
    tr_var_desc_set_lod_level(var, from->lod_level);
    return tr_var_desc_set_shape(var, from->shape.rank, from->shape.dim);
}

/* -- contributions ---------------------------------------------------------------------------------------- */

static tr_grad_pending *pending_of(tr_grad_walk *w, const char *var)
{
    tr_grad_pending *p = tr_map_find(&w->pending, var);
    if (!p) {
        p = calloc(1, sizeof *p);
        if (!p || tr_map_put(&w->pending, tr__grad_intern(w, "%s", var), p) != 0)
            abort();
    }
    return p;
}

void tr__grad_contribute(tr_grad_walk *w, const char *var, const char *grad)
{
    tr_grad_pending *p = pending_of(w, var);

    if (p->count == p->capacity) {
        p->capacity = p->capacity ? p->capacity * 2 : 4;
        p->name = realloc(p->name, (size_t)p->capacity * sizeof *p->name);
        if (!p->name)
            abort();
    }
    p->name[p->count++] = (char *)(uintptr_t)tr__grad_intern(w, "%s", grad);
}

bool tr__grad_is_array(tr_block *block, const char *name)
{
    const tr_var_desc *var = tr_block_find_var_recursive(block, name);
    return var && var->kind == TR_KIND_ARRAY;
}

/* Keep what tr_var_desc_gradient tells. */
static void note_gradient(const tr_grad_walk *w, const char *var, const char *grad)
{
    tr_var_desc *desc = w->outer ? NULL : tr_block_find_var(w->block, var);

    if (!desc)
        return;
    free(desc->gradient);
    desc->gradient = tr__must_strdup(grad);
}

tr_status tr__grad_take(const char **out, tr_grad_walk *w, const char *var, const tr_op_desc *origin)
{
    tr_grad_pending *p = tr_map_find(&w->pending, var);

    *out = NULL;
    if (!p || p->count == 0)
        return TR_OK;
    *out = p->count == 1 ? p->name[0] : tr__grad_name(w, var);
    note_gradient(w, var, *out);
    if (tr__grad_is_array(w->block, var))
        return TR_OK;
    if (p->count > 1) {
        tr_op_desc *sum = tr_op_desc_new("sum");
        tr_op_desc_set_input(sum, "X", p->count, (const char *const *)p->name);
        tr_op_desc_set_output(sum, "Out", 1, out);
        TR_TRY(tr__grad_append_op(w, sum, origin, TR_ROLE_BACKWARD));
    }
    p->count = 0;
    return TR_OK;
}

/* The gradient array of an array lives where the array does. */
static const char *array_gradient(tr_grad_walk *w, const char *var)
{
    const tr_grad_pending *p = pending_of(w, var);
    if (p->count > 0)
        return p->name[0];
    if (w->outer && tr_block_find_var(w->block, var) == NULL)
        tr__grad_contribute(w, var, array_gradient((tr_grad_walk *)(uintptr_t)w->outer, var));
    else
        tr__grad_contribute(w, var, tr__grad_name(w, var));
    return p->name[0];
}

const char *tr__grad_new_contribution(tr_grad_walk *w, const char *var)
{
    if (tr__grad_is_array(w->block, var))
        return array_gradient(w, var);
    const tr_grad_pending *p = pending_of(w, var);
    const char            *name = tr__grad_name(w, var);
    if (p->count > 0)
        name = tr__grad_intern(w, "%s@RENAME@%d", name, ++w->renames);
    tr__grad_contribute(w, var, name);
    return name;
}

/* -- the end of a walk -------------------------------------------------------------------------------------- */

tr_status tr__grad_finish_leaves(tr_grad_walk *w)
{
    for (size_t i = 0; i < w->pending.entry_count; i++) {
        const char *grad;
        if (!w->pending.entries[i].key)
            continue;
        TR_TRY(tr__grad_take(&grad, w, w->pending.entries[i].key, NULL));
    }
    return TR_OK;
}

void tr__grad_walk_deinit(tr_grad_walk *w)
{
    for (size_t i = 0; i < w->pending.entry_count; i++)
        if (w->pending.entries[i].key) {
            tr_grad_pending *p = w->pending.entries[i].value;
            free(p->name);
            free(p);
        }
    tr_map_deinit(&w->pending);
    tr_map_deinit(&w->wants);
    tr_map_deinit(&w->made);
    tr_map_deinit(&w->writes);
    tr_map_deinit(&w->later);
    tr_map_deinit(&w->grad_name);
    for (size_t i = 0; i < w->strings.entry_count; i++)
        free(w->strings.entries[i].value);
    tr_map_deinit(&w->strings);
}
