/* random.h - random numbers as pure functions of (key, element index).
 *
 * Philox4x32-10 is a counter-based generator: no state, no order. Element i of a fill that begins at
 * `start` is element start + i of the whole, bit for bit, whatever the cut: a parameter sliced over any
 * number of servers or threads starts with the values it has in one process.
 *
 * What must stay true: one element reads only the counter its own index gives (several neighbours share
 * the four words of one counter), and the same code computes it wherever in a fill it lies. */
#pragma once

#include "framework/trireme.h"

/* A key for one operator's numbers. `run` counts the runs for operators that must differ each time
 * (dropout) and is 0 for those that must not (initializers). */
uint64_t tr_random_key(uint64_t program_seed, uint64_t op_seed, uint64_t run);

/* A good 64-bit hash of bytes; the same on every machine of the same byte order. For names too. */
uint64_t tr_hash_bytes(const void *bytes, size_t size);
/* A bijection of 64 bits that mixes well: the hash of one integer. */
static inline uint64_t tr_hash_u64(uint64_t value)
{
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    value ^= value >> 32;
    value *= 0xD6E8FEB86659FD93u;
    return value ^ value >> 32;
}

/* The four words of Philox4x32-10 at a counter, as published. */
void tr_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2]);
/* Word `index` (32 bits) of the sequence of `key`: word index & 3 of counter index / 4. */
uint32_t tr_random_bits(uint64_t key, uint64_t index);
/* A number of [0, below) from one element; `below` > 0. The bias is under 2^-32 * below. */
uint64_t tr_random_below(uint64_t key, uint64_t index, uint64_t below);

/* Uniform in [min, max), from 24 bits (float) or 53 bits (double) for each element. */
void tr_random_uniform_f32(float *out, int64_t n, uint64_t key, uint64_t start, float min, float max);
void tr_random_uniform_f64(double *out, int64_t n, uint64_t key, uint64_t start, double min, double max);
/* Normal, by Box-Muller: elements 2p and 2p+1 come from pair p. */
void tr_random_normal_f32(float *out, int64_t n, uint64_t key, uint64_t start, float mean, float std);
void tr_random_normal_f64(double *out, int64_t n, uint64_t key, uint64_t start, double mean, double std);
/* Normal, restricted to mean +- 2 std, by the inverse distribution: one uniform for each element. */
void tr_random_truncated_normal_f32(float *out, int64_t n, uint64_t key, uint64_t start, float mean, float std);
void tr_random_truncated_normal_f64(double *out, int64_t n, uint64_t key, uint64_t start, double mean, double std);
/* 1 with the given probability, else 0. */
void tr_random_bernoulli(uint8_t *out, int64_t n, uint64_t key, uint64_t start, double probability);
