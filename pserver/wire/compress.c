/* compress.c - the methods, each a pair of loops.
 *
 * What a value becomes is exact in float32 (a half, a bf16 scale of 8 bits times a number of 7, the value itself), so that the
 * residual has one rounding, with or without fused multiply-adds. */
#include "pserver/wire/compress.h"

#include "framework/compiler.h"
#include "framework/status.h"
#include "framework/threadpool.h"
#include "kernels/math/cast.h"
#include "pserver/wire/wire.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HEAD = 4, RUN = TR_COMPRESS_RUN, PAGE = 65536, GROUP = 32 };

static const char *const names[] = {"none", "fp16", "bf16", "int8", "topk"};

tr_status tr_compress_parse(tr_compress *out, const char *text)
{
    char *end;

    for (int kind = TR_COMPRESS_NONE; kind < TR_COMPRESS_TOPK; kind++)
        if (!strcmp(text, names[kind])) {
            *out = (tr_compress){(tr_compress_kind)kind, 0};
            return TR_OK;
        }
    if (strncmp(text, "topk", 4) || (text[4] && text[4] != '('))
        return tr_fail(TR_EINVAL, "compression '%s'; possible are none, fp16, bf16, int8, topk(SHARE)", text);
    if (!text[4])
        return tr_fail(TR_EINVAL, "compression '%s': topk needs a number, like topk(0.01): the share of the values that travel",
                       text);
    const double share = strtod(text + 5, &end);
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

static int64_t pages_of(int64_t count)
{
    return (count + PAGE - 1) / PAGE;
}

static int64_t words_of(int64_t count)
{
    return (count + 63) / 64;
}

/* The values that topk sends of so many: at least one. */
static int64_t kept_of(const tr_compress *c, int64_t count)
{
    const int64_t kept = (int64_t)ceil(c->share * (double)count);
    return kept < 1 ? 1 : kept > count ? count : kept;
}

/* u32 of values, and u64 of bits, are aligned where the payload is: the bits come first, behind a word of padding. */
static bool has_bits(int64_t count, int64_t kept)
{
    return words_of(count) * 8 + 4 < pages_of(count) * 4 + kept * 2;
}

uint64_t tr_compress_bytes(const tr_compress *c, int64_t count)
{
    int64_t kept;

    switch (c->kind) {
    case TR_COMPRESS_FP16:
    case TR_COMPRESS_BF16:
        return HEAD + 2 * (uint64_t)count;
    case TR_COMPRESS_INT8:
        return HEAD + 2 * (uint64_t)runs_of(count) + (uint64_t)count;
    case TR_COMPRESS_TOPK:
        kept = kept_of(c, count);
        return HEAD + 4 * (uint64_t)kept +
               (uint64_t)(has_bits(count, kept) ? 4 + words_of(count) * 8 : pages_of(count) * 4 + kept * 2);
    default:
        return 0;
    }
}

/* == 16 bits ==================================================================================== */

/* Finite, but beyond fp16: its largest. */
TR_INLINE float within_fp16(float x)
{
    static const uint32_t most = 0x477fe000, infinite = 0x7f800000;
    const uint32_t        bits = tr__bits_of_f32(x), magnitude = bits & 0x7fffffff;
    const bool            is_beyond = magnitude - (most + 1) < infinite - (most + 1);
    return tr__f32_of_bits(is_beyond ? (bits & 0x80000000) | most : bits);
}

/* What is infinite or no number leaves nothing behind. */
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

/* A run whose largest magnitude is below this is sent as zeros, and stays in the residual: the inverse of its scale might be
 * infinite. */
static const float LEAST = 0x1p-100f;
static const uint16_t NOT_A_NUMBER = 0x7fc0;

/* The bf16 not below a 127th of the largest magnitude. */
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

/* == the largest ================================================================================ */

TR_CLONES static void add(float *restrict sum, const float *restrict x, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] += x[i];
}

TR_CLONES static uint32_t count_from(const uint32_t *magnitude, int64_t count, uint32_t least)
{
    uint32_t found = 0;

    for (int64_t i = 0; i < count; i++)
        found += magnitude[i] >= least;
    return found;
}

/* The largest magnitude that at least `kept` values have, bit by bit from the highest, or a lower one that just so many have. */
static uint32_t threshold_of(const uint32_t *magnitude, int64_t count, int64_t kept)
{
    uint32_t least = 0;

    for (uint32_t bit = 1u << 30; bit; bit >>= 1) {
        const int64_t found = count_from(magnitude, count, least | bit);
        least |= found >= kept ? bit : 0;
        if (found == kept)
            break;
    }
    return least;
}

/* Values that may be among the largest, in ascending order of place. */
typedef struct candidates {
    int64_t   count;
    uint32_t *place, *magnitude;
} candidates;

/* Does one of a group reach it? */
TR_INLINE bool any_from(const float *values, int64_t count, uint32_t least)
{
    uint32_t any = 0;

    for (int64_t i = 0; i < count; i++)
        any |= magnitude_of(values[i]) >= least;
    return any;
}

TR_CLONES static void find_from(candidates *found, const float *values, int64_t count, uint32_t least)
{
    int64_t n = 0;

    for (int64_t at = 0; at < count; at += GROUP) {
        const int64_t end = at + GROUP < count ? at + GROUP : count;
        if (end - at == GROUP && !any_from(values + at, GROUP, least))
            continue;
        for (int64_t i = at; i < end; i++) {
            found->place[n] = (uint32_t)i;
            found->magnitude[n] = magnitude_of(values[i]);
            n += found->magnitude[n] >= least;
        }
    }
    found->count = n;
}

/* A magnitude that somewhat more than `kept` values will have, by a sample of them; 0 where that is not worth it. */
static uint32_t guess_threshold(uint32_t *scratch, const float *values, int64_t count, int64_t kept)
{
    enum { EACH = 61, LEAST_COUNT = 8192 };
    const double  expected = (double)kept / EACH;
    const int64_t rank = (int64_t)(expected + 4 * sqrt(expected) + 4), samples = count / EACH;

    if (count < LEAST_COUNT || rank >= samples)
        return 0;
    for (int64_t i = 0; i < samples; i++)
        scratch[i] = magnitude_of(values[i * EACH]);
    return threshold_of(scratch, samples, rank);
}

/* All of the `kept` largest, and perhaps others. */
static candidates candidates_of(const float *values, int64_t count, int64_t kept)
{
    uint32_t  *scratch = tr_thread_scratch(TR_SCRATCH_PACK, 2 * ((size_t)count + 1) * sizeof *scratch);
    candidates found = {0, scratch, scratch + count + 1};

    find_from(&found, values, count, guess_threshold(scratch, values, count, kept));
    if (found.count < kept)                            /* the sample was not like the rest */
        find_from(&found, values, count, 0);
    return found;
}

/* Places of a payload. */
typedef struct places {
    float    *value;
    uint32_t *page;                   /* how many in each; or NULL, and */
    uint64_t *bits;
    uint16_t *index;
} places;

static places places_of(uint8_t *payload, int64_t count, int64_t kept)
{
    uint8_t *at = payload + HEAD;

    if (has_bits(count, kept)) {
        uint64_t *bits = (uint64_t *)(void *)(at + 4);
        return (places){(float *)(void *)(bits + words_of(count)), NULL, bits, NULL};
    }
    float    *value = (float *)(void *)at;
    uint32_t *page = (uint32_t *)(void *)(value + kept);
    return (places){value, page, NULL, (uint16_t *)(void *)(page + pages_of(count))};
}

/* Of values that are equal in magnitude to the threshold the first ones go. */
static void put_largest(const places *to, float *e, const candidates *from, int64_t kept)
{
    const uint32_t least = threshold_of(from->magnitude, from->count, kept);
    int64_t        standby = kept - count_from(from->magnitude, from->count, least + 1), n = 0;

    for (int64_t i = 0; i < from->count; i++) {
        const uint32_t place = from->place[i];
        if (from->magnitude[i] < least || (from->magnitude[i] == least && standby-- <= 0))
            continue;
        to->value[n] = e[place];
        if (to->page) {
            to->page[place / PAGE]++;
            to->index[n] = (uint16_t)(place % PAGE);
        } else {
            to->bits[place / 64] |= (uint64_t)1 << place % 64;
        }
        e[place] = 0;
        n++;
    }
}

static void encode_topk(const tr_compress *c, uint8_t *payload, float *e, const float *x, int64_t count)
{
    const int64_t kept = kept_of(c, count);
    const places  to = places_of(payload, count, kept);

    add(e, x, count);
    if (to.page)
        memset(to.page, 0, (size_t)pages_of(count) * sizeof *to.page);
    else
        memset(payload + HEAD, 0, 4 + (size_t)words_of(count) * sizeof *to.bits);
    const candidates largest = candidates_of(e, count, kept);
    put_largest(&to, e, &largest, kept);
}

static void decode_topk(const tr_compress *c, float *out, uint8_t *payload, int64_t count)
{
    const int64_t kept = kept_of(c, count);
    const places  from = places_of(payload, count, kept);
    int64_t       n = 0;

    memset(out, 0, (size_t)count * sizeof *out);
    for (int64_t page = 0; from.page && page < pages_of(count); page++)
        for (const int64_t end = n + from.page[page]; n < end; n++)
            out[page * PAGE + from.index[n]] = from.value[n];
    for (int64_t word = 0; from.bits && word < words_of(count); word++)
        for (uint64_t bits = from.bits[word]; bits; bits &= bits - 1)
            out[word * 64 + __builtin_ctzll(bits)] = from.value[n++];
}

static tr_status check_pages(const places *p, int64_t count, int64_t kept)
{
    int64_t n = 0;

    for (int64_t page = 0; page < pages_of(count); page++) {
        const int64_t in_page = count - page * PAGE < PAGE ? count - page * PAGE : PAGE;
        if (p->page[page] > kept - n)
            return tr_fail(TR_EFORMAT, "compressed gradient: page %lld says that it has %u of the %lld values that are left",
                           (long long)page, p->page[page], (long long)(kept - n));
        const int64_t end = n + p->page[page];
        for (int64_t last = -1; n < end; last = p->index[n++])
            if (p->index[n] <= last || p->index[n] >= in_page)
                return tr_fail(TR_EFORMAT, "compressed gradient: value %lld stands at %u of a page of %lld, behind %lld",
                               (long long)n, p->index[n], (long long)in_page, (long long)last);
    }
    return n == kept ? TR_OK : tr_fail(TR_EFORMAT, "compressed gradient: its pages have %lld values of %lld", (long long)n,
                                       (long long)kept);
}

static tr_status check_bits(const places *p, int64_t count, int64_t kept)
{
    const uint64_t beyond = count % 64 ? p->bits[count / 64] >> count % 64 : 0;
    int64_t        set = 0;

    for (int64_t i = 0; i < words_of(count); i++)
        set += __builtin_popcountll(p->bits[i]);
    if (beyond || set != kept)
        return tr_fail(TR_EFORMAT, "compressed gradient: %lld bits for %lld values of %lld%s", (long long)set, (long long)kept,
                       (long long)count, beyond ? ", some of them behind its end" : "");
    return TR_OK;
}

/* == payloads =================================================================================== */

uint64_t tr_compress_encode_zeros(uint8_t *payload)
{
    tr_wire_put_u32(payload, TR_COMPRESS_NONE);
    return HEAD;
}

uint64_t tr_compress_encode(const tr_compress *c, uint8_t *payload, const float *x, float *residual, int64_t count)
{
    uint16_t *words = (uint16_t *)(void *)(payload + HEAD);

    tr_wire_put_u32(payload, (uint32_t)c->kind);
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
    default:
        encode_topk(c, payload, residual, x, count);
        break;
    }
    return tr_compress_bytes(c, count);
}

tr_status tr_compress_check(const tr_compress *c, const uint8_t *payload, uint64_t bytes, int64_t count)
{
    const uint32_t kind = bytes >= HEAD ? tr_wire_get_u32(payload) : TR_COMPRESS_KIND_COUNT;

    if (kind >= TR_COMPRESS_KIND_COUNT)
        return tr_fail(TR_EFORMAT, "compressed gradient: %llu bytes that name no method", (unsigned long long)bytes);
    if (kind != TR_COMPRESS_NONE && kind != (uint32_t)c->kind)
        return tr_fail(TR_EFORMAT, "compressed gradient: by %s, the job's compression is %s", names[kind], names[c->kind]);
    const uint64_t expected = kind == TR_COMPRESS_NONE ? HEAD : tr_compress_bytes(c, count);
    if (bytes != expected)
        return tr_fail(TR_EFORMAT, "compressed gradient: %llu bytes for %lld values by %s, which take %llu",
                       (unsigned long long)bytes, (long long)count, names[kind], (unsigned long long)expected);
    if (kind != TR_COMPRESS_TOPK)
        return TR_OK;
    const int64_t kept = kept_of(c, count);
    const places  p = places_of((uint8_t *)(uintptr_t)payload, count, kept);
    return p.page ? check_pages(&p, count, kept) : check_bits(&p, count, kept);
}

void tr_compress_decode(const tr_compress *c, float *out, const uint8_t *payload, int64_t count)
{
    const uint16_t *words = (const uint16_t *)(const void *)(payload + HEAD);

    switch ((tr_compress_kind)tr_wire_get_u32(payload)) {
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
        decode_topk(c, out, (uint8_t *)(uintptr_t)payload, count);
        break;
    default:
        memset(out, 0, (size_t)count * sizeof *out);
        break;
    }
}
