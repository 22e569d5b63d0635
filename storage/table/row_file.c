/* row_file.c - reads a mapped file of rows. */
#include "storage/table/row_file.h"

#include "framework/path.h"
#include "storage/util/crc32c.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

_Static_assert(sizeof(tr_row_file_head) == 128, "the header of a file of rows has no holes");

struct tr_row_file {
    const char     *data;             /* the mapped file */
    uint64_t        bytes;
    tr_table_config config;
    uint64_t        row_bytes, rows, mask;
    const int64_t  *key;
    const uint32_t *index;            /* NULL: there are no rows */
};

uint64_t tr_row_file_home(int64_t key, uint64_t entries)
{
    uint64_t x = (uint64_t)key;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (x ^ (x >> 31)) & (entries - 1);
}

static uint64_t aligned(uint64_t at)
{
    return (at + TR_ROW_FILE_ALIGN - 1) / TR_ROW_FILE_ALIGN * TR_ROW_FILE_ALIGN;
}

static tr_table_config config_of(const tr_row_file_head *head)
{
    return (tr_table_config){
        .dtype = (tr_dtype)head->dtype, .width = head->width > INT32_MAX ? -1 : (int64_t)head->width, .init = (tr_table_init)head->init,
        .a = head->a, .b = head->b, .random_key = head->random_key, .entry_count = head->entry_count,
        .entry_probability = head->entry_probability};
}

/* Check that the sections lie where the numbers of rows and values put them. */
static bool has_sections(const tr_row_file_head *h, uint64_t row_bytes, uint64_t bytes)
{
    const bool     is_power = h->entries && (h->entries & (h->entries - 1)) == 0;
    const uint64_t most = bytes / (row_bytes + sizeof(int64_t)) + 1;

    if (h->bytes != bytes || h->rows > most || h->entries > bytes / sizeof(uint32_t) || h->rows >= UINT32_MAX)
        return false;
    if (h->rows ? !is_power || h->entries <= h->rows : h->entries != 0)
        return false;
    return h->keys_at == aligned(sizeof *h + h->rows * row_bytes) && h->index_at == aligned(h->keys_at + h->rows * sizeof(int64_t)) &&
           bytes == h->index_at + h->entries * sizeof(uint32_t);
}

static tr_status check_head(tr_row_file *file, const char *path)
{
    tr_row_file_head head;
    const size_t     covered = offsetof(tr_row_file_head, dtype);

    if (file->bytes < sizeof head || memcmp(file->data, "TRIREROW", 8))
        return tr_fail(TR_EFORMAT, "'%s' is no file of a sparse table's rows", path);
    memcpy(&head, file->data, sizeof head);
    if (head.version != TR_ROW_FILE_VERSION)
        return tr_fail(TR_EFORMAT, "'%s' has rows in version %u of the format; this program reads version %d", path, head.version,
                       TR_ROW_FILE_VERSION);
    if (head.crc != tr_crc32c(0, file->data + covered, sizeof head - covered))
        return tr_fail(TR_EFORMAT, "'%s' is damaged: the checksum of its header is another one", path);
    file->config = config_of(&head);
    const tr_status status = tr_table_check_config(&file->config);
    if (status != TR_OK)
        return tr_fail(TR_EFORMAT, "'%s' is damaged: %s", path, tr_error());
    file->row_bytes = (uint64_t)tr_table_row_bytes(&file->config);
    if (!has_sections(&head, file->row_bytes, file->bytes))
        return tr_fail(TR_EFORMAT, "'%s' is damaged: %llu rows of %lld values do not make a file of %llu bytes", path,
                       (unsigned long long)head.rows, (long long)file->config.width, (unsigned long long)file->bytes);
    file->rows = head.rows;
    file->mask = head.entries ? head.entries - 1 : 0;
    file->key = (const int64_t *)(const void *)(file->data + head.keys_at);
    file->index = head.entries ? (const uint32_t *)(const void *)(file->data + head.index_at) : NULL;
    return TR_OK;
}

tr_status tr_row_file_open(tr_row_file **out, const char *path)
{
    tr_status    status = TR_OK;
    tr_row_file *file;
    int          fd = -1;
    uint64_t     bytes = 0;

    TR_TRY(tr_path_open(&fd, &bytes, path));
    void *data = bytes ? mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    close(fd);
    if (data == MAP_FAILED)
        return bytes ? tr_fail(TR_EIO, "cannot map '%s': %s", path, strerror(errno))
                     : tr_fail(TR_EFORMAT, "'%s' is no file of a sparse table's rows: it is empty", path);
    (void)madvise(data, bytes, MADV_RANDOM);           /* a lookup reads a few bytes at random places */
    file = calloc(1, sizeof *file);
    if (!file) {
        munmap(data, bytes);
        return tr_fail(TR_ENOMEM, "no memory for a file of rows");
    }
    file->data = data;
    file->bytes = bytes;
    TR_TRY_GOTO(fail, check_head(file, path));
    *out = file;
    return TR_OK;
fail:
    tr_row_file_free(file);
    return status;
}

void tr_row_file_free(tr_row_file *file)
{
    if (!file)
        return;
    munmap((void *)(uintptr_t)file->data, file->bytes);
    free(file);
}

const tr_table_config *tr_row_file_config(const tr_row_file *file)
{
    return &file->config;
}

const void *tr_row_file_find(const tr_row_file *file, int64_t key)
{
    if (!file->index)
        return NULL;
    uint64_t at = tr_row_file_home(key, file->mask + 1);
    for (uint64_t tries = 0; tries <= file->mask; tries++, at = (at + 1) & file->mask) {
        const uint32_t entry = file->index[at];
        if (entry == 0 || entry > file->rows)          /* the search ends, also at a damaged entry, which counts as not found */
            return NULL;
        if (file->key[entry - 1] == key)
            return file->data + sizeof(tr_row_file_head) + (entry - 1) * file->row_bytes;
    }
    return NULL;
}
