/* check.h - what operators ask of single inputs, with one wording for each mistake; shapes.h compares inputs.
 *
 * For shape inference: dimensions may be -1, which fits everything. Each message names the operator, the
 * slot, what was expected and what came. */
#ifndef TR_KERNELS_CHECK_H
#define TR_KERNELS_CHECK_H

#include "kernels/shapes.h"

/* A dense tensor, not selected rows. */
tr_status tr__check_dense(const tr_infer *io, const tr_meta *arg, const char *slot);
tr_status tr__check_rank(const tr_infer *io, const tr_meta *arg, const char *slot, int rank);
tr_status tr__check_min_rank(const tr_infer *io, const tr_meta *arg, const char *slot, int rank);
tr_status tr__check_shape(const tr_infer *io, const tr_meta *arg, const char *slot, const tr_shape *expected);
tr_status tr__check_dtype(const tr_infer *io, const tr_meta *arg, const char *slot, tr_dtype expected);
/* The two dtypes that index something: int64, and int32 where `allow_int32`. */
tr_status tr__check_ids(const tr_infer *io, const tr_meta *arg, const char *slot, bool allow_int32);
/* A tensor of one element, such as a learning rate. */
tr_status tr__check_one(const tr_infer *io, const tr_meta *arg, const char *slot);

#endif
