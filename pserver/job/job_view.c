/* job_view.c - the current job of this process, and its ranks. */
#include "pserver/job/job.h"

#include <stdlib.h>

static tr_job *current;               /* MPI starts once in a process, so there is one at most */

tr_job *tr_job_current(void)
{
    return current;
}

void tr__job_set_current(tr_job *job)
{
    current = job;
}

tr_role tr_job_role(const tr_job *job)
{
    return job->role;
}

int tr_job_rank(const tr_job *job)
{
    return tr_comm_roster(job->comm)->self;
}

const char *tr_job_rank_name(const tr_job *job, int rank)
{
    const tr_roster *roster = tr_comm_roster(job->comm);
    return rank >= 0 && rank < roster->size ? tr_roster_name(roster, rank) : "?";
}

int tr_job_index(const tr_job *job)
{
    const tr_roster *roster = tr_comm_roster(job->comm);
    return roster->rank[roster->self].index;
}

int tr_job_trainers(const tr_job *job)
{
    return tr_comm_roster(job->comm)->trainers;
}

int tr_job_servers(const tr_job *job)
{
    return tr_comm_roster(job->comm)->servers;
}

bool tr_job_is_replacement(const tr_job *job)
{
    return atomic_load(&job->is_replacement);
}

uint32_t tr__job_epoch_of_start(void)
{
    const char *text = getenv("TRIREME_ATTEMPT");
    const long  attempt = text ? strtol(text, NULL, 10) : 0;

    return attempt > 0 && attempt < 1 << 30 ? (uint32_t)attempt + 1 : 1;
}

int64_t tr__seconds(double seconds)
{
    return (int64_t)(seconds * 1e9);
}
