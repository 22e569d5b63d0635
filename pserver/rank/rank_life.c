/* rank_life.c - see rank_life.h. */
#include "pserver/rank/rank_life.h"

#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/observe/trace.h"
#include "pserver/rank/rank_core.h"
#include "pserver/rank/rank_moving.h"
#include "pserver/rank/rank_options.h"
#include "pserver/rank/rank_pieces.h"
#include "pserver/rank/rank_profile.h"
#include "pserver/rank/rank_runlog.h"
#include "pserver/rank/rank_restoring.h"
#include "pserver/rank/rank_saving.h"
#include "pserver/transport/transport.h"
#include "pserver/util/rank_end.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

/* == the process ================================================================================= */

static bool was_started, must_exit;
static int  exit_code = 1;

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
} rank_that_left;

static void see_exit(int code, void *payload)
{
    char why[320];

    (void)payload;
    if (getpid() != rank_that_left.pid)
        return;
    if (code & 255) {
        snprintf(why, sizeof why, "%s ended with exit code %d", rank_that_left.name, code & 255);
        tr_job_tell_failure(code, why);
    }
    if (must_exit)
        tr__rank_end(TR_RANK_EXITS, code);
}

void tr_job_watch_exit(const char *name)
{
    rank_that_left.pid = getpid();
    snprintf(rank_that_left.name, sizeof rank_that_left.name, "%s", name);
    on_exit(see_exit, NULL);
}

int tr_job_exit_code(void)
{
    return exit_code;
}

bool tr_job_must_exit(void)
{
    return must_exit;
}

/* == life ======================================================================================== */

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

tr_status tr__rank_prepare(tr_job_options *out, tr_role role, const tr_job_options *given)
{
    int threads;

    TR_TRY(check_start(role));
    TR_TRY(tr__rank_take_options(out, given));
    TR_TRY(tr_num_threads_check());
    TR_TRY(tr__num_threads_of(&threads, TR_SERVER_THREADS));      /* a standby may become a server later */
    TR_TRY(tr_matmul_precision_check());
    TR_TRY(tr_runlog_prepare());
    return tr_trace_prepare();
}

void tr__rank_init(tr__rank *rank, tr_role role, const tr_job_options *options, const tr__client_watch *watch)
{
    rank->driver = tr__driver_new(rank);
    rank->role = role;
    rank->options = *options;
    rank->watch = *watch;
    rank->job = tr__weak_new(watch->self);
    rank->saving = tr__saving_new(rank);
    rank->restoring = tr__restoring_new(rank);
    rank->pieces = tr__pieces_new(rank);
    rank->moving = tr__moving_new(rank);
    if (role != TR_ROLE_TRAINER)
        rank->program = tr_server_program_new(rank->job, &rank->applied);
}

void tr__rank_deinit(tr__rank *rank)
{
    tr__driver_free(rank->driver);
    tr__saving_free(rank->saving);
    tr__restoring_free(rank->restoring);
    tr__pieces_free(rank->pieces);
    tr__moving_free(rank->moving);
    tr_trainer_meter_free(rank->meter);
    tr_server_program_free(rank->program);
    tr__weak_release(rank->job);
    free(rank->share);
}

/* The communication thread runs from here on. */
static tr_status start(tr__rank *rank)
{
    const tr_job_options *o = &rank->options;
    char                  transport[1024];

    tr_transport_find(transport, sizeof transport, o->transport);
    const tr_comm_options comm = {rank->role,
                                  rank->role == TR_ROLE_STANDBY && o->can_replace,
                                  tr__rank_incarnation_of_start(),
                                  tr__seconds(o->heartbeat),
                                  tr__seconds(o->timeout),
                                  tr__seconds(o->start_timeout),
                                  tr__seconds(o->grace),
                                  transport};
    const tr_comm_core    core = tr__rank_core(rank->driver);

    rank->options.transport = NULL;                /* the caller may free its text */
    if (rank->role != TR_ROLE_TRAINER)
        signal(SIGUSR1, SIG_IGN);                  /* mpirun passes this signal on to all ranks; trainers act on it */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    was_started = true;
    tr_notice_tell(TR_NOTICE_JOINS, NULL);
    return tr_comm_start(&rank->comm, &comm, &core);
}

tr_status tr__rank_start(tr__rank *rank)
{
    const tr_status status = start(rank);

    if (status == TR_OK) {
        const tr_roster *roster = tr_comm_roster(rank->comm);
        if (rank->role == TR_ROLE_TRAINER)
            rank->meter = tr_trainer_meter_new(roster->servers);
        tr__rank_runlog_start(rank);
        tr__rank_profile_begin();
        tr__launcher_tell(TR_NOTICE_JOINED, roster->self, NULL);
    } else if (status == TR_ETIMEOUT) {
        tr_notice_tell(TR_NOTICE_LATE, tr_error());
    } else if (status != TR_EINTR) {
        tr_comm_leave(rank->comm, false, 0, &must_exit);
    }
    return status;
}

void tr__rank_end_records(tr__rank *rank, tr_status status)
{
    tr__rank_runlog_end(rank, status == TR_OK ? tr_comm_status(rank->comm) : status);
    tr__rank_profile_end(rank);
    exit_code = tr_comm_exit_code(rank->comm);
}

tr_status tr__rank_leave(tr__rank *rank, bool is_well)
{
    tr__saving_end(rank->saving);
    tr__moving_end(rank->moving);
    const tr_status left = tr_comm_leave(rank->comm, is_well, tr__seconds(rank->options.wait_timeout), &must_exit);

    if (is_well && left == TR_OK && rank->program && !rank->is_abandoned)
        tr_server_program_over(rank->program);
    return left;
}
