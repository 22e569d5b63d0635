/* replica.h - the core of a rank that keeps what a server of another host has, and serves nobody.
 *
 * Its server sends it first what it has, unless the replica has it from an earlier start of the job, and then the gradients of
 * each update (server_replication.c). The replica's store applies them by the same program, so it comes to the same bits, and
 * commits them under the name that the server's own state has on its host. Its ACK of an update says that this is done.
 * When the server's host is lost, a server that is started on the replica's host finds the state there.
 *
 * When another rank takes its server's place, it hears so by SERVING, forgets what it has of the update that was on its
 * way, and says what it has.
 *
 * One that a server calls in the middle of the job begins with nothing. It counts when its server says so, behind all that the server
 * has told others without waiting for it. Until then it ends nobody's job by a failure, and forgets what it has when
 * another rank takes its server's place. */
#ifndef TR_PSERVER_REPLICA_H
#define TR_PSERVER_REPLICA_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"
#include "pserver/core/store.h"

typedef struct tr_replica tr_replica;

/* Roster and store outlive it. */
tr_replica *tr_replica_new(const tr_roster *roster, const tr_store *store);
/* In the middle of the job: this rank waited, and has become a replica (tr_roster_set_replica). It tells all. */
tr_replica *tr_replica_new_called(const tr_roster *roster, const tr_store *store);
void        tr_replica_free(tr_replica *replica);
tr_node     tr_replica_node(tr_replica *replica);

/* The update that the store was asked to apply is applied, or has failed. */
void        tr_replica_applied(tr_replica *replica, tr_status status);
/* Of the update that is being applied: where to write what all servers have gathered, with room for TR_GATHER_MAX bytes of each
 * (gather.h). */
void        tr_replica_share(tr_replica *replica, void *all);
/* How many times that is done. */
uint64_t    tr_replica_shared(const tr_replica *replica);

#endif
