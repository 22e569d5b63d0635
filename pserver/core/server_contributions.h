/* server_contributions.h - contributions: chunks of gradients arrive and are added to a round (server_rounds.h) when their turn has come. A chunk that is
 * ahead of its turn is held.
 *
 * A trainer that dies leaves chunks of a step that it has not ended. In a round of its own they are forgotten. In a common sum they stay, because its
 * replacement computes the same bits, and only those chunks are taken from the replacement that are missing. */
#ifndef TR_PSERVER_SERVER_CONTRIBUTIONS_H
#define TR_PSERVER_SERVER_CONTRIBUTIONS_H

#include "pserver/core/server_rounds.h"

/* What a round is good for now. */
typedef enum tr__round_state {
    TR__ROUND_WAITS,                  /* contributions are missing, or the round is in an update */
    TR__ROUND_COMPLETE,               /* all that the policy wants is here */
    TR__ROUND_LEFT_OUT,               /* its trainer has ended this step without a gradient */
} tr__round_state;

/* Behind SETUP: make room for what will be gathered. */
void            tr__contributions_new(tr_server *server);
void            tr__contributions_free(tr_server *server);

/* == arrival == */
/* Where a chunk may be received at once: the sum itself when the chunk is its first. NULL: nowhere special. */
uint8_t        *tr__contributions_place(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* Is this payload a place in a sum? */
bool            tr__contributions_is_place(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* PUSH, PUSH_MANY, PUSH_COMPRESSED. Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status       tr__contributions_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* Has the trainer begun a step that it has not ended? Then the number of its chunks, else 0. */
uint64_t        tr__contributions_begun(const tr_server *server, const tr__trainer *trainer);
/* The name of a gradient that the trainer has not pushed for its step. NULL: it has pushed all. */
const char     *tr__contributions_first_missing(const tr_server *server, const tr__trainer *trainer);
/* The trainer has ended its step, with a gradient or without one. */
void            tr__contributions_ended(tr_server *server, const tr__trainer *trainer, bool has_gradient);
/* The trainer is dead: what there is of the step that it has not ended is kept or forgotten, as the policy says. */
void            tr__contributions_abandon(tr_server *server, const tr__trainer *trainer);
/* A replacement will send the trainer's next step under new request numbers; what is in a common sum stays there. */
void            tr__contributions_keep_for_replacement(tr_server *server, const tr__trainer *trainer);

/* == rounds == */
/* Add the held chunks whose turn has come, and say what the round is good for. */
tr__round_state tr__round_advance(tr_server *server, tr__round *round);

#endif
