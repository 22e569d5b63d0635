/* job_send.c - sends gradients. */
#include "pserver/api/job_send.h"

#include "framework/base/memory.h"
#include "pserver/api/job_calls.h"
#include "pserver/api/job_compress.h"
#include "pserver/api/job_pull.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/wire/bundle.h"

#include <string.h>

/* Does a pull follow the step's end? The last push, the end of a step and such a pull leave one right after the other. So servers on
 * this processor are woken once for all three. The last step tells whether a pull follows. If it follows no more, such a server hears of
 * the step when its nap ends. */
bool tr__job_pulls_after_steps(const tr_job *job)
{
    return job->blocks.pulled_at == job->step;
}

tr_status tr__job_stage(char **out, tr_job *job, int block, const char *data)
{
    tr__job_block *b = &job->blocks.item[block];

    TR_TRY(tr__job_settle(job));
    if (!b->stage)
        b->stage = tr__array_alloc((size_t)b->bytes);
    if (!b->stage)
        return tr_fail(TR_ENOMEM, "send: no memory for a copy of '%s', %lld bytes", b->grad, (long long)b->bytes);
    memcpy(b->stage, data, (size_t)b->bytes);
    *out = b->stage;
    return TR_OK;
}

tr_status tr__job_send_block(tr_job *job, int block, const void *data, double weight, bool is_last, tr_ticket *ticket)
{
    tr__job_block *b = &job->blocks.item[block];
    const bool     is_small = tr_wire_is_small((uint64_t)b->bytes, (uint64_t)job->rank.options.chunk_bytes);
    tr__command    command = {.head = {TR__PUSH, .is_urgent = !is_small, .has_more = is_last && tr__job_pulls_after_steps(job)},
                              .push = {(uint32_t)block, data, weight}};

    if (b->coder) {
        const tr_client_pieces *pieces;
        TR_TRY(tr__job_compress(&pieces, job, b, data, weight));
        command.head.kind = TR__PUSH_COMPRESSED;
        command.push_compressed = (tr__push_compressed){(uint32_t)block, pieces, weight};
    }
    TR_TRY(tr__job_call(job, &command, ticket));
    atomic_store_explicit(&b->from, b->coder ? NULL : data, memory_order_release);
    return TR_OK;
}

/* Gradients of small tables gather until they fill a bundle for each server, or the step ends. */
tr_status tr__job_send_rows(tr_job *job, int table)
{
    tr__rows_transfer *transfer = job->tables.item[table].push;
    const uint64_t     servers = (uint64_t)tr_job_servers(job), bytes = transfer->call.first[servers] * transfer->call.push_bytes;

    job->tables.unsent += bytes;
    const bool is_urgent = bytes > servers * TR_BUNDLED_MOST || job->tables.unsent > servers * (TR_LIMIT_BUNDLE - TR_BUNDLED_MOST);
    if (is_urgent)
        job->tables.unsent = 0;
    return tr__job_call(job, &(tr__command){.head = {TR__PUSH_ROWS, .is_urgent = is_urgent}, .push_rows = &transfer->call},
                        &transfer->ticket);
}
