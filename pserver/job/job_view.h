/* job_view.h - which rank of which job this is. */
#ifndef TR_PSERVER_JOB_VIEW_H
#define TR_PSERVER_JOB_VIEW_H

#include "pserver/job/job.h"

/* NULL: the job has ended. */
void tr__job_set_current(tr_job *job);

#endif
