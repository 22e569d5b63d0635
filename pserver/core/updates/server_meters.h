/* server_meters.h - counters and times of each trainer on this server, for reports: when its steps ended, and how long they and its pulls
 * waited.
 *
 * All times are times of inputs: a message, a tick, or the store's report of an update. */
#pragma once

#include "pserver/core/updates/server_state.h"

/* The trainer has ended a step. */
void tr__meters_ended(tr_server *server, const tr__trainer *trainer);
/* An update begins. `takes_part`: trainer by trainer. */
void tr__meters_begins(tr_server *server, const bool *takes_part);
/* The trainer's oldest step is in an update, or dropped. */
void tr__meters_settled(tr_server *server, const tr__trainer *trainer);
/* A pull of the trainer must wait; all pulls of the trainer are answered. */
void tr__meters_holds(tr_server *server, const tr__trainer *trainer);
void tr__meters_answered(tr_server *server, const tr__trainer *trainer);
/* The counters of a trainer; any thread may read them. */
const tr_peer_meter *tr__meters_of(const tr_server *server, int trainer);
