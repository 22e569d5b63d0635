/* tag_index.h - key -> number of a record on disk: the index of slots (slots.h) without rows.
 *
 * Eight bytes an entry, ten to eleven with free places: a tag of 32 bits and the number. The key itself is on disk. So a look-up gives
 * candidates: each has the tag of the key, and the record that is read says whether it is the key's. Of n keys that are not there, about
 * n times entries / 2^32 have a candidate all the same.
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

tr_status tr_tag_index_create(tr_tag_index **out, uint32_t first_shard, uint32_t shard_count);
void      tr_tag_index_free(tr_tag_index *index);
uint64_t  tr_tag_index_count(const tr_tag_index *index);
uint64_t  tr_tag_index_bytes(const tr_tag_index *index);

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
