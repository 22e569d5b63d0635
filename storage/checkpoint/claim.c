/* claim.c - one training at a time writes to a folder of checkpoints. Two trainings would remove and resume each other's checkpoints.
 *
 * The process that makes checkpoints holds a lock on the folder. The kernel drops the lock when the process ends in any way. The
 * launcher itself locks the folder that it was given, for all its ranks (python/trireme/launch/claims.py). */
#include "storage/trireme_checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/beside.h"
#include "framework/memory.h"
#include "framework/status.h"

/* A folder that this process holds. */
typedef struct held {
    struct held *next;
    dev_t        device;
    ino_t        number;
} held;

static held *all_held;                /* open until the process ends */

static bool is_held(const struct stat *folder)
{
    for (const held *one = all_held; one; one = one->next)
        if (one->device == folder->st_dev && one->number == folder->st_ino)
            return true;
    return false;
}

static bool is_the_launchers(const struct stat *folder)
{
    const char *named = getenv("TRIREME_JOB") ? getenv("TRIREME_CHECKPOINT") : NULL;
    struct stat its;

    return named && *named && stat(named, &its) == 0 && its.st_dev == folder->st_dev && its.st_ino == folder->st_ino;
}

/* Open the folder, and make it if it is missing. */
static tr_status open_folder(const char *folder, int *file)
{
    char *inside = tr__must_format("%s/", folder);
    const tr_status made = tr__make_folders(inside);

    free(inside);
    TR_TRY(made);
    *file = access(folder, W_OK | X_OK) == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    return *file >= 0 ? TR_OK : tr_fail(TR_EIO, "checkpoint: cannot write into the folder '%s': %s", folder, strerror(errno));
}

/* The launcher counts the starts of a job, from 0. */
static bool is_started_again(void)
{
    const char *attempt = getenv("TRIREME_ATTEMPT");

    return attempt && *attempt && strcmp(attempt, "0") != 0;
}

tr_status tr_checkpoint_claim(const char *folder, bool is_first)
{
    struct stat info;
    int         file = -1;

    is_first &= !is_started_again();
    const tr_status opened = open_folder(folder, &file);
    if (opened != TR_OK)
        return is_first ? opened : TR_OK;          /* the process that writes a checkpoint later will report the failure */
    if (fstat(file, &info) != 0 || is_held(&info) || is_the_launchers(&info)) {
        close(file);
        return TR_OK;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(file);
        return is_first ? tr_fail(TR_EINVAL, "checkpoint: folder '%s': another job that runs keeps its own there", folder) : TR_OK;
    }
    held *one = tr__must_alloc(sizeof *one);       /* another process holds the lock, or the file system has no locks */
    *one = (held){all_held, info.st_dev, info.st_ino};
    all_held = one;
    return TR_OK;
}
