/* columns.h - parsed lines, slot by slot: all values of a slot lie one after the other.
 *
 * In a slot with a fixed width each line has `width` values. In a slot of sequences `end[i]` is where the values of line i end. Memory is
 * kept from use to use. One thread fills the columns; then any number may read them. */
#pragma once

#include "framework/base/compiler.h"
#include "trainer/files/data_spec.h"

typedef struct tr_column {
    tr_dtype dtype;
    bool     is_ragged, is_dropped;
    int64_t  width;                   /* values of a row */
    int64_t  size;                    /* bytes of a value */
    char    *data;
    int64_t  count, capacity;         /* values */
    int64_t *end;                     /* of a ragged column: where the values of each line end */
} tr_column;

typedef struct tr_columns {
    int        slots;
    int64_t    lines, line_capacity;
    tr_column *column;
} tr_columns;

void tr_columns_init(tr_columns *columns, const tr_data_spec *spec);
void tr_columns_deinit(tr_columns *columns);
void tr_columns_clear(tr_columns *columns);               /* no lines; keeps the memory */

bool tr__column_grow(tr_column *column, int64_t more);
bool tr__columns_grow_lines(tr_columns *columns, int64_t more);

/* Make room for `more` values after the present ones. NULL: no memory. */
TR_INLINE void *tr_column_reserve(tr_column *column, int64_t more)
{
    if (TR_UNLIKELY(column->capacity - column->count < more) && !tr__column_grow(column, more))
        return NULL;
    return column->data + column->count * column->size;
}

/* All columns have the values of one further line: count it. False: no memory. */
bool tr_columns_end_line(tr_columns *columns);
/* Remove the values of a line that was parsed in part. */
void tr_columns_drop_line(tr_columns *columns);
/* Where the values of line `line` begin. */
int64_t tr_column_begin(const tr_column *column, int64_t line);
/* Append `count` lines of `from`, from line `line` on. False: no memory; then `columns` is not usable. */
bool tr_columns_append(tr_columns *columns, const tr_columns *from, int64_t line, int64_t count);
