/* job_view.h - which rank of which job this is. */
#ifndef TR_PSERVER_JOB_VIEW_H
#define TR_PSERVER_JOB_VIEW_H

#include "pserver/api/job.h"

/* NULL: the job has ended. */
void    tr__job_set_current(tr_job *job);
/* In a child made by fork: the job in which the parent was a rank. A child may look at what it holds, but must not send or wait. */
tr_job *tr__job_of_parent(void);

#endif
