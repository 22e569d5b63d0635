/* openblas.h - the library of products, loaded at first use.
 *
 * It is told to use one thread, and the core it chose is checked against this CPU: a wrong choice costs a factor of five and
 * is silent, so it is corrected by loading again, or refused. */
#pragma once

#include "framework/base/status.h"

/* Load and check the library; idempotent and safe from any thread. Every product needs it first. */
tr_status tr_blas_init(void);
/* The core that the library chose ("SkylakeX"); "" before tr_blas_init. */
const char *tr_blas_core(void);

/* -- for blas.c -- */

enum { TR_ROW_MAJOR = 101, TR_NO_TRANS = 111, TR_TRANS = 112 };               /* of cblas.h */

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
typedef void (*dgemm_fn)(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda,
                         const double *b, int ldb, double beta, double *c, int ldc);
typedef void (*sgemv_fn)(int order, int trans, int m, int n, float alpha, const float *a, int lda, const float *x,
                         int incx, float beta, float *y, int incy);
typedef void (*dgemv_fn)(int order, int trans, int m, int n, double alpha, const double *a, int lda, const double *x,
                         int incx, double beta, double *y, int incy);

typedef struct tr_openblas {
    void    *handle;
    char     core[32];
    bool     multiplies_unpacked;                          /* has a path for small matrices */
    sgemm_fn gemm_f32;
    dgemm_fn gemm_f64;
    sgemv_fn gemv_f32;
    dgemv_fn gemv_f64;
} tr_openblas;

/* Filled by tr_blas_init, never changed afterwards. */
extern tr_openblas tr__openblas;
