/* slot_form.h - the form of a slot: the shape that its arguments have, as the documentation shows it, held against them.
 *
 *     [rows, m]         two dimensions. A name is one extent: wherever it stands again, in any slot of the operator, the extent is the same
 *     [rows, 4 m]       four times that of m
 *     [rows, 1]         this extent
 *     [rows, ?]         any extent
 *     [n, ...]          one dimension or more; [..., n] likewise
 *     [1]               of an input: one element, in whatever shape
 *     [n] or [n, 1]     one of them
 *     like X            the shape of input X; of an output its sequences, too
 *
 * Attributes that are dimensions of an input (.axis_of) are held against its rank. Inputs are checked before the operator's `infer` runs. Outputs have the type of their slot (TR_SLOT_INT64, ...), or else that of X or of the
 * kernel; `infer` may change them. An extent that is not known yet fits everything, and an input that is not there is not checked.
 * What must stay true: a form says nothing that depends on an attribute. That is `infer`'s. */
#pragma once

#include "framework/operators/infer_frame.h"

/* Hold the inputs against their types and forms and the axes against the inputs, and give the outputs what theirs say. `type` is the kernel's. */
tr_status tr__forms_apply(const tr_infer_frame *frame, tr_dtype type);
/* The input of `proto` that slot `def` is like; -1: its form does not say so. */
int tr__form_like(const tr_op_proto *proto, const tr_slot_def *def);
