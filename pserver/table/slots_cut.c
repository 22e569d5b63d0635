/* slots_cut.c - a bit for each row that was there, set when it was read or kept; old rows, shard by shard; one lock.
 *
 * The reader holds the lock for some rows at a time, and lets an owner that waits go first. A row whose bit is not set is
 * changed by nobody while it is read, for the owner keeps it and sets the bit under the lock before. */
#include "pserver/table/slots_cut.h"

#include "framework/compiler.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { AT_A_TIME = 64 };

/* Old rows of one shard. */
typedef struct kept {
    char    *rows;
    uint64_t count, capacity;
    bool     is_read;                 /* nothing of it is wanted any more */
} kept;

struct tr_slots_cut {
    const tr_slots *slots;
    const char     *row;              /* slot 0 */
    uint64_t        stride;
    uint64_t        used;             /* slots at the moment: those behind them are new */
    uint64_t       *settled;          /* a bit for each: its old content was read or kept, or it is new */
    kept            shard[TR_SHARDS];
    bool            is_lost;          /* there was no memory for an old row */
    pthread_mutex_t lock;
    atomic_bool     owner_waits;
    uint32_t       *list;             /* the reader's: slots of a shard */
    uint64_t        list_capacity;
};

tr_status tr_slots_cut_new(tr_slots_cut **out, const tr_slots *slots)
{
    tr_slots_cut *cut = calloc(1, sizeof *cut);

    if (cut)
        cut->settled = calloc(tr_slots_used(slots) / 64 + 1, sizeof *cut->settled);
    if (!cut || !cut->settled) {
        free(cut);
        return tr_fail(TR_ENOMEM, "no memory to remember which of %u rows change", tr_slots_used(slots));
    }
    cut->slots = slots;
    cut->row = tr_slots_rows(slots);
    cut->stride = tr_slots_stride(slots);
    cut->used = tr_slots_used(slots);
    pthread_mutex_init(&cut->lock, NULL);
    *out = cut;
    return TR_OK;
}

void tr_slots_cut_free(tr_slots_cut *cut)
{
    if (!cut)
        return;
    for (int i = 0; i < TR_SHARDS; i++)
        free(cut->shard[i].rows);
    pthread_mutex_destroy(&cut->lock);
    free(cut->settled);
    free(cut->list);
    free(cut);
}

/* == the owner =================================================================================== */

void tr_slots_cut_lock(tr_slots_cut *cut)
{
    if (!cut)
        return;
    atomic_store_explicit(&cut->owner_waits, true, memory_order_relaxed);
    pthread_mutex_lock(&cut->lock);
    atomic_store_explicit(&cut->owner_waits, false, memory_order_relaxed);
}

void tr_slots_cut_unlock(tr_slots_cut *cut)
{
    if (cut)
        pthread_mutex_unlock(&cut->lock);
}

static bool is_settled(const tr_slots_cut *cut, uint32_t slot)
{
    return slot >= cut->used || cut->settled[slot / 64] >> slot % 64 & 1;
}

static void settle(tr_slots_cut *cut, uint32_t slot)
{
    cut->settled[slot / 64] |= (uint64_t)1 << slot % 64;
}

void tr_slots_cut_made(tr_slots_cut *cut, uint32_t slot)
{
    if (cut && slot < cut->used)
        settle(cut, slot);
}

static const char *row_at(const tr_slots_cut *cut, uint32_t slot)
{
    return cut->row + slot * cut->stride;
}

static bool append(kept *to, const char *row, uint64_t stride)
{
    if (to->count == to->capacity) {
        const uint64_t more = to->capacity ? 2 * to->capacity : 16;
        char          *grown = realloc(to->rows, more * stride);
        if (!grown)
            return false;
        to->rows = grown;
        to->capacity = more;
    }
    memcpy(to->rows + to->count++ * stride, row, stride);
    return true;
}

void tr_slots_cut_remove(tr_slots_cut *cut, uint32_t slot)
{
    if (!cut || is_settled(cut, slot))
        return;
    const char *row = row_at(cut, slot);
    kept       *to = &cut->shard[tr_slots_shard(((const tr_slot_row *)(const void *)row)->key)];
    if (!to->is_read && !append(to, row, cut->stride))
        cut->is_lost = true;
    settle(cut, slot);
}

void tr_slots_cut_keep(tr_slots_cut *cut, const uint32_t *slots, int64_t n)
{
    tr_slots_cut_lock(cut);
    for (int64_t i = 0; i < n; i++)
        if (slots[i] != TR_SLOT_NONE)
            tr_slots_cut_remove(cut, slots[i]);
    tr_slots_cut_unlock(cut);
}

/* == the reader ================================================================================== */

static void lock_behind_owner(tr_slots_cut *cut)
{
    while (atomic_load_explicit(&cut->owner_waits, memory_order_relaxed))
        sched_yield();
    pthread_mutex_lock(&cut->lock);
}

static void ask_for(const tr_slots_cut *cut, uint64_t i, uint64_t count)
{
    enum { AHEAD = 16 };

    if (i + AHEAD >= count)
        return;
    const char *row = row_at(cut, cut->list[i + AHEAD]);
    for (uint64_t at = 0; at < cut->stride; at += TR_CACHE_LINE)
        __builtin_prefetch(row + at);
}

/* Rows of the list that nobody has changed yet, some at a time. */
static char *copy_unchanged(tr_slots_cut *cut, char *to, uint64_t count)
{
    for (uint64_t from = 0; from < count; from += AT_A_TIME) {
        lock_behind_owner(cut);
        for (uint64_t i = from; i < count && i < from + AT_A_TIME; i++) {
            ask_for(cut, i, count);
            if (is_settled(cut, cut->list[i]))
                continue;
            memcpy(to, row_at(cut, cut->list[i]), cut->stride);
            to += cut->stride;
            settle(cut, cut->list[i]);
        }
        pthread_mutex_unlock(&cut->lock);
    }
    return to;
}

tr_status tr_slots_cut_read(tr_slots_cut *cut, uint32_t shard, void **out, uint64_t *bytes)
{
    kept     *old = &cut->shard[shard];
    uint64_t  count = 0;

    lock_behind_owner(cut);
    const tr_status status = tr_slots_of_shard(&cut->list, &cut->list_capacity, &count, cut->slots, shard);
    const uint64_t  before = old->count;
    pthread_mutex_unlock(&cut->lock);
    TR_TRY(status);
    /* Each listed row comes from its place or, changed by then, from the old ones: those of before come on top. */
    char *rows = malloc((count + before) * cut->stride + 1);
    if (!rows)
        return tr_fail(TR_ENOMEM, "table: no memory for the %llu rows of shard %u", (unsigned long long)(count + before), shard);
    char *end = copy_unchanged(cut, rows, count);
    lock_behind_owner(cut);
    if (old->count)
        memcpy(end, old->rows, old->count * cut->stride);
    end += old->count * cut->stride;
    char *done = old->rows;
    *old = (kept){.is_read = true};
    const bool is_lost = cut->is_lost;
    pthread_mutex_unlock(&cut->lock);
    free(done);
    if (is_lost) {
        free(rows);
        return tr_fail(TR_ENOMEM, "table: no memory for rows that change while they are written");
    }
    *out = rows;
    *bytes = (uint64_t)(end - rows);
    return TR_OK;
}
