/* checksums.h - the checksums of a folder's files, as trireme_checkpoint.h describes them. */
#ifndef TR_STORAGE_CHECKSUMS_H
#define TR_STORAGE_CHECKSUMS_H

#include "storage/trireme_checkpoint.h"

/* The folder's file of checksums, as a checksum: another file names it by that. */
uint32_t tr_checksums_own(const tr_checksums *sums);
/* Whether a file of the folder has a checksum. `sums` may be NULL: none has. */
bool     tr_checksums_has(const tr_checksums *sums, const char *name);
/* The line of a file with this content, malloc'ed. */
char    *tr_checksums_line_of(const void *content, size_t size, const char *name);
/* The whole text with these lines, malloc'ed. */
char    *tr_checksums_text(const char *lines);

#endif
