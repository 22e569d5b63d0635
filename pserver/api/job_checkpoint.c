/* job_checkpoint.c - see job_checkpoint.h. */
#include "pserver/api/job_checkpoint.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_own_part.h"
#include "pserver/api/job_parts.h"
#include "pserver/api/job_place.h"
#include "pserver/api/job_view.h"
#include "pserver/observe/runlog.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_options.h"
#include "pserver/util/background.h"
#include "pserver/util/wake.h"
#include "storage/checkpoint/snapshot.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The checkpoint that the owner has asked for. */
typedef struct order {
    char    *dir, *folder, *file;     /* DIR, DIR/step-..., the name of the trainer's own part or NULL */
    char    *digest;
    int64_t  step, begun;
    uint64_t snapshot;
    tr_checkpoint_base base;          /* rows that have not changed since then are not written */
    tr_checkpoint_rows rows;
    int      keep;
} order;

struct tr__checkpointer {
    tr_job      *job;
    tr_snapshot *snapshot;
    tr_background    background;
    atomic_uint  bell;                /* wakes the owner when the background thread ends, and the background thread when the servers have
                                       * answered */
    atomic_bool  is_initiator, is_over, has_more;       /* this trainer is the initiator; the last checkpoint is made; has_more of
                                                         * tr_job_last */
    order        order;
    atomic_bool  is_asked, is_answered;    /* the servers were asked for this snapshot; all of them have answered */
    bool         has_report;
    tr_status    status;
    char         text[2048];
    tr_job_checkpoint_report report;
    bool         is_given_up;         /* the last checkpoint was given up because of a death */
};

static void free_order(order *o)
{
    free(o->dir);
    free(o->folder);
    free(o->file);
    free(o->digest);
    *o = (order){0};
}

tr__checkpointer *tr__checkpointer_new(tr_job *job)
{
    tr__checkpointer *m = tr__must_alloc(sizeof *m);

    m->job = job;
    m->snapshot = tr_snapshot_new();
    return m;
}

void tr__checkpointer_end(tr__checkpointer *m)
{
    tr_background_join(&m->background);
}

void tr__checkpointer_free(tr__checkpointer *m)
{
    if (!m)
        return;
    tr_snapshot_free(m->snapshot);
    free_order(&m->order);
    free(m);
}

/* == the background thread: it joins all parts ======================================================= */

static tr_status wait_for_answers(tr__checkpointer *m)
{
    for (;;) {
        const unsigned seen = atomic_load(&m->bell);
        if (atomic_load(&m->is_answered))
            return TR_OK;
        TR_TRY(tr_comm_status(m->job->rank.comm));
        tr__bell_wait(&m->bell, seen, 50000000);
    }
}

static tr_status merge_places(tr_places *out, tr__checkpointer *m, const tr__parts *p)
{
    const tr_status status = tr_places_merge(out, tr_job_trainers(m->job), m->job->policy.snapshots_all, p->answers, p->answer);

    m->is_given_up = status != TR_OK;
    return status == TR_OK ? TR_OK : TR_EIO;           /* the job goes on */
}

/* Add what each trainer has of its own, and write the manifest. */
static tr_status complete(tr__checkpointer *m, tr__parts *p, const tr_places *places)
{
    const tr_checkpoint_facts facts = {.step = m->order.step, .mode = m->job->mode, .digest = m->order.digest, .base = m->order.base};

    TR_TRY(tr__own_parts_collect(p, &m->is_given_up, m->job->own_part, m->order.folder, places));
    char *groups = tr_roster_groups(tr_comm_roster(m->job->rank.comm));
    const tr_status status = tr__parts_write_manifest(p, m->order.dir, m->order.folder, facts, groups, m->order.snapshot, places);
    free(groups);
    return status;
}

/* Write the own part, and join it with the servers' parts. A next snapshot can begin only when all servers have answered to this one. So
 * wait for their answers even if the own part has failed. */
static tr_status put_together(tr__checkpointer *m, tr__parts *p)
{
    tr_part  *part = NULL;
    tr_status own = TR_OK;

    m->is_given_up = false;
    if (m->order.file)
        own = tr_snapshot_write(&part, m->snapshot, m->order.folder, m->order.file, m->order.rows);
    tr__parts_add(p, part);
    TR_TRY(wait_for_answers(m));
    TR_TRY(own);
    TR_TRY(tr__parts_hear(p, tr__rank_client(&m->job->rank)));
    m->is_given_up = tr_places_are_given_up(p->servers, p->answer);
    TR_TRY(tr__parts_take(p));
    tr_places places;
    tr_status status = merge_places(&places, m, p);
    if (status == TR_OK)
        status = complete(m, p, &places);
    tr_places_deinit(&places);
    TR_TRY(status);
    if (m->order.keep > 0)
        tr_checkpoint_prune(m->order.dir, m->order.keep);
    return TR_OK;
}

/* Remove the parts of a checkpoint that has failed. Called when all servers have answered, so that no server writes any more. */
static void remove_parts(const tr__checkpointer *m, const tr__parts *p)
{
    const int servers = tr_job_servers(m->job), count = servers + (m->order.file != NULL);

    for (int i = 0; i < count; i++) {
        char *name = tr_part_name(i, count, m->order.snapshot);
        tr_part_remove(m->order.folder, name);
        free(name);
    }
    for (int i = 0; i < p->count; i++)
        tr_part_remove(m->order.folder, p->item[i]->file);
}

static void report(tr__checkpointer *m, const tr__parts *p)
{
    const tr_job_checkpoint_report r = {.step = m->order.step,
                                        .number = m->order.snapshot,
                                        .bytes = tr__parts_bytes(p),
                                        .pause = tr__parts_pause(p),
                                        .seconds = (double)(tr__clock() - m->order.begun) / 1e9,
                                        .is_given_up = m->is_given_up};

    m->report = r;
    tr_runlog_note("checkpoint", ",\"step\":%lld,\"written_bytes\":%lld,\"took_ms\":%.3f,\"pause_ms\":%.3f,\"is_good\":%s",
                   (long long)r.step, (long long)r.bytes, 1e3 * r.seconds, 1e3 * r.pause, m->status == TR_OK ? "true" : "false");
}

static void *run_order(void *self)
{
    tr__checkpointer *m = self;
    tr__parts  parts;

    tr__parts_init(&parts, tr_job_servers(m->job), tr_job_trainers(m->job));
    m->status = put_together(m, &parts);
    if (m->status != TR_OK) {
        tr_context(m->status, "while writing the checkpoint '%s'", m->order.folder);
        snprintf(m->text, sizeof m->text, "%s", tr_error());
        if (atomic_load(&m->is_answered))
            remove_parts(m, &parts);
    }
    report(m, &parts);
    tr__parts_deinit(&parts);
    tr_background_end(&m->background);
    tr__bell_ring(&m->bell);
    return NULL;
}

/* == the driver's calls ========================================================================== */

void tr__checkpointer_hear(tr__checkpointer *m, const tr_client *client)
{
    const bool is_initiator = tr_client_is_initiator(client);

    atomic_store_explicit(&m->is_initiator, is_initiator, memory_order_relaxed);
    if (is_initiator)
        atomic_store_explicit(&m->has_more, tr_client_updates(client) > tr_client_step(client), memory_order_relaxed);
    else if (tr_client_is_over(client))
        atomic_store_explicit(&m->is_over, true, memory_order_relaxed);
}

void tr__checkpointer_poll(tr__checkpointer *m, const tr_client *client)
{
    if (!atomic_load_explicit(&m->is_asked, memory_order_relaxed) || !tr_client_snapshot_is_answered(client) ||
        atomic_load_explicit(&m->is_answered, memory_order_relaxed))
        return;
    atomic_store(&m->is_answered, true);
    tr__bell_ring(&m->bell);
}

/* == the owner's calls ============================================================================= */

bool tr_job_makes_checkpoints(const tr_job *job)
{
    return atomic_load_explicit(&job->checkpointer->is_initiator, memory_order_relaxed);
}

void tr__checkpointer_last(const tr__checkpointer *m, tr_job_last *last)
{
    last->is_mine = !atomic_load(&m->is_over);
    last->has_more = atomic_load(&m->has_more);
}

static tr__snapshot_call *make_call(tr__checkpointer *m, const tr_trainer_state *place)
{
    tr__snapshot_call *call = tr__must_alloc(sizeof *call);
    const int count = tr_job_servers(m->job) + (m->order.file != NULL);

    call->servers = tr_job_servers(m->job);
    call->is_asked = &m->is_asked;
    call->payload = tr__must_alloc((size_t)call->servers * sizeof *call->payload);
    call->size = tr__must_alloc((size_t)call->servers * sizeof *call->size);
    for (int i = 0; i < call->servers; i++) {
        Trireme__Pserver__SnapshotTarget target = TRIREME__PSERVER__SNAPSHOT_TARGET__INIT;
        target.folder = m->order.folder;
        target.file = tr_part_name(i, count, m->order.snapshot);
        target.has_number = true;
        target.number = m->order.snapshot;
        target.has_since = m->order.base.number != 0;
        target.since = m->order.base.number;
        target.has_rows = m->order.rows != TR_ROWS_EXACT;
        target.rows = m->order.rows;
        call->payload[i] = tr__place_pack(&call->size[i], place, &target);
        free(target.file);
    }
    return call;
}

/* Of the states that the caller has, those that are in no own part of a trainer. */
static int common_states(tr_checkpoint_item *out, const tr_job *job, const tr_job_checkpoint_spec *spec)
{
    int count = 0;

    for (int i = 0; i < spec->count; i++)
        if (!tr__own_part_has(job->own_part, spec->states[i].name))
            out[count++] = spec->states[i];
    return count;
}

static void make_order(tr__checkpointer *m, const tr_job_checkpoint_spec *spec, int states)
{
    const int servers = tr_job_servers(m->job);

    free_order(&m->order);
    m->order = (order){.dir = tr__must_strdup(spec->folder),
                       .folder = tr_checkpoint_path(spec->folder, spec->step),
                       .step = spec->step,
                       .digest = tr__must_strdup(spec->digest ? spec->digest : ""),
                       .snapshot = tr_checkpoint_new_number(),
                       .base = spec->base,
                       .rows = spec->rows,
                       .keep = spec->keep,
                       .begun = tr__clock()};
    if (states > 0)
        m->order.file = tr_part_name(servers, servers + 1, m->order.snapshot);
}

static tr_status check_order(const tr_job *job, const tr_job_checkpoint_spec *spec)
{
    const tr__checkpointer *m = job->checkpointer;

    TR_TRY(tr__job_check_trainer(job, "tr_job_checkpoint"));
    if (job->stage < TR__JOB_SET_UP)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: tr_job_setup comes first");
    if (!tr_job_makes_checkpoints(job))
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: another trainer makes checkpoints; this is trainer %d", tr_job_index(job));
    if (!spec->folder || !spec->folder[0] || spec->step < 0 || spec->keep < 0 || spec->count < 0)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: folder '%s', step %lld, keep %d", spec->folder ? spec->folder : "",
                       (long long)spec->step, spec->keep);
    if (job->blocks.pushed)
        return tr_fail(TR_EINVAL, "tr_job_checkpoint: in the middle of step %lld: end it first", (long long)job->step + 1);
    TR_TRY(tr__own_parts_check(job->own_part));
    if (tr_background_is_under_way(&m->background))
        return tr_fail(TR_EEXIST, "tr_job_checkpoint: that of step %lld is still being written", (long long)m->order.step);
    return TR_OK;
}

/* Wait for a replacement's first step: without it servers decline the snapshot. After two minutes go on; then the servers decline. */
static tr_status wait_for_replacements(const tr_job *job)
{
    const int64_t deadline = tr__clock() + (int64_t)120e9;

    while (atomic_load(&job->rank.awaits_replacement) && tr__clock() < deadline) {
        TR_TRY(tr_comm_status(job->rank.comm));
        tr__sleep(20000000);
    }
    return TR_OK;
}

tr_status tr_job_checkpoint(tr_job *job, const tr_job_checkpoint_spec *spec)
{
    tr__checkpointer       *m = job->checkpointer;
    tr_trainer_state place = spec->place;

    TR_TRY(check_order(job, spec));
    TR_TRY(tr_job_finish_pulls(job));
    if (atomic_load(&job->rank.is_replacement) && job->step == job->began.at)
        TR_TRY(tr__rank_post(&job->rank, &(tr__command){.head = {TR__EVEN, .is_urgent = true}}));
    TR_TRY(wait_for_replacements(job));
    tr_background_join(&m->background);
    tr_checkpoint_item *states = tr__must_array((size_t)spec->count + 1, sizeof *states);
    const int           count = common_states(states, job, spec);
    const tr_status     status = tr_snapshot_take(m->snapshot, count, states, 0, 0);
    free(states);
    TR_TRY(status);
    make_order(m, spec, count);
    m->has_report = true;
    atomic_store(&m->is_asked, false);
    atomic_store(&m->is_answered, false);
    place.index = tr_job_index(job);
    tr__snapshot_call *call = make_call(m, &place);
    TR_TRY(tr__rank_post(&job->rank, &(tr__command){.head = {TR__SNAPSHOT, .is_urgent = true}, .snapshot = call}));
    return tr_background_begin(&m->background, run_order, m, "write a checkpoint");
}

static bool is_being_written(const tr__checkpointer *m)
{
    return m->has_report && tr_background_is_under_way(&m->background);
}

/* Before a replacement has made its first step, one server may have a step of the dead trainer that other servers lack. So no checkpoint
 * may begin. */
bool tr_job_checkpoint_is_under_way(const tr_job *job)
{
    const bool is_uneven = atomic_load(&job->rank.is_replacement) && job->step == job->began.at;

    return is_uneven || is_being_written(job->checkpointer);
}

tr_status tr_job_checkpoint_wait(tr_job *job, double seconds, tr_job_checkpoint_report *report)
{
    tr__checkpointer    *m = job->checkpointer;
    const int64_t deadline = tr__clock() + tr__seconds(seconds);

    if (!m->has_report)
        return tr_fail(TR_ENOTFOUND, "tr_job_checkpoint_wait: no checkpoint was begun");
    while (is_being_written(m)) {
        const unsigned seen = atomic_load(&m->bell);
        const int64_t  left = deadline - tr__clock();
        if (left <= 0)
            return tr_fail(TR_ETIMEOUT, "the checkpoint '%s' is not complete after %.1f s", m->order.folder, seconds);
        if (is_being_written(m))
            tr__bell_wait(&m->bell, seen, left < 50000000 ? left : 50000000);
    }
    tr_background_join(&m->background);
    if (report)
        *report = m->report;
    return m->status == TR_OK ? TR_OK : tr_fail(m->status, "%s", m->text);
}

tr_status tr__checkpointer_finish(tr__checkpointer *m)
{
    return m->has_report && m->background.is_to_be_joined ? tr_job_checkpoint_wait(m->job, m->job->rank.options.wait_timeout, NULL) : TR_OK;
}
