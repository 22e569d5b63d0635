/* job_pull.h - parameters that arrive in the next step. */
#pragma once

#include "pserver/api/job.h"

void      tr__job_pulls_begin(tr_job *job);
void      tr__job_pulls_end(tr_job *job);
/* As tr_job_pull, also of values: their entries follow those of the blocks. */
tr_status tr__job_pull_entries(tr_job *job, int count, const int *entries, void *const *data, tr_ticket *ticket);
/* Wait until the last step is settled and its parameters are here. After that the next gradient may leave. */
tr_status tr__job_settle(tr_job *job);
/* Pull all blocks again, each to the place of its last pull. */
tr_status tr__job_pull_again(tr_job *job);
/* Wait for the last pull of the block. */
tr_status tr__job_await_block(tr_job *job, int block);
