/* tag_index.h - key -> number of a record on disk: the index of slots (slots.h) without rows.
 *
 * Eight bytes an entry, ten to eleven with free places: a tag of 32 bits and the number. The key itself is on disk. So a look-up gives
 * candidates: each has the tag of the key, and the record that is read says whether it is the key's. Of n keys that are not there, about
 * n times entries / 2^32 have a candidate all the same.
 *
 * An index with a name lies in segments and is consistent after a kill at any instruction: an entry is there or not (slots_state.h).
 *
 * What must stay true: one thread at a time. */
#pragma once

#include "storage/slots/slots.h"

typedef struct tr_tag_index tr_tag_index;

/* A key that was looked up, and a record that may be its own. */
typedef struct tr_tag_candidate {
    int64_t  key;
    uint32_t record;
} tr_tag_candidate;

/* Make an empty index in segments `name`.rows and `name`.index. `name` may be NULL. */
tr_status tr_tag_index_create(tr_tag_index **out, const char *name, uint32_t first_shard, uint32_t shard_count);
/* Attach to the segments of this name, and count their entries. TR_EFORMAT: they have other shards, or are damaged. */
tr_status tr_tag_index_attach(tr_tag_index **out, const char *name, uint32_t first_shard, uint32_t shard_count);
void      tr_tag_index_free(tr_tag_index *index);
uint64_t  tr_tag_index_count(const tr_tag_index *index);
uint64_t  tr_tag_index_bytes(const tr_tag_index *index);
/* 1024 bytes for the owner, until the index changes: zeros at first. */
void     *tr_tag_index_notes(const tr_tag_index *index);
/* Remove all entries. A kill amid it leaves some. */
void      tr_tag_index_clear(tr_tag_index *index);
/* Call `each` for all records until it returns false. Returns whether it came to the end. */
bool      tr_tag_index_each(const tr_tag_index *index, bool (*each)(void *payload, uint32_t record), void *payload);

/* Append the candidates of `n` keys. `slots` may be NULL; keys whose slot is not TR_SLOT_NONE are skipped. *list is realloc'ed, *capacity
 * is its size. */
tr_status tr_tag_index_find(tr_tag_candidate **list, uint64_t *capacity, uint64_t *count, const tr_tag_index *index, const int64_t *keys,
                             const uint32_t *slots, int64_t n);
/* Is there an entry for this key with this record? */
bool      tr_tag_index_has(const tr_tag_index *index, int64_t key, uint32_t record);
/* Add an entry. TR_ENOMEM: nothing has changed. */
tr_status tr_tag_index_put(tr_tag_index *index, int64_t key, uint32_t record);
/* Remove an entry that is there. */
void      tr_tag_index_take(tr_tag_index *index, int64_t key, uint32_t record);
/* Let an entry that is there have another record, by one store. */
void      tr_tag_index_move(tr_tag_index *index, int64_t key, uint32_t record, uint32_t to);
/* List the records of one shard. */
tr_status tr_tag_index_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_tag_index *index, uint32_t shard);
