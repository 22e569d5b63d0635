/* server.h - the protocol core of a parameter server.
 *
 * A trainer's requests carry (incarnation, seq). The server takes them in the order of seq, each once. A repeated request is answered
 * again. A request that comes too early (its predecessor was lost) is dropped, and the client repeats both.
 *
 * Step s of a trainer: the trainer pushes its part of every block, then ends the step. The mode (policy.c) determines what happens next:
 *   sync            Each chunk of a block is summed in trainer order (weighted_mean.h). A part waits until its turn comes. When
 *                   all living trainers have ended s and all chunks are complete, the store applies the sums.
 *   sync(backups)   The parts of each trainer are summed apart. When all trainers but `backups` have ended a step with the newest
 * parameters, the
 *                   mean of these steps is applied. A step that was computed with older parameters is dropped, and its trainer pulls newer
 * ones.
 *                   Server 0 decides for all servers (server_decisions.h).
 *   sync(degraded)     The same, with all living trainers.
 *   async, ssp, geo Each trainer's step is applied alone, in the order in which the steps were ended.
 * A step is settled when it was applied or dropped; then it is acknowledged. A pull is answered when the trainer's own
 * steps are settled, and in ssp when no trainer is too far behind. A part is acknowledged when it is summed. So the window of a fast
 * trainer limits how many early parts wait in this server's memory.
 *
 * No deadlock: the first trainer's parts never wait, and the parts of trainer k wait only for trainers below k. A complete step
 * waits only for the step that is being applied.
 *
 * Invariants. Parameters are sent without a copy, and all bytes of a pulled block are of one update. In sync the update that would
 * overwrite the buffer needs the next gradient of the trainer that pulled, so it cannot come too early.
 * In async, ssp and geo that update does not begin while a living rank receives from the buffer (server_pulls.h). In sync(backups) and
 * sync(degraded) no update waits, because a step whose parameters are two updates old is dropped anyway. In all kinds of sync the blocks of
 * several pulls are of one update; in other modes only the blocks of one pull are. A trainer pushes nothing of a step before its last step
 * is settled on all servers, because pieces of an update are computed before it is complete, into the memory of the update before the last.
 *
 * server_state.h explains the files of the server. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"
#include "pserver/core/base/store.h"
#include "pserver/observe/meter.h"

typedef struct tr_server tr_server;

/* Roster and store must outlive the server. The server begins by sending SERVING to all ranks, with the number of updates in its state. */
tr_server *tr_server_new(const tr_roster *roster, const tr_store *store);
void       tr_server_free(tr_server *server);
tr_node    tr_server_node(tr_server *server);

/* The transport may lose messages: repeat the messages that a replica has not acknowledged after so many nanoseconds. For a
 * new server, before its first message. */
void       tr_server_set_retry(tr_server *server, int64_t retry);

/* Failover: continue in the middle of a job from the state in the store. Trainers repeat the steps that are not settled for them. For a new
 * server, before its first message. */
tr_status  tr_server_take_over(tr_server *server);

/* The update that the store was asked to apply is applied, or has failed (the text is tr_error()'s). */
void       tr_server_applied(tr_server *server, tr_status status);
/* The state is copied, so training may continue. */
void       tr_server_snapped(tr_server *server, int64_t now);
/* The state is frozen, or (the text is tr_error()'s) cannot be. */
void       tr_server_frozen(tr_server *server, tr_status status);
/* The copy is on disk: `part` is the packed Part. NULL: it is not, and `error` says why. */
void       tr_server_written(tr_server *server, const uint8_t *part, size_t size, const char *error);
/* The store has read its part of a checkpoint, or the values of a setup that goes on from it, or has failed (the text is tr_error()'s). */
void       tr_server_restored(tr_server *server, tr_status status);
/* The file of rows is written or read, or `status` says why not (the text is tr_error()'s). `file` has what tr_table_file_write has filled
 * in; `rows`, malloc'ed: what was read. */
void                 tr_server_row_file(tr_server *server, tr_status status, const tr_table_file *file, void *rows, uint64_t bytes);
/* Has every trainer left, or died in a mode that survives this, and is every step settled? A server that is done still answers repeated
 * requests. */
bool       tr_server_is_done(const tr_server *server);
/* Have all trainers died without a replacement? Then the state is for the next start of the job. */
bool       tr_server_is_abandoned(const tr_server *server);
/* The update that is being applied needs a value of every server: begin a gathering (gathering.h). An error fails the core, as in a
 * message. */
void       tr_server_share(tr_server *server, const void *own, uint32_t bytes, void *all);
/* The number of tr_server_share calls whose values are complete. */
uint64_t   tr_server_shared(const tr_server *server);
/* Set the core's time before tr_server_applied, so that its meters are exact. */
void       tr_server_tell_time(tr_server *server, int64_t now);
/* The counters of a trainer; any thread may read them. */
const tr_peer_meter *tr_server_peer_meter(const tr_server *server, int trainer);
/* Fill in the staleness of the applied steps. */
void       tr_server_stats(const tr_server *server, tr_job_stats *stats);
