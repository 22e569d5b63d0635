/* gemm_packed.h - products of float matrices on CPUs with AVX-512, where this is faster than the library.
 *
 * Each element's sum runs in the order of k, in blocks that k alone determines. So a product may be cut anywhere,
 * also by the number of threads: its bits stay the same (docs/adr/0006-own-float-products.md). */
#ifndef TR_MATH_GEMM_PACKED_H
#define TR_MATH_GEMM_PACKED_H

#include "framework/trireme.h"

/* Whether packing such a product pays. Always false on other CPUs. */
bool tr__gemm_packed_wants(int64_t m, int64_t n, int64_t k);
/* C = alpha op(A) op(B) + beta C on the calling thread, as tr_gemm_one (blas.h). k > 0. Takes TR_SCRATCH_PACK. */
void tr__gemm_packed(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float *a, int64_t lda,
                     const float *b, int64_t ldb, float beta, float *c, int64_t ldc);

#endif
