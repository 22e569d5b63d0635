/* each_number.h - read a template for float, double, int32_t and int64_t.
 *
 * As each_float.h, with
 *   T              float, double, int32_t, int64_t
 *   NAME(x)        x_f32, x_f64, x_i32, x_i64
 *   T_IS_FLOATING  1, 1, 0, 0
 *   T_IS_F32       1, 0, 0, 0
 *   T_MAX, T_MIN   the largest and the smallest value; infinities for floating types */
#ifdef T
#error "each_number.h within a template"
#endif

#ifndef TR_TEMPLATE
#define TR_TEMPLATE __BASE_FILE__
#endif

#define T_IS_FLOATING 1
#define T_MAX INFINITY
#define T_MIN (-INFINITY)

#define T float
#define NAME(x) x##_f32
#define T_IS_F32 1
#include TR_TEMPLATE
#undef T
#undef NAME
#undef T_IS_F32
#define T_IS_F32 0

#define T double
#define NAME(x) x##_f64
#include TR_TEMPLATE
#undef T
#undef NAME

#undef T_IS_FLOATING
#undef T_MAX
#undef T_MIN
#define T_IS_FLOATING 0

#define T int32_t
#define NAME(x) x##_i32
#define T_MAX INT32_MAX
#define T_MIN INT32_MIN
#include TR_TEMPLATE
#undef T
#undef NAME
#undef T_MAX
#undef T_MIN

#define T int64_t
#define NAME(x) x##_i64
#define T_MAX INT64_MAX
#define T_MIN INT64_MIN
#include TR_TEMPLATE
#undef T
#undef NAME
#undef T_MAX
#undef T_MIN

#undef T_IS_F32
#undef T_IS_FLOATING
#undef TR_TEMPLATE
