/* compress.h - gradients in fewer bytes, and what that leaves out.
 *
 *     fp16, bf16     each value in 16 bits, rounded to nearest even; beyond fp16's range its largest
 *     int8           runs of TR_COMPRESS_RUN values, each a whole number from -127 to 127 times the run's scale
 *     nonzero        the values that are not zero, unchanged: nothing is left out
 *     topk(0.01)     of each piece that share of its values which is largest in magnitude, unchanged; the rest is zero
 *
 * Error feedback: what is sent of a gradient g is C(g + e), and the residual e becomes g + e - C(g + e), so that what was left out
 * goes with a later step. F. Seide et al., "1-Bit Stochastic Gradient Descent", 2014; S. P. Karimireddy et al., "Error Feedback
 * Fixes SignSGD", 2019; for the largest values Y. Lin et al., "Deep Gradient Compression", 2018.
 *
 * Everything is a pure function of its arguments: the same bits on every processor. Infinite and NaN values of a gradient
 * reach the other side as such (in int8 as NaN, for their whole run) and leave no residual.
 *
 * A payload, in the machine's order: u32 method, or 0 alone for a piece that is all zeros; then of a piece of n values
 *     fp16, bf16     n u16
 *     int8           a bf16 scale for each run, n int8
 *     topk           k f32, then where they belong, in ascending order: for each page of 65536 values how many, u32, and k u16
 *                    within the pages; or a bit for each value, in u64, where that is less
 *     nonzero        k, u32, a u32 that is 0, then as topk
 *
 * What must stay true: a payload is checked once (tr_compress_check) before it is decoded; decoding trusts it. */
#pragma once

#include "pserver/trireme_dist.h"

enum { TR_COMPRESS_RUN = 256 };

/* Does a gradient of this type and size travel compressed? Small ones, which travel together, and float64 do not. */
bool      tr_compress_takes(const tr_compress *c, tr_dtype dtype, uint64_t bytes, uint64_t chunk_bytes);
/* The most bytes that the payload of a piece of `count` values can have. All methods except nonzero always use as many. */
uint64_t  tr_compress_bytes(const tr_compress *c, int64_t count);
/* Write the payload of x + residual, `count` float32 values. `residual` keeps what the payload lacks. Returns the payload's bytes. */
uint64_t  tr_compress_encode(const tr_compress *c, uint8_t *payload, const float *x, float *residual, int64_t count);
/* Write the payload of a piece whose weight is 0. Returns its bytes. */
uint64_t  tr_compress_encode_zeros(uint8_t *payload);
/* Check a payload, aligned to 8, for `count` values. TR_EFORMAT: it is no payload of this method. */
tr_status tr_compress_check(const tr_compress *c, const uint8_t *payload, uint64_t bytes, int64_t count);
void      tr_compress_decode(const tr_compress *c, float *out, const uint8_t *payload, int64_t count);
