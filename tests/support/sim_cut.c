/* sim_cut.c - checkpoints of a simulated job: what servers copy, and what trainer 0 makes of their parts. */
#include "tests/support/sim_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* == servers ==================================================================================== */

enum { COUNTS = SIM_BATCHES * SIM_WIDTH * sizeof(float) };

/* A part on its way to the disk: the update, then parameter and momentum of each block; rows that count batches. */
typedef struct part {
    sim_applied *later;
    uint8_t     *bytes;
    size_t       size;
} part;

static void end_writing(void *payload)
{
    part *p = payload;

    if (sim__is_there(p->later))
        tr_server_written(p->later->server, p->bytes, p->size, NULL);
    free(p->bytes);
    free(p);
}

static void end_copying(void *payload)
{
    part   *p = payload;
    tr_sim *sim = p->later->place->job->sim;

    if (sim__is_there(p->later))
        tr_server_snapped(p->later->server, tr_sim_now(sim));
    tr_sim_call(sim, 1 + (int64_t)tr_sim_random(sim, 20000), end_writing, p);
}

void sim__store_snapshot(void *self, const Trireme__Pserver__Wish *wish)
{
    sim_place *place = self;
    part      *p = calloc(1, sizeof *p);

    assert_string_equal(wish->file, "part");
    p->later = sim__later(place);
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
    tr_sim_call(place->job->sim, 1 + (int64_t)tr_sim_random(place->job->sim, 3000), end_copying, p);
}

/* == trainers ==================================================================================== */

static uint8_t *pack_cut(int index, uint64_t steps, bool with_wish, size_t *size)
{
    Trireme__Pserver__Place place = TRIREME__PSERVER__PLACE__INIT;
    Trireme__Pserver__Wish  wish = TRIREME__PSERVER__WISH__INIT;
    Trireme__Pserver__Cut   cut = TRIREME__PSERVER__CUT__INIT;

    place.index = (uint32_t)index;
    place.steps = place.runs = steps;
    wish.folder = (char *)"folder";
    wish.file = (char *)"part";
    cut.place = &place;
    cut.wish = with_wish ? &wish : NULL;
    *size = trireme__pserver__cut__get_packed_size(&cut);
    uint8_t *bytes = malloc(*size);
    trireme__pserver__cut__pack(&cut, bytes);
    return bytes;
}

uint8_t *sim__pack_place(void *self, size_t *size, uint64_t step)
{
    const sim_trainer *t = self;
    return pack_cut(t->index, step, false, size);
}

void sim__cut(sim_trainer *t)
{
    const size_t servers = (size_t)t->job->options.servers;
    uint8_t    **payload = calloc(servers, sizeof *payload);
    size_t      *size = calloc(servers, sizeof *size);

    for (size_t s = 0; s < servers; s++)
        payload[s] = pack_cut(0, (uint64_t)t->step, true, &size[s]);
    tr_client_cut(t->client, payload, size);
    t->is_cutting = true;
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

/* Of whom nothing is said: where all cut, it has left; where trainer 0 cuts alone, it is at the same step, or has left before. */
static int place_of(const sim_job *job, int trainer, const Trireme__Pserver__CutDone *done)
{
    const bool is_by_all = tr_mode_keeps_apart(&job->mode) && !job->mode.goes_on;
    const int  first = (int)done->places[0]->steps, steps = job->trainer[trainer].steps;

    for (size_t p = 0; p < done->n_places; p++)
        if (done->places[p]->index == (uint32_t)trainer)
            return (int)done->places[p]->steps;
    return is_by_all || first > steps ? steps : first;
}

/* Every server has cut a trainer's stream at the same place. */
static void take_places(const sim_job *job, sim_snapshot *to, int server, const Trireme__Pserver__CutDone *done)
{
    for (int i = 0; i < to->trainers; i++) {
        const int step = place_of(job, i, done);
        if (server > 0 && step != to->step[i])
            fail_msg("seed %llu: server %d has cut trainer %d behind step %d, server 0 behind step %d",
                     (unsigned long long)job->options.seed, server, i, step, to->step[i]);
        to->step[i] = step;
        to->left[i] = job->trainer[i].steps - step;
    }
}

/* Steps of the trainers that are in it, and 1; 0: it is not. One malloc. */
static uint64_t *list_places(const sim_snapshot *one, const Trireme__Pserver__CutDone *done)
{
    uint64_t *steps = calloc((size_t)one->trainers, sizeof *steps);

    for (size_t p = 0; p < done->n_places; p++)
        steps[done->places[p]->index] = done->places[p]->steps + 1;
    return steps;
}

static void free_snapshot(sim_snapshot *one)
{
    free(one->step);
    free(one->left);
    free(one->tasks);
    free(one);
}

/* What job_checkpoint.c asks of them where tasks are leased: the same trainers are in each. */
static bool are_same(const sim_snapshot *one, const uint64_t *steps, const Trireme__Pserver__CutDone *done)
{
    uint64_t *other = list_places(one, done);
    const bool are_same = !memcmp(steps, other, (size_t)one->trainers * sizeof *steps);

    free(other);
    return are_same;
}

void sim__take_answers(sim_trainer *t)
{
    sim_job      *job = t->job;
    sim_snapshot *one = calloc(1, sizeof *one);
    uint64_t     *steps = NULL;
    bool          is_whole = true;

    one->trainers = job->options.trainers;
    one->step = calloc((size_t)one->trainers, sizeof *one->step);
    one->left = calloc((size_t)one->trainers, sizeof *one->left);
    for (int s = 0; s < job->options.servers; s++) {
        const tr_client_answer    *answer = tr_client_cut_answer(t->client, s);
        Trireme__Pserver__CutDone *done = trireme__pserver__cut_done__unpack(NULL, answer->size, answer->bytes);
        assert_non_null(done);
        is_whole &= done->has_part != 0;
        if (!steps)
            steps = list_places(one, done);
        is_whole &= !job->options.tasks || are_same(one, steps, done);
        if (is_whole) {
            take_part(job, one, s, done->part.data);
            take_places(job, one, s, done);
        }
        if (is_whole && done->has_tasks) {
            one->tasks_size = done->tasks.len;
            one->tasks = memcpy(malloc(one->tasks_size), done->tasks.data, one->tasks_size);
        }
        trireme__pserver__cut_done__free_unpacked(done, NULL);
    }
    free(steps);
    t->is_cutting = false;
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
