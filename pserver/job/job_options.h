/* job_options.h - what a job is started with: what was given, what the environment says to all ranks at once, and defaults. */
#ifndef TR_PSERVER_JOB_OPTIONS_H
#define TR_PSERVER_JOB_OPTIONS_H

#include "pserver/trireme_dist.h"

/* Fill in what `given` (NULL: nothing) leaves open; refuse what is not possible. */
tr_status tr__job_take_options(tr_job_options *out, const tr_job_options *given);

#endif
