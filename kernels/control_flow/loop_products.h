/* loop_products.h - products in a loop's block: factors that are the same in all steps are packed once.
 *
 * A loop's weights are variables of outer blocks that no operator within the loop writes. While its block runs, tr_gemm finds their packed forms
 * in a cache (kernels/math/products/weight_cache.h). The cache lies in the loop's scratch memory, so that a repeated run allocates nothing. */
#pragma once

#include "framework/runs/frame.h"
#include "kernels/math/products/weight_cache.h"

/* Of one run of the loop; begins as {.io = io}. */
typedef struct tr_loop_products {
    const tr_run    *io;
    tr_weight_cache *cache;           /* NULL: there is nothing to keep, or the cache of an outer loop has it */
    bool             is_begun;
} tr_loop_products;

/* Run a step: `frame` is one of the loop's block. */
tr_status tr__loop_run(tr_loop_products *loop, tr_frame *frame);
