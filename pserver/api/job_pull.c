/* job_pull.c - a trainer's parameters: asked for at the end of a step, waited for when they are needed.
 *
 * Memory that a pull will fill has pending values for all code that reads it (framework/tensors/pending_value.h). The job's owner waits by
 * driving the event loop. Other threads of the process wait until the pull is done.
 *
 * What must stay true: nothing is pushed while a pull is under way (client.h), so a push finishes the pulls first. */
#include "pserver/api/job_pull.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* May these blocks be pulled now? A refusal changes nothing. */
static tr_status check_pull(tr_job *job, int count, const int *blocks)
{
    const uint64_t list = ++job->blocks.lists;

    if (count < 0)
        return tr_fail(TR_ERANGE, "tr_job_pull: %d blocks", count);
    for (int i = 0; i < count; i++) {
        if (blocks[i] < job->blocks.count || blocks[i] >= job->blocks.count + job->blocks.value_count)
            TR_TRY(tr__job_check_block(job, blocks[i], "tr_job_pull"));
        tr__job_block *b = &job->blocks.item[blocks[i]];
        if (b->list == list || !tr_job_is_done(job, b->pull))
            return tr_fail(TR_EINVAL, "tr_job_pull: '%s' is being pulled already", b->param ? b->param : "a value");
        b->list = list;
    }
    return TR_OK;
}

tr_status tr__job_pull_entries(tr_job *job, int count, const int *blocks, void *const *data, tr_ticket *ticket)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_pull"));
    TR_TRY(check_pull(job, count, blocks));
    tr__pull_call *call = tr__must_bytes(sizeof *call + (size_t)count * (sizeof *call->to + sizeof *call->block));
    call->count = (uint32_t)count;
    call->to = (void **)(call + 1);
    call->block = (int *)(call->to + count);
    memcpy(call->to, data, (size_t)count * sizeof *data);
    memcpy(call->block, blocks, (size_t)count * sizeof *blocks);
    for (int i = 0; i < count; i++) {              /* from here on reads of this memory wait */
        atomic_store(&job->blocks.item[blocks[i]].pull, job->last_ticket + 1);
        atomic_store(&job->blocks.item[blocks[i]].to, data[i]);
    }
    const tr_status status = tr__job_call(job, &(tr__command){.head = {TR__PULL}, .pull = call}, ticket);
    if (status != TR_OK) {                         /* the job has failed */
        free(call);
        return status;
    }
    atomic_store(&job->rank.owner, pthread_self());
    atomic_store(&job->rank.last_pull, job->last_ticket);
    return TR_OK;
}

tr_status tr_job_pull(tr_job *job, int count, const int *blocks, void *const *data, tr_ticket *ticket)
{
    for (int i = 0; i < count; i++)
        TR_TRY(tr__job_check_block(job, blocks[i], "tr_job_pull"));
    TR_TRY(tr__job_pull_entries(job, count, blocks, data, ticket));
    job->blocks.pulled_at = job->step;
    atomic_fetch_add(&job->blocks.version, 1);
    return TR_OK;
}

tr_status tr_job_pull_first(tr_job *job, int count, void *const *data, tr_ticket *ticket)
{
    const int end = job->blocks.count + job->blocks.value_count;
    int       found = 0, wanted = 0;

    for (int b = job->blocks.count; b < end; b++)
        found += job->blocks.item[b].for_trainers;
    if (count != found)
        return tr_fail(TR_EINVAL, "tr_job_pull_first: %d values; the job has %d for trainers", count, found);
    int   *blocks = tr__must_alloc((size_t)count * sizeof *blocks + 1);
    void **to = tr__must_alloc((size_t)count * sizeof *to + 1);
    for (int b = job->blocks.count, i = 0; b < end; b++) {
        if (!job->blocks.item[b].for_trainers)
            continue;
        if (data[i]) {
            blocks[wanted] = b;
            to[wanted++] = data[i];
        }
        i++;
    }
    const tr_status status = tr__job_pull_entries(job, wanted, blocks, to, ticket);
    free(blocks);
    free(to);
    return status;
}

tr_status tr__job_pull_again(tr_job *job)
{
    int   *blocks = tr__must_alloc((size_t)job->blocks.count * sizeof *blocks + 1), count = 0;
    void **to = tr__must_alloc((size_t)job->blocks.count * sizeof *to + 1);

    for (int i = 0; i < job->blocks.count; i++)
        if (atomic_load(&job->blocks.item[i].to)) {
            blocks[count] = i;
            to[count++] = atomic_load(&job->blocks.item[i].to);
        }
    const tr_status status = tr_job_pull(job, count, blocks, to, NULL);
    free(blocks);
    free(to);
    return status;
}

tr_status tr_job_flush(tr_job *job)
{
    TR_TRY(tr__job_check_ready(job, "tr_job_flush"));
    return tr__rank_post(&job->rank, &(tr__command){.head = {TR__FLUSH, .is_urgent = true}});
}

tr_status tr_job_finish_pulls(tr_job *job)
{
    return tr_job_is_done(job, job->rank.last_pull) ? TR_OK : tr_job_wait(job, job->rank.last_pull);
}

tr_status tr__job_settle(tr_job *job)
{
    if (!tr_job_is_done(job, job->rank.last_end))       /* a server may apply a piece of the next step before another server has this
                                                         * step */
        TR_TRY(tr_job_wait(job, job->rank.last_end));
    return tr_job_finish_pulls(job);
}

tr_status tr__job_await_block(tr_job *job, int block)
{
    const tr_ticket ticket = job->blocks.item[block].pull;
    return tr_job_is_done(job, ticket) ? TR_OK : tr_job_wait(job, ticket);
}

/* == other code that reads the memory ============================================================== */

static bool meet(const char *a, int64_t a_bytes, const char *b, int64_t b_bytes)
{
    return b && a < b + b_bytes && b < a + a_bytes;
}

/* The last ticket that fills this memory or sends from it. A gradient may be sent again until its step is settled. */
static tr_ticket last_ticket_of(const tr_job *job, const char *data, int64_t bytes)
{
    tr_ticket last = 0;

    for (int i = 0; i < job->blocks.count; i++) {
        tr__job_block  *b = &job->blocks.item[i];
        const tr_ticket pull = meet(data, bytes, atomic_load(&b->to), b->bytes) ? atomic_load(&b->pull) : 0;
        const tr_ticket end = meet(data, bytes, atomic_load(&b->from), b->bytes) ? atomic_load(&job->rank.last_end) : 0;
        last = pull > last ? pull : last;
        last = end > last ? end : last;
    }
    return last;
}

/* A child made by fork may look at what the job holds, but must not send or wait. */
static tr_status wait_pending(void *payload, const void *data, int64_t bytes)
{
    tr_job         *job = payload;
    const tr_ticket all = atomic_load(&job->rank.last_pull);

    if (tr_job_is_done(job, all))
        return TR_OK;
    const tr_ticket ticket = data ? last_ticket_of(job, data, bytes) : all;
    if (tr_job_is_done(job, ticket))
        return TR_OK;
    if (!tr__weak_object(job->rank.job))
        return tr_fail(TR_EINVAL,
                       "this variable was getting its value from the servers when process %d was forked; a child is no rank, and "
                       "the value does not arrive here. Read the variable in the trainer before it forks",
                       (int)getpid());
    if (pthread_equal(atomic_load(&job->rank.owner), pthread_self()))
        return tr_job_wait(job, ticket);
    return tr_comm_stand_by(job->rank.comm, ticket, tr__seconds(job->rank.options.wait_timeout));
}

void tr__job_pulls_begin(tr_job *job)
{
    job->pending = (tr_pending){wait_pending, job};
    if (job->rank.role == TR_ROLE_TRAINER)
        tr__pending_set(&job->pending);
}

void tr__job_pulls_end(tr_job *job)
{
    if (job->rank.role == TR_ROLE_TRAINER)
        tr__pending_set(NULL);
}
