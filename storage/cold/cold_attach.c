/* cold_attach.c - cold rows after the death of their process.
 *
 * The index lies in segments, beside the rows in memory, and the log in a file with a name. A kill at any instruction leaves both
 * consistent, by the order of stores and writes. What must stay true:
 *   - The index leads to a record only after the write of the record has returned. A killed process loses no write that has returned.
 *   - The room of a block is given back, or used again, only when no entry leads there. A record is never changed in its place: writes of
 *     the tail repeat the bytes of earlier records on the same page.
 *   - An entry is added, removed or given another record as a whole (tag_index.h).
 *   - While a row moves between memory and disk it is in both, with the same contents, and noted (tr_cold_begin_move). Attaching takes it
 *     out of the index: the row in memory wins.
 *   - What is live in blocks is counted again from the index. Records that were only held are dead then: their rows are in memory.
 *   - The file has a random number that the notes of the index have, too. Checksums of records begin with it. So a file of another table,
 *     or of an earlier one of this name, is refused, and none of its records is taken for a row.
 *
 * After a restart of the machine there is no index. The table is gone, as tables in memory are, and the next one of this name begins the
 * file anew. */
#include "storage/cold/cold_state.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *tr__cold_index_name(char out[TR_SEGMENT_NAME], const char *name)
{
    if (!name)
        return NULL;
    snprintf(out, TR_SEGMENT_NAME, "%s.cold", name);
    return out;
}

/* == notes ======================================================================================= */

void tr__cold_put_notes(tr_cold *cold)
{
    tr__cold_notes *notes = tr__cold_notes_of(cold);

    *notes = (tr__cold_notes){.id = cold->id, .record_bytes = cold->record_bytes, .block_bytes = cold->block_bytes};
    atomic_signal_fence(memory_order_seq_cst);
    notes->is_complete = 1;
}

void tr_cold_begin_move(tr_cold *cold, int64_t key, uint32_t record)
{
    tr__cold_notes *notes = tr__cold_notes_of(cold);

    notes->key = key;
    notes->record = record;
    atomic_signal_fence(memory_order_seq_cst);
    notes->is_moving = 1;
    atomic_signal_fence(memory_order_seq_cst);
}

void tr_cold_end_move(tr_cold *cold)
{
    atomic_signal_fence(memory_order_seq_cst);
    tr__cold_notes_of(cold)->is_moving = 0;
}

bool tr_cold_was_moving(const tr_cold *cold, int64_t *key)
{
    const tr__cold_notes *notes = tr__cold_notes_of(cold);

    *key = notes->key;
    return notes->is_moving;
}

void tr_cold_settle(tr_cold *cold, bool is_hot)
{
    const tr__cold_notes notes = *tr__cold_notes_of(cold);

    if (is_hot && tr_tag_index_has(cold->index, notes.key, notes.record)) {
        tr_tag_index_take(cold->index, notes.key, notes.record);
        tr_cold_drop(cold, notes.record);
    }
    tr_cold_end_move(cold);
}

/* == the blocks again ============================================================================ */

static bool count_record(void *payload, uint32_t record)
{
    tr_cold       *cold = payload;
    const uint32_t block = tr__cold_block_of(cold, record);

    if (block >= cold->blocks || cold->block[block].live == cold->per_block)
        return false;
    cold->block[block].live++;
    cold->block[block].is_used = true;
    cold->block[block].newest = UINT32_MAX;
    return true;
}

static tr_status count_blocks(tr_cold *cold, uint64_t blocks)
{
    if (blocks * cold->per_block > UINT32_MAX - 1)
        return tr_fail(TR_EFORMAT, "cold rows in folder '%s': the file has %llu blocks", cold->folder, (unsigned long long)blocks);
    TR_TRY(tr__cold_reserve_blocks(cold, (uint32_t)blocks));
    memset(cold->block, 0, (blocks + 1) * sizeof *cold->block);
    cold->blocks = (uint32_t)blocks;
    if (!tr_tag_index_each(cold->index, count_record, cold))
        return tr_fail(TR_EFORMAT, "cold rows in folder '%s': the index has records that the %llu blocks of the file have not",
                       cold->folder, (unsigned long long)blocks);
    for (uint32_t i = 0; i < cold->blocks; i++)
        if (!cold->block[i].live)
            tr__cold_free_block(cold, i);
    return TR_OK;
}

/* The blocks keep the size that they have, whatever the configuration says now. */
tr_status tr__cold_go_on(tr_cold *cold)
{
    enum { MOST_BYTES = 256 << 20 };
    char                  name[TR_SEGMENT_NAME];
    const tr_cold_config *c = &cold->config;
    uint64_t              blocks;

    TR_TRY(tr_tag_index_attach(&cold->index, tr__cold_index_name(name, c->name), c->first_shard, c->shard_count));
    const tr__cold_notes *notes = tr__cold_notes_of(cold);
    if (!notes->is_complete || notes->record_bytes != cold->record_bytes || !notes->block_bytes || notes->block_bytes > MOST_BYTES ||
        notes->block_bytes % TR__COLD_PAGE)
        return tr_fail(TR_EFORMAT, "cold rows of '%s' have records of %llu bytes in blocks of %llu; wanted are records of %llu", c->name,
                       (unsigned long long)notes->record_bytes, (unsigned long long)notes->block_bytes,
                       (unsigned long long)cold->record_bytes);
    cold->id = notes->id;
    TR_TRY(tr__cold_size_blocks(cold, notes->block_bytes));
    TR_TRY(tr__cold_find_file(cold, &blocks));
    if (notes->is_clearing)
        tr__cold_clear_index(cold);
    TR_TRY(count_blocks(cold, blocks));
    return tr__cold_open_ages(cold);
}

void tr__cold_clear_index(tr_cold *cold)
{
    tr__cold_notes_of(cold)->is_clearing = 1;
    atomic_signal_fence(memory_order_seq_cst);
    tr_tag_index_clear(cold->index);
    atomic_signal_fence(memory_order_seq_cst);
    tr__cold_notes_of(cold)->is_clearing = 0;
}

void tr_cold_remove(const char *name)
{
    char index[TR_SEGMENT_NAME];

    tr__cold_remove_file(name);
    tr__cold_remove_ages(name);
    tr_slots_remove(tr__cold_index_name(index, name));
}
