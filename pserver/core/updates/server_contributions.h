/* server_contributions.h - contributions: chunks of gradients arrive and are added to a round (server_rounds.h) when their turn has come. A
 * chunk that is ahead of its turn is deferred.
 *
 * A trainer that dies may leave chunks of a step that it has not ended. In a round of its own these chunks are dropped. In a common sum
 * they stay, because the replacement computes the same bits. From the replacement the server then takes only the missing chunks. */
#pragma once

#include "pserver/core/updates/server_rounds.h"

/* Can a round be applied now? */
typedef enum tr__round_state {
    TR__ROUND_WAITS,                  /* contributions are missing, or the round is in an update */
    TR__ROUND_COMPLETE,               /* all contributions that the policy wants are here */
    TR__ROUND_LEFT_OUT,               /* its trainer has ended this step without a gradient */
} tr__round_state;

/* After SETUP: allocate the records of all trainers. */
void            tr__contributions_new(tr_server *server);
void            tr__contributions_free(tr_server *server);

/* == arrival == */
/* The memory into which a chunk may be received directly: the sum, if the chunk is the sum's first. NULL: there is none. */
uint8_t        *tr__contributions_receive_buffer(tr_server *server, const tr__trainer *trainer, const tr_wire *wire);
/* Is this payload a place in a sum? */
bool tr__contributions_is_buffer(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* PUSH, PUSH_MANY, PUSH_COMPRESSED. Takes `payload` over if it is a buffer of the pool (`is_owned`). */
tr_status       tr__contributions_on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned);
/* The sum of this trainer's group, which is the first one of it, from a process that is dead: the parts of the others are in it, too. Takes
 * `payload`, a buffer of the pool, over. */
void            tr__contributions_on_late_sum(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload);
/* PUSH or PUSH_COMPRESSED comes again: it may have been taken without its data, which were to lie in the sum of the trainer's group. */
void            tr__contributions_on_push_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* The number of chunks that the trainer has pushed of a step that it has not ended. */
uint64_t        tr__contributions_begun(const tr_server *server, const tr__trainer *trainer);
/* The name of a gradient that the trainer has not pushed for its step. NULL: it has pushed all. */
const char     *tr__contributions_first_missing(const tr_server *server, const tr__trainer *trainer);
/* The trainer has ended its step, with a gradient or without one. */
void            tr__contributions_ended(tr_server *server, tr__trainer *trainer, bool has_gradient);
/* The trainer is dead: keep or drop the chunks of the step that it has not ended, as the policy requires. */
void            tr__contributions_abandon(tr_server *server, const tr__trainer *trainer);
/* A replacement will send the trainer's next step under new request numbers. The chunks in a common sum stay there. */
void            tr__contributions_keep_for_replacement(tr_server *server, const tr__trainer *trainer);

/* == rounds == */
/* Add the deferred chunks whose turn has come. Returns the state of the round. */
tr__round_state tr__round_advance(tr_server *server, tr__round *round);
