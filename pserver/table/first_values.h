/* first_values.h - what the row of a key holds before its first update. */
#ifndef TR_PSERVER_FIRST_VALUES_H
#define TR_PSERVER_FIRST_VALUES_H

#include "pserver/table/table.h"

/* In the table's type: width values. */
void tr__table_put_first_value(const tr_table_config *config, char *out, int64_t key);

#endif
