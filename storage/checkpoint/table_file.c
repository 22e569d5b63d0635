#include "storage/checkpoint/table_file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/stores/object_store.h"
#include "storage/table/row_file.h"
#include "storage/util/crc32c.h"

enum { COUNT_DIGITS = 20, BLOCK = 1 << 20 };

/* Another process has made the folder. A host that does not see it must not make one of its own. */
static tr_status check_folder(const char *path)
{
    const char *name = strrchr(path, '/');

    if (tr_store_is_uri(path))
        return TR_OK;
    if (!name || *path != '/')
        return tr_fail(TR_EINVAL, "a table's file '%s' is no URI and does not begin with '/'", path);
    char     *folder = tr__must_format("%.*s/", (int)(name - path), path);
    tr_status status = access(folder, F_OK) ? tr_fail(TR_ENOTFOUND, "there is no folder '%s'", folder) : TR_OK;
    free(folder);
    return status;
}

/* == rows for NumPy ============================================================================== */

static tr_status put_head(const tr_place *place, tr_new_file *to, const tr_table_file *file)
{
    char  count[COUNT_DIGITS + 1];
    char *head = tr__must_bytes((size_t)file->head_bytes);

    memcpy(head, file->head, (size_t)file->head_bytes);
    snprintf(count, sizeof count, "%*llu", COUNT_DIGITS, (unsigned long long)file->rows);
    memcpy(head + file->count_at, count, COUNT_DIGITS);
    const tr_status status = place->write(to, head, (size_t)file->head_bytes);
    free(head);
    return status;
}

static tr_status write_with_head(const tr_table_file *file, const void *packed, uint64_t bytes)
{
    const tr_place *place = tr_place_of(file->path);
    tr_new_file    *to;

    if (file->count_at < 0 || file->count_at > file->head_bytes - COUNT_DIGITS)
        return tr_fail(TR_EINVAL, "the head of '%s' has no room for the number of rows", file->path);
    TR_TRY(place->create(&to, file->path));
    tr_status status = put_head(place, to, file);
    if (status == TR_OK && bytes)
        status = place->write(to, packed, bytes);
    return place->finish(to, status);
}

/* == rows for serving ============================================================================ */

static tr_status write_local(const char *path, const tr_table_file *file, const tr_table_config *config, const void *packed, uint64_t bytes)
{
    tr_row_writer *writer;

    TR_TRY(tr_row_writer_open(&writer, path, config, (uint32_t)file->shard, (uint32_t)file->shards));
    return tr_row_writer_close(writer, tr_row_writer_add(writer, packed, bytes), NULL);
}

static tr_status copy(const tr_place *place, tr_new_file *to, const char *path)
{
    FILE     *from = fopen(path, "rbe");
    char     *block = tr__must_bytes(BLOCK);
    tr_status status = from ? TR_OK : tr_fail(TR_EIO, "cannot read '%s': %s", path, strerror(errno));

    for (size_t got = 1; status == TR_OK && got;) {
        got = fread(block, 1, BLOCK, from);
        status = ferror(from) ? tr_fail(TR_EIO, "cannot read '%s': %s", path, strerror(errno)) : TR_OK;
        if (status == TR_OK && got)
            status = place->write(to, block, got);
    }
    if (from)
        fclose(from);
    free(block);
    return status;
}

/* A file for serving has its header first, which is known last. So it is written here, and uploaded. */
static tr_status upload(const char *local, const tr_table_file *file)
{
    const tr_place *place = tr_place_of(file->path);
    tr_new_file    *to;

    TR_TRY(place->create(&to, file->path));
    return place->finish(to, copy(place, to, local));
}

static tr_status write_for_serving(const tr_table_file *file, const tr_table_config *config, const void *packed, uint64_t bytes)
{
    if (!tr_store_is_uri(file->path))
        return write_local(file->path, file, config, packed, bytes);
    char     *local = tr__must_strdup(P_tmpdir "/trireme-rows-XXXXXX");
    const int made = mkstemp(local);
    tr_status status = made >= 0 ? TR_OK : tr_fail(TR_EIO, "cannot write '%s': %s", local, strerror(errno));
    if (status == TR_OK) {
        close(made);
        status = write_local(local, file, config, packed, bytes);
        if (status == TR_OK)
            status = upload(local, file);
        unlink(local);
    }
    free(local);
    return status;
}

uint32_t tr_table_file_last(const void *packed, uint64_t bytes, uint64_t stride)
{
    uint32_t newest = 0;

    for (uint64_t at = 0; at < bytes; at += stride) {
        const tr_slot_row *row = (const tr_slot_row *)(const void *)((const char *)packed + at);
        newest = row->last > newest ? row->last : newest;
    }
    return newest;
}

tr_status tr_table_file_write(tr_table_file *file, const tr_table_config *config, const void *packed, uint64_t bytes)
{
    const uint64_t stride = tr_table_stride(config);

    TR_TRY(check_folder(file->path));
    file->rows = (int64_t)(bytes / stride);
    file->crc = tr_crc32c(0, packed, bytes);
    file->last = tr_table_file_last(packed, bytes, stride);
    return file->head ? write_with_head(file, packed, bytes) : write_for_serving(file, config, packed, bytes);
}

/* == reading ===================================================================================== */

/* Rows on their way from a file. */
typedef struct reading {
    const tr_table_file *file;
    const tr_place      *place;
    tr_range            *range;
    uint64_t             stride;
    uint32_t             first, count, crc;
    char                *kept;        /* room for all rows of the file; what is not written to takes no memory */
    uint64_t             kept_bytes;
} reading;

static tr_status check_size(const reading *r)
{
    const tr_table_file *file = r->file;
    uint64_t             size;

    TR_TRY(r->place->look(&size, NULL, file->path));
    const uint64_t behind = size - (uint64_t)file->head_bytes;
    if (file->head_bytes >= 0 && (uint64_t)file->head_bytes <= size && file->rows >= 0 && behind / r->stride == (uint64_t)file->rows &&
        behind % r->stride == 0)
        return TR_OK;
    return tr_fail(TR_EFORMAT, "'%s' is damaged: it has %llu bytes, expected are %lld rows of %llu behind %lld bytes", file->path,
                   (unsigned long long)size, (long long)file->rows, (unsigned long long)r->stride, (long long)file->head_bytes);
}

/* Of `rows` rows behind those that are kept, keep those of the wanted shards. */
static void keep(reading *r, uint64_t rows)
{
    const char *row = r->kept + r->kept_bytes;
    int64_t     key;

    for (uint64_t i = 0; i < rows; i++, row += r->stride) {
        char *to = r->kept + r->kept_bytes;
        memcpy(&key, row, sizeof key);
        if (tr_slots_shard(key) - r->first >= r->count)
            continue;
        if (to != row)
            memmove(to, row, r->stride);
        r->kept_bytes += r->stride;
    }
}

static tr_status read_rows(reading *r)
{
    const uint64_t most = r->stride < BLOCK ? BLOCK / r->stride : 1;

    for (uint64_t left = (uint64_t)r->file->rows, rows; left; left -= rows) {
        rows = left < most ? left : most;
        TR_TRY(r->place->read(r->range, r->kept + r->kept_bytes, rows * r->stride));
        r->crc = tr_crc32c(r->crc, r->kept + r->kept_bytes, rows * r->stride);
        keep(r, rows);
    }
    if (r->file->crc >= 0 && (uint32_t)r->file->crc != r->crc)
        return tr_fail(TR_EFORMAT, "'%s' is damaged: the checksum of its rows is %08x, expected is %08x", r->file->path, r->crc,
                       (uint32_t)r->file->crc);
    return TR_OK;
}

static tr_status open_and_read(reading *r)
{
    const tr_table_file *file = r->file;
    const uint64_t       bytes = (uint64_t)file->rows * r->stride;

    TR_TRY(check_size(r));
    r->kept = tr__array_alloc(bytes);
    if (!r->kept)
        return tr_fail(TR_ENOMEM, "no memory for the %llu bytes of rows of '%s'", (unsigned long long)bytes, file->path);
    TR_TRY(r->place->open(&r->range, file->path, (uint64_t)file->head_bytes, (uint64_t)file->head_bytes + bytes));
    const tr_status status = read_rows(r);
    r->place->close(r->range);
    return status;
}

tr_status tr_table_file_read(void **packed, uint64_t *bytes, const tr_table_file *file, const tr_table_config *config, uint32_t first,
                             uint32_t count)
{
    reading r = {.file = file, .place = tr_place_of(file->path), .stride = tr_table_stride(config), .first = first, .count = count};

    const tr_status status = open_and_read(&r);
    if (status != TR_OK) {
        free(r.kept);
        return status == TR_ENOTFOUND ? tr_fail(status, "'%s' cannot be opened: there is no such file", file->path) : status;
    }
    *packed = r.kept;
    *bytes = r.kept_bytes;
    return TR_OK;
}
