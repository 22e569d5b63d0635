/* segment.h - memory that outlives its process: a growing region at an address that stays.
 *
 * A named segment is a POSIX shared memory object (a file of /dev/shm). When its process dies at any instruction, the
 * memory stays as it was, and another process of the same user attaches to it by name. Without a name it is plain
 * anonymous memory of this process, with the same growth: what is built on it need not care.
 *
 * The whole virtual range is reserved at once, so the base never moves; memory is taken from the machine only by
 * tr_segment_grow, at once and for good: a full /dev/shm is a status there, never a SIGBUS later. New memory is zero. Segments of 16 MiB
 * and more have huge pages where the machine gives them, and grow by whole ones.
 *
 * One process at a time holds a named segment, by a lock that ends with it. What a segment holds is said by a word and a
 * number of its version, which attaching checks.
 *
 * What must stay true: inside a segment stand offsets and indices, never pointers: the next process has it at another
 * base. Whoever changes the contents sees to it that a kill between any two stores leaves them consistent. */
#ifndef TR_PSERVER_SEGMENT_H
#define TR_PSERVER_SEGMENT_H

#include "framework/status.h"

typedef struct tr_segment tr_segment;

/* The longest name, with its end; it has letters, digits and "._-" only. */
enum { TR_SEGMENT_NAME = 128, TR_SEGMENT_CONTENT = 32 };

/* A new one, empty, that can grow up to `limit` bytes. `name` may be NULL. TR_EEXIST: there is one of this name.
 * `content` is a short word such as "table", `version` the number of its layout. */
tr_status tr_segment_create(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* The one of this name, as it was left. TR_ENOTFOUND: there is none; TR_EEXIST: a living process has it; TR_EFORMAT: it is none
 * of ours, was never completed, holds something else, or another version of it. */
tr_status tr_segment_attach(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* Have at least `bytes` bytes. TR_ENOMEM, TR_ERANGE (beyond the limit): it is as it was. Never shrinks. */
tr_status tr_segment_grow(tr_segment *segment, uint64_t bytes);

/* Aligned to 4096; stays until tr_segment_free. */
void       *tr_segment_base(const tr_segment *segment);
uint64_t    tr_segment_bytes(const tr_segment *segment);
/* Of the pages that large named ones get on this machine, found by trying: 2 MiB or 4096. */
uint64_t    tr_segment_page_bytes(void);
/* "" for one without a name. */
const char *tr_segment_name(const tr_segment *segment);
/* Let go of it. A named one stays for others to attach. */
void        tr_segment_free(tr_segment *segment);

/* Remove a named segment. Who has it keeps its memory; nobody can attach any more. TR_ENOTFOUND: there is none. */
tr_status tr_segment_remove(const char *name);
/* The names that begin with `prefix`, in alphabetical order: one malloc, the names behind the pointers. */
tr_status tr_segment_list(char ***out, int *count, const char *prefix);
/* Remove those that no living process has. `*count` (may be NULL): how many. */
tr_status tr_segment_remove_all(int *count, const char *prefix);

#endif
