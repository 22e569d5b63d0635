/* rank_moving.h - a server writes or reads a file of rows when its core asks for it (server_row_files.h). A thread does so: neither
 * messages nor updates wait for the disk.
 *
 * What must stay true: the driver makes wishes, one at a time, and takes their results; the owner serves them. */
#pragma once

#include "pserver/rank/rank.h"
#include "storage/trireme_table.h"

typedef struct tr__moving tr__moving;

tr__moving *tr__moving_new(tr__rank *rank);
void        tr__moving_free(tr__moving *moving);
/* Wait for the thread. */
void        tr__moving_end(tr__moving *moving);
/* As tr_store.save_rows and tr_store.load_rows. */
void        tr__moving_save(tr__moving *moving, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes);
void        tr__moving_load(tr__moving *moving, uint32_t table, const tr_table_file *file);
/* TR__MOVED has come: take the result; the text of a failure is tr_error()'s. *rows is the caller's to free. */
tr_status   tr__moving_take(const tr_table_file **file, void **rows, uint64_t *bytes, tr__moving *moving);
/* Called in the main thread's loop: begin or end what is wished. */
tr_status   tr__moving_serve(tr__moving *moving);
/* Does tr__moving_serve have work at this moment? */
bool        tr__moving_is_due(const tr__moving *moving);
