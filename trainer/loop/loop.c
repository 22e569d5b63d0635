/* loop.c - epochs, steps, reports, checkpoints; one worker on the caller's thread, or several workers on threads of their own.
 *
 * What must stay true: with several workers `lock` guards all fields that change. A worker never holds it while it computes or waits for
 * data. */
#include "trainer/dataset/dataset.h"
#include "pserver/util/wake.h"
#include "trainer/checkpoints/checkpoint_manager.h"
#include "trainer/loop/leases.h"
#include "trainer/loop/loop_options.h"
#include "trainer/loop/loop_reports.h"
#include "trainer/loop/step.h"
#include "trainer/loop/worker.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/threads/interrupt.h"

typedef struct hand {
    tr_loop  *loop;
    tr_worker worker;
    pthread_t thread;
    bool      is_started;
} hand;

struct tr_loop {
    tr_loop_options options;          /* a copy without names; the workers have the names */
    tr_dataset     *data;
    tr_leases      *leases;           /* NULL: the loop takes the pieces of the dataset in their order */
    int             hands;
    hand           *hand;

    pthread_mutex_t lock;
    pthread_cond_t  changed;          /* wakes the caller, and workers that wait for the end of an epoch */
    int64_t         epoch, step, samples;
    int64_t         claimed;          /* steps that are made or being made */
    int64_t         epoch_began;      /* steps that were claimed when the epoch began */
    int64_t         pause_at;         /* the caller's pause: no step after this one is begun; 0: no limit */
    int64_t         look_at;          /* the same, for a look of the checkpoint manager */
    int             arrived;          /* workers that have come to the end of the epoch */
    bool            is_at_end, is_stopping, is_stopped;       /* is_stopped: a signal asked for the end */
    tr_status       status;
    char           *failure;
    tr_loop_reports reports;
};

/* == a step ==================================================================================== */

static void fail(tr_loop *loop, tr_status status)
{
    pthread_mutex_lock(&loop->lock);
    if (loop->status == TR_OK) {
        loop->status = status;
        loop->failure = tr__must_strdup(tr_error());
    }
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

static bool is_over(const tr_loop *loop)
{
    return loop->is_at_end || loop->is_stopping || loop->is_stopped || loop->status != TR_OK;
}

static bool is_reached(const tr_loop *loop, int64_t limit)
{
    return limit && loop->claimed >= limit;
}

static bool may_begin(const tr_loop *loop)
{
    return !is_reached(loop, loop->pause_at) && !is_reached(loop, loop->look_at);
}

/* Have all steps that were begun ended, and may no other begin? */
static bool is_paused(const tr_loop *loop)
{
    return !may_begin(loop) && loop->step == loop->claimed;
}

/* Claim the next step. Returns its number, from 1, or 0 if the limit is reached. Waits for the end of a pause. */
static int64_t claim(tr_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    while (!may_begin(loop) && !is_over(loop))
        pthread_cond_wait(&loop->changed, &loop->lock);
    const bool is_enough = is_over(loop) || (loop->options.steps && loop->claimed == loop->options.steps);
    const int64_t number = is_enough ? 0 : ++loop->claimed;
    loop->is_at_end |= is_enough;
    if (is_enough)
        pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
    return number;
}

static void add_report(tr_loop *loop, char *line, int64_t step)
{
    pthread_mutex_lock(&loop->lock);
    tr_loop_reports_add(&loop->reports, line, step);
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

static void count_step(tr_loop *loop, int64_t samples)
{
    pthread_mutex_lock(&loop->lock);
    loop->step++;
    loop->samples += samples;
    if (is_paused(loop))
        pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

static tr_status run_batch(tr_loop *loop, tr_worker *worker, int64_t number)
{
    const tr_loop_options *options = &loop->options;
    const bool             is_told = options->report_every && number % options->report_every == 0;
    const int64_t          samples = tr_batch_samples(worker->batch);
    const double           weight = options->has_weight ? options->weight : (double)samples;
    tr_job *const          job = options->job;
    tr_text                line = {0};
    char                  *text;
    bool                   stops;

    if (job)
        TR_TRY(tr_step_begin(&stops, NULL, job, worker->executor, weight, options->check_finite));
    TR_TRY(tr_worker_look_ahead(worker, loop->data));
    if (is_told)
        tr_text_add(&line, "step %lld:", (long long)number);
    const tr_status status = tr_worker_run(worker, is_told ? &line : NULL);
    if (status != TR_OK) {
        tr_text_deinit(&line);
        return tr_context(status, "in step %lld of the loop", (long long)number);
    }
    count_step(loop, samples);
    if (is_told) {
        TR_TRY(tr_text_take(&text, &line));
        add_report(loop, text, number);
    }
    return TR_OK;
}

static tr_status begin_epoch(tr_loop *loop)
{
    if (loop->options.is_shuffled) {
        tr_dataset_end(loop->data);
        TR_TRY(tr_dataset_shuffle(loop->data, loop->options.shuffle_seed + (uint64_t)loop->epoch));
    }
    return tr_dataset_begin(loop->data);
}

/* The last worker to arrive begins the next epoch; the others wait for it. */
static tr_status end_epoch(tr_loop *loop)
{
    tr_status status = TR_OK;

    pthread_mutex_lock(&loop->lock);
    const int64_t epoch = loop->epoch;
    if (++loop->arrived == loop->hands) {
        loop->arrived = 0;
        loop->epoch++;
        loop->is_at_end = loop->epoch >= loop->options.epochs;
        if (loop->claimed == loop->epoch_began && !tr__dataset_is_shared(loop->data))
            status = tr_fail(TR_EINVAL, "the data gave no batch: its files have no line, or fewer than a batch");
        else if (!loop->is_at_end)
            status = begin_epoch(loop);
        loop->epoch_began = loop->claimed;
        pthread_cond_broadcast(&loop->changed);
    }
    while (status == TR_OK && loop->epoch == epoch && !is_over(loop))
        pthread_cond_wait(&loop->changed, &loop->lock);
    pthread_mutex_unlock(&loop->lock);
    return status;
}

/* Run a batch of a leased task, and report the task after its last batch. */
static tr_status do_leased_step(tr_loop *loop, tr_worker *worker, double seconds)
{
    bool got, is_over;

    TR_TRY(tr_leases_pump(&is_over, loop->leases));
    loop->is_at_end = is_over;
    if (is_over)
        return TR_OK;
    const bool      has_task = tr_leases_has_task(loop->leases);
    const tr_status status = tr_worker_take(&got, worker, loop->data, has_task ? seconds : tr_job_task_pause(loop->options.job));
    if (status == TR_ETIMEOUT)
        return has_task ? tr_job_rest(loop->options.job) : tr_job_task_idle(loop->options.job);
    TR_TRY(status);
    const bool    is_step = got && tr_batch_samples(worker->batch) && !tr_leases_was_made(loop->leases, worker->batch->task);
    const int64_t number = is_step ? claim(loop) : 0;
    if (number)
        TR_TRY(run_batch(loop, worker, number));
    if (!got || !worker->batch->ends_task || loop->is_at_end)
        return TR_OK;
    TR_TRY(tr_worker_flush(worker));
    return tr_leases_end(loop->leases, worker->batch->task);
}

/* Run one batch, or end the epoch. Waits at most so long for data. */
static tr_status do_step(tr_loop *loop, tr_worker *worker, double seconds)
{
    bool got;

    if (loop->leases)
        return do_leased_step(loop, worker, seconds);

    const tr_status status = tr_worker_take(&got, worker, loop->data, seconds);
    if (status == TR_ETIMEOUT)
        return TR_OK;
    TR_TRY(status);
    if (!got)
        return end_epoch(loop);
    const int64_t number = claim(loop);
    if (number && number <= loop->options.skip) {
        count_step(loop, 0);
        return TR_OK;
    }
    return number ? run_batch(loop, worker, number) : TR_OK;
}

/* == several workers =========================================================================== */

static void *work(void *payload)
{
    hand    *self = payload;
    tr_loop *loop = self->loop;

    for (;;) {
        pthread_mutex_lock(&loop->lock);
        const bool ends = is_over(loop);
        pthread_mutex_unlock(&loop->lock);
        if (ends)
            return NULL;
        const tr_status status = do_step(loop, &self->worker, 0.1);
        if (status != TR_OK)
            fail(loop, status);
    }
}

static tr_status start_hands(tr_loop *loop)
{
    for (int i = 0; i < loop->hands; i++) {
        if (loop->hand[i].is_started)
            continue;
        if (pthread_create(&loop->hand[i].thread, NULL, work, &loop->hand[i]))
            return tr_fail(TR_ENOMEM, "thread %d of %d cannot be started", i + 1, loop->hands);
        loop->hand[i].is_started = true;
    }
    return TR_OK;
}

static void stop_hands(tr_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_stopping = true;
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
    for (int i = 0; i < loop->hands; i++) {
        if (loop->hand[i].is_started)
            pthread_join(loop->hand[i].thread, NULL);
        loop->hand[i].is_started = false;
    }
}

/* A signal does not wake a thread that waits for a condition. So such a thread looks for an interrupt after so many nanoseconds. */
static const int64_t INTERRUPT_LOOK = 100000000;

static void wait_for_change(tr_loop *loop, int64_t deadline)
{
    const int64_t         soon = tr__clock() + INTERRUPT_LOOK, at = soon < deadline ? soon : deadline;
    const struct timespec until = {at / 1000000000, at % 1000000000};

    pthread_cond_timedwait(&loop->changed, &loop->lock, &until);
}

/* Wait for a report, the end, or the deadline. */
static tr_status watch_hands(tr_loop *loop, int64_t deadline)
{
    TR_TRY(start_hands(loop));
    pthread_mutex_lock(&loop->lock);
    while (!loop->reports.first && !is_over(loop) && !is_paused(loop) && !tr__is_interrupted() && tr__clock() < deadline)
        wait_for_change(loop, deadline);
    const bool ends = is_over(loop);
    pthread_mutex_unlock(&loop->lock);
    if (ends)
        stop_hands(loop);                          /* the workers have made their last steps */
    return tr__is_interrupted() ? tr__fail_interrupted("the loop") : TR_OK;
}

/* == checkpoints =============================================================================== */

static int64_t steps_made(const tr_loop *loop)
{
    return loop->step > loop->options.skip ? loop->step - loop->options.skip : 0;
}

/* Is no step under way, and does none begin before the caller's thread lets it? */
static bool is_between_steps(const tr_loop *loop)
{
    return loop->hands == 1 || is_paused(loop) || !loop->hand[0].is_started;
}

/* Set a limit of steps. A lower number than that of the steps that are begun means all of these. */
static void hold(tr_loop *loop, int64_t *limit, int64_t step)
{
    pthread_mutex_lock(&loop->lock);
    *limit = step && step < loop->claimed ? loop->claimed : step;
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

/* A signal asked for the end. */
static void end(tr_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    loop->is_stopped = true;
    pthread_cond_broadcast(&loop->changed);
    pthread_mutex_unlock(&loop->lock);
}

/* Let the checkpoint manager do its work if this is between two steps. *next: the step after which it wants to look again; 0: any. */
static tr_status look(bool *stops, int64_t *next, tr_loop *loop)
{
    tr_checkpoint_manager *const manager = loop->options.manager;

    pthread_mutex_lock(&loop->lock);
    const int64_t step = loop->step, made = steps_made(loop);
    const bool    is_possible = is_between_steps(loop);
    pthread_mutex_unlock(&loop->lock);
    *stops = false;
    *next = step < loop->options.skip ? loop->options.skip : 0;
    if (!manager || *next)
        return TR_OK;
    tr_checkpoint_manager_count(manager, made);
    if (is_possible)
        TR_TRY(tr_checkpoint_manager_look(stops, manager));
    const int64_t left = tr_checkpoint_manager_steps_to_look(manager);
    *next = left ? step + left : 0;
    return TR_OK;
}

/* == the caller ================================================================================ */

static tr_status init_workers(tr_loop *loop, tr_program *program, tr_scope *scope, const tr_loop_options *options)
{
    if (loop->hands > 1)
        TR_TRY(tr_worker_settle_scope(program, scope));
    for (int i = 0; i < loop->hands; i++) {
        loop->hand[i].loop = loop;
        TR_TRY(tr_worker_init(&loop->hand[i].worker, i, loop->hands == 1, program, scope, loop->data, options));
    }
    return TR_OK;
}

tr_status tr_loop_new(tr_loop **out, tr_program *program, tr_scope *scope, tr_dataset *data,
                      const tr_loop_options *options)
{
    pthread_condattr_t attributes;
    tr_status          status;

    TR_TRY(tr_loop_options_check(options));
    tr_loop *loop = tr__must_alloc(sizeof *loop);
    loop->options = tr_loop_options_settled(options);
    loop->data = data;
    loop->hands = loop->options.threads;
    loop->hand = tr__must_alloc((size_t)loop->hands * sizeof *loop->hand);
    pthread_mutex_init(&loop->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&loop->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    TR_TRY_GOTO(fail, init_workers(loop, program, scope, options));
    if (options->manager)
        TR_TRY_GOTO(fail, tr_checkpoint_manager_begin_loop(options->manager, options->runs));
    if (options->has_leases)                       /* with leased tasks a step belongs to one task */
        TR_TRY_GOTO(fail, tr_worker_flush(&loop->hand[0].worker));
    if (options->has_leases)
        TR_TRY_GOTO(fail, tr_leases_new(&loop->leases, options->job, data, loop->options.epochs, options->lease));
    else
        TR_TRY_GOTO(fail, begin_epoch(loop));
    *out = loop;
    return TR_OK;
fail:
    tr_loop_free(loop);
    return status;
}

void tr_loop_free(tr_loop *loop)
{
    if (!loop)
        return;
    stop_hands(loop);
    tr_dataset_end(loop->data);
    tr_leases_free(loop->leases);
    for (int i = 0; i < loop->hands; i++)
        if (loop->hand[i].loop)
            tr_worker_deinit(&loop->hand[i].worker);
    pthread_cond_destroy(&loop->changed);
    pthread_mutex_destroy(&loop->lock);
    free(loop->hand);
    tr_loop_reports_deinit(&loop->reports);
    free(loop->failure);
    free(loop);
}

static tr_status run_alone(tr_loop *loop, int64_t deadline)
{
    while (!loop->reports.first && !loop->is_at_end && may_begin(loop)) {
        if (tr__is_interrupted())
            return tr__fail_interrupted("the loop");
        TR_TRY(do_step(loop, &loop->hand[0].worker, 0.05));
        if (tr__clock() >= deadline)
            break;
    }
    return TR_OK;
}

static tr_status take_report(tr_loop *loop, tr_loop_report *report)
{
    pthread_mutex_lock(&loop->lock);
    const tr_loop_note *const due = tr_loop_reports_take(&loop->reports);
    const tr_status           status = loop->status;
    *report = (tr_loop_report){.is_at_end = loop->is_at_end && !due, .is_due = due, .is_stopped = loop->is_stopped, .epoch = loop->epoch,
                               .is_paused = is_paused(loop) && is_reached(loop, loop->pause_at), .samples = loop->samples,
                               .step = due ? due->step : loop->step, .line = due ? due->line : ""};
    if (loop->options.manager)
        tr_checkpoint_manager_count(loop->options.manager, steps_made(loop));
    pthread_mutex_unlock(&loop->lock);
    return status == TR_OK ? TR_OK : tr_fail(status, "%s", loop->failure);
}

static bool goes_on(tr_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    const bool goes_on = loop->status == TR_OK && !loop->reports.first && !loop->is_stopped;
    pthread_mutex_unlock(&loop->lock);
    return goes_on;
}

/* Do the steps wait for a look alone, and not for the caller? */
static bool waits_for_look(tr_loop *loop)
{
    pthread_mutex_lock(&loop->lock);
    const bool waits = !loop->reports.first && !is_over(loop) && is_paused(loop) && !is_reached(loop, loop->pause_at);
    pthread_mutex_unlock(&loop->lock);
    return waits;
}

void tr_loop_pause_at(tr_loop *loop, int64_t step)
{
    hold(loop, &loop->pause_at, step);
}

void tr_loop_means(const tr_loop *loop, double *means, double *samples)
{
    *samples = 0;
    for (int i = 0; i < loop->hands; i++)
        *samples += loop->hand[i].worker.weight;
    for (int f = 0; f < loop->options.fetch_count; f++) {
        means[f] = 0;
        for (int i = 0; i < loop->hands; i++)
            means[f] += loop->hand[i].worker.sum[f];
        means[f] /= *samples;                          /* a fetch without any sample gives 0 / 0, which is NaN */
    }
}

/* Make steps until the deadline, a report, a pause or the end. */
static tr_status make_steps(tr_loop *loop, int64_t deadline)
{
    int64_t next;
    bool    stops;

    TR_TRY(look(&stops, &next, loop));
    if (stops) {
        end(loop);
        return TR_OK;
    }
    hold(loop, &loop->look_at, next);
    tr__interruptible_begin();
    const tr_status status = loop->hands == 1 ? run_alone(loop, deadline) : watch_hands(loop, deadline);
    tr__interruptible_end();
    return status;
}

tr_status tr_loop_run(tr_loop *loop, double seconds, tr_loop_report *report)
{
    const int64_t deadline = tr__clock() + (int64_t)((seconds < 1e8 ? seconds : 1e8) * 1e9);
    bool          more = goes_on(loop);

    while (more) {
        const tr_status status = make_steps(loop, deadline);
        if (status != TR_OK)
            fail(loop, status);
        more = waits_for_look(loop) && tr__clock() < deadline;
    }
    return take_report(loop, report);
}
