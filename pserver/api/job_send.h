/* job_send.h - gradients that leave. */
#pragma once

#include "pserver/api/job.h"

/* Send a block's gradient, after tr_job_push has checked it. `is_last`: it is the last one of the step. */
tr_status tr__job_send_block(tr_job *job, int block, const void *data, double weight, bool is_last, tr_ticket *ticket);
/* Send the gradient of a table, which tr_job_push_rows has prepared. */
tr_status tr__job_send_rows(tr_job *job, int table);
/* Does a pull of parameters follow each step's end directly? */
bool      tr__job_pulls_after_steps(const tr_job *job);
/* Copy a gradient to memory that does not change until its step is settled; *out is the copy. First waits until the last gradient from
 * that memory is settled. */
tr_status tr__job_stage(char **out, tr_job *job, int block, const char *data);
