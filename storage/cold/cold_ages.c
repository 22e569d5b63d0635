/* cold_ages.c - when each row on disk was touched last. So a table finds its old rows without reading any.
 *
 * Ages lie in a segment of their own, by the numbers of the records. An age is written before its record can be indexed, and never changes
 * while it is. So ages are right after a kill at any instruction. The notes say whether all records have theirs. */
#include "storage/cold/cold_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { VERSION = 1 };
static const char CONTENT[] = "ages";

static const char *ages_name(char out[TR_SEGMENT_NAME], const char *name)
{
    if (!name)
        return NULL;
    snprintf(out, TR_SEGMENT_NAME, "%s.cold.ages", name);
    return out;
}

static uint64_t limit(void)
{
    return ((uint64_t)1 << 32) * sizeof(tr__cold_age);
}

tr_status tr__cold_reserve_ages(tr_cold *cold, uint64_t blocks)
{
    return cold->ages ? tr_segment_grow(cold->ages, blocks * cold->per_block * sizeof(tr__cold_age)) : TR_OK;
}

void tr__cold_remove_ages(const char *name)
{
    char path[TR_SEGMENT_NAME];

    tr_segment_remove(ages_name(path, name));
}

static tr_status note_age(void *payload, uint32_t record, const tr_slot_row *row)
{
    tr__cold_note_age(payload, record, row);
    return TR_OK;
}

static tr_status note_all(tr_cold *cold)
{
    TR_TRY(tr__cold_reserve_ages(cold, cold->blocks));
    for (uint32_t i = 0; i < cold->config.shard_count && tr_cold_count(cold); i++)
        TR_TRY(tr_cold_each_of_shard(cold, cold->config.first_shard + i, 0, note_age, cold));
    return TR_OK;
}

tr_status tr_cold_keep_ages(tr_cold *cold)
{
    char path[TR_SEGMENT_NAME];

    if (cold->ages)
        return TR_OK;
    if (cold->name)
        tr__cold_remove_ages(cold->name);              /* a process was killed while it read all records */
    TR_TRY(tr_segment_create_moving(&cold->ages, ages_name(path, cold->name), CONTENT, VERSION, limit()));
    const tr_status status = note_all(cold);
    if (status != TR_OK) {                             /* ages of some records are none: the next call reads all of them again */
        tr_segment_free(cold->ages);
        cold->ages = NULL;
        return status;
    }
    atomic_signal_fence(memory_order_seq_cst);
    tr__cold_notes_of(cold)->has_ages = 1;
    return TR_OK;
}

tr_status tr__cold_open_ages(tr_cold *cold)
{
    char           path[TR_SEGMENT_NAME];
    const uint64_t wanted = (uint64_t)cold->blocks * cold->per_block * sizeof(tr__cold_age);

    if (!cold->name || !tr__cold_notes_of(cold)->has_ages)
        return cold->config.keeps_ages ? tr_cold_keep_ages(cold) : TR_OK;
    TR_TRY(tr_segment_attach_moving(&cold->ages, ages_name(path, cold->name), CONTENT, VERSION, limit()));
    if (tr_segment_bytes(cold->ages) >= wanted)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "cold rows in folder '%s': segment '%s' has the ages of fewer records than the file's %u blocks have",
                   cold->folder, path, cold->blocks);
}

tr_status tr_cold_ages_of_shard(tr_cold_age **list, uint64_t *capacity, uint64_t *count, const tr_cold *cold, uint32_t shard)
{
    const tr__cold_age *ages = tr_segment_base(cold->ages);
    uint32_t           *records = NULL;
    uint64_t            room = 0;
    tr_status           status = tr_tag_index_of_shard(&records, &room, count, cold->index, shard);

    if (status == TR_OK && *count > *capacity) {
        tr_cold_age *grown = realloc(*list, *count * sizeof *grown);
        status = grown ? TR_OK : tr_fail(TR_ENOMEM, "cold rows: no memory for the ages of %llu rows", (unsigned long long)*count);
        *list = grown ? grown : *list;
        *capacity = grown ? *count : *capacity;
    }
    for (uint64_t i = 0; status == TR_OK && i < *count; i++)
        (*list)[i] = (tr_cold_age){records[i], ages[records[i]].mark, ages[records[i]].last};
    free(records);
    return status;
}
