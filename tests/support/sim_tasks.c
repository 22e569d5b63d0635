/* sim_tasks.c - leased tasks in a simulated job. A trainer works as trainer/loop/leases.c and loop.c do, and what it makes of a batch counts
 * it in a row on every server: so each server's rows say which batches are in its parameters, whatever happened to ranks and memory.
 *
 * In geo a step is of several batches, and the last one of a task ends a step. */
#include "tests/support/sim_state.h"

#include "pserver/core/tasks/tasks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { DIGEST = 90 };

static uint32_t batches_of(uint32_t task)
{
    return 1 + task % SIM_TASK_BATCHES;
}

static int batch_number(uint32_t pass, uint32_t task, uint32_t batch)
{
    return (int)((pass * SIM_TASKS + task) * SIM_TASK_BATCHES + batch);
}

/* == a trainer ================================================================================= */

static void request(sim_trainer *t, tr_wire wire, tr_task *answer, bool keeps_pace)
{
    tr_client_task_request(t->client, &(tr_client_task){.wire = wire, .answer = answer, .is_first = wire.kind == TR_WIRE_TASKS, .keeps_pace = keeps_pace});
}

void sim__tasks_command(sim_trainer *t, sim_op op, uint32_t lease)
{
    const tr_form_tasks all = {.count = (uint32_t)t->job->options.tasks, .passes = SIM_PASSES, .digest = DIGEST, .milliseconds = 300000};
    const bool          keeps_pace = t->job->policy.lead >= 0;

    if (op == SIM_OP_TASKS)
        request(t, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = all}, NULL, keeps_pace);
    else if (op == SIM_OP_TASK_ASK)
        request(t, (tr_wire){.kind = TR_WIRE_TASK_ASK}, &t->tasks.answer, keeps_pace);
    else
        request(t, (tr_wire){.kind = TR_WIRE_TASK_END, .task_end = {.lease = lease}}, NULL, false);
}

void sim__tasks_begin(sim_trainer *t)
{
    t->ticket = sim__ask(t, SIM_OP_TASKS, 0);
}

static void ask_later(sim_trainer *t)
{
    sim_tasks *tasks = &t->tasks;

    tasks->ask_after = tasks->ask_after ? 2 * tasks->ask_after : 4000;
    tasks->ask_at = tr_sim_now(t->job->sim) + tasks->ask_after;
}

static void take_answer(sim_trainer *t)
{
    sim_tasks *tasks = &t->tasks;

    tasks->is_asking = false;
    tasks->is_over |= tasks->answer.answer == TR_TASK_END;
    if (tasks->answer.answer == TR_TASK_WAIT)
        ask_later(t);
    if (tasks->answer.answer != TR_TASK_GIVEN)
        return;
    tasks->lease[tasks->held++] = tasks->answer;
    tasks->ask_after = 0;
}

/* The task is over when no batch of it is left. */
static void end_first(sim_trainer *t)
{
    sim_tasks *tasks = &t->tasks;

    sim__ask(t, SIM_OP_TASK_END, tasks->lease[0].lease);
    tasks->lease[0] = tasks->lease[1];
    tasks->held--;
    tasks->ask_at = 0;
}

bool sim__tasks_have_batch(sim_trainer *t)
{
    sim_tasks *tasks = &t->tasks;

    if (tasks->is_asking && tr_client_done(t->client) >= tasks->ticket)
        take_answer(t);
    while (tasks->held && tasks->lease[0].skip >= batches_of(tasks->lease[0].task))
        end_first(t);
    if (!tasks->is_asking && !tasks->is_over && tasks->held < 2 && tr_sim_now(t->job->sim) >= tasks->ask_at) {
        tasks->ticket = sim__ask(t, SIM_OP_TASK_ASK, 0);
        tasks->is_asking = true;
    }
    if (tasks->is_over && !tasks->held)
        t->steps = t->step;
    if (!tasks->held)
        sim__ask(t, SIM_OP_REST, 0);               /* who takes part waits for no step of this one */
    return tasks->held || t->step == t->steps;
}

bool sim__tasks_idle(sim_trainer *t)
{
    if (t->job->policy.lead < 0 || t->tasks.is_asking || t->tasks.held)
        return false;
    assert_true(++t->step < SIM_MOST_STEPS);
    sim__ask(t, SIM_OP_STEP_IDLE, 0);
    return true;
}

tr_sim_plan sim__tasks_wait(const sim_trainer *t)
{
    const int64_t left = t->tasks.ask_at - tr_sim_now(t->job->sim);

    return t->tasks.is_asking ? (tr_sim_plan){TR_SIM_WAIT, t->tasks.ticket} : (tr_sim_plan){TR_SIM_WORK, left > 0 ? (uint64_t)left : 1};
}

void sim__tasks_make_step(sim_trainer *t)
{
    tr_task  *first = &t->tasks.lease[0];
    const int most = (int)t->job->policy.period;

    assert_true(t->step < SIM_MOST_STEPS);
    t->tasks.batches = 0;
    while (t->tasks.batches < most && first->skip < batches_of(first->task))
        t->tasks.batch[t->tasks.batches++] = batch_number(first->pass, first->task, first->skip++);
}

/* == comparing ================================================================================= */

/* Batches of each pass and task that are made, by the state of a snapshot. */
static void read_position(const sim_job *job, const sim_snapshot *one, uint32_t made[SIM_PASSES][SIM_TASKS])
{
    const uint32_t tasks = (uint32_t)job->options.tasks;
    tr_tasks      *core = NULL;

    assert_int_equal(tr_tasks_load(&core, one->tasks, one->tasks_size), TR_OK);
    const uint32_t now = tr_tasks_count(core).pass;
    for (uint32_t pass = 0; pass < SIM_PASSES; pass++)
        for (uint32_t task = 0; task < tasks; task++)
            made[pass][task] = pass <= now ? batches_of(task) : 0;
    for (uint32_t left = now < SIM_PASSES ? tr_tasks_count(core).to_do : 0; left; left--) {
        const tr_task task = tr_tasks_lease(core, 0, 0);
        made[now][task.task] = task.skip < batches_of(task.task) ? task.skip : batches_of(task.task);
    }
    tr_tasks_free(core);
}

void sim__tasks_first_rows(const sim_job *job, float *rows)
{
    uint32_t made[SIM_PASSES][SIM_TASKS];

    if (!job->options.from || !job->options.from->tasks)
        return;
    read_position(job, job->options.from, made);
    for (uint32_t pass = 0; pass < SIM_PASSES; pass++)
        for (uint32_t task = 0; task < (uint32_t)job->options.tasks; task++)
            for (uint32_t batch = 0; batch < made[pass][task]; batch++)
                rows[(SIM_KEYS + batch_number(pass, task, batch)) * SIM_WIDTH] = 1;
}

int sim__losses(const sim_job *job)
{
    int count = job->losses + job->replacements;

    for (int i = 0; i < job->options.trainers; i++)
        count += sim__trainer_is_dead(job, i);
    return count;
}

/* Once; twice for each trainer that died over it. */
static void check_batch(const sim_job *job, int count, bool is_made, uint32_t pass, uint32_t task, uint32_t batch, int server,
                        const char *where)
{
    if (count < is_made || count > is_made + sim__losses(job))
        fail_msg("seed %llu: batch %u of task %u in pass %u is %d times in server %d%s, %s", (unsigned long long)job->options.seed,
                 batch, task, pass, count, server, where, is_made ? "and was made" : "and was not made");
}

void sim__check_position(const sim_job *job, const sim_snapshot *one)
{
    uint32_t made[SIM_PASSES][SIM_TASKS];

    read_position(job, one, made);
    for (int s = 0; s < job->options.servers; s++)
        for (uint32_t pass = 0; pass < SIM_PASSES; pass++)
            for (uint32_t task = 0; task < (uint32_t)job->options.tasks; task++)
                for (uint32_t batch = 0; batch < batches_of(task); batch++)
                    check_batch(job, one->count[s][batch_number(pass, task, batch)], batch < made[pass][task], pass, task, batch,
                                s, " at a snapshot");
}

/* A trainer that dies has so many steps at most of which it has not said that they count, and in geo does not know when it began. */
static int most_again(const sim_job *job)
{
    return sim__losses(job) * 3 * SIM_TASK_BATCHES;
}

void sim_job_check_tasks(const sim_job *job)
{
    for (int s = 0; s < job->options.servers; s++) {
        const sim_place *p = &job->place[s];
        int              again = 0;
        for (uint32_t pass = 0; pass < SIM_PASSES; pass++)
            for (uint32_t task = 0; task < (uint32_t)job->options.tasks; task++)
                for (uint32_t batch = 0; batch < batches_of(task); batch++) {
                    const int count = (int)p->rows[p->side][(SIM_KEYS + batch_number(pass, task, batch)) * SIM_WIDTH];
                    check_batch(job, count, true, pass, task, batch, s, "");
                    again += count - 1;
                }
        if (again > most_again(job))
            fail_msg("seed %llu: %d batches were made again in server %d, with %d deaths", (unsigned long long)job->options.seed, again, s,
                     sim__losses(job));
    }
}
