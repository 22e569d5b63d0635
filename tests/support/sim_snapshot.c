/* sim_snapshot.c - checkpoints of a simulated job: what servers copy, and what who makes them makes of their parts. */
#include "tests/support/snapshot_word.h"
#include "tests/support/sim_state.h"

#include "pserver/core/snapshots/places.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* == servers ==================================================================================== */

enum { COUNTS = SIM_BATCHES * SIM_WIDTH * sizeof(float) };

static void end_writing(void *payload)
{
    sim_applied *p = payload;

    if (sim__is_there(p))
        tr_server_written(p->server, p->bytes, p->size, NULL);
    free(p->bytes);
    p->bytes = NULL;
}

static void end_copying(void *payload)
{
    sim_applied *p = payload;
    tr_sim      *sim = p->place->job->sim;

    if (sim__is_there(p))
        tr_server_snapped(p->server, tr_sim_now(sim));
    const int64_t disk = p->place->job->options.disk ? p->place->job->options.disk : 20000;
    tr_sim_call(sim, p->rank, 1 + (int64_t)tr_sim_random(sim, (uint64_t)disk), end_writing, p);
}

/* A part: the update, then parameter and momentum of each block; rows that count batches. */
void sim__store_snapshot(void *self, const Trireme__Pserver__SnapshotTarget *target)
{
    sim_place   *place = self;
    sim_applied *p = sim__later(place);

    assert_string_equal(target->file, "part");
    sim__tell(place, "copies its state of update %llu for a snapshot", (unsigned long long)place->updates);
    p->size = sizeof place->updates + COUNTS;
    for (int i = 0; i < place->count; i++)
        p->size += 2 * (size_t)place->size[i] * sizeof(float);
    uint8_t *at = p->bytes = malloc(p->size);
    memcpy(at, &place->updates, sizeof place->updates);
    at += sizeof place->updates;
    for (int i = 0; i < place->count; i++) {
        const size_t bytes = (size_t)place->size[i] * sizeof(float);
        memcpy(at, place->param[place->side][i], bytes);
        memcpy(at + bytes, place->momentum[place->side][i], bytes);
        at += 2 * bytes;
    }
    memcpy(at, place->rows[place->side] + SIM_KEYS * SIM_WIDTH, COUNTS);
    tr_sim_call(place->job->sim, p->rank, 1 + (int64_t)tr_sim_random(place->job->sim, 3000), end_copying, p);
}

/* == trainers ==================================================================================== */

uint8_t *sim__pack_place(void *self, size_t *size, uint64_t step)
{
    const sim_trainer *t = self;
    return pack_snapshot(t->index, step, false, size);
}

void sim__snapshot(sim_trainer *t)
{
    t->snapshot_run = t->step - t->snapshot_step <= 1 ? t->snapshot_run + 1 : 1;
    t->snapshot_step = t->step;
    if (t->snapshot_run > t->job->snapshot_run)
        t->job->snapshot_run = t->snapshot_run;
    sim__ask(t, SIM_OP_SNAPSHOT, (uint32_t)t->step);
    t->takes_snapshot = true;
    t->wants_snapshot = false;
    t->has_answers = false;
}

void sim__snapshot_command(sim_trainer *t, uint64_t step)
{
    const size_t servers = (size_t)t->job->options.servers;
    uint8_t    **payload = calloc(servers, sizeof *payload);
    size_t      *size = calloc(servers, sizeof *size);

    for (size_t s = 0; s < servers; s++)
        payload[s] = pack_snapshot(t->index, step, true, &size[s]);
    tr_client_snapshot(t->client, payload, size);
    t->has_answers = true;
    free(payload);
    free(size);
}

static void take_part(const sim_job *job, sim_snapshot *to, int server, const uint8_t *at)
{
    uint64_t updates;

    memcpy(&updates, at, sizeof updates);
    at += sizeof updates;
    assert_true(server == 0 || sim__is_whole(job) || updates == to->updates);
    to->updates = updates;
    for (int i = 0; i < job->blocks; i++) {
        const sim_block *b = &job->block[i];
        const size_t     bytes = (size_t)b->size * sizeof(float);
        if (b->server != server)
            continue;
        memcpy(to->param + b->at, at, bytes);
        memcpy(to->momentum + b->at, at + bytes, bytes);
        at += 2 * bytes;
    }
    for (int n = 0; n < SIM_BATCHES; n++, at += SIM_WIDTH * sizeof(float)) {
        float count;
        memcpy(&count, at, sizeof count);
        to->count[server][n] = (int)count;
    }
}

static int most_steps(const tr_places *places)
{
    int most = 0;

    for (int p = 0; p < places->count; p++)
        most = (int)places->place[p]->steps > most ? (int)places->place[p]->steps : most;
    return most;
}

/* Of whom nothing is said: where all snapshot, it is lost; where one cuts alone, it is at the same step, or has left before. */
static int place_of(const sim_job *job, int trainer, const tr_places *places)
{
    const int first = most_steps(places), steps = job->trainer[trainer].steps;

    for (int p = 0; p < places->count; p++)
        if (places->place[p]->index == (uint32_t)trainer)
            return (int)places->place[p]->steps;
    return job->policy.snapshots_all || first > steps ? steps : first;
}

void sim__see_snapshot(sim_trainer *t)
{
    uint32_t number;
    uint64_t step;

    if (tr_client_sees_snapshot(&number, &step, t->client) && t->seen[number % 8].number != number) {
        t->seen[number % 8].number = number;
        t->seen[number % 8].step = step;
    }
}

/* A trainer leaves what it has of its own after the step of its place in the snapshot. */
static void check_moment(const sim_job *job, uint32_t number, const tr_places *places)
{
    for (int p = 0; p < places->count; p++) {
        const sim_trainer *t = &job->trainer[places->place[p]->index];
        if (t->seen[number % 8].number == number && t->seen[number % 8].step != places->place[p]->steps)
            fail_msg("seed %llu: mode %s: trainer %u is after step %llu in snapshot %u, and takes its own part after step %llu", (unsigned long long)job->options.seed,
                     job->options.mode, places->place[p]->index, (unsigned long long)places->place[p]->steps, number,
                     (unsigned long long)t->seen[number % 8].step);
    }
}

/* May servers' parts fail to make a checkpoint? In sync(degraded) an update may be made without an initiator that waits in a collective. */
static bool may_be_given_up(const sim_job *job)
{
    return strstr(tr_error(), "died while it was made") || (job->policy.goes_on && strstr(tr_error(), "copied its state after update"));
}

/* What job_checkpoint.c asks of servers' parts. */
static bool take_places(const sim_job *job, uint32_t number, sim_snapshot *to, Trireme__Pserver__SnapshotDone *const *done)
{
    tr_places       places;
    const tr_status status = tr_places_merge(&places, to->trainers, job->policy.snapshots_all, job->options.servers, done);

    if (status != TR_OK && !may_be_given_up(job))
        fail_msg("seed %llu: %s", (unsigned long long)job->options.seed, tr_error());
    if (status == TR_OK)
        check_moment(job, number, &places);
    for (int i = 0; status == TR_OK && i < to->trainers; i++) {
        to->step[i] = place_of(job, i, &places);
        to->left[i] = job->trainer[i].steps - to->step[i];
    }
    tr_places_deinit(&places);
    return status == TR_OK;
}

static void free_snapshot(sim_snapshot *one)
{
    free(one->step);
    free(one->left);
    free(one->tasks);
    free(one);
}

static void take_tasks(sim_snapshot *to, const Trireme__Pserver__SnapshotDone *done)
{
    if (!done->has_tasks)
        return;
    to->tasks_size = done->tasks.len;
    to->tasks = memcpy(malloc(to->tasks_size), done->tasks.data, to->tasks_size);
}

/* False: the snapshot is not whole. */
static bool take_parts(const sim_trainer *t, sim_snapshot *to, Trireme__Pserver__SnapshotDone **done)
{
    const sim_job *job = t->job;
    bool           is_whole = true;

    for (int s = 0; s < job->options.servers; s++) {
        const tr_client_answer *answer = tr_client_snapshot_answer(t->client, s);
        done[s] = trireme__pserver__snapshot_done__unpack(NULL, answer->size, answer->bytes);
        assert_non_null(done[s]);
        is_whole &= done[s]->has_part != 0;
    }
    if (!is_whole && !tr_places_are_given_up(job->options.servers, done))
        fail_msg("seed %llu: nobody would begin a snapshot anew that a death has cost", (unsigned long long)job->options.seed);
    if (!is_whole || !take_places(job, tr_client_own_snapshot(t->client), to, done))
        return false;
    for (int s = 0; s < job->options.servers; s++)
        take_part(job, to, s, done[s]->part.data);
    take_tasks(to, done[0]);
    return true;
}

void sim__take_answers(sim_trainer *t)
{
    sim_job                   *job = t->job;
    sim_snapshot              *one = calloc(1, sizeof *one);
    Trireme__Pserver__SnapshotDone *done[SIM_SERVERS];

    one->initiator = t->index;
    one->trainers = job->options.trainers;
    one->step = calloc((size_t)one->trainers, sizeof *one->step);
    one->left = calloc((size_t)one->trainers, sizeof *one->left);
    const bool is_whole = take_parts(t, one, done);
    for (int s = 0; s < job->options.servers; s++)
        trireme__pserver__snapshot_done__free_unpacked(done[s], NULL);
    t->takes_snapshot = false;
    t->last_is_whole = is_whole;
    t->wants_snapshot = !is_whole;
    if (!is_whole) {
        free_snapshot(one);
        return;
    }
    if (one->tasks)
        sim__check_position(job, one);
    one->next = job->snapshots;
    job->snapshots = one;
}

const sim_snapshot *sim_job_snapshots(const sim_job *job)
{
    return job->snapshots;
}

void sim__snapshots_free(sim_job *job)
{
    while (job->snapshots) {
        sim_snapshot *gone = job->snapshots;
        job->snapshots = gone->next;
        free_snapshot(gone);
    }
}
