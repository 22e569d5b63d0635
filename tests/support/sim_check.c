/* sim_check.c - the sequential run, and the sums, that a job is compared with. */
#include "tests/support/sim_state.h"

#include "pserver/mean.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_last(const sim_job *job, int step, const float *param)
{
    for (int i = 0; i < job->options.trainers; i++)
        if (job->trainer[i].steps == step && memcmp(job->trainer[i].param, param, SIM_TOTAL * sizeof *param))
            fail_msg("seed %llu: trainer %d of %d ends with other parameters (%d servers)",
                     (unsigned long long)job->options.seed, i, job->options.trainers, job->options.servers);
}

/* The same training in one place. */
static void check_sync(const sim_job *job)
{
    static float param[SIM_TOTAL], momentum[SIM_TOTAL], sum[SIM_TOTAL], grad[SIM_TOTAL];
    float       *residual = calloc((size_t)job->options.trainers * SIM_TOTAL, sizeof *residual);

    sim__first_params(job, param);
    memset(momentum, 0, sizeof momentum);
    for (int step = 1; step <= job->options.steps; step++) {
        tr_mean mean = {0};
        for (int i = 0; i < job->options.trainers; i++) {
            if (job->trainer[i].steps < step)
                continue;
            sim__gradient(job, grad, param, i, step, sim__weight(job, i, step));
            sim__arrive(job, grad, residual + (size_t)i * SIM_TOTAL, sim__weight(job, i, step));
            tr_mean_add(&mean, TR_FP32, sum, grad, SIM_TOTAL, sim__weight(job, i, step));
        }
        if (!mean.parts)
            break;
        tr_mean_finish(&mean, TR_FP32, sum, SIM_TOTAL);
        sim__descend(job, param, momentum, param, momentum, sum, SIM_TOTAL);
        check_last(job, step, param);
    }
    free(residual);
}

/* Every settled step is in the parameters once, and nothing else is. */
static void check_block(const sim_job *job, const sim_block *b, int local)
{
    static float expected[SIM_TOTAL], grad[SIM_TOTAL], residual[SIM_TOTAL];
    const sim_place *p = &job->place[b->server];

    sim__first_params(job, expected);
    for (int i = 0; i < job->options.trainers; i++) {
        memset(residual, 0, sizeof residual);
        for (uint64_t step = 1; step <= p->settled[i]; step++) {
            sim__gradient(job, grad, NULL, i, (int)step, 1);
            sim__arrive(job, grad, residual, 1);
            for (int64_t k = b->at; k < b->at + b->size; k++)
                expected[k] -= grad[k];
        }
    }
    if (memcmp(expected + b->at, p->param[p->side][local], (size_t)b->size * sizeof *expected))
        fail_msg("seed %llu: server %d of %d does not have just what is settled in block %d",
                 (unsigned long long)job->options.seed, b->server, job->options.servers, local);
}

static void check_settled(const sim_job *job)
{
    for (int s = 0; s < job->options.servers; s++)
        for (int i = 0; i < job->options.trainers; i++)
            if (!tr_sim_is_dead(job->sim, job->options.servers + i) &&
                job->place[s].settled[i] != (uint64_t)job->trainer[i].steps)
                fail_msg("seed %llu: server %d has %llu steps of trainer %d instead of %d",
                         (unsigned long long)job->options.seed, s, (unsigned long long)job->place[s].settled[i], i,
                         job->trainer[i].steps);
}

void sim_job_check(const sim_job *job)
{
    int *local = calloc((size_t)job->options.servers, sizeof *local);

    if (!tr_mode_keeps_apart(&job->mode))
        check_sync(job);
    else
        check_settled(job);
    for (int i = 0; sim__is_whole(job) && i < job->blocks; i++)
        check_block(job, &job->block[i], local[job->block[i].server]++);
    free(local);
}
