/* job_tasks.c - a trainer's calls about tasks: checked here, carried out by who drives. */
#include "pserver/job.h"

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
    tr_client_task *call = malloc(sizeof *call);

    if (!call)
        return tr_fail(TR_ENOMEM, "no memory for a message about tasks");
    *call = *what;
    const tr_status status = tr__job_call(job, &(tr_command){.kind = TR__TASK, .data = call, .is_urgent = true}, ticket);
    if (status != TR_OK)
        free(call);
    return status;
}

tr_status tr_job_tasks_begin(tr_job *job, const tr_tasks_spec *spec)
{
    const double lease = spec->lease == 0 ? 300 : spec->lease;
    tr_ticket    ticket = 0;

    TR_TRY(check_ready(job, "tr_job_tasks_begin"));
    if (!(lease > 0 && lease < 1e8))
        return tr_fail(TR_ERANGE, "tr_job_tasks_begin: leases of %g s", spec->lease);
    TR_TRY(post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASKS, .block = spec->count, .part = spec->passes,
                                                .offset = spec->digest & INT64_MAX, .weight = lease}}, &ticket));
    TR_TRY(tr_job_wait(job, ticket));
    job->step = (int64_t)tr_client_step(job->client);          /* what servers had in part is over */
    job->joined_at = -1;
    return TR_OK;
}

tr_status tr_job_task_ask(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_ask"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK}, .answer = out}, ticket);
}

tr_status tr_job_task_look(tr_job *job, tr_task *out, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_look"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_ASK, .part = 1}, .answer = out}, ticket);
}

tr_status tr_job_task_end(tr_job *job, uint64_t lease, bool is_done, tr_ticket *ticket)
{
    TR_TRY(check_ready(job, "tr_job_task_end"));
    return post(job, &(tr_client_task){.wire = {.kind = TR_WIRE_TASK_END, .offset = lease,
                                                      .part = is_done ? TR_TASK_DONE : TR_TASK_FAILED}}, ticket);
}
