/* job_train.h - the steps of a trainer. */
#ifndef TR_PSERVER_JOB_TRAIN_H
#define TR_PSERVER_JOB_TRAIN_H

#include "pserver/job/job.h"

/* Copy a gradient to memory that does not change until its step is settled; *out is the copy. First waits until the last gradient from
 * that memory is settled. */
tr_status tr__job_stage(char **out, tr_job *job, int block, const char *data);

#endif
