/* broadcast.h - Fluid's axis rule, by which a smaller Y meets a larger X.
 *
 * Y's dimensions are a contiguous run of X's that begins at `axis` (-1: the run ends where X ends); dimensions of
 * 1 at either end of Y are repeated. Whatever the ranks, three counts are left, as math/arrays/elementwise.h wants them:
 *
 *     X [2, 3, 4, 5],  Y [3, 4],     axis 1:   pre 2, n 12, post 5
 *     X [2, 3, 4, 5],  Y [4, 5],     axis -1:  pre 6, n 20, post 1
 *     X [2, 3, 4, 5],  Y [3, 1, 1],  axis 1:   pre 2, n 3, post 20
 *     X [2, 3, 4],     Y [1, 3, 4]:            pre 2, n 12, post 1
 *     X [2, 3],        Y [1]:                  pre 1, n 1, post 6 */
#pragma once

#include "framework/operators/op.h"
#include "kernels/base/cut.h"

/* The attributes of operators that follow the rule begin with this. */
typedef struct tr_broadcast_attrs {
    int32_t axis;
} tr_broadcast_attrs;

#define TR_BROADCAST_ATTR                                                                             \
    TR_ATTR(tr_broadcast_attrs, axis, INT, "where Y's dimensions begin in X's; -1: so that both end together", \
            .number = -1, .range = TR_AT_LEAST(-1))

/* Fail unless inputs 0 (X) and 1 (Y) fit by the rule and have one type. */
tr_status tr__broadcast_check(const tr_infer *io);
/* The same where X may be the smaller one: its dimensions are then a run of Y's. */
tr_status tr__broadcast_check_either(const tr_infer *io);
/* Is X the smaller one? It has fewer dimensions, or as many and one of them is smaller. */
bool      tr__broadcast_is_swapped(const tr_shape *x, const tr_shape *y);
/* The counts for shapes that fit: a[i][j][k] op b[j], i < pre, j < n, k < post. */
tr_cut tr__broadcast_of(const tr_shape *x, const tr_shape *y, int axis);
