/* client_snapshot.h - a trainer's part of snapshots: it begins them, or takes part (server_snapshots.h). */
#pragma once

#include "pserver/core/client/client_state.h"

/* Follow an ACK's fields about snapshots: the initiator, the wanted snapshot, the newest one. */
void    tr__client_on_ack_of_snapshots(tr_client *client, tr__stream *s, const tr_form_ack *ack);
void    tr__client_on_snapshot_done(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload);
/* Repeat a SNAPSHOT whose answer has not come. Returns the time of the next call. */
int64_t tr__client_ask_again_for_answers(tr_client *client);
/* Another rank took the place of a server that died before it wrote its part of this trainer's snapshot: record that there will be no
 * part. */
void    tr__client_give_up_lost_answer(tr_client *client, tr__stream *s);
/* A server knows a snapshot of this number, so the next one gets a higher number. */
void    tr__client_note_snapshot(tr_client *client, uint32_t number);
/* The number of the newest snapshot that any server knows. */
uint32_t tr__client_known_snapshot(const tr_client *client);
/* This process is set up: the snapshots until now are not its own. */
void    tr__client_forget_snapshots(tr_client *client);
void    tr__client_hear_from_server(tr_client *client);
/* This trainer's packed Snapshot, malloc'ed. NULL: it has none. */
uint8_t *tr__client_pack_place(tr_client *client, size_t *size);
