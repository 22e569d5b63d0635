/* op_registry.c - see op_registry.h. */
#include "framework/operators/op_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"
#include "framework/base/nearest.h"
#include "framework/operators/attr_def.h"

static tr_map          infos;             /* type -> tr_op_info */
static const tr_op   **records;           /* sorted by type */
static int             record_count;
static tr_fork_lock    cache_lock = TR_FORK_LOCK_INIT;      /* guards defaults and texts of infos */

const tr_attr_def tr__common_attrs[TR_COMMON_ATTRS + 1] = {
    {.name = "op_role", .type = TR_ATTR_INT, .offset = TR_NO_FIELD,
     .comment = "What part the operator plays: the bits of OpRole (forward, backward, optimize, ...)."},
    {.name = "op_role_var", .type = TR_ATTR_STRINGS, .offset = TR_NO_FIELD,
     .comment = "Pairs of a parameter and its gradient that the operator makes or applies."},
    {.name = "op_namescope", .type = TR_ATTR_STRING, .offset = TR_NO_FIELD,
     .comment = "The name scope in which it was added."},
    {.name = "op_callstack", .type = TR_ATTR_STRINGS, .offset = TR_NO_FIELD,
     .comment = "Where it was added: the lines of the user's program, the innermost last."},
    {.name = "op_pointwise_on", .type = TR_ATTR_STRING, .offset = TR_NO_FIELD,
     .comment = "On a server: the block of a parameter on which it works point by point; it touches no other block."},
    {.name = NULL},
};

/* -- protos of gradient operators ---------------------------------------------------------------- */

static void broken(const tr_op *op, const char *why) __attribute__((noreturn, cold));

static void broken(const tr_op *op, const char *why)
{
    fprintf(stderr, "trireme: the record of operator '%s' is broken: %s\n", op->type, why);
    abort();
}

int tr__slot_count(const tr_slot_def *slots)
{
    int count = 0;
    while (slots && slots[count].name)
        count++;
    return count;
}

/* A gradient that is read must be there, be it of zeros (a composite operator does without); so must the only one that is
 * made, while of several some may not be wanted. */
static unsigned grad_flags(const tr_op *op, const tr_grad_item *items, const tr_grad_item *item, unsigned flags)
{
    const bool may_miss = item->what == TR_GRAD_DIN || op->grad_of->expand;
    int        grads = 0;

    for (int i = 0; i < TR_RULE_MAX && items[i].what != TR_GRAD_END; i++)
        grads += items[i].what == item->what;
    flags = (flags & ~(unsigned)TR_SLOT_OWN_TYPE) | (flags & TR_SLOT_REPEATED ? TR_SLOT_HOLES : 0);
    return may_miss && grads > 1 ? flags | TR_SLOT_OPTIONAL : flags;
}

static tr_slot_def derive_slot(const tr_op *op, const tr_op_proto *forward, const tr_grad_item *items, const tr_grad_item *item)
{
    const bool  is_input = item->what == TR_GRAD_IN || item->what == TR_GRAD_DIN;
    const bool  is_grad = item->what == TR_GRAD_DOUT || item->what == TR_GRAD_DIN;
    const tr_slot_def *slots = is_input ? forward->in : forward->out;

    if (item->slot < 0 || item->slot >= tr__slot_count(slots))
        broken(op, "its gradient rule names a slot that the forward operator does not have");
    const tr_slot_def *slot = &slots[item->slot];
    /* The gradient of a composite operator computes again the values that the operator has not handed out. */
    const bool         is_optional = op->grad_of->expand && (slot->flags & TR_SLOT_INTERMEDIATE);
    const unsigned     flags = (slot->flags & ~(unsigned)TR_SLOT_INTERMEDIATE) | (is_optional ? TR_SLOT_OPTIONAL : 0);
    return (tr_slot_def){
        .name = is_grad ? tr__must_format("%s@GRAD", slot->name) : slot->name,
        .comment = is_grad ? tr__must_format("gradient of %s", slot->name) : slot->comment,
        .flags = is_grad ? grad_flags(op, items, item, flags) : flags,
    };
}

static tr_slot_def *derive_slots(const tr_op *op, const tr_op_proto *forward, const tr_grad_item *items)
{
    tr_slot_def *slots = tr__must_alloc((TR_RULE_MAX + 1) * sizeof *slots);
    for (int i = 0; i < TR_RULE_MAX && items[i].what != TR_GRAD_END; i++)
        slots[i] = derive_slot(op, forward, items, &items[i]);
    return slots;
}

static const tr_op_proto *derive_proto(const tr_op *op)
{
    const tr_op *forward = op->grad_of;
    tr_op_proto *proto = tr__must_alloc(sizeof *proto);

    if (!forward || !forward->grad || !forward->grad->op)
        broken(op, "it has neither a proto nor a forward operator with a gradient rule to derive one from");
    if (strcmp(forward->grad->op, op->type) != 0)
        broken(op, "it says it is the gradient of an operator whose rule names another one");
    const tr_op_proto *from = tr__op_proto(forward);
    proto->doc = tr__must_format("The gradient of %s.", forward->type);
    proto->in = derive_slots(op, from, forward->grad->reads);
    proto->out = derive_slots(op, from, forward->grad->makes);
    proto->attr = from->attr;
    proto->attrs_size = from->attrs_size;
    return proto;
}

/* -- adding ------------------------------------------------------------------------------------- */

static int by_type(const void *a, const void *b)
{
    return strcmp((*(const tr_op *const *)a)->type, (*(const tr_op *const *)b)->type);
}

static void add_record(const tr_op *op)
{
    tr_op_info *info = tr_map_find(&infos, op->type);

    if (info && info->op != op)
        broken(op, "there is another operator of this type");
    if (info)
        return;
    info = tr__must_alloc(sizeof *info);
    info->op = op;
    info->proto = op->proto;
    if (tr_map_put(&infos, op->type, info) != 0)
        broken(op, "no memory to register it");
    records = tr__must_realloc(records, (size_t)(record_count + 1) * sizeof *records);
    records[record_count++] = op;
}

static void count_all(tr_op_info *info)
{
    info->in_count = tr__slot_count(info->proto->in);
    info->out_count = tr__slot_count(info->proto->out);
    while (info->proto->attr && info->proto->attr[info->attr_count].name)
        info->attr_count++;
}

void tr_registry_add(const tr_op *const *new_records, int count)
{
    const int before = record_count;

    for (int i = 0; i < count; i++)
        add_record(new_records[i]);
    for (int i = before; i < record_count; i++) {
        tr_op_info *info = tr_map_find(&infos, records[i]->type);
        tr__op_proto(info->op);
        count_all(info);
    }
    qsort(records, (size_t)record_count, sizeof *records, by_type);
}

/* -- looking up ----------------------------------------------------------------------------------- */

static tr_op_info *info_of(const tr_op *op)
{
    tr_op_info *info = tr_map_find(&infos, op->type);
    if (!info || info->op != op)
        broken(op, "it is used, but was not registered");
    return info;
}

const tr_op_proto *tr__op_proto(const tr_op *op)
{
    if (op->proto)
        return op->proto;
    tr_op_info *info = info_of(op);
    if (!info->proto)                     /* only while it is being added */
        info->proto = derive_proto(op);
    return info->proto;
}

tr_status tr__op_check_attrs(const tr_op *op, const void *attrs)
{
    tr_status (*check)(const void *) = op->check || op->proto || !op->grad_of ? op->check : op->grad_of->check;

    return check ? check(attrs) : TR_OK;
}

const tr_op_info *tr__op_info(const tr_op *op)
{
    return info_of(op);
}

const tr_op *tr_op_find(const char *type)
{
    const tr_op_info *info = tr_map_find(&infos, type);
    return info ? info->op : NULL;
}

int tr__grad_item_find(const tr_grad_item *items, tr_grad_what what, int slot)
{
    for (int k = 0; k < TR_RULE_MAX && items[k].what != TR_GRAD_END; k++)
        if (items[k].what == what && items[k].slot == slot)
            return k;
    return -1;
}

const char *tr__op_nearest(const char *type)
{
    tr_nearest nearest = {.wanted = type};
    for (int i = 0; i < record_count; i++)
        tr_nearest_try(&nearest, records[i]->type);
    return nearest.best ? nearest.best : "";
}

/* -- defaults and texts ---------------------------------------------------------------------------- */

static char *default_text(const tr_attr *value)
{
    tr_text text = {0};
    char   *out;

    if (!value->name)
        return tr__must_strdup("");
    tr__attr_print(&text, value);
    return tr_text_take(&out, &text) == TR_OK ? out : tr__must_strdup("");
}

/* Defaults of a record's attributes are parsed when somebody first asks: most operators of a process are never used. */
static void make_defaults(tr_op_info *info)
{
    const size_t count = (size_t)info->attr_count;
    tr_attr     *defaults = tr__must_alloc(count * sizeof *defaults);

    info->default_text = tr__must_alloc(count * sizeof *info->default_text);
    info->range_text = tr__must_alloc(count * sizeof *info->range_text);
    for (size_t i = 0; i < count; i++) {
        const tr_attr_def *def = &info->proto->attr[i];
        if (!def->required && !tr__attr_default(&defaults[i], def))
            broken(info->op, tr__must_format("the default of attribute '%s' is not of its type", def->name));
        info->default_text[i] = default_text(&defaults[i]);
        info->range_text[i] = tr__attr_range_text(def, &defaults[i]);
    }
    __atomic_store_n(&info->defaults, defaults, __ATOMIC_RELEASE);
}

static const tr_op_info *info_with_defaults(const tr_op *op)
{
    tr_op_info *info = info_of(op);

    if (__atomic_load_n(&info->defaults, __ATOMIC_ACQUIRE))
        return info;
    tr__fork_lock_take(&cache_lock);
    if (!info->defaults)
        make_defaults(info);
    tr__fork_lock_release(&cache_lock);
    return info;
}

const tr_attr *tr__op_default(const tr_op *op, int index)
{
    const tr_attr *value = &info_with_defaults(op)->defaults[index];
    return value->name ? value : NULL;
}

/* -- the public accessors ---------------------------------------------------------------------------- */

static const tr_slot_def *in_slot(const tr_op *op, int slot)
{
    return slot >= 0 && slot < info_of(op)->in_count ? &tr__op_proto(op)->in[slot] : NULL;
}

static const tr_slot_def *out_slot(const tr_op *op, int slot)
{
    return slot >= 0 && slot < info_of(op)->out_count ? &tr__op_proto(op)->out[slot] : NULL;
}

static const tr_attr_def *attr_def(const tr_op *op, int index)
{
    return index >= 0 && index < info_of(op)->attr_count ? &tr__op_proto(op)->attr[index] : NULL;
}

static const char *name_of(const tr_slot_def *slot) { return slot ? slot->name : NULL; }
static int flags_of(const tr_slot_def *slot) { return slot ? (int)slot->flags & TR_SLOT_PUBLIC : 0; }
static const char *text_or_empty(const char *text) { return text ? text : ""; }
static const char *comment_of(const tr_slot_def *slot) { return text_or_empty(slot ? slot->comment : NULL); }

int tr_op_count(void) { return record_count; }
const tr_op *tr_op_at(int index) { return index >= 0 && index < record_count ? records[index] : NULL; }
const char *tr_op_type(const tr_op *op) { return op->type; }
const char *tr_op_doc(const tr_op *op) { return text_or_empty(tr__op_proto(op)->doc); }
bool tr_op_has_grad(const tr_op *op) { return op->grad != NULL; }
tr_op_locality tr_op_get_locality(const tr_op *op) { return op->locality; }
bool tr_op_is_composite(const tr_op *op)
{
    return op->expand || (op->grad_of && op->grad_of->expand && !op->proto);
}

unsigned tr_op_io(const tr_op *op) { return op->io; }

int tr_op_input_count(const tr_op *op) { return info_of(op)->in_count; }
const char *tr_op_input_name(const tr_op *op, int slot) { return name_of(in_slot(op, slot)); }
const char *tr_op_input_comment(const tr_op *op, int slot) { return comment_of(in_slot(op, slot)); }
int tr_op_input_flags(const tr_op *op, int slot) { return flags_of(in_slot(op, slot)); }

int tr_op_output_count(const tr_op *op) { return info_of(op)->out_count; }
const char *tr_op_output_name(const tr_op *op, int slot) { return name_of(out_slot(op, slot)); }
const char *tr_op_output_comment(const tr_op *op, int slot) { return comment_of(out_slot(op, slot)); }
int tr_op_output_flags(const tr_op *op, int slot) { return flags_of(out_slot(op, slot)); }

int tr_op_attr_count(const tr_op *op) { return info_of(op)->attr_count; }

const char *tr_op_attr_name(const tr_op *op, int index)
{
    const tr_attr_def *def = attr_def(op, index);
    return def ? def->name : NULL;
}

const char *tr_op_attr_comment(const tr_op *op, int index)
{
    const tr_attr_def *def = attr_def(op, index);
    return text_or_empty(def ? def->comment : NULL);
}

tr_attr_type tr_op_attr_type(const tr_op *op, int index)
{
    const tr_attr_def *def = attr_def(op, index);
    return def ? def->type : TR_ATTR_TYPE_COUNT;
}

bool tr_op_attr_required(const tr_op *op, int index)
{
    const tr_attr_def *def = attr_def(op, index);
    return def && def->required;
}

const char *tr_op_attr_default(const tr_op *op, int index)
{
    return attr_def(op, index) ? info_with_defaults(op)->default_text[index] : "";
}

const char *tr_op_attr_range(const tr_op *op, int index)
{
    return attr_def(op, index) ? info_with_defaults(op)->range_text[index] : "";
}
