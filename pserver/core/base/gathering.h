/* gathering.h - gathering: each server has a small value, and every server gets the values of all. A protocol core.
 *
 * A gathering is identified by its update and by its index among the gatherings of that update; both are the same on all servers. A server
 * begins a gathering with its own value, sends this value to all others, and completes the gathering when all values have arrived. No
 * server completes a gathering before all have begun it. So one server is at most one gathering ahead of another, and two buffers for the
 * values of others are enough. A server that waits sends its own value again and asks for the others.
 *
 * The successor of a dead server computes the last update again, and asks. So each server keeps its values of this update and of the one
 * before. A server that is asked for values of an update which its predecessor had completed does not know them: it fails, and the job
 * starts again from the update before.
 *
 * Invariants: those of node.h. This core is a part of the server's. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"

enum { TR_GATHER_MAX = 1024 };                     /* limit of one server's value, in bytes */

typedef struct tr_gather tr_gather;

/* `repeat`: nanoseconds after which missing values are asked for again. The roster must outlive the object. */
tr_gather *tr_gather_new(const tr_roster *roster, int64_t repeat);
void       tr_gather_free(tr_gather *gather);

/* Begin the next gathering, which is part of update `update`, with this server's value; the value is copied. The gathering before must be
 * done. When this one is done, `all` has the values of all servers in the servers' order: servers * bytes. TR_EPEER: another server
 * gathers values of another size. */
tr_status  tr_gather_begin(tr_gather *gather, uint64_t update, const void *own, uint32_t bytes, void *all);
/* The number of gatherings that are done. */
uint64_t   tr_gather_done(const tr_gather *gather);
/* Receive a SHARE; this server has applied `updates`. TR_EPEER: the message does not match this server's gatherings. */
tr_status  tr_gather_receive(tr_gather *gather, uint64_t updates, int peer, const tr_wire *wire, const void *payload);
bool       tr_gather_next(tr_gather *gather, tr_message *out);
/* As tr_node.tick. */
int64_t    tr_gather_tick(tr_gather *gather, int64_t now);
/* Write the names of the servers whose values are missing: "server 1, server 2". False: none is missing. */
bool       tr_gather_missing(const tr_gather *gather, char *out, size_t size);
