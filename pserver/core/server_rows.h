/* server_rows.h - sparse tables: rows are sent, and gradients of rows are kept until their step is applied.
 *
 * server_updates.c alone says what an update is and which trainers are in it, for tables, too. Here the pieces of these trainers are listed, trainer
 * by trainer; they are merged when the update is applied. A table has one copy, which an update changes in place. So rows are sent between two
 * updates, never during one.
 *
 * A contribution has a piece for every table, also where that piece is empty, because the contribution's weight travels with it. */
#ifndef TR_PSERVER_SERVER_ROWS_H
#define TR_PSERVER_SERVER_ROWS_H

#include "pserver/core/server_state.h"

/* Behind SETUP. TR_EFORMAT: a table has rows that cannot be. */
tr_status             tr__rows_new(tr_server *server);
void                  tr__rows_free(tr_server *server);

/* == gradients in == */
/* PUSH_ROWS. Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status             tr__rows_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* The name of a table whose gradient the trainer has not pushed for its step. NULL: it has pushed all. */
const char           *tr__rows_first_missing(const tr_server *server, const tr__trainer *trainer);
/* The trainer has ended a step. */
void                  tr__rows_ended(tr_server *server, const tr__trainer *trainer);
/* The trainer is dead: forget what it has pushed of a step that it has not ended, and its questions. */
void                  tr__rows_abandon(tr_server *server, const tr__trainer *trainer);
/* What the trainers that take part in an update (trainer by trainer) have sent for the step behind their last settled one. One for each table. */
const tr_rows_update *tr__rows_update(tr_server *server, const bool *takes_part);
/* Pieces of the trainer's gradients that are kept, of all steps. */
uint64_t              tr__rows_stored(const tr_server *server, const tr__trainer *trainer);
/* Forget the gradients of settled steps. */
void                  tr__rows_forget_settled(tr_server *server);

/* == rows out == */
/* PULL_ROWS or READ_ROWS; and one that was taken before and has come again. */
tr_status             tr__rows_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
void                  tr__rows_on_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Answer the questions whose time has come. */
void                  tr__rows_answer(tr_server *server);
/* WRITE_ROWS, before the first step. */
tr_status             tr__rows_on_write(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);

#endif
