/* server.h - the protocol core of a parameter server.
 *
 * A trainer's requests carry (epoch, seq). They are taken in the order of seq, each once; a repeated one is answered again, one that comes too early (its
 * predecessor was lost) is dropped, and the client repeats both.
 *
 * Step s of a trainer: it pushes its part of every block, then ends the step. What happens then is the mode's (policy.c):
 *   sync            Each chunk of a block is summed in trainer order (mean.h): a part whose turn has not come waits. When
 *                   all living trainers have ended s and all chunks are whole, the store applies them.
 *   sync(backups)   Parts are kept apart. When all but so many have ended a step with the newest parameters, the mean of
 *                   theirs is applied; a step that was computed with older ones is dropped, and its trainer pulls newer ones. Server 0 decides
 *                   for all (server_decisions.h).
 *   sync(fewer)     The same, with all living trainers.
 *   async, ssp, geo Each trainer's step is applied alone, in the order in which the steps were ended.
 * An ended step is acknowledged when it was applied or dropped ("settled"). A pull is answered when the trainer's own
 * steps are settled, and under ssp when nobody is too far behind. A part counts as acknowledged when it is summed, so
 * that a fast trainer's window, not this server's memory, holds what is too early.
 *
 * No deadlock: the first trainer's parts never wait, and those of trainer k wait only for trainers below k; a step that
 * is complete waits for nothing but the one that is being applied.
 *
 * Invariants. Parameters are sent from where they lie, and a block that was pulled is of one update. In mode sync that
 * follows from the order of things: the update that writes that buffer again has the next gradient of the trainer that pulled.
 * In async, ssp and geo that update does not begin while a living rank receives from the buffer (server_pulls.h). In sync(backups) and
 * sync(fewer) nobody waits: what is computed with parameters that two updates have overtaken is dropped anyway. Several blocks
 * are of one update in the kinds of sync; elsewhere if they were pulled at once. A trainer pushes nothing of a step before its last one is settled on all
 * servers: pieces of an update are computed before it is complete, into the memory of the update before the last.
 *
 * The files behind this header are explained in server_state.h. */
#ifndef TR_PSERVER_SERVER_H
#define TR_PSERVER_SERVER_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"
#include "pserver/core/store.h"
#include "pserver/observe/meter.h"

typedef struct tr_server tr_server;

/* Roster and store outlive it. It says at once that it serves, and what it has from before. */
tr_server *tr_server_new(const tr_roster *roster, const tr_store *store);
void       tr_server_free(tr_server *server);
tr_node    tr_server_node(tr_server *server);

/* The transport may lose messages: what a replica has not acknowledged after so many nanoseconds is sent to it again. For a
 * new server, before its first message. */
void       tr_server_set_retry(tr_server *server, int64_t retry);

/* Go on in the middle of a job, from what the store has kept: trainers repeat what they were not told is settled. For a new
 * server, before its first message. */
tr_status  tr_server_take_over(tr_server *server);

/* The update that the store was asked to apply is applied, or has failed (the text is tr_error()'s). */
void       tr_server_applied(tr_server *server, tr_status status);
/* The state is copied: training goes on. */
void       tr_server_snapped(tr_server *server, int64_t now);
/* The state is frozen, or (the text is tr_error()'s) cannot be. */
void       tr_server_frozen(tr_server *server, tr_status status);
/* The copy is on the disk: the packed Part, or (NULL) why not. */
void       tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error);
/* Every trainer has said goodbye (or has died where that is survived) and all is applied. Late repetitions are still
 * answered. */
bool       tr_server_is_done(const tr_server *server);
/* All have died, and nobody takes a place of theirs: what is here is for the next start of the job. */
bool       tr_server_is_abandoned(const tr_server *server);
/* Updates applied so far: in mode sync, steps. */
uint64_t   tr_server_step(const tr_server *server);
/* While an update is being applied: gather what all servers have of something (gather.h). Fails like a message would. */
void       tr_server_share(tr_server *server, const void *own, uint32_t bytes, void *all);
/* How many times that is done. */
uint64_t   tr_server_shared(const tr_server *server);
/* What time it is, for the times that it keeps; before tr_server_applied. */
void       tr_server_tell_time(tr_server *server, int64_t now);
/* Of trainer `trainer`: any thread may read its counters. */
const tr_peer_meter *tr_server_peer_meter(const tr_server *server, int trainer);
/* Fill in what the server knows of staleness. */
void       tr_server_stats(const tr_server *server, tr_job_stats *stats);

#endif
