/* parse_table.c - rows of a table become columns. Values lie in the layout of Apache Arrow's C data interface.
 *
 * The reader has turned all columns into values of their slots' types (trireme_data.h). So a child is an array of int64, float32 or
 * float64, as the slot is; large_binary if the slot hashes; or a large_list of one of these. A null counts as an empty field of CSV
 * does. */
#include "trainer/formats/parse_state.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/tensors/dtype.h"

/* The part of a row that one slot takes. */
typedef struct slot_part {
    const tr_data_slot *slot;
    tr_column          *column;
    const char         *name;         /* the table's column, for messages */
} slot_part;

static bool is_null(const tr_arrow_array *array, int64_t at)
{
    const uint8_t *valid = array->null_count ? array->buffers[0] : NULL;

    at += array->offset;
    return valid && !(valid[at / 8] >> at % 8 & 1);
}

static bool is_list(const tr_arrow_array *array)
{
    return array->n_children == 1;
}

/* == one value ============================================================================== */

static bool put_missing(const slot_part *part, char *to, tr_mistake *mistake)
{
    return (part->slot->has_missing && tr_put_value(part->column, to, part->slot->missing)) ||
           tr_mistake_at(mistake, "null", part->slot->name, "column '%s': expected %s (the slot says no `missing=` value)",
                         part->name, tr_dtype_noun(part->column->dtype));
}

static bool put_double(const slot_part *part, char *to, double value, tr_mistake *mistake)
{
    if (TR_UNLIKELY(isnan(value)))                 /* NaN counts as missing, as the word NaN does in CSV */
        return put_missing(part, to, mistake);
    return tr_put_value(part->column, to, value) ||
           tr_mistake_at(mistake, value > 0 ? "inf" : "-inf", part->slot->name, "column '%s': expected %s", part->name,
                         tr_dtype_noun(part->column->dtype));
}

static void put_hash(const slot_part *part, char *to, const tr_arrow_array *array, int64_t at)
{
    const int64_t *end = (const int64_t *)array->buffers[1] + array->offset + at;
    const char    *text = array->buffers[2];
    const bool     is_empty = is_null(array, at);

    *(int64_t *)(void *)to = tr_data_hash(is_empty || end[0] == end[1] ? "" : text + end[0], is_empty ? 0 : (size_t)(end[1] - end[0]),
                                          part->slot->hash_buckets);
}

/* Read the value with index `at` of an array of values. */
static bool put(const slot_part *part, char *to, const tr_arrow_array *array, int64_t at, tr_mistake *mistake)
{
    if (part->slot->hash_buckets) {
        put_hash(part, to, array, at);
        return true;
    }
    if (TR_UNLIKELY(is_null(array, at)))
        return put_missing(part, to, mistake);
    const void *values = array->buffers[1];
    at += array->offset;
    switch (part->column->dtype) {
    case TR_INT64:
        *(int64_t *)(void *)to = ((const int64_t *)values)[at];
        return true;
    case TR_FP32:
        return put_double(part, to, (double)((const float *)values)[at], mistake);
    default:
        return put_double(part, to, ((const double *)values)[at], mistake);
    }
}

/* == one row ================================================================================ */

/* Find where the values of a row lie, and in which array. */
typedef struct range {
    const tr_arrow_array *array;
    int64_t               begin, count;
    bool                  is_null;
} range;

static range range_of(const tr_arrow_array *array, int64_t row)
{
    if (!is_list(array))
        return (range){array, row, 1, false};      /* the caller checks whether this value is null */
    if (is_null(array, row))
        return (range){array->children[0], 0, 0, true};
    const int64_t *end = (const int64_t *)array->buffers[1] + array->offset + row;
    return (range){array->children[0], end[0], end[1] - end[0], false};
}

static bool put_range(const slot_part *part, char *to, const range *values, tr_mistake *mistake)
{
    for (int64_t i = 0; i < values->count; i++)
        if (TR_UNLIKELY(!put(part, to + i * part->column->size, values->array, values->begin + i, mistake)))
            return false;
    return true;
}

/* Read a sequence of any number of rows. A null has no rows. */
static bool put_sequence(const slot_part *part, const tr_arrow_array *array, int64_t row, tr_mistake *mistake)
{
    range         values = range_of(array, row);
    const int64_t width = part->column->width;

    if (!is_list(array) && is_null(array, row))
        values.count = 0;
    if (values.count % width != 0)
        return tr_mistake_at(mistake, NULL, part->slot->name, "column '%s': expected a list of a multiple of %lld values, got one of %lld",
                             part->name, (long long)width, (long long)values.count);
    char *to = tr_column_reserve(part->column, values.count);
    if (!to && values.count)
        return tr_mistake_memory(mistake);
    if (!put_range(part, to, &values, mistake))
        return false;
    part->column->count += values.count;
    return true;
}

/* Read part of a dense row: `width` values, to `to`. */
static bool put_dense(const slot_part *part, char *to, int64_t width, const tr_arrow_array *array, int64_t row, tr_mistake *mistake)
{
    const range values = range_of(array, row);

    for (int64_t i = 0; values.is_null && i < width; i++) {
        if (part->slot->hash_buckets)
            *(int64_t *)(void *)(to + i * part->column->size) = tr_data_hash("", 0, part->slot->hash_buckets);
        else if (!put_missing(part, to + i * part->column->size, mistake))
            return false;
    }
    if (values.is_null)
        return true;
    if (values.count != width)
        return tr_mistake_at(mistake, NULL, part->slot->name, "column '%s': expected a list of %lld values, got one of %lld",
                             part->name, (long long)width, (long long)values.count);
    return put_range(part, to, &values, mistake);
}

/* Find all columns of one slot and return their number. 0: *mistake says what is wrong. */
static int put_slot(const tr_data_slot *slot, tr_column *column, tr_arrow_array *const *children, int64_t row, tr_mistake *mistake)
{
    const int     count = slot->column_count ? slot->column_count : 1;
    const int64_t width = column->width / count;
    slot_part     part = {slot, column, slot->column_count ? slot->columns[0] : slot->name};

    if (column->is_ragged)
        return put_sequence(&part, children[0], row, mistake) ? 1 : 0;
    char *to = tr_column_reserve(column, column->width);
    if (!to) {
        tr_mistake_memory(mistake);
        return 0;
    }
    for (int i = 0; i < count; i++) {
        part.name = slot->column_count ? slot->columns[i] : slot->name;
        if (!put_dense(&part, to + i * width * column->size, width, children[i], row, mistake))
            return 0;
    }
    column->count += column->width;
    return count;
}

static bool put_row(const tr_data_spec *spec, tr_columns *to, const tr_arrow_array *rows, int64_t row, tr_mistake *mistake)
{
    tr_arrow_array *const *child = rows->children;

    for (int i = 0; i < spec->slot_count; i++) {
        const int used = put_slot(&spec->slots[i], &to->column[i], child, row, mistake);
        if (TR_UNLIKELY(!used))
            return false;
        child += used;
    }
    return tr_columns_end_line(to) || tr_mistake_memory(mistake);
}

/* == blocks ================================================================================= */

static tr_status explain(const tr_mistake *mistake, const tr_block_text *block, int64_t row)
{
    const char *path = block->piece.path;

    if (mistake->is_memory)
        return tr_fail(TR_ENOMEM, "data: no memory for the rows of '%s'", path);
    return tr_fail(TR_EFORMAT, "%s, row group %lld, row %lld (from 0): slot '%s': %s%s%s", path, (long long)block->table.group,
                   (long long)(block->table.first + row), mistake->slot, mistake->expected, mistake->at ? ", got " : "",
                   mistake->at ? mistake->at : "");
}

void tr_parse_rows(const tr_data_spec *spec, tr_columns *to, const tr_block_text *block, bool skip, tr_bad_lines *bad)
{
    const tr_arrow_array *rows = &block->table.rows;
    tr_mistake            mistake;

    for (int64_t row = 0; rows->release && row < rows->length; row++) {
        if (TR_LIKELY(put_row(spec, to, rows, row, &mistake)))
            continue;
        tr_columns_drop_line(to);
        bad->count++;
        if (!bad->first || mistake.is_memory) {
            bad->status = explain(&mistake, block, row);
            free(bad->first);
            bad->first = tr__must_strdup(tr_error());
        }
        if (!skip || mistake.is_memory)
            return;
    }
}
