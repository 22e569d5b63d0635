/* check.h - what many operators ask of their inputs, with one wording for each mistake.
 *
 * For shape inference: dimensions may be -1, which fits everything. Each message names the operator, the
 * slot, what was expected and what came. */
#pragma once

#include "framework/operators/op.h"

#include <assert.h>

/* A dense tensor, not selected rows. */
tr_status tr__check_dense(const tr_infer *io, const char *slot, const tr_meta *meta);
/* Dense tensors of one type. */
tr_status tr__check_dense_list(const tr_infer *io, const char *slot, const tr_meta_list *list);
/* *out = `axis` counted from the front; `axis` may be -rank .. rank-1. */
tr_status tr__check_axis(int *out, const tr_infer *io, const char *attr, int axis, int rank);
/* The same of an axis that fits (.axis_of of the attribute). */
static inline int tr__axis(int axis, const tr_shape *shape)
{
    assert(axis >= -shape->rank && axis < shape->rank);
    return axis < 0 ? axis + shape->rank : axis;
}

tr_status tr__check_rank(const tr_infer *io, const char *slot, const tr_meta *meta, int rank);
tr_status tr__check_min_rank(const tr_infer *io, const char *slot, const tr_meta *meta, int rank);
tr_status tr__check_shape(const tr_infer *io, const char *slot, const tr_meta *meta, const tr_shape *expected);
tr_status tr__check_same_shape(const tr_infer *io, const char *slot, const tr_meta *meta, const char *other_slot,
                               const tr_meta *other);
tr_status tr__check_dtype(const tr_infer *io, const char *slot, const tr_meta *meta, tr_dtype expected);
/* Of a gradient operator, which knows less while a program is built: the type and shape of `expected`, where both are known. */
tr_status tr__check_like(const tr_infer *io, const char *slot, const tr_meta *meta, const tr_meta *expected);
/* The two dtypes that index something: int64, and int32 where `allow_int32`. */
tr_status tr__check_ids(const tr_infer *io, const char *slot, const tr_meta *meta, bool allow_int32);
/* One value for each of `rows` rows: [rows, 1], or [rows], which is the same in memory. */
tr_status tr__check_column(const tr_infer *io, const char *slot, const tr_meta *meta, int64_t rows);
/* A tensor of one element, such as a learning rate. */
tr_status tr__check_one(const tr_infer *io, const char *slot, const tr_meta *meta);

/* Of decoded attributes, for `.check`: two numbers of `min` or more, for height and width. */
tr_status tr__check_pair(const char *type, const char *attr, const tr_ints *pair, int min);
/* The same of 2 dimensions, or of 3. */
tr_status tr__check_extents(const char *type, const char *attr, const tr_ints *list, int count, int min);
