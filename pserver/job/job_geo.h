/* job_geo.h - copies of tables that trainers train by themselves. */
#ifndef TR_PSERVER_JOB_GEO_H
#define TR_PSERVER_JOB_GEO_H

#include "pserver/job/job.h"

/* For modes in which trainers train copies: open this trainer's copy of a table. If an earlier process has left one, it is as after the
 * job's present step. */
tr_status tr__job_open_own_table(tr_job *job, int table, const tr_job_table *from);
/* The divisor of a trainer's change: the number of trainers where a server adds each change by itself, 1 where it adds their mean. */
int       tr__job_change_share(const tr_job *job);

#endif
