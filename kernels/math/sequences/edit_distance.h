/* edit_distance.h - how far sequences of whole numbers are from others. */
#ifndef TR_MATH_EDIT_DISTANCE_H
#define TR_MATH_EDIT_DISTANCE_H

#include "framework/trireme.h"

#define TR_TEMPLATE "kernels/math/sequences/edit_distance.h"
#include "kernels/math/tools/each_number.h"

#elif !T_IS_FLOATING

/* Sequences as in sequence.h. */
typedef struct NAME(tr_edit) {
    const T       *from, *to;
    const int64_t *from_offset, *to_offset;
    int64_t        count;
    int64_t       *work;              /* [rows of `to` + count] */
} NAME(tr_edit);

/* distance[i]: of sequence i of `from`, how many rows must at least be put in, taken out or changed to make that of `to`. */
void NAME(tr_edit_distances)(int64_t *distance, const NAME(tr_edit) *e);

#endif
