/* row_file.h - the rows of a sparse table in a file for serving: values by key, without the optimizer's states.
 *
 * A reader copies a small file, and maps a large one: processes of a host share its pages, and nothing is read in advance. The header
 * describes first values, so that a key without a row reads here what it reads in the table (docs/formats.md has the layout).
 *
 * A file should never change once a reader may know of it; its writer gives it its name at the end. A copied file may change all the same.
 * A mapped one is leased (lease.h), or else watched: see tr_row_file_is_intact. A file may come from a stranger. So every number of the
 * header is checked when the file is opened, and every row's number when it is found. Each TR_ROW_FILE_CHUNK of the file has a checksum:
 * those of a copied file are compared when it is opened, those of a mapped one when a chunk is first read. */
#pragma once

#include "storage/table/table.h"

enum {
    TR_ROW_FILE_VERSION = 3,          /* version 1 has no checksums but that of the header; version 2 has all shards */
    TR_ROW_FILE_ALIGN = 64,
    TR_ROW_FILE_CHUNK = 1 << 16,      /* bytes under one checksum */
    TR_ROW_FILE_COPIED = 64 << 20,    /* the largest file that is copied */
};

/* The first bytes of a file. Sections stand in this order: values, keys, index, checksums; each begins at a multiple of TR_ROW_FILE_ALIGN.
 * */
typedef struct tr_row_file_head {
    char     magic[8];                /* "TRIREROW" */
    uint32_t version;
    uint32_t crc;                     /* CRC-32C of the header after this field */
    uint32_t dtype, init;
    uint64_t width;
    double   a, b;
    uint64_t random_key;
    uint32_t entry_count;
    uint16_t first_shard, shard_count;    /* the virtual shards whose rows are here; 0 and 0: all (before version 3, too) */
    double   entry_probability;
    uint64_t rows;
    uint64_t entries;                 /* entries of the index: a power of two, or 0 if there are no rows */
    uint64_t keys_at, index_at;       /* offsets in bytes from the beginning */
    uint64_t bytes;                   /* size of the whole file */
    uint64_t sums_at;                 /* offset of the checksums, a u32 for each chunk of the bytes before them */
    uint32_t sums_crc, chunk;         /* CRC-32C of the checksums; TR_ROW_FILE_CHUNK */
} tr_row_file_head;

typedef struct tr_row_file tr_row_file;

/* Open a file: copy it if it has at most `most_copied` bytes, else map it. TR_EFORMAT: it is damaged, or no file of rows. */
tr_status tr_row_file_open(tr_row_file **out, const char *path, uint64_t most_copied);
void      tr_row_file_free(tr_row_file *file);
/* The configuration of rows and first values, with 0 states. */
const tr_table_config *tr_row_file_config(const tr_row_file *file);
/* The virtual shards whose rows are in the file. */
void                   tr_row_file_shards(const tr_row_file *file, uint32_t *first_shard, uint32_t *shard_count);
/* Whether the file is mapped. Then tr_row_file_find and the values that it finds are read in a guarded call (guard.h). */
bool      tr_row_file_is_mapped(const tr_row_file *file);
/* After values of a mapped file were read: TR_EIO if somebody has changed the file since it was opened and it could not be kept, so that
 * they may be other values. */
tr_status tr_row_file_is_intact(const tr_row_file *file);
/* The values of a key's row, in the table's type. NULL: the file has no row of this key. TR_EFORMAT: it is damaged where it was read. */
tr_status tr_row_file_find(const void **out, const tr_row_file *file, int64_t key);

/* The place in an index of `entries` entries where the search for a key begins. The search goes upwards, and from the end on to the
 * beginning. An entry is the number of a row, from 1; an entry 0 ends the search. */
uint64_t  tr_row_file_home(int64_t key, uint64_t entries);

typedef struct tr_row_writer tr_row_writer;

/* Begin a file for rows of some shards of a table of this configuration. On failure there is nothing to close. */
tr_status tr_row_writer_open(tr_row_writer **out, const char *path, const tr_table_config *config, uint32_t first_shard,
                             uint32_t shard_count);
/* Add rows, packed as by tr_table_pack. No key may come twice. */
tr_status tr_row_writer_add(tr_row_writer *writer, const void *packed, uint64_t bytes);
/* Finish the file, if `status` is TR_OK; otherwise remove it. Returns the first failure. */
tr_status tr_row_writer_close(tr_row_writer *writer, tr_status status, uint64_t *rows);
