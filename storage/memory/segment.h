/* segment.h - memory that outlives its process: a region that grows.
 *
 * A named segment is a POSIX shared memory object (a file of /dev/shm). When its process dies at any instruction, the memory stays as it
 * was, and another process of the same user attaches to it by name. A segment without a name is anonymous memory of this process and grows
 * in the same way, so its users need not distinguish the two.
 *
 * The whole virtual range is reserved at once, so the base stays. A segment that may move reserves little at first and more when it grows,
 * so that thousands fit into one process: then its base is another, and old pointers are dead. Only tr_segment_grow takes memory from the machine, at
 * once: a full /dev/shm is a status there, never a later SIGBUS. New memory is zero. Segments of 16 MiB and more have huge pages where the
 * machine gives them, and grow by whole ones.
 *
 * One process at a time holds a named segment, by a lock that ends with the process. The header has a word for the kind of contents and a
 * version; attaching checks both.
 *
 * What must stay true: a segment holds offsets and indices, never pointers, because the next process maps it elsewhere. A kill between any
 * two stores must leave the contents consistent; the code that writes them sees to that. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_segment tr_segment;

/* The longest name, with its terminating NUL. A name has letters, digits and "._-" only. */
enum { TR_SEGMENT_NAME = 128, TR_SEGMENT_CONTENT = 32 };

/* Make an empty segment that can grow up to `limit` bytes. `name` may be NULL. `content` is a short word such as "table", `version` the
 * number of its layout. TR_EEXIST: a segment of this name exists. */
tr_status tr_segment_create(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* The same for a segment that may move when it grows. */
tr_status tr_segment_create_moving(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* Attach to the segment of this name, as its last holder left it. TR_ENOTFOUND: there is none. TR_EEXIST: a living process holds it.
 * TR_EFORMAT: the file is no segment, was never completed, or has other contents or another version. */
tr_status tr_segment_attach(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
tr_status tr_segment_attach_moving(tr_segment **out, const char *name, const char *content, uint32_t version, uint64_t limit);
/* Grow the contents to at least `bytes` bytes. Never shrinks. TR_ENOMEM, TR_ERANGE (beyond the limit): the segment is unchanged. */
tr_status tr_segment_grow(tr_segment *segment, uint64_t bytes);
/* Give the memory of the contents after `bytes` bytes, or a little more, back to the machine. */
void      tr_segment_shrink(tr_segment *segment, uint64_t bytes);

/* The contents, aligned to 4096. The address stays the same until tr_segment_free, or until a segment that may move grows. */
void       *tr_segment_base(const tr_segment *segment);
uint64_t    tr_segment_bytes(const tr_segment *segment);
/* Bytes of a memory page that large named segments get on this machine: 2 MiB or 4096. The call tries it out. */
uint64_t    tr_segment_page_bytes(void);
/* The name; "" for a segment without one. */
const char *tr_segment_name(const tr_segment *segment);
/* Detach from the segment. A named one stays, and others may attach. */
void        tr_segment_free(tr_segment *segment);

/* Remove a named segment. A process that holds it keeps its memory; no process can attach any more. TR_ENOTFOUND: there is none. */
tr_status tr_segment_remove(const char *name);
/* List the names that begin with `prefix`, in alphabetical order. The pointers and the names are one malloc. */
tr_status tr_segment_list(char ***out, int *count, const char *prefix);
