/* leases.h - a trainer's tasks. It asks server 0 for tasks ahead of time, the dataset's threads read them, and it reports each trained
 * task.
 *
 * A trainer holds two tasks at most: it trains on one while the next is being read. */
#pragma once

#include "framework/base/status.h"
#include "pserver/trireme_tasks.h"
#include "trainer/dataset/dataset.h"

typedef struct tr_leases tr_leases;

/* The tasks are the pieces of the dataset's files; all trainers together go over them `passes` times. The call begins a pass of the
 * dataset, which lasts until all tasks are done. */
tr_status tr_leases_new(tr_leases **out, tr_job *job, tr_dataset *data, int64_t passes, double seconds);
void      tr_leases_free(tr_leases *leases);
/* Ask for tasks and take answers; called between batches. *is_over: all passes are done, even if this trainer still reads a task. */
tr_status tr_leases_pump(bool *is_over, tr_leases *leases);
/* Is there something to read? Otherwise the next batch needs an answer first. */
bool      tr_leases_has_task(const tr_leases *leases);
/* Did an earlier holder of this task make the step of this batch? Call it once for each batch. */
bool      tr_leases_was_made(tr_leases *leases, int64_t lease);
/* The last batch of this lease was trained on. */
tr_status tr_leases_end(tr_leases *leases, int64_t lease);
