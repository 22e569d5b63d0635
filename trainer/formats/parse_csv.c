/* parse_csv.c - fields between delimiters.
 *
 *     age,city,"income, net"
 *     31,Oslo,40000
 *
 * A field may stand in quotes; a quote inside is doubled. A field ends on its line. Spaces around a field are not part of it. A slot
 * takes columns by name or number. The id of a text is its hash. */
#include "trainer/formats/parse_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "framework/base/text_id.h"
#include "framework/tensors/dtype.h"

/* == fields ================================================================================== */

typedef struct field {
    const char *begin, *end;          /* without quotes and spaces */
    bool        is_quoted;
} field;

/* Read the field at *at and move *at to the delimiter or line end after it. False: its quotes are not closed, or something stands after
 * them. */
static bool take_field(field *out, const char **at, char delimiter)
{
    const char *p = *at;

    while (tr_is_space(*p) && *p != delimiter)
        p++;
    out->is_quoted = *p == '"';
    if (out->is_quoted) {
        out->begin = ++p;
        while (*p != '\n' && (*p != '"' || p[1] == '"'))
            p += *p == '"' ? 2 : 1;
        out->end = p;
        if (*p != '"')
            return false;
        p++;
        while (tr_is_space(*p) && *p != delimiter)
            p++;
        *at = p;
        return *p == delimiter || *p == '\n';
    }
    out->begin = p;
    while (*p != delimiter && *p != '\n')
        p++;
    *at = out->end = p;
    while (out->end > out->begin && tr_is_space(out->end[-1]))
        out->end--;
    return true;
}

/* == hashes =================================================================================== */

int64_t tr_data_hash(const char *text, size_t size, int64_t buckets)
{
    return buckets > 0 ? tr_text_id(text, size, buckets) : 0;
}

static int64_t hash_field(const field *f, int64_t buckets)
{
    uint64_t hash = tr_text_hash_start;

    for (const char *p = f->begin; p < f->end; p++) {
        p += f->is_quoted && *p == '"';            /* skip the second quote of a doubled one */
        hash = tr_text_hash_byte(hash, *p);
    }
    return (int64_t)(hash % (uint64_t)buckets);
}

/* == columns ================================================================================== */

static int find_name(const tr_parser *parser, const char *name, int from)
{
    for (int i = from; parser->column && i < parser->column_count; i++)
        if (!strcmp(parser->column[i], name))
            return i;
    return -1;
}

static int find_column(const tr_parser *parser, const char *name)
{
    const int named = find_name(parser, name, 0);

    if (named >= 0)
        return named;
    return name[0] == '#' && name[1] >= '0' && name[1] <= '9' ? atoi(name + 1) : -1;
}

static tr_status no_column(const tr_parser *parser, const tr_data_slot *slot, int64_t place, int column, const char *path)
{
    char   names[256] = "", what[256];
    size_t used = 0;

    if (column < 0)
        snprintf(what, sizeof what, "'%s'", slot->columns[place]);
    else
        snprintf(what, sizeof what, "%d (from 0)", column);
    for (int i = 0; parser->column && i < parser->column_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", parser->column[i]);
    const char *advice = parser->column_count == 1 ? tr_delimiter_advice(names, names + strlen(names), parser->spec->delimiter) : NULL;
    return tr_fail(TR_ENOTFOUND, "%s: slot '%s': there is no column %s; there are %s%s", path ? path : "data", slot->name,
                   what, parser->column ? names : "no names, only numbers", advice ? advice : "");
}

/* Two columns may have one name, as long as no slot asks for it. */
static tr_status check_twins(const tr_parser *parser, int column, const char *slot, const char *name, const char *path)
{
    const int twin = find_name(parser, name, column + 1);

    if (twin < 0 || strcmp(parser->column[column], name))
        return TR_OK;
    return tr_fail(TR_EEXIST, "%s: slot '%s': the columns %d and %d (from 0) are both named '%s'; say which one by its number: "
                   "columns=[%d]", path ? path : "data", slot, column, twin, name, column);
}

static void add_target(tr_parser *parser, int column, int slot, int64_t place)
{
    int at = parser->target_count++;

    parser->target = tr__must_realloc(parser->target, (size_t)parser->target_count * sizeof *parser->target);
    for (; at > 0 && parser->target[at - 1].column > column; at--)
        parser->target[at] = parser->target[at - 1];
    parser->target[at] = (tr_target){column, slot, place};
}

/* Find the columns of a slot: the columns that it names, else the column named like its variable, else the next ones in order. */
static tr_status place_slot(tr_parser *parser, int i, int *next, const char *path)
{
    const tr_data_slot *slot = &parser->spec->slots[i];
    const int64_t       width = slot->lod_level ? 1 : tr__slot_width(slot);
    const int           own = slot->column_count ? -1 : find_column(parser, slot->name);

    if (slot->column_count && slot->column_count != width)
        return tr_fail(TR_ESHAPE, "data: slot '%s' has %d columns; its rows have %lld elements", slot->name,
                       slot->column_count, (long long)width);
    for (int64_t place = 0; place < width; place++) {
        int column = slot->column_count ? find_column(parser, slot->columns[place]) : own >= 0 && width == 1 ? own : *next;
        if (column < 0 || (parser->column_count && column >= parser->column_count))
            return no_column(parser, slot, place, column, path);
        TR_TRY(check_twins(parser, column, slot->name, slot->column_count ? slot->columns[place] : slot->name, path));
        add_target(parser, column, i, place);
        *next = column + 1;
    }
    return TR_OK;
}

static tr_status place_slots(tr_parser *parser, const char *path)
{
    int next = 0;

    parser->target_count = 0;
    for (int i = 0; i < parser->spec->slot_count; i++)
        TR_TRY(place_slot(parser, i, &next, path));
    return TR_OK;
}

tr_status tr_csv_init(tr_parser *parser)
{
    const tr_data_spec *spec = parser->spec;

    if (strchr("\n\r\"+-.0123456789", spec->delimiter))
        return tr_fail(TR_EINVAL, "data: csv: the delimiter is '%c', which numbers or quotes need", spec->delimiter);
    for (int i = 0; i < spec->slot_count; i++)
        if (spec->slots[i].lod_level && tr__slot_width(&spec->slots[i]) != 1)
            return tr_fail(TR_ESHAPE, "data: csv: slot '%s' is a sequence of rows of %lld; of one is possible",
                           spec->slots[i].name, (long long)tr__slot_width(&spec->slots[i]));
    if (spec->has_header)
        return TR_OK;                              /* the header of the first file will name the columns */
    parser->column_count = spec->column_count;
    if (spec->column_count)
        parser->column = tr__must_alloc((size_t)spec->column_count * sizeof *parser->column);
    for (int i = 0; i < spec->column_count; i++)
        parser->column[i] = tr__must_strdup(spec->columns[i]);
    return place_slots(parser, NULL);
}

static char *copy_field(const field *f)
{
    char *out = tr__must_copy(f->begin, (size_t)(f->end - f->begin)), *to = out;

    for (const char *p = out; *p; p++) {
        p += f->is_quoted && *p == '"' && p[1] == '"';
        *to++ = *p;
    }
    *to = '\0';
    return out;
}

static tr_status first_header(tr_parser *parser, const char *path, const char *text)
{
    const char *p = text;
    field       f;

    for (;; p++) {
        if (!take_field(&f, &p, parser->spec->delimiter))
            return tr_fail(TR_EFORMAT, "%s, line 1, column %lld: the quotes of a column's name do not end", path,
                           (long long)(f.begin - text));
        parser->column = tr__must_realloc(parser->column, (size_t)(parser->column_count + 1) * sizeof *parser->column);
        parser->column[parser->column_count++] = copy_field(&f);
        if (*p == '\n')
            break;
    }
    parser->header_path = tr__must_strdup(path);
    return place_slots(parser, path);
}

tr_status tr_parser_header(void *payload, const char *path, const char *text)
{
    tr_parser  *parser = payload;
    const char *p = text;

    if (!parser->column)
        return first_header(parser, path, text);
    for (int i = 0; i < parser->column_count; i++, p++) {
        field f;
        char *name = take_field(&f, &p, parser->spec->delimiter) ? copy_field(&f) : tr__must_strdup("");
        const bool is_same = !strcmp(name, parser->column[i]) && (*p == '\n') == (i == parser->column_count - 1);
        if (!is_same)
            tr_fail(TR_EFORMAT, "%s, line 1: column %d is '%s'; in %s it is '%s', of %d", path, i, name,
                    parser->header_path, parser->column[i], parser->column_count);
        free(name);
        if (!is_same)
            return TR_EFORMAT;
    }
    return TR_OK;
}

/* == lines ==================================================================================== */

static bool is_missing(const field *f)
{
    static const char *const words[] = {"", "?", "NA", "N/A", "NaN", "-NaN", "null"};
    const size_t             size = (size_t)(f->end - f->begin);

    for (int i = 0; size <= 4 && i < TR_COUNT(words); i++)
        if (strlen(words[i]) == size && tr__is_like(f->begin, words[i], size))
            return true;
    return false;
}

/* Read the value of a field into its place. */
static bool put(const tr_data_slot *slot, const tr_column *column, char *to, const field *f, tr_mistake *mistake)
{
    const char *p = f->begin;

    if (slot->hash_buckets) {
        *(int64_t *)(void *)to = hash_field(f, slot->hash_buckets);
        return true;
    }
    if (TR_LIKELY(p < f->end && tr_read_value(column, to, &p) && p == f->end))
        return true;
    if (!is_missing(f))
        return tr_mistake_at(mistake, f->begin, slot->name, "expected %s", tr_dtype_noun(column->dtype));
    return (slot->has_missing && tr_put_value(column, to, slot->missing)) ||
           tr_mistake_at(mistake, f->begin, slot->name, "expected %s (the slot says no `missing=` value)", tr_dtype_noun(column->dtype));
}

/* Read a sequence from one field; spaces separate its parts. */
static bool put_sequence(const tr_data_slot *slot, tr_column *column, const field *f, tr_mistake *mistake)
{
    field part = {.end = f->begin, .is_quoted = f->is_quoted};

    for (;;) {
        part.begin = part.end;
        while (part.begin < f->end && tr_is_space(*part.begin))
            part.begin++;
        if (part.begin == f->end)
            return true;
        for (part.end = part.begin; part.end < f->end && !tr_is_space(*part.end);)
            part.end++;
        char *to = tr_column_reserve(column, 1);
        if (!to)
            return tr_mistake_memory(mistake);
        if (!put(slot, column, to, &part, mistake))
            return false;
        column->count++;
    }
}

static bool begin_rows(tr_columns *to)
{
    for (int i = 0; i < to->slots; i++) {
        tr_column *column = &to->column[i];
        if (column->is_ragged)
            continue;
        if (!tr_column_reserve(column, column->width))
            return false;
        column->count += column->width;
    }
    return true;
}

bool tr_line_csv(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake)
{
    const tr_target *target = parser->target, *const last = target + parser->target_count;
    const char      *p = *at;

    if (!begin_rows(to))
        return tr_mistake_memory(mistake);
    for (int number = 0;; number++, p++) {
        field f;
        if (TR_UNLIKELY(!take_field(&f, &p, parser->spec->delimiter)))
            return tr_mistake_at(mistake, f.begin - 1, NULL, "expected quotes that end on their line, and then a delimiter");
        for (; target < last && target->column == number; target++) {
            tr_column          *column = &to->column[target->slot];
            const tr_data_slot *slot = &parser->spec->slots[target->slot];
            if (column->is_ragged) {
                if (!put_sequence(slot, column, &f, mistake))
                    return false;
                continue;
            }
            char *row = column->data + (column->count - column->width + target->place) * column->size;
            if (!put(slot, column, row, &f, mistake)) {
                mistake->end = f.end;
                return false;
            }
        }
        if (*p != '\n')
            continue;
        if (target < last || (parser->column_count && number + 1 != parser->column_count))
            return tr_mistake_at(mistake, p, NULL, "expected %s%d fields, found %d", parser->column_count ? "" : "at least ",
                                 parser->column_count ? parser->column_count : last[-1].column + 1, number + 1);
        *at = p;
        return true;
    }
}
