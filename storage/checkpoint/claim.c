/* claim.c - reserves a folder of checkpoints: the lock, and the run (run.h).
 *
 * One training at a time writes to a folder. Two trainings would remove and resume each other's checkpoints. The process that makes
 * checkpoints holds a lock on the folder. The kernel drops the lock when the process ends in any way. The launcher itself locks the
 * folder that it was given, for all its ranks (python/trireme/launch/claims.py).
 *
 * A store has no locks. There a file `.claim` says which run writes, and from where; it is written anew with each checkpoint. Another run
 * that finds it begins only if it is old. Two runs that begin in the same second in an empty folder may both find none: a store that
 * cannot compare and write at once allows no better. */
#include "storage/checkpoint/run.h"

#include "storage/checkpoint/own_run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "framework/tensors/beside.h"
#include "storage/checkpoint/place.h"

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

/* == stores ======================================================================================= */

/* Seconds after which a claim that was not renewed counts no more. */
static const double CLAIM_AGE = 3600;

static char *claim_path(const char *folder)
{
    return tr__must_format("%s/.claim", folder);
}

static void write_claim(const char *folder, uint64_t run)
{
    char host[64] = "?", *path = claim_path(folder);

    gethostname(host, sizeof host - 1);
    char *text = tr__must_format("run %016llx, process %ld on host %s\n", (unsigned long long)run, (long)getpid(), host);
    (void)tr_place_put(path, text, strlen(text));  /* without it the folder is only not reserved */
    free(text);
    free(path);
}

/* Another run's claim of this folder that is not old; malloc'ed. NULL: there is none. */
static char *foreign_claim(const char *folder, uint64_t run)
{
    static const uint64_t MOST = 256;
    char           *path = claim_path(folder), *mine = tr__must_format("run %016llx,", (unsigned long long)run);
    double          written = 0;
    struct timespec now;
    uint8_t        *text = NULL;
    size_t          size;

    clock_gettime(CLOCK_REALTIME, &now);
    const bool is_there = tr_place_of(path)->look(NULL, &written, path) == TR_OK && (double)now.tv_sec - written < CLAIM_AGE &&
                          tr_place_of(path)->get(&text, &size, path, MOST) == TR_OK;
    const bool is_foreign = is_there && strncmp((char *)text, mine, strlen(mine)) != 0;
    free(mine);
    free(path);
    if (!is_foreign) {
        free(text);
        return NULL;
    }
    text[strcspn((char *)text, "\n")] = '\0';
    return (char *)text;
}

static tr_status reserve_in_store(const char *folder, bool is_first)
{
    const uint64_t run = tr__own_run_in(folder).number;
    struct stat    its;

    char *other = is_first ? foreign_claim(folder, run) : NULL;
    if (other) {
        const tr_status status = tr_fail(TR_EINVAL, "checkpoint: folder '%s': another job keeps its own there (%s). If that one has ended, "
                                         "remove '%s/.claim', or wait an hour", folder, other, folder);
        free(other);
        return status;
    }
    tr__folder_identity(&its, folder);
    tr__folder_note_lock(&its);
    write_claim(folder, run);
    return TR_OK;
}

static bool is_reserved_here(const char *folder)
{
    struct stat its;

    return !tr_place_of(folder)->has_folders && tr__folder_identity(&its, folder) && tr__folder_is_locked(&its);
}

void tr__claim_renew(const char *folder)
{
    if (is_reserved_here(folder))
        write_claim(folder, tr__own_run_in(folder).number);
}

void tr__claim_end(const char *folder)
{
    if (!is_reserved_here(folder))
        return;
    char *path = claim_path(folder);
    tr_place_of(path)->remove(path);
    free(path);
}

/* == both ========================================================================================= */

/* What writers that were killed have left: no other writer is there, so nobody will complete it. */
static void remove_incomplete(const char *folder)
{
    tr_folder all;

    if (tr_folder_scan(&all, folder) != TR_OK)
        return;
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

    const bool has_locks = tr_place_of(folder)->has_folders;

    *said = NULL;
    if (has_locks)
        TR_TRY(lock_folder(folder, is_first));
    TR_TRY(tr__run_enter(said, folder, entry, command));
    if (!has_locks && !is_known)
        TR_TRY(reserve_in_store(folder, is_first));
    if (is_first && !is_known)
        remove_incomplete(folder);
    return TR_OK;
}
