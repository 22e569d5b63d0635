/* cold_sorted.c - the rows of a snapshot, sorted by shards. A checkpoint reads them one shard after the other.
 *
 * To read each record by itself would take a page of the disk for each row. Instead the blocks are read once, one after the other, and each
 * record is appended to the chunk of its shard. Full chunks go to a file without a name, many at a time. So each row is read, written and
 * read again, in large pieces, and memory has one chunk of each shard. */
#include "storage/cold/cold_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CHUNK = 4 * TR__COLD_PAGE, AT_A_TIME = 64 };

typedef struct part {
    char     *bytes;                  /* the chunk that is being filled, aligned to a page; NULL: none so far */
    uint32_t  used;
    uint32_t *chunks;                 /* numbers of those in the file */
    uint32_t  count, capacity;
} part;

struct tr__cold_sorted {
    int      file;                    /* -1: no chunk is full so far */
    char    *full;                    /* chunks that are not written yet, aligned to a page */
    uint32_t chunks, written;         /* full ones; those of them that are in the file */
    uint32_t first_shard, shard_count;
    part     part[];
};

void tr__cold_sorted_free(tr__cold_sorted *sorted)
{
    if (!sorted)
        return;
    for (uint32_t i = 0; i < sorted->shard_count; i++) {
        free(sorted->part[i].bytes);
        free(sorted->part[i].chunks);
    }
    free(sorted->full);
    if (sorted->file >= 0)
        close(sorted->file);
    free(sorted);
}

static tr_status no_memory(void)
{
    return tr_fail(TR_ENOMEM, "cold rows: no memory to sort rows by shards");
}

/* == sorting ====================================================================================== */

static tr_status note_chunk(part *p, uint32_t number)
{
    if (p->count == p->capacity) {
        const uint32_t capacity = 2 * p->capacity + 8;
        uint32_t      *grown = realloc(p->chunks, capacity * sizeof *grown);
        if (!grown)
            return no_memory();
        p->chunks = grown;
        p->capacity = capacity;
    }
    p->chunks[p->count++] = number;
    return TR_OK;
}

static tr_status write_chunks(tr_cold *cold, tr__cold_sorted *sorted)
{
    const uint64_t bytes = (uint64_t)(sorted->chunks - sorted->written) * CHUNK;

    if (!bytes)
        return TR_OK;
    if (sorted->file < 0)
        TR_TRY(tr__cold_open_nameless(&sorted->file, cold));
    TR_TRY(tr__cold_write_at(cold, sorted->file, sorted->full, bytes, (uint64_t)sorted->written * CHUNK));
    sorted->written = sorted->chunks;
    return TR_OK;
}

static tr_status end_chunk(tr_cold *cold, tr__cold_sorted *sorted, part *p)
{
    if (!sorted->full && !(sorted->full = aligned_alloc(TR__COLD_PAGE, AT_A_TIME * CHUNK)))
        return no_memory();
    TR_TRY(note_chunk(p, sorted->chunks));
    memcpy(sorted->full + (uint64_t)(sorted->chunks - sorted->written) * CHUNK, p->bytes, CHUNK);
    p->used = 0;
    return ++sorted->chunks - sorted->written == AT_A_TIME ? write_chunks(cold, sorted) : TR_OK;
}

static tr_status put(tr_cold *cold, tr__cold_sorted *sorted, uint32_t shard, const char *record)
{
    part *p = &sorted->part[shard - sorted->first_shard];

    if (!p->bytes && !(p->bytes = aligned_alloc(TR__COLD_PAGE, CHUNK)))
        return no_memory();
    for (uint64_t done = 0; done < cold->record_bytes;) {
        const uint64_t left = cold->record_bytes - done, room = CHUNK - p->used, count = left < room ? left : room;
        memcpy(p->bytes + p->used, record + done, count);
        p->used += (uint32_t)count;
        done += count;
        if (p->used == CHUNK)
            TR_TRY(end_chunk(cold, sorted, p));
    }
    return TR_OK;
}

static bool is_wanted(const uint64_t *wanted, uint64_t record)
{
    return wanted[record / 64] >> record % 64 & 1;
}

static bool wants_any(const uint64_t *wanted, uint64_t first, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_wanted(wanted, first + i))
            return true;
    return false;
}

static tr_status put_block(tr_cold *cold, tr__cold_sorted *sorted, const uint64_t *wanted, uint32_t block, const char *bytes)
{
    for (uint32_t i = 0; i < cold->per_block; i++) {
        const char        *at = bytes + i * cold->record_bytes;
        const tr_slot_row *row = (const tr_slot_row *)(const void *)(at + sizeof(tr__cold_head));
        const uint32_t     record = block * cold->per_block + i;
        if (!is_wanted(wanted, record))
            continue;
        TR_TRY(tr__cold_check_record(cold, record, at));
        TR_TRY(put(cold, sorted, tr_slots_shard(row->key), at));
    }
    return TR_OK;
}

static tr_status put_blocks(tr_cold *cold, tr__cold_sorted *sorted, const uint64_t *wanted, uint32_t blocks)
{
    char     *bytes = aligned_alloc(TR__COLD_PAGE, cold->block_bytes);
    tr_status status = bytes ? TR_OK : no_memory();

    for (uint32_t block = 0; block < blocks && status == TR_OK; block++) {
        if (!wants_any(wanted, (uint64_t)block * cold->per_block, cold->per_block))
            continue;
        status = tr__cold_read_block(cold, block, bytes);
        if (status == TR_OK)
            status = put_block(cold, sorted, wanted, block, bytes);
    }
    free(bytes);
    return status;
}

tr_status tr__cold_sorted_new(tr__cold_sorted **out, const tr_cold *cold)
{
    const uint32_t   shards = cold->config.shard_count;
    tr__cold_sorted *sorted = calloc(1, sizeof *sorted + shards * sizeof *sorted->part);

    if (!sorted)
        return no_memory();
    sorted->file = -1;
    sorted->first_shard = cold->config.first_shard;
    sorted->shard_count = shards;
    *out = sorted;
    return TR_OK;
}

tr_status tr__cold_sorted_put(tr_cold *cold, tr__cold_sorted *sorted, uint32_t shard, const void *rows, uint64_t bytes)
{
    const uint64_t stride = cold->config.stride;
    char          *record = malloc(cold->record_bytes);
    tr_status      status = record ? TR_OK : no_memory();

    for (uint64_t at = 0; at < bytes && status == TR_OK; at += stride) {
        tr__cold_lay(cold, record, TR__COLD_NONE, (const tr_slot_row *)(const void *)((const char *)rows + at));
        status = put(cold, sorted, shard, record);
    }
    free(record);
    return status;
}

tr_status tr__cold_sort(tr_cold *cold, tr__cold_sorted *sorted, const uint64_t *wanted, uint32_t blocks)
{
    TR_TRY(put_blocks(cold, sorted, wanted, blocks));
    return write_chunks(cold, sorted);
}

/* == one shard ====================================================================================== */

/* Read the chunks of a part, one after the other, and then what lies in memory. */
static tr_status read_part(const tr_cold *cold, const tr__cold_sorted *sorted, const part *p, char *to)
{
    tr_file_read *reads = malloc((p->count + 1) * sizeof *reads);
    tr_status     status = reads ? TR_OK : no_memory();

    for (uint32_t i = 0; i < p->count && reads; i++)
        reads[i] = (tr_file_read){(uint64_t)p->chunks[i] * CHUNK, CHUNK, to + (uint64_t)i * CHUNK};
    if (status == TR_OK && p->count)
        status = tr_file_reads_run(sorted->file, cold->folder, reads, p->count);
    if (p->used)
        memcpy(to + (uint64_t)p->count * CHUNK, p->bytes, p->used);
    free(reads);
    return status;
}

static tr_status each_record(const tr_cold *cold, const char *bytes, uint64_t count, tr_cold_row_fn each, void *payload)
{
    tr__cold_head head;

    for (const char *end = bytes + count; bytes < end; bytes += cold->record_bytes) {
        memcpy(&head, bytes, sizeof head);
        TR_TRY(tr__cold_check_record(cold, head.record, bytes));
        TR_TRY(each(payload, head.record, (const tr_slot_row *)(const void *)(bytes + sizeof head)));
    }
    return TR_OK;
}

tr_status tr__cold_sorted_each(const tr_cold *cold, const tr__cold_sorted *sorted, uint32_t shard, tr_cold_row_fn each, void *payload)
{
    const part    *p = &sorted->part[shard - sorted->first_shard];
    const uint64_t count = (uint64_t)p->count * CHUNK + p->used;
    char          *bytes = malloc(count + 1);

    if (!bytes)
        return no_memory();
    tr_status status = read_part(cold, sorted, p, bytes);
    if (status == TR_OK)
        status = each_record(cold, bytes, count, each, payload);
    free(bytes);
    return status;
}
