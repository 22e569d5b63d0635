/* compress_sparse.c - see compress_sparse.h. */
#include "pserver/wire/compress_sparse.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/tools/cast.h"

#include <math.h>
#include <string.h>

enum { HEAD = 4, PAGE = 65536, GROUP = 32 };

/* == sizes ====================================================================================== */

static int64_t pages_of(int64_t count)
{
    return (count + PAGE - 1) / PAGE;
}

static int64_t words_of(int64_t count)
{
    return (count + 63) / 64;
}

/* The u32 of values and the u64 of bits must be aligned if the payload is. So the bits come first, after a word of padding. */
static bool has_bits(int64_t count, int64_t kept)
{
    return words_of(count) * 8 + 4 < pages_of(count) * 4 + kept * 2;
}

uint64_t tr__sparse_bytes(int64_t count, int64_t kept)
{
    return HEAD + 4 * (uint64_t)kept + (uint64_t)(has_bits(count, kept) ? 4 + words_of(count) * 8 : pages_of(count) * 4 + kept * 2);
}


TR_INLINE uint32_t magnitude_of(float x)
{
    return tr__bits_of_f32(x) & 0x7fffffff;
}


/* == the largest values ========================================================================= */

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

/* Find the largest magnitude that at least `kept` values reach, bit by bit from the highest. A lower one is good, too, if exactly `kept`
 * values reach it. */
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

/* Candidates for the largest values, in ascending order of place. */
typedef struct candidates {
    int64_t   count;
    uint32_t *place, *magnitude;
} candidates;

/* Does any value of a group reach the magnitude? */
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

/* Estimate, from a sample, a magnitude that somewhat more than `kept` values reach. 0: a sample is not worth it. */
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

/* Collect all of the `kept` largest values, and perhaps others. */
static candidates candidates_of(const float *values, int64_t count, int64_t kept)
{
    uint32_t  *scratch = tr_thread_scratch(TR_SCRATCH_PACK, 2 * ((size_t)count + 1) * sizeof *scratch);
    candidates found = {0, scratch, scratch + count + 1};

    find_from(&found, values, count, guess_threshold(scratch, values, count, kept));
    if (found.count < kept)                            /* the sample was not typical of the rest */
        find_from(&found, values, count, 0);
    return found;
}

/* The list of places in a payload. */
typedef struct places {
    float    *value;
    uint32_t *page;                   /* number of values in each page; or NULL, and */
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

/* Return value number n of the payload. */
TR_INLINE void put(const places *to, int64_t n, uint32_t place, float value)
{
    to->value[n] = value;
    if (to->page) {
        to->page[place / PAGE]++;
        to->index[n] = (uint16_t)(place % PAGE);
    } else {
        to->bits[place / 64] |= (uint64_t)1 << place % 64;
    }
}

static void clear_places(const places *to, uint8_t *payload, int64_t count)
{
    if (to->page)
        memset(to->page, 0, (size_t)pages_of(count) * sizeof *to->page);
    else
        memset(payload + HEAD, 0, 4 + (size_t)words_of(count) * sizeof *to->bits);
}

/* Of values whose magnitude equals the threshold, the first ones are sent. */
static void put_largest(const places *to, float *e, const candidates *from, int64_t kept)
{
    const uint32_t least = threshold_of(from->magnitude, from->count, kept);
    int64_t        standby = kept - count_from(from->magnitude, from->count, least + 1), n = 0;

    for (int64_t i = 0; i < from->count; i++) {
        const uint32_t place = from->place[i];
        if (from->magnitude[i] < least || (from->magnitude[i] == least && standby-- <= 0))
            continue;
        put(to, n++, place, e[place]);
        e[place] = 0;
    }
}

void tr__sparse_encode_largest(uint8_t *payload, float *e, const float *x, int64_t count, int64_t kept)
{
    const places  to = places_of(payload, count, kept);

    add(e, x, count);
    clear_places(&to, payload, count);
    const candidates largest = candidates_of(e, count, kept);
    put_largest(&to, e, &largest, kept);
}

void tr__sparse_decode(float *out, uint8_t *payload, int64_t count, int64_t kept)
{
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

/* == values that are not zero =================================================================== */

int64_t tr__sparse_encode_nonzero(uint8_t *payload, float *e, const float *x, int64_t count)
{
    int64_t kept = 0, n = 0;

    add(e, x, count);
    for (int64_t i = 0; i < count; i++)
        kept += e[i] != 0;
    const places to = places_of(payload, count, kept);
    clear_places(&to, payload, count);
    for (int64_t i = 0; i < count; i++)
        if (e[i] != 0) {
            put(&to, n++, (uint32_t)i, e[i]);
            e[i] = 0;
        }
    return kept;
}

/* == decoding =================================================================================== */

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
                return tr_fail(TR_EFORMAT, "compressed gradient: value %lld stands at %u of a page of %lld, after %lld",
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
                       (long long)count, beyond ? ", some of them after its end" : "");
    return TR_OK;
}

tr_status tr__sparse_check(const uint8_t *payload, int64_t count, int64_t kept)
{
    const places p = places_of((uint8_t *)(uintptr_t)payload, count, kept);
    return p.page ? check_pages(&p, count, kept) : check_bits(&p, count, kept);
}
