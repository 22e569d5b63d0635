/* job_life.c - a process's place in a job: its start and its end. */
#include "framework/base/memory.h"
#include "pserver/job/job_board.h"
#include "pserver/job/job_checkpoint.h"
#include "pserver/job/job_compress.h"
#include "pserver/job/job_core.h"
#include "pserver/job/job_fetched.h"
#include "pserver/job/job_options.h"
#include "pserver/job/job_own_part.h"
#include "pserver/job/job_place.h"
#include "pserver/job/job_profile.h"
#include "pserver/job/job_pull.h"
#include "pserver/job/job_runlog.h"
#include "pserver/job/job_saving.h"
#include "pserver/job/job_sets.h"
#include "pserver/job/job_serve.h"
#include "pserver/job/job_store.h"
#include "pserver/job/job_tables.h"
#include "pserver/job/job_view.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/observe/trace.h"
#include "pserver/store/frozen.h"
#include "pserver/transport/transport.h"
#include "pserver/util/rank_end.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/checkpoint.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static bool    was_started, must_exit;
static int     exit_code = 1;

bool tr_job_is_launched(void)
{
    return getenv("OMPI_COMM_WORLD_SIZE") || getenv("PMIX_RANK");
}

void tr_job_prepare(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);              /* mpirun itself ends only ranks that are inside MPI */
    tr_notice_tell(TR_NOTICE_BEGAN, NULL);
}

void tr_job_tell_failure(int code, const char *why)
{
    char text[4096];

    snprintf(text, sizeof text, "%d\n%s\n", code & 255, why);
    tr_notice_tell(TR_NOTICE_FAILED, text);
}

/* A rank that has left well: how its process ends after that. A copy of this process (fork) is no rank. */
static struct {
    pid_t pid;
    char  name[256];
} leaver;

static void see_exit(int code, void *payload)
{
    char why[320];

    (void)payload;
    if (getpid() != leaver.pid)
        return;
    if (code & 255) {
        snprintf(why, sizeof why, "%s ended with exit code %d", leaver.name, code & 255);
        tr_job_tell_failure(code, why);
    }
    if (must_exit)
        tr__rank_end(TR_RANK_EXITS, code);
}

void tr_job_watch_exit(const char *name)
{
    leaver.pid = getpid();
    snprintf(leaver.name, sizeof leaver.name, "%s", name);
    on_exit(see_exit, NULL);
}

/* == life ======================================================================================= */

static void free_job(tr_job *job)
{
    tr__job_board_free(job);
    tr__job_free_tables(job);
    tr__job_fetched_free(job->fetched);
    tr__job_sets_free(job->sets);
    tr__job_driver_free(job->driver);
    tr__saving_free(job->shared.saving);
    tr__checkpointer_free(job->shared.checkpointer);
    tr__own_part_free(job->shared.own_part);
    tr__place_free(job->shared.place);
    free(job->mode);
    free(job->checkpoints);
    tr_trainer_meter_free(job->shared.meter);
    tr_frozen_free(job->shared.frozen);
    tr_server_program_free(job->shared.program);
    tr_trainer_vars_free(job->own, false);
    for (int i = 0; i < job->block_count; i++) {
        free(job->block[i].param);
        free(job->block[i].grad);
        free(job->block[i].stage);
        tr__job_coder_free(job->block[i].coder);
    }
    free(job->block);
    tr_map_deinit(&job->block_of);
    free(job->shared.share);
    free(job);
    tr__job_set_current(NULL);
}

static tr_status check_start(tr_role role)
{
    if (role < 0 || role >= TR_ROLE_COUNT)
        return tr_fail(TR_EINVAL, "job: there is no role %d", (int)role);
    if (was_started)
        return tr_fail(TR_EEXIST, "job: this process has started one already, and MPI starts only once");
    if (!tr_job_is_launched())
        return tr_fail(TR_EUNSUPPORTED, "job: this process was not started by mpirun; a job is started like "
                       "`mpirun -np 1 trireme-pserver : -np 2 python train.py`");
    return TR_OK;
}

static tr_job *new_job(tr_role role, const tr_job_options *options)
{
    tr_job *job = tr__must_alloc(sizeof *job);

    job->driver = tr__job_driver_new(&job->shared);
    job->shared.role = role;
    job->shared.options = *options;
    job->shared.options.transport = NULL;                 /* the caller may free its text */
    job->weight = 1;
    job->last_ticket = role == TR_ROLE_TRAINER;    /* number 1 is the client's own operation: it ends when all servers answer */
    job->shared.saving = tr__saving_new(&job->shared);
    job->shared.checkpointer = tr__checkpointer_new(job);
    job->shared.own_part = tr__own_part_new(job);
    job->shared.place = tr__place_new(&job->shared);
    if (role != TR_ROLE_TRAINER)
        job->shared.program = tr_server_program_new();
    return job;
}

/* The thread runs from here on. */
static tr_status start(tr_job *job, const char *transport)
{
    const tr_job_options *o = &job->shared.options;
    const tr_comm_options comm = {job->shared.role, job->shared.role == TR_ROLE_STANDBY && o->can_replace, tr__job_epoch_of_start(), tr__seconds(o->heartbeat),
                                  tr__seconds(o->timeout), tr__seconds(o->start_timeout), tr__seconds(o->grace), transport};
    const tr_comm_core    core = tr__job_core(job->driver);

    if (job->shared.role != TR_ROLE_TRAINER)
        signal(SIGUSR1, SIG_IGN);                  /* mpirun passes this signal on to all ranks; trainers act on it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    was_started = true;
    tr__job_set_current(job);
    tr_notice_tell(TR_NOTICE_JOINS, NULL);
    return tr_comm_start(&job->shared.comm, &comm, &core);
}

static void begin(tr_job *job)
{
    if (job->shared.role == TR_ROLE_TRAINER)
        job->shared.meter = tr_trainer_meter_new(tr_job_servers(job));
    tr__job_runlog_start(&job->shared);
    tr__job_profile_begin();
    tr__launcher_tell(TR_NOTICE_JOINED, tr_job_rank(job), NULL);
    tr__job_pulls_begin(job);
}

tr_status tr_job_start(tr_job **out, tr_role role, const tr_job_options *options)
{
    char           transport[1024];
    tr_job_options taken;

    TR_TRY(check_start(role));
    TR_TRY(tr__job_take_options(&taken, options));
    TR_TRY(tr_num_threads_check());
    TR_TRY(tr_matmul_precision_check());
    TR_TRY(tr_runlog_prepare());
    TR_TRY(tr_trace_prepare());
    tr_transport_find(transport, sizeof transport, taken.transport);
    tr_job         *job = new_job(role, &taken);
    const tr_status status = start(job, transport);
    if (status == TR_OK) {
        begin(job);
        *out = job;
        return TR_OK;
    }
    /* The communication thread may never return from MPI, so the memory that it uses is not freed. */
    if (status == TR_ETIMEOUT)
        tr_notice_tell(TR_NOTICE_LATE, tr_error());
    else if (status != TR_EINTR)
        tr_comm_leave(job->shared.comm, false, 0, &must_exit);
    tr__job_set_current(NULL);
    return status;
}

/* A trainer that cannot leave well, for example in the middle of a step, ends the job: others would wait for it for ever. */
static tr_status say_goodbye(tr_job *job)
{
    const tr_status status = tr_job_goodbye(job);
    char            why[4096];

    if (status == TR_OK || tr_comm_status(job->shared.comm) != TR_OK)
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
    if (job->shared.role == TR_ROLE_TRAINER && !job->has_left)
        status = say_goodbye(job);
    tr__job_pulls_end(job);
    const tr_status so_far = status == TR_OK ? tr_comm_status(job->shared.comm) : status;
    tr__job_runlog_end(&job->shared, so_far);               /* before anything that the log reads is freed */
    tr__job_profile_end(job);
    exit_code = tr_comm_exit_code(job->shared.comm);
    tr__saving_end(job->shared.saving);
    tr__checkpointer_end(job->shared.checkpointer);                     /* first: its thread uses the communication thread */
    const tr_status left = tr_comm_leave(job->shared.comm, status == TR_OK, tr__seconds(job->shared.options.wait_timeout), &must_exit);
    if (status == TR_OK && left == TR_OK) {
        if (job->shared.program && !job->shared.is_abandoned)
            tr_server_program_over(job->shared.program);
        tr_trainer_vars_free(job->own, true);
        job->own = NULL;
    }
    /* All ranks have left, or are about to: no rank will ask for the kept state. */
    if (job->checkpoints && ((status == TR_OK && left == TR_OK) || job->is_stopped))
        tr__beginning_remove(job->checkpoints);
    if (left == TR_OK)
        free_job(job);
    else
        tr__job_set_current(NULL);                            /* after a failure MPI may still write into this memory */
    return status != TR_OK ? status : left;
}

int tr_job_exit_code(void)
{
    return exit_code;
}

bool tr_job_must_exit(void)
{
    return must_exit;
}
