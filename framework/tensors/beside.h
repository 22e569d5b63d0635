/* beside.h - writing a file so that its readers see all of it or the one before it: what is written goes to a
 * name beside it, which takes the file's place at the end. What a process that died has left of the same file is removed:
 * a writer that lives has it locked (flock). */
#pragma once

#include <stdio.h>

#include "framework/base/status.h"

typedef struct tr_beside {
    FILE *out;
    char *path, *temporary;
} tr_beside;

/* Create the folders on the way to `path`: all up to its last slash. */
tr_status tr__make_folders(const char *path);
/* Creates the folders on the way to `path`, too. */
tr_status tr_beside_open(tr_beside *file, const char *path);
/* Ends the writing: on TR_OK the file is there. With another status, or when the disk is full, the old file stays and
 * the new one is gone; the first failure is returned. */
tr_status tr_beside_close(tr_beside *file, tr_status status);
/* TR_EIO for errno: `path` cannot be written. Of a full disk the text says how full it is. */
tr_status tr__cannot_write(const char *path);
