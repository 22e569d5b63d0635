/* attr.c - see attr.h. */
#include "framework/programs/attr.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"

/* -- types ------------------------------------------------------------------------------------ */

static const struct {
    const char  *text;
    bool         is_list;
    tr_attr_type element;
} types[TR_ATTR_TYPE_COUNT] = {
    [TR_ATTR_INT]     = {"an int", false, TR_ATTR_INT},
    [TR_ATTR_FLOAT]   = {"a float", false, TR_ATTR_FLOAT},
    [TR_ATTR_STRING]  = {"a string", false, TR_ATTR_STRING},
    [TR_ATTR_INTS]    = {"a list of ints", true, TR_ATTR_INT},
    [TR_ATTR_FLOATS]  = {"a list of floats", true, TR_ATTR_FLOAT},
    [TR_ATTR_STRINGS] = {"a list of strings", true, TR_ATTR_STRING},
    [TR_ATTR_BOOL]    = {"a bool", false, TR_ATTR_BOOL},
    [TR_ATTR_BOOLS]   = {"a list of bools", true, TR_ATTR_BOOL},
    [TR_ATTR_BLOCK]   = {"a block", false, TR_ATTR_BLOCK},
    [TR_ATTR_LONG]    = {"a long", false, TR_ATTR_LONG},
    [TR_ATTR_BLOCKS]  = {"a list of blocks", true, TR_ATTR_BLOCK},
    [TR_ATTR_LONGS]   = {"a list of longs", true, TR_ATTR_LONG},
};

bool tr_attr_type_is_valid(int type)
{
    return type >= 0 && type < TR_ATTR_TYPE_COUNT;
}

bool tr_attr_type_is_list(tr_attr_type type)
{
    return types[type].is_list;
}

tr_attr_type tr_attr_type_element(tr_attr_type type)
{
    return types[type].element;
}

const char *tr_attr_type_text(tr_attr_type type)
{
    return types[type].text;
}

/* -- values ----------------------------------------------------------------------------------- */

static void free_strings(char **strings, int count)
{
    for (int i = 0; i < count; i++)
        free(strings[i]);
    free(strings);
}

void tr__attr_deinit(tr_attr *attr)
{
    free(attr->name);
    switch (attr->type) {
    case TR_ATTR_STRING:  free(attr->s); break;
    case TR_ATTR_STRINGS: free_strings(attr->strings, attr->count); break;
    case TR_ATTR_FLOATS:  free(attr->floats); break;
    case TR_ATTR_LONGS:   free(attr->longs); break;
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS:  free(attr->ints); break;
    default:              break;
    }
    *attr = (tr_attr){0};
}

tr_attr tr__attr_dup(const tr_attr *attr)
{
    const size_t count = (size_t)attr->count;
    tr_attr copy = *attr;

    copy.name = tr__must_strdup(attr->name);
    switch (attr->type) {
    case TR_ATTR_STRING:
        copy.s = tr__must_copy(attr->s, count);
        break;
    case TR_ATTR_STRINGS:
        copy.strings = tr__must_alloc(count * sizeof *copy.strings);
        for (size_t i = 0; i < count; i++)
            copy.strings[i] = tr__must_strdup(attr->strings[i]);
        break;
    case TR_ATTR_FLOATS:
        copy.floats = (float *)tr__must_copy(attr->floats, count * sizeof *attr->floats);
        break;
    case TR_ATTR_LONGS:
        copy.longs = (int64_t *)tr__must_copy(attr->longs, count * sizeof *attr->longs);
        break;
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS:
        copy.ints = (int32_t *)tr__must_copy(attr->ints, count * sizeof *attr->ints);
        break;
    default:
        break;
    }
    return copy;
}

static bool equal_bytes(const void *a, const void *b, size_t size)
{
    return size == 0 || memcmp(a, b, size) == 0;
}

bool tr__attr_equal(const tr_attr *a, const tr_attr *b)
{
    const size_t count = (size_t)a->count;

    if (a->type != b->type || a->count != b->count)
        return false;
    switch (a->type) {
    case TR_ATTR_STRING: return equal_bytes(a->s, b->s, count);
    case TR_ATTR_FLOAT:  return equal_bytes(&a->f, &b->f, sizeof a->f);
    case TR_ATTR_FLOATS: return equal_bytes(a->floats, b->floats, count * sizeof *a->floats);
    case TR_ATTR_LONGS:  return equal_bytes(a->longs, b->longs, count * sizeof *a->longs);
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS: return equal_bytes(a->ints, b->ints, count * sizeof *a->ints);
    case TR_ATTR_STRINGS:
        for (size_t i = 0; i < count; i++)
            if (strcmp(a->strings[i], b->strings[i]) != 0)
                return false;
        return true;
    default:
        return a->i == b->i;
    }
}

int64_t tr__attr_int(const tr_attr *attr, int index)
{
    switch (attr->type) {
    case TR_ATTR_INT:
    case TR_ATTR_BOOL:
    case TR_ATTR_BLOCK:
    case TR_ATTR_LONG:   return attr->i;
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS: return attr->ints[index];
    case TR_ATTR_LONGS:  return attr->longs[index];
    default:             return 0;
    }
}

double tr__attr_float(const tr_attr *attr, int index)
{
    switch (attr->type) {
    case TR_ATTR_FLOAT:  return attr->f;
    case TR_ATTR_FLOATS: return attr->floats[index];
    default:             return (double)tr__attr_int(attr, index);
    }
}

const char *tr__attr_string(const tr_attr *attr, int index)
{
    switch (attr->type) {
    case TR_ATTR_STRING:  return attr->s;
    case TR_ATTR_STRINGS: return attr->strings[index];
    default:              return NULL;
    }
}

/* -- text ------------------------------------------------------------------------------------- */

enum { SHOWN_ELEMENTS = 16, SHOWN_BYTES = 160 };

/* Bytes of the UTF-8 character that begins here, 0 if none does. */
static size_t character(const unsigned char *at, size_t left)
{
    const size_t size = *at < 0x80 ? 1 : *at >> 5 == 6 ? 2 : *at >> 4 == 14 ? 3 : *at >> 3 == 30 ? 4 : 0;

    if (size > left)
        return 0;
    for (size_t i = 1; i < size; i++)
        if (at[i] >> 6 != 2)
            return 0;
    return size;
}

static void print_string(tr_text *text, const char *string, size_t size)
{
    const unsigned char *at = (const unsigned char *)string, *end = at + size;

    tr_text_add_bytes(text, "\"", 1);
    while (at < end && (const char *)at - string < SHOWN_BYTES) {
        const size_t length = character(at, (size_t)(end - at));
        if (*at == '"' || *at == '\\')
            tr_text_add(text, "\\%c", *at);
        else if (*at == '\n')
            tr_text_add(text, "\\n");
        else if (length == 0 || *at < ' ' || *at == 127)
            tr_text_add(text, "\\x%02x", *at);
        else
            tr_text_add_bytes(text, (const char *)at, length);
        at += length ? length : 1;
    }
    if (at < end)
        tr_text_add(text, "...\" (%zu bytes)", size);
    else
        tr_text_add(text, "\"");
}

/* The fewest digits that mean the same float. */
static void print_float(tr_text *text, float value)
{
    char number[32];

    for (int digits = 6; digits <= 9; digits++) {
        tr__format(number, sizeof number, "%.*g", digits, (double)value);
        if (tr__strtof(number, NULL) == value)
            break;
    }
    tr_text_add(text, "%s", number);
    if (isfinite(value) && !strpbrk(number, ".e"))
        tr_text_add(text, ".0");
}

static void print_element(tr_text *text, const tr_attr *attr, int index)
{
    switch (tr_attr_type_element(attr->type)) {
    case TR_ATTR_FLOAT:
        print_float(text, attr->type == TR_ATTR_FLOAT ? attr->f : attr->floats[index]);
        break;
    case TR_ATTR_STRING:
        print_string(text, tr__attr_string(attr, index),
                     attr->type == TR_ATTR_STRING ? (size_t)attr->count : strlen(attr->strings[index]));
        break;
    case TR_ATTR_BOOL:
        tr_text_add(text, tr__attr_int(attr, index) ? "true" : "false");
        break;
    case TR_ATTR_BLOCK:
        tr_text_add(text, "block %" PRId64, tr__attr_int(attr, index));
        break;
    default:
        tr_text_add(text, "%" PRId64, tr__attr_int(attr, index));
        break;
    }
}

void tr__attr_print(tr_text *text, const tr_attr *attr)
{
    if (!tr_attr_type_is_list(attr->type)) {
        print_element(text, attr, 0);
        return;
    }
    tr_text_add(text, "[");
    for (int i = 0; i < attr->count && i < SHOWN_ELEMENTS; i++) {
        if (i > 0)
            tr_text_add(text, ", ");
        print_element(text, attr, i);
    }
    if (attr->count > SHOWN_ELEMENTS)
        tr_text_add(text, ", ... %d in all", attr->count);
    tr_text_add(text, "]");
}
