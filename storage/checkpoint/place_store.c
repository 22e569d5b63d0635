/* place_store.c - files of checkpoints in a store (place.h). A file's parts are uploaded at a time, and it is there when all are. */
#include "storage/checkpoint/place.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "storage/stores/object_store.h"

struct tr_new_file {
    tr_store_call *call;
    int            file;
    uint64_t       written;
};

struct tr_range {
    tr_store_call *call;
    int            file;
    char          *path;
    uint64_t       at;
};

/* == writing ===================================================================================== */

static tr_status create(tr_new_file **out, const char *path)
{
    tr_new_file f = {0};

    TR_TRY(tr_store_write(&f.call, &f.file, path));
    *out = (tr_new_file *)(void *)tr__must_copy(&f, sizeof f);
    return TR_OK;
}

/* The process has given up; tr_store_end says why. */
static tr_status end_failed(tr_new_file *f)
{
    const tr_status status = f->call ? tr_store_end(f->call) : TR_EIO;

    f->call = NULL;
    return status != TR_OK ? status : tr_fail(TR_EIO, "the process that writes to stores takes no more bytes");
}

static tr_status write_bytes(tr_new_file *f, const void *bytes, size_t size)
{
    for (const char *at = bytes, *end = at + size; at < end;) {
        const ssize_t done = send(f->file, at, (size_t)(end - at), MSG_NOSIGNAL);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return end_failed(f);
        at += done;
    }
    f->written += size;
    return TR_OK;
}

static tr_status finish(tr_new_file *f, tr_status status)
{
    if (status == TR_OK) {
        shutdown(f->file, SHUT_WR);
        status = tr_store_commit(f->call, f->written);
        close(f->file);
    } else {
        char *text = tr__must_strdup(tr_error());
        close(f->file);
        if (f->call)
            tr_store_drop(f->call);
        tr_fail(status, "%s", text);
        free(text);
    }
    free(f);
    return status;
}

/* == reading ===================================================================================== */

static tr_status open_range(tr_range **out, const char *path, uint64_t begin, uint64_t end)
{
    tr_range r = {.at = begin};

    TR_TRY(tr_store_read(&r.call, &r.file, path, (int64_t)begin, (int64_t)end, (int64_t)end));
    r.path = tr__must_strdup(path);
    *out = (tr_range *)(void *)tr__must_copy(&r, sizeof r);
    return TR_OK;
}

static tr_status read_range(tr_range *r, void *to, size_t size)
{
    for (char *next = to; size;) {
        TR_TRY(tr_store_await(r->file, r->path));
        const ssize_t got = read(r->file, next, size);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            tr_store_call *call = r->call;
            r->call = NULL;
            if (call)
                TR_TRY(tr_store_end(call));
            return tr_fail(TR_EFORMAT, "'%s' ends at %llu, where %zu more bytes are expected", r->path, (unsigned long long)r->at, size);
        }
        next += got;
        r->at += (uint64_t)got;
        size -= (size_t)got;
    }
    return TR_OK;
}

static void close_range_of(tr_range *r)
{
    close(r->file);
    if (r->call)
        tr_store_drop(r->call);
    free(r->path);
    free(r);
}

/* == folders ===================================================================================== */

static tr_status look(uint64_t *size, double *written, const char *path)
{
    int64_t bytes = 0;

    TR_TRY(tr_store_size(&bytes, written, path));
    if (size)
        *size = (uint64_t)bytes;
    return TR_OK;
}

/* The lines "SIZE NAME" are sorted, so the files of a folder stand together. */
static tr_status list(const char *folder, void (*take)(void *payload, const char *name), void *payload)
{
    char *lines, *last = NULL, *rest;

    TR_TRY(tr_store_list(&lines, folder));
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        char *name = strchr(line, ' ');
        if (!name)
            continue;
        name++;
        name[strcspn(name, "/")] = '\0';
        if (!last || strcmp(last, name) != 0)
            take(payload, name);
        last = name;
    }
    free(lines);
    return TR_OK;
}

/* Stores cannot rename: the file is copied through this process. */
static tr_status copy(const char *from, const char *to, uint64_t size)
{
    enum { BLOCK = 1 << 20 };
    char        *block = tr__must_bytes(BLOCK);
    tr_range    *range = NULL;
    tr_new_file *file = NULL;
    tr_status    status = open_range(&range, from, 0, size);

    if (status == TR_OK)
        status = create(&file, to);
    for (uint64_t at = 0; status == TR_OK && at < size; at += BLOCK) {
        const size_t part = size - at < BLOCK ? (size_t)(size - at) : BLOCK;
        status = read_range(range, block, part);
        if (status == TR_OK)
            status = write_bytes(file, block, part);
    }
    if (file)
        status = finish(file, status);
    if (range)
        close_range_of(range);
    free(block);
    return status;
}

static void remove_file(const char *path)
{
    (void)tr_store_remove(path);
}

static tr_status move(const char *from, const char *to)
{
    uint64_t size = 0;

    TR_TRY(look(&size, NULL, from));
    TR_TRY(copy(from, to, size));
    remove_file(from);
    return TR_OK;
}

const tr_place tr__place_store = {
    .create = create, .write = write_bytes, .finish = finish, .open = open_range, .read = read_range, .close = close_range_of,
    .get = tr_store_get, .look = look, .list = list, .move = move, .remove = remove_file,
};
