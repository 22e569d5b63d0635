/* replica_stream.h - the numbered stream of messages from a server to its replica, which answers with ACK.
 *
 * A message stays in the stream until an ACK with its number or a later one arrives. Where the transport may lose messages, all
 * unacknowledged messages are sent again after some time.
 *
 * What must stay true: a payload that is not `owned` does not change until its message is acknowledged. */
#pragma once

#include "pserver/core/base/node.h"

typedef struct tr_replica_stream tr_replica_stream;

/* A stream from rank `self` to rank `peer`. */
tr_replica_stream *tr_replica_stream_new(int self, int peer);
/* Set the time after which messages are repeated, in nanoseconds. 0, the default: never, because the transport is reliable. */
void       tr_replica_stream_set_retry(tr_replica_stream *stream, int64_t retry);
void       tr_replica_stream_free(tr_replica_stream *stream);
int        tr_replica_stream_peer(const tr_replica_stream *stream);

/* Append a message. This fills in its number and its sender, and returns the number. `owned` as in tr_message, but freed when
 * the message is acknowledged. */
uint64_t   tr_replica_stream_put(tr_replica_stream *stream, const tr_wire *wire, const void *payload, void *owned);
void       tr_replica_stream_acked(tr_replica_stream *stream, uint64_t seq);
/* The number of the last acknowledged message. */
uint64_t   tr_replica_stream_done(const tr_replica_stream *stream);
/* The number of unacknowledged bytes. */
uint64_t   tr_replica_stream_bytes(const tr_replica_stream *stream);

/* As `next` and `tick` of a tr_node. */
bool       tr_replica_stream_next(tr_replica_stream *stream, tr_message *out);
int64_t    tr_replica_stream_tick(tr_replica_stream *stream, int64_t now);
