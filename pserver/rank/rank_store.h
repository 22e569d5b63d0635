/* rank_store.h - the store of a server's or a replica's core (tr_store) with its worker: the main thread of this rank. */
#pragma once

#include "pserver/rank/rank.h"
#include "pserver/store/server_store.h"

/* The store of this rank's core. */
tr_store  tr__rank_store(tr__driver *driver, const tr_roster *roster, tr_server_duty duty);
/* Tell the core that its update is made. */
void      tr__rank_tell_applied(tr__driver *driver, tr_status status);
