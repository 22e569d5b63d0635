/* compress.c - the methods, each a pair of loops.
 *
 * A decoded value is exact in float32: a half, a bf16 scale of 8 bits times a number of 7 bits, or the value itself. So the residual has
 * one rounding, with or without fused multiply-adds. */
#include "pserver/wire/compress.h"

#include "framework/base/compiler.h"
#include "framework/base/number.h"
#include "framework/base/status.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/cast.h"
#include "pserver/wire/compress_sparse.h"
#include "pserver/wire/wire.h"
#include "storage/util/little_endian.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 4, MORE_HEAD = 8, RUN = TR_COMPRESS_RUN };

static const char *const names[] = {"none", "fp16", "bf16", "int8", "topk", "nonzero"};

tr_status tr_compress_parse(tr_compress *out, const char *text)
{
    char *end;

    for (int kind = TR_COMPRESS_NONE; kind < TR_COMPRESS_KIND_COUNT; kind++)
        if (kind != TR_COMPRESS_TOPK && !strcmp(text, names[kind])) {
            *out = (tr_compress){(tr_compress_kind)kind, 0};
            return TR_OK;
        }
    if (strncmp(text, "topk", 4) || (text[4] && text[4] != '('))
        return tr_fail(TR_EINVAL, "compression '%s'; possible are none, fp16, bf16, int8, nonzero, topk(SHARE)", text);
    if (!text[4])
        return tr_fail(TR_EINVAL, "compression '%s': topk needs a number, like topk(0.01): the share of the values that travel",
                       text);
    const double share = tr__strtod(text + 5, &end);
    if (end == text + 5 || strcmp(end, ")"))
        return tr_fail(TR_EINVAL, "compression '%s': a number and ')' must stand at '%s' (the share of the values that travel)",
                       text, text + 5);
    if (!(share > 0 && share <= 1))
        return tr_fail(TR_ERANGE, "compression '%s': topk takes a share above 0 and up to 1, got %g", text, share);
    *out = (tr_compress){TR_COMPRESS_TOPK, share};
    return TR_OK;
}

tr_status tr_compress_parse_parameters(bool *is_rounded, const char *text)
{
    *is_rounded = strcmp(text, names[TR_COMPRESS_BF16]) == 0;
    return *is_rounded || strcmp(text, names[TR_COMPRESS_NONE]) == 0
               ? TR_OK : tr_fail(TR_EINVAL, "compression of parameters '%s'; possible are none, bf16", text);
}

bool tr_compress_takes(const tr_compress *c, tr_dtype dtype, uint64_t bytes, uint64_t chunk_bytes)
{
    return c->kind != TR_COMPRESS_NONE && dtype == TR_FP32 && !tr_wire_is_small(bytes, chunk_bytes);
}

/* == sizes ====================================================================================== */

static int64_t runs_of(int64_t count)
{
    return (count + RUN - 1) / RUN;
}

/* How many of `count` values topk sends: at least one. */
static int64_t kept_of(const tr_compress *c, int64_t count)
{
    const int64_t kept = (int64_t)ceil(c->share * (double)count);
    return kept < 1 ? 1 : kept > count ? count : kept;
}

uint64_t tr_compress_bytes(const tr_compress *c, int64_t count)
{
    switch (c->kind) {
    case TR_COMPRESS_FP16:
    case TR_COMPRESS_BF16:
        return HEAD + 2 * (uint64_t)count;
    case TR_COMPRESS_INT8:
        return HEAD + 2 * (uint64_t)runs_of(count) + (uint64_t)count;
    case TR_COMPRESS_TOPK:
        return tr__sparse_bytes(count, kept_of(c, count));
    case TR_COMPRESS_NONZERO:
        return MORE_HEAD + tr__sparse_bytes(count, count);
    default:
        return 0;
    }
}

/* == 16 bits ==================================================================================== */

/* A finite value beyond the range of fp16 becomes the largest one of fp16. */
TR_INLINE float within_fp16(float x)
{
    static const uint32_t most = 0x477fe000, infinite = 0x7f800000;
    const uint32_t        bits = tr__bits_of_f32(x), magnitude = bits & 0x7fffffff;
    const bool            is_beyond = magnitude - (most + 1) < infinite - (most + 1);
    return tr__f32_of_bits(is_beyond ? (bits & 0x80000000) | most : bits);
}

/* A value that is infinite or NaN leaves no residual. */
TR_INLINE float rest_of(float value, float sent)
{
    const float rest = value - sent;
    return fabsf(rest) <= FLT_MAX ? rest : 0;
}

TR_CLONES static void encode_fp16(uint16_t *restrict out, float *restrict e, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = x[i] + e[i];
        out[i] = tr_fp16_of_f32(within_fp16(value));
        e[i] = rest_of(value, tr_f32_of_fp16(out[i]));
    }
}

TR_CLONES static void encode_bf16(uint16_t *restrict out, float *restrict e, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        const float value = x[i] + e[i];
        out[i] = tr_bf16_of_f32(value);
        e[i] = rest_of(value, tr_f32_of_bf16(out[i]));
    }
}

TR_CLONES static void decode_fp16(float *restrict out, const uint16_t *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = tr_f32_of_fp16(in[i]);
}

TR_CLONES static void decode_bf16(float *restrict out, const uint16_t *restrict in, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        out[i] = tr_f32_of_bf16(in[i]);
}

/* == 8 bits ===================================================================================== */

TR_INLINE uint32_t magnitude_of(float x)
{
    return tr__bits_of_f32(x) & 0x7fffffff;
}

/* A run whose largest magnitude is below this is sent as zeros, and stays in the residual. The inverse of its scale could be infinite. */
static const float LEAST = 0x1p-100f;
static const uint16_t NOT_A_NUMBER = 0x7fc0;

/* The smallest bf16 that is not below a 127th of the largest magnitude. */
TR_INLINE uint16_t scale_of(float most)
{
    return most < LEAST ? 0 : (uint16_t)((tr__bits_of_f32(most / 127) + 0xffff) >> 16);
}

TR_CLONES static void encode_int8(uint16_t *restrict scales, int8_t *restrict out, float *restrict e, const float *restrict x,
                                  int64_t count)
{
    for (int64_t at = 0; at < count; at += RUN, scales++) {
        const int64_t end = at + RUN < count ? at + RUN : count;
        uint32_t      most = 0;
        for (int64_t i = at; i < end; i++) {
            e[i] += x[i];
            most = magnitude_of(e[i]) > most ? magnitude_of(e[i]) : most;
        }
        if (most >= 0x7f800000) {
            *scales = NOT_A_NUMBER;
            memset(out + at, 0, (size_t)(end - at));
            memset(e + at, 0, (size_t)(end - at) * sizeof *e);
            continue;
        }
        *scales = scale_of(tr__f32_of_bits(most));
        const float scale = tr_f32_of_bf16(*scales), inverse = scale > 0 ? 1 / scale : 0;
        for (int64_t i = at; i < end; i++) {
            const float whole = rintf(e[i] * inverse);
            out[i] = (int8_t)(int)whole;
            e[i] -= whole * scale;
        }
    }
}

TR_CLONES static void decode_int8(float *restrict out, const uint16_t *restrict scales, const int8_t *restrict in, int64_t count)
{
    for (int64_t at = 0; at < count; at += RUN, scales++) {
        const int64_t end = at + RUN < count ? at + RUN : count;
        const float   scale = tr_f32_of_bf16(*scales);
        for (int64_t i = at; i < end; i++)
            out[i] = (float)in[i] * scale;
    }
}

/* == nonzero ==================================================================================== */

/* The number of values stands before the values. */
static uint64_t encode_nonzero(uint8_t *payload, float *e, const float *x, int64_t count)
{
    const int64_t kept = tr__sparse_encode_nonzero(payload + MORE_HEAD, e, x, count);

    tr_put_u32(payload + HEAD, (uint32_t)kept);
    tr_put_u32(payload + MORE_HEAD, 0);
    return MORE_HEAD + tr__sparse_bytes(count, kept);
}

static int64_t nonzero_of(const uint8_t *payload)
{
    return tr_get_u32(payload + HEAD);
}

static tr_status check_nonzero(const uint8_t *payload, uint64_t bytes, int64_t count)
{
    const int64_t kept = bytes >= MORE_HEAD + HEAD ? nonzero_of(payload) : -1;

    if (kept < 0 || kept > count || bytes != MORE_HEAD + tr__sparse_bytes(count, kept))
        return tr_fail(TR_EFORMAT, "compressed gradient: %llu bytes for %lld values by nonzero, of which %lld are not zero",
                       (unsigned long long)bytes, (long long)count, (long long)kept);
    return tr__sparse_check(payload + MORE_HEAD, count, kept);
}

/* == payloads =================================================================================== */

uint64_t tr_compress_encode_zeros(uint8_t *payload)
{
    tr_put_u32(payload, TR_COMPRESS_NONE);
    return HEAD;
}

uint64_t tr_compress_encode(const tr_compress *c, uint8_t *payload, const float *x, float *residual, int64_t count)
{
    uint16_t *words = (uint16_t *)(void *)(payload + HEAD);

    tr_put_u32(payload, (uint32_t)c->kind);
    switch (c->kind) {
    case TR_COMPRESS_FP16:
        encode_fp16(words, residual, x, count);
        break;
    case TR_COMPRESS_BF16:
        encode_bf16(words, residual, x, count);
        break;
    case TR_COMPRESS_INT8:
        encode_int8(words, (int8_t *)(words + runs_of(count)), residual, x, count);
        break;
    case TR_COMPRESS_NONZERO:
        return encode_nonzero(payload, residual, x, count);
    default:
        tr__sparse_encode_largest(payload, residual, x, count, kept_of(c, count));
        break;
    }
    return tr_compress_bytes(c, count);
}

tr_status tr_compress_check(const tr_compress *c, const uint8_t *payload, uint64_t bytes, int64_t count)
{
    const uint32_t kind = bytes >= HEAD ? tr_get_u32(payload) : TR_COMPRESS_KIND_COUNT;

    if (kind >= TR_COMPRESS_KIND_COUNT)
        return tr_fail(TR_EFORMAT, "compressed gradient: %llu bytes that name no method", (unsigned long long)bytes);
    if (kind != TR_COMPRESS_NONE && kind != (uint32_t)c->kind)
        return tr_fail(TR_EFORMAT, "compressed gradient: by %s, the job's compression is %s", names[kind], names[c->kind]);
    if (kind == TR_COMPRESS_NONZERO)
        return check_nonzero(payload, bytes, count);
    const uint64_t expected = kind == TR_COMPRESS_NONE ? HEAD : tr_compress_bytes(c, count);
    if (bytes != expected)
        return tr_fail(TR_EFORMAT, "compressed gradient: %llu bytes for %lld values by %s, which take %llu",
                       (unsigned long long)bytes, (long long)count, names[kind], (unsigned long long)expected);
    return kind == TR_COMPRESS_TOPK ? tr__sparse_check(payload, count, kept_of(c, count)) : TR_OK;
}

void tr_compress_decode(const tr_compress *c, float *out, const uint8_t *payload, int64_t count)
{
    const uint16_t *words = (const uint16_t *)(const void *)(payload + HEAD);

    switch ((tr_compress_kind)tr_get_u32(payload)) {
    case TR_COMPRESS_FP16:
        decode_fp16(out, words, count);
        break;
    case TR_COMPRESS_BF16:
        decode_bf16(out, words, count);
        break;
    case TR_COMPRESS_INT8:
        decode_int8(out, words, (const int8_t *)(words + runs_of(count)), count);
        break;
    case TR_COMPRESS_TOPK:
        tr__sparse_decode(out, (uint8_t *)(uintptr_t)payload, count, kept_of(c, count));
        break;
    case TR_COMPRESS_NONZERO:
        tr__sparse_decode(out, (uint8_t *)(uintptr_t)payload + MORE_HEAD, count, nonzero_of(payload));
        break;
    default:
        memset(out, 0, (size_t)count * sizeof *out);
        break;
    }
}
