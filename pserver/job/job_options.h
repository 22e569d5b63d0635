/* job_options.h - the options of a job's start: those of the caller, those of the environment for all ranks, and defaults. */
#ifndef TR_PSERVER_JOB_OPTIONS_H
#define TR_PSERVER_JOB_OPTIONS_H

#include "pserver/trireme_dist.h"

/* Fill in the options that `given` leaves open (NULL: all), and refuse impossible values. */
tr_status tr__job_take_options(tr_job_options *out, const tr_job_options *given);

#endif
