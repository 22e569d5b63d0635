/* op_read.c - all that the operators of a block say, in one text.
 *
 * A reader of a whole program (the transpiler, say) asks this once. Asked one by one, the types, names and attributes of an
 * operator cost tens of calls from Python. The text is a list of words. Each ends with a 0, which no name contains. */
#include <inttypes.h>
#include <string.h>

#include "framework/programs/attr.h"
#include "framework/programs/program.h"

static void add_word(tr_text *text, const char *word)
{
    tr_text_add_bytes(text, word, strlen(word) + 1);
}

static void add_number(tr_text *text, int64_t number)
{
    char      digits[24];
    char     *at = digits + sizeof digits - 1;
    uint64_t  left = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;

    *at = '\0';
    do
        *--at = (char)('0' + left % 10);
    while ((left /= 10) > 0);
    if (number < 0)
        *--at = '-';
    tr_text_add_bytes(text, at, (size_t)(digits + sizeof digits - at));
}

static void add_slots(tr_text *text, const tr_slot *slots, int count)
{
    add_number(text, count);
    for (int s = 0; s < count; s++) {
        add_word(text, slots[s].name);
        add_number(text, slots[s].count);
        for (int i = 0; i < slots[s].count; i++)
            add_word(text, slots[s].arg[i]);
    }
}

static void add_element(tr_text *text, const tr_attr *attr, int index)
{
    switch (tr_attr_type_element(attr->type)) {
    case TR_ATTR_FLOAT:
        tr_text_add(text, "%.17g", tr__attr_float(attr, index));
        tr_text_add_bytes(text, "", 1);
        break;
    case TR_ATTR_STRING:
        add_word(text, tr__attr_string(attr, index));
        break;
    default:
        add_number(text, tr__attr_int(attr, index));
        break;
    }
}

/* A string with a 0 inside would be two words. Its reader asks the operator for it. */
static bool is_readable(const tr_attr *attr)
{
    return attr->type != TR_ATTR_STRING || strlen(attr->s) == (size_t)attr->count;
}

static void add_attr(tr_text *text, const tr_attr *attr)
{
    const int count = tr_attr_type_is_list(attr->type) ? attr->count : 1;

    add_word(text, attr->name);
    add_number(text, attr->type);
    add_number(text, is_readable(attr) ? count : -1);
    for (int i = 0; i < count && is_readable(attr); i++)
        add_element(text, attr, i);
}

static bool is_told(const tr_attr *attr)
{
    return strcmp(attr->name, "op_callstack") != 0;
}

static void add_op(tr_text *text, const tr_op_desc *op)
{
    int attrs = 0;

    add_word(text, op->type);
    add_slots(text, op->in, op->in_count);
    add_slots(text, op->out, op->out_count);
    for (int i = 0; i < op->attr_count; i++)
        attrs += is_told(&op->attr[i]);
    add_number(text, attrs);
    for (int i = 0; i < op->attr_count; i++)
        if (is_told(&op->attr[i]))
            add_attr(text, &op->attr[i]);
}

tr_status tr_block_read_ops(void **out, size_t *size, const tr_block *block, int begin)
{
    tr_text text = {0};
    char   *words;

    for (int i = begin < 0 ? 0 : begin; i < block->op_count; i++)
        add_op(&text, block->op[i]);
    *size = text.size;
    TR_TRY(tr_text_take(&words, &text));
    *out = words;
    return TR_OK;
}
