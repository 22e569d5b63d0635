/* file_reads.h - many reads of files at a time.
 *
 * A disk serves tens of thousands of reads a second, but only when many of them are under way. The kernel's asynchronous input does so
 * without a thread for each read. Where it is not to be had, one read comes after the other. Reads that nobody waits for yet are made by a
 * thread of their own, which starts at the first call; a forked child starts its own. Whole pages around each piece are read, so the file
 * may pass the page cache by (O_DIRECT). */
#pragma once

#include "framework/base/status.h"

#include <stdbool.h>

typedef struct tr_file_read {
    uint64_t at, bytes;               /* a piece of the file, at any place */
    char    *to;
} tr_file_read;

/* Read all of these from an open file. The text of a failure names `what`. TR_EIO: a read failed, or the file ends before. */
tr_status tr_file_reads_run(int file, const char *what, const tr_file_read *reads, int64_t count);

/* Some reads that are made by the thread. Until they are done the caller changes neither this object nor `reads`. */
typedef struct tr_file_reads {
    int                   file;
    const tr_file_read   *reads;
    int64_t               count;
    bool                  are_done;   /* of the thread */
    int                   error;      /* errno of a read that failed; -1: the file ended */
    struct tr_file_reads *later;
} tr_file_reads;

/* Begin to read, behind all that was begun before. Without a thread they are made at once. */
void      tr_file_reads_begin(tr_file_reads *batch);
bool      tr_file_reads_are_done(const tr_file_reads *batch);
/* Wait for the reads. Returns whether all succeeded. */
bool      tr_file_reads_wait(tr_file_reads *batch);
