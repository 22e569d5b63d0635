/* job_serve.c - see job_serve.h. */
#include "pserver/job/job_serve.h"

#include "framework/base/memory.h"
#include "pserver/core/base/gathering.h"
#include "pserver/job/job_commands.h"
#include "pserver/job/job_options.h"
#include "pserver/job/job_pull.h"
#include "pserver/job/job_saving.h"
#include "pserver/job/job_store.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/store/frozen.h"
#include "pserver/util/wake.h"

#include <stdio.h>

static tr_status apply(tr_job *job)
{
    const tr_status status = tr__job_run_update(&job->shared);
    tr_command      command = {.kind = TR__APPLIED, .block = (int)status, .is_urgent = true};

    if (status != TR_OK)
        command.data = tr__must_strdup(tr_error());
    atomic_store(&job->shared.has_update, false);
    return tr_comm_post(job->shared.comm, &command);
}

tr_status tr__job_share(const uint8_t **all, tr_job *job, const void *own, uint32_t bytes)
{
    const tr_command command = {.kind = TR__SHARE, .block = (int)bytes, .data = (void *)(uintptr_t)own, .is_urgent = true};

    if (job->shared.role == TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "job: servers share what they have in an update; this is %s", tr_job_rank_name(job, tr_job_rank(job)));
    if (!job->shared.share)
        job->shared.share = tr__must_bytes((size_t)tr_job_servers(job) * TR_GATHER_MAX);
    TR_TRY(tr_comm_post(job->shared.comm, &command));
    *all = job->shared.share;
    return tr_comm_wait(NULL, job->shared.comm, ++job->gatherings, tr__seconds(job->shared.options.wait_timeout));
}

/* Freeze or thaw the state if the core has asked for it. */
static tr_status serve_frozen(tr__job_shared *shared)
{
    if (atomic_exchange(&shared->wants_thaw, false)) {
        tr_frozen_free(shared->frozen);
        shared->frozen = NULL;
    }
    if (!atomic_exchange(&shared->wants_frozen, false))
        return TR_OK;
    const tr_status status = tr_frozen_take(&shared->frozen, shared->program);
    if (status != TR_OK)
        fprintf(stderr, "trireme-pserver: %s; server %d goes on without a replica\n", tr_error(), shared->server_index);
    return tr_comm_post(shared->comm, &(tr_command){.kind = TR__FROZEN, .block = (int)status, .is_urgent = true});
}

/* Called on the owner's thread, which is a trainer's from here on. */
static void begin_as_replacement(tr_job *job)
{
    const int index = tr_job_index(job);
    char      text[16];

    job->last_ticket = 1;
    job->shared.meter = tr_trainer_meter_new(tr_job_servers(job));
    job->shared.role = TR_ROLE_TRAINER;
    tr__job_pulls_begin(job);
    snprintf(text, sizeof text, "%d", index);
    tr__launcher_tell(TR_NOTICE_REPLACEMENT, tr_job_rank(job), text);
    tr_runlog_note("took_place", ",\"trainer\":%d", index);
}

tr_status tr_job_serve(tr_job *job)
{
    if (job->shared.role == TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "tr_job_serve: servers, standbys and replicas serve; this is %s", tr_job_rank_name(job, tr_job_rank(job)));
    for (;;) {
        const unsigned seen = atomic_load(&job->shared.bell);
        if (atomic_load(&job->shared.has_update))
            TR_TRY(apply(job));
        TR_TRY(serve_frozen(&job->shared));
        TR_TRY(tr__saving_serve(job->shared.saving));
        TR_TRY(tr_comm_status(job->shared.comm));
        if (atomic_load(&job->shared.is_replacement)) {
            begin_as_replacement(job);
            return TR_OK;
        }
        if (atomic_load(&job->shared.is_done))
            return TR_OK;
        if (atomic_load(&job->shared.has_update) || atomic_load(&job->shared.wants_frozen) || tr__saving_is_due(job->shared.saving))
            continue;
        const int64_t from = tr__clock();
        tr__bell_wait(&job->shared.bell, seen, 50000000);
        tr_counter_add(&job->shared.idle, tr__clock() - from);
    }
}

void tr_job_get_stats(const tr_job *job, tr_job_stats *stats)
{
    const tr__job_shared *shared = &job->shared;
    const tr_server      *server = tr__job_server(shared);
    const bool            trains = shared->role == TR_ROLE_TRAINER;

    *stats = (tr_job_stats){
        .steps = trains ? job->step : tr_counter_get(&shared->applied.count),
        .wait_nanoseconds = trains ? tr_counter_get(&shared->meter->waited_all) : tr_counter_get(&shared->idle),
        .apply_nanoseconds = tr_counter_get(&shared->applied.sum),
        .rows_wanted = tr_counter_get(&shared->rows_wanted),
        .rows_ahead = tr_counter_get(&shared->rows_ahead),
        .rows_cached = tr_counter_get(&shared->rows_cached),
        .skipped = tr_counter_get(&shared->skipped),
    };
    tr_comm_stats(shared->comm, stats);
    if (server)
        tr_server_stats(server, stats);
}
