/* row_code.c - see row_code.h. Doubles hold every product here without an error that a float could show, and powers come from a table that
 * is made of products alone: the C library's own may differ from machine to machine. */
#include "storage/checkpoint/row_code.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "kernels/math/tools/cast.h"
#include "storage/slots/slots.h"
#include "storage/table/table.h"

enum { HIGHEST = 127, POWERS = 254, SCALE_BYTES = 2 };
/* A scale with this bit is of powers: 9 bits for the exponent of the top, from -LOWEST on, and 6 for the octaves below it. */
enum { OF_POWERS = 0x8000, OCTAVE_BITS = 6, LOWEST = 160 };

tr_status tr_row_code_check(const tr_row_code *code)
{
    if (code->key_bits <= 64 && code->touch_bits <= 31 && code->age_bits <= 32)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "rows are coded with %u, %u and %u bits for key, updates and age", code->key_bits, code->touch_bits,
                   code->age_bits);
}

static uint64_t head_bytes(const tr_row_code *code)
{
    return (code->key_bits + code->touch_bits + code->age_bits + 7) / 8;
}

uint64_t tr_row_code_stride(const tr_row_code *code, const tr_table_config *config)
{
    return head_bytes(code) + (uint64_t)(1 + config->states) * (SCALE_BYTES + (uint64_t)config->width);
}

static uint64_t padded_values(const tr_table_config *config)
{
    return ((uint64_t)tr_table_row_bytes(config) + 3) & ~(uint64_t)3;
}

/* == multiples of a scale ======================================================================== */

/* The scale is the upper half of a float: rounded up, so that no number is beyond it. */
static uint16_t multiple_scale(float largest)
{
    const double exact = (double)largest / HIGHEST;
    float        scale = (float)exact;
    uint32_t     bits;

    if ((double)scale < exact)
        scale = nextafterf(scale, INFINITY);
    memcpy(&bits, &scale, sizeof bits);
    return (uint16_t)((bits + 0xffff) >> 16);
}

static double scale_of(uint16_t code)
{
    const uint32_t bits = (uint32_t)code << 16;
    float          scale;

    memcpy(&scale, &bits, sizeof scale);
    return (double)scale;
}

static void encode_multiples(uint8_t *out, const float *x, int64_t n, uint16_t code)
{
    const double scale = scale_of(code);

    for (int64_t i = 0; i < n; i++)
        out[i] = (uint8_t)(int8_t)(scale > 0 ? lrint((double)x[i] / scale) : 0);
}

static void decode_multiples(float *x, const uint8_t *in, int64_t n, uint16_t code, double most)
{
    const double scale = scale_of(code);

    for (int64_t i = 0; i < n; i++)
        x[i] = (float)fmax(-most, fmin(most, (int8_t)in[i] * scale));
}

/* == powers ====================================================================================== */

/* The octaves from the top to the lowest code: each number up to 32, then steps of eight. */
static int octaves_of(uint16_t code)
{
    const int number = code & ((1 << OCTAVE_BITS) - 1);

    return number < 32 ? number + 1 : 32 + 8 * (number - 31);
}

static int top_of(uint16_t code)
{
    return (code >> OCTAVE_BITS & 511) - LOWEST;
}

/* The smallest exponents around all numbers that are not 0. */
static uint16_t power_scale(float smallest, float largest)
{
    int top, bottom, number = 0;

    frexpf(largest, &top);                             /* largest < 2^top */
    frexpf(smallest, &bottom);                         /* 2^(bottom-1) <= smallest */
    while (octaves_of((uint16_t)number) < top - bottom + 1)
        number++;
    return (uint16_t)(OF_POWERS | (top + LOWEST) << OCTAVE_BITS | number);
}

static void encode_powers(uint8_t *out, const float *x, int64_t n, uint16_t code)
{
    const double step = POWERS / (double)octaves_of(code);

    for (int64_t i = 0; i < n; i++) {
        const double below = x[i] > 0 ? ((double)top_of(code) - log2((double)x[i])) * step : 255;
        out[i] = (uint8_t)(x[i] > 0 ? 255 - lrint(fmax(0, fmin(POWERS, below))) : 0);
    }
}

/* 2^(i / 254), by products. */
static void make_roots(double *root)
{
    root[0] = 1;
    for (int i = 1; i < POWERS; i++)
        root[i] = root[i - 1] * 0x1.00b3164e79358p+0;
}

static void decode_powers(float *x, const uint8_t *in, int64_t n, uint16_t code, double most, const double *root)
{
    const int octaves = octaves_of(code), top = top_of(code);

    for (int64_t i = 0; i < n; i++) {
        const int below = (255 - in[i]) * octaves, whole = (below + POWERS - 1) / POWERS;
        x[i] = in[i] ? (float)fmin(most, ldexp(root[whole * POWERS - below], top - whole)) : 0;
    }
}

/* == numbers of a row ============================================================================ */

static bool are_finite(const float *x, int64_t n)
{
    bool are = true;

    for (int64_t i = 0; i < n; i++)
        are &= isfinite(x[i]);
    return are;
}

static uint16_t choose_scale(const float *x, int64_t n, bool may_be_powers)
{
    float largest = 0, smallest = INFINITY;
    bool  is_negative = false;

    for (int64_t i = 0; i < n; i++) {
        const float size = fabsf(x[i]);
        is_negative |= x[i] < 0;
        largest = size > largest ? size : largest;
        smallest = size > 0 && size < smallest ? size : smallest;
    }
    return largest > 0 && may_be_powers && !is_negative ? power_scale(smallest, largest) : multiple_scale(largest);
}

static uint8_t *encode_numbers(uint8_t *out, const float *x, int64_t n, bool may_be_powers)
{
    const uint16_t code = choose_scale(x, n, may_be_powers);

    out[0] = (uint8_t)code;
    out[1] = (uint8_t)(code >> 8);
    (code & OF_POWERS ? encode_powers : encode_multiples)(out + SCALE_BYTES, x, n, code);
    return out + SCALE_BYTES + n;
}

static const uint8_t *decode_numbers(float *x, const uint8_t *in, int64_t n, double most, const double *root)
{
    const uint16_t code = (uint16_t)(in[0] | in[1] << 8);

    if (code & OF_POWERS)
        decode_powers(x, in + SCALE_BYTES, n, code, most, root);
    else
        decode_multiples(x, in + SCALE_BYTES, n, code, most);
    return in + SCALE_BYTES + n;
}

/* == headers ===================================================================================== */

typedef unsigned __int128 bits128;

static uint32_t bits_of(uint64_t number)
{
    return number ? 64 - (uint32_t)__builtin_clzll(number) : 0;
}

static void choose_bits(tr_row_code *out, const uint8_t *rows, uint64_t bytes, uint64_t stride)
{
    int64_t     first = INT64_MAX, end = INT64_MIN;
    uint32_t    touches = 0, oldest = UINT32_MAX, newest = 0;
    tr_slot_row head;

    for (uint64_t at = 0; at < bytes; at += stride) {
        memcpy(&head, rows + at, sizeof head);
        first = head.key < first ? head.key : first;
        end = head.key > end ? head.key : end;
        touches |= head.mark;
        oldest = head.last < oldest ? head.last : oldest;
        newest = head.last > newest ? head.last : newest;
    }
    *out = (tr_row_code){first, newest, bits_of((uint64_t)end - (uint64_t)first), bits_of(touches), bits_of(newest - oldest)};
}

static void encode_head(uint8_t *out, const uint8_t *row, const tr_row_code *code)
{
    tr_slot_row head;

    memcpy(&head, row, sizeof head);
    bits128 bits = (uint64_t)head.key - (uint64_t)code->first_key;
    bits |= (bits128)head.mark << code->key_bits | (bits128)(code->last - head.last) << (code->key_bits + code->touch_bits);
    for (uint64_t i = 0; i < head_bytes(code); i++)
        out[i] = (uint8_t)(bits >> 8 * i);
}

static uint64_t take_bits(bits128 *bits, uint32_t count)
{
    const uint64_t taken = (uint64_t)(*bits & (((bits128)1 << count) - 1));

    *bits >>= count;
    return taken;
}

static void decode_head(uint8_t *row, const uint8_t *in, const tr_row_code *code)
{
    bits128 bits = 0;

    for (uint64_t i = 0; i < head_bytes(code); i++)
        bits |= (bits128)in[i] << 8 * i;
    tr_slot_row head = {.key = (int64_t)((uint64_t)code->first_key + take_bits(&bits, code->key_bits))};
    head.mark = (uint32_t)take_bits(&bits, code->touch_bits);
    head.last = code->last - (uint32_t)take_bits(&bits, code->age_bits);
    memcpy(row, &head, sizeof head);
}

/* == rows ======================================================================================== */

/* What lies between the rows of a shard: memory for the numbers of one, and where things are. */
typedef struct layout {
    const tr_table_config *config;
    uint64_t               stride, states_at;
    int64_t                numbers;   /* of all states */
    float                 *values;
} layout;

static layout layout_of(const tr_table_config *config)
{
    return (layout){.config = config,
                    .stride = tr_table_stride(config),
                    .states_at = sizeof(tr_slot_row) + padded_values(config),
                    .numbers = config->states * config->width,
                    .values = tr__must_array((size_t)config->width + 1, sizeof(float))};
}

/* Move the rows that cannot be coded to the front. Returns their bytes. */
static uint64_t move_kept(const layout *l, uint8_t *rows, uint64_t bytes)
{
    uint8_t *row = tr__must_bytes(l->stride);
    uint64_t kept = 0;

    for (uint64_t at = 0; at < bytes; at += l->stride) {
        const float *states = (const float *)(const void *)(rows + at + l->states_at);
        tr_cast(l->values, TR_FP32, rows + at + sizeof(tr_slot_row), l->config->dtype, l->config->width);
        if (are_finite(l->values, l->config->width) && are_finite(states, l->numbers))
            continue;
        memcpy(row, rows + kept, l->stride);
        memmove(rows + kept, rows + at, l->stride);
        memcpy(rows + at, row, l->stride);
        kept += l->stride;
    }
    free(row);
    return kept;
}

void tr_row_code_encode(tr_row_code *code, void **coded, uint64_t *coded_bytes, uint64_t *kept, void *rows, uint64_t bytes,
                        const tr_table_config *config)
{
    const layout l = layout_of(config);

    *kept = move_kept(&l, rows, bytes);
    choose_bits(code, (uint8_t *)rows + *kept, bytes - *kept, l.stride);
    *coded_bytes = (bytes - *kept) / l.stride * tr_row_code_stride(code, config);
    uint8_t *out = tr__must_bytes(*coded_bytes + 1);
    *coded = out;
    for (uint64_t at = *kept; at < bytes; at += l.stride) {
        const uint8_t *row = (uint8_t *)rows + at;
        const float   *states = (const float *)(const void *)(row + l.states_at);
        encode_head(out, row, code);
        tr_cast(l.values, TR_FP32, row + sizeof(tr_slot_row), config->dtype, config->width);
        out = encode_numbers(out + head_bytes(code), l.values, config->width, false);
        for (int s = 0; s < config->states; s++)
            out = encode_numbers(out, states + s * config->width, config->width, true);
    }
    free(l.values);
}

/* The largest finite number of the type of a table's values. */
static double largest(tr_dtype dtype)
{
    return dtype == TR_FP16 ? 65504 : dtype == TR_BF16 ? 0x1.fep+127 : 0x1.fffffep+127;
}

void tr_row_code_decode(void *rows, const void *coded, uint64_t count, const tr_row_code *code, const tr_table_config *config)
{
    const layout   l = layout_of(config);
    const uint8_t *in = coded;
    uint8_t       *row = rows;
    double         root[POWERS];

    make_roots(root);
    for (uint64_t i = 0; i < count; i++, row += l.stride) {
        float *states = (float *)(void *)(row + l.states_at);
        memset(row, 0, l.stride);
        decode_head(row, in, code);
        in = decode_numbers(l.values, in + head_bytes(code), config->width, largest(config->dtype), root);
        tr_cast(row + sizeof(tr_slot_row), config->dtype, l.values, TR_FP32, config->width);
        for (int s = 0; s < config->states; s++)
            in = decode_numbers(states + s * config->width, in, config->width, largest(TR_FP32), root);
    }
    free(l.values);
}
