/* pieces.c - see pieces.h. */
#include "trainer/files/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/memory.h"
#include "storage/stores/object_store.h"

static void add(tr_piece **pieces, int64_t *count, const char *path, int64_t begin, int64_t end)
{
    if ((*count & (*count - 1)) == 0)              /* at a power of two the array is full: double it */
        *pieces = tr__must_realloc(*pieces, (size_t)(*count ? 2 * *count : 1) * sizeof **pieces);
    (*pieces)[*count] = (tr_piece){path, begin, end, *count};
    ++*count;
}

/* The size of a file. A store is asked only where the size matters: each question takes it milliseconds. */
static tr_status measure(int64_t *size, const char *path, bool is_whole)
{
    struct stat info = {0};

    if (tr_store_is_uri(path))
        return is_whole ? TR_OK : tr_store_size(size, NULL, path);
    if (stat(path, &info) != 0)
        return tr_fail(errno == ENOENT ? TR_ENOTFOUND : TR_EIO, "data: '%s' cannot be opened: %s", path, strerror(errno));
    *size = info.st_size;
    return TR_OK;
}

tr_status tr_pieces_list(tr_piece **out, int64_t *count, const tr_data_spec *spec)
{
    int64_t size = 0;

    *out = NULL;
    *count = 0;
    if (spec->file_count < 1)
        return tr_fail(TR_EINVAL, "data: there is no file to read");
    for (int i = 0; i < spec->file_count; i++) {
        const char *path = spec->files[i];
        const bool      is_whole = spec->split != TR_SPLIT_TASKS || tr_source_is_whole(path, spec->pipe_command);
        const tr_status status = measure(&size, path, is_whole);
        if (status != TR_OK) {
            free(*out);
            return status;
        }
        const int64_t tasks = is_whole ? 1 : (size + spec->task_bytes - 1) / spec->task_bytes;
        for (int64_t task = 0; task < tasks; task++)
            add(out, count, path, task * spec->task_bytes, task + 1 < tasks ? (task + 1) * spec->task_bytes : INT64_MAX);
    }
    return TR_OK;
}
