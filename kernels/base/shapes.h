/* shapes.h - shape inference that many operators share.
 *
 * What must stay true: these functions are pure, and they take a dimension of -1 (not known yet) as one
 * that fits; the plan asks again when it knows. */
#pragma once

#include "framework/operators/op.h"

/* Whole rules, for `.infer`: output 0 is like input 0 in type, shape and sequences, */
tr_status tr__infer_like_first(const tr_infer *io);
/* or is one element, [1], of input 0's type. */
tr_status tr__infer_one_element(const tr_infer *io);

/* The type of what the gradient reads alone, statistics and states, where the operator computes with `dtype`: it is no use to store it in
 * 16 bits. */
tr_dtype  tr__kept_type(tr_dtype dtype);
/* The type that attribute `dtype` gives. */
tr_status tr__dtype_from_attr(tr_dtype *out, const tr_infer *io, int32_t dtype);
/* *out = dense, of the shape and type that the attributes `shape` and `dtype` give; fails on negative dimensions and too many of them. */
tr_status tr__meta_from_ints(tr_meta *out, const tr_infer *io, const tr_ints *dims, int32_t dtype);
tr_status tr__meta_from_longs(tr_meta *out, const tr_infer *io, const tr_longs *dims, int32_t dtype);
