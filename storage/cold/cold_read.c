/* cold_read.c - reads records, many at a time, and checks them. */
#include "storage/cold/cold_state.h"
#include "storage/cold/file_reads.h"

#include "storage/util/crc32c.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint32_t tr__cold_checksum(const tr_cold *cold, const char *bytes)
{
    const size_t after = sizeof(uint32_t);             /* the checksum itself */

    return tr_crc32c(tr_crc32c(0, &cold->id, sizeof cold->id), bytes + after, cold->record_bytes - after);
}

tr_status tr__cold_check_record(const tr_cold *cold, uint32_t record, const char *bytes)
{
    tr__cold_head head;

    memcpy(&head, bytes, sizeof head);
    if (head.record == record && head.crc == tr__cold_checksum(cold, bytes))
        return TR_OK;
    return tr_fail(TR_EFORMAT, "cold rows in folder '%s': record %u is damaged: the disk returned other bytes than were written",
                   cold->folder, record);
}

/* == some records at a time ========================================================================= */

tr_file_read tr__cold_piece(const tr_cold *cold, uint32_t record, char *to)
{
    return (tr_file_read){tr__cold_place(cold, record), cold->record_bytes, to};
}

void tr__cold_count_reads(tr_cold *cold, const tr_file_read *reads, int64_t count)
{
    cold->report.reads += (uint64_t)count;
    for (int64_t i = 0; i < count; i++)
        cold->report.read_bytes += ((reads[i].at + reads[i].bytes - 1) / TR__COLD_PAGE - reads[i].at / TR__COLD_PAGE + 1) * TR__COLD_PAGE;
}

/* How many records are read at a time: enough to keep a disk busy, in little memory. */
static uint64_t at_a_time(const tr_cold *cold, bool is_quiet)
{
    enum { QUIET = 128, MEMORY = 4 << 20 };
    const uint64_t fit = MEMORY / cold->record_bytes;

    return fit < 1 ? 1 : is_quiet && fit > QUIET ? QUIET : fit;
}

/* Memory for some records at a time. */
typedef struct reading {
    char         *memory;
    const char  **bytes;              /* of each record: in `memory`, or among those that were read ahead */
    tr_file_read *reads;
} reading;

static tr_status read_some(tr_cold *cold, const reading *r, const uint32_t *records, uint64_t count, bool is_quiet)
{
    const uint64_t begun = now();
    int64_t        reads = 0;

    for (uint64_t i = 0; i < count; i++) {
        char *to = r->memory + i * cold->record_bytes;
        r->bytes[i] = is_quiet ? NULL : tr__cold_ahead_take(cold, records[i]);
        if (!r->bytes[i])
            r->reads[reads++] = tr__cold_piece(cold, records[i], to);
        if (!r->bytes[i])
            r->bytes[i] = to;
    }
    TR_TRY(tr_file_reads_run(cold->file, cold->folder, r->reads, reads));
    if (is_quiet)
        return TR_OK;
    tr__cold_count_reads(cold, r->reads, reads);
    cold->report.ahead += count - (uint64_t)reads;
    cold->report.waited += now() - begun;
    return TR_OK;
}

static tr_status hand_over(const tr_cold *cold, const tr__cold_reading *what, uint64_t at, const char *bytes)
{
    const uint32_t     record = what->records[at];
    const tr_slot_row *row = (const tr_slot_row *)(const void *)(bytes + sizeof(tr__cold_head));

    TR_TRY(tr__cold_check_record(cold, record, bytes));
    return !what->wants || what->wants(what->wants_payload, at, row) ? what->each(what->payload, record, row) : TR_OK;
}

static tr_status read_all(tr_cold *cold, const tr__cold_reading *what, const reading *r, uint64_t most)
{
    for (uint64_t from = 0; from < what->count; from += most) {
        const uint64_t count = what->count - from < most ? what->count - from : most;
        TR_TRY(read_some(cold, r, what->records + from, count, what->is_quiet));
        for (uint64_t i = 0; i < count; i++)
            TR_TRY(hand_over(cold, what, from + i, r->bytes[i]));
    }
    return TR_OK;
}

tr_status tr__cold_read(tr_cold *cold, const tr__cold_reading *what)
{
    const uint64_t most = at_a_time(cold, what->is_quiet), room = most < what->count ? most : what->count;
    const reading  r = {malloc(room * cold->record_bytes + 1), malloc((room + 1) * sizeof *r.bytes), malloc((room + 1) * sizeof *r.reads)};
    const uint64_t begun = now();
    tr_status      status;

    if (!what->is_quiet)
        tr__cold_ahead_settle(cold, what->records, what->count);
    if (!what->is_quiet)
        cold->report.waited += now() - begun;
    if (!r.memory || !r.bytes || !r.reads)
        status = tr_fail(TR_ENOMEM, "cold rows: no memory to read %llu records", (unsigned long long)room);
    else
        status = read_all(cold, what, &r, most);
    free(r.memory);
    free(r.bytes);
    free(r.reads);
    return status;
}

/* == by key ========================================================================================= */

int tr__cold_by_record(const void *a, const void *b)
{
    const tr_tag_candidate *x = a, *y = b;

    if (x->record != y->record)
        return x->record < y->record ? -1 : 1;
    return (x->key > y->key) - (x->key < y->key);
}

/* Candidates in the order of records, and the places among them where a record comes first. */
typedef struct looked_up {
    const tr_tag_candidate *found;
    uint64_t                 count;
    const uint64_t          *first;   /* of record i of those that are read */
} looked_up;

/* Does one of the keys that may have the record own it? */
static bool is_wanted(void *payload, uint64_t at, const tr_slot_row *row)
{
    const looked_up *of = payload;
    uint64_t         i = of->first[at];

    for (const uint32_t record = of->found[i].record; i < of->count && of->found[i].record == record; i++)
        if (of->found[i].key == row->key)
            return true;
    return false;
}

/* Read each record once, however many keys it may belong to. */
static tr_status read_candidates(tr_cold *cold, uint64_t found, tr_cold_row_fn each, void *payload)
{
    uint64_t *first = malloc(found * sizeof *first);
    uint32_t *records = malloc(found * sizeof *records);
    uint64_t  count = 0;

    if (!first || !records) {
        free(first);
        free(records);
        return tr_fail(TR_ENOMEM, "cold rows: no memory to read %llu records", (unsigned long long)found);
    }
    qsort(cold->found, found, sizeof *cold->found, tr__cold_by_record);
    for (uint64_t i = 0; i < found; i++)
        if (!i || cold->found[i].record != cold->found[i - 1].record) {
            first[count] = i;
            records[count++] = cold->found[i].record;
        }
    looked_up       of = {cold->found, found, first};
    const tr_status status = tr__cold_read(cold, &(tr__cold_reading){records, count, is_wanted, &of, each, payload, false});
    free(first);
    free(records);
    return status;
}

tr_status tr_cold_fetch(tr_cold *cold, const int64_t *keys, const uint32_t *slots, int64_t n, tr_cold_row_fn each, void *payload)
{
    uint64_t found = 0;

    TR_TRY(tr__cold_check_process(cold));
    TR_TRY(tr_tag_index_find(&cold->found, &cold->found_capacity, &found, cold->index, keys, slots, n));
    return found ? read_candidates(cold, found, each, payload) : TR_OK;
}

tr_status tr_cold_read(tr_cold *cold, const uint32_t *records, uint64_t count, tr_cold_row_fn each, void *payload)
{
    TR_TRY(tr__cold_check_process(cold));
    return tr__cold_read(cold, &(tr__cold_reading){records, count, NULL, NULL, each, payload, true});
}

uint64_t tr__cold_newer(const tr_cold *cold, uint32_t *records, uint64_t count, uint32_t since)
{
    uint64_t kept = 0;

    for (uint64_t i = 0; i < count; i++)
        if (!since || cold->block[tr__cold_block_of(cold, records[i])].newest > since)
            records[kept++] = records[i];
    return kept;
}

tr_status tr_cold_each_of_shard(tr_cold *cold, uint32_t shard, uint32_t since, tr_cold_row_fn each, void *payload)
{
    uint32_t *records = NULL;
    uint64_t  capacity = 0, count = 0;

    TR_TRY(tr__cold_check_process(cold));
    tr_status status = tr_tag_index_of_shard(&records, &capacity, &count, cold->index, shard);
    if (status == TR_OK)
        count = tr__cold_newer(cold, records, count, since);
    if (status == TR_OK)
        status = tr__cold_read(cold, &(tr__cold_reading){records, count, NULL, NULL, each, payload, true});
    free(records);
    return status;
}
