/* gang.h - slices that run at the same time, each on a thread of its own, so that they may wait for each other.
 *
 * The threads are those of the pool. Where it has too few, or is busy, the call starts threads for itself and joins them. */
#pragma once

#include "framework/threads/threadpool.h"

/* Like tr_parallel. False: the system has no such threads, or there are more than 256 slices; no slice has run. */
bool tr_parallel_gang(int slices, tr_slice_fn fn, void *payload);
