/* job_profile.h - a Chrome trace of each rank of a job, where the environment asks for it: TRIREME_PROFILE=DIR. */
#ifndef TR_PSERVER_JOB_PROFILE_H
#define TR_PSERVER_JOB_PROFILE_H

#include "pserver/job/job.h"

/* Record from here on, if it is asked for. */
void tr__job_profile_begin(void);
/* Write DIR/trainer-0.json, DIR/server-1.json and so on. A file that cannot be written is named on standard error: the job is not ended for it. */
void tr__job_profile_end(const tr_job *job);

#endif
