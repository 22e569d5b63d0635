/* segment.c - see segment.h. A segment is one page of header, then the contents. The file's size is the segment's size.
 *
 * Large segments get huge pages where the machine has them. Anonymous memory gets them when it is first touched. Shared memory gets them
 * only where shmem_enabled allows it, which is rare. But on request the kernel collapses small pages into huge ones (MADV_COLLAPSE,
 * Linux 6.1). The request is made while a segment grows, when the memory has one small page in each 2 MiB. So the kernel copies little,
 * and clears the rest. If the kernel refuses, small pages are used. */
#include "storage/memory/segment.h"

#include "framework/memory.h"

#include <dirent.h>
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
enum { VERSION = 1, HEADER = 4096 };
static const uint64_t HUGE_PAGE = (uint64_t)2 << 20;
static const uint64_t LARGE = (uint64_t)16 << 20;      /* segments of fewer bytes have small pages */

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

struct tr_segment {
    char     name[TR_SEGMENT_NAME];
    int      file;                    /* -1: anonymous */
    char    *reserved;                /* the start of the mapping */
    uint64_t reserved_bytes;
    char    *map;                     /* header and contents, aligned to a huge page */
    uint64_t limit, bytes;            /* bytes of the contents */
    uint64_t asked;                   /* place in the file: huge pages were requested for the bytes before it */
    bool     is_refused;              /* the machine gives no huge pages */
};

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
    const uint64_t end = to / HUGE_PAGE * HUGE_PAGE;

    if (to < LARGE || end <= segment->asked || segment->is_refused || !has_room(to - segment->asked) ||
        ftruncate(segment->file, (off_t)to) != 0)
        return;
    for (uint64_t at = segment->asked; at < end; at += HUGE_PAGE)
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
        segment->asked = had / HUGE_PAGE * HUGE_PAGE;
    return no_memory(segment, bytes, error);
}

/* Anonymous memory that was touched while the segment was small has small pages. When the segment is large, collapse them, if the
 * machine does so. */
static void gather_small_pages(const tr_segment *segment, uint64_t bytes)
{
    if (HEADER + segment->bytes < LARGE && HEADER + bytes >= LARGE)
        madvise(segment->map, LARGE, MADV_COLLAPSE);
}

/* Memory for the header and `bytes` of contents. */
static tr_status commit(tr_segment *segment, uint64_t bytes)
{
    if (segment->file >= 0)
        TR_TRY(grow_file(segment, bytes));
    else if (mprotect(segment->map, HEADER + bytes, PROT_READ | PROT_WRITE) != 0)
        return tr_fail(TR_ENOMEM, "segment: no memory for %llu bytes: %s", (unsigned long long)bytes, strerror(errno));
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
        return tr_fail(TR_ERANGE, "segment '%s': %llu bytes are wanted, its limit is %llu", segment->name,
                       (unsigned long long)bytes, (unsigned long long)segment->limit);
    /* A large segment ends with a whole huge page: the machine gives such a page only for memory that is all in use. */
    const uint64_t unit = HEADER + bytes < LARGE ? HEADER : HUGE_PAGE;
    const uint64_t end = (HEADER + bytes + unit - 1) / unit * unit;
    return commit(segment, end - HEADER < segment->limit ? end - HEADER : segment->limit);
}

/* == life ====================================================================================== */

static tr_segment *make(const char *name, uint64_t limit)
{
    tr_segment *segment = calloc(1, sizeof *segment);

    if (segment) {
        snprintf(segment->name, sizeof segment->name, "%s", name ? name : "");
        segment->file = -1;
        segment->limit = (limit + HEADER - 1) & ~(uint64_t)(HEADER - 1);
    }
    return segment;
}

void tr_segment_free(tr_segment *segment)
{
    if (!segment)
        return;
    if (segment->reserved)
        munmap(segment->reserved, segment->reserved_bytes);
    if (segment->file >= 0)
        close(segment->file);
    free(segment);
}

static void *reserve_addresses(tr_segment *segment)
{
    segment->reserved_bytes = HEADER + segment->limit + HUGE_PAGE;
    void *all = mmap(NULL, segment->reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return all == MAP_FAILED ? NULL : all;
}

static tr_status too_few_addresses(const tr_segment *segment)
{
    const tr_status status = tr_fail(TR_ENOMEM, "segment '%s': cannot reserve %llu bytes of addresses: %s", segment->name,
                                     (unsigned long long)segment->reserved_bytes, strerror(errno));
    struct rlimit   allowed;

    if (getrlimit(RLIMIT_AS, &allowed) == 0 && allowed.rlim_cur != RLIM_INFINITY)
        tr_context(status, "of the %llu KiB that this process may have in all (ulimit -v)", (unsigned long long)allowed.rlim_cur / 1024);
    return status;
}

/* Reserve addresses for the largest size. A file is mapped whole; nothing touches the part after its end. Where addresses are scarce
 * (ulimit -v, a sanitizer), the limit shrinks so that the rest of the process has some, but not below the present size. */
static tr_status reserve(tr_segment *segment)
{
    static const uint64_t PART = 4, LEAST = (uint64_t)1 << 30;
    void                 *all = reserve_addresses(segment);

    while (!all && segment->limit / PART >= (segment->bytes > LEAST ? segment->bytes : LEAST)) {
        segment->limit = segment->limit / PART & ~(uint64_t)(HEADER - 1);
        all = reserve_addresses(segment);
    }
    if (!all)
        return too_few_addresses(segment);
    const uint64_t bytes = HEADER + segment->limit;
    segment->reserved = all;
    segment->map = (char *)(((uintptr_t)all + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1));
    if (segment->file >= 0 && mmap(segment->map, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                                   segment->file, 0) == MAP_FAILED)
        return tr_fail(TR_ENOMEM, "segment '%s': cannot map %llu bytes: %s", segment->name, (unsigned long long)bytes,
                       strerror(errno));
    madvise(segment->map, bytes, MADV_HUGEPAGE);       /* where the machine has them */
    return TR_OK;
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

static tr_status open_file(tr_segment *segment, int flags)
{
    char path[TR_SEGMENT_NAME + 1];

    snprintf(path, sizeof path, "/%s", segment->name);
    segment->file = shm_open(path, O_RDWR | flags, 0600);
    if (segment->file >= 0)
        return lock(segment);
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
    TR_TRY(reserve(segment));
    TR_TRY(commit(segment, 0));
    fill_header(segment, content, version);
    return TR_OK;
}

tr_status tr_segment_create(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    if (name)
        TR_TRY(check_name(name));
    tr_segment *segment = make(name, limit);
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

    return bytes >= LARGE && bytes % HUGE_PAGE == 0 && (uint64_t)info->st_blocks * 512 == bytes;
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
    segment->asked = (HEADER + bytes) / HUGE_PAGE * HUGE_PAGE;
    TR_TRY(reserve(segment));
    TR_TRY(check_header(segment, content, version));
    header_of(segment)->pid = getpid();
    return TR_OK;
}

tr_status tr_segment_attach(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit)
{
    TR_TRY(check_name(name));
    tr_segment *segment = make(name, limit);
    if (!segment)
        return tr_fail(TR_ENOMEM, "segment: no memory");
    const tr_status status = attach(segment, content, version);
    if (status == TR_OK)
        *out = segment;
    else
        tr_segment_free(segment);
    return status;
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
    if (tr_segment_create(&probe, name, "probe", 1, LARGE) != TR_OK)
        return bytes;
    tr_segment_remove(name);
    if (tr_segment_grow(probe, LARGE) == TR_OK && probe->asked && !probe->is_refused)
        bytes = HUGE_PAGE;
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

/* == segments without a process ================================================================== */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef struct names {
    char  *text;                      /* one after the other */
    size_t bytes, capacity;
    int    count;
} names;

static bool names_put(names *all, const char *name)
{
    const size_t size = strlen(name) + 1;

    if (all->bytes + size > all->capacity) {
        const size_t capacity = 2 * all->capacity + size + 256;
        char        *text = realloc(all->text, capacity);
        if (!text)
            return false;
        all->text = text;
        all->capacity = capacity;
    }
    memcpy(all->text + all->bytes, name, size);
    all->bytes += size;
    all->count++;
    return true;
}

static tr_status collect(names *all, const char *prefix)
{
    DIR *folder = opendir(FOLDER);

    if (!folder)
        return tr_fail(TR_EIO, "cannot list %s: %s", FOLDER, strerror(errno));
    for (struct dirent *entry; (entry = readdir(folder));)
        if (entry->d_name[0] != '.' && !strncmp(entry->d_name, prefix, strlen(prefix)) && !names_put(all, entry->d_name)) {
            closedir(folder);
            return tr_fail(TR_ENOMEM, "no memory for the names of segments");
        }
    closedir(folder);
    return TR_OK;
}

tr_status tr_segment_list(char ***out, int *count, const char *prefix)
{
    names           all = {0};
    const tr_status status = collect(&all, prefix);
    const size_t    pointers = ((size_t)all.count + 1) * sizeof(char *);
    char          **list = status == TR_OK ? tr__must_bytes(pointers + all.bytes) : NULL;

    if (list) {
        char *text = (char *)list + pointers;
        if (all.bytes)
            memcpy(text, all.text, all.bytes);
        for (int i = 0; i < all.count; i++, text += strlen(text) + 1)
            list[i] = text;
        list[all.count] = NULL;
        qsort(list, (size_t)all.count, sizeof *list, by_name);
        *out = list;
        *count = all.count;
    }
    free(all.text);
    return status;
}
