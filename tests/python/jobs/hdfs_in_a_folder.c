/* hdfs_in_a_folder.c - the interface of libhdfs over a folder of this machine, for tests. pyarrow loads it as libhdfs.so, and loads some
 * libjvm.so before, of which it calls nothing. FOLDER, the folder's path, is defined when this file is compiled.
 *
 * As in HDFS, a rename replaces no file, and lists name URIs. While there is a file FOLDER.down, every call fails. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { FILE_KIND = 'F', FOLDER_KIND = 'D', PATH_BYTES = 4096 };

/* The library's callers know its layout. */
typedef struct hdfs_info {
    int     kind;
    char   *name;
    time_t  modified;
    int64_t size;
    short   replication;
    int64_t block_size;
    char   *owner, *group;
    short   permissions;
    time_t  accessed;
} hdfs_info;

/* A builder, and then the file system that it has made. */
typedef struct hdfs {
    char     host[256];
    uint16_t port;
} hdfs;

typedef struct hdfs_file {
    int fd;
} hdfs_file;

/* == names ============================================================================================ */

/* The path of this machine. NULL: the store is down. */
static char *local(char path[PATH_BYTES], const char *name)
{
    if (access(FOLDER ".down", F_OK) == 0) {
        errno = ECONNREFUSED;
        return NULL;
    }
    snprintf(path, PATH_BYTES, FOLDER "%s", name);
    return path;
}

static void uri_of(char out[PATH_BYTES], const hdfs *fs, const char *name)
{
    snprintf(out, PATH_BYTES, "%s:%d%s", fs->host, fs->port, name);
}

static int make_folders(char *path)
{
    for (char *at = strchr(path + 1, '/'); at; at = strchr(at + 1, '/')) {
        *at = '\0';
        const int failed = mkdir(path, 0777) != 0 && errno != EEXIST;
        *at = '/';
        if (failed)
            return -1;
    }
    return 0;
}

/* == connections ====================================================================================== */

hdfs *hdfsNewBuilder(void)
{
    return calloc(1, sizeof(hdfs));
}

void hdfsBuilderSetNameNode(hdfs *builder, const char *host)           /* hdfs://name */
{
    snprintf(builder->host, sizeof builder->host, "%s", host);
}

void hdfsBuilderSetNameNodePort(hdfs *builder, uint16_t port)
{
    builder->port = port;
}

void hdfsBuilderSetUserName(hdfs *builder, const char *user) { (void)builder, (void)user; }
void hdfsBuilderSetKerbTicketCachePath(hdfs *builder, const char *path) { (void)builder, (void)path; }
void hdfsBuilderSetForceNewInstance(hdfs *builder) { (void)builder; }
int  hdfsBuilderConfSetStr(hdfs *builder, const char *key, const char *value) { return (void)builder, (void)key, (void)value, 0; }
hdfs *hdfsBuilderConnect(hdfs *builder) { return builder; }

int hdfsDisconnect(hdfs *fs)
{
    free(fs);
    return 0;
}

int64_t hdfsGetCapacity(hdfs *fs) { return (void)fs, 0; }
int64_t hdfsGetUsed(hdfs *fs) { return (void)fs, 0; }

char *hdfsGetWorkingDirectory(hdfs *fs, char *out, size_t size)
{
    snprintf(out, size, "%s:%d/user", fs->host, fs->port);
    return out;
}

/* == folders ========================================================================================== */

int hdfsChown(hdfs *fs, const char *name, const char *user, const char *group) { return (void)fs, (void)name, (void)user, (void)group, 0; }
int hdfsChmod(hdfs *fs, const char *name, short mode) { return (void)fs, (void)name, (void)mode, 0; }

int hdfsCreateDirectory(hdfs *fs, const char *name)
{
    char path[PATH_BYTES];

    (void)fs;
    if (!local(path, name) || make_folders(path) != 0)
        return -1;
    return mkdir(path, 0777) == 0 || errno == EEXIST ? 0 : -1;
}

int hdfsExists(hdfs *fs, const char *name)
{
    char path[PATH_BYTES];

    (void)fs;
    return local(path, name) ? access(path, F_OK) : -1;
}

int hdfsDelete(hdfs *fs, const char *name, int recursive)
{
    char path[PATH_BYTES];

    (void)fs, (void)recursive;                     /* whole folders are never removed here */
    return local(path, name) ? remove(path) : -1;
}

int hdfsRename(hdfs *fs, const char *from, const char *to)
{
    char old[PATH_BYTES], new[PATH_BYTES];

    (void)fs;
    if (!local(old, from) || !local(new, to))
        return -1;
    if (access(new, F_OK) == 0) {
        errno = EIO;
        return -1;
    }
    return rename(old, new);
}

static int fill(hdfs_info *info, const hdfs *fs, const char *name)
{
    char        path[PATH_BYTES], uri[PATH_BYTES];
    struct stat found;

    if (!local(path, name) || stat(path, &found) != 0)
        return -1;
    uri_of(uri, fs, name);
    *info = (hdfs_info){.kind = S_ISDIR(found.st_mode) ? FOLDER_KIND : FILE_KIND, .name = strdup(uri), .modified = found.st_mtime,
                        .size = found.st_size, .owner = strdup(""), .group = strdup(""), .accessed = found.st_atime};
    return 0;
}

void hdfsFreeFileInfo(hdfs_info *info, int count)
{
    for (int i = 0; i < count; i++) {
        free(info[i].name);
        free(info[i].owner);
        free(info[i].group);
    }
    free(info);
}

hdfs_info *hdfsGetPathInfo(hdfs *fs, const char *name)
{
    hdfs_info *info = calloc(1, sizeof *info);

    if (fill(info, fs, name) == 0)
        return info;
    free(info);
    return NULL;
}

hdfs_info *hdfsListDirectory(hdfs *fs, const char *name, int *count)
{
    char           path[PATH_BYTES], child[PATH_BYTES];
    DIR           *folder = local(path, name) ? opendir(path) : NULL;
    hdfs_info     *infos = NULL;
    struct dirent *one;

    *count = 0;
    if (!folder)
        return NULL;
    while ((one = readdir(folder))) {
        if (!strcmp(one->d_name, ".") || !strcmp(one->d_name, ".."))
            continue;
        snprintf(child, sizeof child, "%s%s%s", name, name[strlen(name) - 1] == '/' ? "" : "/", one->d_name);
        infos = realloc(infos, ((size_t)*count + 1) * sizeof *infos);
        *count += fill(&infos[*count], fs, child) == 0;        /* it may be gone */
    }
    closedir(folder);
    errno = 0;
    return infos;
}

/* == files ============================================================================================ */

hdfs_file *hdfsOpenFile(hdfs *fs, const char *name, int flags, int buffer, short replication, int32_t block)
{
    char path[PATH_BYTES];

    (void)fs, (void)buffer, (void)replication, (void)block;
    if (!local(path, name) || (flags != O_RDONLY && make_folders(path) != 0))
        return NULL;
    const int fd = open(path, flags == O_RDONLY ? O_RDONLY : O_WRONLY | O_CREAT | (flags & O_APPEND ? O_APPEND : O_TRUNC), 0666);
    if (fd < 0)
        return NULL;
    hdfs_file *file = malloc(sizeof *file);
    file->fd = fd;
    return file;
}

int hdfsCloseFile(hdfs *fs, hdfs_file *file)
{
    const int failed = close(file->fd);

    (void)fs;
    free(file);
    return failed;
}

static int is_down(void)
{
    char path[PATH_BYTES];
    return !local(path, "/");
}

int     hdfsFlush(hdfs *fs, hdfs_file *file) { return (void)fs, (void)file, is_down() ? -1 : 0; }
int     hdfsSeek(hdfs *fs, hdfs_file *file, int64_t to) { return (void)fs, lseek(file->fd, to, SEEK_SET) < 0 ? -1 : 0; }
int64_t hdfsTell(hdfs *fs, hdfs_file *file) { return (void)fs, lseek(file->fd, 0, SEEK_CUR); }

int32_t hdfsRead(hdfs *fs, hdfs_file *file, void *to, int32_t size)
{
    (void)fs;
    return is_down() ? -1 : (int32_t)read(file->fd, to, (size_t)size);
}

int32_t hdfsPread(hdfs *fs, hdfs_file *file, int64_t at, void *to, int32_t size)
{
    (void)fs;
    return is_down() ? -1 : (int32_t)pread(file->fd, to, (size_t)size, at);
}

int32_t hdfsWrite(hdfs *fs, hdfs_file *file, const void *from, int32_t size)
{
    (void)fs;
    return is_down() ? -1 : (int32_t)write(file->fd, from, (size_t)size);
}
