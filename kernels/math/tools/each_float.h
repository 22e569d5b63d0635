/* each_float.h - read a template once as float and once as double.
 *
 * The template is the .c file that includes this; a header sets TR_TEMPLATE to its own path before. It is plain C in terms of
 *   T           float, double
 *   NAME(x)     x_f32, x_f64
 *   T_IS_F32    1, 0
 * The headers and sources of kernels/math are their own templates: the part under `#else` is read for
 * each type. Never include this while T is defined. */
#ifdef T
#error "each_float.h within a template"
#endif

#ifndef TR_TEMPLATE
#define TR_TEMPLATE __BASE_FILE__
#endif

#define T float
#define NAME(x) x##_f32
#define T_IS_F32 1
#include TR_TEMPLATE
#undef T
#undef NAME
#undef T_IS_F32

#define T double
#define NAME(x) x##_f64
#define T_IS_F32 0
#include TR_TEMPLATE
#undef T
#undef NAME
#undef T_IS_F32

#undef TR_TEMPLATE
