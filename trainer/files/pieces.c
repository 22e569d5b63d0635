/* pieces.c - see pieces.h. */
#include "trainer/files/pieces.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "framework/base/memory.h"

static void add(tr_piece **pieces, int64_t *count, const char *path, int64_t begin, int64_t end)
{
    if ((*count & (*count - 1)) == 0)              /* at a power of two the array is full: double it */
        *pieces = tr__must_realloc(*pieces, (size_t)(*count ? 2 * *count : 1) * sizeof **pieces);
    (*pieces)[*count] = (tr_piece){path, begin, end, *count};
    ++*count;
}

tr_status tr_pieces_list(tr_piece **out, int64_t *count, const tr_data_spec *spec)
{
    struct stat info;

    *out = NULL;
    *count = 0;
    if (spec->file_count < 1)
        return tr_fail(TR_EINVAL, "data: there is no file to read");
    for (int i = 0; i < spec->file_count; i++) {
        const char *path = spec->files[i];
        if (stat(path, &info) != 0) {
            free(*out);
            return tr_fail(errno == ENOENT ? TR_ENOTFOUND : TR_EIO, "data: '%s' cannot be opened: %s", path,
                           strerror(errno));
        }
        const bool    is_whole = spec->split != TR_SPLIT_TASKS || tr_source_is_whole(path, spec->pipe_command);
        const int64_t tasks = is_whole ? 1 : (info.st_size + spec->task_bytes - 1) / spec->task_bytes;
        for (int64_t task = 0; task < tasks; task++)
            add(out, count, path, task * spec->task_bytes, task + 1 < tasks ? (task + 1) * spec->task_bytes : INT64_MAX);
    }
    return TR_OK;
}
