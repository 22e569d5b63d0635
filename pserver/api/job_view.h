/* job_view.h - which rank of which job this is. */
#ifndef TR_PSERVER_JOB_VIEW_H
#define TR_PSERVER_JOB_VIEW_H

#include "pserver/api/job.h"

/* From here on this job is the process's. */
void    tr__job_enter(tr_job *job);
/* The job has ended: it is nobody's any more, and executors have no job. */
void    tr__job_leave(tr_job *job);
/* The job that is started and not freed, or NULL: for code that anybody calls who touches memory, and that is handed no job. */
tr_job *tr__job_of_process(void);
/* In a child made by fork: the job in which the parent was a rank. A child may look at what it holds, but must not send or wait. */
tr_job *tr__job_of_parent(void);

#endif
