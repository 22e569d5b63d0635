/* file_reads.h - many reads of files at a time, by threads that wait for the disk.
 *
 * A disk serves tens of thousands of reads a second, but only when many of them are under way. All callers share one pool of threads and
 * take turns. The pool's threads start at the first call, and a forked child starts its own. */
#pragma once

#include "framework/base/status.h"

typedef struct tr_file_read {
    uint64_t at;                      /* place in the file */
    uint64_t bytes;
    char    *to;
} tr_file_read;

/* Read all of these from an open file. The text of a failure names `what`. TR_EIO: a read failed, or the file ends
 * before. */
tr_status tr_file_reads_run(int file, const char *what, const tr_file_read *reads, int64_t count);
