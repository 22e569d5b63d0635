/* slots_find.c - looks keys up in batches, so that many cache misses are under way at a time. */
#include "storage/slots/slots_state.h"

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

/* For each entry i of a line that has this tag, set bit 2 * i or the bit above it. */
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

/* A batch first reads the index alone: it requests each key's line while it compares the lines before. A second pass reads the rows.
 * Two kinds of requests in turns, or a whole batch of requests in a row, are slower: a CPU with all its misses under way drops further
 * requests. A key takes 2 ns where its line is in cache, so a miss of 100 ns is hidden by 50 keys or more. */
enum { BATCH = 512, AHEAD = 64 };

typedef struct batch {
    uint32_t tag[BATCH];
    uint32_t line[BATCH + AHEAD];     /* the home line of each key; entries after the last key repeat its line */
    int      late[BATCH], late_count; /* keys that are not in their home line, which is full */
} batch;

static void prepare(batch *b, const tr_slots *s, const int64_t *keys, int n)
{
    for (int i = 0; i < n; i++) {
        b->tag[i] = tr__slots_tag(s, keys[i]);
        b->line[i] = (uint32_t)(tr__slots_home(s->head, b->tag[i]) / TR__SLOTS_LINE);
    }
    for (int i = n; i < n + AHEAD; i++)
        b->line[i] = b->line[n - 1];
    b->late_count = 0;
}

TR_INLINE const uint64_t *line_at(const tr_slots *s, uint32_t number)
{
    return s->entry + (uint64_t)number * TR__SLOTS_LINE;
}

/* The first entry with this tag. If no entry has it, the last entry is read. There is no branch, because the CPU could not predict it. */
TR_INLINE uint32_t slot_in(const uint64_t *line, uint32_t has)
{
    const uint64_t entry = line[__builtin_ctz(has | 1u << (2 * TR__SLOTS_LINE - 1)) / 2];

    return has ? tr__slots_entry_slot(entry) : TR_SLOT_NONE;
}

typedef uint32_t (*line_has_fn)(const uint64_t *line, uint32_t tag);

/* Find the keys that may have overflowed their home lines. */
TR_INLINE void guess_late(line_has_fn has_tag, const tr_slots *s, uint32_t *out, const batch *b)
{
    for (int j = 0; j < b->late_count; j++)
        __builtin_prefetch(line_at(s, b->line[b->late[j]] + 1));
    for (int j = 0; j < b->late_count; j++) {
        const int       i = b->late[j];
        const uint64_t *line = line_at(s, b->line[i]);
        uint32_t        has;
        do
            has = has_tag(line += TR__SLOTS_LINE, b->tag[i]);
        while (!has && line[TR__SLOTS_LINE - 1]);
        out[i] = slot_in(line, has);
    }
}

TR_INLINE void guess_batch_by(line_has_fn has_tag, const tr_slots *s, uint32_t *out, const int64_t *keys, int n)
{
    batch b;

    prepare(&b, s, keys, n);
    for (int i = 0; i < n && i < AHEAD; i++)
        __builtin_prefetch(line_at(s, b.line[i]));
    for (int i = 0; i < n; i++) {
        __builtin_prefetch(line_at(s, b.line[i + AHEAD]));
        const uint64_t *line = line_at(s, b.line[i]);
        const uint32_t  has = has_tag(line, b.tag[i]);
        out[i] = slot_in(line, has);
        b.late[b.late_count] = i;
        b.late_count += !has & (line[TR__SLOTS_LINE - 1] != 0);
    }
    guess_late(has_tag, s, out, &b);
}

static void guess_batch_plain(const tr_slots *s, uint32_t *out, const int64_t *keys, int n)
{
    guess_batch_by(line_has, s, out, keys, n);
}

#if defined(__x86_64__) && defined(__GNUC__)

/* One comparison for a line. A short loop lets the CPU look further ahead, to more misses at once: that is a sixth faster. */
#define AVX512 __attribute__((target("avx512f")))

AVX512 TR_INLINE uint32_t line_has_avx512(const uint64_t *line, uint32_t tag)
{
    return _mm512_mask_cmpeq_epi32_mask(0xaaaa, _mm512_load_si512(line), _mm512_set1_epi32((int)tag));
}

AVX512 static void guess_batch_avx512(const tr_slots *s, uint32_t *out, const int64_t *keys, int n)
{
    guess_batch_by(line_has_avx512, s, out, keys, n);
}

static void guess_batch(const tr_slots *s, uint32_t *out, const int64_t *keys, int n)
{
    (__builtin_cpu_supports("avx512f") ? guess_batch_avx512 : guess_batch_plain)(s, out, keys, n);
}

#else

static void guess_batch(const tr_slots *s, uint32_t *out, const int64_t *keys, int n)
{
    guess_batch_plain(s, out, keys, n);
}

#endif

uint32_t tr_slots_find_one(const tr_slots *slots, int64_t key)
{
    const uint32_t tag = tr__slots_tag(slots, key);

    return tr__slots_look_up(slots, key, tag, tr__slots_home(slots->head, tag));
}

void tr_slots_guess(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n)
{
    const uint64_t used = slots->head->used;

    for (int64_t i = 0; i < n; i += BATCH)
        guess_batch(slots, out + i, keys + i, n - i < BATCH ? (int)(n - i) : BATCH);
    for (int64_t i = 0; i < n; i++)
        if (TR_UNLIKELY(out[i] >= used && out[i] != TR_SLOT_NONE))      /* in a damaged index */
            out[i] = tr_slots_find_one(slots, keys[i]);
}

/* Inline, because GCC removes calls of a function that only requests memory: they have no result. */
TR_INLINE void ask_for_key(const tr_slots *s, uint32_t slot)
{
    if (slot != TR_SLOT_NONE)
        __builtin_prefetch(tr_slots_row(s->row, s->stride, slot));
}

static void confirm(const tr_slots *s, uint32_t *slots, const int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n && i < AHEAD; i++)
        ask_for_key(s, slots[i]);
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n)
            ask_for_key(s, slots[i + AHEAD]);
        slots[i] = tr_slots_confirm(s, s->row, s->stride, slots[i], keys[i]);
    }
}

void tr_slots_find(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i += BATCH) {
        const int64_t count = n - i < BATCH ? n - i : BATCH;
        tr_slots_guess(slots, out + i, keys + i, count);
        confirm(slots, out + i, keys + i, count);
    }
}
