/* job_life.c - a process's place in a job: its start and its end. */
#include "framework/base/memory.h"
#include "pserver/api/job_board.h"
#include "pserver/api/job_checkpoint.h"
#include "pserver/api/job_compress.h"
#include "pserver/api/job_fetched.h"
#include "pserver/api/job_own_part.h"
#include "pserver/api/job_place.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_sets.h"
#include "pserver/api/job_tables.h"
#include "pserver/api/job_view.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/rank/rank_life.h"
#include "pserver/rank/rank_serve.h"
#include "storage/checkpoint/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

static void free_job(tr_job *job)
{
    tr__job_leave(job);
    tr__job_board_free(job);
    tr__job_free_tables(job);
    tr__job_fetched_free(job->fetched);
    tr__job_sets_free(job->sets);
    tr__rank_deinit(&job->rank);
    tr__checkpointer_free(job->checkpointer);
    tr__own_part_free(job->own_part);
    tr__place_free(job->place);
    free(job->mode);
    free(job->checkpoints);
    tr_trainer_vars_free(job->own.vars, false);
    for (int i = 0; i < job->blocks.count; i++) {
        free(job->blocks.item[i].param);
        free(job->blocks.item[i].grad);
        free(job->blocks.item[i].stage);
        tr__job_coder_free(job->blocks.item[i].coder);
    }
    free(job->blocks.item);
    tr_map_deinit(&job->blocks.of);
    free(job);
}

static void begin_client(void *self, tr_client *client)
{
    tr__place_watch(((tr_job *)self)->place, client);
}

static void poll_client(void *self, const tr_client *client, bool has_heard)
{
    tr_job *job = self;

    if (has_heard)
        tr__checkpointer_hear(job->checkpointer, client);
    tr__checkpointer_poll(job->checkpointer, client);
    tr__own_part_poll(job->own_part, client);
}

static tr_job *new_job(tr_role role, const tr_job_options *options)
{
    tr_job *job = tr__must_alloc(sizeof *job);

    tr__rank_init(&job->rank, role, options, &(tr__client_watch){job, begin_client, poll_client});
    job->weight = 1;
    job->last_ticket = role == TR_ROLE_TRAINER;    /* number 1 is the client's own operation: it ends when all servers answer */
    job->checkpointer = tr__checkpointer_new(job);
    job->own_part = tr__own_part_new(job);
    job->place = tr__place_new(&job->rank);
    return job;
}

tr_status tr_job_start(tr_job **out, tr_role role, const tr_job_options *options)
{
    tr_job_options taken;

    TR_TRY(tr__rank_prepare(&taken, role, options));
    tr_job *job = new_job(role, &taken);
    tr__job_enter(job);
    const tr_status status = tr__rank_start(&job->rank);
    if (status == TR_OK) {
        tr__job_pulls_begin(job);
        *out = job;
    } else {
        tr__job_leave(job);
    }
    return status;
}

/* A trainer that cannot leave well, for example in the middle of a step, ends the job: others would wait for it for ever. */
static tr_status say_goodbye(tr_job *job)
{
    const tr_status status = tr_job_goodbye(job);
    char            why[4096];

    if (status == TR_OK || tr_comm_status(job->rank.comm) != TR_OK)
        return status;
    snprintf(why, sizeof why, "%s: %s", tr_job_rank_name(job, tr_job_rank(job)), tr_error());
    tr_job_abort(job, why);
    return tr_fail(status, "%s", why);
}

tr_status tr_job_free(tr_job *job)
{
    tr_status status = TR_OK;

    if (!job)
        return TR_OK;
    if (job->rank.role == TR_ROLE_TRAINER && job->stage < TR__JOB_LEFT)
        status = say_goodbye(job);
    tr__job_pulls_end(job);
    tr__rank_end_records(&job->rank, status);
    tr__checkpointer_end(job->checkpointer);       /* before the rank leaves: its thread uses the communication thread */
    const tr_status left = tr__rank_leave(&job->rank, status == TR_OK);
    if (status == TR_OK && left == TR_OK) {
        tr_trainer_vars_free(job->own.vars, true);
        job->own.vars = NULL;
    }
    /* All ranks have left, or are about to: no rank will ask for the kept state. */
    if (job->checkpoints && ((status == TR_OK && left == TR_OK) || job->stage == TR__JOB_STOPPED))
        tr__beginning_remove(job->checkpoints);
    if (left == TR_OK)
        free_job(job);
    else
        tr__job_leave(job);                                   /* after a failure MPI may still write into this memory */
    return status != TR_OK ? status : left;
}

/* == serving ===================================================================================== */

/* Called on the owner's thread, which is a trainer's from here on. */
static void begin_as_replacement(tr_job *job)
{
    const int index = tr_job_index(job);
    char      text[16];

    job->last_ticket = 1;
    job->rank.meter = tr_trainer_meter_new(tr_job_servers(job));
    job->rank.role = TR_ROLE_TRAINER;
    tr__job_pulls_begin(job);
    snprintf(text, sizeof text, "%d", index);
    tr__launcher_tell(TR_NOTICE_REPLACEMENT, tr_job_rank(job), text);
    tr_runlog_note("took_place", ",\"trainer\":%d", index);
}

tr_status tr_job_serve(tr_job *job)
{
    if (job->rank.role == TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "tr_job_serve: servers, standbys and replicas serve; this is %s",
                       tr_job_rank_name(job, tr_job_rank(job)));
    TR_TRY(tr__rank_serve(&job->rank));
    if (atomic_load(&job->rank.is_replacement))
        begin_as_replacement(job);
    return TR_OK;
}

void tr_job_get_stats(const tr_job *job, tr_job_stats *stats)
{
    const tr__rank *rank = &job->rank;
    const tr_server      *server = tr__rank_server(rank);
    const bool            trains = rank->role == TR_ROLE_TRAINER;

    *stats = (tr_job_stats){
        .steps = trains ? job->step : tr_counter_get(&rank->applied.count),
        .wait_nanoseconds = trains ? tr_counter_get(&rank->meter->waited_all) : tr_counter_get(&rank->idle),
        .apply_nanoseconds = tr_counter_get(&rank->applied.sum),
        .rows_wanted = tr_counter_get(&rank->rows_wanted),
        .rows_ahead = tr_counter_get(&rank->rows_ahead),
        .rows_cached = tr_counter_get(&rank->rows_cached),
        .skipped = tr_counter_get(&rank->skipped),
    };
    tr_comm_stats(rank->comm, stats);
    if (server)
        tr_server_stats(server, stats);
}
