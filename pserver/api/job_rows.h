/* job_rows.h - rows of sparse tables between a trainer and its servers. */
#pragma once

#include "pserver/api/job.h"

/* tr_job_prefetch for one of several tables: the questions leave together with tr_job_flush, or when the job waits. */
tr_status tr__job_prefetch_gather(tr_job *job, int table, int64_t count, const int64_t *keys);
/* tr_job_prefetch_next for one of several tables. Where tables are on disk, tr_job_flush must follow. */
tr_status tr__job_prefetch_next_gather(tr_job *job, int table, int64_t count, const int64_t *keys);
bool      tr__job_is_on_disk(const tr_job *job, int table);
/* The copy of a table with the rows of these keys, which this trainer is about to update; NULL in modes without copies. */
tr_status tr__job_own_table(tr_table **out, tr_job *job, int table, int64_t count, const int64_t *keys);
/* Push the changed rows of all tables' copies. */
tr_status tr__job_push_changes(tr_job *job);
/* The step has ended: ask for the rows of the next step, where their keys are known. */
tr_status tr__job_tables_ended(tr_job *job);
