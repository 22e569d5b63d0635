/* program_print.c - a program as text that reads like a program.
 *
 *     x : float32[?, 784]
 *     fc.w : float32[784, 10] persistable
 *     fc.xw : float32[?, 10] = mul(x, fc.w)
 *
 * A variable has a line of its own where no operator of its block makes it, or when it outlives the run.
 * Arguments go without the name of their slot as long as they stand in the order of the operator's proto;
 * attributes are shown where they differ from the default. A block is shown below the operator that runs it. */
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/attr.h"
#include "framework/programs/program.h"

/* -- variables -------------------------------------------------------------------------------- */

static const char *kind_text(tr_var_kind kind)
{
    switch (kind) {
    case TR_KIND_SELECTED_ROWS: return "rows of ";
    case TR_KIND_ARRAY:         return "array of ";
    case TR_KIND_FEED:          return "feed list";
    case TR_KIND_FETCH:         return "fetch list";
    case TR_KIND_STEP_SCOPES:   return "step scopes";
    case TR_KIND_RANK_TABLE:    return "rank table";
    case TR_KIND_PLACES:        return "places";
    case TR_KIND_READER:        return "reader";
    case TR_KIND_RAW:           return "raw";
    case TR_KIND_TUPLE:         return "tuple";
    default:                    return "";
    }
}

static void print_type(tr_text *text, const tr_var_desc *var)
{
    const bool has_tensor = var->kind == TR_KIND_TENSOR || var->kind == TR_KIND_SELECTED_ROWS ||
                            var->kind == TR_KIND_ARRAY;

    tr_text_add(text, "%s", kind_text(var->kind));
    if (has_tensor && var->dtype == TR_DTYPE_NONE && var->shape.rank == 0)
        tr_text_add(text, "?");
    else if (has_tensor)
        tr_text_add(text, "%s%s", tr_dtype_name(var->dtype), TR_SHAPE_STR(var->shape));
    if (has_tensor && var->lod_level > 0)
        tr_text_add(text, " lod %d", var->lod_level);
}

/* -- operators -------------------------------------------------------------------------------- */

/* How one side of an operator is written. */
typedef struct side {
    tr_text           *text;
    const tr_slot     *slots;
    int                slot_count;
    const tr_slot_def *defs;              /* NULL: not known, or slots are to be named */
    tr_block          *types;             /* print types, as seen from this block; NULL: names only */
    int                printed;
    bool               in_order;          /* so far */
} side;

static void print_arg(side *s, const char *name)
{
    const tr_var_desc *var = s->types ? tr_block_find_var_recursive(s->types, name) : NULL;

    tr_text_add(s->text, "%s", name);
    if (var) {
        tr_text_add(s->text, " : ");
        print_type(s->text, var);
    }
}

static void print_slot(side *s, const tr_slot *slot, bool is_list)
{
    tr_text_add(s->text, "%s", s->printed++ ? ", " : "");
    if (!s->in_order)
        tr_text_add(s->text, "%s=", slot->name);
    tr_text_add(s->text, "%s", is_list ? "[" : "");
    for (int i = 0; i < slot->count; i++) {
        tr_text_add(s->text, "%s", i > 0 ? ", " : "");
        print_arg(s, slot->arg[i]);
    }
    tr_text_add(s->text, "%s", is_list ? "]" : "");
}

static const tr_slot *slot_named(const side *s, const char *name)
{
    for (int i = 0; i < s->slot_count; i++)
        if (strcmp(s->slots[i].name, name) == 0)
            return &s->slots[i];
    return NULL;
}

static bool is_in_defs(const side *s, const char *name)
{
    for (int i = 0; s->defs && s->defs[i].name; i++)
        if (strcmp(s->defs[i].name, name) == 0)
            return true;
    return false;
}

/* Slots in the order of the proto, then those it does not know; empty ones are left out. */
static void print_side(side *s)
{
    s->in_order = s->defs != NULL;
    for (int i = 0; s->defs && s->defs[i].name; i++) {
        const tr_slot *slot = slot_named(s, s->defs[i].name);
        if (slot && slot->count > 0)
            print_slot(s, slot, (s->defs[i].flags & TR_SLOT_REPEATED) || slot->count > 1);
        else
            s->in_order = false;
    }
    s->in_order = false;
    for (int i = 0; i < s->slot_count; i++)
        if (s->slots[i].count > 0 && !is_in_defs(s, s->slots[i].name))
            print_slot(s, &s->slots[i], s->slots[i].count > 1);
}

/* The value an attribute has when nobody says one; NULL: not known. */
static const tr_attr *default_of(const tr_op *record, const char *name)
{
    const tr_attr_def *defs = record ? tr__op_proto(record)->attr : NULL;

    for (int i = 0; defs && defs[i].name; i++)
        if (strcmp(defs[i].name, name) == 0)
            return tr__op_default(record, i);
    return NULL;
}

static bool is_common(const char *name)
{
    for (int i = 0; i < TR_COMMON_ATTRS; i++)
        if (strcmp(tr__common_attrs[i].name, name) == 0)
            return true;
    return false;
}

static void print_attrs(tr_text *text, const tr_op_desc *op, const tr_op *record)
{
    int printed = 0;

    for (int i = 0; i < op->attr_count; i++) {
        const tr_attr *attr = &op->attr[i];
        const tr_attr *usual = default_of(record, attr->name);
        if (is_common(attr->name) || attr->name[0] == '@' || (usual && tr__attr_equal(attr, usual)))
            continue;
        tr_text_add(text, "%s%s=", printed++ ? ", " : " {", attr->name);
        tr__attr_print(text, attr);
    }
    tr_text_add(text, "%s", printed ? "}" : "");
}

static void print_op(tr_text *text, const tr_op_desc *op, tr_block *block, bool name_slots)
{
    const tr_op       *record = tr_op_find(op->type);
    const tr_op_proto *proto = record && !name_slots ? tr__op_proto(record) : NULL;
    side out = {.text = text, .slots = op->out, .slot_count = op->out_count, .defs = proto ? proto->out : NULL,
                .types = block};
    side in = {.text = text, .slots = op->in, .slot_count = op->in_count, .defs = proto ? proto->in : NULL};

    print_side(&out);
    tr_text_add(text, "%s%s(", out.printed ? " = " : "", op->type);
    print_side(&in);
    tr_text_add(text, ")");
    print_attrs(text, op, record);
}

char *tr__op_desc_to_string(const tr_op_desc *op)
{
    tr_text text = {0};
    char   *out;

    print_op(&text, op, op->block, true);
    return tr_text_take(&out, &text) == TR_OK ? out : NULL;
}

/* -- blocks ----------------------------------------------------------------------------------- */

typedef struct printer {
    tr_text    *text;
    tr_program *program;
    bool       *done;                     /* per block */
} printer;

static void print_block(printer *p, tr_block *block, int depth);

static void indent(tr_text *text, int depth)
{
    tr_text_add(text, "%*s", 4 * depth, "");
}

static void print_sub_block(printer *p, tr_block *block, int depth)
{
    p->done[block->index] = true;
    indent(p->text, depth);
    tr_text_add(p->text, "block %d", block->index);
    if (block->parent != 0 && depth == 0)
        tr_text_add(p->text, " in block %d", block->parent);
    if (block->forward >= 0)
        tr_text_add(p->text, " with the gradients of block %d", block->forward);
    tr_text_add(p->text, ":\n");
    print_block(p, block, depth + 1);
}

/* The blocks that lie in this one and that the operator runs, unless they were shown already. */
static void print_run_blocks(printer *p, const tr_block *block, const tr_op_desc *op, int depth)
{
    for (int a = 0; a < op->attr_count; a++) {
        const tr_attr *attr = &op->attr[a];
        if (attr->type != TR_ATTR_BLOCK && attr->type != TR_ATTR_BLOCKS)
            continue;
        for (int i = 0; i < attr->count; i++) {
            tr_block *sub = tr_program_block(p->program, (int)tr__attr_int(attr, i));
            if (sub && sub->parent == block->index && !p->done[sub->index])
                print_sub_block(p, sub, depth);
        }
    }
}

static void note_outputs(tr_map *made, const tr_op_desc *op)
{
    for (int s = 0; s < op->out_count; s++)
        for (int i = 0; i < op->out[s].count; i++)
            tr_map_put(made, op->out[s].arg[i], op->out[s].arg[i]);
}

static void print_vars(tr_text *text, const tr_block *block, int depth)
{
    tr_map made = {0};

    for (int i = 0; i < block->op_count; i++)
        note_outputs(&made, block->op[i]);
    for (size_t i = 0; i < block->vars.entry_count; i++) {
        const tr_var_desc *var = block->vars.entries[i].value;
        if (!block->vars.entries[i].key || (tr_map_find(&made, var->name) && !var->persistable))
            continue;
        indent(text, depth);
        tr_text_add(text, "%s : ", var->name);
        print_type(text, var);
        tr_text_add(text, "%s\n", var->persistable ? " persistable" : "");
    }
    tr_map_deinit(&made);
}

static void print_block(printer *p, tr_block *block, int depth)
{
    print_vars(p->text, block, depth);
    for (int i = 0; i < block->op_count; i++) {
        indent(p->text, depth);
        print_op(p->text, block->op[i], block, false);
        tr_text_add(p->text, "\n");
        print_run_blocks(p, block, block->op[i], depth + 1);
    }
}

tr_status tr_program_to_string(char **out, const tr_program *program)
{
    tr_text text = {0};
    printer p = {&text, (tr_program *)program, tr__must_alloc((size_t)program->block_count * sizeof *p.done)};

    if (program->random_seed != 0)
        tr_text_add(&text, "random seed %lld\n", (long long)program->random_seed);
    p.done[0] = true;
    print_block(&p, program->block[0], 0);
    for (int b = 1; b < program->block_count; b++)        /* run by no operator, or from elsewhere */
        if (!p.done[b])
            print_sub_block(&p, program->block[b], 0);
    free(p.done);
    return tr_text_take(out, &text);
}
