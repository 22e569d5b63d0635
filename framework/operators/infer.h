/* infer.h - running an operator's shape inference.
 *
 * The same inference serves three times: when an operator is appended to a program (-1 is allowed), when a
 * plan lays out its memory, and before a step whose shapes depend on data. */
#pragma once

#include "framework/operators/infer_frame.h"

/* frame->meta holds the inputs and what is known of the outputs; on success it holds the outputs. */
tr_status tr__infer_frame_run(tr_infer_frame *frame, const tr_op *op, const void *attrs);
