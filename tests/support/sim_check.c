/* sim_check.c - the sequential run, and the sums, that a job is compared with. */
#include "tests/support/sim_state.h"

#include "pserver/core/base/weighted_mean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_last(const sim_job *job, int step, const float *param)
{
    static float rounded[SIM_TOTAL];
    const float *expected = sim__pulled(job, rounded, param, SIM_TOTAL);

    for (int i = 0; i < job->options.trainers; i++)
        if (job->trainer[i].steps == step && !job->trainer[i].was_over &&
            memcmp(job->trainer[i].param, expected, SIM_TOTAL * sizeof *param))
            fail_msg("seed %llu: trainer %d of %d ends with other parameters (%d servers)",
                     (unsigned long long)job->options.seed, i, job->options.trainers, job->options.servers);
}

/* The same training in one place. */
static void check_sync(const sim_job *job)
{
    static float param[SIM_TOTAL], momentum[SIM_TOTAL], sum[SIM_TOTAL], group_sum[SIM_TOTAL], grad[SIM_TOTAL], rounded[SIM_TOTAL];
    float       *residual = calloc((size_t)job->options.trainers * SIM_TOTAL, sizeof *residual);

    sim__first_params(job, param);
    sim__first_momentum(job, momentum);
    for (int step = 1; step <= job->options.steps; step++) {
        tr_mean mean = {0}, group = {0};
        int     set;
        sim__seen(job, rounded, param, step);
        for (int i = 0; i < job->options.trainers; i++) {
            if (sim__begins_group(job, i)) {
                tr_mean_join(&mean, TR_FP32, sum, &group, group_sum, SIM_TOTAL);
                group = (tr_mean){0};
            }
            if (job->trainer[i].steps < step)
                continue;
            sim__gradient(job, grad, rounded, i, step, sim__weight(job, i, step));
            sim__arrive(job, grad, residual + (size_t)i * SIM_TOTAL, sim__weight(job, i, step));
            tr_mean_add(&group, TR_FP32, group_sum, grad, SIM_TOTAL, sim__weight(job, i, step));
        }
        tr_mean_join(&mean, TR_FP32, sum, &group, group_sum, SIM_TOTAL);
        if (!mean.parts)
            break;
        tr_mean_finish(&mean, TR_FP32, sum, SIM_TOTAL);
        sim__set(job, step, &set, param, momentum);
        sim__descend(job, param, momentum, param, momentum, sum, SIM_TOTAL);
        check_last(job, step, param);
    }
    free(residual);
    sim__check_rows_in_step(job);
}

/* Every settled step is in a server's parameters once, and nothing else is. */
static void check_server(const sim_job *job, int server)
{
    static float expected[SIM_TOTAL], grad[SIM_TOTAL], residual[SIM_TOTAL];
    const sim_place *p = &job->place[server];

    sim__first_params(job, expected);
    for (int i = 0; i < job->options.trainers; i++) {
        memset(residual, 0, sizeof residual);
        for (uint64_t step = 1; step <= p->settled[i]; step++) {
            sim__gradient(job, grad, NULL, i, (int)step, 1);
            sim__arrive(job, grad, residual, 1);
            const int end = sim__is_left_out(job, server, i, step) || sim__weight(job, i, (int)step) == 0 ? 0 : SIM_TOTAL;
            for (int k = 0; k < end; k++)
                expected[k] -= grad[k];
        }
    }
    for (int i = 0, local = 0; i < job->blocks; i++) {
        const sim_block *b = &job->block[i];
        if (b->server != server)
            continue;
        if (memcmp(expected + b->at, p->param[p->side][local], (size_t)b->size * sizeof *expected))
            fail_msg("seed %llu: server %d of %d does not have just what is settled in block %d",
                     (unsigned long long)job->options.seed, server, job->options.servers, local);
        local++;
    }
}

static void check_settled(const sim_job *job)
{
    for (int s = 0; s < job->options.servers; s++)
        for (int i = 0; i < job->options.trainers; i++)
            if (!sim__trainer_is_dead(job, i) &&
                job->place[s].settled[i] != (uint64_t)job->trainer[i].steps)
                fail_msg("seed %llu: server %d has %llu steps of trainer %d instead of %d",
                         (unsigned long long)job->options.seed, s, (unsigned long long)job->place[s].settled[i], i,
                         job->trainer[i].steps);
}

/* == where it is decided what makes an update ==================================================== */

static const sim_place *furthest(const sim_job *job)
{
    const sim_place *first = job->place;

    for (int s = 1; s < job->options.servers; s++)
        if (job->place[s].updates > first->updates)
            first = &job->place[s];
    return first;
}

void sim__check_agreement(const sim_job *job)
{
    const sim_place *all = furthest(job);
    const size_t     bytes = (size_t)job->options.trainers * sizeof(uint64_t);

    for (int s = 0; job->policy.decides && s < job->options.servers; s++) {
        const sim_place *p = &job->place[s];
        if (p->updates + 1 < all->updates)
            fail_msg("seed %llu: server %d has %llu updates, another one %llu", (unsigned long long)job->options.seed, s,
                     (unsigned long long)p->updates, (unsigned long long)all->updates);
        for (uint64_t n = 0; n < p->updates; n++)
            if (memcmp(p->history[n], all->history[n], bytes))
                fail_msg("seed %llu: server %d makes update %llu of other steps", (unsigned long long)job->options.seed, s,
                         (unsigned long long)n + 1);
    }
}

/* Each step once at most, in order; in sync(degraded) of all trainers until they leave. A trainer that died is present again after a restart. */
static void check_history(const sim_job *job, const sim_place *all)
{
    for (int i = 0; i < job->options.trainers; i++) {
        const bool is_dead = sim__trainer_is_dead(job, i);
        uint64_t   last = 0, count = 0;
        bool       is_over = false;
        for (uint64_t n = 0; n < all->updates; n++) {
            const uint64_t step = all->history[n][i];
            assert_true(!step || step > last);
            assert_true(!step || !is_over || !job->policy.goes_on || job->start > 1);
            is_over |= !step;
            last = step ? step : last;
            count += step != 0;
        }
        if (job->policy.goes_on && !is_dead && count != (uint64_t)job->trainer[i].steps)
            fail_msg("seed %llu: %llu steps of trainer %d are in, instead of %d", (unsigned long long)job->options.seed,
                     (unsigned long long)count, i, job->trainer[i].steps);
    }
}

/* Who served here is dead, and nobody was left who missed it. */
static bool is_empty(const sim_job *job, const sim_place *p)
{
    for (int i = 0; i < job->size; i++)
        if (job->rank[i].server == p->server && !tr_sim_is_dead(job->sim, i))
            return false;
    return true;
}

/* Does a dead server's successor serve here without the last update? It may, if a dead trainer's step of that update is missing: nobody sends it again. */
static bool misses_the_last(const sim_job *job, const sim_place *p, const sim_place *all)
{
    bool is_successor = false, is_of_dead = false;

    for (int i = job->options.servers; i < job->size; i++)
        is_successor |= job->rank[i].server == p->server && !tr_sim_is_dead(job->sim, i);
    for (int i = 0; i < job->options.trainers; i++)
        is_of_dead |= all->history[all->updates - 1][i] && sim__trainer_is_dead(job, i);
    return is_successor && is_of_dead && p->updates + 1 == all->updates;
}

/* The first updates in one place: each of the mean of its steps, computed with the parameters before it. */
static void replay(const sim_job *job, uint64_t updates, float *param, float *momentum)
{
    static float     sum[SIM_TOTAL], group_sum[SIM_TOTAL], grad[SIM_TOTAL], rounded[SIM_TOTAL];
    const sim_place *all = furthest(job);
    float           *residual = calloc((size_t)job->options.trainers * SIM_TOTAL, sizeof *residual);

    int              made = 0;

    sim__first_params(job, param);
    sim__first_momentum(job, momentum);
    for (uint64_t n = 0; n < updates; n++) {
        tr_mean mean = {0}, group = {0};
        int     set, before = made;
        for (int i = 0; i < job->options.trainers; i++) {
            if (job->policy.gathers_per_trainer || sim__begins_group(job, i)) {
                tr_mean_join(&mean, TR_FP32, sum, &group, group_sum, SIM_TOTAL);
                group = (tr_mean){0};
            }
            const int step = (int)all->history[n][i];
            if (!step)
                continue;
            made = step > made ? step : made;
            sim__gradient(job, grad, sim__seen(job, rounded, param, step), i, step, sim__weight(job, i, step));
            sim__arrive(job, grad, residual + (size_t)i * SIM_TOTAL, sim__weight(job, i, step));
            tr_mean_add(&group, TR_FP32, group_sum, grad, SIM_TOTAL, sim__weight(job, i, step));
        }
        tr_mean_join(&mean, TR_FP32, sum, &group, group_sum, SIM_TOTAL);
        tr_mean_finish(&mean, TR_FP32, sum, SIM_TOTAL);
        for (int step = before + 1; step <= made; step++)         /* the first trainer that makes a step sets its values */
            sim__set(job, step, &set, param, momentum);
        sim__descend(job, param, momentum, param, momentum, sum, SIM_TOTAL);
    }
    free(residual);
}

/* Does a trainer miss an update between two of its steps? In a new start of sync(degraded), trainers that wait in a collective are not waited for by one that is
 * behind. Their next step was computed with parameters that this check does not know. */
static bool has_gap(const sim_job *job, const sim_place *all)
{
    for (int i = 0; i < job->options.trainers; i++)
        for (uint64_t n = 1, last = 0; n <= all->updates; n++) {
            if (!all->history[n - 1][i])
                continue;
            if (last && last + 1 < n)
                return true;
            last = n;
        }
    return false;
}

static void check_decided(const sim_job *job)
{
    static float     param[SIM_TOTAL], momentum[SIM_TOTAL];
    const sim_place *all = furthest(job);
    const bool       is_exact = job->compress.kind == TR_COMPRESS_NONE;

    check_history(job, all);
    if (!is_exact && !job->policy.goes_on)
        return;                                    /* dropped steps have left residuals, of parameters that nobody knows */
    if (job->policy.goes_on && job->options.meets && job->start > 1 && has_gap(job, all))
        return;
    int *local = calloc((size_t)job->options.servers, sizeof *local);
    replay(job, all->updates, param, momentum);
    for (int i = 0; i < job->blocks; i++) {
        const sim_block *b = &job->block[i];
        const sim_place *p = &job->place[b->server];
        assert_true(p->updates == all->updates || is_empty(job, p) || misses_the_last(job, p, all));
        if (p->updates == all->updates &&
            memcmp(param + b->at, p->param[p->side][local[b->server]], (size_t)b->size * sizeof *param))
            fail_msg("seed %llu: server %d of %d does not have what its updates make, in block %d",
                     (unsigned long long)job->options.seed, b->server, job->options.servers, i);
        local[b->server]++;
    }
    sim__check_decided_rows(job, all);
    free(local);
}

/* Parameters, which are whole numbers, as they are after so many steps of each trainer. */
typedef struct sums {
    float param[SIM_TOTAL];
    int  *step;
} sums;

static void add(const sim_job *job, sums *of, int who, int step, int sign)
{
    static float grad[SIM_TOTAL];

    sim__gradient(job, grad, NULL, who, step, 1);
    for (int k = 0; k < SIM_TOTAL; k++)
        of->param[k] -= (float)sign * grad[k];
}

static void move_to(const sim_job *job, sums *of, int who, int step)
{
    while (of->step[who] < step)
        add(job, of, who, ++of->step[who], 1);
    while (of->step[who] > step)
        add(job, of, who, of->step[who]--, -1);
}

/* Just the steps that its trainers have after them are in it, each once. */
static void check_whole_snapshot(const sim_job *job, sums *expected, const sim_snapshot *one)
{
    for (int i = 0; i < one->trainers; i++)
        move_to(job, expected, i, one->step[i]);
    if (memcmp(expected->param, one->param, sizeof expected->param))
        fail_msg("seed %llu: the cut after step %d of trainer 0 does not have just the steps of its trainers",
                 (unsigned long long)job->options.seed, one->step[0]);
}

/* Nobody says of a trainer that is lost which of its steps a snapshot has. */
static bool has_lost_trainers(const sim_job *job)
{
    bool has_lost = false;

    for (int i = 0; i < job->options.trainers; i++)
        has_lost |= sim__trainer_is_dead(job, i);
    return has_lost;
}

/* That of one update, and nothing in it is behind where its trainer goes on. */
static void check_update_snapshot(const sim_job *job, const sim_snapshot *one)
{
    static float param[SIM_TOTAL], momentum[SIM_TOTAL];

    replay(job, one->updates, param, momentum);
    if (memcmp(param, one->param, sizeof param) || memcmp(momentum, one->momentum, sizeof momentum))
        fail_msg("seed %llu: the cut after step %d of trainer 0 is not the state of update %llu",
                 (unsigned long long)job->options.seed, one->step[0], (unsigned long long)one->updates);
    for (int i = 0; i < one->trainers; i++)
        for (uint64_t n = 0; n < furthest(job)->updates && !sim__trainer_is_dead(job, i); n++)
            if (n < one->updates && (int)furthest(job)->history[n][i] > one->step[i])
                fail_msg("seed %llu: the snapshot of update %llu has step %llu of trainer %d, which continues after step %d",
                         (unsigned long long)job->options.seed, (unsigned long long)one->updates,
                         (unsigned long long)furthest(job)->history[n][i], i, one->step[i]);
}

void sim_job_check_snapshots(const sim_job *job)
{
    static sums expected;

    sim__first_params(job, expected.param);
    expected.step = calloc((size_t)job->options.trainers, sizeof *expected.step);
    for (const sim_snapshot *one = job->snapshots; one; one = one->next)
        if (!sim__is_whole(job))
            check_update_snapshot(job, one);
        else if (!has_lost_trainers(job))
            check_whole_snapshot(job, &expected, one);
    free(expected.step);
}

void sim_job_check(const sim_job *job)
{
    if (!job->policy.gathers_per_trainer)
        check_sync(job);
    else
        check_settled(job);
    if (job->policy.decides)
        check_decided(job);
    for (int server = 0; sim__is_whole(job) && server < job->options.servers; server++)
        check_server(job, server);
    if (sim__is_whole(job))
        sim__check_settled_rows(job);
    if (job->options.tasks)
        sim_job_check_tasks(job);
}

/* == what trainers have pulled =================================================================== */

/* Of some jobs: it takes as long as all the rest. Where messages are lost an answer may be made of two. */
bool sim__is_looked_at(const sim_job *job)
{
    const bool is_left_out = job->policy.is_lockstep && job->policy.gathers_per_trainer;     /* an update may come between two pulls of a trainer that it does not wait for */

    return !job->options.is_scripted && !job->options.cluster && !is_left_out && job->options.loss == 0 && job->options.seed % 8 == 0;
}

static uint64_t digest_of(const float *block, int64_t count)
{
    uint64_t digest = 0;

    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, &block[i], sizeof word);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

static uint64_t digest_as_pulled(const sim_job *job, const float *block, int64_t count)
{
    uint64_t digest = 0;
    float    rounded;

    for (int64_t i = 0; i < count; i++) {
        uint32_t word;
        memcpy(&word, sim__pulled(job, &rounded, &block[i], 1), sizeof word);
        digest = (digest ^ word) * 0x9e3779b97f4a7c15u;
        digest ^= digest >> 29;
    }
    return digest;
}

void sim__note_blocks(sim_place *p)
{
    const size_t count = 2 * (size_t)p->count;

    if (!sim__is_looked_at(p->job))
        return;
    p->seen = realloc(p->seen, (p->seen_count + 1) * (count + 1) * sizeof *p->seen);
    for (int i = 0; i < p->count; i++) {
        p->seen[p->seen_count * count + 2 * (size_t)i] = digest_as_pulled(p->job, p->param[p->side][i], p->size[i]);
        p->seen[p->seen_count * count + 2 * (size_t)i + 1] = digest_of(p->momentum[p->side][i], p->size[i]);
    }
    p->seen_count++;
}

/* Were a block and its momentum so after one update? */
static bool was_seen(const sim_place *p, size_t block, uint64_t param, uint64_t momentum)
{
    for (size_t i = p->seen_count; i-- > 0;) {
        const uint64_t *seen = &p->seen[2 * (i * (size_t)p->count + block)];
        if (seen[0] == param && seen[1] == momentum)
            return true;
    }
    return false;
}

void sim__check_pulled(const sim_trainer *t)
{
    const sim_job *job = t->job;
    size_t         local[SIM_SERVERS] = {0};

    for (int i = 0; i < job->blocks && sim__is_looked_at(job); i++) {
        const sim_block *b = &job->block[i];
        if (!was_seen(&job->place[b->server], local[b->server]++, digest_as_pulled(job, &t->param[b->at], b->size), digest_of(&t->momentum[b->at], b->size)))
            fail_msg("seed %llu: before step %d trainer %d has pulled a mixture of updates as block %d and its momentum",
                     (unsigned long long)job->options.seed, t->step + 1, t->index, i);
    }
}
