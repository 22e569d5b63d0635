/* gru_inputs.h - what gru and gru_unit have alike: Input, a state, Weight and Bias, in this order. */
#pragma once

#include "kernels/base/check.h"

#define TR_GRU_INPUT_DOC  "float: the projected input, as update, reset, candidate"
#define TR_GRU_WEIGHT_DOC "[width, 3 width], read as two matrices: [width, 2 width] for update and reset, then [width, width] for the candidate"
#define TR_GRU_ORIGIN_DOC "Hidden = u h' + (1 - u) c; otherwise (1 - u) h' + u c"

/* The width of the state. `state` is the name of input 1, which has `state_rows` rows. -1: not known. */
tr_status tr__check_gru_inputs(int64_t *width, const tr_infer *io, const char *state, int64_t state_rows);

static inline size_t tr__bytes_of(const tr_tensor *x) { return x ? (size_t)tr_tensor_bytes(x) : 0; }
