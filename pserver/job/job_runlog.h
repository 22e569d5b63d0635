/* job_runlog.h - what a job's rank writes in its log and tells the launcher. See runlog.h, docs/logs.md. */
#ifndef TR_PSERVER_JOB_RUNLOG_H
#define TR_PSERVER_JOB_RUNLOG_H

#include "pserver/job/job.h"

/* All ranks are known. */
void tr__job_runlog_start(tr_job *job);
/* The last line: how the job ended for this rank. A server that ended well has no update under way: it says what its tables have. */
void tr__job_runlog_end(tr_job *job, tr_status status);

#endif
