/* plan_arena.h - offsets in one piece of memory for what lives at different times.
 *
 * Spans are placed from the largest to the smallest, each at the lowest offset where no other one that lives at
 * the same time lies. The search for one span ends after so many looks: the span then lies above all others of its
 * time. So the work grows about as n log n. Programs of thousands of operators whose tensors have thousands of sizes may need some
 * thousandths more memory than the lowest offsets would. */
#pragma once

#include "framework/base/status.h"

#include <stdint.h>

typedef struct tr_span {
    int     var;
    int     from, to;                 /* first and last step that needs it */
    int64_t bytes;
    int64_t offset;
} tr_span;

/* The result of a placement. */
typedef struct tr_arena_size {
    int64_t bytes;                    /* that hold all spans */
    int64_t looks;                    /* at nodes of the tree and at gaps: the work, for tests */
} tr_arena_size;

/* Fill in the offsets; the spans are sorted anew. TR_ENOMEM. */
tr_status tr__arena_place(tr_arena_size *size, tr_span *spans, int count);
