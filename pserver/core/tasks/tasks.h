/* tasks.h - the core that leases tasks: which tasks are to do, which are leased to which trainer and until when, and which are done.
 *
 * The core never reads a clock: the caller passes times, in nanoseconds of any origin. The core knows no messages. Its packed state has a
 * fixed number of bytes for each task; it is stored in checkpoints and for a server's successor. */
#pragma once

#include "framework/base/status.h"
#include "pserver/trireme_tasks.h"

typedef struct tr_tasks tr_tasks;

enum { TR_TASK_FAILURES = 3 };        /* the job fails after so many failures of one task in one pass */

/* List number `list`; `before`, which may be NULL, is the list before it: the numbers of leases go on. */
tr_tasks *tr_tasks_new(const tr_tasks_spec *spec, uint32_t list, const tr_tasks *before);
void      tr_tasks_free(tr_tasks *tasks);
uint32_t  tr_tasks_list(const tr_tasks *tasks);
const tr_tasks_spec *tr_tasks_spec_of(const tr_tasks *tasks);

/* Lease the next task to a trainer. Leases that have expired by `now` end first. */
tr_task   tr_tasks_lease(tr_tasks *tasks, int64_t now, int trainer);
/* Are all passes done? */
bool      tr_tasks_are_done(const tr_tasks *tasks);
/* The trainer has finished the task of this lease. False: the lease had expired, and the task was leased to another trainer. */
bool      tr_tasks_done(tr_tasks *tasks, int trainer, uint64_t lease);
/* The trainer has failed on the task of this lease. TR_EPEER: the task has failed too often. */
tr_status tr_tasks_failed(tr_tasks *tasks, int trainer, uint64_t lease);
/* A trainer has left or died: its tasks can be leased to others. */
void      tr_tasks_leave(tr_tasks *tasks, int trainer);
/* Record how many steps of this lease's task were made. An expired lease is ignored. */
void      tr_tasks_made(tr_tasks *tasks, int trainer, uint64_t lease, uint32_t steps);
/* The task of this trainer's lease, as it was given out. TR_TASK_WAIT: the lease has expired. */
tr_task   tr_tasks_leased(const tr_tasks *tasks, int trainer, uint64_t lease);
/* Set the total number of passes over the tasks, and the duration of later leases in seconds. */
void      tr_tasks_extend(tr_tasks *tasks, uint32_t passes, double lease);

typedef struct tr_tasks_counts {
    uint32_t pass;                    /* number of the current pass, from 0; `passes` when all passes are done */
    uint32_t to_do, leased, done;     /* tasks of this pass */
    uint64_t leases;                  /* leases that were given out so far */
    uint64_t ran_out;                 /* leases that ended without a result: they expired, or their trainer left */
    uint64_t failed;
} tr_tasks_counts;

tr_tasks_counts tr_tasks_count(const tr_tasks *tasks);

/* save: pack the state into malloc'ed bytes. load: unpack it; the duration of every lease starts again. TR_EFORMAT: the bytes are
 * damaged. */
tr_status tr_tasks_save(void **out, size_t *size, const tr_tasks *tasks);
tr_status tr_tasks_load(tr_tasks **out, const void *bytes, size_t size);
size_t    tr_tasks_size(uint32_t count);
