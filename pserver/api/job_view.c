/* job_view.c - the current job of this process, and its ranks. */
#include "pserver/api/job_view.h"

#include <pthread.h>
#include <stdlib.h>

static tr_job *current;               /* MPI starts once in a process, so there is one at most */
static tr_job *of_parent;             /* in a forked child, which is no rank */

tr_job *tr_job_current(void)
{
    return current;
}

tr_job *tr__job_of_parent(void)
{
    return of_parent;
}

static void leave_in_child(void)
{
    if (current)
        of_parent = current;
    current = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, leave_in_child);
}

void tr__job_set_current(tr_job *job)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    current = job;
}

tr_role tr_job_role(const tr_job *job)
{
    return job->rank.role;
}

int tr_job_rank(const tr_job *job)
{
    return tr_comm_roster(job->rank.comm)->self;
}

const char *tr_job_rank_name(const tr_job *job, int rank)
{
    const tr_roster *roster = tr_comm_roster(job->rank.comm);
    return rank >= 0 && rank < roster->size ? tr_roster_name(roster, rank) : "?";
}

int tr_job_index(const tr_job *job)
{
    const tr_roster *roster = tr_comm_roster(job->rank.comm);
    return roster->rank[roster->self].index;
}

int tr_job_size(const tr_job *job)
{
    return tr_comm_roster(job->rank.comm)->size;
}

int tr_job_trainers(const tr_job *job)
{
    return tr_comm_roster(job->rank.comm)->trainers;
}

int tr_job_servers(const tr_job *job)
{
    return tr_comm_roster(job->rank.comm)->servers;
}

bool tr_job_is_replacement(const tr_job *job)
{
    return atomic_load(&job->rank.is_replacement);
}
