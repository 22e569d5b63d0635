/* client_snapshot.h - a trainer's part of snapshots: it begins them, or takes part (server_snapshots.h). */
#ifndef TR_PSERVER_CLIENT_SNAPSHOT_H
#define TR_PSERVER_CLIENT_SNAPSHOT_H

#include "pserver/core/client/client_state.h"

/* Follow an ACK's fields about snapshots: the initiator, the wanted snapshot, the newest one. */
void    tr__client_on_ack_of_snapshots(tr_client *client, tr__stream *s, const tr_form_ack *ack);
void    tr__client_on_snapshot_done(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload);
/* Repeat a SNAPSHOT whose answer has not come. Returns the time of the next call. */
int64_t tr__client_ask_again_for_answers(tr_client *client);
/* Is a SNAPSHOT still to be sent to this server, or to be acknowledged by it? */
bool    tr__client_takes_snapshot(const tr__stream *s);
/* The server died before it wrote its part of this trainer's snapshot: record that there will be no part. */
void    tr__client_give_up_answer(tr__stream *s);

#endif
