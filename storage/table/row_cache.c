/* row_cache.c - see row_cache.h. The cache is an array of sets of WAYS places; a key's hash chooses the set. */
#include "storage/table/row_cache.h"

#include "framework/tensors/random.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8 };

typedef struct place {
    int64_t  key;
    uint64_t until;                   /* the last step that may use the row */
    uint64_t used;                    /* the last step that did use it, + 1; 0: the place is empty */
} place;

struct tr_row_cache {
    uint64_t sets;
    size_t   row_bytes;
    place   *place;
    uint8_t *rows;                    /* rows in the order of the places */
};

tr_status tr_row_cache_new(tr_row_cache **out, int64_t rows, int64_t row_bytes)
{
    tr_row_cache *cache = calloc(1, sizeof *cache);

    if (cache && rows > 0 && rows <= INT64_MAX / 2 / (row_bytes + (int64_t)sizeof(place))) {
        cache->sets = ((uint64_t)rows + WAYS - 1) / WAYS;
        cache->row_bytes = (size_t)row_bytes;
        cache->place = calloc(cache->sets * WAYS, sizeof *cache->place);
        cache->rows = malloc(cache->sets * WAYS * cache->row_bytes);
    }
    if (!cache || !cache->place || !cache->rows) {
        tr_row_cache_free(cache);
        return tr_fail(TR_ENOMEM, "no memory to keep %lld rows of %lld bytes", (long long)rows, (long long)row_bytes);
    }
    *out = cache;
    return TR_OK;
}

void tr_row_cache_free(tr_row_cache *cache)
{
    if (!cache)
        return;
    free(cache->place);
    free(cache->rows);
    free(cache);
}

static place *set_of(const tr_row_cache *cache, int64_t key)
{
    const uint64_t set = (uint64_t)((unsigned __int128)tr_hash_u64((uint64_t)key) * cache->sets >> 64);
    return cache->place + set * WAYS;
}

static uint8_t *row_of(const tr_row_cache *cache, const place *p)
{
    return cache->rows + (size_t)(p - cache->place) * cache->row_bytes;
}

static place *find(place *set, int64_t key)
{
    for (int i = 0; i < WAYS; i++)
        if (set[i].used && set[i].key == key)
            return &set[i];
    return NULL;
}

bool tr_row_cache_get(tr_row_cache *cache, void *out, int64_t key, uint64_t step)
{
    place *p = find(set_of(cache, key), key);

    if (!p || p->until < step)
        return false;
    p->used = step + 1;
    memcpy(out, row_of(cache, p), cache->row_bytes);
    return true;
}

void tr_row_cache_put(tr_row_cache *cache, int64_t key, const void *row, uint64_t step, uint64_t until)
{
    place *set = set_of(cache, key), *p = find(set, key);

    if (!p) {
        p = set;
        for (int i = 1; i < WAYS; i++)
            if (set[i].used < p->used)
                p = &set[i];
        if (p->used > step)
            return;
    }
    *p = (place){key, until, step + 1};
    memcpy(row_of(cache, p), row, cache->row_bytes);
}

void tr_row_cache_clear(tr_row_cache *cache)
{
    if (cache)
        memset(cache->place, 0, cache->sets * WAYS * sizeof *cache->place);
}
