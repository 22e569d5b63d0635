/* job_view.c - the job of this process, and its ranks; who takes part in it. */
#include "pserver/api/job_view.h"

#include "framework/runs/plan_life.h"

#include <pthread.h>
#include <stdlib.h>

static tr_job *current;               /* MPI starts once in a process, so there is one at most */
static tr_job *of_parent;             /* in a forked child, which is no rank */

tr_job *tr__job_of_process(void)
{
    return current;
}

tr_job *tr__job_of_parent(void)
{
    return of_parent;
}

static void leave_in_child(void)
{
    if (!current)
        return;
    tr__weak_end(current->rank.job);
    of_parent = current;
    current = NULL;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, leave_in_child);
}

void tr__job_enter(tr_job *job)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, watch_forks);
    current = job;
}

void tr__job_leave(tr_job *job)
{
    tr__weak_end(job->rank.job);
    current = NULL;
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
