/* gemm_packed.h - products of float matrices on CPUs with AVX-512 or AVX2, where this is faster than the library.
 *
 * Each element's sum runs in the order of k, in blocks that k alone determines. So a product may be cut anywhere,
 * also by the number of threads: its bits stay the same (docs/adr/0006-own-float-products.md). */
#pragma once

#include "framework/trireme.h"

/* Whether packing such a product pays. Always false on other CPUs. */
bool tr__gemm_packed_wants(int64_t m, int64_t n, int64_t k);
/* Up to so much k is one block; longer sums are added up in C. Where tr__gemm_packed_wants. */
int64_t tr__gemm_packed_depth(void);
/* C = alpha op(A) op(B) + beta C on the calling thread, as tr_gemm_one (blas.h). k > 0. Takes TR_SCRATCH_PACK. */
void tr__gemm_packed(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

/* The same with a B that many products share: it is packed once, into tr__gemm_panels_size(n, k) floats, which must be aligned
 * to 64 bytes. tr__gemm_panels computes `cols` columns of C = A B + beta C from column `left` on, a multiple of
 * TR_PANEL_COLS; n is that of the whole B. Only where tr__gemm_panels_wants; m may be anything. */
enum { TR_PANEL_COLS = 32 };
bool    tr__gemm_panels_wants(int64_t n, int64_t k);
int64_t tr__gemm_panels_size(int64_t n, int64_t k);
void    tr__gemm_panels_pack(float *panels, bool trans_b, int64_t n, int64_t k, const float *b, int64_t ldb);
void    tr__gemm_panels(int64_t m, int64_t n, int64_t k, const float *a, int64_t lda, const float *panels, int64_t left,
                        int64_t cols, float beta, float *c, int64_t ldc);
