/* keyset.h - the distinct keys of a list, numbered in the order of their first appearance.
 *
 * Duplicates are merged by these numbers: a trainer's before they travel, those of several trainers before they are applied. The table uses
 * open addressing with linear probing; its memory is kept from use to use. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_keyset {
    int64_t  *keys;                   /* the distinct keys */
    uint32_t  count;
    uint32_t *place;                  /* hash table: the number of a key + 1; 0: empty */
    uint64_t  places;                 /* places of the hash table: a power of two, or 0 */
    uint32_t  capacity;               /* room for so many keys */
} tr_keyset;                          /* a zeroed struct is an empty set */

void      tr_keyset_deinit(tr_keyset *set);
/* Empty the set, and make room for `most` keys. */
tr_status tr_keyset_reset(tr_keyset *set, int64_t most);
/* Copy the keys of another set, with their numbers. */
tr_status tr_keyset_copy(tr_keyset *set, const tr_keyset *from);
/* Make room for `more` keys beside the present ones. */
tr_status tr_keyset_grow(tr_keyset *set, int64_t more);
/* Empty the set; its memory stays. */
void      tr_keyset_clear(tr_keyset *set);
bool      tr_keyset_has(const tr_keyset *set, int64_t key);
/* Add `n` keys; out[i] is the number of keys[i]. The set must have room for all of them. */
void      tr_keyset_add(tr_keyset *set, uint32_t *out, const int64_t *keys, int64_t n);
