/* expanded.c - see expanded.h. */
#include "framework/composites/expanded.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/composites/composite.h"
#include "framework/gradients/foreign_inputs.h"
#include "framework/programs/attr.h"

enum { MAX_DEPTH = 8 };               /* of composites among the parts of composites */

/* A forward operator that has been expanded, and what its parts' variables are called. */
typedef struct site {
    tr_op_desc  *op;
    tr_map       names;               /* variable of the parts -> variable of the block */
    char       **owned;
    int          owned_count;
    int          block;
    struct site *before;
} site;

typedef struct expansion {
    tr_expanded *to;
    tr_block    *block;               /* the one whose operators are being expanded */
    tr_origin    origin;              /* of the operator that is being expanded */
    int          origin_capacity;
    site        *sites;               /* the last one first */
    int          prefixes;            /* how many operators have been expanded: makes names unique */
} expansion;

static const tr_op *composite_of(const tr_op_desc *op)
{
    const tr_op *record = tr_op_find(op->type);
    return record && tr_op_is_composite(record) ? record : NULL;
}

static bool has_composite(const tr_program *program)
{
    for (int b = 0; b < program->block_count; b++)
        for (int i = 0; i < program->block[b]->op_count; i++)
            if (composite_of(program->block[b]->op[i]))
                return true;
    return false;
}

/* -- placing operators ------------------------------------------------------------------------------- */

static tr_status place(expansion *e, tr_op_desc *op)
{
    const int   at = e->block->op_count, b = e->block->index;
    tr_origin **origin = &e->to->origin[b];

    if (at >= e->origin_capacity) {
        e->origin_capacity = at < 16 ? 32 : 2 * at;
        *origin = tr__must_realloc(*origin, (size_t)e->origin_capacity * sizeof **origin);
    }
    (*origin)[at] = e->origin;
    const tr_status status = tr__block_place_op(e->block, -1, op);
    if (status != TR_OK)
        tr_op_desc_free(op);
    return status;
}

/* -- sites --------------------------------------------------------------------------------------------- */

static site *site_new(expansion *e, const tr_op_desc *op)
{
    site *s = tr__must_alloc(sizeof *s);

    s->op = tr__op_desc_clone(op);
    s->block = e->block->index;
    s->before = e->sites;
    return e->sites = s;
}

static void site_free(site *s)
{
    tr_op_desc_free(s->op);
    tr_map_deinit(&s->names);
    for (int i = 0; i < s->owned_count; i++)
        free(s->owned[i]);
    free(s->owned);
    free(s);
}

/* Note a name; the copies of it are the site's. */
static const char *site_put(site *s, const char *part, char *name)
{
    char *key = tr__must_strdup(part);

    s->owned = tr__must_realloc(s->owned, (size_t)(s->owned_count + 2) * sizeof *s->owned);
    s->owned[s->owned_count++] = key;
    s->owned[s->owned_count++] = name;
    if (tr_map_put(&s->names, key, name) != 0)
        abort();                      /* a few bytes */
    return name;
}

/* The gradient operator has forward inputs and outputs in slots of the same names. */
static bool has_same_args(const tr_op_desc *grad, const tr_slot *slot)
{
    const tr_slot *other = tr__op_desc_slot(grad, false, slot->name);

    if (slot->count == 0)
        return true;
    if (!other || other->count != slot->count)
        return false;
    for (int i = 0; i < slot->count; i++)
        if (strcmp(slot->arg[i], other->arg[i]) != 0)
            return false;
    return true;
}

static bool has_same_attrs(const tr_op_desc *grad, const tr_op_desc *forward)
{
    for (int i = 0; i < forward->attr_count; i++) {
        const tr_attr *attr = &forward->attr[i], *other = tr__op_desc_attr(grad, attr->name);
        if (strncmp(attr->name, "op_", 3) != 0 && (!other || !tr__attr_equal(attr, other)))
            return false;
    }
    return true;
}

static bool is_forward_of(const site *s, const tr_op_desc *grad)
{
    bool same = has_same_attrs(grad, s->op);

    for (int i = 0; same && i < s->op->in_count; i++)
        same = has_same_args(grad, &s->op->in[i]);
    for (int i = 0; same && i < s->op->out_count; i++)
        same = has_same_args(grad, &s->op->out[i]);
    return same;
}

static site *find_forward(const expansion *e, const tr_op *record, const tr_op_desc *grad)
{
    for (site *s = e->sites; s && !record->expand; s = s->before)
        if (s->block == e->block->index && strcmp(s->op->type, record->grad_of->type) == 0 && is_forward_of(s, grad))
            return s;
    return NULL;
}

/* -- one operator ----------------------------------------------------------------------------------------- */

/* The parts of one operator on their way into the block. */
typedef struct move {
    expansion  *e;
    tr__body  *parts;
    const site *forward;              /* whose variables are there already; NULL: none */
    site       *site;                 /* which gets the names */
    int         prefix;
} move;

/* One that nobody has: a program that was expanded before has others. */
static char *new_name(const move *m, const char *part)
{
    char *name = tr__must_format("%s@PART@%d", part, m->prefix);

    for (int i = 0; tr_block_find_var_recursive(m->e->block, name); i++) {
        free(name);
        name = tr__must_format("%s@PART@%d_%d", part, m->prefix, i);
    }
    return name;
}

/* The name in the block of a variable of the parts; a new one is declared there. */
static const char *name_in_block(move *m, const char *part)
{
    const char *name = tr_map_find(&m->parts->names, part);

    if (!name && m->forward)
        name = tr_map_find(&m->forward->names, part);
    if (!name)
        name = tr_map_find(&m->site->names, part);
    if (name)
        return name;
    const tr_var_desc *from = tr_block_find_var(tr_program_block(m->parts->program, 0), part);
    name = site_put(m->site, part, new_name(m, part));
    tr_var_desc *var = tr__block_var(m->e->block, name);
    tr_var_desc_set_kind(var, from->kind);
    tr_var_desc_set_dtype(var, from->dtype);
    tr_var_desc_set_lod_level(var, from->lod_level);
    (void)tr_var_desc_set_shape(var, from->shape.rank, from->shape.dim);       /* a shape that a variable has */
    return name;
}

static void rename_args(move *m, tr_slot *slots, int count)
{
    for (int s = 0; s < count; s++)
        for (int i = 0; i < slots[s].count; i++) {
            char *old = slots[s].arg[i];
            if (strcmp(old, "@EMPTY@") == 0)
                continue;
            slots[s].arg[i] = tr__must_strdup(name_in_block(m, old));
            free(old);
        }
}

static void copy_attr(tr_op_desc *to, const tr_op_desc *from, const char *name)
{
    const tr_attr *attr = tr__op_desc_attr(from, name);
    if (attr)
        tr__attr_copy(to, attr);
}

static tr_status expand_into(expansion *e, const tr_op *record, const tr_op_desc *op, int depth);

static tr_status move_part(move *m, const tr_op_desc *part, const tr_op_desc *op, int depth)
{
    tr_op_desc  *copy = tr__op_desc_clone(part);
    const tr_op *record = composite_of(part);
    tr_status    status;

    rename_args(m, copy->in, copy->in_count);
    rename_args(m, copy->out, copy->out_count);
    copy_attr(copy, op, "op_role");
    copy_attr(copy, op, "op_callstack");
    if (!record)
        return place(m->e, copy);
    status = expand_into(m->e, record, copy, depth + 1);
    tr_op_desc_free(copy);
    return status;
}

/* A name of the parts that is an argument of the operator is one for the gradient operator, too. */
static void keep_names(site *s, const tr__body *parts)
{
    for (size_t i = 0; i < parts->names.entry_count; i++)
        site_put(s, parts->names.entries[i].key, tr__must_strdup(parts->names.entries[i].value));
}

static tr_status expand_into(expansion *e, const tr_op *record, const tr_op_desc *op, int depth)
{
    tr__body parts;
    tr_status status = TR_OK;

    assert(depth < MAX_DEPTH && "a composite operator that is made of itself");
    TR_TRY(tr__body_init(&parts, record, op, e->block));
    move m = {.e = e, .parts = &parts, .forward = find_forward(e, record, op), .prefix = e->prefixes++};
    m.site = site_new(e, op);
    const tr_block *from = tr_program_block(parts.program, 0);
    for (int i = m.forward ? parts.body_count : 0; status == TR_OK && i < from->op_count; i++)
        if (parts.keep[i])
            status = move_part(&m, from->op[i], op, depth);
    keep_names(m.site, &parts);
    tr__body_deinit(&parts);
    return status;
}

/* -- the program ------------------------------------------------------------------------------------------- */

static tr_status expand_block(expansion *e, tr_block *block)
{
    tr_op_desc **ops = block->op;
    const int    count = block->op_count;
    tr_status    status = TR_OK;

    e->block = block;
    e->origin_capacity = 0;
    block->op = NULL;
    block->op_count = block->op_capacity = 0;
    for (int i = 0; i < count; i++) {
        const tr_op *record = composite_of(ops[i]);
        ops[i]->block = NULL;
        e->origin = (tr_origin){.op_index = i, .composite = record ? record->type : NULL};
        if (status == TR_OK && !record) {
            status = place(e, ops[i]);
            continue;
        }
        if (status == TR_OK) {
            status = expand_into(e, record, ops[i], 0);
            if (status != TR_OK) {
                const char *origin = tr__op_desc_origin(ops[i]);
                tr_context(status, "while planning operator '%s' (block %d, operator %d%s%s)", record->type, block->index, i,
                           *origin ? ", at " : "", origin);
            }
        }
        tr_op_desc_free(ops[i]);
    }
    free(ops);
    return status;
}

static tr_status check_composites(const tr_block *block)
{
    for (int i = 0; i < block->op_count; i++)
        if (composite_of(block->op[i]))
            TR_TRY(tr__check_unread_inputs(block, i));
    return TR_OK;
}

tr_status tr__expand(tr_expanded **out, const tr_program *program)
{
    tr_status status = TR_OK;

    *out = NULL;
    if (!has_composite(program) && !tr__gradients_lack_inputs(program))
        return TR_OK;
    tr_expanded *to = tr__must_alloc(sizeof *to);
    expansion    e = {.to = to};
    to->program = tr_program_clone(program);
    tr__gradients_complete(to->program);
    to->block_count = program->block_count;
    to->origin = tr__must_alloc((size_t)to->block_count * sizeof *to->origin);
    for (int b = 0; status == TR_OK && b < program->block_count; b++)
        status = check_composites(to->program->block[b]);
    for (int b = 0; status == TR_OK && b < program->block_count; b++)
        status = expand_block(&e, to->program->block[b]);
    while (e.sites) {
        site *before = e.sites->before;
        site_free(e.sites);
        e.sites = before;
    }
    if (status == TR_OK)
        *out = to;
    else
        tr__expanded_free(to);
    return status;
}

void tr__expanded_free(tr_expanded *expanded)
{
    if (!expanded)
        return;
    for (int b = 0; b < expanded->block_count; b++)
        free(expanded->origin[b]);
    free(expanded->origin);
    tr_program_free(expanded->program);
    free(expanded);
}

tr_status tr_program_expand(tr_program **out, const tr_program *program)
{
    tr_expanded *expanded;

    TR_TRY(tr__expand(&expanded, program));
    if (!expanded) {
        *out = tr_program_clone(program);
        return TR_OK;
    }
    *out = expanded->program;
    expanded->program = tr_program_new();
    tr__expanded_free(expanded);
    return TR_OK;
}
