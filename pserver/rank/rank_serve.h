/* rank_serve.h - the owner of a server, standby or replica: it applies updates, freezes states and writes parts of checkpoints when the
 * core wants that. */
#pragma once

#include "pserver/rank/rank.h"

/* Serve until the job has ended, or until this rank is to replace a dead trainer. */
tr_status tr__rank_serve(tr__rank *rank);
/* A server, while it applies an update, gathers `bytes` bytes of each server. *all: in the servers' order, until the
 * next call. Waits. */
tr_status tr__rank_share(const uint8_t **all, tr__rank *rank, const void *own, uint32_t bytes);
