/* chunks.h - finding and comparing chunks, such as names in a text, that are marked by the tags of their rows.
 *
 * A row's number is type * tags + tag, or types * tags where it is of no chunk. A chunk is as many rows of one type as there
 * are up to where a tag says that one begins or has ended. */
#pragma once

#include "framework/trireme.h"

typedef struct tr_chunk_scheme {
    const char *name;
    int64_t     tags;                 /* of each type */
    unsigned    begins, ends;         /* bit t: tag t is that of a chunk's first row; of its last row */
} tr_chunk_scheme;

/* plain has one tag: neighbours of one type are one chunk. */
typedef enum tr_chunk_kind { TR_CHUNK_IOB, TR_CHUNK_IOE, TR_CHUNK_IOBES, TR_CHUNK_PLAIN, TR_CHUNK_COUNT } tr_chunk_kind;
extern const tr_chunk_scheme tr_chunk_schemes[TR_CHUNK_COUNT];

typedef struct tr_chunk_rules {
    const tr_chunk_scheme *scheme;
    int64_t                types;
    const int32_t         *excluded;  /* types that are not counted */
    int                    excluded_count;
} tr_chunk_rules;

typedef struct tr_chunk_counts {
    int64_t found, real, right;       /* right: found, and real with the same rows and type */
} tr_chunk_counts;

/* Add those of one sequence of `rows` numbers, all in 0 .. types * tags. */
void tr_chunks_count(tr_chunk_counts *counts, const int64_t *found, const int64_t *real, int64_t rows, const tr_chunk_rules *r);
