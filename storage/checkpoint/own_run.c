/* own_run.c - see own_run.h. */
#include "storage/checkpoint/own_run.h"

#include <string.h>

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"
#include "framework/tensors/random.h"
#include "storage/checkpoint/place.h"

/* A folder that this process knows. It stays known until the process ends. */
typedef struct known {
    struct known *next;
    dev_t         device;
    ino_t         number;
    bool          is_locked;          /* by this process: the file stays open */
    tr__own_run   mine;
} known;

static tr_fork_lock    lock = TR_FORK_LOCK_INIT;
static known          *all_known;

static known *find(const struct stat *folder)
{
    for (known *one = all_known; one; one = one->next)
        if (one->device == folder->st_dev && one->number == folder->st_ino)
            return one;
    return NULL;
}

static known *find_or_add(const struct stat *folder)
{
    known *one = find(folder);

    if (!one) {
        one = tr__must_alloc(sizeof *one);
        *one = (known){.next = all_known, .device = folder->st_dev, .number = folder->st_ino};
        all_known = one;
    }
    return one;
}

bool tr__folder_identity(struct stat *out, const char *folder)
{
    if (tr_place_of(folder)->has_folders)
        return stat(folder, out) == 0;
    *out = (struct stat){.st_dev = (dev_t)-1, .st_ino = (ino_t)tr_hash_bytes(folder, strlen(folder))};
    return true;
}

/* == the run ==================================================================================== */

tr__own_run tr__own_run_in(const char *folder)
{
    struct stat info;
    tr__own_run mine = {0};

    if (!tr__folder_identity(&info, folder))
        return mine;
    tr__fork_lock_take(&lock);
    const known *one = find(&info);
    if (one)
        mine = one->mine;
    tr__fork_lock_release(&lock);
    return mine;
}

void tr__own_run_set(const char *folder, tr__own_run mine)
{
    struct stat info;

    if (!tr__folder_identity(&info, folder))
        return;
    tr__fork_lock_take(&lock);
    find_or_add(&info)->mine = mine;
    tr__fork_lock_release(&lock);
}

/* == the lock =================================================================================== */

bool tr__folder_is_locked(const struct stat *folder)
{
    tr__fork_lock_take(&lock);
    const known *one = find(folder);
    const bool   is = one && one->is_locked;
    tr__fork_lock_release(&lock);
    return is;
}

void tr__folder_note_lock(const struct stat *folder)
{
    tr__fork_lock_take(&lock);
    find_or_add(folder)->is_locked = true;
    tr__fork_lock_release(&lock);
}
