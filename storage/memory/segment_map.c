/* segment_map.c - the addresses of segments: reserved, mapped, and moved when they are used up. */
#include "storage/memory/segment_state.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "framework/base/memory.h"

/* Addresses that a segment that may move has at first, and how many times as many it gets when these are used up. */
static const uint64_t FIRST_ROOM = (uint64_t)1 << 20;
enum { MORE_ROOM = 8 };

static void give_back_addresses(char *reserved, uint64_t bytes)
{
    if (reserved)
        munmap(reserved, bytes);
}

/* Large segments begin at a huge page. */
static void *reserve_addresses(tr_segment *segment)
{
    const uint64_t bytes = TR__SEGMENT_HEADER + segment->room;

    segment->reserved_bytes = bytes < TR__SEGMENT_LARGE ? bytes : bytes + TR__HUGE_PAGE;
    void *all = mmap(NULL, segment->reserved_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return all == MAP_FAILED ? NULL : all;
}

const char *tr__segment_called(const tr_segment *segment)
{
    return segment->name[0] ? segment->name : "of this process alone";
}

static tr_status too_few_addresses(const tr_segment *segment)
{
    const tr_status status = tr_fail(TR_ENOMEM, "segment '%s': cannot reserve %llu bytes of addresses: %s", tr__segment_called(segment),
                                     (unsigned long long)segment->reserved_bytes, strerror(errno));

    return tr__address_limit() ? status : tr_context(status, "a process has a limited number of mappings, too (sysctl vm.max_map_count)");
}

/* Reserve addresses for `room` bytes; where they are scarce (ulimit -v, a sanitizer), for fewer, but for `least` bytes. */
static tr_status reserve_room(tr_segment *segment, uint64_t room, uint64_t least)
{
    static const uint64_t PART = 4;
    void                 *all;

    segment->room = room;
    while (!(all = reserve_addresses(segment)) && segment->room / PART >= least)
        segment->room = segment->room / PART & ~(uint64_t)(TR__SEGMENT_HEADER - 1);
    if (!all)
        return too_few_addresses(segment);
    segment->reserved = all;
    segment->map = TR__SEGMENT_HEADER + segment->room < TR__SEGMENT_LARGE ? all : (char *)(((uintptr_t)all + TR__HUGE_PAGE - 1) & ~(uintptr_t)(TR__HUGE_PAGE - 1));
    return TR_OK;
}

/* Map the file whole; nothing touches the part after its end. */
static tr_status map_file(const tr_segment *segment)
{
    const uint64_t bytes = TR__SEGMENT_HEADER + segment->room;

    if (segment->file >= 0 && mmap(segment->map, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE,
                                   segment->file, 0) == MAP_FAILED)
        return tr_fail(TR_ENOMEM, "segment '%s': cannot map %llu bytes: %s", tr__segment_called(segment), (unsigned long long)bytes, strerror(errno));
    if (bytes >= TR__SEGMENT_LARGE)
        madvise(segment->map, bytes, MADV_HUGEPAGE);   /* where the machine has them */
    return TR_OK;
}

tr_status tr__segment_map(tr_segment *segment)
{
    static const uint64_t LEAST = (uint64_t)1 << 30;
    const uint64_t        least = segment->may_move ? TR__SEGMENT_HEADER : LEAST, room = segment->bytes > FIRST_ROOM ? segment->bytes : FIRST_ROOM;

    TR_TRY(reserve_room(segment, segment->may_move && room < segment->limit ? room : segment->limit, segment->bytes > least ? segment->bytes : least));
    if (!segment->may_move)
        segment->limit = segment->room;
    return map_file(segment);
}

/* Pages of anonymous memory go to their new place; where the kernel does not move them they are copied. */
static tr_status move_pages(const tr_segment *segment, char *from)
{
    const uint64_t bytes = TR__SEGMENT_HEADER + segment->bytes;

    if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, segment->map) != MAP_FAILED)
        return TR_OK;
    if (mprotect(segment->map, bytes, PROT_READ | PROT_WRITE) != 0)
        return tr_fail(TR_ENOMEM, "segment '%s': no memory for %llu bytes: %s", tr__segment_called(segment), (unsigned long long)bytes, strerror(errno));
    memcpy(segment->map, from, bytes);
    return TR_OK;
}

tr_status tr__segment_move(tr_segment *segment, uint64_t bytes)
{
    const tr_segment before = *segment;
    const uint64_t   room = segment->limit / MORE_ROOM > bytes ? bytes * MORE_ROOM : segment->limit;

    segment->reserved = NULL;
    tr_status status = reserve_room(segment, room, bytes);
    if (status == TR_OK)
        status = map_file(segment);
    if (status == TR_OK && segment->file < 0)
        status = move_pages(segment, before.map);
    const tr_segment *old = status == TR_OK ? &before : segment;
    give_back_addresses(old->reserved, old->reserved_bytes);
    if (status != TR_OK)
        *segment = before;
    return status;
}

void tr__segment_unmap(tr_segment *segment)
{
    give_back_addresses(segment->reserved, segment->reserved_bytes);
}
