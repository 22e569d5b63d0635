/* gather.h - what all servers have of something small, gathered by each of them: the protocol core.
 *
 * A gathering is known by its update and its place among those of that update, which are the same in all servers. A server
 * begins one with bytes of its own, sends them to all others, and has the gathering when theirs are here. Nobody completes a
 * gathering before all have begun it, so a server is at most one ahead of another: two places for what others send are
 * enough. A message that was lost is asked for again, with the own bytes at hand.
 *
 * A process that takes a server's place computes its last update again, and asks: so each keeps what it has said in this
 * update and the one before. If it is asked for an update that was complete in its predecessor's life it cannot say what that
 * said, and fails; the job starts again from the update before.
 *
 * What must stay true: as node.h says; this core is part of the server's. */
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
