/* blas.h - matrix products: by a one-thread OpenBLAS in each tile, or, for large float products on AVX-512 or AVX2,
 * by kernels of our own (gemm_packed.h; docs/adr/0006).
 *
 * The library is loaded at first use (openblas.h): tr_blas_init comes first. A large product is cut into a grid of tiles of the output; OpenBLAS's grid depends on the
 * shape alone. Our own kernels sum each element in an order that depends on k alone, so they may be cut by
 * the number of threads. Either way the bits of a result do not depend on it.
 *
 * Where the calling thread's precision is bfloat16 (framework/threads/precision.h), the elements of A and B count as rounded to it: by
 * the processor's instructions for that (gemm_bf16.h) or, where it has none, as rounded copies. Only of floats, and not in tr_gemv.
 *
 * All matrices are row-major: op(A) is m x k, op(B) is k x n, C is m x n, and lda, ldb, ldc are the
 * distances of the stored rows in elements. With beta = 0 C is only written. Dimensions and strides
 * must be below 2^31 (the library counts in int). C must not overlap A or B. */
#ifndef TR_MATH_BLAS_H
#define TR_MATH_BLAS_H

#include "kernels/math/products/openblas.h"

/* The grid that such a product is cut into: rows * cols tiles of C, at most TR_MAX_SLICES. */
void tr_gemm_grid(int64_t *rows, int64_t *cols, bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k);

#define TR_TEMPLATE "kernels/math/products/blas.h"
#include "kernels/math/tools/each_float.h"

/* `find` returns a right side that is packed already (weight_cache.h), or NULL. From now on the calling thread's tr_gemm of floats asks it before a product of up to
 * TR_FACTOR_MOST_ROWS rows. A product of more rows packs for itself, which costs little there. `find` NULL: no product asks. */
enum { TR_FACTOR_MOST_ROWS = 128 };
typedef const tr_factor_f32 *tr_factor_find(void *payload, bool trans, int64_t n, int64_t k, const float *b, int64_t ldb);
void tr__gemm_ask(tr_factor_find *find, void *payload);

#elif defined(T)

/* C = alpha op(A) op(B) + beta C */
void NAME(tr_gemm)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a, int64_t lda,
                   const T *b, int64_t ldb, T beta, T *c, int64_t ldc);
/* Whether each element of such a product is one sum that is finished when alpha and beta come: with beta = 1, C is then fma(alpha, sum, C).
 * Otherwise parts of a sum may be added to C one after the other. */
bool NAME(tr_gemm_sums_once)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k);
/* tr_gemm on the calling thread alone: for use inside a slice of the caller. */
void NAME(tr_gemm_one)(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, T alpha, const T *a,
                       int64_t lda, const T *b, int64_t ldb, T beta, T *c, int64_t ldc);
/* `batch` products; the matrices of product i begin at a + i*stride_a and so on (a stride of 0 shares). */
void NAME(tr_gemm_batched)(bool trans_a, bool trans_b, int64_t batch, int64_t m, int64_t n, int64_t k, T alpha,
                           const T *a, int64_t lda, int64_t stride_a, const T *b, int64_t ldb, int64_t stride_b,
                           T beta, T *c, int64_t ldc, int64_t stride_c);
/* A right side, op(B), k x n, that many products share; it is packed once where that pays. `rows` is the number of rows that
 * will be multiplied by it in all. Init takes tr_factor_size elements of memory, aligned to 64 bytes, and like B they must
 * live as long as the factor and stay as they are. */
typedef struct NAME(tr_factor) {
    bool     trans;
    int64_t  n, k, ldb;
    const T *b, *panels;                                   /* panels: NULL where it is not packed */
} NAME(tr_factor);
int64_t NAME(tr_factor_size)(int64_t n, int64_t k, int64_t rows);
void    NAME(tr_factor_init)(NAME(tr_factor) *factor, bool trans, int64_t n, int64_t k, const T *b, int64_t ldb, int64_t rows,
                             T *memory);
/* C = A op(B) + beta C, C m x n */
void    NAME(tr_gemm_factor)(int64_t m, const T *a, int64_t lda, const NAME(tr_factor) *factor, T beta, T *c, int64_t ldc);
/* y = alpha op(A) x + beta y, A stored m x n: y has m elements (trans: n), x has n (trans: m). */
void NAME(tr_gemv)(bool trans, int64_t m, int64_t n, T alpha, const T *a, int64_t lda, const T *x, T beta, T *y);

#endif
