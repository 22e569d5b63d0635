/* standby.h - the core of a standby. A standby takes the place of a server of its host that dies. Or it becomes a trainer, when server 0
 * calls it, or the replica of a server of another host, when that server calls it. A replica without a server uses this core, too, and
 * accepts only that last call.
 *
 * The memory of a dead server (state.h) may still be locked for a moment by the ending process; the standby tries until it gets the memory.
 * After that the core of the rank is that of the server, the trainer or the replica. No rank sends requests to a standby before it has sent
 * SERVING.
 *
 * Invariants: of several standbys of a host only the first living one acts (tr_roster_standby_for). A standby takes one place in its
 * life. */
#pragma once

#include "pserver/core/base/node.h"
#include "pserver/core/base/roster.h"

typedef struct tr_standby tr_standby;

/* Take the place of a server that was rank `dead`. TR_EEXIST: its memory is still locked, try again. */
typedef tr_status (*tr_standby_take)(void *self, int server, int dead);

/* Become that trainer, with this incarnation, unless another rank has its place. */
typedef void (*tr_standby_replace_trainer)(void *self, int trainer, uint32_t incarnation);

/* Become the replica of that server, unless another rank is its replica. */
typedef void (*tr_standby_replicate)(void *self, int server);

/* The roster must outlive the standby. */
tr_standby *tr_standby_new(const tr_roster *roster, tr_standby_take take, tr_standby_replace_trainer replace,
                           tr_standby_replicate replicate, void *self);
void      tr_standby_free(tr_standby *standby);
tr_node   tr_standby_node(tr_standby *standby);
