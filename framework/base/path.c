/* path.c - see path.h. */
#include "framework/base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "framework/base/memory.h"
#include "framework/base/name.h"

/* == which file a name means ========================================================================= */

static tr_status refuse(const char *name, const char *folder, const char *why)
{
    char shown[TR_NAME_SHOWN];

    return tr_fail(TR_EINVAL, "'%s' is no name of a file in '%s': %s", tr__name_show(shown, name, strlen(name)), folder, why);
}

/* A relative path whose parts lead downwards, each to something with a name. */
static tr_status check_parts(const char *folder, const char *name)
{
    TR_TRY(tr_name_check(name));
    for (const char *part = name;; part++) {
        const size_t size = strcspn(part, "/");
        if (size == 0)
            return refuse(name, folder, *name == '/' ? "it begins with '/'" : "a part between two '/' is empty");
        if ((size == 1 || size == 2) && !strncmp(part, "..", size))
            return refuse(name, folder, "a part of it is '.' or '..'");
        part += size;
        if (!*part)
            return TR_OK;
    }
}

static bool is_below(const char *path, const char *folder)
{
    const size_t size = strlen(folder);

    return !strncmp(path, folder, size) && (path[size] == '/' || path[size] == '\0' || (size && folder[size - 1] == '/'));
}

/* Cut `path` until something of that name is there. False: not even the first part of the name after the folder is. */
static bool cut_to_existing(char *path, size_t folder_size)
{
    struct stat info;

    for (char *end = path + strlen(path); end; end = strrchr(path + folder_size + 1, '/')) {
        *end = '\0';
        if (lstat(path, &info) == 0)
            return true;
    }
    return false;
}

/* The existing part of the path lies in the folder, links followed. */
static tr_status check_links(const char *folder, const char *name)
{
    tr_status status = TR_OK;
    char     *path = tr__must_format("%s/%s", folder, name), *root = realpath(folder, NULL), *real = NULL;

    if (root && cut_to_existing(path, strlen(folder))) {
        real = realpath(path, NULL);
        if (!real)
            status = refuse(name, folder, "a symbolic link on the way leads to nothing");
        else if (!is_below(real, root))
            status = refuse(name, folder, "a symbolic link on the way leads out of the folder");
    }
    free(real);
    free(root);
    free(path);
    return status;
}

tr_status tr_path_inside(char **out, const char *folder, const char *name)
{
    const char *in = *folder ? folder : ".";

    TR_TRY(check_parts(in, name));
    TR_TRY(check_links(in, name));
    *out = tr__must_format("%s/%s", in, name);
    return TR_OK;
}

/* == regular files ====================================================================================== */

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFDIR:  return "a folder";
    case S_IFIFO:  return "a FIFO";
    case S_IFCHR:
    case S_IFBLK:  return "a device";
    case S_IFSOCK: return "a socket";
    default:       return "something else";
    }
}

/* errno outlives the message. */
static tr_status cannot_open(const char *path, int error)
{
    const tr_status status = error == ENXIO ? tr_fail(TR_EIO, "'%s' is no regular file, but a socket or a device", path)
                                            : tr_fail(TR_EIO, "cannot open '%s': %s", path, strerror(error));

    errno = error;
    return status;
}

tr_status tr_path_open(int *fd, uint64_t *size, const char *path)
{
    struct stat info;

    *fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);       /* without waiting for the other end of a FIFO */
    if (*fd < 0)
        return cannot_open(path, errno);
    if (fstat(*fd, &info) == 0 && S_ISREG(info.st_mode)) {
        if (size)
            *size = (uint64_t)info.st_size;
        return TR_OK;
    }
    const tr_status status = tr_fail(TR_EIO, "'%s' is no regular file, but %s", path, kind_of(info.st_mode));
    close(*fd);
    errno = EINVAL;
    return status;
}

tr_status tr_path_fopen(FILE **in, uint64_t *size, const char *path)
{
    int fd;

    TR_TRY(tr_path_open(&fd, size, path));
    *in = fdopen(fd, "rb");
    if (*in)
        return TR_OK;
    close(fd);
    return tr_fail(TR_ENOMEM, "no memory to read '%s'", path);
}

tr_status tr_path_read(uint8_t **bytes, size_t *size, const char *path, uint64_t most)
{
    uint64_t length;
    FILE    *in;

    TR_TRY(tr_path_fopen(&in, &length, path));
    uint8_t *data = length <= most ? malloc((size_t)length + 1) : NULL;
    if (!data) {
        fclose(in);
        return length > most ? tr_fail(TR_EFORMAT, "'%s' has %llu bytes, more than the possible %llu", path,
                                       (unsigned long long)length, (unsigned long long)most)
                             : tr_fail(TR_ENOMEM, "no memory for the %llu bytes of '%s'", (unsigned long long)length, path);
    }
    *size = fread(data, 1, (size_t)length, in);
    const bool is_bad = ferror(in);
    fclose(in);
    if (is_bad) {
        free(data);
        return tr_fail(TR_EIO, "cannot read '%s': %s", path, strerror(errno));
    }
    data[*size] = 0;
    *bytes = data;
    return TR_OK;
}
