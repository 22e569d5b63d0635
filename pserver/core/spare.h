/* spare.h - the core of a rank that waits: when a server of its host dies, it takes its place; when server 0 calls it, that of a
 * trainer; when a server of another host calls it, that of its replica. A replica that has no server waits for this last alone.
 *
 * The dead one's memory (state.h) may be held for a moment yet, by a process that is ending; the spare tries until it has
 * it. From then on the rank's core is the server's, the trainer's, or the replica's. Nobody asks a spare for anything before it says that it serves.
 *
 * What must stay true: of several spares of a host only the first living one acts (tr_roster_spare_for), and it takes one
 * place in its life. */
#ifndef TR_PSERVER_SPARE_H
#define TR_PSERVER_SPARE_H

#include "pserver/core/node.h"
#include "pserver/core/roster.h"

typedef struct tr_spare tr_spare;

/* Take the place of a server that was rank `dead`. TR_EEXIST: its memory is held yet, try again. */
typedef tr_status (*tr_spare_take)(void *self, int server, int dead);

/* Become that trainer, with this epoch, if nobody else has its place. */
typedef void (*tr_spare_inherit)(void *self, int trainer, uint32_t epoch);

/* Become the replica of that server, if nobody else has its place. */
typedef void (*tr_spare_mirror)(void *self, int server);

/* The roster outlives it. */
tr_spare *tr_spare_new(const tr_roster *roster, tr_spare_take take, tr_spare_inherit inherit, tr_spare_mirror mirror, void *self);
void      tr_spare_free(tr_spare *spare);
tr_node   tr_spare_node(tr_spare *spare);
/* Has it taken a place? */
bool      tr_spare_is_serving(const tr_spare *spare);

#endif
