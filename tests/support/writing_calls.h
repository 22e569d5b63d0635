/* writing_calls.h - the calls by which a process changes files, counted: one of them kills the process, or finds the disk full.
 *
 * The functions of the C library are defined here, so the program that includes this file calls these. Exactly one file of a program may
 * include it. Calls count while `writing_calls.is_armed`, from 1.
 *
 * fsync does nothing but count: a killed process loses nothing that it has written, and thousands of flushes would take minutes. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum writing_end { WRITING_KILLED, WRITING_FULL_ONCE, WRITING_FULL };

static struct {
    bool             is_armed;
    enum writing_end end;                 /* what happens at the call with this number; WRITING_FULL: at all later ones, too */
    int              at;
    atomic_int       count;
    atomic_bool      has_failed, has_left;      /* a call has failed; a file was not removed */
} writing_calls;

/* Count a call. True: the disk is full. `half` does half of a write. */
static bool writing_call(bool frees, void (*half)(void *), void *payload)
{
    const int number = writing_calls.is_armed ? atomic_fetch_add(&writing_calls.count, 1) + 1 : 0;
    const bool is_it = number && number == writing_calls.at;

    if (!is_it && !(writing_calls.end == WRITING_FULL && number > writing_calls.at))
        return false;
    if (is_it && half)
        half(payload);
    if (writing_calls.end == WRITING_KILLED)
        kill(getpid(), SIGKILL);
    if (frees && writing_calls.end == WRITING_FULL)    /* what frees space works on a full disk */
        return false;
    writing_calls.has_failed = true;
    writing_calls.has_left |= frees;
    errno = frees ? EIO : ENOSPC;
    return true;
}

#define WRITING_CALL(frees, ...) (writing_call(frees, NULL, NULL) ? -1 : (int)syscall(__VA_ARGS__))

int open(const char *path, int flags, ...)
{
    va_list more;
    mode_t  mode = 0;

    if (flags & O_CREAT) {
        va_start(more, flags);
        mode = va_arg(more, mode_t);
        va_end(more);
        return WRITING_CALL(false, SYS_openat, AT_FDCWD, path, flags, mode);
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

struct half_write {
    int         fd;
    const void *data;
    size_t      size;
};

static void write_half(void *payload)
{
    const struct half_write *w = payload;

    syscall(SYS_write, w->fd, w->data, w->size / 2);
}

ssize_t write(int fd, const void *data, size_t size)
{
    struct half_write w = {fd, data, size};

    return fd > 2 && writing_call(false, write_half, &w) ? -1 : syscall(SYS_write, fd, data, size);
}

int fsync(int fd)
{
    (void)fd;
    return writing_call(false, NULL, NULL) ? -1 : 0;
}

/* A file that takes the place of another one needs no space. */
int rename(const char *from, const char *to)
{
    return WRITING_CALL(access(to, F_OK) == 0, SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int link(const char *from, const char *to)   { return WRITING_CALL(false, SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); }
/* A folder that exists is not made: that is no call that writes. */
int mkdir(const char *path, mode_t mode)
{
    if (access(path, F_OK) != 0)
        return WRITING_CALL(false, SYS_mkdirat, AT_FDCWD, path, mode);
    return (int)syscall(SYS_mkdirat, AT_FDCWD, path, mode);
}

int ftruncate(int fd, off_t size)            { return WRITING_CALL(false, SYS_ftruncate, fd, size); }
int unlink(const char *path)                 { return WRITING_CALL(true, SYS_unlinkat, AT_FDCWD, path, 0); }
int rmdir(const char *path)                  { return WRITING_CALL(true, SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); }

int remove(const char *path)
{
    const int result = unlink(path);

    return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
