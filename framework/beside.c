/* beside.c - see beside.h. */
#include "framework/beside.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/memory.h"

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

/* Two writers of one file, be they threads or processes, must not meet: the name is a new one. */
static int create(tr_beside *file)
{
    static unsigned last;

    for (;;) {
        const unsigned number = __atomic_add_fetch(&last, 1, __ATOMIC_RELAXED);
        file->temporary = tr__must_format("%s.%ld.%u.tmp", file->path, (long)getpid(), number);
        const int fd = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || errno != EEXIST)
            return fd;
        free(file->temporary);
    }
}

static void forget(tr_beside *file)
{
    free(file->path);
    free(file->temporary);
    *file = (tr_beside){0};
}

tr_status tr_beside_open(tr_beside *file, const char *path)
{
    *file = (tr_beside){0};
    TR_TRY(tr__make_folders(path));
    file->path = tr__must_strdup(path);
    const int fd = create(file);
    if (fd >= 0 && (file->out = fdopen(fd, "wb")))
        return TR_OK;
    tr_fail(TR_EIO, "cannot write '%s': %s", path, strerror(errno));
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
        status = tr_fail(TR_EIO, "cannot write '%s': %s", file->path, errno ? strerror(errno) : "write failed");
    if (status == TR_OK && rename(file->temporary, file->path) != 0)
        status = tr_fail(TR_EIO, "cannot put the written file in the place of '%s': %s", file->path, strerror(errno));
    if (status != TR_OK)
        unlink(file->temporary);
    forget(file);
    return status;
}
