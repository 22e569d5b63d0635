/* sim_model.c - what trainers and servers of a simulated job compute. */
#include "tests/support/sim_state.h"

#include <math.h>
#include <string.h>

bool sim__is_whole(const sim_job *job)
{
    return !job->policy.is_lockstep;
}

/* What they are where no snapshot says it: computed once. */
static const float *plain_params(bool are_whole)
{
    static float param[2][SIM_TOTAL];
    static bool  are_there;

    for (int i = 0; !are_there && i < SIM_TOTAL; i++) {
        const int n = (i * 7919) % 1009;
        param[true][i] = (float)(n - 504);
        param[false][i] = (float)n / 1009.0f - 0.5f;
    }
    are_there = true;
    return param[are_whole];
}

void sim__first_params(const sim_job *job, float *param)
{
    memcpy(param, job->options.from ? job->options.from->param : plain_params(sim__is_whole(job)), SIM_TOTAL * sizeof *param);
}

void sim__first_momentum(const sim_job *job, float *momentum)
{
    memset(momentum, 0, SIM_TOTAL * sizeof *momentum);
    if (job->options.from)
        memcpy(momentum, job->options.from->momentum, SIM_TOTAL * sizeof *momentum);
}

/* A job that goes on counts its steps from 1 on. */
static int steps_before(const sim_job *job, int who)
{
    return job->options.from ? job->options.from->step[who] : 0;
}

/* What gradients are made of goes round: i * STEP mod PERIOD, of which each row begins somewhere. */
enum { PERIOD = 263, STEP = 31, INVERSE = 17 };   /* of STEP, mod PERIOD */

static const float *wave_from(int n)
{
    static float wave[SIM_TOTAL + PERIOD];

    for (int i = 0; !wave[1] && i < SIM_TOTAL + PERIOD; i++)
        wave[i] = (float)(i * STEP % PERIOD);
    return wave + n * INVERSE % PERIOD;
}

/* Over no sample it is no number. */
void sim__gradient(const sim_job *job, float *grad, const float *param, int who, int step, double weight)
{
    const int    of_all = step + steps_before(job, who);
    const float *n = wave_from((who * 97 + of_all * 17) % PERIOD);

    if (weight == 0)
        for (int i = 0; i < SIM_TOTAL; i++)
            grad[i] = NAN;
    else if (sim__is_whole(job))
        for (int i = 0; i < SIM_TOTAL; i++)
            grad[i] = n[i] - 131;
    else
        for (int i = 0; i < SIM_TOTAL; i++)
            grad[i] = 0.3f * param[i] + n[i] / 263.0f - 0.5f;
}

const float *sim__pulled(const sim_job *job, float *out, const float *values, int64_t count)
{
    if (!job->options.rounds)
        return values;
    tr_rounded_floats(out, values, (uint64_t)count * sizeof *out);
    return out;
}

/* In every third job: before every fourth step, of one block after the other. */
bool sim__set(const sim_job *job, int step, int *block, float *param, float *momentum)
{
    const bool takes = job->policy.is_lockstep && !job->policy.backups && job->policy.period == 1 && !job->options.cluster && !job->options.is_scripted &&
                       !job->options.ends_together;        /* a step without a gradient sets nothing */

    if (!takes || job->options.seed % 3 || step % 4 != 2)
        return false;
    *block = step / 4 % job->blocks;
    for (int64_t i = 0; i < job->block[*block].size; i++) {
        const int64_t at = job->block[*block].at + i;
        if (param)
            param[at] = (float)((at * 13 + step * 7) % 257) / 257.0f - 0.5f;
        if (momentum)
            momentum[at] = (float)((at * 5 + step) % 31) / 31.0f;
    }
    return true;
}

const float *sim__seen(const sim_job *job, float *out, const float *param, int step)
{
    int block;

    if (sim__pulled(job, out, param, SIM_TOTAL) == param)
        memcpy(out, param, SIM_TOTAL * sizeof *out);
    sim__set(job, step, &block, out, NULL);
    return out;
}

bool sim__is_compressed(const sim_job *job, int64_t size)
{
    return tr_compress_takes(&job->compress, TR_FP32, (uint64_t)size * sizeof(float), SIM_CHUNK);
}

void sim__arrive(const sim_job *job, float *grad, float *residual, double weight)
{
    enum { PIECE = SIM_CHUNK / sizeof(float) };
    static union {
        uint64_t align;
        uint8_t  byte[2 * SIM_CHUNK];
    } payload;

    for (int b = 0; weight > 0 && b < job->blocks; b++)
        for (int64_t at = 0; sim__is_compressed(job, job->block[b].size) && at < job->block[b].size; at += PIECE) {
            const int64_t first = job->block[b].at + at, left = job->block[b].size - at, count = left < PIECE ? left : PIECE;
            tr_compress_encode(&job->compress, payload.byte, grad + first, residual + first, count);
            tr_compress_decode(&job->compress, grad + first, payload.byte, count);
        }
}

void sim__descend(const sim_job *job, float *to, float *momentum_to, const float *param, const float *momentum,
                    const float *grad, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        momentum_to[i] = sim__is_whole(job) ? 0 : 0.9f * momentum[i] + grad[i];
        to[i] = sim__is_whole(job) ? param[i] - grad[i] : param[i] - 0.1f * momentum_to[i];
    }
}

int64_t sim__bound(const sim_job *job)
{
    /* While a snapshot is gathered, nobody waits for the trainers that have given their part: the others may make two steps. A trainer may
     * begin one after each of its steps. A rank dies, and a snapshot is begun anew at once, perhaps by another trainer. */
    int64_t snapshots = job->snapshot_run > 1 ? job->snapshot_run : 1;

    for (int rank = 0; rank < job->size; rank++)
        snapshots += tr_sim_is_dead(job->sim, rank);
    return job->policy.lead + (job->options.snapshots ? 2 * snapshots : 0);
}

double sim__weight(const sim_job *job, int who, int step)
{
    if (step > job->trainer[who].steps - job->trainer[who].idle)
        return 0;
    return job->is_even || sim__is_whole(job) ? 8.0 : (double)((who * 5 + (step + steps_before(job, who)) * 3) % 7);        /* 0 among them */
}
