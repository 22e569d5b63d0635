/* plan_arena.h - offsets in one piece of memory for what lives at different times.
 *
 * Spans are placed from the largest to the smallest, each at the lowest offset where no other one that lives at
 * the same time lies. */
#ifndef TR_FRAMEWORK_PLAN_ARENA_H
#define TR_FRAMEWORK_PLAN_ARENA_H

#include "framework/status.h"

#include <stdint.h>

typedef struct tr_span {
    int     var;
    int     from, to;                 /* first and last step that needs it */
    int64_t bytes;
    int64_t offset;
} tr_span;

/* Fill in the offsets, and how many bytes hold them all; the spans are sorted anew. TR_ENOMEM. */
tr_status tr__arena_place(int64_t *arena_bytes, tr_span *spans, int count);

#endif
