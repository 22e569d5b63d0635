/* gemm_bf16_product.h - what a product of float matrices in bfloat16 is: C = alpha op(A) op(B) + beta C. */
#pragma once

#include "framework/trireme.h"

enum {
    TR_BF16_COLS = 32,                /* columns of a panel of B */
    TR_BF16_DEPTH = 512               /* k of a block: longer sums are added up in C */
};

typedef struct tr_bf16_product {
    bool         trans_a, trans_b, by_tiles;
    int64_t      lda, ldb, ldc;
    float        alpha, beta;
    const float *a, *b;
    float       *c;
} tr_bf16_product;
