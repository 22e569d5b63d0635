/* server_pulls.h - pulls: parameters are sent when the policy of the job allows it.
 *
 * Parameters are sent from where they lie. In lockstep policies nobody reads a buffer any more when the next update writes it: that update has a
 * gradient of the trainer that has pulled. In the other policies messages hold the buffer on loan, and the update that would write it waits. */
#ifndef TR_PSERVER_SERVER_PULLS_H
#define TR_PSERVER_SERVER_PULLS_H

#include "pserver/core/server_state.h"

void      tr__pulls_new(tr_server *server);
void      tr__pulls_free(tr_server *server);
/* First values are here. Where delay is compensated, keep what each trainer has: these values. */
tr_status tr__pulls_keep_copies(tr_server *server);
/* PULL; and a PULL that was taken before and has come again. */
tr_status tr__pulls_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
void      tr__pulls_on_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload);
/* Answer the pulls whose time has come. */
void      tr__pulls_answer(tr_server *server);
/* The trainer is dead: its questions are forgotten. */
void      tr__pulls_forget(tr_server *server, const tr__trainer *trainer);

/* == when == */
/* May the trainer have parameters as of its step? `own`: steps that it has made itself, which is what ssp bounds. */
bool      tr__pulls_may_answer(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own);
/* Steps of all trainers that are in what is here. UINT64_MAX: no trainer makes steps. */
uint64_t  tr__pulls_clock(const tr_server *server);
/* Are the parameters as of `step` those before the last update? Then the trainer is a replacement, and makes a step again that others lack. */
bool      tr__pulls_wants_before(const tr_server *server, const tr__trainer *trainer, uint64_t step);

/* == what a trainer has == */
/* The trainer gets parameters or rows as they are now. */
void      tr__pulls_record(tr_server *server, const tr__trainer *trainer, uint64_t step);
/* The trainer has, or will get, the parameters of update `update`. `step`: it has got some of them as of this step; UINT64_MAX: it has got nothing yet. */
void      tr__pulls_set(tr_server *server, const tr__trainer *trainer, uint64_t update, uint64_t step);
/* Updates in the oldest parameters that the trainer has got for its step. */
uint64_t  tr__pulls_update_of(const tr_server *server, const tr__trainer *trainer);
/* The parameters that the trainer has, block by block, where delay is compensated; else NULL. */
uint8_t **tr__pulls_copy_of(const tr_server *server, const tr__trainer *trainer);

/* == loans == */
/* Would the next update write a buffer that is being sent to a living rank? Such messages are asked back. */
bool      tr__pulls_are_read(tr_server *server);
/* Does an update wait for such messages? */
bool      tr__pulls_await_loans(const tr_server *server);
/* A rank is dead: what it was being sent counts no more. */
void      tr__pulls_void_loans(tr_server *server, int rank);
/* Whose messages the next update waits for, in words. */
void      tr__pulls_describe_readers(const tr_server *server, char *out, size_t size);

#endif
