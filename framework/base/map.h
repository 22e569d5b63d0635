/* map.h - string -> pointer, open addressing with linear probing; remembers the order of insertion.
 *
 * Keys are borrowed: they must live as long as they are in the map (they are mostly the name inside the
 * value). The memory is the map's; the values are the caller's. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct tr_map_entry {
    const char *key;                  /* NULL: removed */
    uint64_t    hash;
    void       *value;
} tr_map_entry;

typedef struct tr_map {
    tr_map_entry *entries;            /* in order of insertion */
    size_t        entry_count;        /* with removed ones */
    size_t        entry_capacity;
    size_t        live;
    int32_t      *buckets;            /* index into entries; EMPTY = -1 */
    size_t        bucket_count;       /* a power of two, or 0 */
} tr_map;

void   tr_map_deinit(tr_map *map);                 /* a zeroed tr_map is an empty one */
void  *tr_map_find(const tr_map *map, const char *key);          /* or NULL */
/* Insert or replace; 0, or -1 when out of memory. */
int    tr_map_put(tr_map *map, const char *key, void *value);
void  *tr_map_remove(tr_map *map, const char *key);              /* what was there, or NULL */
int    tr_map_compact(tr_map *map);                              /* close the holes of removed entries; -1: no memory */

/* for (size_t i = 0; i < map->entry_count; i++) if (map->entries[i].key) ... visits in order of insertion. */
