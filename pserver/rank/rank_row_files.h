/* rank_row_files.h - a server writes or reads a file of rows when its core asks for it (server_row_files.h). A thread does so: neither
 * messages nor updates wait for the disk.
 *
 * What must stay true: the driver makes wishes, one at a time, and takes their results; the owner serves them. */
#pragma once

#include "pserver/rank/rank.h"
#include "storage/trireme_table.h"

typedef struct tr__row_files_of_rank tr__row_files_of_rank;

tr__row_files_of_rank *tr__rank_row_files_new(tr__rank *rank);
void                   tr__rank_row_files_free(tr__row_files_of_rank *files);
/* Wait for the thread. */
void                   tr__rank_row_files_end(tr__row_files_of_rank *files);
/* As tr_store.save_rows and tr_store.load_rows. */
void      tr__rank_row_files_save(tr__row_files_of_rank *files, uint32_t table, const tr_table_file *file, void *packed, uint64_t bytes);
void      tr__rank_row_files_load(tr__row_files_of_rank *files, uint32_t table, const tr_table_file *file);
/* TR__ROW_FILE has come: take the result; the text of a failure is tr_error()'s. *rows is the caller's to free. */
tr_status tr__rank_row_files_take(const tr_table_file **file, void **rows, uint64_t *bytes, tr__row_files_of_rank *files);
/* Called in the main thread's loop: begin or end what is wished. */
tr_status tr__rank_row_files_serve(tr__row_files_of_rank *files);
/* Does tr__rank_row_files_serve have work at this moment? */
bool      tr__rank_row_files_is_due(const tr__row_files_of_rank *files);
