/* job_core.h - the core that a rank's communication thread drives: a server's, a trainer's, a replica's, or that of a standby, which may become
 * any of them.
 *
 * What must stay true: what this makes is called by who drives alone (comm.h). */
#ifndef TR_PSERVER_JOB_CORE_H
#define TR_PSERVER_JOB_CORE_H

#include "pserver/job/job.h"

/* What the communication thread makes and calls. */
tr_comm_core tr__job_core(tr_job *job);

#endif
