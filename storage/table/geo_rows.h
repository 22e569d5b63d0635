/* geo_rows.h - a trainer's own copy of a sparse table in mode geo.
 *
 * The copy keeps the optimizer's state for good. When a row is first needed after an exchange, its values are taken from the servers;
 * then the trainer's optimizer changes them. Rows that were not needed since the last exchange are out of date, because the servers have
 * newer ones. So the copy holds all keys that this trainer has used, and between two exchanges a second value of the needed ones. First
 * values are pure functions of seed and key, as on the servers, so a change means the same on every rank.
 *
 * A copy with a name outlives its process (segment.h). An update of its table covers everything between two exchanges. So the next
 * process can have the copy as it was after the last exchange that the servers know. It takes the values of rows anew.
 *
 * What must stay true: no row is taken for exchange n + 1 before all servers have settled exchange n. */
#pragma once

#include "storage/table/table.h"
#include "storage/util/keyset.h"

typedef struct tr_geo_rows tr_geo_rows;

/* Make a copy of a table of this kind. In the copy a key has its row at once and keeps it; the servers decide about admission and
 * eviction. `name`: of the copy's segments; NULL: it ends with the process. `exchange` > 0: take the copy that an earlier process has
 * left, as it was after that exchange; without one the copy is empty. */
tr_status tr_geo_rows_new(tr_geo_rows **out, const tr_table_config *config, const char *name, uint64_t exchange);
void      tr_geo_rows_free(tr_geo_rows *geo);
/* The table that the optimizer updates. */
tr_table *tr_geo_rows_table(tr_geo_rows *geo);
/* Has the servers' row been taken since the last exchange? */
bool      tr_geo_rows_has(const tr_geo_rows *geo, int64_t key);
/* Copy the row of such a key, in the table's type. */
void      tr_geo_rows_get(const tr_geo_rows *geo, void *out, int64_t key);
/* Store the servers' row of a key that has not been taken yet. Its changes belong to `exchange`, the next one. */
tr_status tr_geo_rows_take(tr_geo_rows *geo, uint64_t exchange, int64_t key, const void *row);
/* The rows that have changed since they were taken: their keys, and their changes divided by `trainers`, [*count, width]. Valid until
 * the next call. */
tr_status tr_geo_rows_changes(tr_geo_rows *geo, int trainers, int64_t *count, const int64_t **keys, const float **values);
/* The exchange is made: all rows must be taken anew. */
void      tr_geo_rows_forget(tr_geo_rows *geo);
