/* server_rounds.h - rounds: where contributions are gathered for one update, as one sum for each block.
 *
 * A round gathers the contributions of one step: of all trainers, or of one (tr_policy.gathers_per_trainer). In a sum, chunks are added in
 * the order of the trainers' numbers, so that the bits do not depend on the order of arrival. A round is full when all contributions that
 * the policy wants are there. Nothing is added to a full round until the round begins its next step. */
#pragma once

#include "pserver/core/updates/server_state.h"
#include "pserver/core/updates/weighted_mean.h"

/* The trainers of a round are number first .. end - 1: all of them, or one. */
typedef struct tr__round {
    int       first, end;
    uint64_t  step;                   /* the trainers' step that is gathered: 1, 2, ... */
    uint8_t **sum;                    /* of each block; the mean when the round is full */
    bool      is_full;                /* the round waits to be applied, or is being applied */
    bool      must_be_checked;        /* the round may be complete */
    bool      turns_changed;          /* deferred chunks of other trainers may have their turn */
    tr_mean  *chunk;                  /* the mean of each chunk, in the numbering of the chunks of all blocks */
    uint64_t  chunks_whole;
} tr__round;

/* After SETUP: allocate the sums. */
tr_status  tr__rounds_new(tr_server *server);
void       tr__rounds_free(tr_server *server);
/* The round for the trainer's gradients: its own one, or the common one. */
tr__round *tr__round_of(const tr_server *server, const tr__trainer *trainer);
/* Let every round gather the step after the last settled one. */
void       tr__rounds_begin(tr_server *server);

/* == chunks == */
/* The chunk at `offset` of a block: its number among all chunks; its size in bytes. */
uint64_t   tr__chunk_of(const tr_server *server, const tr__block *block, uint64_t offset);
uint64_t   tr__chunk_bytes(const tr_server *server, const tr__block *block, uint64_t offset);
/* Does the trainer contribute to this step? A trainer that has left contributes to the steps that it ended, and no trainer to a step that
 * it left out. */
bool       tr__round_takes_part(const tr__trainer *trainer, const tr__round *round);
/* Is it this trainer's turn to have its chunk added? */
bool       tr__round_is_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset);
/* Add a chunk whose turn has come. */
void       tr__round_add(tr_server *server, tr__round *round, uint32_t index, uint64_t offset, const uint8_t *data, bool is_compressed,
                         double weight);
/* In every chunk, skip trainers that do not take part. */
void       tr__round_move_all_on(tr_server *server, tr__round *round);

/* == the life of a round == */
/* The round may be complete now. */
void       tr__round_check(tr_server *server, tr__round *round);
/* Another set of trainers takes part, or the round is at another step. */
void       tr__round_turns_change(tr_server *server, tr__round *round);
/* Take a round that must be checked, and clear its mark. NULL: there is none. */
tr__round *tr__rounds_next_to_check(tr_server *server);
/* Are all contributions that the policy wants here? */
bool       tr__round_is_complete(const tr_server *server, const tr__round *round);
/* Drop the contributions in the round. Its step stays the same. */
void       tr__round_empty(tr_server *server, tr__round *round);
/* Empty the round and begin its next step. */
void       tr__round_next(tr_server *server, tr__round *round);
/* Where server 0 decides about updates: return a round with the mean of the rounds of the trainers in `who` (trainer by trainer). */
tr__round *tr__rounds_merge(tr_server *server, const bool *who);
bool       tr__round_is_merged(const tr_server *server, const tr__round *round);
