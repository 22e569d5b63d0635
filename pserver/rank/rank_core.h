/* rank_core.h - the core that a rank's communication thread drives. It is a server's, a trainer's, a replica's, or a standby's; a standby
 * may become any of the others.
 *
 * What must stay true: only the driver calls the core (comm.h). */
#pragma once

#include "pserver/rank/rank.h"

/* `rank` lives as long as the driver. */
tr__driver *tr__driver_new(tr__rank *rank);
/* The communication thread has ended, or it never began. */
void            tr__driver_free(tr__driver *driver);
/* The functions by which the communication thread makes the core and gives it commands. */
tr_comm_core    tr__rank_core(tr__driver *driver);
