/* job_calls.c - operations of a trainer on their way to the communication thread: the check whether a call is allowed, the ticket, and
 * the wait. */
#include "pserver/api/job_calls.h"

#include "pserver/api/job_view.h"
#include "pserver/rank/rank_options.h"
#include "pserver/util/wake.h"

tr_status tr__job_check_trainer(const tr_job *job, const char *call)
{
    if (job->rank.role != TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "%s: it is a trainer's; this is %s", call, tr_job_rank_name(job, tr_job_rank(job)));
    if (job->stage >= TR__JOB_LEFT)
        return tr_fail(TR_EINVAL, "%s: this trainer has said goodbye", call);
    return TR_OK;
}

tr_status tr__job_check_ready(const tr_job *job, const char *call)
{
    TR_TRY(tr__job_check_trainer(job, call));
    if (job->stage < TR__JOB_SET_UP)
        return tr_fail(TR_EINVAL, "%s: tr_job_setup comes first", call);
    return TR_OK;
}

tr_status tr__job_check_block(const tr_job *job, int block, const char *call)
{
    if (block < 0 || block >= job->blocks.count)
        return tr_fail(TR_ERANGE, "%s: block %d; there are %d", call, block, job->blocks.count);
    return TR_OK;
}

tr_status tr__job_call(tr_job *job, const tr__command *command, tr_ticket *ticket)
{
    TR_TRY(tr__rank_post(&job->rank, command));
    job->last_ticket++;
    if (ticket)
        *ticket = job->last_ticket;
    return TR_OK;
}

bool tr_job_is_done(const tr_job *job, tr_ticket ticket)
{
    return tr_comm_done(job->rank.comm) >= ticket;
}

tr_status tr_job_wait(tr_job *job, tr_ticket ticket)
{
    if (ticket > job->last_ticket)
        return tr_fail(TR_ERANGE, "tr_job_wait: ticket %llu was not given out yet", (unsigned long long)ticket);
    if (tr_job_is_done(job, ticket))
        return tr_comm_status(job->rank.comm);
    tr_span               waited;
    const tr_trainer_does before = tr_trainer_meter_waits(job->rank.meter);
    const tr_status       status = tr_comm_wait(&waited, job->rank.comm, ticket, tr__seconds(job->rank.options.wait_timeout));
    tr_trainer_meter_wait(job->rank.meter, waited.from, waited.to, tr_client_last_server(tr__rank_client(&job->rank)));
    tr_trainer_meter_does(job->rank.meter, before);
    if (!tr_job_is_done(job, job->rank.last_pull))
        tr_comm_carry_on(job->rank.comm);               /* the other parameters come while the caller computes with the first of them */
    return status;
}

int64_t tr__job_step_now(const tr_job *job)
{
    return job->began.step + (job->step + 1) * job->policy.period;
}
