/* interp.h - lines, images and volumes in another size: the nearest element, a mix of neighbours (linear), or of four along each axis (cubic).
 *
 * Element k of n along an axis of m elements lies at s in the source, whose neighbours are mixed or whose nearest one is taken:
 *
 *     align_corners:                        s = k (m - 1) / (n - 1)            the corners meet
 *     nearest, and linear in align_mode 1:  s = k m / n
 *     linear in align_mode 0:               s = (k + 1/2) m / n - 1/2, at least 0
 *     cubic:                                s = (k + 1/2) m / n - 1/2
 *
 * A given scale stands for n / m. As in Fluid both are 0 where n is 1. Nearest rounds s half up with align_corners and down without. Places are
 * computed in whole numbers, so none is off by a rounding. Cubic weights are those of Keys (1981) with a = -3/4; beyond an end its last element
 * stands. */
#ifndef TR_MATH_INTERP_H
#define TR_MATH_INTERP_H

#include "framework/trireme.h"

typedef enum tr_interp_method { TR_INTERP_NEAREST, TR_INTERP_LINEAR, TR_INTERP_CUBIC } tr_interp_method;

typedef struct tr_interp {
    tr_interp_method method;
    bool             align_corners;
    int              align_mode;
    int64_t          planes;
    int64_t          in[3], out[3];       /* depth, height, width; those that an image or a line lacks are 1 */
    double           scale[3];            /* above 0: stands for out / in */
} tr_interp;

#define TR_TEMPLATE "kernels/math/images/interp.h"
#include "kernels/math/tools/each_float.h"

/* Images as they are read; no gradient flows through them. */
void tr_interp_u8(uint8_t *out, const uint8_t *x, const tr_interp *s);

#elif defined(T)

void NAME(tr_interp)(T *out, const T *x, const tr_interp *s);
/* dx is overwritten: each element of dout goes back to where it came from, with the same weights. */
void NAME(tr_interp_grad)(T *dx, const T *dout, const tr_interp *s);

#endif
