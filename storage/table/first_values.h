/* first_values.h - the values of a key's row before its first update. */
#pragma once

#include "storage/table/table_config.h"

/* Compute `width` values, in the table's type. */
void tr__table_put_first_value(const tr_table_config *config, char *out, int64_t key);
