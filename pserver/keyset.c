/* keyset.c - at most half of the places are taken. */
#include "pserver/keyset.h"

#include "framework/random.h"

#include <stdlib.h>
#include <string.h>

enum { AHEAD = 16 };

void tr_keyset_deinit(tr_keyset *set)
{
    free(set->keys);
    free(set->place);
    *set = (tr_keyset){0};
}

tr_status tr_keyset_reset(tr_keyset *set, int64_t most)
{
    uint64_t places = 64;

    if (most > INT32_MAX / 2)
        return tr_fail(TR_ERANGE, "%lld keys at once; up to %d are possible", (long long)most, INT32_MAX / 2);
    while (places < 2 * (uint64_t)most)
        places *= 2;
    if (places > set->places || (uint32_t)most > set->capacity) {
        int64_t  *keys = realloc(set->keys, places / 2 * sizeof *keys);
        uint32_t *place;
        if (keys)
            set->keys = keys;
        place = keys ? realloc(set->place, places * sizeof *place) : NULL;
        if (!place)
            return tr_fail(TR_ENOMEM, "no memory for a set of %lld keys", (long long)most);
        set->place = place;
        set->places = places;
        set->capacity = (uint32_t)(places / 2);
    }
    set->count = 0;
    memset(set->place, 0, set->places * sizeof *set->place);
    return TR_OK;
}

static uint64_t home(const tr_keyset *set, int64_t key)
{
    return tr_hash_u64((uint64_t)key) & (set->places - 1);
}

void tr_keyset_add(tr_keyset *set, uint32_t *out, const int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint64_t at = home(set, keys[i]);
        if (i + AHEAD < n)
            __builtin_prefetch(&set->place[home(set, keys[i + AHEAD])]);
        while (set->place[at] && set->keys[set->place[at] - 1] != keys[i])
            at = (at + 1) & (set->places - 1);
        if (!set->place[at]) {
            set->keys[set->count] = keys[i];
            set->place[at] = ++set->count;
        }
        out[i] = set->place[at] - 1;
    }
}
