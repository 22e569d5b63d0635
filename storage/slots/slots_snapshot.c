/* slots_snapshot.c - see slots_snapshot.h. It has a bit for each old row, which is set when the row was read or its old content was
 * kept; the kept contents, shard by shard; and one lock.
 *
 * The reader holds the lock for some rows at a time, and lets a waiting owner go first. A row whose bit is clear does not change while
 * it is read, because the owner first keeps its content and sets the bit under the lock. */
#include "storage/slots/slots_snapshot.h"

#include "framework/base/compiler.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { AT_A_TIME = 64 };

/* Kept rows of one shard. */
typedef struct kept {
    char    *rows;
    uint64_t count, capacity;
    bool     is_read;                 /* the shard was read: keep nothing more */
} kept;

struct tr_slots_snapshot {
    const tr_slots *slots;
    uint64_t        stride;
    uint64_t        used;             /* number of slots at that moment; later slots are new rows */
    uint64_t       *settled;          /* a bit for each slot: its old content was read or kept, or it is new */
    kept            shard[TR_SHARDS];
    bool            is_lost;          /* there was no memory for an old row */
    pthread_mutex_t lock;
    atomic_bool     owner_waits;
    uint32_t       *list;             /* reader's: slots of a shard */
    uint64_t        list_capacity;
};

tr_status tr_slots_snapshot_new(tr_slots_snapshot **out, const tr_slots *slots)
{
    tr_slots_snapshot *snapshot = calloc(1, sizeof *snapshot);

    if (snapshot)
        snapshot->settled = calloc(tr_slots_used(slots) / 64 + 1, sizeof *snapshot->settled);
    if (!snapshot || !snapshot->settled) {
        free(snapshot);
        return tr_fail(TR_ENOMEM, "no memory to remember which of %u rows change", tr_slots_used(slots));
    }
    snapshot->slots = slots;
    snapshot->stride = tr_slots_stride(slots);
    snapshot->used = tr_slots_used(slots);
    pthread_mutex_init(&snapshot->lock, NULL);
    *out = snapshot;
    return TR_OK;
}

void tr_slots_snapshot_free(tr_slots_snapshot *snapshot)
{
    if (!snapshot)
        return;
    for (int i = 0; i < TR_SHARDS; i++)
        free(snapshot->shard[i].rows);
    pthread_mutex_destroy(&snapshot->lock);
    free(snapshot->settled);
    free(snapshot->list);
    free(snapshot);
}

/* == the owner =================================================================================== */

void tr_slots_snapshot_lock(tr_slots_snapshot *snapshot)
{
    if (!snapshot)
        return;
    atomic_store_explicit(&snapshot->owner_waits, true, memory_order_relaxed);
    pthread_mutex_lock(&snapshot->lock);
    atomic_store_explicit(&snapshot->owner_waits, false, memory_order_relaxed);
}

void tr_slots_snapshot_unlock(tr_slots_snapshot *snapshot)
{
    if (snapshot)
        pthread_mutex_unlock(&snapshot->lock);
}

static bool is_settled(const tr_slots_snapshot *snapshot, uint32_t slot)
{
    return slot >= snapshot->used || snapshot->settled[slot / 64] >> slot % 64 & 1;
}

static void settle(tr_slots_snapshot *snapshot, uint32_t slot)
{
    snapshot->settled[slot / 64] |= (uint64_t)1 << slot % 64;
}

void tr_slots_snapshot_made(tr_slots_snapshot *snapshot, uint32_t slot)
{
    if (snapshot && slot < snapshot->used)
        settle(snapshot, slot);
}

/* Valid while the lock is held: rows move when their memory grows. */
static const char *row_at(const tr_slots_snapshot *snapshot, uint32_t slot)
{
    return tr_slots_rows(snapshot->slots) + slot * snapshot->stride;
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

void tr_slots_snapshot_remove(tr_slots_snapshot *snapshot, uint32_t slot)
{
    if (!snapshot || is_settled(snapshot, slot))
        return;
    const char *row = row_at(snapshot, slot);
    kept       *to = &snapshot->shard[tr_slots_shard(((const tr_slot_row *)(const void *)row)->key)];
    if (!to->is_read && !append(to, row, snapshot->stride))
        snapshot->is_lost = true;
    settle(snapshot, slot);
}

void tr_slots_snapshot_keep(tr_slots_snapshot *snapshot, const uint32_t *slots, int64_t n)
{
    tr_slots_snapshot_lock(snapshot);
    for (int64_t i = 0; i < n; i++)
        if (slots[i] != TR_SLOT_NONE)
            tr_slots_snapshot_remove(snapshot, slots[i]);
    tr_slots_snapshot_unlock(snapshot);
}

/* == the reader ================================================================================== */

static void lock_after_owner_death(tr_slots_snapshot *snapshot)
{
    while (atomic_load_explicit(&snapshot->owner_waits, memory_order_relaxed))
        sched_yield();
    pthread_mutex_lock(&snapshot->lock);
}

static void ask_for(const tr_slots_snapshot *snapshot, uint64_t i, uint64_t count)
{
    enum { AHEAD = 16 };

    if (i + AHEAD >= count)
        return;
    const char *row = row_at(snapshot, snapshot->list[i + AHEAD]);
    for (uint64_t at = 0; at < snapshot->stride; at += TR_CACHE_LINE)
        __builtin_prefetch(row + at);
}

/* Read some listed rows that have not changed yet. */
static char *copy_unchanged(tr_slots_snapshot *snapshot, char *to, uint64_t count)
{
    for (uint64_t from = 0; from < count; from += AT_A_TIME) {
        lock_after_owner_death(snapshot);
        for (uint64_t i = from; i < count && i < from + AT_A_TIME; i++) {
            ask_for(snapshot, i, count);
            if (is_settled(snapshot, snapshot->list[i]))
                continue;
            memcpy(to, row_at(snapshot, snapshot->list[i]), snapshot->stride);
            to += snapshot->stride;
            settle(snapshot, snapshot->list[i]);
        }
        pthread_mutex_unlock(&snapshot->lock);
    }
    return to;
}

tr_status tr_slots_snapshot_read(tr_slots_snapshot *snapshot, uint32_t shard, void **out, uint64_t *bytes)
{
    kept     *old = &snapshot->shard[shard];
    uint64_t  count = 0;

    lock_after_owner_death(snapshot);
    const tr_status status = tr_slots_of_shard(&snapshot->list, &snapshot->list_capacity, &count, snapshot->slots, shard);
    const uint64_t  before = old->count;
    pthread_mutex_unlock(&snapshot->lock);
    TR_TRY(status);
    /* Read a shard. A listed row comes from its place or, if it has changed, from the kept contents. Rows that were kept and removed
     * since are added. */
    char *rows = malloc((count + before) * snapshot->stride + 1);
    if (!rows)
        return tr_fail(TR_ENOMEM, "table: no memory for the %llu rows of shard %u", (unsigned long long)(count + before), shard);
    char *end = copy_unchanged(snapshot, rows, count);
    lock_after_owner_death(snapshot);
    if (old->count)
        memcpy(end, old->rows, old->count * snapshot->stride);
    end += old->count * snapshot->stride;
    char *done = old->rows;
    *old = (kept){.is_read = true};
    const bool is_lost = snapshot->is_lost;
    pthread_mutex_unlock(&snapshot->lock);
    free(done);
    if (is_lost) {
        free(rows);
        return tr_fail(TR_ENOMEM, "table: no memory for rows that change while they are written");
    }
    *out = rows;
    *bytes = (uint64_t)(end - rows);
    return TR_OK;
}
