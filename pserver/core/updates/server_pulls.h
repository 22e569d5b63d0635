/* server_pulls.h - pulls: parameters are sent when the policy of the job allows it.
 *
 * Parameters are sent without a copy. In lockstep policies no message reads a buffer any more when an update writes it, because that update
 * needs a gradient of the trainer that has pulled. In the other policies messages have the buffer on loan, and the update that would write
 * it waits. */
#pragma once

#include "pserver/core/updates/server_state.h"

void      tr__pulls_new(tr_server *server);
void      tr__pulls_free(tr_server *server);
/* The first values are here. If the mode compensates delay (compensate.h), copy them as the parameters that each trainer has. */
tr_status tr__pulls_keep_copies(tr_server *server);
/* PULL. */
extern const tr__handler tr__pulls_handlers[];
/* Answer all pulls that the policy allows now. */
void      tr__pulls_answer(tr_server *server);
/* The trainer is dead: drop its pulls. */
void      tr__pulls_forget(tr_server *server, const tr__trainer *trainer);

/* == when == */
/* Does the policy allow parameters as of `step` for this trainer? `own`: the steps that the trainer has made itself, which ssp bounds. */
bool      tr__pulls_may_answer(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own);
/* The number of steps that the state contains of every trainer. UINT64_MAX: no trainer makes steps. */
uint64_t  tr__pulls_clock(const tr_server *server);
/* Are the parameters as of `step` those before the last update? Then the trainer is a replacement that repeats a step for other servers. */
bool      tr__pulls_wants_before(const tr_server *server, const tr__trainer *trainer, uint64_t step);

/* == what a trainer has == */
/* Record that the trainer gets the present parameters or rows, as of `step`. */
void      tr__pulls_record(tr_server *server, const tr__trainer *trainer, uint64_t step);
/* The trainer has, or will get, the parameters of update `update`. `step`: the step as of which it got some of them; UINT64_MAX: it got
 * none yet. */
void      tr__pulls_set(tr_server *server, const tr__trainer *trainer, uint64_t update, uint64_t step);
/* The number of updates in the oldest parameters and rows that the trainer made `step` with. UINT64_MAX: it made it without any of this
 * server. */
uint64_t  tr__pulls_update_of(const tr_server *server, const tr__trainer *trainer, uint64_t step);
/* The parameters that the trainer has, block by block, where delay is compensated; else NULL. */
uint8_t **tr__pulls_copy_of(const tr_server *server, const tr__trainer *trainer);

/* == loans == */
/* Would the next update write a buffer that is being sent to a living rank? If so, these loans are marked as wanted. `sets_values`: the
 * update also writes the present buffer. */
bool      tr__pulls_are_read(tr_server *server, bool sets_values);
/* Does an update wait for the end of loans? */
bool      tr__pulls_await_loans(const tr_server *server);
/* A rank is dead: ignore its loans. */
void      tr__pulls_void_loans(tr_server *server, int rank);
/* Write the names of the ranks whose messages the next update waits for. */
void      tr__pulls_describe_readers(const tr_server *server, char *out, size_t size);
