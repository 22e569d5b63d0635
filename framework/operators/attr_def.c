/* attr_def.c - see attr_def.h. */
#include "framework/operators/attr_def.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"

/* -- defaults --------------------------------------------------------------------------------- */

/* One element of a default's text into the list. */
static bool parse_element(tr_attr *attr, char *word)
{
    char *end = word;
    const int at = attr->count++;

    errno = 0;
    switch (attr->type) {
    case TR_ATTR_STRINGS:
        attr->strings[at] = tr__must_strdup(word);
        return true;
    case TR_ATTR_FLOATS:
        attr->floats[at] = tr__strtof(word, &end);
        break;
    case TR_ATTR_LONGS:
        attr->longs[at] = strtoll(word, &end, 10);
        break;
    case TR_ATTR_BOOLS:
        attr->ints[at] = strcmp(word, "true") == 0 || strcmp(word, "1") == 0;
        return attr->ints[at] || strcmp(word, "false") == 0 || strcmp(word, "0") == 0;
    default:
        attr->ints[at] = (int32_t)strtol(word, &end, 10);
        break;
    }
    return errno == 0 && end != word && *end == '\0';
}

/* "1, 1" -> [1, 1]; blanks around commas do not count. */
static bool parse_list(tr_attr *attr, const char *text)
{
    char *copy = tr__must_strdup(text), *next = copy, *word;
    bool  ok = true;
    size_t words = 1;

    for (const char *c = text; *c; c++)
        words += *c == ',';
    attr->longs = tr__must_alloc(words * sizeof(int64_t));          /* the widest element of them all */
    while (ok && *text && (word = strsep(&next, ","))) {
        word += strspn(word, " ");
        word[strcspn(word, " ")] = '\0';
        ok = parse_element(attr, word);
    }
    free(copy);
    return ok;
}

bool tr__attr_default(tr_attr *out, const tr_attr_def *def)
{
    const char *text = def->text ? def->text : "";

    *out = (tr_attr){.name = tr__must_strdup(def->name), .type = def->type, .count = 1};
    if (def->type == TR_ATTR_STRING) {
        out->s = tr__must_strdup(text);
        out->count = (int)strlen(text);
        return true;
    }
    if (tr_attr_type_is_list(def->type)) {
        out->count = 0;
        return parse_list(out, text);
    }
    if (def->type == TR_ATTR_FLOAT)
        out->f = (float)def->number;
    else
        out->i = (int64_t)def->number;
    return true;
}

/* -- ranges ----------------------------------------------------------------------------------- */

char *tr__attr_range_text(const tr_attr_def *def, const tr_attr *value)
{
    const tr_attr_range *range = &def->range;
    tr_text              text = {0};
    char                *out;

    if (def->instead)
        tr_text_add(&text, "only ");
    if (def->instead && !range->one_of)
        tr__attr_print(&text, value);
    if (range->has_min)
        tr_text_add(&text, "%s %.10g", range->open_min ? ">" : ">=", range->min);
    if (range->has_max)
        tr_text_add(&text, "%s%s %.10g", range->has_min ? " and " : "", range->open_max ? "<" : "<=", range->max);
    for (int i = 0; range->one_of && range->one_of[i].name; i++)
        tr_text_add(&text, "%s%s", i > 0 ? ", " : def->instead ? "" : "one of ", range->one_of[i].name);
    return tr_text_take(&out, &text) == TR_OK ? out : tr__must_strdup("");
}

/* Written so that NaN lies in no interval. */
static bool lies_within(double value, const tr_attr_range *range, double min, double max)
{
    if (range->has_min && !(range->open_min ? value > min : value >= min))
        return false;
    return !range->has_max || (range->open_max ? value < max : value <= max);
}

const tr_choice *tr__choice_find(const tr_choice *choices, const char *name)
{
    for (; choices->name; choices++)
        if (strcmp(choices->name, name) == 0)
            return choices;
    return NULL;
}

bool tr__attr_is_in_range(const tr_attr *attr, const tr_attr_range *range)
{
    const bool   is_list = tr_attr_type_is_list(attr->type);
    const int    count = is_list ? attr->count : 1;
    /* 0.1 as a float is above 0.1: the bounds are rounded like the value. */
    const bool   is_float = tr_attr_type_element(attr->type) == TR_ATTR_FLOAT;
    const double min = is_float ? (float)range->min : range->min, max = is_float ? (float)range->max : range->max;

    for (int i = 0; i < count; i++) {
        const char *string = tr__attr_string(attr, i);
        if (string ? range->one_of && !tr__choice_find(range->one_of, string)
                   : !lies_within(tr__attr_float(attr, i), range, min, max))
            return false;
    }
    return true;
}
