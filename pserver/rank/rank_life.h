/* rank_life.h - a rank's begin and end in its process. The public functions about the process (trireme_dist.h) are here, too.
 *
 * What must stay true: a process is a rank once at most, because MPI starts only once. */
#pragma once

#include "pserver/rank/rank.h"

/* Check that this process may become a rank, and fill in its options. */
tr_status tr__rank_prepare(tr_job_options *out, tr_role role, const tr_job_options *given);
void      tr__rank_init(tr__rank *rank, tr_role role, const tr_job_options *options, const tr__client_watch *watch);
/* The communication thread has ended, or it never began. */
void      tr__rank_deinit(tr__rank *rank);
/* Join the job. After a failure the communication thread may never return from MPI, so `rank` must stay. */
tr_status tr__rank_start(tr__rank *rank);
/* The job has ended for this rank: write the log's last line and the profile. Called before anything that the log reads is freed. */
void      tr__rank_end_records(tr__rank *rank, tr_status status);
/* Leave the job. After a failure MPI may still write into `rank`, so it must stay. */
tr_status tr__rank_leave(tr__rank *rank, bool is_well);
