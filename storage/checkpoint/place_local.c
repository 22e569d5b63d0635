/* place_local.c - files of checkpoints on this machine (place.h). A file is written under another name, flushed and renamed. Until the
 * folder is flushed, too, a file whose place it takes has a second name, by which it comes back after a failure.
 *
 * Every few MiB the kernel is asked to begin writing to the disk. So little is left for the fsync at the end, and little memory waits for
 * the disk. (O_DIRECT, which bypasses the page cache, was a fifth slower: the disk then had one request at a time.) */
#include "storage/checkpoint/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/path.h"
#include "framework/tensors/beside.h"
#include "storage/checkpoint/checkpoint_file.h"

static const uint64_t BEGIN_WITH = 8 << 20;

struct tr_new_file {
    int      fd;
    char    *path, *temporary;
    uint64_t written, begun;
};

struct tr_range {
    int   fd;
    off_t at;
    char *path;
};

static tr_status cannot(const char *what, const char *path)
{
    return tr_fail(TR_EIO, "cannot %s '%s': %s", what, path, strerror(errno));
}

static bool is_missing(void)
{
    return errno == ENOENT || errno == ENOTDIR;
}

/* == writing ===================================================================================== */

static void free_new(tr_new_file *f)
{
    free(f->path);
    free(f->temporary);
    free(f);
}

static tr_status create(tr_new_file **out, const char *path)
{
    TR_TRY(tr__make_folders(path));
    tr_new_file *f = tr__must_alloc(sizeof *f);
    f->path = tr__must_strdup(path);
    f->temporary = tr__must_format("%s.%ld.tmp", path, (long)getpid());
    f->fd = open(f->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (f->fd < 0) {
        const tr_status status = tr__cannot_write(path);
        free_new(f);
        return status;
    }
    *out = f;
    return TR_OK;
}

static tr_status write_bytes(tr_new_file *f, const void *bytes, size_t size)
{
    for (const char *at = bytes, *end = at + size; at < end;) {
        const ssize_t done = write(f->fd, at, (size_t)(end - at));
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return tr__cannot_write(f->path);
        at += done;
    }
    f->written += size;
    if (f->written - f->begun >= BEGIN_WITH) {
        sync_file_range(f->fd, (off_t)f->begun, (off_t)(f->written - f->begun), SYNC_FILE_RANGE_WRITE);
        f->begun = f->written;
    }
    return TR_OK;
}

static tr_status sync_folder_of(const char *path)
{
    char *folder = tr__must_strdup(path);

    *strrchr(folder, '/') = '\0';
    const tr_status status = tr_checkpoint_sync_folder(folder);
    free(folder);
    return status;
}

/* Give the file that has the name a second one. *has: it is there, and the file system has links. */
static tr_status keep_former(bool *has, const char *path, const char *former)
{
    *has = link(path, former) == 0;
    if (*has || is_missing() || errno == EPERM || errno == EOPNOTSUPP || errno == ENOSYS || errno == EMLINK)
        return TR_OK;
    return cannot("link", path);
}

/* Give the file its name. A failed flush of the folder means that a crash of the host may undo that, so the former file comes back, or none
 * stays. */
static tr_status give_name(const tr_new_file *f)
{
    char *former = tr__must_format("%s.%ld.former.tmp", f->path, (long)getpid());
    bool  has_former = false;

    tr_status status = keep_former(&has_former, f->path, former);
    if (status == TR_OK && rename(f->temporary, f->path) != 0)
        status = cannot("rename a file to", f->path);
    if (status != TR_OK)
        unlink(f->temporary);
    else if ((status = sync_folder_of(f->path)) != TR_OK && (!has_former || rename(former, f->path) != 0))
        unlink(f->path);
    if (has_former)
        unlink(former);
    free(former);
    return status;
}

static tr_status finish(tr_new_file *f, tr_status status)
{
    if (status == TR_OK && fsync(f->fd) != 0)
        status = cannot("sync", f->path);
    if (close(f->fd) != 0 && status == TR_OK)
        status = tr__cannot_write(f->path);
    if (status == TR_OK)
        status = give_name(f);
    else
        unlink(f->temporary);
    free_new(f);
    return status;
}

/* == reading ===================================================================================== */

static tr_status open_range(tr_range **out, const char *path, uint64_t begin, uint64_t end)
{
    int fd;

    (void)end;
    if (tr_path_open(&fd, NULL, path) != TR_OK)
        return is_missing() ? TR_ENOTFOUND : TR_EIO;
    tr_range *r = tr__must_alloc(sizeof *r);
    *r = (tr_range){fd, (off_t)begin, tr__must_strdup(path)};
    *out = r;
    return TR_OK;
}

static tr_status read_range(tr_range *r, void *to, size_t size)
{
    for (char *next = to; size;) {
        const ssize_t got = pread(r->fd, next, size, r->at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return cannot("read", r->path);
        if (got == 0)
            return tr_fail(TR_EFORMAT, "'%s' ends at %lld, where %zu more bytes are expected", r->path, (long long)r->at, size);
        next += got;
        r->at += got;
        size -= (size_t)got;
    }
    return TR_OK;
}

static void close_range_of(tr_range *r)
{
    close(r->fd);
    free(r->path);
    free(r);
}

static tr_status get(uint8_t **bytes, size_t *size, const char *path, uint64_t most)
{
    const tr_status status = tr_path_read(bytes, size, path, most);

    return status == TR_EIO && is_missing() ? TR_ENOTFOUND : status;
}

/* == folders ===================================================================================== */

static tr_status look(uint64_t *size, double *written, const char *path)
{
    struct stat info;
    int         fd;

    if (tr_path_open(&fd, size, path) != TR_OK)
        return is_missing() ? TR_ENOTFOUND : TR_EIO;
    if (written && fstat(fd, &info) == 0)
        *written = (double)info.st_mtim.tv_sec + (double)info.st_mtim.tv_nsec / 1e9;
    close(fd);
    return TR_OK;
}

static tr_status list(const char *folder, void (*take)(void *payload, const char *name), void *payload)
{
    DIR *all = opendir(folder);

    for (struct dirent *one; all && (one = readdir(all));)
        if (strcmp(one->d_name, ".") != 0 && strcmp(one->d_name, "..") != 0)
            take(payload, one->d_name);
    if (all)
        closedir(all);
    return TR_OK;
}

static tr_status move(const char *from, const char *to)
{
    if (rename(from, to) != 0)
        return tr_fail(TR_EIO, "cannot move '%s' to '%s': %s", from, to, strerror(errno));
    return TR_OK;
}

static void remove_file(const char *path)
{
    remove(path);
}

const tr_place tr__place_local = {
    .create = create, .write = write_bytes, .finish = finish, .open = open_range, .read = read_range, .close = close_range_of,
    .get = get, .look = look, .list = list, .move = move, .remove = remove_file, .has_folders = true,
};
