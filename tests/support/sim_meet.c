/* sim_meet.c - collectives in a simulated job: after its n-th step a trainer takes part in collective n. One that runs again begins with
 * the first. Or (ends_together) there is one collective, after the last step of each.
 *
 * What a trainer posts is another thing in each process, so that a result says which post it has; all trainers must get the same one, in
 * all starts of the job, but where server 0's memory was lost. */
#include "tests/support/sim_state.h"

#include "pserver/core/board/board.h"
#include "storage/util/little_endian.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void sim__meet_deinit(sim_trainer *t)
{
    free(t->post.answer);
    free((void *)(uintptr_t)t->post.packed);       /* the rank has ended before its core made the request */
}

void sim__meet_command(sim_trainer *t)
{
    tr_client_post_request(t->client, &t->post);
    t->post.packed = NULL;                         /* the client has it */
}

void sim__meetings_forget(sim_job *job)
{
    for (int i = 0; i < SIM_MEETINGS; i++)
        free(job->meeting[i].bytes);
    memset(job->meeting, 0, sizeof job->meeting);
}

static void post(sim_trainer *t)
{
    tr_post  packed = TRIREME__PSERVER__POST__INIT;
    char     data[64];
    uint64_t size;

    snprintf(data, sizeof data, "collective %d of trainer %d, rank %d in start %d", t->met + 1, t->index, t->rank, t->job->start);
    packed.number = (uint64_t)t->met + 1;
    packed.has_step = true;
    packed.step = (uint64_t)t->step;
    packed.trainer = (uint32_t)t->index;
    packed.call = (char *)"all_gather()";
    packed.has_data = true;
    packed.data = (ProtobufCBinaryData){strlen(data), (uint8_t *)data};
    uint8_t *bytes = tr_board_pack(&packed, &size);
    free(t->post.answer);
    t->post = (tr_client_post){.packed = bytes, .size = size, .until = TR_UNTIL_ALL};
    t->ticket = sim__ask(t, SIM_OP_POST, 0);
    t->is_meeting = true;
}

/* Whose notice it is. */
static bool is_author(const sim_trainer *t)
{
    return t->index == (int)(t->job->options.seed % (uint64_t)t->job->options.trainers);
}

/* Also a replacement's, which comes after that step. */
static void post_stop(sim_trainer *t)
{
    tr_post packed = TRIREME__PSERVER__POST__INIT;
    size_t  size;

    packed.name = (char *)"stop";
    packed.trainer = (uint32_t)t->index;
    packed.has_data = packed.has_stops = true;
    packed.stops = 1;
    uint8_t *bytes = tr_board_pack(&packed, &size);
    free(t->post.answer);
    t->post = (tr_client_post){.packed = bytes, .size = size, .until = TR_UNTIL_NOW};
    t->ticket = sim__ask(t, SIM_OP_POST, 0);
    t->has_stopped = true;
}

bool sim__stop(sim_trainer *t)
{
    const sim_job *job = t->job;
    const int      step = job->options.stops, lead = (int)job->policy.lead;

    if (!step)
        return false;
    if (is_author(t)) {
        if (t->has_stopped || t->step < step)
            return false;
        post_stop(t);
        return true;
    }
    /* Parameters as of this step are here, which a script asks for and does not wait for until its next one. */
    const int heard_by = step + (lead >= 0 ? lead + 2 : 1);
    const sim_trainer *author = &job->trainer[job->options.seed % (uint64_t)job->options.trainers];
    if (t->step >= heard_by && author->steps >= step && tr_client_stops(t->client) != 1)
        fail_msg("seed %llu: trainer %d has ended step %d, and has not heard that trainer %d stops all after step %d",
                 (unsigned long long)job->options.seed, t->index, t->step, author->index, step);
    return false;
}

/* The first result of a collective is that of all who ask. */
static void take(sim_trainer *t)
{
    if (t->post.is_awaited)
        return;
    sim_meeting *m = &t->job->meeting[t->met++];

    t->is_meeting = false;
    assert_false(t->post.is_forgotten);
    if (!m->bytes) {
        *m = (sim_meeting){memcpy(malloc(t->post.answer_size + 1), t->post.answer, t->post.answer_size), t->post.answer_size};
        return;
    }
    if (m->size != t->post.answer_size || memcmp(m->bytes, t->post.answer, m->size) != 0)
        fail_msg("seed %llu: trainer %d gets another result of collective %d than the others", (unsigned long long)t->job->options.seed,
                 t->index, t->met);
}

bool sim__meet(sim_trainer *t)
{
    const sim_options *options = &t->job->options;

    if (t->is_meeting)
        take(t);
    if (options->ends_together ? t->step < t->steps || t->met : !options->meets || t->met >= t->step || t->met >= SIM_MEETINGS)
        return false;
    if (!t->is_meeting)
        post(t);
    return true;
}

/* The most steps that a trainer had made before it posted. */
static int most_steps(const tr_client_post *post)
{
    tr_wire_entries each;
    uint32_t        trainer;
    const uint8_t  *data;
    uint64_t        bytes, most = 0;

    assert_int_equal(tr_wire_entries_open(&each, post->answer, post->answer_size, post->count), TR_OK);
    while (tr_wire_entries_next(&each, &trainer, &data, &bytes))
        most = tr_get_u64(data) > most ? tr_get_u64(data) : most;
    return (int)most;
}

bool sim__meet_makes_step(sim_trainer *t)
{
    const tr_policy *policy = &t->job->policy;
    const bool       is_asked = t->is_meeting && t->post.answer && t->post.is_awaited;
    const bool       keeps_step = policy->lead >= 0 || (policy->is_lockstep && !policy->gathers_per_trainer);

    if (!t->job->options.ends_together || !(is_asked || (t->met && keeps_step && t->step < most_steps(&t->post))))
        return false;
    t->is_meeting = false;                         /* it asks again behind the step */
    t->idle++;
    t->steps = ++t->step;
    sim__ask(t, SIM_OP_STEP_IDLE, 0);
    return true;
}
