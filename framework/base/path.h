/* path.h - paths of files: which file a name means in a folder, and files opened for reading.
 *
 * A folder that we read may come from somebody else: a model, a checkpoint, a saved table. So nothing in it leads
 * out of it, neither a name in a program nor a symbolic link. And what is opened for reading is a regular file: a
 * FIFO would block for ever, a device could do anything.
 *
 * The check looks at the folder as it is. It does not protect against somebody who changes the folder meanwhile. */
#pragma once

#include <stdio.h>

#include "framework/base/status.h"

/* tr_path_inside is in trireme.h. */

/* Open a regular file for reading. The descriptor is closed on exec. *size is what fstat says; it may be NULL.
 * TR_EIO: it cannot be opened (errno says why: ENOENT), or is no regular file; the text says what it is. */
tr_status tr_path_open(int *fd, uint64_t *size, const char *path);
/* The same as a stream. */
tr_status tr_path_fopen(FILE **in, uint64_t *size, const char *path);
/* All bytes of a regular file of at most `most` bytes, malloc'ed, with a zero after them. */
tr_status tr_path_read(uint8_t **bytes, size_t *size, const char *path, uint64_t most);
