/* rnn_slices.h - steps of the operator `recurrent` and of its gradient: slices along dimension 0. */
#pragma once

#include "framework/runs/frame.h"

/* The memory of one step of x. */
char      *tr__slice_data(const tr_tensor *x, int64_t step);
/* Make `slice` one step of x, in x's memory. */
void       tr__slice_point(tr_tensor *slice, const tr_tensor *x, int64_t step);
/* The same for all inputs: their slices are the frame's variables of these numbers, or -1. */
void       tr__slice_inputs(tr_frame *frame, const tr_args *inputs, const int *numbers, int64_t step);
/* The variable of number `v`; NULL for -1. */
tr_tensor *tr__frame_tensor(const tr_frame *frame, int v);
