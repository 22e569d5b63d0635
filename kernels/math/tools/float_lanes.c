/* float_lanes.c - see float_lanes.h. */
#include "kernels/math/tools/float_lanes.h"

static tr_float_level limit = TR_FLOAT_AVX512;

void tr__float_level_limit(tr_float_level at_most)
{
    limit = at_most;
}

tr_float_level tr__float_level(void)
{
    tr_float_level own = TR_FLOAT_PLAIN;

#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl"))
        own = TR_FLOAT_AVX512;
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        own = TR_FLOAT_AVX2;
#endif
    return own < limit ? own : limit;
}
