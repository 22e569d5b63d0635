/* row_cache.h - rows of a sparse table that a trainer may use again without asking the servers.
 *
 * Each row has the last step that may use it; the caller computes that step (job_rows.c). Memory is bounded and taken once: a key's row
 * lies in one of the WAYS places of its set. Where no place is free, the row that was unused for the longest time gives way, but never a
 * row that the same step has used. So many cold keys, each seen once, do not evict the hot ones, and a step with too many rows keeps some
 * of them. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_row_cache tr_row_cache;

/* Make a cache for `rows` rows (rounded up to a multiple of 8) of `row_bytes` bytes each. */
tr_status tr_row_cache_new(tr_row_cache **out, int64_t rows, int64_t row_bytes);
void      tr_row_cache_free(tr_row_cache *cache);
/* Copy the row of a key to `out`, for use in step `step`. False: there is no row that this step may use. Steps never decrease. */
bool      tr_row_cache_get(tr_row_cache *cache, void *out, int64_t key, uint64_t step);
/* Add or replace a row. Step `until` is the last that may use it. */
void      tr_row_cache_put(tr_row_cache *cache, int64_t key, const void *row, uint64_t step, uint64_t until);
/* Forget all rows. NULL is allowed. */
void      tr_row_cache_clear(tr_row_cache *cache);
