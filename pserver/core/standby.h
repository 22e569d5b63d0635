/* standby.h - the core of a standby: it takes the place of a server of its host that dies; or becomes a trainer, when server 0 calls it; or
 * becomes the replica of a server of another host, when that server calls it. A replica without a server waits for such a call alone.
 *
 * A dead server's memory (state.h) may still be held for a moment by the process that is ending; the standby tries until it gets it. From then on the
 * rank's core is that of the server, the trainer or the replica. No rank sends requests to a standby before it has sent SERVING.
 *
 * Invariants: of several standbys of a host only the first living one acts (tr_roster_standby_for). A standby takes one place in its life. */
#ifndef TR_PSERVER_STANDBY_H
#define TR_PSERVER_STANDBY_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"

typedef struct tr_standby tr_standby;

/* Take the place of a server that was rank `dead`. TR_EEXIST: its memory is held yet, try again. */
typedef tr_status (*tr_standby_take)(void *self, int server, int dead);

/* Become that trainer, with this epoch, if nobody else has its place. */
typedef void (*tr_standby_replace_trainer)(void *self, int trainer, uint32_t epoch);

/* Become the replica of that server, if nobody else has its place. */
typedef void (*tr_standby_replicate)(void *self, int server);

/* The roster outlives it. */
tr_standby *tr_standby_new(const tr_roster *roster, tr_standby_take take, tr_standby_replace_trainer replace, tr_standby_replicate replicate, void *self);
void      tr_standby_free(tr_standby *standby);
tr_node   tr_standby_node(tr_standby *standby);

#endif
