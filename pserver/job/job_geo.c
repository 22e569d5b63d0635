/* job_geo.c - a trainer's copies of sparse tables, in the modes in which it trains copies: their memory, and the rows that it sends.
 * job_rows.c fills the copies. */
#include "pserver/job/job_geo.h"

#include "storage/memory/segment.h"
#include "storage/memory/trainer_vars.h"
#include "storage/table/table_var.h"

#include <stdio.h>
#include <stdlib.h>

/* If trainers' variables outlive the process, so do their copies of tables. */
tr_status tr__job_open_own_table(tr_job *job, int table, const tr_job_table *from)
{
    enum { NUMBER = 16, LONGEST = TR_SEGMENT_NAME - 16 };      /* room for the suffixes of the table's segments */
    const tr_table_config config = tr_table_config_of(from);
    const char           *prefix = getenv("TRIREME_STATE");
    char                  trainer[LONGEST - NUMBER] = "", name[LONGEST];
    const bool            has_name = prefix && *prefix && tr_trainer_vars_name(trainer, sizeof trainer, prefix, tr_job_index(job));

    snprintf(name, sizeof name, "%s.%d", trainer, table);
    return tr_geo_rows_new(&job->table[table].geo, &config, has_name ? name : NULL, (uint64_t)job->step);
}

int tr__job_change_share(const tr_job *job)
{
    return job->policy.gathers_per_trainer ? tr_job_trainers(job) : 1;
}

