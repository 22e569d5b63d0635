/* replica_stream.h - a numbered stream of messages to one rank, which answers with ACK: what a server tells its replica.
 *
 * A message stays in the stream until the ACK of its number, or of a later one. Where the transport may lose messages, all
 * that are not acknowledged are sent again after a while.
 *
 * What must stay true: a payload that is not `owned` stays as it is until its message is acknowledged. */
#ifndef TR_PSERVER_REPLICA_STREAM_H
#define TR_PSERVER_REPLICA_STREAM_H

#include "pserver/core/node.h"

typedef struct tr_replica_stream tr_replica_stream;

/* To the rank `peer`. */
tr_replica_stream *tr_replica_stream_new(int self, int peer);
/* In nanoseconds; 0, as at first: the transport loses nothing. */
void       tr_replica_stream_set_retry(tr_replica_stream *stream, int64_t retry);
void       tr_replica_stream_free(tr_replica_stream *stream);
int        tr_replica_stream_peer(const tr_replica_stream *stream);

/* Put a message at the end; it gets its number, which is returned, and its sender. `owned` as in tr_message, but freed when
 * the message is acknowledged. */
uint64_t   tr_replica_stream_put(tr_replica_stream *stream, const tr_wire *wire, const void *payload, void *owned);
void       tr_replica_stream_acked(tr_replica_stream *stream, uint64_t seq);
/* The last number that is acknowledged. */
uint64_t   tr_replica_stream_done(const tr_replica_stream *stream);
/* Bytes that are not acknowledged. */
uint64_t   tr_replica_stream_bytes(const tr_replica_stream *stream);

/* As those of a node. */
bool       tr_replica_stream_next(tr_replica_stream *stream, tr_message *out);
int64_t    tr_replica_stream_tick(tr_replica_stream *stream, int64_t now);

#endif
