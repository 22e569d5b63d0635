/* rank_options.h - the options of a job's start: those of the caller, those of the environment for all ranks, and defaults. */
#pragma once

#include "pserver/trireme_dist.h"

/* Fill in the options that `given` leaves open (NULL: all), and refuse impossible values. */
tr_status tr__rank_take_options(tr_job_options *out, const tr_job_options *given);

/* How often the launcher has started this job, from 1. */
uint32_t  tr__rank_incarnation_of_start(void);
/* Do this rank's requests go through a carrier where there is one (carrier.h)? TRIREME_CARRIERS=0 says no. */
bool      tr__rank_uses_carriers(void);
/* Seconds as nanoseconds. */
int64_t   tr__seconds(double seconds);
