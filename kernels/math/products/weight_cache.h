/* weight_cache.h - the packed-weight cache: right sides of products that stay as they are, packed once for all products and threads that read them.
 *
 * Packing a weight takes as long as some 20 rows' products with it, so that it is most of a product of few rows. Where nobody writes a weight any more, as
 * in a model that serves, a set names its memory (tr__weight_cache_add). While a thread has entered the set, tr_gemm of floats finds its right side there, packs it
 * at the first product and keeps the panels, as many bytes as the weight has (half in bfloat16), until the set is freed (docs/adr/0038).
 *
 * Several threads may be in one set. All memory is named before the first enters. It must stay as it is, and live as long as the set. */
#pragma once

#include "kernels/math/products/blas.h"

typedef struct tr_weight_cache tr_weight_cache;

tr_weight_cache *tr__weight_cache_new(void);
void     tr__weight_cache_free(tr_weight_cache *cache);
/* A set for one thread within `memory`, tr__weight_cache_bytes(ranges, room) bytes aligned to 64. It names `ranges` pieces of memory at most, and ends without
 * tr__weight_cache_free. Where `room`, a sum of tr__weight_cache_room(floats of a packed form), is used up, products pack for themselves. */
tr_weight_cache *tr__weight_cache_new_in(void *memory, int ranges, size_t room);
size_t   tr__weight_cache_bytes(int ranges, size_t room);
size_t   tr__weight_cache_room(int64_t floats);
void     tr__weight_cache_add(tr_weight_cache *cache, const void *memory, size_t bytes);
/* The calling thread's set from now on; NULL: none. Returns what it was, to be given back by another call. */
tr_weight_cache *tr__weight_cache_enter(tr_weight_cache *cache);
bool     tr__weight_cache_is_entered(void);

/* The packed op(B), k x n, in the thread's precision; NULL where it is not cache, or does not pay. */
const tr_factor_f32 *tr__weight_cache_factor(tr_weight_cache *cache, bool trans, int64_t n, int64_t k, const float *b, int64_t ldb);
