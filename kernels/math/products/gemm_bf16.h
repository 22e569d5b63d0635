/* gemm_bf16.h - products of float matrices whose elements are rounded to bfloat16, by the processor's own instructions.
 *
 * C = alpha op(A) op(B) + beta C, where A and B are rounded to nearest even and sums are float32. Tiles (AMX-BF16) or vectors
 * (AVX512_BF16) multiply, whatever this CPU has and its operating system allows. Elsewhere nothing here may be called
 * but tr__bf16_way and tr__bf16_round: blas.c rounds copies of the operands and multiplies them in float32, which means the same.
 *
 * The product of two bfloat16 is exact in float32, so ways differ in the order of sums alone. Each result lies within
 * (k + 2) 2^-24 sum_p |a_p b_p| of the exact sum of the rounded operands (as for float32; Higham, Accuracy and Stability, 3.1), and
 * numbers below 2^-126 may count as 0. Cuts between rows and columns change no bit (gemm_bf16_blocks.h). */
#pragma once

#include "kernels/math/products/gemm_bf16_product.h"

typedef enum tr_bf16_way { TR_BF16_NONE, TR_BF16_VECTORS, TR_BF16_TILES } tr_bf16_way;

/* The best that this process may use; found out once. */
tr_bf16_way tr__bf16_way(void);

/* Whether tiles are the faster way for a product of this size: asked for the whole of it, before it is cut. */
bool tr__gemm_bf16_by_tiles(int64_t m, int64_t n, int64_t k);
/* On the calling thread. m, n, k > 0. Takes TR_SCRATCH_PACK. */
void tr__gemm_bf16(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product);

/* The same with a B that many products share: it is packed once, into tr__bf16_panels_words(n, k) words, which must be aligned to 64 bytes.
 * tr__bf16_panels computes `cols` columns of C = alpha A B + beta C from column `left` on, a multiple of TR_BF16_COLS; n is
 * that of the whole B, which the product need not name. */
int64_t tr__bf16_panels_words(int64_t n, int64_t k);
void    tr__bf16_panels_pack(uint32_t *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb);
void    tr__bf16_panels(int64_t m, int64_t n, int64_t k, const tr_bf16_product *product, const uint32_t *panels, int64_t left,
                        int64_t cols);

/* to = from, rounded to bfloat16 and back: `rows` rows of `cols`, from ld apart to cols apart. */
void tr__bf16_round(float *to, const float *from, int64_t rows, int64_t cols, int64_t ld);
