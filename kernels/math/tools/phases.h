/* phases.h - one plane of an image laid out so that windows with strides are read as whole vectors.
 *
 * The plane has its padding around it. Each row is cut into `step` phases, where step is the stride along the width: phase p holds the elements
 * p, p + step, p + 2 step ... of the padded row. So what neighbouring outputs read for one tap of the window lies side by side, whatever the
 * stride. With a stride of 1 a row is one phase. Vectors may read TR_PHASES_ROOM elements past the last row. */
#ifndef TR_MATH_PHASES_H
#define TR_MATH_PHASES_H

#include "framework/trireme.h"

enum { TR_PHASES_ROOM = 32 };

/* Windows of a plane: depth, height, width. */
typedef struct tr_windows {
    int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
} tr_windows;

typedef struct tr_phases {
    tr_windows w;
    int64_t    extent[3];             /* of the padded plane, as far as any window reaches */
    int64_t    pitch, row;            /* elements of a phase; of a row, all phases */
    int64_t    size, taps;            /* elements in all, room included; taps of a window */
} tr_phases;

/* Phases begin at multiples of `grain` elements. */
void    tr_phases_init(tr_phases *p, const tr_windows *w, int64_t grain);
/* Elements from the first one of output row `r`'s window (rows counted through the depth) to the window's tap `k`; taps in row-major order. */
int64_t tr_phases_row(const tr_phases *p, int64_t r);
int64_t tr_phases_tap(const tr_phases *p, int64_t k);

/* Before a loop over TAPS taps. */
#if defined(__clang__)
#define TR_UNROLL_TAPS _Pragma("clang loop unroll(full)")
#else
#define TR_UNROLL_TAPS _Pragma("GCC unroll 9")
#endif

/* `call` with TAPS taps at a time, a constant, until all are done; k is the first of them. */
#define TR_EACH_TAPS(taps, k, call)                                                                           \
    for (int64_t k = 0, n_ = (taps); n_ > 0;) {                                                               \
        if (n_ >= 9)      { enum { TAPS = 9 }; call; k += TAPS; n_ -= TAPS; }                                 \
        else if (n_ >= 4) { enum { TAPS = 4 }; call; k += TAPS; n_ -= TAPS; }                                 \
        else if (n_ >= 2) { enum { TAPS = 2 }; call; k += TAPS; n_ -= TAPS; }                                 \
        else              { enum { TAPS = 1 }; call; k += TAPS; n_ -= TAPS; }                                 \
    }

#define TR_TEMPLATE "kernels/math/tools/phases.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

/* All elements become `value`. */
void NAME(tr_phases_fill)(T *to, T value, const tr_phases *p);
/* The plane's own elements; padding and room stay as they are. */
void NAME(tr_phases_load)(T *to, const T *plane, const tr_phases *p);
void NAME(tr_phases_store)(T *plane, const T *from, const tr_phases *p);

#endif
