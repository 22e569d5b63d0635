/* job_view.c - the current job of this process, and its ranks. */
#include "pserver/job/job_view.h"

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
    return job->shared.role;
}

int tr_job_rank(const tr_job *job)
{
    return tr_comm_roster(job->shared.comm)->self;
}

const char *tr_job_rank_name(const tr_job *job, int rank)
{
    const tr_roster *roster = tr_comm_roster(job->shared.comm);
    return rank >= 0 && rank < roster->size ? tr_roster_name(roster, rank) : "?";
}

int tr_job_index(const tr_job *job)
{
    const tr_roster *roster = tr_comm_roster(job->shared.comm);
    return roster->rank[roster->self].index;
}

int tr_job_size(const tr_job *job)
{
    return tr_comm_roster(job->shared.comm)->size;
}

int tr_job_trainers(const tr_job *job)
{
    return tr_comm_roster(job->shared.comm)->trainers;
}

int tr_job_servers(const tr_job *job)
{
    return tr_comm_roster(job->shared.comm)->servers;
}

bool tr_job_is_replacement(const tr_job *job)
{
    return atomic_load(&job->shared.is_replacement);
}
