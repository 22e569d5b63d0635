/* slots.h - int64 key -> slot of a growing array of rows, in segments: the base of a table.
 *
 * Rows lie one behind the other and never move. Each has a header of 16 bytes and `payload` bytes that the owner fills. The array grows by
 * segments, so nothing is copied. Removed rows are used again.
 *
 * The index is one open-addressing array with entries of 8 bytes (32 bits of the hash, the row's number), ordered by the hash. An entry's
 * home is cache line hash * lines / 2^32; the entry lies in the first free place from there on. A look-up compares a whole line at once,
 * and nine of ten look-ups need only that line. The index grows in place, by an eighth at a time and a few places with each insertion: from
 * the highest hash down, runs of entries move to their places in the larger array, which are never lower. The load stays between 0.71 and
 * 0.8. The order also keeps each virtual shard, a range of hashes, in one piece.
 *
 * Consistent after a kill at any instruction: the rows are the truth. An entry is one store, made when its row is complete. The row that is
 * being made or removed is noted, and attaching completes or undoes it. While entries move the index is marked, and attaching then rebuilds
 * it from the rows.
 *
 * Damaged memory: an impossible header is refused. Entries and free rows are checked only when they are used, because checking all of them
 * would take as long as reading the table. Whatever they contain, no access leaves the segments.
 *
 * What must stay true: one thread changes it, and no thread reads meanwhile. Any number of threads may read at the same time. */
#ifndef TR_PSERVER_SLOTS_H
#define TR_PSERVER_SLOTS_H

#include "pserver/memory/segment.h"

/* Virtual shards, by which keys are routed. A key's shard is the top bits of its hash, for any number of servers. */
enum { TR_SHARDS = 1024 };
/* No row. */
#define TR_SLOT_NONE UINT32_MAX

typedef struct tr_slot_row {
    int64_t  key;
    uint32_t mark;                    /* bit 31: the row lives; below: for the owner */
    uint32_t last;                    /* for the owner */
} tr_slot_row;                        /* the payload follows */

#define TR_SLOT_LIVES 0x80000000u

typedef struct tr_slots tr_slots;

typedef struct tr_slots_config {
    uint64_t payload;                 /* bytes of a row behind its header: a multiple of 8 */
    uint32_t first_shard, shard_count;    /* keys of other shards never come here */
    uint64_t max_bytes;               /* of rows; 0: as many addresses as 2^32 rows take, 1 TiB at most */
} tr_slots_config;

/* `name` may be NULL. Segments `name`.rows and `name`.index. */
tr_status tr_slots_create(tr_slots **out, const char *name, const tr_slots_config *config);
/* TR_EFORMAT: it was made for other rows or shards, or is damaged. */
tr_status tr_slots_attach(tr_slots **out, const char *name, const tr_slots_config *config);
void      tr_slots_free(tr_slots *slots);
/* The segments of this name, as far as they exist. */
void      tr_slots_remove(const char *name);

uint32_t tr_slots_shard(int64_t key);

/* The rows of `n` keys: out[i] is a slot, or TR_SLOT_NONE. Touches memory in batches, not key by key. */
void      tr_slots_find(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n);
/* The same of one key, the memory not asked for ahead. */
uint32_t  tr_slots_find_one(const tr_slots *slots, int64_t key);
/* Slots by the index alone, for a caller that reads the rows anyway. TR_SLOT_NONE is certain. The row of a slot may be another key's:
 * tr_slots_confirm tells. */
void      tr_slots_guess(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n);
/* A row for a key that has none, to be filled; it is found after tr_slots_publish, and lost if that does not come. One at
 * a time. TR_ENOMEM: nothing has changed. */
tr_status tr_slots_new_row(uint32_t *out, tr_slots *slots);
void      tr_slots_publish(tr_slots *slots, uint32_t slot, int64_t key);
void      tr_slots_delete(tr_slots *slots, uint32_t slot);

/* `stride` bytes apart from slot 0 on. */
static inline tr_slot_row *tr_slots_row(char *rows, uint64_t stride, uint32_t slot)
{
    return (tr_slot_row *)(rows + (uint64_t)slot * stride);
}
/* The guessed slot if its row is this key's; else the key's slot. */
static inline uint32_t tr_slots_confirm(const tr_slots *slots, char *rows, uint64_t stride, uint32_t guess, int64_t key)
{
    return guess == TR_SLOT_NONE || tr_slots_row(rows, stride, guess)->key == key ? guess : tr_slots_find_one(slots, key);
}
char    *tr_slots_rows(const tr_slots *slots);
uint64_t tr_slots_stride(const tr_slots *slots);
/* Rows that live. */
uint64_t tr_slots_count(const tr_slots *slots);
/* Slots ever used; their rows may be dead. */
uint32_t tr_slots_used(const tr_slots *slots);
/* Taken from the machine: rows and index; the index alone. */
uint64_t tr_slots_bytes(const tr_slots *slots);
uint64_t tr_slots_index_bytes(const tr_slots *slots);
/* 1024 bytes of the owner's in the rows' segment: zeros at first. */
void    *tr_slots_notes(const tr_slots *slots);
/* All slots of one shard: `*list` is realloc'ed to hold them, `*capacity` is its size; returns how many. */
tr_status tr_slots_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *slots, uint32_t shard);
/* For tests: TR_EINTERNAL names what is wrong. Every living row must be found, every entry must lead to one, and no row may be lost. */
tr_status tr_slots_check(const tr_slots *slots);

#endif
