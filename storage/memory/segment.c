/* segment.c - see segment.h. A segment is one page of header, then the contents. The file's size is the segment's size.
 *
 * Large segments get huge pages where the machine has them. Anonymous memory gets them when it is first touched. Shared memory gets them
 * only where shmem_enabled allows it, which is rare. But on request the kernel collapses small pages into huge ones (MADV_COLLAPSE,
 * Linux 6.1). The request is made while a segment grows, when the memory has one small page in each 2 MiB. So the kernel copies little,
 * and clears the rest. If the kernel refuses, small pages are used. */
#include "storage/memory/segment_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const char     FOLDER[] = "/dev/shm";
static const uint64_t MAGIC = 0x4745533145525254u;     /* "TRRE1SEG": written last */
enum { VERSION = 1, HEADER = TR__SEGMENT_HEADER };
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

typedef struct header {
    uint64_t magic;
    uint32_t version;                 /* the number of this header's layout */
    uint32_t content_version;
    char     content[TR_SEGMENT_CONTENT];
    int64_t  pid;                     /* the process that holds the segment, or held it last */
} header;

static tr_status check_name(const char *name)
{
    const size_t length = strlen(name);

    if (!length || length >= TR_SEGMENT_NAME || name[0] == '.')
        return tr_fail(TR_EINVAL, "segment '%s': a name has 1 to %d characters and begins with no dot", name, TR_SEGMENT_NAME - 1);
    for (const char *at = name; *at; at++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", *at))
            return tr_fail(TR_EINVAL, "segment '%s': a name has letters, digits, '.', '_' and '-' only", name);
    return TR_OK;
}

static header *header_of(const tr_segment *segment)
{
    return (header *)segment->map;
}

/* == growth ====================================================================================== */

static tr_status no_room(const tr_segment *segment, uint64_t bytes)
{
    struct statvfs info;

    if (statvfs(FOLDER, &info) != 0)
        return tr_fail(TR_ENOMEM, "segment '%s': no room for %llu bytes in %s", segment->name, (unsigned long long)bytes, FOLDER);
    return tr_fail(TR_ENOMEM, "segment '%s': no room for %llu more bytes in %s, of which %llu of %llu are free; give it a larger "
                   "size (mount -o remount,size=..., or --shm-size of a container)", segment->name,
                   (unsigned long long)(bytes - segment->bytes), FOLDER,
                   (unsigned long long)info.f_bavail * info.f_frsize, (unsigned long long)info.f_blocks * info.f_frsize);
}

/* Allocate bytes [from, to) of the file. Returns 0 or an errno. */
static int take(const tr_segment *segment, uint64_t from, uint64_t to)
{
    while (fallocate(segment->file, 0, (off_t)from, (off_t)(to - from)) != 0)
        if (errno != EINTR)
            return errno;
    return 0;
}

static tr_status no_memory(const tr_segment *segment, uint64_t bytes, int error)
{
    if (error == ENOSPC || error == ENOMEM)
        return no_room(segment, bytes);
    return tr_fail(TR_EIO, "segment '%s': cannot grow to %llu bytes: %s", segment->name, (unsigned long long)bytes, strerror(error));
}

static bool has_room(uint64_t bytes)
{
    struct statvfs info;

    return statvfs(FOLDER, &info) == 0 && (!info.f_blocks || (uint64_t)info.f_bavail * info.f_frsize >= bytes);
}

/* Request huge pages for every whole 2 MiB of a file of `to` bytes. Where that fails the file has holes, which `take` fills. */
static void take_huge(tr_segment *segment, uint64_t to)
{
    const uint64_t end = to / TR__HUGE_PAGE * TR__HUGE_PAGE;

    if (to < TR__SEGMENT_LARGE || end <= segment->asked || segment->is_refused || !has_room(to - segment->asked) ||
        ftruncate(segment->file, (off_t)to) != 0)
        return;
    for (uint64_t at = segment->asked; at < end; at += TR__HUGE_PAGE)
        if (take(segment, at, at + HEADER) != 0)
            return;
    segment->is_refused = madvise(segment->map + segment->asked, end - segment->asked, MADV_COLLAPSE) != 0 && errno == EINVAL;
    segment->asked = end;
}

/* Allocate the file's memory now: if a page could not be had later, touching it would raise SIGBUS. */
static tr_status grow_file(tr_segment *segment, uint64_t bytes)
{
    const uint64_t had = HEADER + segment->bytes;

    take_huge(segment, HEADER + bytes);
    const int error = take(segment, segment->bytes ? had : 0, HEADER + bytes);      /* the header is allocated with the first bytes of contents */
    if (!error)
        return TR_OK;
    if (ftruncate(segment->file, (off_t)had) == 0 && segment->asked > had)
        segment->asked = had / TR__HUGE_PAGE * TR__HUGE_PAGE;
    return no_memory(segment, bytes, error);
}

/* Anonymous memory that was touched while the segment was small has small pages. When the segment is large, collapse them, if the
 * machine does so. */
static void gather_small_pages(const tr_segment *segment, uint64_t bytes)
{
    if (HEADER + segment->bytes < TR__SEGMENT_LARGE && HEADER + bytes >= TR__SEGMENT_LARGE)
        madvise(segment->map, TR__SEGMENT_LARGE, MADV_COLLAPSE);
}

/* Memory for the header and `bytes` of contents. */
static tr_status commit(tr_segment *segment, uint64_t bytes)
{
    if (segment->file >= 0)
        TR_TRY(grow_file(segment, bytes));
    else if (mprotect(segment->map, HEADER + bytes, PROT_READ | PROT_WRITE) != 0)
        return tr_fail(TR_ENOMEM, "segment '%s': no memory for %llu bytes: %s", tr__segment_called(segment), (unsigned long long)bytes, strerror(errno));
    else
        gather_small_pages(segment, bytes);
    segment->bytes = bytes;
    return TR_OK;
}

tr_status tr_segment_grow(tr_segment *segment, uint64_t bytes)
{
    if (bytes <= segment->bytes)
        return TR_OK;
    if (bytes > segment->limit)
        return tr_fail(TR_ERANGE, "segment '%s': %llu bytes are wanted, its limit is %llu", tr__segment_called(segment),
                       (unsigned long long)bytes, (unsigned long long)segment->limit);
    /* A large segment ends with a whole huge page: the machine gives such a page only for memory that is all in use. */
    const uint64_t unit = HEADER + bytes < TR__SEGMENT_LARGE ? HEADER : TR__HUGE_PAGE;
    const uint64_t end = (HEADER + bytes + unit - 1) / unit * unit, wanted = end - HEADER < segment->limit ? end - HEADER : segment->limit;
    if (wanted > segment->room)
        TR_TRY(tr__segment_move(segment, wanted));
    return commit(segment, wanted);
}

void tr_segment_shrink(tr_segment *segment, uint64_t bytes)
{
    const uint64_t unit = HEADER + bytes < TR__SEGMENT_LARGE ? HEADER : TR__HUGE_PAGE;
    const uint64_t had = HEADER + segment->bytes, end = (HEADER + bytes + unit - 1) / unit * unit;

    if (end >= had)
        return;
    /* A segment that cannot be cut keeps its memory. */
    if (segment->file >= 0 ? ftruncate(segment->file, (off_t)end) != 0 : madvise(segment->map + end, had - end, MADV_DONTNEED) != 0)
        return;
    segment->bytes = end - HEADER;
    segment->asked = segment->asked < end ? segment->asked : end / TR__HUGE_PAGE * TR__HUGE_PAGE;
}

/* == life ====================================================================================== */

static tr_segment *make(const char *name, uint64_t limit, bool may_move)
{
    tr_segment *segment = calloc(1, sizeof *segment);

    if (segment) {
        snprintf(segment->name, sizeof segment->name, "%s", name ? name : "");
        segment->file = -1;
        segment->may_move = may_move;
        segment->limit = (limit + HEADER - 1) & ~(uint64_t)(HEADER - 1);
    }
    return segment;
}

void tr_segment_free(tr_segment *segment)
{
    if (!segment)
        return;
    tr__segment_unmap(segment);
    if (segment->file >= 0)
        close(segment->file);
    free(segment);
}

static tr_status lock(tr_segment *segment)
{
    header head = {0};

    if (flock(segment->file, LOCK_EX | LOCK_NB) == 0)
        return TR_OK;
    if (pread(segment->file, &head, sizeof head, 0) < (ssize_t)sizeof head)
        head.pid = 0;
    return tr_fail(TR_EEXIST, "segment '%s': process %lld has it", segment->name, (long long)head.pid);
}

static int unlink_file(const char *name)
{
    char path[TR_SEGMENT_NAME + 1];

    snprintf(path, sizeof path, "/%s", name);
    return shm_unlink(path);
}

/* Each named segment is an open file. Raise this process's limit of open files as far as the system allows it. */
static bool may_open_more(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur >= files.rlim_max)
        return false;
    files.rlim_cur = files.rlim_max;
    return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

static tr_status too_many_files(const tr_segment *segment)
{
    struct rlimit files = {0};

    getrlimit(RLIMIT_NOFILE, &files);
    return tr_fail(TR_EIO, "segment '%s': this process has opened all of the %llu files that it may have (ulimit -n); a sparse table "
                   "of a server takes three or four", segment->name, (unsigned long long)files.rlim_cur);
}

static tr_status open_file(tr_segment *segment, int flags)
{
    char path[TR_SEGMENT_NAME + 1];

    snprintf(path, sizeof path, "/%s", segment->name);
    segment->file = shm_open(path, O_RDWR | flags, 0600);
    if (segment->file < 0 && errno == EMFILE && may_open_more())
        segment->file = shm_open(path, O_RDWR | flags, 0600);
    if (segment->file >= 0)
        return lock(segment);
    if (errno == EMFILE)
        return too_many_files(segment);
    if (errno == EEXIST)
        return tr_fail(TR_EEXIST, "segment '%s' exists already", segment->name);
    if (errno == ENOENT)
        return tr_fail(TR_ENOTFOUND, "there is no segment '%s'", segment->name);
    return tr_fail(TR_EIO, "segment '%s': %s", segment->name, strerror(errno));
}

static void fill_header(tr_segment *segment, const char *content, uint32_t version)
{
    header *head = header_of(segment);

    head->version = VERSION;
    head->content_version = version;
    snprintf(head->content, sizeof head->content, "%s", content);
    head->pid = getpid();
    __atomic_store_n(&head->magic, MAGIC, __ATOMIC_RELEASE);
}

static tr_status create(tr_segment *segment, const char *content, uint32_t version)
{
    if (segment->name[0])
        TR_TRY(open_file(segment, O_CREAT | O_EXCL));
    TR_TRY(tr__segment_map(segment));
    TR_TRY(commit(segment, 0));
    fill_header(segment, content, version);
    return TR_OK;
}

static tr_status create_any(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit, bool may_move)
{
    if (name)
        TR_TRY(check_name(name));
    tr_segment *segment = make(name, limit, may_move);
    if (!segment)
        return tr_fail(TR_ENOMEM, "segment: no memory");
    const tr_status status = create(segment, content, version);
    if (status == TR_OK) {
        *out = segment;
        return TR_OK;
    }
    if (segment->file >= 0)
        unlink_file(name);
    tr_segment_free(segment);
    return status;
}

tr_status tr_segment_create(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    return create_any(out, name, content, version, limit, false);
}

tr_status tr_segment_create_moving(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    return create_any(out, name, content, version, limit, true);
}

static tr_status check_header(const tr_segment *segment, const char *content, uint32_t version)
{
    const header *head = header_of(segment);

    if (__atomic_load_n(&head->magic, __ATOMIC_ACQUIRE) != MAGIC)
        return tr_fail(TR_EFORMAT, "segment '%s' was never completed, or is none of ours", segment->name);
    if (head->version != VERSION)
        return tr_fail(TR_EFORMAT, "segment '%s' is of version %u, this program knows %d", segment->name, head->version, VERSION);
    if (strncmp(head->content, content, sizeof head->content) != 0)
        return tr_fail(TR_EFORMAT, "segment '%s' holds '%.*s', not '%s'", segment->name, (int)sizeof head->content,
                       head->content, content);
    if (head->content_version != version)
        return tr_fail(TR_EFORMAT, "segment '%s' holds version %u of '%s', this program knows %u", segment->name,
                       head->content_version, content, version);
    return TR_OK;
}

/* A segment whose process was killed while it grew has holes. To allocate all of its memory again would take 35 ms a GB, and seconds
 * where pages were never touched. A large file without holes has as many blocks as bytes, so the number of blocks answers at once. */
static bool is_whole(const struct stat *info)
{
    const uint64_t bytes = (uint64_t)info->st_size;

    return bytes >= TR__SEGMENT_LARGE && bytes % TR__HUGE_PAGE == 0 && (uint64_t)info->st_blocks * 512 == bytes;
}

static tr_status attach(tr_segment *segment, const char *content, uint32_t version)
{
    struct stat info;

    TR_TRY(open_file(segment, 0));
    if (fstat(segment->file, &info) != 0)
        return tr_fail(TR_EIO, "segment '%s': %s", segment->name, strerror(errno));
    if (info.st_nlink == 0)                            /* another process removed it between our open and lock */
        return tr_fail(TR_ENOTFOUND, "there is no segment '%s'", segment->name);
    if (info.st_uid != geteuid())
        return tr_fail(TR_EFORMAT, "segment '%s' belongs to user %u", segment->name, (unsigned)info.st_uid);
    if (info.st_size < HEADER)
        return tr_fail(TR_EFORMAT, "segment '%s' was never completed: it has %lld bytes", segment->name, (long long)info.st_size);
    const uint64_t bytes = (uint64_t)info.st_size - HEADER;
    if (bytes > segment->limit)
        return tr_fail(TR_ERANGE, "segment '%s' has %llu bytes, its limit is %llu now", segment->name, (unsigned long long)bytes,
                       (unsigned long long)segment->limit);
    const int error = is_whole(&info) ? 0 : take(segment, 0, HEADER + bytes);
    if (error)
        return no_memory(segment, bytes, error);
    segment->bytes = bytes;
    segment->asked = (HEADER + bytes) / TR__HUGE_PAGE * TR__HUGE_PAGE;
    TR_TRY(tr__segment_map(segment));
    TR_TRY(check_header(segment, content, version));
    header_of(segment)->pid = getpid();
    return TR_OK;
}

static tr_status attach_any(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit, bool may_move)
{
    TR_TRY(check_name(name));
    tr_segment *segment = make(name, limit, may_move);
    if (!segment)
        return tr_fail(TR_ENOMEM, "segment: no memory");
    const tr_status status = attach(segment, content, version);
    if (status == TR_OK)
        *out = segment;
    else
        tr_segment_free(segment);
    return status;
}

tr_status tr_segment_attach(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    return attach_any(out, name, content, version, limit, false);
}

tr_status tr_segment_attach_moving(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    return attach_any(out, name, content, version, limit, true);
}

void *tr_segment_base(const tr_segment *segment)
{
    return segment->map + HEADER;
}

uint64_t tr_segment_bytes(const tr_segment *segment)
{
    return segment->bytes;
}

const char *tr_segment_name(const tr_segment *segment)
{
    return segment->name;
}

uint64_t tr_segment_page_bytes(void)
{
    tr_segment *probe = NULL;
    char        name[TR_SEGMENT_NAME];
    uint64_t    bytes = HEADER;

    snprintf(name, sizeof name, "trireme-pages-%d", (int)getpid());
    if (tr_segment_create(&probe, name, "probe", 1, TR__SEGMENT_LARGE) != TR_OK)
        return bytes;
    tr_segment_remove(name);
    if (tr_segment_grow(probe, TR__SEGMENT_LARGE) == TR_OK && probe->asked && !probe->is_refused)
        bytes = TR__HUGE_PAGE;
    tr_segment_free(probe);
    return bytes;
}

tr_status tr_segment_remove(const char *name)
{
    TR_TRY(check_name(name));
    if (unlink_file(name) == 0)
        return TR_OK;
    if (errno == ENOENT)
        return tr_fail(TR_ENOTFOUND, "there is no segment '%s'", name);
    return tr_fail(TR_EIO, "segment '%s': cannot be removed: %s", name, strerror(errno));
}
