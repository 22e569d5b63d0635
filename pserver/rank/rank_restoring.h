/* rank_restoring.h - a server reads its part of a checkpoint when its core asks for it. The main thread reads, which has no update to apply
 * before the job begins; so messages and heartbeats go on.
 *
 * What must stay true: the driver makes wishes, one at a time, and finishes them; the owner serves them. */
#pragma once

#include "pserver/rank/rank.h"

typedef struct tr__restoring tr__restoring;

tr__restoring *tr__restoring_new(tr__rank *rank);
void           tr__restoring_free(tr__restoring *restoring);
/* As tr_store.restore and tr_store.fill. */
void           tr__restoring_read(tr__restoring *restoring, const char *path, uint64_t number, const tr_server_part *part);
void           tr__restoring_fill(tr__restoring *restoring);
/* TR__RESTORED has come: hand the result to the program, and return the status; the text is tr_error()'s. */
tr_status      tr__restoring_finish(tr__restoring *restoring);
/* Called in the main thread's loop: fulfil the wish, if there is one. */
tr_status      tr__restoring_serve(tr__restoring *restoring);
