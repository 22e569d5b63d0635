/* cold_ahead.c - records that are read before they are needed.
 *
 * They lie in cells, of which there is a bounded number. The number of a record says in which WAYS cells it may lie. One of these is
 * chosen that is empty. If none is, the record goes that was announced the longest time ago and has not been looked up since. A record
 * that finds no cell is read when it is needed.
 *
 * What must stay true: only the owner's thread looks at cells. The thread of file_reads.h writes bytes of cells that are READING, and nobody
 * uses these cells otherwise until all reads of their batch are done. A record never changes while its block lives, so what was read of it
 * is right as long as its block has the same life. */
#include "storage/cold/cold_state.h"

#include <stdlib.h>
#include <string.h>

enum { WAYS = 8 };

enum { EMPTY, READING, HERE };

typedef struct cell {
    uint32_t record, life;            /* and the life of its block */
    uint32_t round;                   /* the call that asked for it */
    uint32_t state;
} cell;

/* Reads of one call. */
typedef struct batch {
    struct batch *next;
    tr_file_reads reads;
    cell        **cell;               /* of each read */
} batch;

typedef struct tr__cold_ahead {
    cell    *cells;
    char    *bytes;                   /* of each cell: its record */
    uint64_t count;                   /* of cells, WAYS times a power of two */
    uint64_t used;                    /* cells that are not empty */
    uint32_t round;
    batch   *under_way;
} ahead;

static cell *first_cell(const ahead *a, uint32_t record)
{
    return a->cells + (record * UINT64_C(0x9E3779B97F4A7C15) >> 32) % (a->count / WAYS) * WAYS;
}

static char *bytes_of(const tr_cold *cold, const cell *c)
{
    return cold->ahead->bytes + (uint64_t)(c - cold->ahead->cells) * cold->record_bytes;
}

static uint32_t life_of(const tr_cold *cold, uint32_t record)
{
    return cold->block[tr__cold_block_of(cold, record)].life;
}

/* == life of batches =============================================================================== */

static void set_state(ahead *a, cell *c, uint32_t state)
{
    a->used += (uint64_t)(state != EMPTY) - (c->state != EMPTY);
    c->state = state;
}

static void free_batch(batch *b)
{
    free((void *)(uintptr_t)b->reads.reads);
    free(b->cell);
    free(b);
}

/* What a failed read has left is not used: the look-up reads again, and says what is wrong. */
static void end_batch(ahead *a, batch *b)
{
    for (int64_t i = 0; i < b->reads.count; i++)
        set_state(a, b->cell[i], b->reads.error ? EMPTY : HERE);
    free_batch(b);
}

/* End the batches whose reads are done; `waits`: all. */
static void end_batches(const tr_cold *cold, bool waits)
{
    ahead *a = cold->ahead;

    for (batch **at = &a->under_way; *at;) {
        batch *b = *at;
        if (waits)
            (void)tr_file_reads_wait(&b->reads);
        if (waits || tr_file_reads_are_done(&b->reads)) {
            *at = b->next;
            end_batch(a, b);
        } else {
            at = &b->next;
        }
    }
}

void tr__cold_ahead_free(tr_cold *cold)
{
    ahead *a = cold->ahead;

    if (!a)
        return;
    if (tr__cold_check_process(cold) == TR_OK)         /* a forked child has no reads under way */
        end_batches(cold, true);
    free(a->cells);
    free(a->bytes);
    free(a);
    cold->ahead = NULL;
}

/* == cells ========================================================================================= */

static cell *find(const tr_cold *cold, uint32_t record)
{
    if (!cold->ahead || !cold->ahead->count)
        return NULL;
    cell *c = first_cell(cold->ahead, record);
    for (int i = 0; i < WAYS; i++)
        if (c[i].state != EMPTY && c[i].record == record && c[i].life == life_of(cold, record))
            return &c[i];
    return NULL;
}

/* A cell for a record that has none; NULL: all are in use. */
static cell *choose(const ahead *a, uint32_t record)
{
    cell *c = first_cell(a, record), *best = NULL;

    for (int i = 0; i < WAYS; i++) {
        if (c[i].state == EMPTY)
            return &c[i];
        if (c[i].state == HERE && c[i].round != a->round && (!best || a->round - c[i].round > a->round - best->round))
            best = &c[i];
    }
    return best;
}

/* Cells for so many more records, if there is memory. What is here is kept. */
static void reserve(tr_cold *cold, uint64_t more)
{
    enum { MEMORY = 32 << 20, LEAST = 256, SPARE = 4 };
    ahead         *a = cold->ahead;
    const uint64_t wanted = SPARE * (a->used + more + LEAST), most = MEMORY / (cold->record_bytes + sizeof *a->cells);
    uint64_t       count = a->count ? a->count : WAYS;

    while (count < wanted && 2 * count <= most)
        count *= 2;
    if (count == a->count || count > most || a->under_way)
        return;
    ahead grown = {calloc(count, sizeof *a->cells), malloc(count * cold->record_bytes), count, 0, a->round, NULL};
    if (!grown.cells || !grown.bytes) {
        free(grown.cells);
        free(grown.bytes);
        return;
    }
    for (uint64_t i = 0; i < a->count; i++) {
        const cell *from = &a->cells[i];
        cell       *to = from->state == HERE ? choose(&grown, from->record) : NULL;
        if (!to)
            continue;
        memcpy(grown.bytes + (uint64_t)(to - grown.cells) * cold->record_bytes, bytes_of(cold, from), cold->record_bytes);
        grown.used++;
        *to = *from;
    }
    free(a->cells);
    free(a->bytes);
    *a = grown;
}

/* == reading ahead ================================================================================= */

/* Choose cells for the records of the candidates that have none yet. */
static int64_t choose_cells(tr_cold *cold, uint64_t found, tr_file_read *reads, cell **cells)
{
    ahead  *a = cold->ahead;
    int64_t count = 0;

    for (uint64_t i = 0; i < found; i++) {
        const uint32_t record = cold->found[i].record;
        cell          *c = find(cold, record);
        if (c)
            c->round = a->round;
        if (c || !(c = choose(a, record)))
            continue;
        set_state(a, c, READING);
        c->record = record;
        c->life = life_of(cold, record);
        c->round = a->round;
        reads[count] = tr__cold_piece(cold, record, bytes_of(cold, c));
        cells[count++] = c;
    }
    return count;
}

static tr_status begin_batch(tr_cold *cold, uint64_t found)
{
    batch        *b = calloc(1, sizeof *b);
    tr_file_read *reads = malloc(found * sizeof *reads);
    cell        **cells = malloc(found * sizeof *cells);

    if (!b || !reads || !cells) {
        free(b);
        free(reads);
        free(cells);
        return tr_fail(TR_ENOMEM, "cold rows: no memory to read %llu records", (unsigned long long)found);
    }
    *b = (batch){cold->ahead->under_way, {.file = cold->file, .reads = reads, .count = choose_cells(cold, found, reads, cells)}, cells};
    if (!b->reads.count) {
        free_batch(b);
        return TR_OK;
    }
    cold->ahead->under_way = b;
    tr__cold_count_reads(cold, reads, b->reads.count);
    tr_file_reads_begin(&b->reads);
    return TR_OK;
}

tr_status tr_cold_expect(tr_cold *cold, const int64_t *keys, const uint32_t *slots, int64_t n)
{
    uint64_t found = 0;

    TR_TRY(tr__cold_check_process(cold));
    if (!tr_cold_count(cold))
        return TR_OK;
    if (!cold->ahead && !(cold->ahead = calloc(1, sizeof *cold->ahead)))
        return tr_fail(TR_ENOMEM, "cold rows: no memory");
    cold->ahead->round++;
    end_batches(cold, false);
    TR_TRY(tr_tag_index_find(&cold->found, &cold->found_capacity, &found, cold->index, keys, slots, n));
    if (!found)
        return TR_OK;
    reserve(cold, found);
    if (!cold->ahead->count)
        return TR_OK;
    qsort(cold->found, found, sizeof *cold->found, tr__cold_by_record);      /* neighbours on disk one after the other */
    return begin_batch(cold, found);
}

void tr__cold_ahead_settle(tr_cold *cold, const uint32_t *records, uint64_t count)
{
    if (!cold->ahead || !cold->ahead->under_way)
        return;
    end_batches(cold, false);
    for (uint64_t i = 0; i < count && cold->ahead->under_way; i++) {
        const cell *c = find(cold, records[i]);
        if (c && c->state == READING)
            end_batches(cold, true);
    }
}

const char *tr__cold_ahead_take(tr_cold *cold, uint32_t record)
{
    cell *c = find(cold, record);

    if (!c || c->state != HERE)
        return NULL;
    set_state(cold->ahead, c, EMPTY);
    return bytes_of(cold, c);
}
