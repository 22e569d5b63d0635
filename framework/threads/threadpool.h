/* threadpool.h - one pool of threads for the whole process.
 *
 * A kernel cuts its work into slices that depend on the shape alone and gives them to tr_parallel;
 * which thread runs which slice is open, so a slice must neither read what another slice of the same
 * call writes nor depend on the thread it runs on. Then results are the same for any thread count.
 *
 * Workers spin for a tenth of a millisecond after a job and then sleep, so that a chain of small
 * kernels hands over in about a microsecond and an idle process costs nothing. A child made by fork()
 * starts with a fresh pool. Calls from several threads at a time are safe: one of them gets the pool,
 * the others run their slices themselves. */
#pragma once

#include "framework/trireme.h"

typedef void (*tr_slice_fn)(void *payload, int64_t slice);

/* Run fn(payload, slice) for every slice of 0 .. slices-1 and return when all are done. The calling
 * thread works too. Inside a slice a nested call runs inline. Slices have the caller's precision (precision.h). */
void tr_parallel(int64_t slices, tr_slice_fn fn, void *payload);

/* More slices than this are never useful: they balance any number of cores that one product can feed. */
enum { TR_MAX_SLICES = 64 };

/* How many slices to make of `items` when one should have at least `min_items`: 1 .. TR_MAX_SLICES. */
int64_t tr_slice_count(int64_t items, int64_t min_items);
/* The items [begin, end) of slice `slice` of `slices`; the sizes differ by one grain at most. Every
 * cut but the last lies at a multiple of `grain` (1: anywhere). */
void tr_slice_range(int64_t *begin, int64_t *end, int64_t items, int64_t grain, int64_t slices, int64_t slice);

/* Run fn(payload, begin, end) over all of 0 .. items-1 in slices of at least `min_items`; one slice is a plain call.
 * Cuts lie at multiples of 64 items where slices are that large, so that arrays are cut at cache lines. */
typedef void (*tr_range_fn)(void *payload, int64_t begin, int64_t end);
void tr_parallel_range(int64_t items, int64_t min_items, tr_range_fn fn, void *payload);
/* memcpy by several threads where it is large. */
void tr_parallel_copy(void *to, const void *from, size_t bytes);

/* The threads that a variable of the environment asks for; 0: it is not set. TR_EINVAL: it has no number of threads. */
tr_status tr__num_threads_of(int *count, const char *variable);

/* Memory of the calling thread, at least `bytes` long, aligned to 64, contents undefined: for what one
 * slice needs while it runs. Each slot keeps its largest size until the thread ends, so that a repeated
 * step allocates nothing. A slot belongs to the function that asked last: use it within one kernel only.
 * Ends the process with a message when there is no memory. */
typedef enum tr_scratch { TR_SCRATCH_COLUMNS, TR_SCRATCH_PACK, TR_SCRATCH_PARTIAL, TR_SCRATCH_ROUNDED, TR_SCRATCH_COUNT } tr_scratch;
void *tr_thread_scratch(tr_scratch slot, size_t bytes);

/* -- for gang.c ------------------------------------------------------------------------------------ */

/* Run all slices at the same time, each on a thread of the pool. False: the pool is too small, or busy; no slice has run. */
bool tr__pool_run_gang(int slices, tr_slice_fn fn, void *payload);
/* From here on this thread is inside of a slice, or not; returns what it was. */
bool tr__slice_enter(bool inside);
