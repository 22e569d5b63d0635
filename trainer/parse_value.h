/* parse_value.h - reads one value of a line or of a table's row, and describes mistakes in a line. All formats read values this way. */
#ifndef TR_TRAINER_PARSE_VALUE_H
#define TR_TRAINER_PARSE_VALUE_H

#include "trainer/columns.h"

/* A mistake in a line. */
typedef struct tr_mistake {
    const char *at;                   /* place in the line */
    const char *slot;                 /* name of the slot; NULL: the mistake is in no slot */
    char        expected[192];        /* "expected an integer"; the text that was found is added */
    bool        is_memory;            /* there was no memory; the line itself is good */
} tr_mistake;

/* Returns false, for `return tr_mistake_at(...)`. */
bool tr_mistake_at(tr_mistake *mistake, const char *at, const char *slot, const char *format, ...)
    __attribute__((format(printf, 4, 5), cold));
bool tr_mistake_memory(tr_mistake *mistake);
/* Write a number to `to` in the column's type; false: it does not fit (tr_number_fits). A dropped column takes all. */
bool tr_put_value(const tr_column *column, void *to, double value);
/* Read one number of the column's type to `to`; false: there is none, or it does not fit. The caller looks at the text
 * after the number. */
bool tr_read_value(const tr_column *column, void *to, const char **at);
/* "an integer", "a finite number that fits float32" */
const char *tr_value_noun(const tr_column *column);

#endif
