/* server_rounds.h - rounds: where contributions are gathered for one update, as one sum for each block.
 *
 * A round gathers the contributions of one step: of all trainers, or of one (tr_policy.gathers_per_trainer). In a sum, chunks are added in the order of
 * the trainers' numbers, so that the bits do not depend on when they arrive. A round is full when all that the policy wants is there; then nothing is added
 * until the round goes on to its next step. */
#ifndef TR_PSERVER_SERVER_ROUNDS_H
#define TR_PSERVER_SERVER_ROUNDS_H

#include "pserver/core/mean.h"
#include "pserver/core/server_state.h"

/* The trainers of a round are number first .. end - 1: all of them, or one. */
typedef struct tr__round {
    int       first, end;
    uint64_t  step;                   /* of these trainers: 1, 2, ... */
    uint8_t **sum;                    /* of each block; the mean when it is full */
    bool      is_full;                /* it waits to be applied, or is being applied */
    bool      must_be_checked;      /* it may be complete */
    bool      turns_changed;          /* and other trainers' held chunks may have their turn */
    tr_mean  *chunk;                  /* of each chunk of all blocks */
    uint64_t  chunks_whole;
} tr__round;

/* Behind SETUP: make room for what will be gathered. */
tr_status  tr__rounds_new(tr_server *server);
void       tr__rounds_free(tr_server *server);
/* What the trainer's gradients go into: its own round, or the common one. */
tr__round *tr__round_of(const tr_server *server, const tr__trainer *trainer);
/* Let every round gather the step behind what is settled. */
void       tr__rounds_begin(tr_server *server);

/* == chunks == */
/* The number, among all chunks, of the one at `offset` of a block; its bytes. */
uint64_t   tr__chunk_of(const tr_server *server, const tr__block *block, uint64_t offset);
uint64_t   tr__chunk_bytes(const tr_server *server, const tr__block *block, uint64_t offset);
/* Does the trainer contribute to this step? A trainer that has left contributes to the steps that it ended. */
bool       tr__round_takes_part(const tr__trainer *trainer, const tr__round *round);
/* Is the trainer's chunk the next one that is added? */
bool       tr__round_is_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset);
/* Add the chunk whose turn it is. */
void       tr__round_add(tr_server *server, tr__round *round, uint32_t index, uint64_t offset, const uint8_t *data, bool is_compressed,
                         double weight);
/* In every chunk, pass over trainers that do not take part. */
void       tr__round_move_all_on(tr_server *server, tr__round *round);

/* == the life of a round == */
/* The round may be complete now. */
void       tr__round_check(tr_server *server, tr__round *round);
/* Another set of trainers takes part, or the round is at another step. */
void       tr__round_turns_change(tr_server *server, tr__round *round);
/* A round that must be looked at, and is not any more. NULL: there is none. */
tr__round *tr__rounds_next_to_check(tr_server *server);
/* Is all that the policy wants here? */
bool       tr__round_is_complete(const tr_server *server, const tr__round *round);
/* Forget what is in the round, but not its step. */
void       tr__round_empty(tr_server *server, tr__round *round);
/* Empty it for its next step. */
void       tr__round_next(tr_server *server, tr__round *round);
/* Where server 0 decides: make the mean of the full rounds of the trainers that take part (trainer by trainer). The result is a round of all. */
tr__round *tr__rounds_merge(tr_server *server, const bool *who);
bool       tr__round_is_merged(const tr_server *server, const tr__round *round);

#endif
