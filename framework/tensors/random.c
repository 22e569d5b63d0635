/* random.c - Philox in vector-friendly blocks.
 *
 * A fill works through blocks of BLOCK counters, structure of arrays, aligned to multiples of the block in the
 * element index: element i therefore always lies in the same place of the same block, whatever the fill's start,
 * and comes from the very same instructions. */
#include "framework/tensors/random.h"

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"
#include "framework/threads/threadpool.h"

enum { BLOCK = 64, WORDS = 4 * BLOCK };                  /* counters and words of a block */

/* -- Philox ----------------------------------------------------------------------------------------------- */

enum { ROUNDS = 10 };
static const uint32_t MUL0 = 0xD2511F53u, MUL1 = 0xCD9E8D57u, WEYL0 = 0x9E3779B9u, WEYL1 = 0xBB67AE85u;

TR_INLINE void philox_round(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    const uint64_t p0 = (uint64_t)MUL0 * c[0], p1 = (uint64_t)MUL1 * c[2];
    c[0] = (uint32_t)(p1 >> 32) ^ c[1] ^ k0;
    c[2] = (uint32_t)(p0 >> 32) ^ c[3] ^ k1;
    c[1] = (uint32_t)p1;
    c[3] = (uint32_t)p0;
}

TR_INLINE void philox(uint32_t c[4], uint32_t k0, uint32_t k1)
{
    for (int i = 0; i < ROUNDS; i++, k0 += WEYL0, k1 += WEYL1)
        philox_round(c, k0, k1);
}

void tr_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
    uint32_t c[4] = {counter[0], counter[1], counter[2], counter[3]};
    philox(c, key[0], key[1]);
    memcpy(out, c, sizeof c);
}

static void words_of_counter(uint32_t out[4], uint64_t key, uint64_t counter)
{
    const uint32_t c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
    const uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
    tr_philox(out, c, k);
}

uint32_t tr_random_bits(uint64_t key, uint64_t index)
{
    uint32_t out[4];
    words_of_counter(out, key, index >> 2);
    return out[index & 3];
}

uint64_t tr_random_below(uint64_t key, uint64_t index, uint64_t below)
{
    uint32_t out[4];
    words_of_counter(out, key, index);
    const uint64_t bits = (uint64_t)out[1] << 32 | out[0];
    return (uint64_t)((unsigned __int128)bits * below >> 64);
}

/* The words of counters BLOCK * block ..: words[j][i] is word j of the i-th. */
TR_INLINE void philox_block(uint32_t words[4][BLOCK], uint64_t key, uint64_t block)
{
    for (int i = 0; i < BLOCK; i++) {
        const uint64_t counter = block * BLOCK + (uint64_t)i;
        uint32_t       c[4] = {(uint32_t)counter, (uint32_t)(counter >> 32), 0, 0};
        philox(c, (uint32_t)key, (uint32_t)(key >> 32));
        for (int j = 0; j < 4; j++)
            words[j][i] = c[j];
    }
}

/* -- keys and hashes -------------------------------------------------------------------------------------- */

static uint64_t fold(uint64_t a, uint64_t b)
{
    const unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* Sixteen bytes a step, multiplied to 128 bits and folded; the length goes in last, so that padding with zeros
 * changes the hash. */
uint64_t tr_hash_bytes(const void *bytes, size_t size)
{
    static const uint64_t odd[2] = {0x9E3779B97F4A7C15u, 0xC2B2AE3D27D4EB4Fu};
    const unsigned char *at = bytes;
    uint64_t             hash = odd[0] ^ odd[1];

    for (size_t left = size; left > 0;) {
        uint64_t     pair[2] = {0, 0};
        const size_t take = left < sizeof pair ? left : sizeof pair;
        memcpy(pair, at, take);
        hash = fold(pair[0] ^ odd[0], pair[1] ^ hash) + tr_hash_u64(hash ^ pair[0] ^ odd[1]);
        at += take;
        left -= take;
    }
    return tr_hash_u64(hash ^ size * odd[1]);
}

uint64_t tr_random_key(uint64_t program_seed, uint64_t op_seed, uint64_t run)
{
    const uint64_t parts[3] = {program_seed, op_seed, run};
    return tr_hash_bytes(parts, sizeof parts);
}

/* -- fills: a distribution turns one block of words into one block of elements ---------------------------- */

enum { ITEMS_F32 = 4 * BLOCK, ITEMS_F64 = 2 * BLOCK };   /* elements of a block */

typedef struct fill fill;
struct fill {
    void   (*block)(void *out, const fill *f, uint64_t block);
    char    *out;
    int64_t  n, items, item_size;                         /* items: elements of a block */
    uint64_t key, start;
    double   a, b;                                        /* the distribution's parameters */
};

/* Part of a block is made whole aside, so that the elements do not depend on where the fill begins. */
static void fill_part(const fill *f, uint64_t block, uint64_t begin, uint64_t end)
{
    double         whole[WORDS];                          /* room for a block of any type */
    const uint64_t first = block * (uint64_t)f->items;
    f->block(whole, f, block);
    memcpy(f->out + (int64_t)(begin - f->start) * f->item_size, (char *)whole + (int64_t)(begin - first) * f->item_size,
           (size_t)((int64_t)(end - begin) * f->item_size));
}

static int64_t fill_slices(const fill *f)
{
    return tr_slice_count(f->n / f->items, 32);
}

static void fill_slice(void *payload, int64_t slice)
{
    const fill    *f = payload;
    const uint64_t items = (uint64_t)f->items;
    int64_t        from, to;
    tr_slice_range(&from, &to, f->n, 1, fill_slices(f), slice);

    uint64_t at = f->start + (uint64_t)from;
    for (const uint64_t end = f->start + (uint64_t)to; at < end;) {
        const uint64_t block = at / items, next = (block + 1) * items, stop = next < end ? next : end;
        if (stop - at == items)
            f->block(f->out + (int64_t)(at - f->start) * f->item_size, f, block);
        else
            fill_part(f, block, at, stop);
        at = stop;
    }
}

static void run(fill f)
{
    if (f.n > 0)
        tr_parallel(fill_slices(&f), fill_slice, &f);
}

/* Uniform in [0, 1), and in (0, 1] for logarithms. */
TR_INLINE float  unit_f32(uint32_t word) { return (float)(int32_t)(word >> 8) * 0x1p-24f; }
TR_INLINE float  open_f32(uint32_t word) { return (float)(int32_t)(word >> 1) * 0x1p-31f + 0x1p-32f; }
TR_INLINE double unit_f64(uint32_t high, uint32_t low)
{
    return (double)(int32_t)(high >> 5) * 0x1p-27 + (double)(int32_t)(low >> 6) * 0x1p-53;
}

/* -- uniform ---------------------------------------------------------------------------------------------- */

/* a + u (b - a), which rounding must not carry to b itself. */
TR_CLONES static void uniform_block_f32(void *to, const fill *f, uint64_t block)
{
    float      *out = to;
    uint32_t    w[4][BLOCK];
    const float a = (float)f->a, b = (float)f->b, width = b - a, last = a < b ? nextafterf(b, a) : a;
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < 4; j++) {
            const float x = unit_f32(w[j][i]) * width + a;
            out[4 * i + j] = x > last ? last : x;
        }
}

TR_CLONES static void uniform_block_f64(void *to, const fill *f, uint64_t block)
{
    double      *out = to;
    uint32_t     w[4][BLOCK];
    const double a = f->a, b = f->b, width = b - a, last = a < b ? nextafter(b, a) : a;
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < 2; j++) {
            const double x = unit_f64(w[2 * j][i], w[2 * j + 1][i]) * width + a;
            out[2 * i + j] = x > last ? last : x;
        }
}

void tr_random_uniform_f32(float *out, int64_t n, uint64_t key, uint64_t start, float min, float max)
{
    run((fill){uniform_block_f32, (char *)out, n, ITEMS_F32, sizeof *out, key, start, min, max});
}

void tr_random_uniform_f64(double *out, int64_t n, uint64_t key, uint64_t start, double min, double max)
{
    run((fill){uniform_block_f64, (char *)out, n, ITEMS_F64, sizeof *out, key, start, min, max});
}

/* -- normal ----------------------------------------------------------------------------------------------- */

TR_CLONES static void normal_block_f32(void *to, const fill *f, uint64_t block)
{
    float      *out = to;
    uint32_t    w[4][BLOCK];
    const float mean = (float)f->a, std = (float)f->b;
    philox_block(w, f->key, block);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < BLOCK; i++) {
            float       sine, cosine;
            const float radius = sqrtf(-2.0f * tr_log_f32(open_f32(w[2 * j][i])));
            tr_sincos_turn_f32(&sine, &cosine, unit_f32(w[2 * j + 1][i]));
            out[4 * i + 2 * j] = radius * cosine * std + mean;
            out[4 * i + 2 * j + 1] = radius * sine * std + mean;
        }
}

TR_CLONES static void normal_block_f64(void *to, const fill *f, uint64_t block)
{
    double  *out = to;
    uint32_t w[4][BLOCK];
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++) {
        double       sine, cosine;
        const double radius = sqrt(-2.0 * tr_log_f64(unit_f64(w[0][i], w[1][i]) + 0x1p-54));
        tr_sincos_turn_f64(&sine, &cosine, unit_f64(w[2][i], w[3][i]));
        out[2 * i] = radius * cosine * f->b + f->a;
        out[2 * i + 1] = radius * sine * f->b + f->a;
    }
}

void tr_random_normal_f32(float *out, int64_t n, uint64_t key, uint64_t start, float mean, float std)
{
    run((fill){normal_block_f32, (char *)out, n, ITEMS_F32, sizeof *out, key, start, mean, std});
}

void tr_random_normal_f64(double *out, int64_t n, uint64_t key, uint64_t start, double mean, double std)
{
    run((fill){normal_block_f64, (char *)out, n, ITEMS_F64, sizeof *out, key, start, mean, std});
}

/* -- truncated normal: y uniform between +-erf(2 / sqrt 2), then sqrt 2 erfinv(y) -------------------------- */

#define ERF_SQRT2 0.95449973610364158560
#define SQRT2     1.41421356237309504880

TR_CLONES static void truncated_block_f32(void *to, const fill *f, uint64_t block)
{
    float      *out = to;
    uint32_t    w[4][BLOCK];
    const float mean = (float)f->a, std = (float)f->b;
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < 4; j++) {
            const float y = (2.0f * unit_f32(w[j][i]) - 1.0f) * (float)ERF_SQRT2;
            float       z = tr_erfinv_inner_f32(y) * (float)SQRT2;
            z = z > 2.0f ? 2.0f : z;
            z = z < -2.0f ? -2.0f : z;
            out[4 * i + j] = z * std + mean;
        }
}

TR_CLONES static void truncated_block_f64(void *to, const fill *f, uint64_t block)
{
    double  *out = to;
    uint32_t w[4][BLOCK];
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < 2; j++) {
            const double y = (2.0 * unit_f64(w[2 * j][i], w[2 * j + 1][i]) - 1.0) * ERF_SQRT2;
            double       z = tr_erfinv_inner_f64(y) * SQRT2;
            z = z > 2.0 ? 2.0 : z;
            z = z < -2.0 ? -2.0 : z;
            out[2 * i + j] = z * f->b + f->a;
        }
}

void tr_random_truncated_normal_f32(float *out, int64_t n, uint64_t key, uint64_t start, float mean, float std)
{
    run((fill){truncated_block_f32, (char *)out, n, ITEMS_F32, sizeof *out, key, start, mean, std});
}

void tr_random_truncated_normal_f64(double *out, int64_t n, uint64_t key, uint64_t start, double mean, double std)
{
    run((fill){truncated_block_f64, (char *)out, n, ITEMS_F64, sizeof *out, key, start, mean, std});
}

/* -- coins ------------------------------------------------------------------------------------------------- */

/* The probability as a count of the 2^32 words; words below it are heads. They are compared with the
 * last such word, because the count of a certainty does not fit 32 bits. */
TR_CLONES static void bernoulli_block(void *to, const fill *f, uint64_t block)
{
    uint8_t       *out = to;
    uint32_t       w[4][BLOCK];
    const uint64_t heads = (uint64_t)(f->a * 0x1p32 + 0.5);
    const uint32_t last = (uint32_t)(heads - 1);
    const uint8_t  any = heads > 0;
    philox_block(w, f->key, block);
    for (int i = 0; i < BLOCK; i++)
        for (int j = 0; j < 4; j++)
            out[4 * i + j] = (w[j][i] <= last) & any;
}

void tr_random_bernoulli(uint8_t *out, int64_t n, uint64_t key, uint64_t start, double probability)
{
    const double p = probability > 0 ? probability < 1 ? probability : 1 : 0;
    run((fill){bernoulli_block, (char *)out, n, ITEMS_F32, sizeof *out, key, start, p, 0});
}
