/* exact.c - squares into buckets by exponent, buckets into limbs.
 *
 * The square of a float is exact in double. Blocks of float take a short way that becomes vector code: adding and
 * subtracting a large number cuts each square at bits that the block's largest element determines, into two parts whose sums
 * over the block are exact, too (S. Rump, T. Ogita, S. Oishi, "Accurate floating-point summation I", 2008). When something is
 * left below (elements 2^19 times smaller than the largest), the block goes the general way: the squares of the integers
 * that are the significands, added up by exponent. */
#ifndef T
#include "kernels/math/arrays/exact.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"

#include <math.h>
#include <string.h>

/* The exponent of limb 0's lowest bit: twice that of the smallest double. */
enum { LOWEST = -2148 };
/* Each number adds less than 2^33 to a limb of 63 bits. */
static const int64_t CARRY_AFTER = (int64_t)1 << 28;

/* == limbs =================================================================================== */

/* All limbs into 0 .. 2^32 - 1. */
static void carry(tr_exact *sum)
{
    int64_t over = 0;

    for (int i = 0; i < TR_EXACT_LIMBS; i++) {
        const int64_t limb = sum->limb[i] + over;
        over = limb >> 32;
        sum->limb[i] = limb & UINT32_MAX;
    }
    sum->added = 0;
}

static void count_added(tr_exact *sum, int64_t numbers)
{
    sum->added += numbers;
    if (sum->added > CARRY_AFTER)
        carry(sum);
}

/* Add sign * value * 2^exponent, where exponent >= LOWEST; `value` above 0. */
static void add_scaled(tr_exact *sum, uint64_t value, int exponent, int sign)
{
    const int               at = (exponent - LOWEST) / 32, shift = (exponent - LOWEST) % 32;
    const unsigned __int128 bits = (unsigned __int128)value << shift;

    sum->limb[at] += sign * (int64_t)(bits & UINT32_MAX);
    sum->limb[at + 1] += sign * (int64_t)(bits >> 32 & UINT32_MAX);
    sum->limb[at + 2] += sign * (int64_t)(bits >> 64);
}

/* A number that is not subnormal. */
static void add_double(tr_exact *sum, double value)
{
    uint64_t bits;

    if (value == 0)
        return;
    memcpy(&bits, &value, sizeof bits);
    const uint64_t one = (uint64_t)1 << 52;
    add_scaled(sum, (bits & (one - 1)) | one, (int)(bits >> 52 & 2047) - 1075, bits >> 63 ? -1 : 1);
}

void tr_exact_add(tr_exact *to, const tr_exact *from)
{
    for (int i = 0; i < TR_EXACT_LIMBS; i++)
        to->limb[i] += from->limb[i];
    to->has_nan |= from->has_nan;
    to->has_infinity |= from->has_infinity;
    count_added(to, from->added + 1);
}

/* == rounding ================================================================================ */

/* `count` bits from bit `first` up, at most 64 of them; bits below 0 are 0. */
static uint64_t bits_of(const tr_exact *sum, int first, int count)
{
    uint64_t bits = 0;

    for (int i = count - 1; i >= 0; i--) {
        const int at = first + i;
        bits = bits << 1 | (at < 0 ? 0 : (uint64_t)sum->limb[at / 32] >> at % 32 & 1);
    }
    return bits;
}

static bool has_bits_below(const tr_exact *sum, int end)
{
    int limb = 0;

    for (; end >= 32; end -= 32)
        if (sum->limb[limb++])
            return true;
    return end > 0 && sum->limb[limb] & (((int64_t)1 << end) - 1);
}

/* The nearest number of `digits` bits of which the lowest is at least 2^smallest. */
static double rounded(tr_exact *sum, int digits, int smallest)
{
    int top = TR_EXACT_LIMBS - 1;

    if (sum->has_nan)
        return NAN;
    if (sum->has_infinity)
        return INFINITY;
    carry(sum);
    while (top >= 0 && !sum->limb[top])
        top--;
    if (top < 0)
        return 0;
    const int highest = 32 * top + 63 - __builtin_clzll((uint64_t)sum->limb[top]);
    const int lowest = highest - digits + 1 > smallest - LOWEST ? highest - digits + 1 : smallest - LOWEST;
    uint64_t  kept = highest >= lowest ? bits_of(sum, lowest, highest - lowest + 1) : 0;
    if (bits_of(sum, lowest - 1, 1) && (kept & 1 || has_bits_below(sum, lowest - 1)))
        kept++;
    return ldexp((double)kept, lowest + LOWEST);
}

float tr_exact_round_f32(tr_exact *sum)
{
    return (float)rounded(sum, 24, -149);
}

double tr_exact_round_f64(tr_exact *sum)
{
    return rounded(sum, 53, -1074);
}

/* == between processes ======================================================================= */

enum { NAN_BIT = 1, INFINITY_BIT = 2 };

void tr_exact_pack(uint32_t out[TR_EXACT_WORDS], tr_exact *sum)
{
    carry(sum);
    out[0] = (sum->has_nan ? NAN_BIT : 0) | (sum->has_infinity ? INFINITY_BIT : 0);
    for (int i = 0; i < TR_EXACT_LIMBS; i++)
        out[1 + i] = (uint32_t)sum->limb[i];
}

void tr_exact_add_packed(tr_exact *to, const uint32_t in[TR_EXACT_WORDS])
{
    to->has_nan |= (in[0] & NAN_BIT) != 0;
    to->has_infinity |= (in[0] & INFINITY_BIT) != 0;
    for (int i = 0; i < TR_EXACT_LIMBS; i++)
        to->limb[i] += in[1 + i];
    count_added(to, 1);
}

/* == floats: the short way =================================================================== */

/* PART_BITS and the bits of BLOCK make 53: a sum of so many parts is exact. */
enum { BLOCK = 1024, PART_BITS = 43, LANES = 16 };

/* The square of x, which is below 2^(2 exponent + 2), cut into a multiple of the unit of `high`, one of `low`, a rest. */
TR_INLINE void cut_square(double *high_sum, double *low_sum, double *rest_sum, float x, double high, double low)
{
    const double square = (double)x * x;
    const double first = (square + high) - high, left = square - first;
    const double second = (left + low) - low;

    *high_sum += first;
    *low_sum += second;
    *rest_sum += fabs(left - second);
}

TR_CLONES static void cut_block(double sums[3], const float x[BLOCK], double high, double low)
{
    double first[LANES] = {0}, second[LANES] = {0}, rest[LANES] = {0};

    for (int i = 0; i < BLOCK; i += LANES)
        for (int j = 0; j < LANES; j++)
            cut_square(&first[j], &second[j], &rest[j], x[i + j], high, low);
    for (int half = LANES / 2; half > 0; half /= 2)
        for (int j = 0; j < half; j++) {
            first[j] += first[j + half];
            second[j] += second[j + half];
            rest[j] += rest[j + half];
        }
    sums[0] = first[0];
    sums[1] = second[0];
    sums[2] = rest[0];
}

/* The bits of the largest magnitude: of floats above 0 they are in the order of the values. */
TR_CLONES static uint32_t largest_bits(const float x[BLOCK])
{
    uint32_t lane[LANES] = {0}, largest = 0;

    for (int i = 0; i < BLOCK; i += LANES)
        for (int j = 0; j < LANES; j++) {
            uint32_t bits;
            memcpy(&bits, &x[i + j], sizeof bits);
            bits &= 0x7fffffff;
            lane[j] = bits > lane[j] ? bits : lane[j];
        }
    for (int j = 0; j < LANES; j++)
        largest = lane[j] > largest ? lane[j] : largest;
    return largest;
}

/* 1.5 * 2^exponent, a normal number. */
static double one_and_a_half(int exponent)
{
    const uint64_t bits = (uint64_t)(exponent + 1023) << 52 | (uint64_t)1 << 51;
    double         value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

/* False: this block must go the general way. */
static bool add_block_shortly(tr_exact *sum, const float x[BLOCK])
{
    const uint32_t largest = largest_bits(x);
    double         sums[3];

    if (largest >= 0x7f800000)
        return false;
    if (largest == 0)
        return true;
    const int exponent = largest >> 23 ? (int)(largest >> 23) - 127 : -127;
    const int unit = 2 * exponent + 2 - PART_BITS;
    cut_block(sums, x, one_and_a_half(unit + 52), one_and_a_half(unit - PART_BITS + 52));
    if (sums[2] != 0)
        return false;
    add_double(sum, sums[0]);
    add_double(sum, sums[1]);
    count_added(sum, 2);
    return true;
}

#include "kernels/math/tools/each_float.h"
#else

/* -- the general way -------------------------------------------------------------------------- */

#if T_IS_F32
#define UINT          uint32_t
#define DIGITS        23              /* of the fraction */
#define EXPONENTS     256
#define LEAST         -149            /* the exponent of the lowest bit there is */
#else
#define UINT          uint64_t
#define DIGITS        52
#define EXPONENTS     2048
#define LEAST         -1074
#endif

/* Squares of significands by exponent, in halves of DIGITS + 1 bits: 1024 of them fit. All zero between blocks. */
typedef struct {
    uint64_t low[EXPONENTS], high[EXPONENTS];
} NAME(buckets);

/* The least and the greatest exponent there is, as stored; of zeros that of the smallest number. */
TR_CLONES static void NAME(exponents)(UINT *least, UINT *greatest, const T *x, int64_t n)
{
    UINT min = EXPONENTS, max = 0;

    for (int64_t i = 0; i < n; i++) {
        UINT bits;
        memcpy(&bits, &x[i], sizeof bits);
        const UINT magnitude = (UINT)(bits << 1), e = magnitude >> (DIGITS + 1);
        min = (magnitude ? e : min) < min ? e : min;
        max = e > max ? e : max;
    }
    *least = min;
    *greatest = max;
}

static void NAME(note_special)(tr_exact *sum, const T *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        sum->has_nan |= isnan(x[i]);
        sum->has_infinity |= isinf(x[i]);
    }
}

static void NAME(empty)(tr_exact *sum, NAME(buckets) *b, int begin, int end)
{
    for (int e = begin; e < end; e++) {
        const int exponent = 2 * (LEAST + (e > 0 ? e - 1 : 0));
        if (b->low[e])
            add_scaled(sum, b->low[e], exponent, 1);
        if (b->high[e])
            add_scaled(sum, b->high[e], exponent + DIGITS + 1, 1);
        b->low[e] = b->high[e] = 0;
    }
    count_added(sum, 2 * (end - begin));
}

static void NAME(add_block)(tr_exact *sum, NAME(buckets) *b, const T *x, int64_t n)
{
    UINT least, greatest;

    NAME(exponents)(&least, &greatest, x, n);
    if (greatest == EXPONENTS - 1) {
        NAME(note_special)(sum, x, n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        UINT bits;
        memcpy(&bits, &x[i], sizeof bits);
        const UINT     e = bits >> DIGITS & (EXPONENTS - 1);
        const uint64_t significand = (bits & (((UINT)1 << DIGITS) - 1)) | (UINT)(e > 0) << DIGITS;
#if T_IS_F32
        b->low[e] += significand * significand;
#else
        const unsigned __int128 square = (unsigned __int128)significand * significand;
        b->low[e] += (uint64_t)square & (((uint64_t)1 << (DIGITS + 1)) - 1);
        b->high[e] += (uint64_t)(square >> (DIGITS + 1));
#endif
    }
    if (least <= greatest)
        NAME(empty)(sum, b, (int)least, (int)greatest + 1);
}

/* -- arrays ----------------------------------------------------------------------------------- */

static void NAME(add_range)(tr_exact *sum, const T *x, int64_t n)
{
    NAME(buckets) buckets;

    memset(&buckets, 0, sizeof buckets);
    for (int64_t i = 0; i < n; i += BLOCK) {
        const int64_t count = n - i < BLOCK ? n - i : BLOCK;
#if T_IS_F32
        float        padded[BLOCK];
        const float *block = x + i;
        if (count < BLOCK) {
            memset(padded, 0, sizeof padded);
            memcpy(padded, x + i, (size_t)count * sizeof *x);
            block = padded;
        }
        if (add_block_shortly(sum, block))
            continue;
#endif
        NAME(add_block)(sum, &buckets, x + i, count);
    }
}

typedef struct {
    const T  *x;
    int64_t   n, slices;
    tr_exact *part;                   /* of each slice */
} NAME(job);

static void NAME(slice)(void *payload, int64_t slice)
{
    const NAME(job) *j = payload;
    int64_t          begin, end;

    tr_slice_range(&begin, &end, j->n, BLOCK, j->slices, slice);
    NAME(add_range)(&j->part[slice], j->x + begin, end - begin);
}

void NAME(tr_exact_add_squares)(tr_exact *to, const T *x, int64_t n)
{
    enum { MIN_ITEMS = 65536 };
    NAME(job) j = {x, n, tr_slice_count(n, MIN_ITEMS), NULL};

    if (j.slices == 1) {
        NAME(add_range)(to, x, n);
        return;
    }
    j.part = tr_thread_scratch(TR_SCRATCH_PARTIAL, (size_t)j.slices * sizeof *j.part);
    memset(j.part, 0, (size_t)j.slices * sizeof *j.part);
    tr_parallel(j.slices, NAME(slice), &j);
    for (int64_t i = 0; i < j.slices; i++)
        tr_exact_add(to, &j.part[i]);
}

#undef UINT
#undef DIGITS
#undef EXPONENTS
#undef LEAST
#endif
