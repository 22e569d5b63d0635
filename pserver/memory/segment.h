/* segment.h - memory that outlives its process: a region that grows, at an address that stays.
 *
 * A named segment is a POSIX shared memory object (a file of /dev/shm). When its process dies at any instruction, the memory stays as it
 * was, and another process of the same user attaches to it by name. A segment without a name is anonymous memory of this process and grows
 * in the same way, so its users need not distinguish the two.
 *
 * The whole virtual range is reserved at once, so the base never moves. Only tr_segment_grow takes memory from the machine, at once and for
 * good: a full /dev/shm is a status there, never a later SIGBUS. New memory is zero. Segments of 16 MiB and more have huge pages where the
 * machine gives them, and grow by whole ones.
 *
 * One process at a time holds a named segment, by a lock that ends with the process. The header has a word for the kind of contents and a
 * version; attaching checks both.
 *
 * What must stay true: a segment holds offsets and indices, never pointers, because the next process maps it elsewhere. A kill between any
 * two stores must leave the contents consistent; the code that writes them sees to that. */
#ifndef TR_PSERVER_SEGMENT_H
#define TR_PSERVER_SEGMENT_H

#include "framework/status.h"

typedef struct tr_segment tr_segment;

/* The longest name, with its end; it has letters, digits and "._-" only. */
enum { TR_SEGMENT_NAME = 128, TR_SEGMENT_CONTENT = 32 };

/* A new one, empty, that can grow up to `limit` bytes. `name` may be NULL. TR_EEXIST: there is one of this name.
 * `content` is a short word such as "table", `version` the number of its layout. */
tr_status tr_segment_create(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* Attach to the segment of this name, as it was left. TR_ENOTFOUND: there is none. TR_EEXIST: a living process holds it. TR_EFORMAT: the
 * file is no segment, was never completed, or has other contents or another version. */
tr_status tr_segment_attach(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* Have at least `bytes` bytes. TR_ENOMEM, TR_ERANGE (beyond the limit): it is as it was. Never shrinks. */
tr_status tr_segment_grow(tr_segment *segment, uint64_t bytes);

/* Aligned to 4096; stays until tr_segment_free. */
void       *tr_segment_base(const tr_segment *segment);
uint64_t    tr_segment_bytes(const tr_segment *segment);
/* Bytes of the pages that large named segments get on this machine, found by trying: 2 MiB or 4096. */
uint64_t    tr_segment_page_bytes(void);
/* "" for one without a name. */
const char *tr_segment_name(const tr_segment *segment);
/* Let go of it. A named one stays for others to attach. */
void        tr_segment_free(tr_segment *segment);

/* Remove a named segment. A process that holds it keeps its memory; no process can attach any more. TR_ENOTFOUND: there is none. */
tr_status tr_segment_remove(const char *name);
/* The names that begin with `prefix`, in alphabetical order: one malloc, the names behind the pointers. */
tr_status tr_segment_list(char ***out, int *count, const char *prefix);
/* Remove the segments that no living process holds. `*count` (may be NULL): how many. */
tr_status tr_segment_remove_all(int *count, const char *prefix);

#endif
