/* server_deaths.h - what all protocols of a server do when a trainer leaves, dies, or is replaced.
 *
 * A server keeps the steps that a dead trainer had ended here. server_contributions.h says what happens to a step that had not ended.
 * The replacement continues after the smallest number of settled steps of all servers, and sends each server the steps that this server
 * lacks. Only committed steps are settled, so the successor of a dead server gives the same answer.
 *
 * In lockstep modes one server may have a step in its parameters that other servers lack. The replacement computes this step again with the
 * parameters before it. This server still has them in its other buffer, since the next update needs the replacement.
 *
 * Invariant: from its death until its replacement has joined, a trainer counts as present, and everything waits for it, snapshots too; so
 * no snapshot has one of its steps on one server alone. A snapshot that was being gathered is given up. None begins before the replacement
 * has made a step: that may take minutes, in which every trainer that had taken part would stand still. The successor of server 0 assumes
 * of every replacement that it has made no step, until the replacement says otherwise (TASKS). */
#pragma once

#include "pserver/core/updates/server_state.h"

/* The trainer makes no more steps: it has sent GOODBYE, or (`is_draining`) DRAIN. */
void      tr__deaths_leave(tr_server *server, tr__trainer *trainer, bool is_draining);
/* A draining trainer has left or died. */
void      tr__deaths_drained(tr_server *server, tr__trainer *trainer);
/* This server learns that the trainer died. If the mode does not survive that and there is no standby, the job fails. Otherwise nothing
 * changes before server 0 has decided about the trainer (server_members.h). */
void      tr__deaths_died(tr_server *server, const tr__trainer *trainer, const char *how);
/* It is decided that the trainer died, and that a standby is called. The trainer's place becomes empty, also if the trainer had said
 * goodbye to this server. */
void      tr__deaths_vacate(tr_server *server, tr__trainer *trainer);
/* The standby that was called for a vacant trainer has become this trainer. `done`: its REPLACE_DONE. */
void      tr__deaths_arrive(tr_server *server, tr__trainer *trainer, const tr_form_replace_done *done);
/* It is decided that the trainer died without a replacement. The steps that it had ended still count. */
void      tr__deaths_lose(tr_server *server, tr__trainer *trainer);
/* No standby is left for a trainer, and the mode cannot continue without this trainer: the job fails. */
void      tr__deaths_not_replaced(tr_server *server, const tr__trainer *trainer);
/* The replacement has made a step, or will make none: a snapshot need not wait for it. */
void      tr__deaths_replaced(tr_server *server, tr__trainer *trainer);
/* Handle REPLACE_DONE: this peer has become a trainer. */
void      tr__deaths_on_done(tr_server *server, int peer, const tr_form_replace_done *done);
/* Handle the JOIN of a replacement. */
tr_status tr__deaths_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
