/* server_row_pulls.h - rows of sparse tables go out: PULL_ROWS and READ_ROWS, answered by DATA_ROWS, and EXPECT_ROWS before
 * them.
 *
 * A table has one copy, which an update changes in place. So rows are sent between two updates, never during one. A pull finds the slots
 * of its keys in the table. Most trainers push gradients of the rows that they pulled, in the same order: the slots are hints for them. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* After the tables are known. */
void tr__row_pulls_new(tr_server *server);
void tr__row_pulls_free(tr_server *server);

/* PULL_ROWS, READ_ROWS, EXPECT_ROWS. */
extern const tr__handler tr__row_pulls_handlers[];

/* Answer all pulls that can be answered now. */
void tr__row_pulls_answer(tr_server *server);
/* The trainer is dead: drop its pulls. */
void tr__row_pulls_abandon(tr_server *server, const tr__trainer *trainer);
/* Copy the slots of the keys of a piece of a push from the trainer's last pull of the table. `is_first`: it is the first piece. A pull and
 * a push are divided into messages at different keys. False: there are no hints, because the keys are others. */
bool tr__row_pulls_take_hints(tr_server *server, const tr__trainer *trainer, uint32_t table, bool is_first, const uint8_t *keys,
                              uint32_t *hints, int64_t count);
