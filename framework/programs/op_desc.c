/* op_desc.c - one operator of a program: its slots and attributes.
 *
 * Slots and attributes are small arrays searched from the front: an operator has few, and their order is part
 * of what is saved. Every setter copies its new value before it lets go of the old one, so that it may be
 * handed a part of the very operator it changes. */
#include "framework/programs/op_desc.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

static void touch(tr_op_desc *op)
{
    if (!op->block)
        return;
    op->block->op_revision++;
    tr__program_touch(op->block->program);
}

/* -- life ------------------------------------------------------------------------------------- */

tr_op_desc *tr_op_desc_new(const char *type)
{
    tr_op_desc *op = tr__must_alloc(sizeof *op);
    op->type = tr__must_strdup(type);
    return op;
}

static void slot_deinit(tr_slot *slot)
{
    for (int i = 0; i < slot->count; i++)
        free(slot->arg[i]);
    free(slot->arg);
    free(slot->name);
}

static void free_slots(tr_slot *slots, int count)
{
    for (int i = 0; i < count; i++)
        slot_deinit(&slots[i]);
    free(slots);
}

void tr_op_desc_free(tr_op_desc *op)
{
    if (!op)
        return;
    free_slots(op->in, op->in_count);
    free_slots(op->out, op->out_count);
    for (int i = 0; i < op->attr_count; i++)
        tr__attr_deinit(&op->attr[i]);
    free(op->attr);
    free(op->type);
    free(op);
}

static tr_slot slot_new(const char *name, int count, const char *const *args)
{
    tr_slot slot = {.name = tr__must_strdup(name), .count = count,
                    .arg = tr__must_alloc((size_t)count * sizeof *slot.arg)};
    for (int i = 0; i < count; i++)
        slot.arg[i] = tr__must_strdup(args[i]);
    return slot;
}

static tr_slot *clone_slots(const tr_slot *slots, int count)
{
    tr_slot *copy = tr__must_alloc((size_t)count * sizeof *copy);
    for (int i = 0; i < count; i++)
        copy[i] = slot_new(slots[i].name, slots[i].count, (const char *const *)slots[i].arg);
    return copy;
}

tr_op_desc *tr__op_desc_clone(const tr_op_desc *op)
{
    tr_op_desc *copy = tr_op_desc_new(op->type);

    copy->in = clone_slots(op->in, op->in_count);
    copy->in_count = op->in_count;
    copy->out = clone_slots(op->out, op->out_count);
    copy->out_count = op->out_count;
    copy->attr = tr__must_alloc((size_t)op->attr_count * sizeof *copy->attr);
    for (int i = 0; i < op->attr_count; i++)
        copy->attr[copy->attr_count++] = tr__attr_dup(&op->attr[i]);
    copy->has_is_target = op->has_is_target;
    copy->is_target = op->is_target;
    return copy;
}

tr_op_desc *tr_op_desc_copy(const tr_op_desc *op)
{
    tr_op_desc *copy = tr__op_desc_clone(op);

    tr_op_desc_remove_attr(copy, "op_callstack");
    tr_op_desc_remove_attr(copy, "op_namescope");
    return copy;
}

const char *tr_op_desc_type(const tr_op_desc *op) { return op->type; }

const char *tr__op_desc_origin(const tr_op_desc *op)
{
    const tr_attr *stack = tr__op_desc_attr(op, "op_callstack");
    return stack && stack->type == TR_ATTR_STRINGS && stack->count > 0 ? stack->strings[stack->count - 1] : "";
}

/* -- slots ------------------------------------------------------------------------------------ */

static tr_slot *find_slot(tr_slot *slots, int count, const char *name)
{
    for (int i = 0; i < count; i++)
        if (strcmp(slots[i].name, name) == 0)
            return &slots[i];
    return NULL;
}

tr_slot *tr__op_desc_slot(const tr_op_desc *op, bool output, const char *name)
{
    return output ? find_slot(op->out, op->out_count, name) : find_slot(op->in, op->in_count, name);
}

static void set_slot(tr_slot **slots, int *slot_count, const char *name, int count, const char *const *args)
{
    const tr_slot fresh = slot_new(name, count, args);
    tr_slot      *old = find_slot(*slots, *slot_count, name);

    if (old) {
        slot_deinit(old);
        *old = fresh;
    } else {
        *slots = tr__must_realloc(*slots, (size_t)(*slot_count + 1) * sizeof **slots);
        (*slots)[(*slot_count)++] = fresh;
    }
}

void tr_op_desc_set_input(tr_op_desc *op, const char *slot, int count, const char *const *names)
{
    set_slot(&op->in, &op->in_count, slot, count, names);
    touch(op);
}

void tr_op_desc_set_output(tr_op_desc *op, const char *slot, int count, const char *const *names)
{
    set_slot(&op->out, &op->out_count, slot, count, names);
    touch(op);
}

static int slot_count(const tr_op_desc *op, bool output, const char *name)
{
    const tr_slot *slot = tr__op_desc_slot(op, output, name);
    return slot ? slot->count : 0;
}

static const char *slot_arg(const tr_op_desc *op, bool output, const char *name, int index)
{
    const tr_slot *slot = tr__op_desc_slot(op, output, name);
    return slot && index >= 0 && index < slot->count ? slot->arg[index] : NULL;
}

int tr_op_desc_input_slots(const tr_op_desc *op) { return op->in_count; }
int tr_op_desc_output_slots(const tr_op_desc *op) { return op->out_count; }

const char *tr_op_desc_input_slot(const tr_op_desc *op, int slot)
{
    return slot >= 0 && slot < op->in_count ? op->in[slot].name : NULL;
}

const char *tr_op_desc_output_slot(const tr_op_desc *op, int slot)
{
    return slot >= 0 && slot < op->out_count ? op->out[slot].name : NULL;
}

int tr_op_desc_input_count(const tr_op_desc *op, const char *slot) { return slot_count(op, false, slot); }
int tr_op_desc_output_count(const tr_op_desc *op, const char *slot) { return slot_count(op, true, slot); }

const char *tr_op_desc_input(const tr_op_desc *op, const char *slot, int index)
{
    return slot_arg(op, false, slot, index);
}

const char *tr_op_desc_output(const tr_op_desc *op, const char *slot, int index)
{
    return slot_arg(op, true, slot, index);
}

static int count_all(const tr_slot *slots, int count)
{
    int all = 0;
    for (int s = 0; s < count; s++)
        all += slots[s].count;
    return all;
}

static const char *arg_at(const tr_slot *slots, int count, int index)
{
    for (int s = 0; s < count; index -= slots[s++].count)
        if (index < slots[s].count)
            return slots[s].arg[index];
    return NULL;
}

int tr_op_desc_input_args(const tr_op_desc *op) { return count_all(op->in, op->in_count); }
int tr_op_desc_output_args(const tr_op_desc *op) { return count_all(op->out, op->out_count); }
const char *tr_op_desc_input_arg(const tr_op_desc *op, int index) { return arg_at(op->in, op->in_count, index); }
const char *tr_op_desc_output_arg(const tr_op_desc *op, int index) { return arg_at(op->out, op->out_count, index); }

/* -- setting attributes ----------------------------------------------------------------------- */

tr_attr *tr__op_desc_attr(const tr_op_desc *op, const char *name)
{
    for (int i = 0; i < op->attr_count; i++)
        if (strcmp(op->attr[i].name, name) == 0)
            return &op->attr[i];
    return NULL;
}

/* The operator takes the attribute over. */
static void place_attr(tr_op_desc *op, tr_attr attr)
{
    tr_attr *old = tr__op_desc_attr(op, attr.name);

    if (old) {
        tr__attr_deinit(old);
        *old = attr;
    } else {
        op->attr = tr__must_realloc(op->attr, (size_t)(op->attr_count + 1) * sizeof *op->attr);
        op->attr[op->attr_count++] = attr;
    }
    touch(op);
}

void tr__attr_copy(tr_op_desc *op, const tr_attr *attr)
{
    place_attr(op, tr__attr_dup(attr));
}

/* An INT that needs more than 32 bits is a LONG; the check against the proto then says whether that will do. */
static bool fits_int(int64_t value)
{
    return value >= INT32_MIN && value <= INT32_MAX;
}

void tr_op_desc_set_int(tr_op_desc *op, const char *name, int64_t value, tr_attr_type type)
{
    assert(type == TR_ATTR_INT || type == TR_ATTR_LONG || type == TR_ATTR_BOOL || type == TR_ATTR_BLOCK);
    if (type == TR_ATTR_INT && !fits_int(value))
        type = TR_ATTR_LONG;
    place_attr(op, (tr_attr){.name = tr__must_strdup(name), .type = type, .count = 1,
                             .i = type == TR_ATTR_BOOL ? value != 0 : value});
}

void tr_op_desc_set_float(tr_op_desc *op, const char *name, double value)
{
    place_attr(op, (tr_attr){.name = tr__must_strdup(name), .type = TR_ATTR_FLOAT, .count = 1, .f = (float)value});
}

void tr_op_desc_set_string(tr_op_desc *op, const char *name, const char *value, size_t size)
{
    assert(size < INT_MAX);
    place_attr(op, (tr_attr){.name = tr__must_strdup(name), .type = TR_ATTR_STRING, .count = (int)size,
                             .s = tr__must_copy(value, size)});
}

static tr_attr longs_attr(const char *name, int count, const int64_t *values)
{
    return (tr_attr){.name = tr__must_strdup(name), .type = TR_ATTR_LONGS, .count = count,
                     .longs = (int64_t *)tr__must_copy(values, (size_t)count * sizeof *values)};
}

void tr_op_desc_set_ints(tr_op_desc *op, const char *name, int count, const int64_t *values, tr_attr_type type)
{
    tr_attr attr = {.type = type, .count = count};

    assert(type == TR_ATTR_INTS || type == TR_ATTR_LONGS || type == TR_ATTR_BOOLS || type == TR_ATTR_BLOCKS);
    for (int i = 0; i < count && type == TR_ATTR_INTS; i++)
        if (!fits_int(values[i]))
            type = TR_ATTR_LONGS;
    if (type == TR_ATTR_LONGS) {
        place_attr(op, longs_attr(name, count, values));
        return;
    }
    attr.name = tr__must_strdup(name);
    attr.ints = tr__must_alloc((size_t)count * sizeof *attr.ints);
    for (int i = 0; i < count; i++)
        attr.ints[i] = type == TR_ATTR_BOOLS ? values[i] != 0 : (int32_t)values[i];
    place_attr(op, attr);
}

void tr_op_desc_set_floats(tr_op_desc *op, const char *name, int count, const double *values)
{
    tr_attr attr = {.name = tr__must_strdup(name), .type = TR_ATTR_FLOATS, .count = count,
                    .floats = tr__must_alloc((size_t)count * sizeof *attr.floats)};
    for (int i = 0; i < count; i++)
        attr.floats[i] = (float)values[i];
    place_attr(op, attr);
}

void tr_op_desc_set_strings(tr_op_desc *op, const char *name, int count, const char *const *values)
{
    tr_attr attr = {.name = tr__must_strdup(name), .type = TR_ATTR_STRINGS, .count = count,
                    .strings = tr__must_alloc((size_t)count * sizeof *attr.strings)};
    for (int i = 0; i < count; i++)
        attr.strings[i] = tr__must_strdup(values[i]);
    place_attr(op, attr);
}

void tr_op_desc_remove_attr(tr_op_desc *op, const char *name)
{
    tr_attr *attr = tr__op_desc_attr(op, name);

    if (!attr)
        return;
    tr__attr_deinit(attr);
    memmove(attr, attr + 1, (size_t)(op->attr + op->attr_count - (attr + 1)) * sizeof *attr);
    op->attr_count--;
    touch(op);
}

/* -- reading attributes ----------------------------------------------------------------------- */

int tr_op_desc_attr_count(const tr_op_desc *op) { return op->attr_count; }

const char *tr_op_desc_attr_name(const tr_op_desc *op, int index)
{
    return index >= 0 && index < op->attr_count ? op->attr[index].name : NULL;
}

bool tr_op_desc_has_attr(const tr_op_desc *op, const char *name)
{
    return tr__op_desc_attr(op, name) != NULL;
}

tr_attr_type tr_op_desc_attr_type(const tr_op_desc *op, const char *name)
{
    const tr_attr *attr = tr__op_desc_attr(op, name);
    return attr ? attr->type : TR_ATTR_TYPE_COUNT;
}

static int element_count(const tr_attr *attr)
{
    return tr_attr_type_is_list(attr->type) ? attr->count : 1;
}

/* The attribute, when it has such an element. */
static const tr_attr *attr_with(const tr_op_desc *op, const char *name, int index)
{
    const tr_attr *attr = tr__op_desc_attr(op, name);
    return attr && index >= 0 && index < element_count(attr) ? attr : NULL;
}

int tr_op_desc_attr_size(const tr_op_desc *op, const char *name)
{
    const tr_attr *attr = tr__op_desc_attr(op, name);
    return attr ? element_count(attr) : 0;
}

int64_t tr_op_desc_attr_int(const tr_op_desc *op, const char *name, int index)
{
    const tr_attr *attr = attr_with(op, name, index);
    return attr ? tr__attr_int(attr, index) : 0;
}

double tr_op_desc_attr_float(const tr_op_desc *op, const char *name, int index)
{
    const tr_attr *attr = attr_with(op, name, index);
    return attr ? tr__attr_float(attr, index) : 0;
}

const char *tr_op_desc_attr_string(const tr_op_desc *op, const char *name, int index, size_t *size)
{
    const tr_attr *attr = attr_with(op, name, index);
    const char    *string = attr ? tr__attr_string(attr, index) : NULL;

    if (size)
        *size = !string ? 0 : attr->type == TR_ATTR_STRING ? (size_t)attr->count : strlen(string);
    return string;
}
