/* rank_driver.h - what of a job belongs to its driver, the thread that runs the event loop (comm.h): the cores of this rank.
 *
 * What must stay true: rank_core.c and rank_store.c alone include this header. They see nothing of the owner's part (job.h). */
#pragma once

#include "pserver/core/carrier/carrier.h"
#include "pserver/core/client/standby.h"
#include "pserver/core/replica/replica.h"
#include "pserver/rank/rank.h"

struct tr__driver {
    tr__rank *rank;
    tr_carrier *carrier;              /* around `client` */
    tr_client  *client;               /* one of these is the core; a standby that is called is a second one */
    tr_server  *server;
    tr_replica *replica;
    tr_standby *standby;
};
