/* first_values.h - the values of a key's row before its first update. */
#ifndef TR_STORAGE_FIRST_VALUES_H
#define TR_STORAGE_FIRST_VALUES_H

#include "storage/table/table_config.h"

/* Compute `width` values, in the table's type. */
void tr__table_put_first_value(const tr_table_config *config, char *out, int64_t key);

#endif
