/* tensor_array.h - what the operators on tensor arrays share.
 *
 * An array has one gradient array, for all its readers and writers (framework/gradients/backward.c). Who reads an element
 * adds to the gradient's element; who writes one takes the gradient's element out, which is empty afterwards. So
 * an element that is written twice gets the gradients of what was read in between, and nothing else. */
#pragma once

#include "framework/gradients/grad_maker.h"
#include "framework/operators/op.h"

/* For shape inference: the input is an array. */
tr_status tr__check_array(const tr_infer *io, const char *slot, const tr_meta *meta);
/* An output becomes an array of elements of this type and shape; `meta` is what was known of it before. */
tr_status tr__array_meta(tr_meta *meta, const tr_infer *io, const char *slot, const tr_meta *element);
/* The whole number in the tensor of one element of an input slot, which must be at least 0. */
tr_status tr__read_index(int64_t *out, const tr_run *io, int slot);
/* Element `index` of the array in an input slot, which must have been written. */
tr_status tr__array_get(tr_tensor **out, const tr_run *io, int slot, int64_t index);
/* Is there such an element, with a value? NULL: no. */
tr_tensor *tr__array_find(tr_tensor *array, int64_t index);

/* Zeros of the type, shape and LoD of `like`. */
tr_status tr__zeros_like(tr_tensor *out, const tr_tensor *like);
/* to[i] += from[i]; the type is a floating one. */
tr_status tr__add_values(tr_dtype dtype, void *to, const void *from, int64_t count);

/* The gradient operator of one that writes elements of array Out from X: it gets all inputs of the forward
 * operator and Out@GRAD, and makes X@GRAD, if that is wanted; output Array is Out@GRAD again, which it changes. */
tr_status tr__make_taking_grad(tr_grad_maker *maker, const char *grad_type);
