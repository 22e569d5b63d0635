/* parse_value.h - reads one value of a line or of a table's row. All formats read values this way. */
#pragma once

#include "trainer/formats/columns.h"

/* Write a number to `to` in the column's type; false: it does not fit (tr_dtype_holds). A dropped column takes all. */
bool tr_put_value(const tr_column *column, void *to, double value);
/* Read one number of the column's type to `to`; false: there is none, or it does not fit. The caller looks at the text
 * after the number. */
bool tr_read_value(const tr_column *column, void *to, const char **at);
