/* lease.c - see lease.h. A writer that waits is seen by F_GETLEASE: the kernel asks for the lease back. The signal by which it says so is one that is ignored. */
#include "storage/memory/lease.h"

#include "framework/base/fork_lock.h"
#include "framework/base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct tr_lease {
    tr_lease   *next;
    char       *path;
    int         fd;
    bool        is_own_fd;            /* a forked child has opened the file anew, because a lease belongs to an open file */
    void       *data;
    uint64_t    bytes;
    _Atomic pid_t pid;                /* of the process that has it; 0: nobody has it any more */
    atomic_bool has_copy;
};

static tr_fork_lock lock = TR_FORK_LOCK_INIT;
static tr_lease    *first;            /* under the lock, as all that follows */
static pid_t        keeper;           /* the process whose thread runs */

/* == a copy ======================================================================================== */

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Half of the memory that is free. */
static uint64_t memory_to_spare(void)
{
    return (uint64_t)sysconf(_SC_AVPHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
}

/* Copy the file: by its file system, which may share the blocks, or by the kernel. */
static bool copy_bytes(int to, int from, uint64_t bytes)
{
    off_t at = 0;

    while ((uint64_t)at < bytes) {
        off_t   end = at;
        ssize_t done = copy_file_range(from, &at, to, &end, bytes - (uint64_t)at, 0);
        if (done < 0 && (errno == EXDEV || errno == EINVAL || errno == ENOSYS || errno == EOPNOTSUPP))
            done = lseek(to, at, SEEK_SET) == at ? sendfile(to, from, &at, bytes - (uint64_t)at) : -1;
        if (done == 0 || (done < 0 && errno != EINTR))
            return false;
    }
    return true;
}

/* Copy the leased file into one without a name; return its descriptor, or -1. */
static int copy_of(const tr_lease *lease)
{
    char     *text = strdup(lease->path);
    const int beside = text ? open(dirname(text), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

    free(text);
    if (beside >= 0 && copy_bytes(beside, lease->fd, lease->bytes))
        return beside;
    if (beside >= 0)
        close(beside);
    const int memory = lease->bytes <= memory_to_spare() ? memfd_create("trireme-rows", MFD_CLOEXEC) : -1;
    if (memory >= 0 && copy_bytes(memory, lease->fd, lease->bytes))
        return memory;
    if (memory >= 0)
        close(memory);
    return -1;
}

/* Map the copy in the place of the file, in one step: other threads read there. */
static bool put_in_place(const tr_lease *lease, int copy)
{
    void *data = mmap(NULL, lease->bytes, PROT_READ, MAP_SHARED, copy, 0);

    if (data == MAP_FAILED)
        return false;
    (void)madvise(data, lease->bytes, MADV_RANDOM);
    if (mremap(data, lease->bytes, lease->bytes, MREMAP_MAYMOVE | MREMAP_FIXED, lease->data) == lease->data)
        return true;
    munmap(data, lease->bytes);
    return false;
}

/* A writer waits: keep the bytes, then let it go on. */
static void keep(tr_lease *lease)
{
    struct stat before, after;
    const bool  is_known = fstat(lease->fd, &before) == 0;
    const int   copy = is_known ? copy_of(lease) : -1;

    /* the kernel waits for so long and no longer */
    if (copy >= 0 && fstat(lease->fd, &after) == 0 && is_same_file(&before, &after) && put_in_place(lease, copy))
        atomic_store(&lease->has_copy, true);
    if (copy >= 0)
        close(copy);
    (void)fcntl(lease->fd, F_SETLEASE, F_UNLCK);
}

static void say(char *out, size_t size, const tr_lease *lease)
{
    if (atomic_load(&lease->has_copy))
        snprintf(out, size, "trireme: '%s' is being written over while it is served: the model goes on with a copy of its %llu MB, as it was loaded\n",
                 lease->path, (unsigned long long)(lease->bytes / 1000000));
    else
        snprintf(out, size, "trireme warning: '%s' is being written over while it is served, and there is no room for a copy of its %llu MB: runs fail until the "
                            "model is loaded again\n", lease->path, (unsigned long long)(lease->bytes / 1000000));
}

/* == the thread ==================================================================================== */

/* Serve one writer that waits. Returns whether there is a lease to look after. */
static bool look(char *out, size_t size)
{
    bool is_any = false;

    *out = 0;
    tr__fork_lock_take(&lock);
    for (tr_lease *lease = first; lease && !*out; lease = lease->next) {
        if (lease->pid != getpid() || atomic_load(&lease->has_copy))
            continue;
        is_any = true;
        if (fcntl(lease->fd, F_GETLEASE) != F_UNLCK)
            continue;
        keep(lease);
        lease->pid = 0;                                /* it is over */
        say(out, size, lease);
    }
    if (!is_any)
        keeper = 0;
    tr__fork_lock_release(&lock);
    return is_any;
}

static void *run(void *unused)
{
    const struct timespec rest = {0, 20000000};
    char                  line[4096 + 256];

    (void)unused;
    while (look(line, sizeof line)) {
        if (*line)
            fputs(line, stderr);
        else
            nanosleep(&rest, NULL);
    }
    return NULL;
}

static bool begin_to_look(void)
{
    pthread_t thread;
    sigset_t  all, was;

    if (keeper == getpid())
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &was);
    const bool is_begun = pthread_create(&thread, NULL, run, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &was, NULL);
    if (is_begun) {
        pthread_detach(thread);
        keeper = getpid();
    }
    return is_begun;
}

/* == leases ======================================================================================== */

static bool take(tr_lease *lease)
{
    lease->pid = getpid();
    if (fcntl(lease->fd, F_SETSIG, SIGURG) != 0 || fcntl(lease->fd, F_SETLEASE, F_RDLCK) != 0)
        return false;
    if (begin_to_look())
        return true;
    (void)fcntl(lease->fd, F_SETLEASE, F_UNLCK);
    return false;
}

tr_lease *tr_lease_take(const char *path, int fd, void *data, uint64_t bytes)
{
    tr_lease *lease = tr__must_alloc(sizeof *lease);

    lease->path = tr__must_strdup(path);
    lease->fd = fd;
    lease->data = data;
    lease->bytes = bytes;
    tr__fork_lock_take(&lock);
    const bool is_taken = take(lease);
    if (is_taken) {
        lease->next = first;
        first = lease;
    }
    tr__fork_lock_release(&lock);
    if (is_taken)
        return lease;
    free(lease->path);
    free(lease);
    return NULL;
}

void tr_lease_free(tr_lease *lease)
{
    if (!lease)
        return;
    tr__fork_lock_take(&lock);
    tr_lease **link = &first;
    while (*link != lease)
        link = &(*link)->next;
    *link = lease->next;
    if (lease->pid == getpid())
        (void)fcntl(lease->fd, F_SETLEASE, F_UNLCK);
    tr__fork_lock_release(&lock);
    if (lease->is_own_fd)
        close(lease->fd);
    free(lease->path);
    free(lease);
}

/* This process is a child of the one that has the lease: make another one, for the same file. */
static void take_in_child(tr_lease *lease)
{
    char      path[64];

    tr__fork_lock_take(&lock);
    if (lease->pid && lease->pid != getpid()) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", lease->fd);
        const int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            lease->fd = fd;
            lease->is_own_fd = true;
        }
        if (fd < 0 || !take(lease))
            lease->pid = 0;
    }
    tr__fork_lock_release(&lock);
}

bool tr_lease_has_copy(tr_lease *lease)
{
    if (atomic_load(&lease->has_copy))
        return true;
    if (lease->pid && lease->pid != getpid())
        take_in_child(lease);
    return false;
}
