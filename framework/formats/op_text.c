/* op_text.c - see op_text.h. */
#include "framework/formats/op_text.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "framework/programs/attr.h"
#include "framework/base/memory.h"
#include "framework/base/name_list.h"
#include "framework/operators/attr_def.h"
#include "framework/base/number.h"
#include "framework/operators/op_registry.h"

typedef struct reader {
    char        *at;                  /* in a copy of the line, into which ends of words are written */
    const char  *line;
    tr_op_desc  *op;
    const tr_op *record;
} reader;

static tr_status unreadable(const reader *r, const char *expected)
{
    return tr_fail(TR_EINTERNAL, "cannot read the operator '%s': expected %s at '%s'", r->line, expected, r->at);
}

static void skip_blanks(reader *r)
{
    r->at += strspn(r->at, " \n");
}

static bool take(reader *r, char sign)
{
    skip_blanks(r);
    if (*r->at != sign)
        return false;
    r->at++;
    return true;
}

static bool is_of_name(char c)
{
    return tr__is_alnum(c) || strchr("_.@", c);
}

/* The next name, a copy that the caller frees; NULL: there is none. */
static char *take_name(reader *r)
{
    skip_blanks(r);
    size_t size = 0;
    while (r->at[size] && is_of_name(r->at[size]))
        size++;
    if (size == 0)
        return NULL;
    char *name = tr__must_copy(r->at, size);
    r->at += size;
    return name;
}

/* -- slots --------------------------------------------------------------------------------------- */

/* `a`, or `[a, b]`, into the slot. */
static tr_status read_args(reader *r, const char *slot, bool output)
{
    tr__name_list names = {0};
    const bool    is_list = take(r, '[');

    do {
        char *name = take_name(r);
        if (!name)
            break;
        tr__name_list_add(&names, name);
    } while (is_list && take(r, ','));
    const bool is_empty = names.count == 0;
    (output ? tr_op_desc_set_output : tr_op_desc_set_input)(r->op, slot, names.count, names.name);
    for (int i = 0; i < names.count; i++)
        free((void *)(uintptr_t)names.name[i]);
    tr__name_list_deinit(&names);
    if (is_empty && !is_list)
        return unreadable(r, "a variable");
    return is_list && !take(r, ']') ? unreadable(r, "]") : TR_OK;
}

static tr_status read_inputs(reader *r)
{
    if (!take(r, '('))
        return unreadable(r, "(");
    if (take(r, ')'))
        return TR_OK;
    do {
        char *slot = take_name(r);
        if (!slot || !take(r, '=')) {
            free(slot);
            return unreadable(r, "slot=");
        }
        const tr_status status = read_args(r, slot, false);
        free(slot);
        TR_TRY(status);
    } while (take(r, ','));
    return take(r, ')') ? TR_OK : unreadable(r, ")");
}

/* `y` or `Slot=y`: which one is seen after the name. */
static tr_status read_output(reader *r)
{
    const tr_slot_def *first = tr__op_proto(r->record)->out;
    char              *const start = r->at;
    char              *slot = take_name(r);
    tr_status          status;

    if (slot && take(r, '=')) {
        status = read_args(r, slot, true);
    } else {
        r->at = start;
        status = first && first->name ? read_args(r, first->name, true) : unreadable(r, "an operator with outputs");
    }
    free(slot);
    return status;
}

static tr_status read_outputs(reader *r)
{
    skip_blanks(r);
    if (strncmp(r->at, "->", 2) != 0)
        return unreadable(r, "->");
    r->at += 2;
    do
        TR_TRY(read_output(r));
    while (take(r, ','));
    skip_blanks(r);
    return *r->at ? unreadable(r, "the end") : TR_OK;
}

/* -- attributes ------------------------------------------------------------------------------------ */

static const tr_attr_def *find_def(const tr_op *record, const char *name)
{
    for (const tr_attr_def *def = tr__op_proto(record)->attr; def && def->name; def++)
        if (strcmp(def->name, name) == 0)
            return def;
    return NULL;
}

/* The value's text, which ends with a 0 written over the sign after it; `end` is that sign. */
static char *take_value(reader *r, char *end)
{
    skip_blanks(r);
    const bool is_list = *r->at == '[';
    char      *value = r->at + is_list;
    r->at = value + strcspn(value, is_list ? "]" : ",}");
    *end = *r->at;
    if (*r->at)
        *r->at++ = '\0';
    if (is_list) {
        skip_blanks(r);
        *end = *r->at;
        r->at += *r->at != '\0';
    }
    return value;
}

/* One attribute; `end` is the sign after it. The value is read as a default of the attribute would be. */
static tr_status read_attr(reader *r, char *end)
{
    char              *name = take_name(r);
    const tr_attr_def *def = name && take(r, '=') ? find_def(r->record, name) : NULL;
    tr_attr            attr;

    if (!def) {
        free(name);
        return unreadable(r, "an attribute of the operator");
    }
    free(name);
    tr_attr_def with_value = *def;
    with_value.text = take_value(r, end);
    with_value.number = strcmp(with_value.text, "true") == 0 ? 1 : tr__strtod(with_value.text, NULL);
    const bool is_read = tr__attr_default(&attr, &with_value);
    if (is_read)
        tr__attr_copy(r->op, &attr);
    tr__attr_deinit(&attr);
    return is_read ? TR_OK : unreadable(r, "a value of the attribute's type");
}

static tr_status read_attrs(reader *r)
{
    char end = ',';

    if (!take(r, '{'))
        return TR_OK;
    if (take(r, '}'))
        return TR_OK;
    while (end == ',')
        TR_TRY(read_attr(r, &end));
    return end == '}' ? TR_OK : unreadable(r, "}");
}

/* -- the line ---------------------------------------------------------------------------------------- */

static tr_status read_line(reader *r)
{
    char *type = take_name(r);

    r->record = type ? tr_op_find(type) : NULL;
    r->op = r->record ? tr_op_desc_new(type) : NULL;
    free(type);
    if (!r->op)
        return unreadable(r, "the name of an operator");
    TR_TRY(read_inputs(r));
    TR_TRY(read_attrs(r));
    return read_outputs(r);
}

tr_status tr__op_desc_parse(tr_op_desc **out, const char *line)
{
    char     *copy = tr__must_strdup(line);
    reader    r = {.at = copy, .line = line};
    tr_status status = read_line(&r);

    *out = r.op;
    if (status != TR_OK) {
        tr_op_desc_free(r.op);
        *out = NULL;
    }
    free(copy);
    return status;
}
