/* sim_store.c - what a server holds; it outlives the rank. */
#include "tests/support/sim_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void thaw(sim_place *p)
{
    for (int i = 0; p->frozen && i < p->frozen->count; i++) {
        free(p->frozen->param[i]);
        free(p->frozen->momentum[i]);
    }
    if (p->frozen) {
        free(p->frozen->param);
        free(p->frozen->momentum);
    }
    free(p->frozen);
    p->frozen = NULL;
}

void sim__place_free(sim_place *p)
{
    thaw(p);
    for (int i = 0; i < p->count; i++)
        for (int side = 0; side < 2; side++) {
            free(p->param[side][i]);
            free(p->momentum[side][i]);
        }
    for (int side = 0; side < 2; side++) {
        free(p->param[side]);
        free(p->momentum[side]);
    }
    for (int i = 0; i < p->count; i++)
        free(p->is_computed[i]);
    free(p->is_computed);
    free(p->size);
    for (uint64_t i = 0; i < p->history_count; i++)
        free(p->history[i]);
    free(p->history);
    free(p->settled);
    free(p->flags);
    free(p->member);
    free(p->seen);
    free(p->packed);
    free(p->tasks);
    free(p->board);
    tr_rows_merge_deinit(&p->merge);
}

static bool store_last_commit(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    const sim_place *p = self;

    *commit = (tr_commit){p->updates, p->settled, p->flags, p->decided, p->decisions, p->start,
                          p->knows_members ? p->member : NULL, p->decided_snapshot, p->newest_snapshot};
    *packed = p->packed;
    *bytes = p->packed_bytes;
    return p->is_ready && (!p->replica || p->has_counted);
}

static tr_status store_setup(void *self, const Trireme__Pserver__Setup *setup, const tr_policy *policy, const void *packed,
                             uint64_t bytes, bool resume)
{
    (void)policy;
    sim_place       *p = self;
    const size_t trainers = (size_t)p->job->options.trainers;

    if (resume)
        return TR_OK;
    if (p == p->job->place)
        sim__meetings_forget(p->job);              /* server 0 begins anew, and with it the board */
    sim__place_free(p);                            /* of an earlier start */
    *p = (sim_place){.job = p->job, .server = p->server, .replica = p->replica};
    sim__first_rows(p->job, p->rows[0]);
    p->count = (int)setup->n_blocks;
    p->packed = memcpy(malloc(bytes), packed, bytes);
    p->packed_bytes = bytes;
    p->size = calloc((size_t)p->count + 1, sizeof *p->size);
    p->settled = calloc(trainers, sizeof *p->settled);
    p->flags = calloc(trainers, sizeof *p->flags);
    p->member = calloc(trainers, sizeof *p->member);
    p->is_computed = calloc((size_t)p->count + 1, sizeof *p->is_computed);
    for (int i = 0; i < p->count; i++)
        p->is_computed[i] = calloc(setup->blocks[i]->bytes / 4 + 1, sizeof **p->is_computed);
    for (int side = 0; side < 2; side++) {
        p->param[side] = calloc((size_t)p->count + 1, sizeof(float *));
        p->momentum[side] = calloc((size_t)p->count + 1, sizeof(float *));
        for (int i = 0; i < p->count; i++) {
            p->size[i] = (int64_t)setup->blocks[i]->bytes / 4;
            p->param[side][i] = calloc((size_t)p->size[i] + 1, 4);
            p->momentum[side][i] = calloc((size_t)p->size[i] + 1, 4);
        }
    }
    return TR_OK;
}

static void *store_param(void *self, uint32_t index)
{
    sim_place *p = self;
    return p->param[p->side][index];
}

/* Parameters, then momenta. */
static void *store_value(void *self, uint32_t index)
{
    sim_place *p = self;
    return index < (uint32_t)p->count ? p->param[p->side][index] : p->momentum[p->side][index - (uint32_t)p->count];
}

/* In a job that goes on from a snapshot the momentum comes with the parameters, but not over the wire. */
static tr_status store_ready(void *self)
{
    sim_place          *p = self;
    const sim_job      *job = p->job;
    const sim_snapshot *from = p->is_ready ? NULL : job->options.from;

    for (int i = 0, local = 0; from && i < job->blocks; i++)
        if (&job->place[job->block[i].server] == p) {
            memcpy(p->momentum[p->side][local], from->momentum + job->block[i].at, (size_t)job->block[i].size * sizeof(float));
            local++;
        }
    return TR_OK;
}

int sim__place_rank(const sim_place *p)
{
    for (int i = 0; i < p->job->size; i++)
        if (p->replica ? p->job->rank[i].replica == p->replica : p->job->rank[i].server == p->server)
            return i;
    return -1;
}

sim_applied *sim__later(sim_place *p)
{
    sim_applied *a = malloc(sizeof *a);

    *a = (sim_applied){p->job->applied, p, p->server, p->replica, sim__place_rank(p), NULL, 0};
    p->job->applied = a;
    return a;
}

bool sim__is_there(const sim_applied *later)
{
    return later->place->server == later->server && later->place->replica == later->replica &&
           !tr_sim_is_dead(later->place->job->sim, later->rank);
}

static void compute(sim_place *p, int block, int64_t first, int64_t count, const float *grad)
{
    const int from = p->side, to = 1 - from;

    sim__descend(p->job, p->param[to][block] + first, p->momentum[to][block] + first, p->param[from][block] + first,
                 p->momentum[from][block] + first, grad, count);
}

/* Some are computed when they come, the others with the rest. */
static tr_status store_piece(void *self, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    sim_place    *p = self;
    const int64_t first = (int64_t)offset / 4, count = (int64_t)bytes / 4;

    assert_false(p->is_computed[index][first]);
    if (tr_sim_random(p->job->sim, 3) == 0)
        return TR_OK;
    compute(p, (int)index, first, count, grad);
    memset(p->is_computed[index] + first, 1, (size_t)count);
    return TR_OK;
}

/* A process has no pieces when it takes a place, nor after an update. */
static void forget_pieces(sim_place *p)
{
    for (int i = 0; i < p->count; i++)
        memset(p->is_computed[i], 0, (size_t)p->size[i]);
}

/* Values are the parameters of the blocks, then their momenta. */
static float **present_value(sim_place *p, uint32_t value)
{
    const int block = (int)value % p->count;
    return &((int)value < p->count ? p->param : p->momentum)[p->side][block];
}

/* The update reads what trainers have set, and the present values stay as they are: it may never count. */
static void compute_all(sim_place *p)
{
    float *present[8 * SIM_PARAMS];

    assert_true(p->update.set_count <= 8 * SIM_PARAMS);
    for (uint32_t i = 0; i < p->update.set_count; i++) {
        float **at = present_value(p, p->update.set[i].value);
        present[i] = *at;
        *at = (float *)(uintptr_t)p->update.set[i].data;
    }
    for (int i = 0; i < p->count; i++)
        for (int64_t k = 0, end; k < p->size[i]; k = end) {
            for (end = k + 1; end < p->size[i] && p->is_computed[i][end] == p->is_computed[i][k]; end++)
                continue;
            if (!p->is_computed[i][k])
                compute(p, i, k, end - k, (const float *)p->update.grad[i] + k);
        }
    for (uint32_t i = p->update.set_count; i-- > 0;)
        *present_value(p, p->update.set[i].value) = present[i];
}

static void apply_now(void *payload)
{
    sim_applied *a = payload;
    sim_place   *p = a->place;

    if (sim__is_there(a)) {
        compute_all(p);
        sim__apply_rows(p);
        if (p->replica)
            tr_replica_applied(p->replica, TR_OK);
        else
            tr_server_applied(p->server, TR_OK);
    }
}

static void store_apply(void *self, const tr_update *update)
{
    sim_place *p = self;

    assert_true(update->number == p->updates + 1);
    if (update->set_count)
        sim__tell(p, "sets %u of its values", update->set_count);
    sim__tell(p, "applies update %llu", (unsigned long long)update->number);
    p->update = *update;
    sim_applied *a = sim__later(p);
    if (p->job->is_slow)
        tr_sim_call(p->job->sim, a->rank, 1 + (int64_t)tr_sim_random(p->job->sim, 3000), apply_now, a);
    else
        tr_sim_call(p->job->sim, a->rank, 0, apply_now, a);
}

static void note_update(sim_place *p, const tr_commit *commit)
{
    uint64_t *steps = calloc((size_t)p->job->options.trainers, sizeof *steps);

    for (int i = 0; i < p->job->options.trainers; i++)
        if (p->update.takes_part[i])
            steps[i] = commit->settled[i];
    for (; p->history_count < commit->updates; p->history_count++) {
        p->history = realloc(p->history, (size_t)(p->history_count + 1) * sizeof *p->history);
        p->history[p->history_count] = NULL;
    }
    free(p->history[commit->updates - 1]);         /* it was gone back from */
    p->history[commit->updates - 1] = steps;
}

/* A replica that has got a whole state has not seen what made it. */
static void copy_history(sim_place *p, uint64_t updates)
{
    const size_t     bytes = (size_t)p->job->options.trainers * sizeof(uint64_t);
    const sim_place *from = p - p->job->options.servers;

    p->history = realloc(p->history, (size_t)(updates + 1) * sizeof *p->history);
    for (; p->history_count < updates; p->history_count++)
        p->history[p->history_count] = memcpy(malloc(bytes), from->history[p->history_count], bytes);
}

static bool *left_out(const sim_job *job, int server, int trainer, uint64_t step)
{
    assert_true(step < SIM_MOST_STEPS);
    return &job->left_out[((uint64_t)server * (uint64_t)job->options.trainers + (uint64_t)trainer) * SIM_MOST_STEPS + step];
}

bool sim__is_left_out(const sim_job *job, int server, int trainer, uint64_t step)
{
    return *left_out(job, server, trainer, step);
}

/* What is settled without being in an update has been left out; a replica has not seen what was before it. */
static void note_left_out(const sim_place *p, const tr_commit *commit, bool is_update)
{
    const int server = (int)(p - p->job->place) % p->job->options.servers;

    for (int i = 0; p->is_ready && i < p->job->options.trainers; i++)
        for (uint64_t step = p->settled[i] + 1; step <= commit->settled[i]; step++)
            *left_out(p->job, server, i, step) = !is_update || !p->update.takes_part[i] || step < commit->settled[i];
}

static void take_lists(sim_place *p, const tr_commit *commit)
{
    p->decided = commit->decided;
    p->decisions = commit->decisions;
    p->start = commit->start;
    p->knows_members = commit->member;
    p->decided_snapshot = commit->snapshot;
    p->newest_snapshot = commit->newest_snapshot;
    for (int i = 0; i < p->job->options.trainers; i++) {
        p->settled[i] = commit->settled[i];
        p->flags[i] = commit->trainer[i];
        if (commit->member)
            p->member[i] = commit->member[i];
    }
}

static void store_commit(void *self, const tr_commit *commit, bool is_update)
{
    sim_place *p = self;

    assert_true(commit->updates == p->updates + is_update || !p->is_ready);
    sim__tell_commit(p, commit, is_update);
    if (p->replica && !p->is_ready)
        copy_history(p, commit->updates - is_update);
    if (is_update)
        note_update(p, commit);
    note_left_out(p, commit, is_update);
    p->updates = commit->updates;
    p->side ^= is_update;
    if (is_update)
        forget_pieces(p);
    for (int i = 0; i < p->job->options.trainers; i++)
        assert_true(commit->settled[i] >= p->settled[i] || p->may_fall);
    take_lists(p, commit);
    p->is_ready = true;
    p->may_fall = false;
    if (is_update || !p->seen_count)
        sim__note_blocks(p);
}

static void store_go_back(void *self, const tr_commit *commit)
{
    sim_place *p = self;

    sim__tell(p, "goes back behind update %llu", (unsigned long long)p->updates - 1);
    p->updates--;
    p->side ^= 1;
    p->may_fall = !commit;
    if (commit)
        take_lists(p, commit);
}

/* One virtual shard has all of them. */
static tr_status store_read_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, uint32_t since, void **out,
                                 uint64_t *bytes)
{
    const sim_place *p = self;

    (void)index;
    (void)shard;
    (void)since;
    *bytes = are_candidates ? 0 : sizeof p->rows[0];
    *out = memcpy(malloc(sizeof p->rows[0]), p->rows[p->side], sizeof p->rows[0]);
    return TR_OK;
}

static tr_status store_write_rows(void *self, const tr_form_write_rows *what, const void *rows, uint64_t bytes)
{
    sim_place *p = self;

    assert_true(!what->has_candidates && bytes == sizeof p->rows[0]);
    memcpy(p->rows[p->side], rows, bytes);
    return TR_OK;
}

/* Of an update that is over: nothing of the next may have come. */
static void *store_param_before(void *self, uint32_t index)
{
    sim_place *p = self;

    for (int64_t k = 0; k < p->size[index]; k++)
        assert_false(p->is_computed[index][k]);
    return p->param[1 - p->side][index];
}

static void *store_value_before(void *self, uint32_t index)
{
    sim_place *p = self;
    return index < (uint32_t)p->count ? store_param_before(self, index) : p->momentum[1 - p->side][index - (uint32_t)p->count];
}

static void *store_tasks(void *self, uint64_t *bytes)
{
    sim_place *p = self;

    if (*bytes) {
        free(p->tasks);
        p->tasks = calloc(*bytes, 1);
        p->tasks_bytes = *bytes;
    }
    *bytes = p->tasks_bytes;
    return p->tasks;
}

static void *store_board(void *self, uint64_t *bytes, bool anew)
{
    sim_place *p = self;

    if (anew)
        p->board_bytes = 0;
    if (*bytes > p->board_bytes) {
        p->board = realloc(p->board, *bytes);
        memset(p->board + p->board_bytes, 0, *bytes - p->board_bytes);
        p->board_bytes = *bytes;
    }
    *bytes = p->board_bytes;
    return p->board_bytes ? p->board : NULL;
}

/* == a replica in the middle of the job ============================================================ */

static uint32_t store_generation(void *self, bool raise)
{
    (void)self;
    (void)raise;
    return 1;
}

static void store_set_replica_rank(void *self, int rank)
{
    ((sim_place *)self)->replica_rank = rank + 1;
}

static int store_replica_rank(void *self)
{
    return ((sim_place *)self)->replica_rank - 1;
}

/* It has all of which its server has told anybody. */
static void store_counts(void *self, uint32_t generation)
{
    sim_place       *p = self;
    const sim_place *server = p - p->job->options.servers;

    (void)generation;
    sim__tell(p, "counts as a replica");
    assert_true(p->is_ready && p->updates >= server->updates && p->updates <= server->updates + 1);
    p->job->called += sim__place_rank(p) < p->job->size - p->job->options.servers;
    p->counts = p->has_counted = true;
}

static float *copy_of(const float *from, int64_t size)
{
    return memcpy(malloc((size_t)(size + 1) * sizeof *from), from, (size_t)size * sizeof *from);
}

static void freeze_now(void *payload)
{
    sim_applied *a = payload;
    sim_place   *p = a->place;

    if (!sim__is_there(a))
        return;
    thaw(p);
    sim_frozen *f = p->frozen = calloc(1, sizeof *f);
    f->count = p->count;
    f->param = calloc((size_t)f->count + 1, sizeof *f->param);
    f->momentum = calloc((size_t)f->count + 1, sizeof *f->momentum);
    for (int i = 0; i < f->count; i++) {
        f->param[i] = copy_of(p->param[p->side][i], p->size[i]);
        f->momentum[i] = copy_of(p->momentum[p->side][i], p->size[i]);
    }
    memcpy(f->rows, p->rows[p->side], sizeof f->rows);
    tr_server_frozen(p->server, TR_OK);
}

static void store_freeze(void *self)
{
    sim_place   *p = self;
    sim_applied *a = sim__later(p);

    sim__tell(p, "freezes its state");
    if (p->job->is_slow)
        tr_sim_call(p->job->sim, a->rank, 1 + (int64_t)tr_sim_random(p->job->sim, 3000), freeze_now, a);
    else
        tr_sim_call(p->job->sim, a->rank, 0, freeze_now, a);
}

static const void *store_frozen_value(void *self, uint32_t index)
{
    const sim_frozen *f = ((sim_place *)self)->frozen;
    return index < (uint32_t)f->count ? f->param[index] : f->momentum[index - (uint32_t)f->count];
}

static tr_status store_frozen_rows(void *self, uint32_t index, uint32_t shard, bool are_candidates, void **out, uint64_t *bytes)
{
    const sim_frozen *f = ((sim_place *)self)->frozen;

    (void)index;
    (void)shard;
    *bytes = are_candidates ? 0 : sizeof f->rows;
    *out = memcpy(malloc(sizeof f->rows), f->rows, sizeof f->rows);
    return TR_OK;
}

static void store_thaw(void *self)
{
    thaw(self);
}

/* == a checkpoint that the job goes on from ======================================================== */

static void restored_now(void *payload)
{
    sim_applied     *a = payload;
    const sim_place *p = a->place;
    const bool       is_damaged = p->reading == 2 && p->job->place + p->job->options.servers - 1 == p;

    if (sim__is_there(a))
        tr_server_restored(p->server, is_damaged ? tr_fail(TR_EFORMAT, "chunk 7 is damaged") : TR_OK);
}

static void read_checkpoint(sim_place *p, uint64_t number)
{
    sim_applied *a = sim__later(p);

    p->reading = number;
    tr_sim_call(p->job->sim, a->rank, 1 + (int64_t)tr_sim_random(p->job->sim, p->job->options.is_scripted ? 1 : 100000), restored_now, a);
}

static void store_restore(void *self, const char *path, uint64_t number)
{
    sim__tell(self, "reads its part of %s", path);
    read_checkpoint(self, number);
}

static void store_fill(void *self)
{
    sim__tell(self, "reads its first values");
    read_checkpoint(self, 0);
}

static tr_store store_over(sim_place *p)
{
    return (tr_store){.self = p, .worker = p,
        .last_commit = store_last_commit, .setup = store_setup, .value = store_value, .ready = store_ready, .go_back = store_go_back,
        .param = store_param, .param_before = store_param_before, .value_before = store_value_before,
        .rows = sim__store_rows, .rows_before = sim__store_rows_before, .read_rows = store_read_rows,
        .expect_rows = sim__store_expect_rows, .write_rows = store_write_rows,
        .tasks = store_tasks, .board = store_board, .generation = store_generation, .set_replica_rank = store_set_replica_rank,
        .replica_rank = store_replica_rank, .counts = store_counts,
        .piece = store_piece, .apply = store_apply, .commit = store_commit,
        .restore = store_restore, .fill = store_fill,
        .snapshot = p->job->options.snapshots ? sim__store_snapshot : NULL, .freeze = store_freeze, .thaw = store_thaw,
        .frozen_value = store_frozen_value, .frozen_rows = store_frozen_rows,
    };
}

tr_server *sim__server_new(sim_rank *r, int index)
{
    sim_place     *p = &r->job->place[index];
    const tr_store store = store_over(p);

    forget_pieces(p);
    p->server = r->server = tr_server_new(r->roster, &store);
    tr_server_set_retry(p->server, r->job->options.loss > 0 ? 50000 : 0);
    return p->server;
}

tr_replica *sim__replica_new(sim_rank *r, int index)
{
    sim_place     *p = &r->job->place[r->job->options.servers + index];
    const tr_store store = store_over(p);

    forget_pieces(p);
    return p->replica = r->replica = tr_replica_new(r->roster, &store);
}

/* One that was this server's replica before is dead, and has no place. */
tr_replica *sim__replica_new_called(sim_rank *r, int index)
{
    sim_place     *p = &r->job->place[r->job->options.servers + index];
    const tr_store store = store_over(p);

    forget_pieces(p);
    p->counts = p->has_counted = false;
    return p->replica = r->replica = tr_replica_new_called(r->roster, &store);
}
