/* server_rows.h - sparse tables: gradients of rows are stored until their step is applied.
 *
 * server_updates.c alone decides which trainers are in an update, for tables, too. This file lists the pieces of these trainers, trainer
 * by trainer; the store merges them when it applies the update.
 *
 * A contribution has a piece for every table, also where that piece is empty, because the contribution's weight travels with it. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* After SETUP. TR_EFORMAT: a table's row size is invalid. */
tr_status             tr__rows_new(tr_server *server);
void                  tr__rows_free(tr_server *server);

/* PUSH_ROWS. */
extern const tr__handler tr__rows_handlers[];

/* The sum of the rows of a host group has come, in the place of its first trainer. `payload`, a buffer of the pool, belongs to the server
 * now. The sum counts from here on, even if the request that brought it has to wait or its process is dead: the other trainers' requests
 * follow it without rows. */
tr_status             tr__rows_take_sum(tr_server *server, const tr__trainer *first, const tr_wire *wire, uint8_t *payload);
/* The name of a table whose gradient the trainer has not pushed for its step. NULL: it has pushed all. */
const char           *tr__rows_first_missing(const tr_server *server, const tr__trainer *trainer);
/* The trainer has ended a step: count its later gradients for the next step. */
void                  tr__rows_ended(tr_server *server, const tr__trainer *trainer);
/* The trainer is dead: drop the gradients of a step that it has not ended. */
void                  tr__rows_abandon(tr_server *server, const tr__trainer *trainer);
/* The gradients for an update, one entry for each table: those that the trainers in `takes_part` sent for the step after their last settled
 * one. */
const tr_rows_update *tr__rows_update(tr_server *server, const bool *takes_part);
/* The number of stored pieces of the trainer's gradients, of all steps. */
uint64_t              tr__rows_stored(const tr_server *server, const tr__trainer *trainer);
/* Drop the gradients of settled steps. */
void                  tr__rows_forget_settled(tr_server *server);
