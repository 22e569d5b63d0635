/* server_rounds.h - rounds: where contributions are gathered for one update, as one sum for each block.
 *
 * A round gathers the contributions of one step: of all trainers, or of one (tr_policy.gathers_per_trainer). In a sum, chunks are added in
 * the order of the trainers' numbers, so that the bits do not depend on the order of arrival. In a common sum the trainers of a host group
 * (roster.h) are added up first, and then these sums, whether the group's carrier has done so (carrier.h) or this server does. A round is
 * full when all contributions that the policy wants are there. Nothing is added to a full round until the round begins its next step. */
#pragma once

#include "pserver/core/updates/server_state.h"
#include "pserver/core/base/weighted_mean.h"

/* What is there of one chunk. */
typedef struct tr__chunk_sum {
    int      turn;                    /* index of the trainer whose part is next */
    bool     has_group;               /* the group's sum came as a whole, so its other trainers' parts are in it */
    int      group_to;                /* the turn after the last trainer of the group */
    tr_mean  mean, group;             /* of the groups that are over; of the group whose turn it is */
    uint8_t *group_sum;               /* a buffer of the pool; NULL: the first group is added up in the round's sum itself */
} tr__chunk_sum;

/* The trainers of a round are number first .. end - 1: all of them, or one. */
typedef struct tr__round {
    int       first, end;
    uint64_t  step;                   /* the trainers' step that is gathered: 1, 2, ... */
    uint8_t **sum;                    /* of each block; the mean when the round is full */
    bool      is_full;                /* the round waits to be applied, or is being applied */
    bool      must_be_checked;        /* the round may be complete */
    bool      turns_changed;          /* deferred chunks of other trainers may have their turn */
    tr__chunk_sum *chunk;             /* of each chunk, in the numbering of the chunks of all blocks */
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
/* Has the trainer's turn come, or has it passed? */
bool       tr__round_had_turn(const tr_server *server, const tr__trainer *trainer, uint32_t index, uint64_t offset);
/* Is there the sum of the group whose turn it is? */
bool       tr__round_has_group(const tr__round *round, uint64_t chunk);
/* Is there nothing in the sum of a chunk, so that its first part may be received there? */
bool       tr__round_is_new(const tr__round *round, uint64_t chunk);
/* Add a chunk whose turn has come. */
void       tr__round_add(tr_server *server, tr__round *round, uint32_t index, uint64_t offset, const uint8_t *data, bool is_compressed,
                         double weight);
/* The sum of a trainer's whole group has come in its place. Its turn has come or has passed: then another process of it had it. */
void       tr__round_add_group(tr_server *server, tr__round *round, const tr__trainer *trainer, uint32_t index, uint64_t offset,
                               const uint8_t *data, double weight);
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
