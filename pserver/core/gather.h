/* gather.h - gathering: each server has a small value, and every server gets the values of all. A protocol core.
 *
 * A gathering is identified by its update and by its index among the gatherings of that update; both are the same on all servers. A server
 * begins a gathering with its own value, sends this to all others, and has completed it when all values have come. No server completes a
 * gathering before all have begun it, so one server is at most one gathering ahead of another, and two places for the values of others
 * are enough. A server that waits sends its own value again and asks for the others.
 *
 * The successor of a dead server computes the last update again, and asks. So each server keeps its values of this update and of the one before. A server that
 * is asked for values of an update which its predecessor had completed does not know them: it fails, and the job starts again from the
 * update before.
 *
 * Invariants: those of node.h. This core is a part of the server's. */
#ifndef TR_PSERVER_GATHER_H
#define TR_PSERVER_GATHER_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"

enum { TR_GATHER_MAX = 1024 };                     /* bytes of one server */

typedef struct tr_gather tr_gather;

/* `repeat`: nanoseconds after which what is missing is asked for again. The roster outlives it. */
tr_gather *tr_gather_new(const tr_roster *roster, int64_t repeat);
void       tr_gather_free(tr_gather *gather);

/* Begin the next gathering, which is part of update `update`, with `bytes` bytes; copies them. Not before the last is
 * done. When this one is, `all` holds those of all servers, in their order: servers * bytes. TR_EPEER when another server
 * means something else. */
tr_status  tr_gather_begin(tr_gather *gather, uint64_t update, const void *own, uint32_t bytes, void *all);
/* How many are done. */
uint64_t   tr_gather_done(const tr_gather *gather);
/* A message of kind SHARE; this server has applied `updates`. TR_EPEER when it does not fit what this server does. */
tr_status  tr_gather_receive(tr_gather *gather, uint64_t updates, int peer, const tr_wire *wire, const void *payload);
bool       tr_gather_next(tr_gather *gather, tr_message *out);
/* As tr_node's. */
int64_t    tr_gather_tick(tr_gather *gather, int64_t now);
/* "server 1, server 2": whose bytes are missing; false: nobody's. */
bool       tr_gather_missing(const tr_gather *gather, char *out, size_t size);

#endif
