/* job_train.c - a trainer's calls: checked here, carried out by the communication thread (rank_core.c). */
#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_checkpoint.h"
#include "pserver/api/job_compress.h"
#include "pserver/api/job_finite.h"
#include "pserver/api/job_own_part.h"
#include "pserver/api/job_place.h"
#include "pserver/api/job_pull.h"
#include "pserver/api/job_rows.h"
#include "pserver/api/job_send.h"
#include "pserver/api/job_sets.h"
#include "pserver/api/job_setup.h"
#include "pserver/api/job_tables.h"
#include "pserver/api/job_view.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_options.h"
#include "pserver/trireme_board.h"
#include "pserver/util/wake.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == the setup of the servers ==================================================================== */

static tr_status keep_blocks(tr_job *job, const tr_job_spec *spec)
{
    TR_TRY(tr_compress_parse(&job->compress, tr__job_compress_text(spec)));
    job->blocks.count = spec->block_count;
    job->blocks.item = tr__must_array((size_t)spec->block_count + (size_t)spec->value_count + 1, sizeof *job->blocks.item);
    for (int i = 0; i < spec->block_count; i++) {
        const tr_job_block *from = &spec->blocks[i];
        job->blocks.item[i] = (tr__job_block){.param = tr__must_strdup(from->param), .grad = tr__must_strdup(from->grad),
                                              .server = from->server, .dtype = from->dtype, .bytes = from->bytes,
                                              .is_number = from->is_exact, .may_be_nan = from->may_be_nan};
        TR_TRY(tr__job_coder_new(&job->blocks.item[i].coder, job, from));
    }
    job->blocks.value_count = spec->value_count;
    for (int i = 0; i < spec->value_count; i++)
        job->blocks.item[spec->block_count + i].for_trainers = spec->values[i].for_trainers;
    for (int i = spec->block_count - 1; i >= 0; i--)           /* backwards: of two blocks with one name the first is found */
        if (tr_map_put(&job->blocks.of, job->blocks.item[i].param, (void *)(intptr_t)(i + 1)) != 0 ||
            tr_map_put(&job->blocks.of, job->blocks.item[i].grad, (void *)(intptr_t)(i + 1)) != 0)
            return tr_fail(TR_ENOMEM, "no memory for the names of %d blocks", spec->block_count);
    return TR_OK;
}

/* Tell the user where a restarted job goes on. */
static void tell_beginning(const tr_job *job)
{
    uint64_t      resumed;
    const bool    resumes = tr_client_resumes(tr__rank_client(&job->rank), &resumed);
    const int64_t step = job->began.step + job->step * job->policy.period;
    char          text[160];

    if (resumes)
        snprintf(text, sizeof text, "continues after step %lld of trainer 0, from the memory of its servers", (long long)step);
    else if (job->began.step)
        snprintf(text, sizeof text, "continues after step %lld of trainer 0, from a checkpoint", (long long)step);
    else
        snprintf(text, sizeof text, "starts from the beginning");
    tr_notice_tell(TR_NOTICE_BEGINS, text);
}

/* The servers have the tables, and read their first rows. Then this trainer joins. */
static tr_status load_first_rows(tr_job *job, const tr_job_spec *spec, const tr__setup_call *call)
{
    tr_ticket ticket;

    for (int i = 0; i < spec->table_count; i++) {
        const tr_table_config config = tr_table_config_of(&spec->tables[i]);
        if (spec->tables[i].first_files)
            TR_TRY(tr__job_load_files(job, i, &config, spec->tables[i].first_files, false));
    }
    TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__JOIN, .is_urgent = true}, .join = call}, &ticket));
    return tr_job_wait(job, ticket);
}

tr_status tr_job_setup(tr_job *job, const tr_job_spec *spec)
{
    tr__setup_call call = {0};
    tr_ticket      ticket = 0;
    bool           resumes;
    tr_status      status;

    TR_TRY(tr__job_check_trainer(job, "tr_job_setup"));
    if (job->stage >= TR__JOB_SET_UP)
        return tr_fail(TR_EEXIST, "tr_job_setup: the servers have their work already");
    TR_TRY(tr__job_check_spec(&job->policy, job, spec));
    TR_TRY(tr_compress_parse_parameters(&job->rounds, tr__job_compress_parameters_text(spec)));
    TR_TRY(tr__job_choose_on_nan(job, spec));
    TR_TRY(tr_job_wait(job, 1));                   /* ticket 1: the setup depends on whether the servers have state */
    TR_TRY(tr__job_make_setup(&call, job, spec));
    status = tr__job_call(job, &(tr__command){.head = {TR__SETUP, .is_urgent = true}, .setup = &call}, &ticket);
    if (status != TR_OK) {
        tr__job_free_setup(&call, false);
        return status;
    }
    status = tr_job_wait(job, ticket);
    if (status == TR_OK && call.files)
        status = load_first_rows(job, spec, &call);
    if (status != TR_OK)
        return status;                             /* the thread may still read the memory of the setup */
    tr__job_free_setup(&call, true);
    TR_TRY(keep_blocks(job, spec));
    TR_TRY(tr_job_resumed(job, &resumes, &job->step));
    TR_TRY(tr__job_keep_tables(job, spec));
    TR_TRY(tr__job_sets_keep(job, spec));
    job->began.even_from = (int64_t)tr_client_even_from(tr__rank_client(&job->rank));
    job->mode = tr__must_strdup(spec->mode);
    job->began.step = spec->first_step;
    job->began.run = spec->first_run;
    tr__place_begin(job->place, &(tr_trainer_state){.steps = spec->first_step, .runs = spec->first_run,
                                                           .position = job->step == 0 ? spec->first_position : NULL,
                                                           .position_size = spec->first_position_size}, job->policy.period);
    job->checkpoints = spec->checkpoints ? tr__must_strdup(spec->checkpoints) : NULL;
    TR_TRY(tr__own_part_set_up(job->own_part, spec));
    job->began.at = job->step;
    job->stage = TR__JOB_SET_UP;
    if (tr_job_index(job) == 0 && !tr_job_is_replacement(job))
        tell_beginning(job);
    tr_trainer_meter_start(job->rank.meter, tr__clock(), job->step);
    tr_runlog_note("began",
                   ",\"mode\":\"%s\",\"step\":%lld,\"blocks\":%d,\"tables\":%d,\"compress\":\"%s\","
                   "\"compress_parameters\":\"%s\",\"compressible_bytes\":%lld",
                   spec->mode, (long long)job->step, job->blocks.count, job->tables.count, tr__job_compress_text(spec),
                   tr__job_compress_parameters_text(spec), (long long)tr__job_compressible_bytes(job, spec));
    return TR_OK;
}

tr_status tr_job_resumed(tr_job *job, bool *resumes, int64_t *step)
{
    uint64_t resumed;

    TR_TRY(tr__job_check_trainer(job, "tr_job_resumed"));
    TR_TRY(tr_job_wait(job, 1));
    *resumes = tr_client_resumes(tr__rank_client(&job->rank), &resumed);
    *step = *resumes ? (int64_t)resumed : 0;
    return TR_OK;
}

bool tr_job_is_uneven(const tr_job *job)
{
    return job->step < job->began.even_from || atomic_load(&job->rank.awaits_replacement);
}

int tr_job_find_block(const tr_job *job, const char *name)
{
    return (int)(intptr_t)tr_map_find(&job->blocks.of, name) - 1;
}

int tr_job_block_count(const tr_job *job)
{
    return job->blocks.count;
}

int64_t tr_job_block_bytes(const tr_job *job, int block)
{
    return block >= 0 && block < job->blocks.count ? job->blocks.item[block].bytes : 0;
}

/* == steps ======================================================================================= */

tr_status tr_job_set_weight(tr_job *job, double weight)
{
    if (!isfinite(weight) || weight < 0)
        return tr_fail(TR_ERANGE, "tr_job_set_weight: %g", weight);
    job->weight = weight;
    return TR_OK;
}

double tr_job_weight(const tr_job *job)
{
    return job->weight;
}

void tr_job_step_begin(tr_job *job)
{
    if (job->rank.meter)
        tr_trainer_meter_begin(job->rank.meter, tr__clock());
}

void tr_job_other_run_ended(tr_job *job)
{
    if (job->rank.meter)
        tr_trainer_meter_other_run(job->rank.meter, tr__clock());
}

void tr_job_set_loss(tr_job *job, double loss)
{
    int64_t bits;

    memcpy(&bits, &loss, sizeof bits);
    if (job->rank.meter)
        tr_counter_set(&job->rank.meter->loss, bits);
}

tr_status tr_job_push(tr_job *job, int block, const void *data, int64_t bytes, double weight, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_push"));
    TR_TRY(tr__job_check_block(job, block, "tr_job_push"));
    tr__job_block *b = &job->blocks.item[block];
    if (bytes != b->bytes)
        return tr_fail(TR_ESHAPE, "tr_job_push: '%s' has %lld bytes, got %lld", b->grad, (long long)b->bytes,
                       (long long)bytes);
    if (!isfinite(weight) || weight < 0)
        return tr_fail(TR_ERANGE, "tr_job_push: '%s' with a weight of %g", b->grad, weight);
    if (b->is_pushed)
        return tr_fail(TR_EINVAL, "tr_job_push: '%s' was pushed already in step %lld", b->grad, (long long)job->step + 1);
    /* A gradient leaves while it is checked, for servers apply nothing before the end of its step. What compression leaves out would
     * keep a NaN, so a gradient that is compressed is checked first. */
    const bool is_checked_first = b->coder != NULL;
    if (is_checked_first)
        TR_TRY(tr__job_look_at_block(job, block, data, weight));
    TR_TRY(tr__job_settle(job));
    if (tr__job_holds_gradients(job)) {
        b->held = data;
        b->held_weight = weight;
        if (ticket)
            *ticket = job->last_ticket;
    } else {
        TR_TRY(tr__job_send_block(job, block, data, weight, job->blocks.pushed + 1 == job->blocks.count, ticket));
    }
    b->is_pushed = true;
    job->blocks.pushed++;
    return is_checked_first ? TR_OK : tr__job_look_at_block(job, block, data, weight);
}

tr_status tr_job_step_end(tr_job *job, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_step_end"));
    for (int i = 0; job->blocks.pushed < job->blocks.count && i < job->blocks.count; i++)
        if (!job->blocks.item[i].is_pushed)
            return tr_fail(TR_EINVAL, "tr_job_step_end: '%s' was not pushed in step %lld", job->blocks.item[i].grad,
                           (long long)job->step + 1);
    if (tr__job_first_missing_table(job))
        return tr_fail(TR_EINVAL, "tr_job_step_end: the gradient of table '%s' was not pushed in step %lld",
                       tr__job_first_missing_table(job), (long long)job->step + 1);
    bool is_idle;
    TR_TRY(tr_job_finish_pulls(job));              /* for a step without a push */
    TR_TRY(tr__job_release_gradients(job, &is_idle));
    TR_TRY(tr__job_call(job,
                        &(tr__command){.head = {is_idle ? TR__STEP_IDLE : TR__STEP_END, .is_urgent = true,
                                                .has_more = tr__job_pulls_after_steps(job)}},
                        ticket));
    tr_trainer_meter_end(job->rank.meter, tr__clock());
    job->rank.last_end = job->last_ticket;
    job->step++;
    atomic_fetch_add(&job->blocks.version, 1);
    job->blocks.pushed = 0;
    for (int i = 0; i < job->blocks.count; i++)
        job->blocks.item[i].is_pushed = false;
    return tr__job_tables_ended(job);
}

bool tr_job_step_retract(tr_job *job)
{
    if (!tr__job_holds_gradients(job))
        return job->blocks.pushed == 0 && job->tables.pushed == 0;
    job->blocks.pushed = job->tables.pushed = 0;
    job->finite.is_unfit = false;
    for (int i = 0; i < job->blocks.count; i++)
        job->blocks.item[i].is_pushed = false;
    for (int i = 0; i < job->tables.count; i++)
        job->tables.item[i].is_pushed = false;
    return true;
}

tr_status tr_job_step_idle(tr_job *job)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_step_idle"));
    if (job->blocks.pushed || job->tables.pushed)
        return tr_fail(TR_EINVAL, "tr_job_step_idle: in the middle of step %lld: end it first", (long long)job->step + 1);
    TR_TRY(tr__job_settle(job));
    TR_TRY(tr__job_sets_send(job));                /* all trainers set the same values before the same step */
    tr_trainer_vars_stay(job->own.vars, (uint64_t)job->step, (uint64_t)job->step + 1);
    TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__STEP_IDLE, .is_urgent = true}}, NULL));
    job->rank.last_end = job->last_ticket;
    job->step++;
    atomic_fetch_add(&job->blocks.version, 1);
    return tr__job_tables_ended(job);
}

tr_ticket tr_job_last_ticket(const tr_job *job)
{
    return job->last_ticket;
}

tr_status tr_job_rest(tr_job *job)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_rest"));
    return tr__rank_post(&job->rank, &(tr__command){.head = {TR__REST, .is_urgent = true}});
}

int64_t tr_job_step(const tr_job *job)
{
    return job->step;
}

static tr_status finish_steps(tr_job *job, const char *call)
{
    TR_TRY(tr_comm_status(job->rank.comm));             /* first: a job that has failed may have failed in the middle of a step */
    if (job->blocks.pushed || job->tables.pushed)
        return tr_fail(TR_EINVAL, "%s: in the middle of step %lld: end it first", call, (long long)job->step + 1);
    return tr_job_finish_pulls(job);
}

/* Tell the launcher that this trainer's script has ended, once: a trainer that stays for the last checkpoint says goodbye later. */
static void tell_left(const tr_job *job)
{
    char text[64];

    if (job->stage != TR__JOB_SET_UP)
        return;
    const bool is_common = job->policy.is_lockstep && !job->policy.snapshots_all;
    snprintf(text, sizeof text, "%lld %lld %d", (long long)(job->began.step + job->step * job->policy.period), (long long)job->step,
             is_common);
    tr__launcher_tell(TR_NOTICE_LEFT, tr_job_rank(job), text);
}

tr_status tr_job_stay(tr_job *job, double seconds, tr_job_last *last)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_stay"));
    if (job->stage < TR__JOB_DRAINING) {
        TR_TRY(finish_steps(job, "tr_job_stay"));
        tell_left(job);
        tr__checkpointer_finish(job->checkpointer);
        TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__STAY, .is_urgent = true}}, NULL));
        job->stage = TR__JOB_DRAINING;
        tr_trainer_meter_does(job->rank.meter, TR_DOES_LEFT);
    }
    TR_TRY(tr_comm_wait(NULL, job->rank.comm, job->last_ticket, tr__seconds(seconds)));
    tr__checkpointer_last(job->checkpointer, last);
    return TR_OK;
}

tr_status tr_job_goodbye(tr_job *job)
{
    tr_ticket ticket = 0;

    TR_TRY(tr__job_check_trainer(job, "tr_job_goodbye"));
    TR_TRY(finish_steps(job, "tr_job_goodbye"));
    tell_left(job);
    tr__checkpointer_finish(job->checkpointer);                  /* its failure is reported by tr_job_checkpoint_wait, if the caller asks */
    TR_TRY(tr__job_call(job, &(tr__command){.head = {TR__GOODBYE, .is_urgent = true}}, &ticket));
    job->stage = TR__JOB_LEFT;
    tr_trainer_meter_does(job->rank.meter, TR_DOES_LEFT);
    return tr_job_wait(job, ticket);
}

tr_status tr_job_stop(tr_job *job, const char *why, int exit_code)
{
    if (exit_code < 1 || exit_code > 255)
        return tr_fail(TR_ERANGE, "tr_job_stop: exit code %d", exit_code);
    tr_comm_set_exit_code(job->rank.comm, exit_code);
    job->stage = TR__JOB_STOPPED;
    return tr_job_abort(job, why);
}

tr_status tr_job_abort(tr_job *job, const char *why)
{
    char *text;

    if (job->rank.role != TR_ROLE_TRAINER)
        return tr_fail(TR_EINVAL, "tr_job_abort: it is a trainer's; this is %s", tr_job_rank_name(job, tr_job_rank(job)));
    text = tr__must_strdup(why);
    if (job->stage < TR__JOB_LEFT)
        job->stage = TR__JOB_LEFT;
    const tr_status status = tr__rank_post(&job->rank, &(tr__command){.head = {TR__ABORT}, .abort = text});
    if (status != TR_OK) {
        free(text);
        return status;
    }
    return tr_comm_wait(NULL, job->rank.comm, UINT64_MAX, tr__seconds(job->rank.options.timeout));
}
