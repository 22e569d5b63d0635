/* map.c - see map.h. Removal leaves a hole in `entries`; the table is rebuilt when holes or load grow. */
#include "framework/base/map.h"

#include <stdlib.h>
#include <string.h>

enum { EMPTY = -1, FIRST_SIZE = 16 };

static uint64_t hash_of(const char *key)          /* FNV-1a, 64 bit */
{
    uint64_t hash = 14695981039346656037ull;
    for (; *key; key++)
        hash = (hash ^ (unsigned char)*key) * 1099511628211ull;
    return hash ^ hash >> 29;
}

void tr_map_deinit(tr_map *map)
{
    free(map->entries);
    free(map->buckets);
    *map = (tr_map){0};
}

/* The entry of the key, or NULL. Removed entries keep their bucket, so that probing goes on past them. */
static tr_map_entry *lookup(const tr_map *map, const char *key, uint64_t hash)
{
    if (!map->bucket_count)
        return NULL;
    for (size_t i = hash & (map->bucket_count - 1);; i = (i + 1) & (map->bucket_count - 1)) {
        const int32_t at = map->buckets[i];
        if (at == EMPTY)
            return NULL;
        tr_map_entry *entry = &map->entries[at];
        if (entry->key && entry->hash == hash && strcmp(entry->key, key) == 0)
            return entry;
    }
}

static void index_entry(tr_map *map, size_t at)
{
    size_t i = map->entries[at].hash & (map->bucket_count - 1);
    while (map->buckets[i] != EMPTY)
        i = (i + 1) & (map->bucket_count - 1);
    map->buckets[i] = (int32_t)at;
}

int tr_map_compact(tr_map *map)
{
    size_t buckets = FIRST_SIZE, live = 0;
    while (buckets < (map->live + 1) * 4)
        buckets *= 2;
    const size_t capacity = buckets / 2;
    int32_t      *table = malloc(buckets * sizeof *table);
    tr_map_entry *entries = malloc(capacity * sizeof *entries);

    if (!table || !entries) {
        free(table);
        free(entries);
        return -1;
    }
    memset(table, 0xff, buckets * sizeof *table);
    for (size_t i = 0; i < map->entry_count; i++)
        if (map->entries[i].key)
            entries[live++] = map->entries[i];
    free(map->entries);
    free(map->buckets);
    *map = (tr_map){entries, live, capacity, live, table, buckets};
    for (size_t i = 0; i < live; i++)
        index_entry(map, i);
    return 0;
}

void *tr_map_find(const tr_map *map, const char *key)
{
    const tr_map_entry *entry = lookup(map, key, hash_of(key));
    return entry ? entry->value : NULL;
}

int tr_map_put(tr_map *map, const char *key, void *value)
{
    const uint64_t hash = hash_of(key);
    tr_map_entry  *entry = lookup(map, key, hash);

    if (entry) {
        entry->key = key;
        entry->value = value;
        return 0;
    }
    if (map->entry_count == map->entry_capacity && tr_map_compact(map) != 0)
        return -1;
    map->entries[map->entry_count] = (tr_map_entry){key, hash, value};
    index_entry(map, map->entry_count++);
    map->live++;
    return 0;
}

void *tr_map_remove(tr_map *map, const char *key)
{
    tr_map_entry *entry = lookup(map, key, hash_of(key));
    if (!entry)
        return NULL;
    entry->key = NULL;
    map->live--;
    return entry->value;
}
