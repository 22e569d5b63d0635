/* server_meters.h - what came when, and how long it lay here, trainer by trainer, for people.
 *
 * Times are those of inputs: a message, a tick, or the report that an update is computed. */
#ifndef TR_PSERVER_SERVER_METERS_H
#define TR_PSERVER_SERVER_METERS_H

#include "pserver/core/server_state.h"

void tr__meters_new(tr_server *server);
void tr__meters_free(tr_server *server);
/* The trainer has ended a step. */
void tr__meters_ended(tr_server *server, const tr__trainer *trainer);
/* An update of the trainers that take part (trainer by trainer) begins. */
void tr__meters_begins(tr_server *server, const bool *takes_part);
/* The trainer's oldest step is in an update, or dropped. */
void tr__meters_settled(tr_server *server, const tr__trainer *trainer);
/* The trainer's question for parameters waits; all of its questions are answered. */
void tr__meters_holds(tr_server *server, const tr__trainer *trainer);
void tr__meters_answered(tr_server *server, const tr__trainer *trainer);
/* Of trainer `trainer`; any thread may read its counters. */
const tr_peer_meter *tr__meters_of(const tr_server *server, int trainer);

#endif
