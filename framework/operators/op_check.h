/* op_check.h - what an operator is given, and what it gives, against its record.
 *
 * A program is input from outside: an argument may be missing, be of another kind or type than the kernel reads, or not
 * belong to the forward operator whose gradient is computed. All of that is seen here, before a kernel runs, in the
 * three places where shapes are inferred (infer.h, which also holds a gradient operator against its forward operator).
 * A kernel may therefore rely on this:
 *   - arguments of slots that are not TR_SLOT_OPTIONAL or _INTERMEDIATE are there;
 *   - an argument is a dense tensor, unless its slot is TR_SLOT_ROWS or _ANY_KIND;
 *   - with kernels by type, arguments have the type of the kernel, unless their slot is TR_SLOT_ANY_TYPE;
 *   - sizes in bytes can be computed without overflow;
 *   - what a gradient operator reads of its forward operator, and the gradients, have the types and shapes that the
 *     forward operator's inference says. */
#pragma once

#include "framework/operators/infer_frame.h"

/* Are the arguments there? Asked once, when the operator is added to a program, or planned: of frame->meta the kinds count. */
tr_status tr__op_check_slots(const tr_infer_frame *frame, const tr_op *op);
/* Before inference: are they of a kind, size, type and form (slot_form.h) that the operator takes? Outputs get what their forms say. */
tr_status tr__op_check_given(const tr_infer_frame *frame, const tr_op *op);
/* The first input argument, counted through all slots, whose kind the operator does not take; -1: it takes all. */
int       tr__op_wrong_kind(const tr_infer_frame *frame);
/* After it: types and sizes of what it makes. */
tr_status tr__op_check_made(const tr_infer_frame *frame, const tr_op *op);
