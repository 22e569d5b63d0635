/* cold_write.c - appends rows to the log, counts what is live in its blocks, and tidies them.
 *
 * The tail's contents are kept in memory, because a write begins at a whole page: the records before the new ones are written again as
 * they were. */
#include "storage/cold/cold_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* == appending =================================================================================== */

tr_status tr__cold_write_at(tr_cold *cold, int file, const char *from, uint64_t bytes, uint64_t at)
{
    for (uint64_t done = 0; done < bytes;) {
        const ssize_t put = pwrite(file, from + done, bytes - done, (off_t)(at + done));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return tr_fail(TR_EIO, "cannot write cold rows in folder '%s': %s. No row is lost", cold->folder,
                           strerror(put < 0 ? errno : ENOSPC));
        done += (uint64_t)put;
    }
    return TR_OK;
}

static tr_status write_bytes(tr_cold *cold, const char *from, uint64_t bytes, uint64_t at)
{
    TR_TRY(tr__cold_write_at(cold, cold->file, from, bytes, at));
    cold->report.written_bytes += bytes;
    return TR_OK;
}

void tr__cold_lay(const tr_cold *cold, char *to, uint32_t record, const tr_slot_row *row)
{
    tr__cold_head head = {0, record};

    memcpy(to, &head, sizeof head);
    memcpy(to + sizeof head, row, cold->config.stride);
    head.crc = tr__cold_checksum(cold, to);
    memcpy(to, &head, sizeof head);
}

/* Lay a row into the tail's memory. */
static void lay(tr_cold *cold, uint32_t at, const tr_slot_row *row)
{
    const uint32_t record = cold->tail * cold->per_block + at;

    tr__cold_lay(cold, cold->tail_bytes + at * cold->record_bytes, record, row);
    tr__cold_note_age(cold, record, row);
}

/* Append as many rows as the tail has room for. */
static tr_status write_some(tr_cold *cold, uint32_t *out, const tr_slot_row *const *rows, int64_t n, int64_t *done)
{
    if (cold->tail == TR__COLD_NONE || cold->filled == cold->per_block)
        TR_TRY(tr__cold_begin_block(cold));
    const uint32_t room = cold->per_block - cold->filled, count = n < (int64_t)room ? (uint32_t)n : room;
    const uint64_t from = cold->filled * cold->record_bytes / TR__COLD_PAGE * TR__COLD_PAGE;
    const uint64_t end = ((cold->filled + count) * cold->record_bytes + TR__COLD_PAGE - 1) / TR__COLD_PAGE * TR__COLD_PAGE;
    for (uint32_t i = 0; i < count; i++)
        lay(cold, cold->filled + i, rows[i]);
    for (uint32_t i = 0; i < count; i++)
        if (cold->block[cold->tail].newest < rows[i]->last)
            cold->block[cold->tail].newest = rows[i]->last;
    TR_TRY(write_bytes(cold, cold->tail_bytes + from, end - from, tr__cold_block_place(cold, cold->tail) + from));
    for (uint32_t i = 0; i < count; i++)
        out[i] = cold->tail * cold->per_block + cold->filled + i;
    cold->filled += count;
    cold->block[cold->tail].live += count;
    *done = count;
    return TR_OK;
}

tr_status tr_cold_write(tr_cold *cold, uint32_t *out, const tr_slot_row *const *rows, int64_t n)
{
    int64_t at = 0, count = 0;

    TR_TRY(tr__cold_check_process(cold));
    for (; at < n; at += count) {
        const tr_status status = write_some(cold, out + at, rows + at, n - at, &count);
        if (status != TR_OK) {
            while (at-- > 0)
                tr_cold_drop(cold, out[at]);
            return status;
        }
    }
    return TR_OK;
}

/* == what is live ================================================================================ */

static void lock(tr_cold *cold)
{
    if (cold->snapshot)
        pthread_mutex_lock(&cold->snapshot->lock);
}

static void unlock(tr_cold *cold)
{
    if (cold->snapshot)
        pthread_mutex_unlock(&cold->snapshot->lock);
}

tr_status tr_cold_put(tr_cold *cold, int64_t key, uint32_t record)
{
    lock(cold);
    const tr_status status = tr_tag_index_put(cold->index, key, record);
    unlock(cold);
    return status;
}

void tr_cold_take(tr_cold *cold, int64_t key, uint32_t record)
{
    lock(cold);
    if (cold->snapshot)
        tr__cold_remember(cold, tr_slots_shard(key), record);
    tr_tag_index_take(cold->index, key, record);
    unlock(cold);
}

void tr_cold_drop(tr_cold *cold, uint32_t record)
{
    const uint32_t  block = tr__cold_block_of(cold, record);
    tr__cold_block *of = &cold->block[block];

    if (--of->live == 0 && block != cold->tail && !of->is_old)
        tr__cold_free_block(cold, block);
}

bool tr_cold_may_put(const tr_cold *cold, uint32_t record)
{
    return !cold->snapshot || !cold->block[tr__cold_block_of(cold, record)].is_old;
}

/* == tidying =================================================================================== */

typedef struct tidying {
    tr_cold *cold;
    bool (*lost)(void *payload, int64_t key, uint32_t record);
    void *payload;
} tidying;

/* Append the indexed records of a block again, and let the index lead there. Held ones are dead from here on, also where this fails later:
 * their owner has forgotten them. */
static tr_status move_records(const tidying *t, uint32_t block, const char *bytes, const tr_slot_row **rows, uint32_t *to)
{
    tr_cold      *cold = t->cold;
    uint32_t      count = 0;
    tr__cold_head head;

    for (uint32_t i = 0; i < cold->per_block; i++) {
        const char        *at = bytes + i * cold->record_bytes;
        const tr_slot_row *row = (const tr_slot_row *)(const void *)(at + sizeof head);
        const uint32_t     record = block * cold->per_block + i;
        memcpy(&head, at, sizeof head);
        if (head.record != record)
            continue;                                  /* the block was not filled so far */
        if (!tr_tag_index_has(cold->index, row->key, record)) {
            cold->block[block].live -= t->lost(t->payload, row->key, record);
            continue;
        }
        TR_TRY(tr__cold_check_record(cold, record, at));
        rows[count++] = row;
    }
    if (count != cold->block[block].live)
        return tr_fail(TR_EFORMAT, "cold rows in folder '%s': block %u has %u of its %u records: the disk returned other bytes than were "
                       "written", cold->folder, block, count, cold->block[block].live);
    TR_TRY(tr_cold_write(cold, to, rows, count));
    for (uint32_t i = 0; i < count; i++) {
        const char *at = (const char *)rows[i] - sizeof head;
        memcpy(&head, at, sizeof head);
        tr_tag_index_move(cold->index, rows[i]->key, head.record, to[i]);
    }
    cold->report.tidied_bytes += (uint64_t)count * cold->record_bytes;
    return TR_OK;
}

tr_status tr__cold_read_block(const tr_cold *cold, uint32_t block, char *bytes)
{
    for (uint64_t had = 0; had < cold->block_bytes;) {
        const ssize_t got = pread(cold->file, bytes + had, cold->block_bytes - had, (off_t)(tr__cold_block_place(cold, block) + had));
        if (got > 0)
            had += (uint64_t)got;
        else if (got == 0 || errno != EINTR)
            return tr_fail(TR_EIO, "cannot read cold rows in folder '%s': %s", cold->folder,
                           got ? strerror(errno) : "the file ends too early");
    }
    return TR_OK;
}

static tr_status tidy_block(const tidying *t, uint32_t block)
{
    tr_cold            *cold = t->cold;
    char               *bytes = aligned_alloc(TR__COLD_PAGE, cold->block_bytes);
    const tr_slot_row **rows = malloc(cold->per_block * sizeof *rows);
    uint32_t           *to = malloc(cold->per_block * sizeof *to);
    tr_status           status = bytes && rows && to ? TR_OK : tr_fail(TR_ENOMEM, "cold rows: no memory for a block of %llu bytes",
                                                             (unsigned long long)cold->block_bytes);

    if (status == TR_OK)
        status = tr__cold_read_block(cold, block, bytes);
    if (status == TR_OK)
        status = move_records(t, block, bytes, rows, to);
    free(bytes);
    free(rows);
    free(to);
    if (status == TR_OK)
        tr__cold_free_block(cold, block);
    return status;
}

/* The block with the fewest live records, except the tail. */
static uint32_t emptiest(const tr_cold *cold)
{
    uint32_t best = TR__COLD_NONE;

    for (uint32_t i = 0; i < cold->blocks; i++)
        if (cold->block[i].is_used && i != cold->tail && (best == TR__COLD_NONE || cold->block[i].live < cold->block[best].live))
            best = i;
    return best;
}

tr_status tr_cold_tidy(tr_cold *cold, bool (*lost)(void *payload, int64_t key, uint32_t record), void *payload)
{
    enum { FEW = 4, MOST = 64 };                       /* blocks that need not be half full; blocks of one call, so that it ends soon */
    const tidying t = {cold, lost, payload};

    TR_TRY(tr__cold_check_process(cold));
    for (int i = 0; i < MOST && !cold->snapshot && cold->blocks - cold->free_count > FEW &&
           (uint64_t)(cold->blocks - cold->free_count - FEW) * cold->per_block > 2 * tr_cold_count(cold); i++) {
        const uint32_t block = emptiest(cold);
        if (cold->block[block].live)
            TR_TRY(tidy_block(&t, block));
        else
            tr__cold_free_block(cold, block);
    }
    return TR_OK;
}
