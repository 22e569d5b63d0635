/* job_tasks.c - a trainer's calls about tasks: checked here, carried out by the driver. */
#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_rows.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/trireme_board.h"
#include "pserver/trireme_tasks.h"

#include <math.h>
#include <stdlib.h>

static tr_status post(tr_job *job, const tr_client_task *what, tr_ticket *ticket)
{
    tr_client_task *call = tr__must_bytes(sizeof *call);

    *call = *what;
    const tr_status status = tr__job_call(job, &(tr__command){.head = {TR__TASK, .is_urgent = true}, .task = call}, ticket);
    if (status != TR_OK)
        free(call);
    return status;
}

/* Does a trainer without a task make steps? Then no other trainer waits for it. */
static bool keeps_pace(const tr_job *job)
{
    return job->policy.lead >= 0;
}

static const double LONGEST_LEASE = 4e6;   /* seconds; a message has 32 bits of milliseconds */

static double lease_of(const tr_tasks_spec *spec)
{
    return spec->lease == 0 ? 300 : spec->lease;
}

static tr_wire tasks_of(const tr_job *job, const tr_tasks_spec *spec)
{
    return (tr_wire){.kind = TR_WIRE_TASKS,
                     .tasks = {.digest = spec->digest & INT64_MAX, .milliseconds = (uint32_t)ceil(lease_of(spec) * 1000),
                               .count = spec->count, .passes = spec->passes, .list = job->task_lists - 1}};
}

tr_status tr_job_tasks_begin(tr_job *job, const tr_tasks_spec *spec)
{
    const uint64_t before = (uint64_t)job->step;
    tr_ticket      ticket = 0;

    TR_TRY(tr__job_check_ready(job, "tr_job_tasks_begin"));
    if (!(lease_of(spec) > 0 && lease_of(spec) <= LONGEST_LEASE))
        return tr_fail(TR_ERANGE, "tr_job_tasks_begin: leases of %g s; above 0 and up to %g are possible", spec->lease, LONGEST_LEASE);
    job->task_lists++;
    TR_TRY(post(job, &(tr_client_task){.wire = tasks_of(job, spec), .is_first = true, .keeps_pace = keeps_pace(job)}, &ticket));
    TR_TRY(tr_job_wait(job, ticket));
    job->step = (int64_t)tr_client_step(tr__rank_client(&job->rank));          /* the step that some servers had is settled now */
    job->began.at = -1;
    tr_trainer_vars_stay(job->own.vars, before, (uint64_t)job->step);
    if (!keeps_pace(job) || (uint64_t)job->step == before)
        return TR_OK;
    TR_TRY(tr__job_pull_again(job));                   /* its parameters may lack steps that other trainers have made */
    return tr__job_settle(job);
}

tr_status tr_job_tasks_again(tr_job *job, const tr_tasks_spec *spec)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_tasks_again"));
    if (!job->task_lists)
        return tr_fail(TR_EINVAL, "tr_job_tasks_again: tr_job_tasks_begin comes first");
    return post(job, &(tr_client_task){.wire = tasks_of(job, spec)}, NULL);
}

double tr_job_task_pause(const tr_job *job)
{
    return keeps_pace(job) ? 0.001 : 0.01;             /* a step of another trainer may wait for it */
}

tr_status tr_job_task_idle(tr_job *job)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_task_idle"));
    if (!keeps_pace(job))
        return tr_job_rest(job);
    TR_TRY(tr_job_step_idle(job));
    TR_TRY(tr__job_pull_again(job));
    return tr__job_settle(job);
}

tr_status tr_job_task_ask(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_task_ask"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK}, .answer = out}, ticket);
}

tr_status tr_job_task_look(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_task_look"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK, .task_ask = {.only_asks = true}}, .answer = out}, ticket);
}

tr_status tr_job_task_end(tr_job *job, uint64_t lease, bool is_done, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_task_end"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_END, .task_end = {.lease = lease, .has_failed = !is_done}}}, ticket);
}
