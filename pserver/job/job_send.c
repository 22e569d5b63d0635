/* job_send.c - gradients leave. */
#include "pserver/job/job.h"

/* The last push, the end of a step and the pull behind it come one right after the other: servers on this processor are woken once for all.
 * Whether there will be a pull the last step says; where there is none, such a server hears of the step when its nap is over. */
bool tr__job_pulls_behind_ends(const tr_job *job)
{
    return job->pulled_behind == job->step;
}

tr_status tr__job_send_block(tr_job *job, int block, const void *data, double weight, bool is_last, tr_ticket *ticket)
{
    tr__job_block *b = &job->block[block];
    const bool     is_small = tr_wire_is_small((uint64_t)b->bytes, (uint64_t)job->options.chunk_bytes);
    tr_command     command = {.kind = TR__PUSH, .block = block, .data = (void *)(uintptr_t)data, .weight = weight, .is_urgent = !is_small,
                              .has_more = is_last && tr__job_pulls_behind_ends(job)};

    if (b->coder) {
        const tr_client_pieces *pieces;
        TR_TRY(tr__job_compress(&pieces, job, b, data, weight));
        command.kind = TR__PUSH_COMPRESSED;
        command.data = (void *)(uintptr_t)pieces;
    }
    TR_TRY(tr__job_call(job, &command, ticket));
    b->from = b->coder ? NULL : data;
    return TR_OK;
}

tr_status tr__job_send_rows(tr_job *job, int table)
{
    tr__rows_transfer *transfer = job->table[table].push;

    return tr__job_call(job, &(tr_command){.kind = TR__PUSH_ROWS, .data = &transfer->call, .is_urgent = true}, &transfer->ticket);
}
