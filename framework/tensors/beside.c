/* beside.c - see beside.h. */
#include "framework/tensors/beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"

tr_status tr__make_folders(const char *path)
{
    tr_status status = TR_OK;
    char     *copy = tr__must_strdup(path);

    for (char *slash = copy; status == TR_OK && (slash = strchr(slash + 1, '/'));) {
        *slash = '\0';
        const int error = mkdir(copy, 0777) ? errno : 0;
        if (error && error != EEXIST && error != EISDIR && access(copy, F_OK) != 0)
            status = tr_fail(TR_EIO, "cannot create the folder '%s': %s", copy, strerror(error));
        *slash = '/';
    }
    free(copy);
    return status;
}

/* == what dead processes have left ================================================================= */

/* ".PID.NUMBER.tmp" */
static bool is_temporary(const char *text)
{
    for (int i = 0; i < 2; i++) {
        const size_t digits = *text == '.' ? strspn(text + 1, "0123456789") : 0;
        if (!digits)
            return false;
        text += 1 + digits;
    }
    return strcmp(text, ".tmp") == 0;
}

/* A writer has a lock on its file while it lives, on whichever host. Where the file system has no locks, nothing counts as left. */
static void remove_if_left(int folder, const char *name)
{
    struct stat info;
    const int   fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    if (fd < 0)
        return;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && flock(fd, LOCK_EX | LOCK_NB) == 0)
        unlinkat(folder, name, 0);
    close(fd);
}

/* Remove the files that earlier writes of `name` have left in a folder. False: no file there can be a temporary one. */
static bool remove_left_of(const char *name, DIR *dir)
{
    const size_t size = strlen(name);
    bool         is_any = false;

    for (struct dirent *entry; (entry = readdir(dir));) {
        const size_t length = strlen(entry->d_name);
        if (length > size && !strncmp(entry->d_name, name, size) && is_temporary(entry->d_name + size))
            remove_if_left(dirfd(dir), entry->d_name);
        is_any |= length > 4 && !strcmp(entry->d_name + length - 4, ".tmp");
    }
    return is_any;
}

/* The folder that had nothing left when it was looked at last. A model is thousands of files of one folder: they need no look each. */
static struct {
    tr_fork_lock    lock;
    dev_t           device;
    ino_t           number;
    time_t          at;               /* seconds; 0: none */
} clean = {.lock = TR_FORK_LOCK_INIT};

static time_t seconds_now(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + 1;
}

static bool is_clean(const struct stat *folder)
{
    tr__fork_lock_take(&clean.lock);
    const bool is_same = clean.at == seconds_now() && clean.device == folder->st_dev && clean.number == folder->st_ino;
    tr__fork_lock_release(&clean.lock);
    return is_same;
}

static void note_clean(const struct stat *folder)
{
    tr__fork_lock_take(&clean.lock);
    clean.at = seconds_now();
    clean.device = folder->st_dev;
    clean.number = folder->st_ino;
    tr__fork_lock_release(&clean.lock);
}

static void remove_left(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char       *folder = slash ? tr__must_copy(path, (size_t)(slash + 1 - path)) : tr__must_strdup(".");
    struct stat info;

    if (stat(folder, &info) == 0 && !is_clean(&info)) {
        DIR *dir = opendir(folder);
        if (dir && !remove_left_of(name, dir))
            note_clean(&info);
        if (dir)
            closedir(dir);
    }
    free(folder);
}

/* == writing ========================================================================================= */

/* Locked; false: another writer has just taken it for one that was left, and removed it. */
static bool is_locked(int fd)
{
    struct stat info;

    flock(fd, LOCK_EX);
    return fstat(fd, &info) == 0 && info.st_nlink > 0;
}

/* Two writers of one file, be they threads or processes, must not meet: the name is a new one. */
static int create(tr_beside *file)
{
    static unsigned last;

    for (;;) {
        const unsigned number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        file->temporary = tr__must_format("%s.%ld.%u.tmp", file->path, (long)getpid(), number);
        const int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 ? is_locked(fd) : errno != EEXIST)
            return fd;
        if (fd >= 0)
            close(fd);
        free(file->temporary);
    }
}

static void forget(tr_beside *file)
{
    free(file->path);
    free(file->temporary);
    *file = (tr_beside){0};
}

tr_status tr__cannot_write(const char *path)
{
    const int      error = errno ? errno : EIO;
    const char    *name = strrchr(path, '/');
    struct statvfs disk;

    if (error != ENOSPC && error != EDQUOT)
        return tr_fail(TR_EIO, "cannot write '%s': %s", path, strerror(error));
    char     *folder = name ? tr__must_format("%.*s", (int)(name - path + 1), path) : tr__must_strdup(".");
    const int failed = statvfs(folder, &disk);
    free(folder);
    if (failed)
        return tr_fail(TR_EIO, "cannot write '%s': %s", path, strerror(error));
    return tr_fail(TR_EIO, "cannot write '%s': %s: %llu of its file system's %llu bytes are free", path, strerror(error),
                   (unsigned long long)disk.f_bavail * disk.f_frsize, (unsigned long long)disk.f_blocks * disk.f_frsize);
}

tr_status tr_beside_open(tr_beside *file, const char *path)
{
    *file = (tr_beside){0};
    TR_TRY(tr__make_folders(path));
    remove_left(path);
    file->path = tr__must_strdup(path);
    const int fd = create(file);
    if (fd >= 0 && (file->out = fdopen(fd, "wb")))
        return TR_OK;
    tr__cannot_write(path);
    if (fd >= 0) {
        close(fd);
        unlink(file->temporary);
    }
    forget(file);
    return TR_EIO;
}

tr_status tr_beside_close(tr_beside *file, tr_status status)
{
    const bool is_written = !ferror(file->out);

    if ((fclose(file->out) != 0 || !is_written) && status == TR_OK)
        status = tr__cannot_write(file->path);
    if (status == TR_OK && rename(file->temporary, file->path) != 0)
        status = tr_fail(TR_EIO, "cannot put the written file in the place of '%s': %s", file->path, strerror(errno));
    if (status != TR_OK)
        unlink(file->temporary);
    forget(file);
    return status;
}
