/* job_view.c - facts about the ranks of a job, and the reference by which executors and tables take part in it. */
#include "pserver/api/job_view.h"

#include "framework/runs/plan_life.h"

#include <pthread.h>
#include <stdlib.h>

static tr_job *entered;               /* MPI starts once in a process, so there is one at most */

static void leave_in_child(void)
{
    if (entered)
        tr__weak_end(entered->rank.job);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, leave_in_child);
}

void tr__job_enter(tr_job *job)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    entered = job;
}

void tr__job_leave(tr_job *job)
{
    tr__weak_end(job->rank.job);
    entered = NULL;
}

void tr_executor_set_job(tr_executor *executor, tr_job *job)
{
    tr__executor_set_job(executor, job ? job->rank.job : NULL);
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
