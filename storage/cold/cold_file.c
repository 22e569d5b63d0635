/* cold_file.c - the file of cold rows: made, found again by the next process, and removed.
 *
 * A page of the file says whose rows it has; the blocks follow. A link beside the segments of the index leads to a file with a name. The
 * launcher, which removes the segments of a job, finds the file by it and need not know the folder. The link is made before the file, and
 * removed after it. */
#include "storage/cold/cold_state.h"

#include "storage/memory/segment.h"
#include "storage/util/crc32c.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

static const char     LINKS[] = "/dev/shm", SUFFIX[] = ".cold";
static const uint64_t MAGIC = 0x31574f5244454c43u;     /* "CLEDROW1" */

typedef struct head {
    uint64_t magic, id, record_bytes, block_bytes;
    uint64_t crc;                     /* of the fields before it */
} head;

/* == names ======================================================================================= */

static void link_of(char *out, size_t size, const char *name)
{
    snprintf(out, size, "%s/%s.spill", LINKS, name);
}

/* The name has the host's, because hosts may share the folder. */
static tr_status path_of(char *out, size_t size, const tr_cold *cold)
{
    char host[256] = "";
    char real[4096];

    gethostname(host, sizeof host - 1);
    if (!realpath(cold->folder, real))
        return tr_fail(errno == ENOENT || errno == ENOTDIR ? TR_ENOTFOUND : TR_EIO, "cannot use folder '%s' for cold rows: %s",
                       cold->folder, strerror(errno));
    if ((size_t)snprintf(out, size, "%s/%s.%s%s", real, cold->config.name, host, SUFFIX) >= size)
        return tr_fail(TR_ERANGE, "the path of folder '%s' is too long for cold rows", cold->folder);
    return TR_OK;
}

void tr__cold_remove_file(const char *name)
{
    char        link[TR_SEGMENT_NAME + 32], path[4096];
    struct stat info;

    link_of(link, sizeof link, name);
    const ssize_t length = lstat(link, &info) == 0 && info.st_uid == geteuid() ? readlink(link, path, sizeof path - 1) : -1;
    if (length < (ssize_t)sizeof SUFFIX)
        return;
    path[length] = '\0';
    if (strcmp(path + length - (sizeof SUFFIX - 1), SUFFIX) == 0)      /* the launcher looks at this, too */
        unlink(path);
    unlink(link);
}

/* == opening ====================================================================================== */

/* A file without a name. Where the file system has none, a name that is removed at once. */
static int open_nameless(const char *folder, int flags)
{
    char      path[4096];
    const int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC | flags, 0600);

    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT))
        return file;
    if (snprintf(path, sizeof path, "%s/trireme-rows-XXXXXX", folder) >= (int)sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    const int named = mkostemp(path, O_CLOEXEC | flags);
    if (named >= 0)
        unlink(path);
    return named;
}

/* O_DIRECT where the file system has it. `path`: NULL for a file without a name. */
static int open_direct(const tr_cold *cold, const char *path, int flags)
{
    const int direct = path ? open(path, O_RDWR | O_CLOEXEC | O_DIRECT | flags, 0600) : open_nameless(cold->folder, O_DIRECT);

    if (direct >= 0 || errno != EINVAL)
        return direct;
    return path ? open(path, O_RDWR | O_CLOEXEC | flags, 0600) : open_nameless(cold->folder, 0);
}

tr_status tr__cold_open_nameless(int *out, const tr_cold *cold)
{
    *out = open_direct(cold, NULL, 0);
    return *out >= 0 ? TR_OK : tr_fail(TR_EIO, "cannot make a file in folder '%s': %s", cold->folder, strerror(errno));
}

static tr_status open_file(tr_cold *cold, const char *path, int flags)
{
    cold->file = open_direct(cold, path, flags);
    if (cold->file < 0)
        return tr_fail(errno == ENOENT || errno == ENOTDIR ? TR_ENOTFOUND : TR_EIO, "cannot %s a file of cold rows in folder '%s': %s",
                       path && !flags ? "find" : "make", cold->folder, strerror(errno));
    if (path && flock(cold->file, LOCK_EX | LOCK_NB) != 0)
        return tr_fail(TR_EEXIST, "cold rows in '%s': another process has them", path);
    return TR_OK;
}

static head head_of(const tr_cold *cold)
{
    head h = {MAGIC, cold->id, cold->record_bytes, cold->block_bytes, 0};

    h.crc = tr_crc32c(0, &h, offsetof(head, crc));
    return h;
}

/* The tail's memory is aligned, and nothing lies there yet. */
static tr_status write_head(tr_cold *cold)
{
    const head h = head_of(cold);

    memset(cold->tail_bytes, 0, TR__COLD_PAGE);
    memcpy(cold->tail_bytes, &h, sizeof h);
    if (ftruncate(cold->file, 0) == 0 && pwrite(cold->file, cold->tail_bytes, TR__COLD_PAGE, 0) == TR__COLD_PAGE)
        return TR_OK;
    return tr_fail(TR_EIO, "cannot write cold rows in folder '%s': %s", cold->folder, strerror(errno));
}

tr_status tr__cold_make_file(tr_cold *cold)
{
    char path[4096], link[TR_SEGMENT_NAME + 32];

    while (!cold->id)
        if (getrandom(&cold->id, sizeof cold->id, 0) != sizeof cold->id)
            cold->id = 0;
    if (!cold->config.name) {
        TR_TRY(open_file(cold, NULL, 0));
        return write_head(cold);
    }
    TR_TRY(path_of(path, sizeof path, cold));
    link_of(link, sizeof link, cold->config.name);
    unlink(link);
    if (symlink(path, link) != 0)
        return tr_fail(TR_EIO, "cannot make the link '%s' to the cold rows of folder '%s': %s", link, cold->folder, strerror(errno));
    TR_TRY(open_file(cold, path, O_CREAT));            /* a file may be there from before the machine was started */
    return write_head(cold);
}

tr_status tr__cold_find_file(tr_cold *cold, uint64_t *blocks)
{
    char        path[4096];
    struct stat info;
    const head  wanted = head_of(cold);

    TR_TRY(path_of(path, sizeof path, cold));
    TR_TRY(open_file(cold, path, 0));
    if (fstat(cold->file, &info) != 0 || pread(cold->file, cold->tail_bytes, TR__COLD_PAGE, 0) != TR__COLD_PAGE ||
        memcmp(cold->tail_bytes, &wanted, sizeof wanted) != 0)
        return tr_fail(TR_EFORMAT, "cold rows in '%s' are not those of the table in memory: the file was replaced or damaged", path);
    *blocks = ((uint64_t)info.st_size - TR__COLD_PAGE) / cold->block_bytes;
    return TR_OK;
}
