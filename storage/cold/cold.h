/* cold.h - rows that lie on disk: records of one size in a file, and an index of them in memory.
 *
 * The file is a log of blocks of 1 MiB. Rows are appended, many at a time, and are never changed in their place. A block without live
 * records is free: its room goes back to the file system, and it is used again first. When less than half of the file is live, the live
 * records of the emptiest block are appended again (tr_cold_tidy). So the file has at most twice the bytes of the live records and some
 * blocks more.
 *
 * Without a name the file ends with the process. With a name it survives the process, as its index does, and another process attaches to
 * both (cold_attach.c).
 *
 * A record has a checksum, its number and the row. It is *indexed* when the index leads from its key to it. It is *held* when a row in
 * memory has the same contents: then nothing needs to be written if that row becomes cold again. All others are dead.
 *
 * Reads and writes pass the page cache by (O_DIRECT) where the file system can do so. Otherwise the cache would take as much memory
 * again, and it reads whole pages for each row anyway.
 *
 * Look-ups that come soon may be announced, and find their records read (cold_ahead.c).
 *
 * What must stay true: one thread makes all calls, except that another one may read the snapshot. The row of a key is in memory or
 * indexed here. It is both only between tr_cold_begin_move and tr_cold_end_move. */
#pragma once

#include "storage/slots/tag_index.h"

typedef struct tr_cold tr_cold;

typedef struct tr_cold_config {
    const char *name;                 /* of the file, and of the segments of its index; NULL: they end with the process */
    const char *folder;               /* of the file */
    uint64_t    stride;               /* bytes of a row, tr_slot_row and payload */
    uint32_t    first_shard, shard_count;
    uint64_t    block_bytes;          /* a multiple of 4096; 0: 1 MiB, or more for long rows */
    bool        keeps_ages;           /* tr_cold_ages_of_shard will be called */
} tr_cold_config;

/* What has happened since the beginning. */
typedef struct tr_cold_report {
    uint64_t rows;                    /* indexed records */
    uint64_t file_bytes;              /* of blocks in use */
    uint64_t index_bytes;             /* of the index and the ages */
    uint64_t reads, read_bytes;       /* of single records, for look-ups */
    uint64_t ahead;                   /* records that a look-up needed, and whose reads were begun before (tr_cold_expect) */
    uint64_t waited;                  /* nanoseconds that look-ups have waited for the disk */
    uint64_t written_bytes;           /* of rows and of records that were appended again */
    uint64_t tidied_bytes;            /* of these: appended again */
} tr_cold_report;

tr_status tr_cold_create(tr_cold **out, const tr_cold_config *config);
/* Attach to the index and the file of this name. TR_EFORMAT: they have other rows, do not belong together, or are damaged. */
tr_status tr_cold_attach(tr_cold **out, const tr_cold_config *config);
void      tr_cold_free(tr_cold *cold);
/* Remove the file and the segments of this name, as far as they exist. */
void      tr_cold_remove(const char *name);
void      tr_cold_get_report(const tr_cold *cold, tr_cold_report *report);
/* Bytes of memory that grow with the records: the index and the ages. */
uint64_t  tr_cold_memory(const tr_cold *cold);
/* The number of indexed records. */
uint64_t  tr_cold_count(const tr_cold *cold);
/* Forget all records. */
void      tr_cold_clear(tr_cold *cold);

/* -- reading -- */

typedef tr_status (*tr_cold_row_fn)(void *payload, uint32_t record, const tr_slot_row *row);

/* Read those of these keys that are indexed, and call `each` once for every row, which is valid during the call. Keys whose slot is not
 * TR_SLOT_NONE are skipped. `each` may take the row out (tr_cold_take). TR_EFORMAT: a record is damaged. */
tr_status tr_cold_fetch(tr_cold *cold, const int64_t *keys, const uint32_t *slots, int64_t n, tr_cold_row_fn each, void *payload);
/* Begin to read what tr_cold_fetch will want. Without this call, or without memory for so many, it reads the records itself. */
tr_status tr_cold_expect(tr_cold *cold, const int64_t *keys, const uint32_t *slots, int64_t n);
/* Call `each` for the rows of one shard. `since`: rows that no update after it has touched may be left out, and their blocks are not read;
 * 0: all. */
tr_status tr_cold_each_of_shard(tr_cold *cold, uint32_t shard, uint32_t since, tr_cold_row_fn each, void *payload);

/* -- ages: what memory has of each record besides the index, 8 bytes. They come and go with the records -- */

typedef struct tr_cold_age {
    uint32_t record, mark, last;      /* mark and last as in the row */
} tr_cold_age;

/* Keep ages from now on. The call reads all records, unless they were kept before. */
tr_status tr_cold_keep_ages(tr_cold *cold);
/* List the ages of one shard. *list is realloc'ed, *capacity is its size. */
tr_status tr_cold_ages_of_shard(tr_cold_age **list, uint64_t *capacity, uint64_t *count, const tr_cold *cold, uint32_t shard);
/* Read indexed records, and call `each` in their order. */
tr_status tr_cold_read(tr_cold *cold, const uint32_t *records, uint64_t count, tr_cold_row_fn each, void *payload);

/* -- rows come and go -- */

/* Append rows; out[i] is the record of row i, which is held. TR_EIO: the disk is full, or fails; none of them is kept. */
tr_status tr_cold_write(tr_cold *cold, uint32_t *out, const tr_slot_row *const *rows, int64_t n);
/* A held record is indexed from now on. TR_ENOMEM: nothing has changed. */
tr_status tr_cold_put(tr_cold *cold, int64_t key, uint32_t record);
/* An indexed record is held from now on. */
void      tr_cold_take(tr_cold *cold, int64_t key, uint32_t record);
/* A held record is dead from now on. */
void      tr_cold_drop(tr_cold *cold, uint32_t record);
/* A row moves between memory and disk: call the first before it is in both, the second when it is in one. One row at a time. */
void      tr_cold_begin_move(tr_cold *cold, int64_t key, uint32_t record);
void      tr_cold_end_move(tr_cold *cold);
/* After attaching: was a row moving when the process was killed? Call tr_cold_settle then, and say whether the row is in memory. */
bool      tr_cold_was_moving(const tr_cold *cold, int64_t *key);
void      tr_cold_settle(tr_cold *cold, bool is_hot);
/* May this held record be indexed again? Not one from before a snapshot that is being read. */
bool      tr_cold_may_put(const tr_cold *cold, uint32_t record);
/* Bound the file, some blocks in a call. Records that are held and not indexed may get lost: `lost` is called for each of them, and for some
 * that are dead. It returns whether the record was held. */
tr_status tr_cold_tidy(tr_cold *cold, bool (*lost)(void *payload, int64_t key, uint32_t record), void *payload);

/* -- a snapshot: the records that are indexed now, read by another thread while rows come and go -- */

tr_status tr_cold_snapshot_begin(tr_cold *cold);
/* The reader has finished. Without a snapshot the call does nothing. */
void      tr_cold_snapshot_end(tr_cold *cold);
/* By the reader: first it may put in rows of a shard that are not cold; then all cold rows are sorted by shards, in large pieces, which
 * needs as much room on the disk again; then it reads shards. `since`: as above. After a failure of the first two all reads of shards fail. */
tr_status tr_cold_snapshot_put(tr_cold *cold, uint32_t shard, const void *rows, uint64_t bytes);
tr_status tr_cold_snapshot_sort(tr_cold *cold, uint32_t since);
/* Has the reader done none of these so far? */
bool      tr_cold_snapshot_is_fresh(const tr_cold *cold);
tr_status tr_cold_snapshot_each(tr_cold *cold, uint32_t shard, tr_cold_row_fn each, void *payload);
