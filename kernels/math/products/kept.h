/* kept.h - right sides of products that stay as they are, packed once for all products and threads that read them.
 *
 * Packing a weight takes as long as some 20 rows' products with it, so that it is most of a product of few rows. Where nobody writes a weight any more, as
 * in a model that serves, a set names its memory (tr__kept_add). While a thread has entered the set, tr_gemm of floats finds its right side there, packs it
 * at the first product and keeps the panels, as many bytes as the weight has (half in bfloat16), until the set is freed (docs/adr/0038).
 *
 * Several threads may be in one set. All memory is named before the first enters. It must stay as it is, and live as long as the set. */
#ifndef TR_MATH_KEPT_H
#define TR_MATH_KEPT_H

#include "kernels/math/products/blas.h"

typedef struct tr_kept tr_kept;

tr_kept *tr__kept_new(void);
void     tr__kept_free(tr_kept *kept);
/* A set for one thread within `memory`, tr__kept_bytes(ranges, room) bytes aligned to 64. It names `ranges` pieces of memory at most, and ends without
 * tr__kept_free. Where `room`, a sum of tr__kept_room(floats of a packed form), is used up, products pack for themselves. */
tr_kept *tr__kept_new_in(void *memory, int ranges, size_t room);
size_t   tr__kept_bytes(int ranges, size_t room);
size_t   tr__kept_room(int64_t floats);
void     tr__kept_add(tr_kept *kept, const void *memory, size_t bytes);
/* The calling thread's set from now on; NULL: none. Returns what it was, to be given back by another call. */
tr_kept *tr__kept_enter(tr_kept *kept);
bool     tr__kept_is_entered(void);

/* The packed op(B), k x n, in the thread's precision; NULL where it is not kept, or does not pay. */
const tr_factor_f32 *tr__kept_factor(tr_kept *kept, bool trans, int64_t n, int64_t k, const float *b, int64_t ldb);

#endif
