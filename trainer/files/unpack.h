/* unpack.h - reads the bytes that gzip packed into a file.
 *
 * A file may have several members: bgzip, pigz and `cat a.gz b.gz` write them. Each member must be whole, and its checksum must fit.
 * As gzip does, the reader accepts zeros after the last member. All other bytes there are refused, because they may be a damaged member. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_unpack tr_unpack;

/* The descriptor stays the caller's. `path` is for messages; it is borrowed. NULL: there is no memory. */
tr_unpack *tr_unpack_new(int file, const char *path);
void       tr_unpack_free(tr_unpack *unpack);
/* Read up to `size` bytes, which is above 0. *got = 0: the end of the file. */
tr_status  tr_unpack_read(size_t *got, tr_unpack *unpack, char *to, size_t size);
