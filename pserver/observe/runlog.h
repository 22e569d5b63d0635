/* runlog.h - a rank's log while it lives: lines of JSON in a file of its own, and figures for the launcher.
 *
 * TRIREME_LOG names a folder. There the rank writes "trainer-0.jsonl" (server-1, standby-0), one object a line; docs/logs.md describes
 * them. TRIREME_PROGRESS=1: a file "progress.3" in the launcher's folder holds the newest figures of rank 3, one object, written anew each
 * second. Agents of other hosts pass it on like all files of ranks.
 *
 * One thread writes both and sleeps in between, so no other thread waits for a disk. Where neither is asked for there is no thread, and all
 * calls do nothing.
 *
 * What must stay true: that thread calls `totals` and `progress`, and both read counters alone (meter.h). */
#pragma once

#include "framework/base/text.h"

enum { TR_RUNLOG_SCHEMA = 1 };

/* Fields of an object: each begins with a comma. */
typedef struct tr_runlog_source {
    void *self;
    void (*totals)(void *self, tr_text *out);
    void (*progress)(void *self, tr_text *out);
} tr_runlog_source;

/* Read the environment. TR_EINVAL, TR_EIO: the requested log is impossible; the process can stop before it starts MPI. */
tr_status tr_runlog_prepare(void);
/* Begin the log. `name`: the file's name without ".jsonl". `is_again`: keep the lines of earlier processes of this name. */
void      tr_runlog_start(const char *name, int rank, bool is_again, const tr_runlog_source *source);
/* Add a line about an event. `format` makes its fields. Any thread may call it. */
void      tr_runlog_note(const char *event, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Add the last line, with the totals and the fields of `format`, and end the thread. */
void      tr_runlog_end(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does this process write a log file? */
bool      tr_runlog_has_file(void);

/* A string of JSON, in quotes, cut off where the buffer ends; returns `out`. */
const char *tr_json_quote(char *out, size_t size, const char *text);
