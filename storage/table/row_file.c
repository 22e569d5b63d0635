/* row_file.c - reads a file of rows, copied or mapped. */
#include "storage/table/row_file.h"

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "storage/memory/lease.h"
#include "storage/trireme_table.h"
#include "storage/util/crc32c.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert(sizeof(tr_row_file_head) == TR_ROW_FILE_HEAD, "the header of a file of rows has no holes");

struct tr_row_file {
    char           *path;
    char           *data;             /* the file, copied or mapped */
    uint64_t        bytes;
    int             fd;               /* of a mapped file; -1: it is copied */
    struct timespec changed;          /* when it was changed last, as it was opened */
    tr_lease       *lease;            /* of a mapped file that can be leased; else NULL */
    tr_table_config config;
    uint32_t        first_shard, shard_count;
    uint64_t        row_bytes, rows, mask;
    const int64_t  *key;
    const uint32_t *index;            /* NULL: there are no rows */
    uint64_t        sums_at;          /* 0: the file has no checksums */
    uint32_t       *sum;              /* checksum of each chunk */
    atomic_uchar   *seen;             /* of a mapped file with checksums: whether a chunk was compared with its checksum */
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

/* The chunks of the bytes before `end`. The header is not part of the first. */
static uint64_t chunks_before(uint64_t end)
{
    return end > sizeof(tr_row_file_head) ? (end + TR_ROW_FILE_CHUNK - 1) / TR_ROW_FILE_CHUNK : 0;
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
    const uint64_t end = h->index_at + h->entries * sizeof(uint32_t);
    if (h->keys_at != aligned(sizeof *h + h->rows * row_bytes) || h->index_at != aligned(h->keys_at + h->rows * sizeof(int64_t)))
        return false;
    if (h->version == 1)
        return bytes == end && h->sums_at == 0;
    return h->sums_at == aligned(end) && h->chunk == TR_ROW_FILE_CHUNK && bytes == h->sums_at + chunks_before(h->sums_at) * sizeof(uint32_t);
}

static tr_status damaged(const tr_row_file *file, const char *why)
{
    return tr_fail(TR_EFORMAT, "'%s' is damaged: %s", file->path, why);
}

static tr_status read_at(const tr_row_file *file, int fd, void *to, uint64_t bytes, uint64_t at)
{
    for (char *p = to; bytes;) {
        const ssize_t got = pread(fd, p, bytes, (off_t)at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return tr_fail(TR_EIO, "cannot read '%s': %s", file->path, strerror(errno));
        if (got == 0)
            return damaged(file, "it was cut while it was read");
        p += got;
        at += (uint64_t)got;
        bytes -= (uint64_t)got;
    }
    return TR_OK;
}

static tr_status read_head(tr_row_file *file, tr_row_file_head *head, int fd)
{
    const size_t covered = offsetof(tr_row_file_head, dtype);

    if (file->bytes == 0)
        return tr_fail(TR_EFORMAT, "'%s' is no file of a sparse table's rows: it is empty", file->path);
    if (file->bytes >= sizeof *head)
        TR_TRY(read_at(file, fd, head, sizeof *head, 0));
    if (file->bytes < sizeof *head || memcmp(head->magic, "TRIREROW", sizeof head->magic))
        return tr_fail(TR_EFORMAT, "'%s' is no file of a sparse table's rows", file->path);
    if (head->version < 1 || head->version > TR_ROW_FILE_VERSION)
        return tr_fail(TR_EFORMAT, "'%s' has rows in version %u of the format; this program reads versions up to %d", file->path, head->version,
                       TR_ROW_FILE_VERSION);
    if (head->crc != tr_crc32c(0, (const char *)head + covered, sizeof *head - covered))
        return damaged(file, "the checksum of its header is another one");
    if (head->shard_count > TR_SHARDS - (head->first_shard < TR_SHARDS ? head->first_shard : TR_SHARDS) ||
        (head->first_shard && !head->shard_count))
        return damaged(file, "it names shards that there are not");
    file->first_shard = head->first_shard;
    file->shard_count = head->shard_count ? head->shard_count : TR_SHARDS;
    file->config = config_of(head);
    if (tr_table_check_config(&file->config) != TR_OK)
        return tr_fail(TR_EFORMAT, "'%s' is damaged: %s", file->path, tr_error());
    file->row_bytes = (uint64_t)tr_table_row_bytes(&file->config);
    if (!has_sections(head, file->row_bytes, file->bytes))
        return tr_fail(TR_EFORMAT, "'%s' is damaged: %llu rows of %lld values do not make a file of %llu bytes", file->path,
                       (unsigned long long)head->rows, (long long)file->config.width, (unsigned long long)file->bytes);
    return TR_OK;
}

static tr_status read_sums(tr_row_file *file, const tr_row_file_head *head, int fd)
{
    if (head->version == 1)
        return TR_OK;
    const uint64_t count = chunks_before(head->sums_at);
    file->sums_at = head->sums_at;
    file->sum = calloc(count + 1, sizeof *file->sum);
    file->seen = calloc(count + 1, 1);
    if (!file->sum || !file->seen)
        return tr_fail(TR_ENOMEM, "no memory for the checksums of '%s'", file->path);
    TR_TRY(read_at(file, fd, file->sum, count * sizeof *file->sum, head->sums_at));
    return head->sums_crc == tr_crc32c(0, file->sum, count * sizeof *file->sum) ? TR_OK : damaged(file, "its checksums are others");
}

static bool is_sum_right(const tr_row_file *file, uint64_t chunk)
{
    const uint64_t begin = chunk ? chunk * TR_ROW_FILE_CHUNK : sizeof(tr_row_file_head);
    const uint64_t end = (chunk + 1) * TR_ROW_FILE_CHUNK < file->sums_at ? (chunk + 1) * TR_ROW_FILE_CHUNK : file->sums_at;

    return tr_crc32c(0, file->data + begin, end - begin) == file->sum[chunk];
}

/* Compare the chunks of some bytes with their checksums, each once. */
static tr_status check_chunks(const tr_row_file *file, uint64_t at, uint64_t bytes)
{
    for (uint64_t chunk = at / TR_ROW_FILE_CHUNK; bytes && chunk <= (at + bytes - 1) / TR_ROW_FILE_CHUNK; chunk++) {
        if (atomic_load_explicit(&file->seen[chunk], memory_order_relaxed))
            continue;
        if (file->fd >= 0)                             /* pages that a lookup alone would read one at a time */
            (void)madvise(file->data + chunk * TR_ROW_FILE_CHUNK, TR_ROW_FILE_CHUNK, MADV_WILLNEED);
        if (!is_sum_right(file, chunk))
            return tr_fail(TR_EFORMAT, "'%s' is damaged: the checksum of the %d bytes from byte %llu is another one", file->path, TR_ROW_FILE_CHUNK,
                           (unsigned long long)(chunk * TR_ROW_FILE_CHUNK));
        atomic_store_explicit(&file->seen[chunk], 1, memory_order_relaxed);
    }
    return TR_OK;
}

static inline tr_status look_at(const tr_row_file *file, const void *what, uint64_t bytes)
{
    return file->fd >= 0 && file->seen ? check_chunks(file, (uint64_t)((const char *)what - file->data), bytes) : TR_OK;
}

static tr_status copy_file(tr_row_file *file, int fd)
{
    file->data = aligned_alloc(TR_ROW_FILE_ALIGN, aligned(file->bytes));
    if (!file->data)
        return tr_fail(TR_ENOMEM, "no memory for the %llu bytes of '%s'", (unsigned long long)file->bytes, file->path);
    TR_TRY(read_at(file, fd, file->data, file->bytes, 0));
    return file->sum ? check_chunks(file, sizeof(tr_row_file_head), file->sums_at - sizeof(tr_row_file_head)) : TR_OK;
}

static tr_status map_file(tr_row_file *file, int fd)
{
    void *data = mmap(NULL, file->bytes, PROT_READ, MAP_SHARED, fd, 0);

    if (data == MAP_FAILED)
        return tr_fail(TR_EIO, "cannot map '%s': %s", file->path, strerror(errno));
    file->data = data;
    file->fd = fd;
    (void)madvise(data, file->bytes, MADV_RANDOM);     /* a lookup reads a few bytes at random places */
    file->lease = tr_lease_take(file->path, fd, data, file->bytes);
    if (file->lease)
        TR_TRY(tr_row_file_is_intact(file));           /* nobody changed it before it was leased */
    return TR_OK;
}

static tr_status open_file(tr_row_file *file, int fd, uint64_t most_copied)
{
    tr_row_file_head head;
    struct stat      about;

    if (fstat(fd, &about))
        return tr_fail(TR_EIO, "cannot read '%s': %s", file->path, strerror(errno));
    file->bytes = (uint64_t)about.st_size;
    file->changed = about.st_mtim;
    TR_TRY(read_head(file, &head, fd));
    TR_TRY(read_sums(file, &head, fd));
    TR_TRY(file->bytes <= most_copied ? copy_file(file, fd) : map_file(file, fd));
    file->rows = head.rows;
    file->mask = head.entries ? head.entries - 1 : 0;
    file->key = (const int64_t *)(const void *)(file->data + head.keys_at);
    file->index = head.entries ? (const uint32_t *)(const void *)(file->data + head.index_at) : NULL;
    return TR_OK;
}

tr_status tr_row_file_open(tr_row_file **out, const char *path, uint64_t most_copied)
{
    int fd = -1;

    TR_TRY(tr_path_open(&fd, NULL, path));
    tr_row_file *file = tr__must_alloc(sizeof *file);
    file->path = tr__must_strdup(path);
    file->fd = -1;
    const tr_status status = open_file(file, fd, most_copied);
    if (file->fd < 0)
        close(fd);
    if (status != TR_OK)
        tr_row_file_free(file);
    else
        *out = file;
    return status;
}

void tr_row_file_free(tr_row_file *file)
{
    if (!file)
        return;
    tr_lease_free(file->lease);
    if (file->fd >= 0) {
        munmap(file->data, file->bytes);
        close(file->fd);
    } else {
        free(file->data);
    }
    free(file->sum);
    free(file->seen);
    free(file->path);
    free(file);
}

void tr_row_file_shards(const tr_row_file *file, uint32_t *first_shard, uint32_t *shard_count)
{
    *first_shard = file->first_shard;
    *shard_count = file->shard_count;
}

bool tr_row_file_is_mapped(const tr_row_file *file)
{
    return file->fd >= 0;
}

tr_status tr_row_file_is_intact(const tr_row_file *file)
{
    struct stat now;

    if (file->fd < 0 || (file->lease && tr_lease_has_copy(file->lease)))
        return TR_OK;
    if (fstat(file->fd, &now))
        return tr_fail(TR_EIO, "cannot read '%s': %s", file->path, strerror(errno));
    if ((uint64_t)now.st_size == file->bytes && now.st_mtim.tv_sec == file->changed.tv_sec && now.st_mtim.tv_nsec == file->changed.tv_nsec)
        return TR_OK;
    return tr_fail(TR_EIO, "'%s' was changed in its place while it is served, as cp and rsync --inplace do: its rows are not this model's any more. "
                   "Replace files by renaming, or export to the folder, and load the model again", file->path);
}

const tr_table_config *tr_row_file_config(const tr_row_file *file)
{
    return &file->config;
}

tr_status tr_row_file_find(const void **out, const tr_row_file *file, int64_t key)
{
    *out = NULL;
    if (!file->index)
        return TR_OK;
    uint64_t at = tr_row_file_home(key, file->mask + 1);
    for (uint64_t tries = 0; tries <= file->mask; tries++, at = (at + 1) & file->mask) {
        TR_TRY(look_at(file, &file->index[at], sizeof *file->index));
        const uint32_t entry = file->index[at];
        if (entry == 0 || entry > file->rows)          /* the search ends, also at a damaged entry, which counts as not found */
            return TR_OK;
        TR_TRY(look_at(file, &file->key[entry - 1], sizeof *file->key));
        if (file->key[entry - 1] != key)
            continue;
        const char *values = file->data + sizeof(tr_row_file_head) + (entry - 1) * file->row_bytes;
        TR_TRY(look_at(file, values, file->row_bytes));
        *out = values;
        return TR_OK;
    }
    return TR_OK;
}
