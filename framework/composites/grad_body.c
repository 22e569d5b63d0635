/* grad_body.c - see grad_body.h.
 *
 * The body is written into a small program (composite.h). There tr_append_gradients derives the gradient of its outputs, and the
 * operators that are needed move into the block of the walk. Values of the body are computed again: they are those of a few
 * operators on an operator's own arguments. */
#include "framework/composites/grad_body.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/composites/composite.h"
#include "framework/gradients/grad_walk.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/op_desc.h"

typedef struct derived {
    tr_grad_maker *maker;
    tr__body       body;
    tr_block      *block;             /* of the body */
    int            body_ops;          /* without those of its gradient */
    const tr_op   *only_rest;         /* targets are only outputs whose gradients this operator's rule does not read; NULL: all */
    tr_map         name;              /* variable of the body -> variable of the walk's block */
    int            number;            /* makes names unique */
} derived;

static bool is_written(const derived *d, const char *part)
{
    for (int i = 0; i < d->body_ops; i++)
        if (tr__grad_op_writes(d->block->op[i], part))
            return true;
    return false;
}

static void put(derived *d, const char *part, const char *name)
{
    if (tr_map_put(&d->name, tr__grad_intern(d->maker->w, "%s", part), (void *)(uintptr_t)tr__grad_intern(d->maker->w, "%s", name)) != 0)
        abort();                      /* a few bytes: like every setter of a desc */
}

/* -- the gradient within the body ----------------------------------------------------------------------------------- */

/* A variable of the body for the gradient that has arrived for its variable `part`. */
static tr_status declare_given(const char **out, derived *d, const char *part, const char *grad)
{
    const tr_var_desc *like = tr_block_find_var(d->block, part);

    *out = tr__grad_intern(d->maker->w, "%s@ARRIVED", part);
    tr_var_desc *var = tr__block_var(d->block, *out);
    tr_var_desc_set_kind(var, like->kind);
    tr_var_desc_set_dtype(var, like->dtype);
    tr_var_desc_set_lod_level(var, like->lod_level);
    put(d, *out, grad);
    return tr_var_desc_set_shape(var, like->shape.rank, like->shape.dim);
}

/* The arguments of a call of tr_append_gradients: as many of each as the body has names and stopped variables. */
typedef struct ends {
    const char **target, **given, **stopped;
    int          targets, stops;
} ends;

/* A part's name is that of its slot, or the slot's with a number. */
static bool is_target(const derived *d, const char *part, const char *arg)
{
    if (!tr_grad_of_output(d->maker, arg))
        return false;
    const tr_slot_def *out = d->only_rest ? tr__op_proto(d->only_rest)->out : NULL;
    for (int slot = 0; out && out[slot].name; slot++) {
        const size_t length = strlen(out[slot].name);
        if (strncmp(part, out[slot].name, length) == 0 && (part[length] == '\0' || part[length] == '.'))
            return tr__grad_item_find(d->only_rest->grad->reads, TR_GRAD_DOUT, slot) < 0;
    }
    return true;
}

static tr_status sort_name(ends *e, derived *d, const char *part, const char *arg)
{
    if (!is_written(d, part)) {
        put(d, part, arg);
        if (!tr__grad_is_wanted(d->maker->w, arg))
            e->stopped[e->stops++] = part;
    } else if (is_target(d, part, arg)) {
        TR_TRY(declare_given(&e->given[e->targets], d, part, tr_grad_of_output(d->maker, arg)));
        e->target[e->targets++] = part;
    }
    return TR_OK;
}

static tr_status derive(derived *d)
{
    const tr_map *stopped = &d->body.stopped;
    const size_t  names = d->body.names.entry_count, count = names + stopped->entry_count + 1;
    ends          e = {.target = tr__must_alloc(3 * count * sizeof *e.target)};
    tr_status     status = TR_OK;

    e.given = e.target + count;
    e.stopped = e.given + count;
    for (size_t i = 0; i < stopped->entry_count; i++)
        if (stopped->entries[i].key)
            e.stopped[e.stops++] = stopped->entries[i].key;
    for (size_t i = 0; status == TR_OK && i < names; i++)
        if (d->body.names.entries[i].key)
            status = sort_name(&e, d, d->body.names.entries[i].key, d->body.names.entries[i].value);
    if (status == TR_OK && e.targets > 0)
        status = tr_append_gradients(d->body.program, e.targets, e.target, e.given, 0, NULL, e.stops, e.stopped);
    free(e.target);
    return status;
}

/* -- moving ------------------------------------------------------------------------------------------------------------ */

/* Each input's gradient is one more contribution to that of its argument. */
static void name_contributions(derived *d, tr_map *needed)
{
    for (size_t i = 0; i < d->body.names.entry_count; i++) {
        const char *part = d->body.names.entries[i].key;
        if (!part || is_written(d, part))
            continue;
        const tr_var_desc *var = tr_block_find_var(d->block, part);
        const char        *arg = d->body.names.entries[i].value, *grad = NULL;
        if (var && var->gradient && !tr_map_find(&d->name, var->gradient))
            grad = tr_grad_for_input(d->maker, arg);
        if (!grad)
            continue;
        put(d, var->gradient, grad);
        if (tr_map_put(needed, tr__grad_intern(d->maker->w, "%s", var->gradient), d) != 0)
            abort();
    }
}

static const char *name_in_block(derived *d, const char *part)
{
    const char *name = tr_map_find(&d->name, part);

    if (name)
        return name;
    do
        name = tr__grad_intern(d->maker->w, "%s@OF@%s@%d", part, tr_op_desc_output_arg(tr_grad_forward(d->maker), 0), d->number++);
    while (tr_block_find_var_recursive(d->maker->w->target, name));
    put(d, part, name);
    return name;
}

static void rename_args(derived *d, tr_slot *slots, int count, bool is_read)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            char *old = slots[s].arg[i];
            if (tr__grad_is_empty_name(old))
                continue;
            const char *name = name_in_block(d, old);
            if (is_read && tr_map_find(&d->body.names, old) && !is_written(d, old))
                name = tr_grad_saved(d->maker, name, false);
            slots[s].arg[i] = tr__must_strdup(name);
            free(old);
        }
}

static tr_status move(derived *d)
{
    tr_map    needed = {0};
    tr_status status = TR_OK;

    name_contributions(d, &needed);
    tr__body_mark(&d->body, &needed);
    for (int i = 0; status == TR_OK && i < d->block->op_count; i++) {
        if (!d->body.keep[i])
            continue;
        tr_op_desc *op = tr__op_desc_clone(d->block->op[i]);
        rename_args(d, op->in, op->in_count, true);
        rename_args(d, op->out, op->out_count, false);
        status = tr_grad_append(d->maker, op);
    }
    tr_map_deinit(&needed);
    return status;
}

static tr_status derive_and_move(derived *d)
{
    tr_status status;

    d->block = tr_program_block(d->body.program, 0);
    d->body_ops = d->block->op_count;
    TR_TRY_GOTO(done, derive(d));
    TR_TRY_GOTO(done, move(d));
done:
    tr_map_deinit(&d->name);
    tr__body_deinit(&d->body);
    return status;
}

tr_status tr__second_body(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    derived           d = {.maker = maker};

    TR_TRY(tr__body_init_gradient(&d.body, tr_op_find(op->type), op, maker->w->block));
    return derive_and_move(&d);
}

/* -- outputs that a rule forgets --------------------------------------------------------------------------------------- */

tr_status tr__grad_ends(tr_grad_maker *maker)
{
    (void)maker;
    return TR_OK;
}

tr_status tr__grad_by_parts(tr_grad_maker *maker)
{
    const tr_op_desc *op = tr_grad_forward(maker);
    derived           d = {.maker = maker, .only_rest = tr_op_find(op->type)};

    TR_TRY(tr__body_init(&d.body, d.only_rest, op, maker->w->block));
    return derive_and_move(&d);
}
