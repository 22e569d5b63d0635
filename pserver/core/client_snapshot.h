/* client_snapshot.h - a trainer's part of snapshots: it begins them, or takes part (server_snapshots.h). */
#ifndef TR_PSERVER_CLIENT_SNAPSHOT_H
#define TR_PSERVER_CLIENT_SNAPSHOT_H

#include "pserver/core/client_state.h"

/* What an acknowledgement says of snapshots. */
void    tr__client_on_ack_of_snapshots(tr_client *client, tr__stream *s, const tr_form_ack *ack);
void    tr__client_on_snapshot_done(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload);
/* Ask again for answers that have not come. Returns when to be called again. */
int64_t tr__client_ask_again_for_answers(tr_client *client);
/* Is a SNAPSHOT still to be sent to this server, or to be acknowledged by it? */
bool    tr__client_takes_snapshot(const tr__stream *s);
/* The server died with its part of this trainer's snapshot: there is none. */
void    tr__client_give_up_answer(tr__stream *s);

#endif
