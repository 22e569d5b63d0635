/* cold_snapshot.c - the cold rows of one moment. Records never change in their place. So it is enough to keep all blocks of that moment,
 * and to remember which records have left the index since. The reader sorts them by shards when it comes. */
#include "storage/cold/cold_state.h"

#include <stdlib.h>
#include <string.h>

tr_status tr_cold_snapshot_begin(tr_cold *cold)
{
    tr_cold_snapshot_end(cold);
    tr__cold_snapshot *snapshot = calloc(1, sizeof *snapshot);
    if (!snapshot)
        return tr_fail(TR_ENOMEM, "cold rows: no memory for a snapshot");
    pthread_mutex_init(&snapshot->lock, NULL);
    for (uint32_t i = 0; i < cold->blocks; i++)
        cold->block[i].is_old = cold->block[i].is_used;
    snapshot->blocks = cold->blocks;
    cold->tail = TR__COLD_NONE;                        /* later records lie in later blocks */
    cold->snapshot = snapshot;
    return TR_OK;
}

void tr_cold_snapshot_end(tr_cold *cold)
{
    if (!cold->snapshot)
        return;
    for (int i = 0; i < TR_SHARDS; i++)
        free(cold->snapshot->shard[i].records);
    pthread_mutex_destroy(&cold->snapshot->lock);
    tr__cold_sorted_free(cold->snapshot->sorted);
    free(cold->snapshot);
    cold->snapshot = NULL;
    for (uint32_t i = 0; i < cold->blocks; i++) {
        const bool is_empty = cold->block[i].is_old && !cold->block[i].live;
        cold->block[i].is_old = false;
        if (is_empty)
            tr__cold_free_block(cold, i);
    }
}

static bool was_there(const tr_cold *cold, uint32_t record)
{
    return cold->block[tr__cold_block_of(cold, record)].is_old;
}

void tr__cold_remember(tr_cold *cold, uint32_t shard, uint32_t record)
{
    tr__cold_taken *to = &cold->snapshot->shard[shard];

    if (to->is_read || !was_there(cold, record))
        return;
    if (to->count == to->capacity) {
        const uint64_t more = to->capacity ? 2 * to->capacity : 16;
        uint32_t      *grown = realloc(to->records, more * sizeof *grown);
        if (!grown) {
            cold->snapshot->is_lost = true;
            return;
        }
        to->records = grown;
        to->capacity = more;
    }
    to->records[to->count++] = record;
}

void tr__cold_snapshot_clear(tr_cold *cold)
{
    uint32_t *list = NULL;
    uint64_t  capacity = 0, count = 0;

    pthread_mutex_lock(&cold->snapshot->lock);
    for (uint32_t i = 0; i < cold->config.shard_count; i++) {
        const uint32_t shard = cold->config.first_shard + i;
        if (tr_tag_index_of_shard(&list, &capacity, &count, cold->index, shard) != TR_OK) {
            cold->snapshot->is_lost = true;
            break;
        }
        for (uint64_t at = 0; at < count; at++)
            tr__cold_remember(cold, shard, list[at]);
    }
    tr__cold_clear_index(cold);
    pthread_mutex_unlock(&cold->snapshot->lock);
    free(list);
}

/* List the shard's records of that moment: those that the index still has, and those that were taken since. The lock is held. */
static tr_status list_records(tr_cold *cold, uint32_t shard, uint32_t since, uint32_t **list, uint64_t *count)
{
    tr__cold_taken *taken = &cold->snapshot->shard[shard];
    uint64_t        capacity = 0, all = 0;

    *count = 0;
    TR_TRY(tr_tag_index_of_shard(list, &capacity, &all, cold->index, shard));
    for (uint64_t i = 0; i < all; i++)
        if (was_there(cold, (*list)[i]))
            (*list)[(*count)++] = (*list)[i];
    uint32_t *grown = realloc(*list, (*count + taken->count + 1) * sizeof *grown);
    if (!grown || cold->snapshot->is_lost)
        return tr_fail(TR_ENOMEM, "cold rows: no memory for the rows of shard %u", shard);
    *list = grown;
    if (taken->count)
        memcpy(grown + *count, taken->records, taken->count * sizeof *grown);
    *count = tr__cold_newer(cold, grown, *count + taken->count, since);
    free(taken->records);
    *taken = (tr__cold_taken){.is_read = true};
    return TR_OK;
}

/* Set the bits of a shard's records. */
static tr_status want_shard(tr_cold *cold, uint32_t shard, uint32_t since, uint64_t *wanted)
{
    uint32_t *records = NULL;
    uint64_t  count = 0;

    pthread_mutex_lock(&cold->snapshot->lock);
    const tr_status status = list_records(cold, shard, since, &records, &count);
    pthread_mutex_unlock(&cold->snapshot->lock);
    for (uint64_t i = 0; status == TR_OK && i < count; i++)
        wanted[records[i] / 64] |= (uint64_t)1 << records[i] % 64;
    free(records);
    return status;
}

tr_status tr_cold_snapshot_put(tr_cold *cold, uint32_t shard, const void *rows, uint64_t bytes)
{
    cold->snapshot->sorting = TR__COLD_BEGUN;
    if (!cold->snapshot->sorted)
        TR_TRY(tr__cold_sorted_new(&cold->snapshot->sorted, cold));
    return tr__cold_sorted_put(cold, cold->snapshot->sorted, shard, rows, bytes);
}

tr_status tr_cold_snapshot_sort(tr_cold *cold, uint32_t since)
{
    tr__cold_snapshot *s = cold->snapshot;
    uint64_t          *wanted = calloc((uint64_t)s->blocks * cold->per_block / 64 + 1, sizeof *wanted);
    tr_status          status = wanted ? TR_OK : tr_fail(TR_ENOMEM, "cold rows: no memory to mark the records of %u blocks", s->blocks);

    for (uint32_t i = 0; i < cold->config.shard_count && status == TR_OK; i++)
        status = want_shard(cold, cold->config.first_shard + i, since, wanted);
    if (status == TR_OK && !s->sorted)
        status = tr__cold_sorted_new(&s->sorted, cold);
    if (status == TR_OK)
        status = tr__cold_sort(cold, s->sorted, wanted, s->blocks);
    s->sorting = status == TR_OK ? TR__COLD_SORTED : TR__COLD_BEGUN;
    free(wanted);
    return status;
}

bool tr_cold_snapshot_is_fresh(const tr_cold *cold)
{
    return cold->snapshot->sorting == TR__COLD_FRESH;
}

tr_status tr_cold_snapshot_each(tr_cold *cold, uint32_t shard, tr_cold_row_fn each, void *payload)
{
    if (cold->snapshot->sorting != TR__COLD_SORTED)
        return tr_fail(TR_EIO, "cold rows in folder '%s': the rows of this moment could not be sorted", cold->folder);
    return tr__cold_sorted_each(cold, cold->snapshot->sorted, shard, each, payload);
}
