/* slots_find.c - keys are looked up in batches: the misses of many are under way at a time. */
#include "pserver/slots_state.h"

#ifdef __SSE2__
#include <immintrin.h>
#endif

uint32_t tr__slots_look_up(const tr_slots *s, int64_t key, uint32_t tag, uint64_t at)
{
    for (; s->entry[at]; at++) {
        const uint32_t slot = tr__slots_entry_slot(s->entry[at]);
        if (tr__slots_entry_tag(s->entry[at]) == tag && slot < s->head->used && tr_slots_row(s->row, s->stride, slot)->key == key)
            return slot;
    }
    return TR_SLOT_NONE;
}

/* Bit 2 * i, or the one above: entry i of a line has this tag. */
TR_INLINE uint32_t line_has(const uint64_t *line, uint32_t tag)
{
#ifdef __SSE2__
    const __m128i *at = (const __m128i *)(const void *)line, wanted = _mm_set1_epi32((int)tag);
    const __m128i  low = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_load_si128(at), wanted), _mm_cmpeq_epi32(_mm_load_si128(at + 1), wanted));
    const __m128i high = _mm_packs_epi32(_mm_cmpeq_epi32(_mm_load_si128(at + 2), wanted), _mm_cmpeq_epi32(_mm_load_si128(at + 3), wanted));
    return (uint32_t)_mm_movemask_epi8(_mm_packs_epi16(low, high)) >> 1 & 0x5555;
#else
    uint32_t bits = 0;
    for (int i = 0; i < TR__SLOTS_LINE; i++)
        bits |= (uint32_t)(tr__slots_entry_tag(line[i]) == tag) << 2 * i;
    return bits;
#endif
}

/* In passes over a batch, each of which asks for the memory of the next: lines of the index, for some the lines behind those, rows,
 * keys. */
enum { BATCH = 128 };

TR_INLINE void ask_for(const tr_slots *s, uint32_t slot, uint64_t wanted)
{
    const char *row = (const char *)tr_slots_row(s->row, s->stride, slot);

    __builtin_prefetch(row, 0, 2);
    for (uint64_t byte = TR_CACHE_LINE; byte < wanted + TR_CACHE_LINE - 1; byte += TR_CACHE_LINE)
        __builtin_prefetch(row + (byte < wanted ? byte : wanted - 1), 0, 2);
}

TR_INLINE uint32_t slot_in(const uint64_t *line, uint32_t has)
{
    return has ? tr__slots_entry_slot(line[__builtin_ctz(has) / 2]) : TR_SLOT_NONE;
}

/* The slots of those that have overflowed their lines. */
TR_INLINE void find_late(const tr_slots *s, uint32_t *out, const uint64_t *at, const uint32_t *tag, const int *late, int n, uint64_t wanted)
{
    for (int j = 0; j < n; j++) {
        const int       i = late[j];
        const uint64_t *line = s->entry + at[i];
        uint32_t        has;
        do
            has = line_has(line += TR__SLOTS_LINE, tag[i]);
        while (!has && line[TR__SLOTS_LINE - 1]);
        out[i] = slot_in(line, has);
        if (has)
            ask_for(s, out[i], wanted);
    }
}

typedef uint32_t (*line_has_fn)(const uint64_t *line, uint32_t tag);

TR_INLINE void find_batch_by(line_has_fn has_tag, const tr_slots *s, uint32_t *out, const int64_t *keys, int n, uint64_t wanted)
{
    uint64_t at[BATCH];
    uint32_t tag[BATCH];
    int      late[BATCH], late_count = 0;

    for (int i = 0; i < n; i++) {
        tag[i] = tr__slots_tag(s, keys[i]);
        at[i] = tr__slots_home(s->head, tag[i]);
        __builtin_prefetch(&s->entry[at[i]], 0, 2);
    }
    for (int i = 0; i < n; i++) {
        const uint64_t *line = s->entry + at[i];
        const uint32_t  has = has_tag(line, tag[i]);
        out[i] = slot_in(line, has);
        if (TR_LIKELY(has)) {
            ask_for(s, out[i], wanted);
        } else if (line[TR__SLOTS_LINE - 1]) {
            late[late_count++] = i;
            __builtin_prefetch(line + TR__SLOTS_LINE, 0, 2);
        }
    }
    find_late(s, out, at, tag, late, late_count, wanted);
    const uint64_t used = s->head->used;
    for (int i = 0; i < n; i++)
        if (TR_UNLIKELY(out[i] != TR_SLOT_NONE && (out[i] >= used || tr_slots_row(s->row, s->stride, out[i])->key != keys[i])))
            out[i] = tr__slots_look_up(s, keys[i], tag[i], at[i]);
}

static void find_batch_plain(const tr_slots *s, uint32_t *out, const int64_t *keys, int n, uint64_t wanted)
{
    find_batch_by(line_has, s, out, keys, n, wanted);
}

#if defined(__x86_64__) && defined(__GNUC__)

/* One comparison for a line. What is short lets the CPU look further ahead, to more misses at once: a sixth faster. */
#define AVX512 __attribute__((target("avx512f")))

AVX512 TR_INLINE uint32_t line_has_avx512(const uint64_t *line, uint32_t tag)
{
    return _mm512_mask_cmpeq_epi32_mask(0xaaaa, _mm512_load_si512(line), _mm512_set1_epi32((int)tag));
}

AVX512 static void find_batch_avx512(const tr_slots *s, uint32_t *out, const int64_t *keys, int n, uint64_t wanted)
{
    find_batch_by(line_has_avx512, s, out, keys, n, wanted);
}

static void find_batch(const tr_slots *s, uint32_t *out, const int64_t *keys, int n, uint64_t wanted)
{
    (__builtin_cpu_supports("avx512f") ? find_batch_avx512 : find_batch_plain)(s, out, keys, n, wanted);
}

#else

static void find_batch(const tr_slots *s, uint32_t *out, const int64_t *keys, int n, uint64_t wanted)
{
    find_batch_plain(s, out, keys, n, wanted);
}

#endif

void tr_slots_find_to_read(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n, uint64_t wanted)
{
    for (int64_t i = 0; i < n; i += BATCH)
        find_batch(slots, out + i, keys + i, n - i < BATCH ? (int)(n - i) : BATCH, wanted);
}

void tr_slots_find(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n)
{
    tr_slots_find_to_read(slots, out, keys, n, sizeof(tr_slot_row));
}
