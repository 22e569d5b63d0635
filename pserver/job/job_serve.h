/* job_serve.h - a server's owner: it applies updates, freezes states and writes parts of checkpoints when its core wants that. */
#ifndef TR_PSERVER_JOB_SERVE_H
#define TR_PSERVER_JOB_SERVE_H

#include "pserver/job/job.h"

/* A server, while it applies an update, gathers `bytes` bytes of each server. *all: in the servers' order, until the
 * next call. Waits. */
tr_status tr__job_share(const uint8_t **all, tr_job *job, const void *own, uint32_t bytes);

#endif
