/* sim_rows.c - a sparse table beside the blocks: which rows a trainer wants and pushes, what servers make of them, and what must
 * have come out. Rows for a step are asked for right after the end of the one before, as a trainer that knows its next batch
 * does, but for sync(backups), where they must not be older than the parameters. Key k lies on server k modulo the number of servers. */
#include "tests/support/sim_state.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { ROW_BYTES = SIM_WIDTH * sizeof(float), PUSH_BYTES = sizeof(int64_t) + ROW_BYTES };

/* == what is computed ========================================================================== */

static float scale(const sim_job *job, int n)
{
    return sim__is_whole(job) ? (float)n : (float)n / 101.0f;
}

void sim__first_rows(const sim_job *job, float *rows)
{
    for (int i = 0; i < SIM_KEYS * SIM_WIDTH; i++)
        rows[i] = scale(job, i * 37 % 101 - 50);
    memset(rows + SIM_KEYS * SIM_WIDTH, 0, SIM_BATCHES * ROW_BYTES);
    sim__tasks_first_rows(job, rows);
}

static bool is_wanted(int64_t key, int who, int step)
{
    return (key * 7 + who * 11 + step * 5) % 3 == 0;
}

static void row_gradient(const sim_job *job, float *grad, const float *row, int64_t key, int who, int step)
{
    for (int c = 0; c < SIM_WIDTH; c++)
        grad[c] = scale(job, (int)(key * 31 + who * 17 + step * 7 + c) % 23 - 11) + (sim__is_whole(job) ? 0 : 0.3f * row[c]);
}

static void update_rows(const sim_job *job, float *rows, const tr_rows_merge *merge)
{
    for (uint32_t i = 0; i < merge->set.count; i++)
        for (int c = 0; c < SIM_WIDTH; c++)
            rows[merge->set.keys[i] * SIM_WIDTH + c] -= (sim__is_whole(job) ? 1 : 0.1f) * merge->values[i * SIM_WIDTH + c];
}

/* == a server ================================================================================== */

/* Those that count. */
static const float *rows_of(const sim_place *p)
{
    return p->rows[p->side];
}

/* A row's place is its key. */
tr_status sim__store_rows(void *self, uint32_t table, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    const sim_place *p = self;

    assert_int_equal(table, 0);
    for (int64_t i = 0; i < n; i++) {
        memcpy((char *)out + i * ROW_BYTES, rows_of(p) + keys[i] * SIM_WIDTH, ROW_BYTES);
        hints[i] = (uint32_t)keys[i];
    }
    return TR_OK;
}

tr_status sim__store_rows_before(void *self, uint32_t table, const int64_t *keys, int64_t n, void *out)
{
    const sim_place *p = self;

    assert_int_equal(table, 0);
    for (int64_t i = 0; i < n; i++)
        memcpy((char *)out + i * ROW_BYTES, p->rows[1 - p->side] + keys[i] * SIM_WIDTH, ROW_BYTES);
    return TR_OK;
}

void sim__apply_rows(sim_place *p)
{
    assert_int_equal(tr_rows_merge_run(&p->merge, &p->update.rows[0], SIM_WIDTH), TR_OK);
    for (uint32_t i = 0; p->merge.hints && i < p->merge.set.count; i++)
        assert_int_equal(p->merge.hints[i], p->merge.set.keys[i]);
    memcpy(p->rows[1 - p->side], p->rows[p->side], sizeof p->rows[0]);
    update_rows(p->job, p->rows[1 - p->side], &p->merge);
}

/* == a trainer ================================================================================= */

static void list_keys(sim_rows *rows, const sim_trainer *t, int step)
{
    const int servers = t->job->options.servers;

    rows->first[0] = 0;
    for (int s = 0; s < servers; s++) {
        rows->first[s + 1] = rows->first[s];
        for (int64_t key = s; key < SIM_KEYS; key += servers)
            if (is_wanted(key, t->index, step))
                rows->keys[rows->first[s + 1]++] = key;
    }
}

void sim__pull_rows(sim_trainer *t)
{
    sim_rows *rows = t->pulled;

    list_keys(rows, t, t->step + 1);
    if (t->job->options.expects)
        sim__ask(t, SIM_OP_EXPECT_ROWS, 0);
    rows->clock = UINT64_MAX;
    rows->call = (tr_client_rows){.first = rows->first, .keys = rows->keys, .to = (uint8_t *)rows->value, .row_bytes = ROW_BYTES,
                                  .clock = &rows->clock, .is_rounded = t->job->options.rounds};
    t->ticket = sim__ask(t, SIM_OP_PULL_ROWS, 0);
}

/* No trainer changes these keys, so they may be sent for as long as it takes. */
static const int64_t expected[] = {1, 0, SIM_KEYS - 1};

void sim__expect_rows(sim_trainer *t)
{
    enum { COUNT = sizeof expected / sizeof *expected };
    uint64_t first[SIM_SERVERS + 1];

    for (int s = 0; s <= t->job->options.servers; s++)
        first[s] = s == 0 ? 0 : COUNT;                 /* all are of the first server */
    tr_client_expect_rows(t->client, &(tr_client_rows){.first = first, .keys = expected});
}

tr_status sim__store_expect_rows(void *self, uint32_t index, const int64_t *keys, int64_t n)
{
    (void)self;
    assert_int_equal(index, 0);
    assert_memory_equal(keys, expected, (size_t)n * sizeof *keys);
    return TR_OK;
}

static const float counts_one[SIM_WIDTH] = {-1};

/* Keys of the batches of leased tasks, on each server. */
static void list_batches(sim_rows *rows, const sim_trainer *t)
{
    const int n = t->tasks.batches;

    for (int s = t->job->options.servers; s > 0; s--) {
        int64_t *from = rows->keys + rows->first[s - 1], *to = from + (s - 1) * n;
        const uint64_t count = rows->first[s] - rows->first[s - 1];
        memmove(to, from, count * sizeof *to);
        for (int i = 0; i < n; i++)
            to[count + (uint64_t)i] = SIM_KEYS + t->tasks.batch[i];
    }
    for (int s = 1; s <= t->job->options.servers; s++)
        rows->first[s] += (uint64_t)(s * n);
}

/* A batch without samples has no keys. */
void sim__push_rows(sim_trainer *t)
{
    sim_rows *rows = t->pushed;

    list_keys(rows, t, t->step);
    if (t->weight == 0)
        memset(rows->first, 0, sizeof rows->first);
    list_batches(rows, t);
    uint64_t wanted = 0;
    for (int s = 0; s < t->job->options.servers; s++) {
        uint8_t       *piece = rows->pieces + rows->first[s] * PUSH_BYTES;
        const uint64_t count = rows->first[s + 1] - rows->first[s];
        for (uint64_t i = 0; i < count; i++) {
            const int64_t key = rows->keys[rows->first[s] + i];
            float         grad[SIM_WIDTH];
            if (key < SIM_KEYS)
                row_gradient(t->job, grad, t->pulled->value + wanted++ * SIM_WIDTH, key, t->index, t->step);
            else
                memcpy(grad, counts_one, sizeof grad);
            memcpy(piece + i * sizeof key, &key, sizeof key);
            memcpy(piece + count * sizeof key + i * ROW_BYTES, grad, ROW_BYTES);
        }
    }
    rows->call = (tr_client_rows){.first = rows->first, .pieces = rows->pieces, .push_bytes = PUSH_BYTES, .weight = t->weight};
    sim__ask(t, SIM_OP_PUSH_ROWS, 0);
}

/* Has it said that its steps are over, or died? */
static bool is_gone(const sim_job *job, int trainer)
{
    return job->trainer[trainer].phase >= SIM_STAY || (!job->options.replacements && sim__trainer_is_dead(job, trainer));
}

/* Is it gone for this server? Then a replacement of it may say goodbye to others yet. */
static bool is_gone_at(const sim_job *job, int server, int trainer)
{
    const sim_place *p = &job->place[server];
    return job->options.replacements && (p->flags[trainer] & TR_TRAINER_GONE || p->settled[trainer] == (uint64_t)job->trainer[trainer].steps);
}

/* What the answers say of the others' steps: as many as the mode promises, and no more than are there. */
void sim__check_clock(const sim_trainer *t)
{
    const sim_job *job = t->job;
    const uint64_t clock = t->pulled->clock;

    if (job->policy.lead < 0 || clock == UINT64_MAX)
        return;
    if ((int64_t)clock < t->step - sim__bound(job))
        fail_msg("seed %llu: rows for step %d of trainer %d have %llu steps of all: the bound is %lld",
                 (unsigned long long)job->options.seed, t->step + 1, t->index, (unsigned long long)clock, (long long)sim__bound(job));
    for (int s = 0; s < job->options.servers; s++)
        for (int i = 0; t->pulled->first[s] < t->pulled->first[s + 1] && i < job->options.trainers; i++)
            if (!is_gone(job, i) && !is_gone_at(job, s, i) &&
                job->place[s].settled[i] < clock)
                fail_msg("seed %llu: server %d says that %llu steps of trainer %d are in its rows, which has %llu there",
                         (unsigned long long)job->options.seed, s, (unsigned long long)clock, i,
                         (unsigned long long)job->place[s].settled[i]);
}

/* == comparing ================================================================================= */

static void check_last_rows(const sim_job *job, int step, const float *rows)
{
    for (int i = 0; i < job->options.trainers; i++) {
        const sim_rows *pulled = job->trainer[i].pulled;
        const bool      is_last = job->trainer[i].steps == step && !job->trainer[i].was_over;
        float           row[SIM_WIDTH];
        for (uint64_t k = 0; is_last && k < pulled->first[job->options.servers]; k++)
            if (memcmp(pulled->value + k * SIM_WIDTH, sim__pulled(job, row, rows + pulled->keys[k] * SIM_WIDTH, SIM_WIDTH), ROW_BYTES))
                fail_msg("seed %llu: trainer %d ends with another row %lld", (unsigned long long)job->options.seed, i,
                         (long long)pulled->keys[k]);
    }
}

/* What trainer `who` sends in a step of a sequential run. */
static int64_t list_gradient(const sim_job *job, int64_t *keys, float *grad, const float *rows, int who, int step)
{
    int64_t count = 0;

    for (int64_t key = 0; key < SIM_KEYS && sim__weight(job, who, step) > 0; key++)
        if (is_wanted(key, who, step)) {
            float row[SIM_WIDTH];
            row_gradient(job, grad + count * SIM_WIDTH, sim__pulled(job, row, rows + key * SIM_WIDTH, SIM_WIDTH), key, who, step);
            keys[count++] = key;
        }
    return count;
}

/* One update of a sequential run: of the step that `step_of` has of each trainer; 0: it takes no part. False: nobody does. */
static bool update_once(const sim_job *job, float *rows, tr_rows_merge *merge, const uint64_t *step_of)
{
    enum { MOST = 64 };
    static int64_t keys[MOST][SIM_KEYS];
    static float   grad[MOST][SIM_KEYS * SIM_WIDTH];
    tr_rows_part   part[MOST];
    tr_rows_update update = {0, part};

    for (int i = 0, group = 0; i < job->options.trainers; i++) {
        group += sim__begins_group(job, i);
        if (step_of[i])
            part[update.count++] = (tr_rows_part){i, sim__weight(job, i, (int)step_of[i]),
                                                  list_gradient(job, keys[i], grad[i], rows, i, (int)step_of[i]), keys[i], grad[i],
                                                  .group = job->policy.gathers_per_trainer ? 0 : group};
    }
    if (!update.count)
        return false;
    assert_int_equal(tr_rows_merge_run(merge, &update, SIM_WIDTH), TR_OK);
    update_rows(job, rows, merge);
    return true;
}

void sim__check_rows_in_step(const sim_job *job)
{
    float         rows[SIM_ROWS * SIM_WIDTH];
    uint64_t     *step_of = calloc((size_t)job->options.trainers, sizeof *step_of);
    tr_rows_merge merge = {0};

    sim__first_rows(job, rows);
    for (int step = 1; step <= job->options.steps; step++) {
        for (int i = 0; i < job->options.trainers; i++)
            step_of[i] = job->trainer[i].steps >= step ? (uint64_t)step : 0;
        if (!update_once(job, rows, &merge, step_of))
            break;
        check_last_rows(job, step, rows);
    }
    tr_rows_merge_deinit(&merge);
    free(step_of);
}

void sim__check_decided_rows(const sim_job *job, const sim_place *all)
{
    float         rows[SIM_ROWS * SIM_WIDTH];
    tr_rows_merge merge = {0};

    sim__first_rows(job, rows);
    for (uint64_t n = 0; n < all->updates; n++)
        update_once(job, rows, &merge, all->history[n]);
    for (int64_t key = 0; key < SIM_KEYS; key++) {
        const sim_place *p = &job->place[key % job->options.servers];
        if (p->updates == all->updates && memcmp(rows + key * SIM_WIDTH, rows_of(p) + key * SIM_WIDTH, ROW_BYTES))
            fail_msg("seed %llu: row %lld is not what its updates make", (unsigned long long)job->options.seed, (long long)key);
    }
    tr_rows_merge_deinit(&merge);
}

void sim__check_settled_rows(const sim_job *job)
{
    for (int64_t key = 0; key < SIM_KEYS; key++) {
        const sim_place *p = &job->place[key % job->options.servers];
        float            rows[SIM_ROWS * SIM_WIDTH], grad[SIM_WIDTH];

        sim__first_rows(job, rows);
        float *row = rows + key * SIM_WIDTH;
        for (int i = 0; i < job->options.trainers; i++)
            for (int step = 1; (uint64_t)step <= p->settled[i]; step++) {
                row_gradient(job, grad, row, key, i, step);
                const bool is_in = is_wanted(key, i, step) && !sim__is_left_out(job, (int)(key % job->options.servers), i, (uint64_t)step);
                for (int c = 0; is_in && c < SIM_WIDTH; c++)
                    row[c] -= grad[c];
            }
        if (memcmp(row, rows_of(p) + key * SIM_WIDTH, ROW_BYTES))
            fail_msg("seed %llu: row %lld does not have just what is settled", (unsigned long long)job->options.seed, (long long)key);
    }
}
