/* job_view.h - which rank of which job this is. */
#pragma once

#include "pserver/api/job.h"

/* The process is in this job from here on; a child of it, made by fork, is not. */
void tr__job_enter(tr_job *job);
/* The job has ended: executors and variables have none. */
void tr__job_leave(tr_job *job);
