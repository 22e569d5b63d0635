/* slots_state.h - the inside of slots, shared by slots.c (life, rows), slots_index.c (changes of the index), slots_find.c (looking up) and
 * slots_shards.c (going through a shard). tag_index.c has an index without rows.
 *
 * An index without rows cannot be made again from them. In named segments it has a journal instead. What must stay true of it:
 *   - Entries move only between tr__slots_begin_move and the store that clears `is_moving`. All other changes are one store.
 *   - The journal has the entries of a range of places as they were, and is complete before the mark is set.
 *   - Marked TR__SLOTS_LIFTS: only places of that range have changed. Attaching puts them back, as if nothing had begun.
 *   - Marked TR__SLOTS_LAYS: the range is empty, except for entries that were laid since. Each entry of the journal is laid from its home
 *     on into the first empty place, and none is moved. So attaching lays those that are not there yet, as often as it is killed itself.
 *   - No two entries are equal. */
#pragma once

#include "storage/slots/slots.h"

#include "framework/base/compiler.h"
#include "framework/tensors/random.h"

#include <stdatomic.h>

enum { TR__SLOTS_HEAD = 4096, TR__SLOTS_NOTES = 1024 };
enum { TR__SLOTS_FIRST_CAPACITY = 1024 };
enum { TR__SLOTS_SLACK = 4096 };      /* places after the last: there is no wrapping around */
enum { TR__SLOTS_LIFTS = 1, TR__SLOTS_LAYS = 2 };      /* what is_moving says */
enum { TR__SHARD_BITS = 10, TR__REGION_BITS = 6 };
enum { TR__SLOTS_LINE = TR_CACHE_LINE / sizeof(uint64_t) };   /* places of a cache line */
_Static_assert((TR__SLOTS_FIRST_CAPACITY + TR__SLOTS_SLACK) * sizeof(uint64_t) == TR_SLOTS_FIRST_INDEX, "slots.h says how large an empty index is");
#define TR__SLOTS_FACTOR 0x9E3779B97F4A7C15u

/* At the start of the rows' segment. */
typedef struct tr__slots_head {
    uint64_t payload;
    uint32_t first_shard, shard_count;
    uint64_t is_complete;
    /* rows */
    uint64_t used;                    /* slots 0 .. used - 1 have been used */
    uint64_t free;                    /* first free slot + 1 (low half), number of free slots (high half) */
    uint64_t pending;                 /* slot + 1 of a row that is being made or removed; 0: none */
    /* index */
    uint64_t capacity, next;          /* places, in whole lines; while the index grows `next` is larger */
    uint64_t boundary;                /* hashes from here on lie in places by `next` */
    uint64_t is_moving;               /* entries are being moved: after a kill the index must be rebuilt, or the journal be used */
    uint32_t region[1 << TR__REGION_BITS];       /* entries of each region. A kill may leave one too few or too many, which is harmless */
    char     notes[TR__SLOTS_NOTES];
    uint64_t moving_from, moving_count, moving_boundary;      /* the journal's places, and the boundary when they are laid */
    uint64_t is_trimming;             /* the list of free rows is being made anew */
} tr__slots_head;
_Static_assert(sizeof(tr__slots_head) <= TR__SLOTS_HEAD, "a head has one page");

struct tr_slots {
    tr_segment     *rows, *index;
    tr__slots_head *head;
    char           *row;              /* the row of slot 0 */
    uint64_t       *entry;
    uint64_t        stride;
    uint64_t        first_hash, factor; /* place of a hash in this range of shards = (hash - first_hash) * factor / 2^64, 32 bits */
    uint32_t        shard_mask;       /* the bits of a tag that tell the shards of a region apart */
    uint64_t       *lifted;           /* entries that move, as they were; a journal lies where rows would lie */
    uint64_t        lifted_capacity;
    bool            has_journal;      /* an index without rows, in segments with a name */
    bool            is_crowded;       /* the region of the last entry is: the index must grow */
    uint64_t        work;             /* places that insertions, removals and growth have passed; tests read it */
};

/* A fence: a process that attaches after a kill sees the stores above it before the stores below it. */
static inline void tr__slots_in_order(void)
{
    atomic_signal_fence(memory_order_seq_cst);
}

/* Segments may move when they grow. */
static inline void tr__slots_find_segments(tr_slots *s)
{
    s->head = tr_segment_base(s->rows);
    s->row = (char *)s->head + TR__SLOTS_HEAD;
    s->entry = tr_segment_base(s->index);
}

/* Rows that were removed. */
static inline uint64_t tr__slots_free_count(const tr__slots_head *h)
{
    return h->free >> 32;
}

static inline uint64_t tr__slots_places(const tr__slots_head *h)
{
    return (h->next > h->capacity ? h->next : h->capacity) + TR__SLOTS_SLACK;
}

static inline uint64_t tr__slots_high_product(uint64_t a, uint64_t b)
{
    return (uint64_t)((unsigned __int128)a * b >> 64);
}

/* The place of a hash in this range of shards: 32 bits, in the order of the hashes. */
static inline uint32_t tr__slots_spread(const tr_slots *s, uint64_t hash)
{
    return (uint32_t)tr__slots_high_product(hash - s->first_hash, s->factor);
}

/* The region of a tag: 1/64 of the range of shards. */
static inline uint32_t tr__slots_region(uint32_t tag)
{
    return tag >> (32 - TR__REGION_BITS);
}

/* The tag of a hash, 32 bits. The first bits are its region. The last bits are those of its shard that tell the shards of a region
 * apart. Between them stand bits from all of the hash, so the keys of one shard, or of any range of hashes, lie all over their region. */
static inline uint32_t tr__slots_tag_of_hash(const tr_slots *s, uint64_t hash)
{
    const uint32_t inner = UINT32_MAX >> TR__REGION_BITS, mixed = (uint32_t)(hash * TR__SLOTS_FACTOR >> 32);

    return (tr__slots_spread(s, hash) & ~inner) | (mixed & inner & ~s->shard_mask) | ((uint32_t)(hash >> (64 - TR__SHARD_BITS)) & s->shard_mask);
}

static inline uint32_t tr__slots_tag(const tr_slots *s, int64_t key)
{
    return tr__slots_tag_of_hash(s, tr_hash_u64((uint64_t)key));
}

/* The first place of a line. The entries of a line stand at its beginning, without holes. */
static inline uint64_t tr__slots_home_by(uint64_t capacity, uint64_t tag)
{
    return (capacity / TR__SLOTS_LINE * tag >> 32) * TR__SLOTS_LINE;
}

static inline uint64_t tr__slots_home(const tr__slots_head *h, uint32_t tag)
{
    const uint64_t by[2] = {h->capacity, h->next};

    return tr__slots_home_by(by[tag >= h->boundary], tag);      /* the CPU would predict a branch in only half of all cases */
}

static inline uint64_t tr__slots_entry(uint32_t tag, uint32_t slot)
{
    return (uint64_t)tag << 32 | (slot + 1);
}

static inline uint32_t tr__slots_entry_tag(uint64_t entry)
{
    return (uint32_t)(entry >> 32);
}

static inline uint32_t tr__slots_entry_slot(uint64_t entry)
{
    return (uint32_t)entry - 1;
}

/* -- slots_index.c -- */

/* Make room in the index for one more entry. TR_ENOMEM: nothing has changed. */
tr_status tr__slots_reserve_index(tr_slots *s);
void      tr__slots_put(tr_slots *s, uint32_t tag, uint32_t slot);
void      tr__slots_take(tr_slots *s, uint32_t tag, uint32_t slot);
/* Make the index from the rows. */
tr_status tr__slots_make_index(tr_slots *s);
/* After a kill: complete or undo what the journal has. TR_EFORMAT: it is damaged. */
tr_status tr__slots_replay(tr_slots *s);
/* Room for a journal of so many places. TR_ENOMEM: it has what it had. */
tr_status tr__slots_reserve_journal(tr_slots *s, uint64_t places);
/* Check the index: its last place must be empty, and its load within the bounds (one row may be under way). */
bool      tr__slots_is_index(const tr_slots *s);

/* slots.c: attach to an index without rows, and use its journal. The owner counts the entries. */
tr_status tr__slots_attach_index(tr_slots **out, const char *name, const tr_slots_config *config);
/* slots_find.c: find the slot of a key with this tag, from this place on; TR_SLOT_NONE: there is none. */
uint32_t tr__slots_look_up(const tr_slots *s, int64_t key, uint32_t tag, uint64_t at);
/* slots_shards.c: list the slots of a shard, as far as they are below `used`. */
tr_status tr__slots_entries_of_shard(uint32_t **list, uint64_t *capacity, uint64_t *count, const tr_slots *s, uint32_t shard,
                                     uint64_t used);
