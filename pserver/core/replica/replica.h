/* replica.h - the core of a replica: a rank that stores a copy of the state of a server of another host, and answers no trainer.
 *
 * The server sends the replica its state first, unless the replica has this state from an earlier start of the job. Then the server sends
 * the gradients of each update (server_replication.c). The replica's store applies them with the same program, so the results have the same
 * bits. It commits the state in shared memory, under the name that the server's own state has on its host. The replica's ACK of an update
 * means that the update is committed. When the server's host is lost, a server that is started on the replica's host finds the state there.
 *
 * When another rank takes the server's place, the replica learns this from SERVING. It then drops the parts of an update that was being
 * sent, and reports its state to the new server.
 *
 * A server may call a replica in the middle of the job. This replica begins without a state. It counts from the server's COPY_LIVE on, when
 * it has caught up with everything that the server has acknowledged. Until then its failure does not end the job, and it drops its state
 * when another rank takes the server's place. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"
#include "pserver/core/base/store.h"

typedef struct tr_replica tr_replica;

/* Roster and store must outlive the replica. */
tr_replica *tr_replica_new(const tr_roster *roster, const tr_store *store);
/* A replica in the middle of the job: this rank was a standby and has become a replica (tr_roster_set_replica). It sends REPLICA_DONE to
 * all ranks. */
tr_replica *tr_replica_new_called(const tr_roster *roster, const tr_store *store);
void        tr_replica_free(tr_replica *replica);
tr_node     tr_replica_node(tr_replica *replica);

/* The update that the store was asked to apply is applied, or has failed. */
void        tr_replica_applied(tr_replica *replica, tr_status status);
/* The update that is being applied needs the next gathered values of all servers (gathering.h). The replica writes them to `all`, which
 * has TR_GATHER_MAX bytes for each server. */
void        tr_replica_share(tr_replica *replica, void *all);
/* The number of tr_replica_share calls whose values have been written. */
uint64_t    tr_replica_shared(const tr_replica *replica);
