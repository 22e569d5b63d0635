/* cast.c - a table of loops, one for each pair of element types. */
#include "kernels/math/tools/cast.h"

#include "framework/threads/threadpool.h"

#include <assert.h>

enum { MIN_ITEMS = 16384 };

typedef struct job job;
struct job {
    void      *out;
    const void *x;
    void     (*loop)(const job *j, int64_t begin, int64_t end);
};

/* How a stored element becomes a number, and a number a stored element. Whole types keep 64 bits, the others go by way of
 * themselves or, the 16-bit ones, float. */
#define SAME(v)      (v)
#define FROM_HALF(v) tr_f32_of_fp16(v)
#define TO_HALF(v)   tr_fp16_of_f32((float)(v))
#define FROM_BF(v)   tr_f32_of_bf16(v)
#define TO_BF(v)     tr_bf16_of_f32((float)(v))
#define TO_BOOL(v)   ((v) != 0)

/* name, stored type, from, to */
#define TYPES(X, ...)                                                                                              \
    X(bool, uint8_t, SAME, TO_BOOL, __VA_ARGS__)  X(i16, int16_t, SAME, SAME, __VA_ARGS__)                         \
    X(i32, int32_t, SAME, SAME, __VA_ARGS__)      X(i64, int64_t, SAME, SAME, __VA_ARGS__)                         \
    X(fp16, uint16_t, FROM_HALF, TO_HALF, __VA_ARGS__) X(f32, float, SAME, SAME, __VA_ARGS__)                      \
    X(f64, double, SAME, SAME, __VA_ARGS__)       X(size, uint64_t, SAME, SAME, __VA_ARGS__)                       \
    X(u8, uint8_t, SAME, SAME, __VA_ARGS__)       X(i8, int8_t, SAME, SAME, __VA_ARGS__)                           \
    X(bf16, uint16_t, FROM_BF, TO_BF, __VA_ARGS__)

#define LOOP(name, type, from, to, out_name, out_type, out_to)                                                     \
    TR_CLONES static void name##_to_##out_name(const job *j, int64_t begin, int64_t end)                           \
    {                                                                                                              \
        const type *x = j->x;                                                                                      \
        out_type   *out = j->out;                                                                                  \
        TR_IVDEP                                                                                                   \
        for (int64_t i = begin; i < end; i++)                                                                      \
            out[i] = (out_type)out_to(from(x[i]));                                                                 \
    }
TYPES(LOOP, bool, uint8_t, TO_BOOL)
TYPES(LOOP, i16, int16_t, SAME)
TYPES(LOOP, i32, int32_t, SAME)
TYPES(LOOP, i64, int64_t, SAME)
TYPES(LOOP, fp16, uint16_t, TO_HALF)
TYPES(LOOP, f32, float, SAME)
TYPES(LOOP, f64, double, SAME)
TYPES(LOOP, size, uint64_t, SAME)
TYPES(LOOP, u8, uint8_t, SAME)
TYPES(LOOP, i8, int8_t, SAME)
TYPES(LOOP, bf16, uint16_t, TO_BF)

enum { KINDS = 11 };

static int kind_of(tr_dtype type)
{
    switch (type) {
    case TR_BOOL:   return 0;
    case TR_INT16:  return 1;
    case TR_INT32:  return 2;
    case TR_INT64:  return 3;
    case TR_FP16:   return 4;
    case TR_FP32:   return 5;
    case TR_FP64:   return 6;
    case TR_SIZE_T: return 7;
    case TR_UINT8:  return 8;
    case TR_INT8:   return 9;
    case TR_BF16:   return 10;
    default:        return -1;
    }
}

#define ENTRY(name, type, from, to, out_name) name##_to_##out_name,
static void (*const loops[KINDS][KINDS])(const job *j, int64_t begin, int64_t end) = {      /* [to][from] */
    {TYPES(ENTRY, bool)}, {TYPES(ENTRY, i16)}, {TYPES(ENTRY, i32)}, {TYPES(ENTRY, i64)}, {TYPES(ENTRY, fp16)},
    {TYPES(ENTRY, f32)},  {TYPES(ENTRY, f64)}, {TYPES(ENTRY, size)}, {TYPES(ENTRY, u8)}, {TYPES(ENTRY, i8)},
    {TYPES(ENTRY, bf16)},
};

static void cast_range(void *payload, int64_t begin, int64_t end)
{
    const job *j = payload;
    j->loop(j, begin, end);
}

void tr_cast(void *out, tr_dtype out_type, const void *x, tr_dtype type, int64_t n)
{
    const int to = kind_of(out_type), from = kind_of(type);
    assert(to >= 0 && from >= 0);
    job j = {out, x, loops[to][from]};
    tr_parallel_range(n, MIN_ITEMS, cast_range, &j);
}
