/* server_updates.h - updates: full rounds are queued, and the store applies one at a time.
 *
 * A step of a trainer is *ended* when its STEP_END is here, and *settled* when it is in an update, or was dropped. Settled steps are
 * committed before they are acknowledged (server_rules.c), so a successor of this server has them. */
#pragma once

#include "pserver/core/updates/server_rounds.h"

void             tr__updates_new(tr_server *server);
void             tr__updates_free(tr_server *server);

/* == steps == */
/* The trainer has ended its next step, by request number `seq`. */
void             tr__updates_end_step(tr_server *server, tr__trainer *trainer, uint64_t seq);
/* A replacement ends a step that the dead trainer had ended already: the step's acknowledgement now belongs to request `seq`. */
void             tr__updates_end_step_again(tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t seq);
/* The stream of the trainer restarts: its ended steps belong to no request until they are ended again. */
void             tr__updates_forget_requests(tr_server *server, const tr__trainer *trainer);
/* Set the number of the trainer's ended and settled steps. `applied_in`: the update that has the last of these steps; 0: none, or it is not
 * known. */
void             tr__updates_set_settled(tr_server *server, tr__trainer *trainer, uint64_t settled, uint64_t applied_in);
/* Settle the trainer's oldest step without an update. `is_late`: the step is dropped, because it came too late. */
void             tr__updates_settle_alone(tr_server *server, tr__trainer *trainer, bool is_late);
/* The update that has the trainer's newest settled step. 0: no update has it, or the update is not known. */
uint64_t         tr__updates_applied_in(const tr_server *server, const tr__trainer *trainer);

/* == the queue == */
/* Queue a full round. */
void             tr__updates_enqueue(tr_server *server, tr__round *round);
/* Rounds that wait or are being applied. */
int              tr__updates_queued(const tr_server *server);
/* Has server 0 decided an update that is not over? Then its trainers still take part in it, even if they have died. */
bool             tr__updates_are_deciding(const tr_server *server);
/* Is the store computing an update? Then tables must not be read. */
bool             tr__updates_is_updating(const tr_server *server);
/* Does a round wait, and is no update in hand? */
bool             tr__updates_may_begin(const tr_server *server);
/* Begin the update of the first round of the queue. The caller fills in `pulled` and `rows`. */
tr_update        tr__updates_begin(tr_server *server);
/* The first trainer of the update in hand: the only one, where contributions are applied alone. */
int              tr__updates_first_in_hand(const tr_server *server);
/* Count a step of the update in hand whose parameters were `staleness` updates old. */
void             tr__updates_count_staleness(tr_server *server, uint64_t staleness);
/* The trainers that take part in the update in hand, or, where server 0 decides, in the one that is to be queued next. */
bool            *tr__updates_takes_part(const tr_server *server);
/* The store has computed the update in hand. */
void             tr__updates_computed(tr_server *server);
bool             tr__updates_is_computed(const tr_server *server);
/* The update in hand is over: settle its steps. */
void             tr__updates_finish(tr_server *server);
/* The finished update is committed: let its rounds gather their next step. */
void             tr__updates_release_rounds(tr_server *server);

/* Fill in the counters of staleness; any thread may call this. */
void             tr__updates_stats(const tr_server *server, tr_job_stats *stats);

/* == commits == */
/* The settled steps now, or (`with_update`) after the update in hand. The arrays live until the next call. */
tr_commit        tr__updates_commit_of(tr_server *server, bool with_update);
