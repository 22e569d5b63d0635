/* job_store.c - what the core of a server or of a replica has beneath it (tr_store): the program that it was told, in memory that outlives
 * the process, and the thread that runs it. */
#include "pserver/job.h"
#include "pserver/job_checkpoint.h"

#include "pserver/launcher.h"
#include "pserver/segment.h"
#include "pserver/wake.h"

#include <stdio.h>
#include <stdlib.h>

bool tr__job_state_name(char *out, size_t size, const tr_job *job)
{
    const char *prefix = getenv("TRIREME_STATE");

    return prefix && *prefix && tr_state_name(out, size, prefix, job->server_index);
}

/* What is damaged is as good as nothing: the job begins anew, or from its checkpoint. */
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
    *commit = tr_state_committed(job->kept);
    *packed = tr_state_setup(job->kept, bytes);
    return true;
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    tr_job     *job = self;
    tr_state   *state = job->kept;
    char        text[TR_SEGMENT_NAME];
    const char *name = tr__job_state_name(text, sizeof text, job) ? text : NULL;

    job->kept = NULL;
    if (!resume) {
        tr_state_free(state, true);
        TR_TRY(tr_state_create(&state, name, packed, bytes, job->trainer_count));
    }
    tr_state_set_attempt(state, tr__job_epoch_of_start());
    TR_TRY(tr_server_program_setup(job->program, setup, state, name, resume));
    if (setup->keeps && job->role != TR_ROLE_REPLICA)
        tr__saving_expect(job->saving);
    return TR_OK;
}

static void *store_value(void *self, uint32_t index)
{
    return tr_server_program_value(((tr_job *)self)->program, index);
}

static tr_status store_ready(void *self)
{
    tr_job *job = self;

    TR_TRY(tr_server_program_ready(job->program));
    if (job->role == TR_ROLE_REPLICA)
        tr__launcher_tell_own("mirrors", NULL);
    return TR_OK;
}

static void *store_param(void *self, uint32_t index)
{
    return tr_server_program_param(((tr_job *)self)->program, index);
}

/* Time of an update is that of its pieces, too. */
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
    tr_job         *job = self;
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

/* The program runs in the main thread: messages and heartbeats go on meanwhile. Where it takes no longer than to wake that
 * thread it runs here. */
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

static void store_go_back(void *self)
{
    tr_server_program_go_back(((tr_job *)self)->program);
}

static void store_snapshot(void *self, const Trireme__Pserver__Wish *wish)
{
    tr__saving_begin(((tr_job *)self)->saving, wish);
}

static void *store_tasks(void *self, uint64_t *bytes)
{
    tr_job *job = self;
    char    name[TR_SEGMENT_NAME];

    return tr_server_program_tasks(job->program, tr__job_state_name(name, sizeof name, job) ? name : NULL, bytes);
}

static void *store_param_before(void *self, uint32_t index)
{
    return tr_server_program_param_before(((tr_job *)self)->program, index);
}

static tr_status store_rows_before(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out)
{
    return tr_server_program_rows_before(((tr_job *)self)->program, index, keys, n, out);
}

tr_store tr__job_store(tr_job *job, const tr_roster *roster)
{
    job->server_index = roster->rank[roster->self].index;
    job->trainer_count = roster->trainers;
    return (tr_store){job, store_kept, store_setup, store_value, store_ready, store_param, store_apply,
                      store_commit, store_go_back, store_rows, store_snapshot,
                      store_read_rows, store_write_rows, store_tasks, store_piece,
                      store_param_before, store_rows_before};
}
