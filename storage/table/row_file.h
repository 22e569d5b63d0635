/* row_file.h - the rows of a sparse table in a file for serving: values by key, without the optimizer's states.
 *
 * A reader maps the file and looks up keys in it. Nothing is read in advance, and processes of a host share the pages. The header
 * describes first values, so that a key without a row reads here what it reads in the table (docs/formats.md has the layout).
 *
 * What must stay true: a file never changes once a reader may know of it; its writer gives it its name at the end. A file may come from
 * a stranger. So every number of the header is checked when the file is opened, and every row's number when it is found. */
#ifndef TR_STORAGE_ROW_FILE_H
#define TR_STORAGE_ROW_FILE_H

#include "storage/table/table.h"

enum { TR_ROW_FILE_VERSION = 1, TR_ROW_FILE_ALIGN = 64 };

/* The first bytes of a file. Sections stand in this order: values, keys, index; each begins at a multiple of TR_ROW_FILE_ALIGN. */
typedef struct tr_row_file_head {
    char     magic[8];                /* "TRIREROW" */
    uint32_t version;
    uint32_t crc;                     /* CRC-32C of the header after this field */
    uint32_t dtype, init;
    uint64_t width;
    double   a, b;
    uint64_t random_key;
    uint32_t entry_count, zero;
    double   entry_probability;
    uint64_t rows;
    uint64_t entries;                 /* entries of the index: a power of two, or 0 if there are no rows */
    uint64_t keys_at, index_at;       /* offsets in bytes from the beginning */
    uint64_t bytes;                   /* size of the whole file */
    uint64_t padding[2];
} tr_row_file_head;

typedef struct tr_row_file tr_row_file;

/* Map a file. TR_EFORMAT: it is damaged, or no file of rows. */
tr_status tr_row_file_open(tr_row_file **out, const char *path);
void      tr_row_file_free(tr_row_file *file);
/* The configuration of rows and first values, with 0 states. */
const tr_table_config *tr_row_file_config(const tr_row_file *file);
/* The values of a key's row, in the table's type. NULL: the file has no row of this key. */
const void *tr_row_file_find(const tr_row_file *file, int64_t key);

/* The place in an index of `entries` entries where the search for a key begins. The search goes upwards, and from the end on to the
 * beginning. An entry is the number of a row, from 1; an entry 0 ends the search. */
uint64_t  tr_row_file_home(int64_t key, uint64_t entries);

typedef struct tr_row_writer tr_row_writer;

/* Begin a file for rows of a table of this configuration. On failure there is nothing to close. */
tr_status tr_row_writer_open(tr_row_writer **out, const char *path, const tr_table_config *config);
/* Add rows, packed as by tr_table_pack. No key may come twice. */
tr_status tr_row_writer_add(tr_row_writer *writer, const void *packed, uint64_t bytes);
/* Finish the file, if `status` is TR_OK; otherwise remove it. Returns the first failure. */
tr_status tr_row_writer_close(tr_row_writer *writer, tr_status status, uint64_t *rows);

#endif
