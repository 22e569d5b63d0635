/* server_set_rows.h - WRITE_ROWS: rows of tables that trainers set.
 *
 * Trainer 0 sends first rows before the first step. Later a script may load or set rows between two steps. Then all trainers come together
 * first (job_set_rows.c): all of their steps are settled on all servers, and no trainer begins another one. So no update is made, and one
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
/* The replica has more of the stream, or there is no replica any more: acknowledge what it has. */
void      tr__set_rows_finish(tr_server *server);
