/* row_file_write.c - writes a file of rows: values as they come, then keys and index, and the header last. */
#include "framework/base/memory.h"
#include "storage/table/row_file.h"
#include "storage/util/crc32c.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tr_row_writer {
    FILE           *out;
    char           *path;
    tr_table_config config;
    uint32_t        first_shard, shard_count;
    int64_t        *key;              /* keys of the rows so far */
    uint64_t        rows, capacity;
    uint64_t        at;               /* bytes written so far */
    uint32_t       *sum;              /* checksums of the chunks so far */
    uint64_t        chunks, sum_capacity;
};

/* Let the checksums cover further bytes. The header, which is written last, has its own. */
static void cover(tr_row_writer *w, const char *data, uint64_t bytes)
{
    while (bytes) {
        const uint64_t chunk = w->at / TR_ROW_FILE_CHUNK, room = (chunk + 1) * TR_ROW_FILE_CHUNK - w->at;
        const uint64_t part = bytes < room ? bytes : room;
        if (chunk == w->sum_capacity) {
            w->sum_capacity = w->sum_capacity ? 2 * w->sum_capacity : 64;
            w->sum = tr__must_realloc(w->sum, w->sum_capacity * sizeof *w->sum);
        }
        const uint32_t before = chunk < w->chunks ? w->sum[chunk] : 0;
        w->sum[chunk] = tr_crc32c(before, data, part);
        w->chunks = chunk + 1;
        w->at += part;
        data += part;
        bytes -= part;
    }
}

static tr_status put(tr_row_writer *w, const void *data, uint64_t bytes)
{
    cover(w, data, bytes);
    if (bytes == 0 || fwrite(data, bytes, 1, w->out) == 1)
        return TR_OK;
    return tr_fail(TR_EIO, "cannot write '%s': %s", w->path, strerror(errno));
}

static tr_status align(tr_row_writer *w)
{
    static const char zeros[TR_ROW_FILE_ALIGN];

    return put(w, zeros, (TR_ROW_FILE_ALIGN - w->at % TR_ROW_FILE_ALIGN) % TR_ROW_FILE_ALIGN);
}

tr_status tr_row_writer_open(tr_row_writer **out, const char *path, const tr_table_config *config, uint32_t first_shard,
                             uint32_t shard_count)
{
    static const tr_row_file_head nothing;

    TR_TRY(tr_table_check_config(config));
    FILE *file = fopen(path, "wbe");
    if (!file)
        return tr_fail(TR_EIO, "cannot write '%s': %s", path, strerror(errno));
    tr_row_writer *w = tr__must_alloc(sizeof *w);
    w->out = file;
    w->path = tr__must_strdup(path);
    w->config = *config;
    w->first_shard = first_shard;
    w->shard_count = shard_count;
    const tr_status status = put(w, &nothing, sizeof nothing);
    w->chunks = 0;                    /* the checksum of the first chunk begins after the header */
    if (status != TR_OK)
        return tr_row_writer_close(w, status, NULL);
    *out = w;
    return TR_OK;
}

static tr_status add_key(tr_row_writer *w, int64_t key)
{
    if (w->rows == UINT32_MAX - 1)
        return tr_fail(TR_ERANGE, "'%s': a file has at most %u rows", w->path, UINT32_MAX - 1);
    if (w->rows == w->capacity) {
        w->capacity = w->capacity ? 2 * w->capacity : 1024;
        int64_t *more = realloc(w->key, w->capacity * sizeof *more);
        if (!more)
            return tr_fail(TR_ENOMEM, "no memory for the keys of %llu rows", (unsigned long long)w->capacity);
        w->key = more;
    }
    w->key[w->rows++] = key;
    return TR_OK;
}

tr_status tr_row_writer_add(tr_row_writer *writer, const void *packed, uint64_t bytes)
{
    const uint64_t stride = tr_table_stride(&writer->config), row_bytes = (uint64_t)tr_table_row_bytes(&writer->config);
    const char    *row = packed;

    if (bytes % stride)
        return tr_fail(TR_EFORMAT, "'%s': %llu bytes are no rows of %llu", writer->path, (unsigned long long)bytes,
                       (unsigned long long)stride);
    for (uint64_t at = 0; at < bytes; at += stride) {
        int64_t key;
        memcpy(&key, row + at, sizeof key);
        TR_TRY(add_key(writer, key));
        TR_TRY(put(writer, row + at + sizeof(tr_slot_row), row_bytes));
    }
    return TR_OK;
}

/* At least two entries for each row, so that searches are short. */
static tr_status put_index(tr_row_writer *w, uint64_t *entries)
{
    *entries = 0;
    if (w->rows == 0)
        return TR_OK;
    for (*entries = 2; *entries < 2 * w->rows; *entries *= 2)
        continue;
    uint32_t *index = calloc(*entries, sizeof *index);
    if (!index)
        return tr_fail(TR_ENOMEM, "no memory for an index of %llu rows", (unsigned long long)w->rows);
    for (uint64_t row = 0; row < w->rows; row++) {
        uint64_t at = tr_row_file_home(w->key[row], *entries);
        while (index[at])
            at = (at + 1) & (*entries - 1);
        index[at] = (uint32_t)row + 1;
    }
    const tr_status status = put(w, index, *entries * sizeof *index);
    free(index);
    return status;
}

static tr_status put_sums(tr_row_writer *w, tr_row_file_head *head)
{
    const uint64_t bytes = w->chunks * sizeof *w->sum;

    head->sums_at = w->at;
    head->sums_crc = tr_crc32c(0, w->sum, bytes);
    head->chunk = TR_ROW_FILE_CHUNK;
    head->bytes = w->at + bytes;
    if (bytes == 0 || fwrite(w->sum, bytes, 1, w->out) == 1)
        return TR_OK;
    return tr_fail(TR_EIO, "cannot write '%s': %s", w->path, strerror(errno));
}

static tr_status put_head(tr_row_writer *w, uint64_t keys_at, uint64_t index_at, uint64_t entries)
{
    const tr_table_config *c = &w->config;
    const bool             is_part = w->shard_count < TR_SHARDS;
    const size_t           covered = offsetof(tr_row_file_head, dtype);
    tr_row_file_head       head = {.version = is_part ? TR_ROW_FILE_VERSION : TR_ROW_FILE_VERSION - 1,
                                   .dtype = (uint32_t)c->dtype,
                                   .init = (uint32_t)c->init,
                                   .width = (uint64_t)c->width,
                                   .a = c->a,
                                   .b = c->b,
                                   .random_key = c->random_key,
                                   .entry_count = c->entry_count,
                                   .first_shard = is_part ? (uint16_t)w->first_shard : 0,
                                   .shard_count = is_part ? (uint16_t)w->shard_count : 0,
                                   .entry_probability = c->entry_probability,
                                   .rows = w->rows,
                                   .entries = entries,
                                   .keys_at = keys_at,
                                   .index_at = index_at};

    TR_TRY(put_sums(w, &head));
    memcpy(head.magic, "TRIREROW", sizeof head.magic);
    head.crc = tr_crc32c(0, (const char *)&head + covered, sizeof head - covered);
    if (fseek(w->out, 0, SEEK_SET) || fwrite(&head, sizeof head, 1, w->out) != 1)
        return tr_fail(TR_EIO, "cannot write '%s': %s", w->path, strerror(errno));
    return TR_OK;
}

static tr_status finish(tr_row_writer *w)
{
    uint64_t entries;

    TR_TRY(align(w));
    const uint64_t keys_at = w->at;
    TR_TRY(put(w, w->key, w->rows * sizeof *w->key));
    TR_TRY(align(w));
    const uint64_t index_at = w->at;
    TR_TRY(put_index(w, &entries));
    TR_TRY(align(w));
    return put_head(w, keys_at, index_at, entries);
}

tr_status tr_row_writer_close(tr_row_writer *writer, tr_status status, uint64_t *rows)
{
    if (status == TR_OK)
        status = finish(writer);
    if (fclose(writer->out) && status == TR_OK)
        status = tr_fail(TR_EIO, "cannot write '%s': %s", writer->path, strerror(errno));
    if (status != TR_OK)
        unlink(writer->path);
    else if (rows)
        *rows = writer->rows;
    free(writer->key);
    free(writer->sum);
    free(writer->path);
    free(writer);
    return status;
}
