/* columns.c - see columns.h. */
#include "trainer/formats/columns.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

void tr_columns_init(tr_columns *columns, const tr_data_spec *spec)
{
    *columns = (tr_columns){.slots = spec->slot_count};
    columns->column = tr__must_alloc((size_t)spec->slot_count * sizeof *columns->column);
    for (int i = 0; i < spec->slot_count; i++) {
        const tr_data_slot *slot = &spec->slots[i];
        columns->column[i] = (tr_column){.dtype = slot->dtype, .is_ragged = slot->lod_level > 0,
                                         .is_dropped = !slot->name, .width = tr__slot_width(slot),
                                         .size = tr_dtype_size(slot->dtype)};
    }
}

void tr_columns_deinit(tr_columns *columns)
{
    for (int i = 0; columns->column && i < columns->slots; i++) {
        free(columns->column[i].data);
        free(columns->column[i].end);
    }
    free(columns->column);
    *columns = (tr_columns){0};
}

void tr_columns_clear(tr_columns *columns)
{
    columns->lines = 0;
    for (int i = 0; i < columns->slots; i++)
        columns->column[i].count = 0;
}

bool tr__column_grow(tr_column *column, int64_t more)
{
    int64_t capacity = column->capacity ? column->capacity : 1024;

    while (capacity - column->count < more)
        capacity += capacity / 2;
    char *data = realloc(column->data, (size_t)(capacity * column->size));
    if (!data)
        return false;
    column->data = data;
    column->capacity = capacity;
    return true;
}

bool tr__columns_grow_lines(tr_columns *columns, int64_t more)
{
    int64_t capacity = columns->line_capacity ? columns->line_capacity : 256;

    while (capacity - columns->lines < more)
        capacity += capacity / 2;
    for (int i = 0; i < columns->slots; i++) {
        tr_column *column = &columns->column[i];
        if (!column->is_ragged)
            continue;
        int64_t *end = realloc(column->end, (size_t)capacity * sizeof *end);
        if (!end)
            return false;
        column->end = end;
    }
    columns->line_capacity = capacity;
    return true;
}

int64_t tr_column_begin(const tr_column *column, int64_t line)
{
    if (!column->is_ragged)
        return line * column->width;
    return line ? column->end[line - 1] : 0;
}

bool tr_columns_end_line(tr_columns *columns)
{
    if (TR_UNLIKELY(columns->lines == columns->line_capacity) && !tr__columns_grow_lines(columns, 1))
        return false;
    for (int i = 0; i < columns->slots; i++) {
        tr_column *column = &columns->column[i];
        if (column->is_dropped)
            column->count = 0;
        else if (column->is_ragged)
            column->end[columns->lines] = column->count;
    }
    columns->lines++;
    return true;
}

void tr_columns_drop_line(tr_columns *columns)
{
    for (int i = 0; i < columns->slots; i++) {
        tr_column *column = &columns->column[i];
        column->count = column->is_dropped ? 0 : tr_column_begin(column, columns->lines);
    }
}

static bool append(tr_column *to, const tr_column *from, int64_t lines, int64_t line, int64_t count)
{
    const int64_t first = tr_column_begin(from, line), values = tr_column_begin(from, line + count) - first;
    void         *room = values ? tr_column_reserve(to, values) : NULL;

    if (values && !room)
        return false;
    if (values)
        memcpy(room, from->data + first * from->size, (size_t)(values * from->size));
    for (int64_t i = 0; to->is_ragged && i < count; i++)
        to->end[lines + i] = to->count + from->end[line + i] - first;
    to->count += values;
    return true;
}

bool tr_columns_append(tr_columns *columns, const tr_columns *from, int64_t line, int64_t count)
{
    if (columns->line_capacity - columns->lines < count && !tr__columns_grow_lines(columns, count))
        return false;
    for (int i = 0; i < columns->slots; i++)
        if (!from->column[i].is_dropped && !append(&columns->column[i], &from->column[i], columns->lines, line, count))
            return false;
    columns->lines += count;
    return true;
}
