/* segment_state.h - the inside of a segment, shared by segment.c (life, growth) and segment_map.c (addresses). */
#pragma once

#include "storage/memory/segment.h"

enum { TR__SEGMENT_HEADER = 4096 };
#define TR__HUGE_PAGE ((uint64_t)2 << 20)
#define TR__SEGMENT_LARGE ((uint64_t)16 << 20)     /* segments of fewer bytes have small pages */

struct tr_segment {
    char     name[TR_SEGMENT_NAME];
    int      file;                    /* -1: anonymous */
    char    *reserved;                /* the start of the mapping */
    uint64_t reserved_bytes;
    char    *map;                     /* header and contents, aligned to a huge page where the room is large */
    uint64_t limit, bytes;            /* bytes of the contents */
    uint64_t room;                    /* bytes of contents for which there are addresses; less than the limit only where it may move */
    bool     may_move;
    uint64_t asked;                   /* place in the file: huge pages were requested for the bytes before it */
    bool     is_refused;              /* the machine gives no huge pages */
};

/* The first addresses of a segment: for its limit, or for a beginning where it may move. A segment that stays has a lower limit where
 * addresses are scarce, so that the rest of the process has some, but not below its present size. */
tr_status   tr__segment_map(tr_segment *segment);
/* Map the segment elsewhere, with addresses for `bytes` bytes of contents or more. On failure it stays as it was. */
tr_status   tr__segment_move(tr_segment *segment, uint64_t bytes);
void        tr__segment_unmap(tr_segment *segment);
/* Its name in messages. */
const char *tr__segment_called(const tr_segment *segment);
