/* server_set_rows.h - WRITE_ROWS: rows of tables that trainers set.
 *
 * Trainer 0 sends first rows before the first step. Later a script may load or set rows between two steps. Then all trainers come together
 * first (job_move_rows.c): all of their steps are settled on all servers, and no trainer begins another one. So no update is made, and one
 * trainer sends the rows.
 *
 * A set of rows is not part of an update. It may be sent a second time, by a trainer that runs its script again, or to a successor of a
 * dead server. That is harmless: the same rows are set again, as long as no trainer has made a later step. After that they are dropped.
 *
 * What must stay true: no such request is acknowledged before the replica has its rows. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* WRITE_ROWS of a trainer. */
extern const tr__handler tr__set_rows_handlers[];
/* May a trainer set rows of this table now? */
tr_status                tr__set_rows_check(const tr_server *server, const tr__trainer *trainer, uint32_t table);
/* Set rows. *replicates: the replica does not have them yet; tr__replication_has_rows says when it has. */
tr_status                tr__set_rows_take(bool *replicates, tr_server *server, const tr__trainer *trainer, const tr_form_write_rows *what,
                                           const void *rows, uint64_t bytes);
/* The replica has more of the stream, or there is no replica any more: acknowledge what it has. */
void      tr__set_rows_finish(tr_server *server);
