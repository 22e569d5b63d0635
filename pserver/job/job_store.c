/* job_store.c - the store of a server's or a replica's core (tr_store): the program from the setup, its memory that outlives the
 * process, and the thread that runs it. */
#include "pserver/job/job.h"
#include "pserver/job/job_saving.h"

#include "pserver/memory/segment.h"
#include "pserver/observe/launcher.h"
#include "pserver/store/frozen.h"
#include "pserver/util/wake.h"

#include <stdio.h>
#include <stdlib.h>

bool tr__job_state_name(char *out, size_t size, const tr_job *job)
{
    const char *prefix = getenv("TRIREME_STATE");

    return prefix && *prefix && tr_state_name(out, size, prefix, job->server_index);
}

/* Find the state of an earlier process. A damaged state counts as none: then the job begins anew, or from its checkpoint. */
static bool store_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    tr_job *job = self;
    char    name[TR_SEGMENT_NAME];

    if (!job->kept && !tr__job_state_name(name, sizeof name, job))
        return false;
    const tr_status status = job->kept ? TR_OK : tr_state_attach(&job->kept, name);
    if (status == TR_EFORMAT)
        fprintf(stderr, "trireme-pserver: %s; it is not used\n", tr_error());
    if (status != TR_OK)
        return false;
    const int64_t age = tr_state_age(job->kept);
    const bool    is_old = job->role == TR_ROLE_SERVER && age < job->newest;     /* another host has a newer state */
    if (!age || is_old || tr_state_trainers(job->kept) != job->trainer_count) {
        tr_state_free(job->kept, false);           /* the state was never complete, or belongs to another job */
        job->kept = NULL;
        return false;
    }
    *commit = tr_state_committed(job->kept);
    *packed = tr_state_setup(job->kept, bytes);
    return true;
}

/* The first state generation of this start of the job. It is higher than all generations of earlier starts. */
static uint32_t first_age(void)
{
    return tr__job_epoch_of_start() << 16;
}

static tr_status setup_program(tr_job *job, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed,
                               uint64_t bytes, bool resume)
{
    tr_state   *state = job->kept;
    char        text[TR_SEGMENT_NAME];
    const char *name = tr__job_state_name(text, sizeof text, job) ? text : NULL;

    job->kept = NULL;
    if (!resume) {
        tr_state_free(state, true);
        TR_TRY(tr_state_create(&state, name, packed, bytes, job->trainer_count));
    }
    if (!job->replica && tr_state_age(state) < first_age())
        tr_state_set_age(state, first_age());
    if (job->role == TR_ROLE_SERVER)
        tr_state_set_replica_rank(state, -1);            /* after a restart ranks have other numbers */
    return tr_server_program_setup(job->program, setup, policy, state, name, resume);
}

/* A replica may get the whole state a second time: forget the first. */
static void forget_program(tr_job *job)
{
    tr_server_program_over(job->program);
    tr_server_program_free(job->program);
    job->program = tr_server_program_new();
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed, uint64_t bytes,
                             bool resume)
{
    tr_job *job = self;

    if (job->replica && !resume)
        forget_program(job);
    const tr_status status = setup_program(job, setup, policy, packed, bytes, resume);
    if (status != TR_OK && job->replica && job->standby) {
        fprintf(stderr, "trireme-pserver: %s; server %d looks for another replica\n", tr_error(), job->server_index);
        forget_program(job);
    }
    if (status == TR_OK && setup->keeps && !job->replica)
        tr__saving_expect(job->saving);
    return status;
}

static void *store_value(void *self, uint32_t index)
{
    return tr_server_program_value(((tr_job *)self)->program, index);
}

static tr_status store_ready(void *self)
{
    return tr_server_program_ready(((tr_job *)self)->program);
}

static void *store_param(void *self, uint32_t index)
{
    return tr_server_program_param(((tr_job *)self)->program, index);
}

/* The time of an update includes the time of its pieces. */
tr_status tr__job_run_update(tr_job *job)
{
    const int64_t   from = tr__clock();
    const tr_status status = tr_server_program_run(job->program, &job->update);

    tr_times_add(&job->applied, tr__clock() - from + job->in_pieces);
    job->in_pieces = 0;
    return status;
}

static void store_rows(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    tr_server_program_rows(((tr_job *)self)->program, index, keys, n, out, hints);
}

static tr_status store_read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    return tr_server_program_read_rows(((tr_job *)self)->program, index, shard, are_candidates, out, bytes);
}

static tr_status store_write_rows(void *self, uint32_t index, const void *rows, uint64_t bytes, bool are_candidates)
{
    return tr_server_program_write_rows(((tr_job *)self)->program, index, rows, bytes, are_candidates);
}

static tr_status store_piece(void *self, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    tr_job *job = self;

    if (!tr_server_program_has_pieces(job->program, index))
        return TR_OK;
    const int64_t   from = tr__clock();
    const tr_status status = tr_server_program_piece(job->program, index, offset, bytes, grad);

    job->in_pieces += tr__clock() - from;
    return status;
}

void tr__job_tell_applied(tr_job *job, tr_status status)
{
    if (job->replica) {
        tr_replica_applied(job->replica, status);
        return;
    }
    tr_server_tell_time(job->server, tr__clock());
    tr_server_applied(job->server, status);
}

/* Let the main thread run the program, while this thread moves messages and heartbeats. A very short program runs on this thread,
 * because waking the other thread would take as long. */
static void store_apply(void *self, const tr_update *update)
{
    tr_job *job = self;

    job->update = *update;
    if (tr_server_program_is_quick(job->program)) {
        tr__job_tell_applied(job, tr__job_run_update(job));
        return;
    }
    atomic_store(&job->has_update, true);
    tr__bell_ring(&job->bell);
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    tr_server_program_commit(((tr_job *)self)->program, commit, is_update);
}

static void store_go_back(void *self, const tr_commit *commit)
{
    tr_server_program_go_back(((tr_job *)self)->program, commit);
}

static void store_snapshot(void *self, const Trireme__Pserver__SnapshotTarget *target)
{
    tr__saving_begin(((tr_job *)self)->saving, target);
}

static void *store_tasks(void *self, uint64_t *bytes)
{
    tr_job *job = self;
    char    name[TR_SEGMENT_NAME];

    return tr_server_program_tasks(job->program, tr__job_state_name(name, sizeof name, job) ? name : NULL, bytes);
}

static void *store_board(void *self, uint64_t *bytes, bool anew)
{
    tr_job *job = self;
    char    name[TR_SEGMENT_NAME];

    return tr_server_program_board(job->program, tr__job_state_name(name, sizeof name, job) ? name : NULL, bytes, anew);
}

static void *store_param_before(void *self, uint32_t index)
{
    return tr_server_program_param_before(((tr_job *)self)->program, index);
}

static tr_status store_rows_before(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out)
{
    return tr_server_program_rows_before(((tr_job *)self)->program, index, keys, n, out);
}

/* -- replication ------------------------------------------------------------------------------------ */

static uint32_t store_age(void *self, bool raise)
{
    tr_job *job = self;

    if (raise)
        tr_server_program_set_age(job->program, tr_server_program_age(job->program) + 1);
    return tr_server_program_age(job->program);
}

static void store_set_replica_rank(void *self, int rank)
{
    tr_server_program_set_replica_rank(((tr_job *)self)->program, rank);
}

static int store_replica_rank(void *self)
{
    const tr_job *job = self;
    return job->kept ? tr_state_replica_rank(job->kept) : -1;
}

static void store_counts(void *self, uint32_t age)
{
    tr_job *job = self;
    char    text[16];

    tr_server_program_set_age(job->program, age);
    snprintf(text, sizeof text, "%d", job->server_index);
    tr__launcher_tell_own("follows", text);
}

/* The main thread freezes the state, between two updates. */
static void store_freeze(void *self)
{
    tr_job *job = self;

    atomic_store(&job->wants_frozen, true);
    tr__bell_ring(&job->bell);
}

static void store_thaw(void *self)
{
    tr_job *job = self;

    atomic_store(&job->wants_thaw, true);
    tr__bell_ring(&job->bell);
}

tr_status tr__job_serve_frozen(tr_job *job)
{
    if (atomic_exchange(&job->wants_thaw, false)) {
        tr_frozen_free(job->frozen);
        job->frozen = NULL;
    }
    if (!atomic_exchange(&job->wants_frozen, false))
        return TR_OK;
    const tr_status status = tr_frozen_take(&job->frozen, job->program);
    if (status != TR_OK)
        fprintf(stderr, "trireme-pserver: %s; server %d goes on without a replica\n", tr_error(), job->server_index);
    return tr_comm_post(job->comm, &(tr_command){.kind = TR__FROZEN, .block = (int)status, .is_urgent = true});
}

static const void *store_frozen_value(void *self, uint32_t index)
{
    return tr_frozen_value(((tr_job *)self)->frozen, index);
}

static tr_status store_frozen_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    return tr_frozen_rows(((tr_job *)self)->frozen, index, shard, are_candidates, out, bytes);
}

tr_store tr__job_store(tr_job *job, const tr_roster *roster)
{
    job->server_index = roster->rank[roster->self].index;
    job->newest = tr_roster_newest(roster, job->server_index);
    job->trainer_count = roster->trainers;
    return (tr_store){.self = job,
        .kept = store_kept, .setup = store_setup, .value = store_value, .ready = store_ready, .go_back = store_go_back,
        .param = store_param, .param_before = store_param_before,
        .rows = store_rows, .rows_before = store_rows_before, .read_rows = store_read_rows, .write_rows = store_write_rows,
        .tasks = store_tasks, .board = store_board, .age = store_age, .set_replica_rank = store_set_replica_rank,
        .replica_rank = store_replica_rank, .counts = store_counts,
        .piece = store_piece, .apply = store_apply, .commit = store_commit, .snapshot = store_snapshot, .freeze = store_freeze,
        .thaw = store_thaw, .frozen_value = store_frozen_value, .frozen_rows = store_frozen_rows,
    };
}
