/* compress_sparse.h - payloads of compressed gradients that hold some of the values, and the places of these values (compress.h).
 *
 * The first 4 bytes of such a payload belong to the caller. The payload is aligned to 8. */
#pragma once

#include "framework/base/status.h"

/* Bytes of the payload of `kept` of `count` values. */
uint64_t  tr__sparse_bytes(int64_t count, int64_t kept);
/* Write the `kept` values of x + e that are largest in magnitude; the others stay in e. */
void      tr__sparse_encode_largest(uint8_t *payload, float *e, const float *x, int64_t count, int64_t kept);
/* Write the values of x + e that are not zero; e becomes zeros. Returns their number. */
int64_t   tr__sparse_encode_nonzero(uint8_t *payload, float *e, const float *x, int64_t count);
/* Check that a payload of the right size has a valid place for each value. */
tr_status tr__sparse_check(const uint8_t *payload, int64_t count, int64_t kept);
void      tr__sparse_decode(float *out, uint8_t *payload, int64_t count, int64_t kept);
