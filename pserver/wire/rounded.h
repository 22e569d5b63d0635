/* rounded.h - parameters of float32 that travel to trainers as bfloat16, in half the bytes.
 *
 * A server rounds each value once, to nearest even, when it makes an answer. A trainer widens the answer, which is exact: all trainers have
 * the same bits. Servers and checkpoints keep float32.
 *
 * A trainer has no second buffer. The bfloat16 values arrive in the upper half of the memory that their floats will fill. */
#pragma once

#include "pserver/trireme_dist.h"

/* A bit of a block's number in PULL: round the answer. Only for blocks of float32. */
#define TR_ROUNDED_BIT 0x80000000u

/* Bytes of the answer that carries values of `bytes` bytes. */
static inline uint64_t tr_rounded_bytes(uint64_t bytes, bool is_rounded) { return is_rounded ? bytes / 2 : bytes; }

/* Round `bytes` bytes of floats. `out` may be the floats' own memory; no alignment is needed. */
void tr_rounded_make(void *out, const void *floats, uint64_t bytes);
/* tr_rounded_buffer: where in the floats' memory the answer arrives. tr_rounded_widen: turn the answer there into floats. */
uint8_t *tr_rounded_buffer(uint8_t *floats, uint64_t bytes);
void     tr_rounded_widen(uint8_t *floats, uint64_t bytes);
/* Compute the values that a trainer gets for these floats. `out` may be `floats`. */
void     tr_rounded_floats(float *out, const float *floats, uint64_t bytes);
