/* looked_up.h - rows that were looked up by keys: their shape, and the key that stands for no row. */
#pragma once

#include "framework/operators/op.h"

/* Infer the first output: rows of `width` float32 values for the keys of input slot `ids`, [..., 1]. */
tr_status tr__looked_up_infer(const tr_infer *io, int ids, int64_t width);
/* Set the rows of key `padding` to zeros; -1: there is no such key. */
void      tr__looked_up_clear(float *rows, const int64_t *keys, int64_t count, int64_t width, int64_t padding);
