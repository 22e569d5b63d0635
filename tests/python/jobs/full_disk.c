/* full_disk.c - to be loaded in front of all: the disk is full once. The first write to a file of a checkpoint while the file FLAG is there
 * fails, and removes it. With STAYS it stays full: the file is not removed. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef STAYS
static int is_full(void) { return access(FLAG, F_OK) == 0; }
#else
static int is_full(void) { return unlink(FLAG) == 0; }
#endif

static int is_of_checkpoint(int fd)
{
    char          link[64], path[1024];
    const ssize_t length = (snprintf(link, sizeof link, "/proc/self/fd/%d", fd), readlink(link, path, sizeof path - 1));

    path[length < 0 ? 0 : length] = '\0';
    return strstr(path, "/step-") != NULL;
}

ssize_t write(int fd, const void *data, size_t size)
{
    static ssize_t (*real)(int, const void *, size_t);
    const int      before = errno;

    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "write");
    if (is_of_checkpoint(fd) && is_full()) {
        errno = ENOSPC;
        return -1;
    }
    errno = before;
    return real(fd, data, size);
}
