/* slots.h - int64 key -> slot of a growing array of rows, in segments: the base of a table.
 *
 * Rows lie one after the other and never move. Each has a header of 16 bytes and `payload` bytes that the owner fills. The array grows
 * with its segment, so nothing is copied. Removed rows are used again.
 *
 * The index is one open-addressing array with entries of 8 bytes (a tag of 32 bits, the row's number), ordered by the tag. An entry's
 * home is cache line tag * lines / 2^32; the entry lies in the first free place from there on. A look-up compares a whole line at once,
 * and nine of ten look-ups need only that line. The index grows in place, by an eighth at a time and a few places with each insertion.
 * From the highest tag down, runs of entries move to their places in the larger array, which are never lower. The load stays between 0.71
 * and 0.8.
 *
 * A tag comes from the key's hash. Its first six bits are the order of hashes: so a virtual shard, a range of hashes, lies in one of 64
 * regions of the index. The bits after them are mixed: so a region fills evenly, in whatever order its keys come. Rows that come shard by
 * shard, as from a checkpoint, fill one region after the other. When a region is crowded the index grows at once, because the others will
 * be as full. At the end the index is as large as if the rows had come in any other order. Keys that are chosen to lie in one region cost
 * an index that is 64 times as large.
 *
 * The slots are consistent after a kill at any instruction, because the rows decide. An entry is written by one store, when its row is
 * complete. The row that is being made or removed is noted, and attaching completes or undoes it. While entries move the index is
 * marked, and attaching then rebuilds it from the rows.
 *
 * Damaged memory: an impossible header is refused. Entries and free rows are checked only when they are used, because checking all of
 * them would take as long as reading the table. Whatever they contain, no access leaves the segments.
 *
 * What must stay true: one thread changes the slots, and no thread reads meanwhile. Any number of threads may read at the same time. */
#pragma once

#include "storage/memory/segment.h"

/* Virtual shards, by which keys are routed. A key's shard is the top bits of its hash, for any number of servers. */
enum { TR_SHARDS = 1024 };
/* Bytes of an index that is empty. */
enum { TR_SLOTS_FIRST_INDEX = 40960 };
/* A value for "no row". */
#define TR_SLOT_NONE UINT32_MAX

typedef struct tr_slot_row {
    int64_t  key;
    uint32_t mark;                    /* bit 31: the row is in use; the other bits belong to the owner */
    uint32_t last;                    /* belongs to the owner */
} tr_slot_row;                        /* the payload follows the header */

#define TR_SLOT_LIVES 0x80000000u

typedef struct tr_slots tr_slots;

typedef struct tr_slots_config {
    uint64_t payload;                 /* payload bytes of a row, after the header: a multiple of 8 */
    uint32_t first_shard, shard_count;    /* the range of shards; keys of other shards never come here */
    uint64_t max_bytes;               /* limit of the rows' bytes; 0: the addresses of 2^32 rows, 1 TiB at most */
} tr_slots_config;

/* Make empty slots in segments `name`.rows and `name`.index. `name` may be NULL. */
tr_status tr_slots_create(tr_slots **out, const char *name, const tr_slots_config *config);
/* Attach to the segments of this name. TR_EFORMAT: they have other rows or shards, or are damaged. */
tr_status tr_slots_attach(tr_slots **out, const char *name, const tr_slots_config *config);
void      tr_slots_free(tr_slots *slots);
/* Remove the segments of this name, as far as they exist. */
void      tr_slots_remove(const char *name);

uint32_t tr_slots_shard(int64_t key);

/* Find the rows of `n` keys: out[i] is a slot, or TR_SLOT_NONE. Memory is requested in batches, not key by key. */
void      tr_slots_find(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n);
/* The same for one key, without a request ahead. */
uint32_t  tr_slots_find_one(const tr_slots *slots, int64_t key);
/* Find slots by the index alone, for a caller that reads the rows anyway. TR_SLOT_NONE is certain. Any other slot may hold another key's
 * row: call tr_slots_confirm. */
void      tr_slots_guess(const tr_slots *slots, uint32_t *out, const int64_t *keys, int64_t n);
/* Make a row for a key that has none, to be filled by the caller. After tr_slots_publish it is found; without that call it is lost. One
 * row at a time. TR_ENOMEM: nothing has changed. */
tr_status tr_slots_new_row(uint32_t *out, tr_slots *slots);
void      tr_slots_publish(tr_slots *slots, uint32_t slot, int64_t key);
void      tr_slots_delete(tr_slots *slots, uint32_t slot);
/* No row from slot `first` on is in use: forget these slots, and give their memory back. */
void      tr_slots_trim(tr_slots *slots, uint32_t first);

/* Rows are this many bytes apart, from slot 0 on. */
static inline tr_slot_row *tr_slots_row(char *rows, uint64_t stride, uint32_t slot)
{
    return (tr_slot_row *)(rows + (uint64_t)slot * stride);
}
/* Return the guessed slot if its row belongs to this key; otherwise the key's slot. */
static inline uint32_t tr_slots_confirm(const tr_slots *slots, char *rows, uint64_t stride, uint32_t guess, int64_t key)
{
    return guess == TR_SLOT_NONE || tr_slots_row(rows, stride, guess)->key == key ? guess : tr_slots_find_one(slots, key);
}
char    *tr_slots_rows(const tr_slots *slots);
uint64_t tr_slots_stride(const tr_slots *slots);
/* The number of rows in use. */
uint64_t tr_slots_count(const tr_slots *slots);
/* The number of slots that were ever used; some of their rows may be free now. */
uint32_t tr_slots_used(const tr_slots *slots);
/* Bytes of memory: rows and index; the index alone. */
uint64_t tr_slots_bytes(const tr_slots *slots);
uint64_t tr_slots_index_bytes(const tr_slots *slots);
/* 1024 bytes for the owner in the rows' segment; zeros at first. */
void    *tr_slots_notes(const tr_slots *slots);
/* List all slots of one shard. *list is realloc'ed to hold them, *capacity is its size. Returns their number. */
tr_status tr_slots_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *slots, uint32_t shard);
