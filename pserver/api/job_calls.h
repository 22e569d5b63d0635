/* job_calls.h - operations of a trainer on their way to the communication thread. */
#pragma once

#include "pserver/api/job.h"
#include "pserver/rank/rank_commands.h"

tr_status tr__job_check_trainer(const tr_job *job, const char *call);
tr_status tr__job_check_ready(const tr_job *job, const char *call);
tr_status tr__job_check_block(const tr_job *job, int block, const char *call);
/* Give the next operation its ticket, count it, and hand the command over. */
tr_status tr__job_call(tr_job *job, const tr__command *command, tr_ticket *ticket);
/* The number of the present step, from 1, counted from the beginning of the training. Where trainers train copies, it is the number of
 * the last step before the exchange. */
int64_t   tr__job_step_now(const tr_job *job);
