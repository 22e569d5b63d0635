/* claim.c - reserves a folder of checkpoints: the lock, and the run (run.h).
 *
 * One training at a time writes to a folder. Two trainings would remove and resume each other's checkpoints. The process that makes
 * checkpoints holds a lock on the folder. The kernel drops the lock when the process ends in any way. The launcher itself locks the
 * folder that it was given, for all its ranks (python/trireme/launch/claims.py). */
#include "storage/checkpoint/run.h"

#include "storage/checkpoint/own_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/beside.h"

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
    *file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);       /* first: of a file `access` says nothing useful */
    if (*file >= 0 && access(folder, W_OK | X_OK) != 0) {
        const int error = errno;
        close(*file);
        *file = -1;
        errno = error;
    }
    return *file >= 0 ? TR_OK : tr_fail(TR_EIO, "checkpoint: cannot write into the folder '%s': %s", folder, strerror(errno));
}

/* The launcher counts the starts of a job, from 0. */
static bool is_started_again(void)
{
    const char *attempt = getenv("TRIREME_ATTEMPT");

    return attempt && *attempt && strcmp(attempt, "0") != 0;
}

static tr_status lock_folder(const char *folder, bool is_first)
{
    struct stat info;
    int         file = -1;

    const tr_status opened = open_folder(folder, &file);
    if (opened != TR_OK)
        return is_first ? opened : TR_OK;          /* the process that writes a checkpoint later will report the failure */
    if (fstat(file, &info) != 0 || tr__folder_is_locked(&info) || is_the_launchers(&info)) {
        close(file);
        return TR_OK;
    }
    if (flock(file, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        close(file);
        return is_first ? tr_fail(TR_EINVAL, "checkpoint: folder '%s': another job that runs keeps its own there", folder) : TR_OK;
    }
    tr__folder_note_lock(&info);                            /* or the file system has no locks */
    return TR_OK;
}

/* What writers that were killed have left: no other writer is there, so nobody will complete it. */
static void remove_incomplete(const char *folder)
{
    tr_folder all;

    tr_folder_scan(&all, folder);
    for (int i = 0; i < all.count; i++)
        if (!all.item[i].has_manifest) {
            char *path = tr_checkpoint_path(folder, all.item[i].step);
            tr__checkpoint_remove(path);
            free(path);
        }
    tr_folder_free(&all);
}

tr_status tr_checkpoint_claim(char **said, const char *folder, tr_checkpoint_entry entry, const char *command)
{
    const bool is_first = entry != TR_ENTRY_JOIN && !is_started_again(), is_known = tr__own_run_in(folder).is_settled;

    *said = NULL;
    TR_TRY(lock_folder(folder, is_first));
    TR_TRY(tr__run_enter(said, folder, entry, command));
    if (is_first && !is_known)
        remove_incomplete(folder);
    return TR_OK;
}
