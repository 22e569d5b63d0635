/* cold_state.h - the inside of cold rows, shared by cold.c (life, blocks of the file), cold_attach.c, cold_file.c, cold_read.c,
 * cold_write.c, cold_ages.c, cold_ahead.c and cold_snapshot.c. */
#pragma once

#include "storage/cold/cold.h"
#include "storage/cold/file_reads.h"

#include <pthread.h>

enum { TR__COLD_PAGE = 4096 };        /* reads and writes that pass the page cache by begin and end at multiples of it */
#define TR__COLD_NONE UINT32_MAX      /* no block */

/* On disk, before the row. */
typedef struct tr__cold_head {
    uint32_t crc;                     /* CRC-32C of the record after this field */
    uint32_t record;
} tr__cold_head;

/* What the index keeps for the next process. */
typedef struct tr__cold_notes {
    uint64_t id, record_bytes, block_bytes;
    uint64_t is_complete;
    uint64_t is_moving;               /* the row of this key is moving between memory and this record */
    int64_t  key;
    uint32_t record;
    uint32_t is_clearing;             /* all entries are being removed */
    uint64_t has_ages;
} tr__cold_notes;

typedef struct tr__cold_age {
    uint32_t mark, last;
} tr__cold_age;

typedef struct tr__cold_block {
    uint32_t live;                    /* records that are indexed or held */
    bool     is_used;                 /* else it is free */
    bool     is_old;                  /* a snapshot that is being read may need its records */
    uint32_t newest;                  /* no record is of a row that was touched later; UINT32_MAX: unknown */
    uint32_t life;                    /* counts how often the block became free: what was read of it before is of no use */
} tr__cold_block;

/* Records of a shard that were indexed when the snapshot began, and have been taken since. */
typedef struct tr__cold_taken {
    uint32_t *records;
    uint64_t  count, capacity;
    bool      is_read;                /* the shard was read: remember nothing more */
} tr__cold_taken;

typedef struct tr__cold_sorted tr__cold_sorted;

/* How far the reader of a snapshot has come. */
typedef enum tr__cold_sorting {
    TR__COLD_FRESH,
    TR__COLD_BEGUN,                   /* or it has failed */
    TR__COLD_SORTED,
} tr__cold_sorting;

typedef struct tr__cold_snapshot {
    pthread_mutex_t lock;             /* held while the index changes, and while the reader lists a shard */
    tr__cold_taken  shard[TR_SHARDS];
    bool            is_lost;          /* there was no memory to remember a record */
    uint32_t        blocks;           /* of the file at that moment */
    tr__cold_sorted *sorted;          /* its rows, as far as the reader has put them there */
    tr__cold_sorting sorting;
} tr__cold_snapshot;

struct tr_cold {
    tr_cold_config     config;
    char              *folder, *name;
    uint64_t           id;            /* of this file; checksums begin with it */
    int                file;
    pid_t              pid;           /* a forked child shares the file, and must not use it */
    tr_tag_index      *index;
    tr_segment        *ages;          /* a tr__cold_age of each record of the file; NULL: none are kept */
    uint64_t           record_bytes, block_bytes;
    uint32_t           per_block;     /* records of a block */
    tr__cold_block    *block;
    uint32_t           blocks, block_capacity;      /* blocks of the file */
    uint32_t          *free;          /* numbers of free blocks */
    uint32_t           free_count;
    uint32_t           tail, filled;  /* the block to which rows are appended, and its records; TR__COLD_NONE: a new one is begun */
    char              *tail_bytes;    /* its contents, aligned to a page */
    tr_tag_candidate  *found;         /* memory of look-ups */
    uint64_t           found_capacity;
    tr__cold_snapshot *snapshot;      /* while it is read; else NULL */
    struct tr__cold_ahead *ahead;     /* records that are read before they are needed; NULL: never one */
    tr_cold_report     report;        /* what has happened */
};

static inline uint32_t tr__cold_block_of(const tr_cold *cold, uint32_t record)
{
    return record / cold->per_block;
}

/* The file begins with a page of its own. */
static inline uint64_t tr__cold_block_place(const tr_cold *cold, uint32_t block)
{
    return TR__COLD_PAGE + (uint64_t)block * cold->block_bytes;
}

static inline uint64_t tr__cold_place(const tr_cold *cold, uint32_t record)
{
    return tr__cold_block_place(cold, tr__cold_block_of(cold, record)) + record % cold->per_block * cold->record_bytes;
}

static inline tr__cold_notes *tr__cold_notes_of(const tr_cold *cold)
{
    return tr_tag_index_notes(cold->index);
}

/* TR_EUNSUPPORTED: this is a forked child of the process that has the rows. */
tr_status tr__cold_check_process(const tr_cold *cold);
/* Blocks have so many bytes, or more for long rows, and the tail has memory. */
tr_status tr__cold_size_blocks(tr_cold *cold, uint64_t wanted);
/* Room to count the records of so many blocks. */
tr_status tr__cold_reserve_blocks(tr_cold *cold, uint32_t blocks);
/* Read a block into memory that is aligned to a page. */
tr_status tr__cold_read_block(const tr_cold *cold, uint32_t block, char *bytes);
/* Write bytes that are aligned to a page. */
tr_status tr__cold_write_at(tr_cold *cold, int file, const char *from, uint64_t bytes, uint64_t at);
/* Begin a new block at the tail. */
tr_status tr__cold_begin_block(tr_cold *cold);
/* A block without live records becomes free. */
void      tr__cold_free_block(tr_cold *cold, uint32_t block);
/* Drop the records from a list whose rows no update after `since` can have touched; 0: none. Returns how many are left. */
uint64_t  tr__cold_newer(const tr_cold *cold, uint32_t *records, uint64_t count, uint32_t since);
/* Make a record of a row. */
void      tr__cold_lay(const tr_cold *cold, char *to, uint32_t record, const tr_slot_row *row);
/* The checksum of a record with its head. */
uint32_t  tr__cold_checksum(const tr_cold *cold, const char *bytes);
/* Check a record that was read. */
tr_status tr__cold_check_record(const tr_cold *cold, uint32_t record, const char *bytes);
/* Read records, in any order, and call `each` for those that `wants` wants (NULL: all). */
typedef bool (*tr__cold_wants_fn)(void *payload, uint64_t at, const tr_slot_row *row);
typedef struct tr__cold_reading {
    const uint32_t   *records;
    uint64_t          count;
    tr__cold_wants_fn wants;
    void             *wants_payload;
    tr_cold_row_fn    each;
    void             *payload;
    bool              is_quiet;       /* not counted as look-ups, and few at a time */
} tr__cold_reading;
tr_status tr__cold_read(tr_cold *cold, const tr__cold_reading *what);

/* The piece of the file that has a record. */
tr_file_read tr__cold_piece(const tr_cold *cold, uint32_t record, char *to);
/* Count reads of records for the report. */
void      tr__cold_count_reads(tr_cold *cold, const tr_file_read *reads, int64_t count);
/* Order tr_tag_candidates by their records, for qsort. */
int       tr__cold_by_record(const void *a, const void *b);

/* -- cold_sorted.c -- */

tr_status tr__cold_sorted_new(tr__cold_sorted **out, const tr_cold *cold);
void      tr__cold_sorted_free(tr__cold_sorted *sorted);
/* Add rows of one shard. */
tr_status tr__cold_sorted_put(tr_cold *cold, tr__cold_sorted *sorted, uint32_t shard, const void *rows, uint64_t bytes);
/* Add the records whose bits are set, which lie in the first blocks of the file. After this no row is added. */
tr_status tr__cold_sort(tr_cold *cold, tr__cold_sorted *sorted, const uint64_t *wanted, uint32_t blocks);
/* Call `each` for the rows of one shard. */
tr_status tr__cold_sorted_each(const tr_cold *cold, const tr__cold_sorted *sorted, uint32_t shard, tr_cold_row_fn each, void *payload);

/* -- cold_snapshot.c -- */

/* A record that is being taken out of the index: the reader has to find it if it has not read the shard yet. The lock is held. */
void      tr__cold_remember(tr_cold *cold, uint32_t shard, uint32_t record);
/* Remove all entries from the index. The reader finds the records of its moment. */
void      tr__cold_snapshot_clear(tr_cold *cold);

/* -- cold_ages.c -- */

/* Attach to the ages that the notes say there are, or begin to keep them if the configuration says so. */
tr_status tr__cold_open_ages(tr_cold *cold);
/* Room for the ages of all blocks, if they are kept. */
tr_status tr__cold_reserve_ages(tr_cold *cold, uint64_t blocks);
void      tr__cold_remove_ages(const char *name);

static inline void tr__cold_note_age(const tr_cold *cold, uint32_t record, const tr_slot_row *row)
{
    if (cold->ages)
        ((tr__cold_age *)tr_segment_base(cold->ages))[record] = (tr__cold_age){row->mark, row->last};
}

/* -- cold_ahead.c -- */

void      tr__cold_ahead_free(tr_cold *cold);
/* If one of these records is being read ahead, wait for all that are. */
void      tr__cold_ahead_settle(tr_cold *cold, const uint32_t *records, uint64_t count);
/* The bytes of a record that was read ahead, which are given once and are there until tr_cold_expect is called again; NULL: it was not. */
const char *tr__cold_ahead_take(tr_cold *cold, uint32_t record);

/* -- cold_attach.c -- */

/* The name of the index's segments; NULL without a name. */
const char *tr__cold_index_name(char out[TR_SEGMENT_NAME], const char *name);
void      tr__cold_put_notes(tr_cold *cold);
/* Attach to the index and the file, and count what is live. */
tr_status tr__cold_go_on(tr_cold *cold);
/* Remove all entries; a kill amid it is noticed. */
void      tr__cold_clear_index(tr_cold *cold);

/* -- cold_file.c -- */

tr_status tr__cold_make_file(tr_cold *cold);
/* Make another file in the folder, which ends when it is closed. */
tr_status tr__cold_open_nameless(int *out, const tr_cold *cold);
/* Open the file that has cold->id, and count its blocks. */
tr_status tr__cold_find_file(tr_cold *cold, uint64_t *blocks);
void      tr__cold_remove_file(const char *name);
