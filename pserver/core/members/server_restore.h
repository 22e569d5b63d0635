/* server_restore.h - before a job that goes on from a checkpoint has its setup: this server reads its part when trainers ask (RESTORE), and
 * tells them whether it is whole (docs/protocol.md, "Going on from a checkpoint").
 *
 * Every trainer asks all servers about the same checkpoints in the same order, the newest first, until all servers have one. A server reads
 * each checkpoint once, and gives all trainers the same answer; so trainers agree without a word between them. */
#pragma once

#include "pserver/core/updates/server_state.h"

void                     tr__restore_new(tr_server *server);
void                     tr__restore_free(tr_server *server);
/* RESTORE. */
extern const tr__handler tr__restore_handlers[];
/* Does the store read a checkpoint now? */
bool                     tr__restore_is_reading(const tr_server *server);
/* The store has read it, or has failed (the text is tr_error()'s). */
void                     tr__restore_read(tr_server *server, tr_status status);
