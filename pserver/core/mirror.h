/* mirror.h - a numbered stream of messages to one rank, which answers with ACK: what a server tells its replica.
 *
 * A message stays in the stream until the ACK of its number, or of a later one. Where the transport may lose messages, all
 * that are not acknowledged are sent again after a while.
 *
 * What must stay true: a payload that is not `owned` stays as it is until its message is acknowledged. */
#ifndef TR_PSERVER_MIRROR_H
#define TR_PSERVER_MIRROR_H

#include "pserver/core/node.h"

typedef struct tr_mirror tr_mirror;

/* To the rank `peer`. */
tr_mirror *tr_mirror_new(int self, int peer);
/* In nanoseconds; 0, as at first: the transport loses nothing. */
void       tr_mirror_set_retry(tr_mirror *mirror, int64_t retry);
void       tr_mirror_free(tr_mirror *mirror);
int        tr_mirror_peer(const tr_mirror *mirror);

/* Put a message at the end; it gets its number, which is returned, and its sender. `owned` as in tr_message, but freed when
 * the message is acknowledged. */
uint64_t   tr_mirror_put(tr_mirror *mirror, const tr_wire *wire, const void *payload, void *owned);
void       tr_mirror_acked(tr_mirror *mirror, uint64_t seq);
/* The last number that is acknowledged. */
uint64_t   tr_mirror_done(const tr_mirror *mirror);
/* Bytes that are not acknowledged. */
uint64_t   tr_mirror_bytes(const tr_mirror *mirror);

/* As those of a node. */
bool       tr_mirror_next(tr_mirror *mirror, tr_message *out);
int64_t    tr_mirror_tick(tr_mirror *mirror, int64_t now);

#endif
