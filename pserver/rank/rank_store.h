/* rank_store.h - what the core of a server or of a replica has beneath it (tr_store): the program that it was told, in memory that outlives the
 * process, and the thread that runs it. */
#ifndef TR_PSERVER_RANK_STORE_H
#define TR_PSERVER_RANK_STORE_H

#include "pserver/rank/rank.h"

/* The store of this rank's core. */
tr_store  tr__rank_store(tr__driver *driver, const tr_roster *roster);
/* The name of this server's state that outlives the process. False: no state is kept, because no later process would read it. */
bool      tr__rank_state_name(char *out, size_t size, const tr__rank *rank);
/* Make the update that the core has asked for. Called by the thread that has the program. */
tr_status tr__rank_run_update(tr__rank *rank);
/* Tell the core that it is made. */
void      tr__rank_tell_applied(tr__driver *driver, tr_status status);

#endif
