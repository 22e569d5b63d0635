/* job_core.h - the core that a rank's communication thread drives. It is a server's, a trainer's, a replica's, or a standby's; a standby
 * may become any of the others.
 *
 * What must stay true: only the driver calls the core (comm.h). */
#ifndef TR_PSERVER_JOB_CORE_H
#define TR_PSERVER_JOB_CORE_H

#include "pserver/job/job_shared.h"

/* `shared` lives as long as the driver. */
tr__job_driver *tr__job_driver_new(tr__job_shared *shared);
/* The communication thread has ended, or it never began. */
void            tr__job_driver_free(tr__job_driver *driver);
/* The functions by which the communication thread makes the core and gives it commands. */
tr_comm_core    tr__job_core(tr__job_driver *driver);

#endif
