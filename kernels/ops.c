/* ops.c - the table of operators, made from ops.def, and the start of the library. */
#include <pthread.h>

#include "framework/base/compiler.h"
#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "kernels/fusions.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/products/gemm_bf16.h"

#define TR_OP(type) TR_DECLARE_OP(type);
#include "kernels/ops.def"
#undef TR_OP

static void register_operators(void)
{
    static const tr_op *const records[] = {
#define TR_OP(type) &tr_op_record_##type,
#include "kernels/ops.def"
#undef TR_OP
    };
    tr_registry_add(records, TR_COUNT(records));
    tr__fusions_register();
}

tr_status tr_init(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, register_operators);
    return TR_OK;
}

tr_status tr_blas_check(const char **core)
{
    TR_TRY(tr_blas_init());
    *core = tr_blas_core();
    return TR_OK;
}

const char *tr_bfloat16_way(void)
{
    static const char *const names[] = {[TR_BF16_NONE] = "float32", [TR_BF16_VECTORS] = "avx512_bf16", [TR_BF16_TILES] = "amx_bf16"};
    return names[tr__bf16_way()];
}
