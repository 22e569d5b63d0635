/* keyset.c - see keyset.h. At most half of the places of the hash table are taken. */
#include "storage/util/keyset.h"

#include "framework/base/compiler.h"
#include "framework/tensors/random.h"

#include <stdlib.h>
#include <string.h>

enum { BATCH = 64 };                   /* how many keys ahead memory is prefetched */

void tr_keyset_deinit(tr_keyset *set)
{
    free(set->keys);
    free(set->place);
    *set = (tr_keyset){0};
}

static tr_status reserve(tr_keyset *set, uint64_t places)
{
    if (places <= set->places)
        return TR_OK;
    int64_t  *keys = realloc(set->keys, (places / 2 + 1) * sizeof *keys);     /* one place more, because a key is written before it is known to be new */
    uint32_t *place;
    if (keys)
        set->keys = keys;
    place = keys ? realloc(set->place, places * sizeof *place) : NULL;
    if (!place)
        return tr_fail(TR_ENOMEM, "no memory for a set of %llu keys", (unsigned long long)places / 2);
    set->place = place;
    set->places = places;
    set->capacity = (uint32_t)(places / 2);
    return TR_OK;
}

tr_status tr_keyset_reset(tr_keyset *set, int64_t most)
{
    uint64_t places = 64;

    if (most > INT32_MAX / 2)
        return tr_fail(TR_ERANGE, "%lld keys at once; up to %d are possible", (long long)most, INT32_MAX / 2);
    while (places < 2 * (uint64_t)most)
        places *= 2;
    TR_TRY(reserve(set, places));
    tr_keyset_clear(set);
    return TR_OK;
}

tr_status tr_keyset_copy(tr_keyset *set, const tr_keyset *from)
{
    TR_TRY(reserve(set, from->places));
    set->places = from->places;
    set->capacity = from->capacity;
    set->count = from->count;
    memcpy(set->keys, from->keys, from->count * sizeof *set->keys);
    memcpy(set->place, from->place, from->places * sizeof *set->place);
    return TR_OK;
}

void tr_keyset_clear(tr_keyset *set)
{
    set->count = 0;
    memset(set->place, 0, set->places * sizeof *set->place);
}

static uint64_t home(const tr_keyset *set, int64_t key)
{
    return tr_hash_u64((uint64_t)key) & (set->places - 1);
}

/* Return number + 1 of a key that is not at its home place; search from the next place on. */
static uint32_t add_further(tr_keyset *set, uint64_t at, int64_t key)
{
    do
        at = (at + 1) & (set->places - 1);
    while (set->place[at] && set->keys[set->place[at] - 1] != key);
    if (!set->place[at]) {
        set->keys[set->count] = key;
        set->place[at] = ++set->count;
    }
    return set->place[at];
}

/* The CPU cannot predict whether a key is new. So each key is written to the end of the list in any case, and the count grows only if it
 * is new. */
TR_INLINE uint32_t add_at(tr_keyset *set, uint64_t at, int64_t key)
{
    const uint32_t found = set->place[at], is_new = !found, number = found + (set->count + 1) * is_new;

    set->keys[set->count] = key;
    set->place[at] = number;
    set->count += is_new;
    return TR_LIKELY(set->keys[number - 1] == key) ? number : add_further(set, at, key);
}

void tr_keyset_add(tr_keyset *set, uint32_t *out, const int64_t *keys, int64_t n)
{
    uint64_t at[BATCH];

    for (int64_t from = 0; from < n; from += BATCH) {
        const int count = n - from < BATCH ? (int)(n - from) : BATCH;
        for (int i = 0; i < count; i++) {
            at[i] = home(set, keys[from + i]);
            __builtin_prefetch(&set->place[at[i]], 1);
        }
        for (int i = 0; i < count; i++)
            out[from + i] = add_at(set, at[i], keys[from + i]) - 1;
    }
}

/* Double the places, so that growing by one key is cheap on average. */
tr_status tr_keyset_grow(tr_keyset *set, int64_t more)
{
    const uint32_t count = set->count;

    if (count + more <= set->capacity)
        return TR_OK;
    TR_TRY(tr_keyset_reset(set, count + more > 2 * (int64_t)count ? count + more : 2 * (int64_t)count));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t at = home(set, set->keys[i]);
        while (set->place[at])
            at = (at + 1) & (set->places - 1);
        set->place[at] = i + 1;
    }
    set->count = count;
    return TR_OK;
}

bool tr_keyset_has(const tr_keyset *set, int64_t key)
{
    uint64_t at = home(set, key);

    while (set->place[at] && set->keys[set->place[at] - 1] != key)
        at = (at + 1) & (set->places - 1);
    return set->place[at] != 0;
}
