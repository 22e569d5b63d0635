/* transpose.h - moving elements without changing them.
 *
 * Items are 1, 2, 4 or 8 bytes; their type does not matter. Source and destination must not overlap. */
#pragma once

#include "framework/trireme.h"

/* Dimension i of out is dimension perm[i] of x; dims are those of x; rank <= TR_MAX_RANK. */
void tr_transpose(void *out, const void *x, int rank, const int64_t *dims, const int *perm, int64_t item_size);

/* Copy `blocks` blocks of `bytes` bytes; block i begins at to + i*to_stride and from + i*from_stride (bytes).
 * One part of a concat or split: blocks = dims before the axis, bytes = the part's extent from the axis on. */
void tr_copy_blocks(void *to, int64_t to_stride, const void *from, int64_t from_stride, int64_t blocks,
                    int64_t bytes);

/* Copy an array of any strides to another: to and from point at item (0, ..., 0), strides count items and may
 * be negative (reverse) or, for `from`, zero (expand). Slices, pads, crops and tiles are calls of this. */
void tr_copy_strided(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides, int rank,
                     const int64_t *dims, int64_t item_size);
