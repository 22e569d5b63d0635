/* job_tasks.c - a trainer's calls about tasks: checked here, carried out by the driver. */
#include "framework/memory.h"
#include "pserver/job/job_calls.h"
#include "pserver/job/job_commands.h"
#include "pserver/job/job_pull.h"
#include "pserver/job/job_rows.h"
#include "pserver/trireme_board.h"
#include "pserver/trireme_tasks.h"

#include <math.h>
#include <stdlib.h>

static tr_status check_ready(const tr_job *job, const char *call)
{
    TR_TRY(tr__job_check_trainer(job, call));
    if (!job->is_set_up)
        return tr_fail(TR_EINVAL, "%s: tr_job_setup comes first", call);
    return TR_OK;
}

static tr_status post(tr_job *job, const tr_client_task *what, tr_ticket *ticket)
{
    tr_client_task *call = tr__must_bytes(sizeof *call);

    *call = *what;
    const tr_status status = tr__job_call(job, &(tr_command){.kind = TR__TASK, .data = call, .is_urgent = true}, ticket);
    if (status != TR_OK)
        free(call);
    return status;
}

/* Does a trainer without a task make steps? Then no other trainer waits for it. */
static bool keeps_pace(const tr_job *job)
{
    return job->policy.lead >= 0;
}

tr_status tr_job_tasks_begin(tr_job *job, const tr_tasks_spec *spec)
{
    const double   lease = spec->lease == 0 ? 300 : spec->lease;
    const uint64_t before = (uint64_t)job->step;
    tr_ticket      ticket = 0;

    TR_TRY(check_ready(job, "tr_job_tasks_begin"));
    if (!(lease > 0 && lease < 1e8))
        return tr_fail(TR_ERANGE, "tr_job_tasks_begin: leases of %g s", spec->lease);
    TR_TRY(post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASKS, .tasks = {.digest = spec->digest & INT64_MAX, .seconds = lease,
                                                                          .count = spec->count, .passes = spec->passes}},
                                       .keeps_pace = keeps_pace(job)}, &ticket));
    TR_TRY(tr_job_wait(job, ticket));
    job->step = (int64_t)tr_client_step(tr__job_client(&job->shared));          /* the step that some servers had is settled now */
    job->joined_at = -1;
    tr_trainer_vars_stay(job->own, before, (uint64_t)job->step);
    if (!keeps_pace(job) || (uint64_t)job->step == before)
        return TR_OK;
    TR_TRY(tr__job_pull_again(job));                   /* its parameters may lack steps that other trainers have made */
    return tr__job_settle(job);
}

double tr_job_task_pause(const tr_job *job)
{
    return keeps_pace(job) ? 0.001 : 0.01;             /* a step of another trainer may wait for it */
}

tr_status tr_job_task_idle(tr_job *job)
{
    TR_TRY(check_ready(job, "tr_job_task_idle"));
    if (!keeps_pace(job))
        return tr_job_rest(job);
    TR_TRY(tr_job_step_idle(job));
    TR_TRY(tr__job_pull_again(job));
    return tr__job_settle(job);
}

tr_status tr_job_task_ask(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_ask"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK}, .answer = out}, ticket);
}

tr_status tr_job_task_look(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_look"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK, .task_ask = {.only_asks = true}}, .answer = out}, ticket);
}

tr_status tr_job_task_end(tr_job *job, uint64_t lease, bool is_done, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_end"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_END, .task_end = {.lease = lease, .has_failed = !is_done}}}, ticket);
}
