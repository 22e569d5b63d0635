/* server_row_files.h - SAVE_ROWS and LOAD_ROWS: this server writes rows of a table into a file, or sets the rows that a file has.
 *
 * So a table that is saved, exported or loaded passes through no trainer. The core reads and sets rows, between two updates; a thread of
 * the rank writes and reads the file, one at a time (tr_store.save_rows, tr_store.load_rows). While the rows of a file are set the next
 * one is read. ROWS_FILE tells the trainer how it went. A file that this host does not see is no error here: the trainer then moves the
 * rows itself.
 *
 * Rows from files are set under the rules of server_set_rows.h.
 *
 * What must stay true: a repeated request writes the same file again, as a whole. */
#pragma once

#include "pserver/core/updates/server_state.h"

void                     tr__row_files_new(tr_server *server);
void                     tr__row_files_free(tr_server *server);
/* SAVE_ROWS, LOAD_ROWS. */
extern const tr__handler tr__row_files_handlers[];
/* Begin with the next file, or answer, if that is possible now. */
void                     tr__row_files_look(tr_server *server);
/* The file is written or read, or `status` says why not (the text is tr_error()'s). `rows`, malloc'ed: those of a file that was read. */
void                     tr__row_files_done(tr_server *server, tr_status status, const tr_table_file *file, void *rows, uint64_t bytes);
