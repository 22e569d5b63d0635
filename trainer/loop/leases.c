/* leases.c - see leases.h. */
#include "trainer/loop/leases.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "pserver/util/wake.h"
#include "trainer/files/pieces.h"

enum {
    MOST_HELD = 2,
    ASK_AGAIN = 20000000,             /* nanoseconds between two questions while other trainers do all tasks that are left */
    LOOK_AGAIN = 500000000,           /* the work on this trainer's tasks is lost: meanwhile other trainers may have done them */
};

struct tr_leases {
    tr_job     *job;
    tr_dataset *data;
    tr_tasks_spec spec;
    tr_piece   *piece;                /* the piece of the data that belongs to each task */
    int64_t     pieces;
    int         held;
    struct {
        int64_t  lease;
        uint32_t left;                /* batches that earlier holders of the task trained on */
    } skip[MOST_HELD];
    bool        is_asking, is_over;
    bool        is_early;             /* other trainers still work on the list before */
    tr_ticket   ticket;
    tr_task     answer;               /* the communication thread writes it while is_asking */
    int64_t     ask_at, look_at;      /* do not ask before this time */
};

/* A digest of the tasks: FNV-1a of the places, sizes and file names of the pieces. Folders are left out, because their names may differ
 * from host to host. */
static uint64_t digest(const tr_piece *piece, int64_t count)
{
    uint64_t hash = 0xcbf29ce484222325u;

    for (int64_t i = 0; i < count; i++) {
        const char *slash = strrchr(piece[i].path, '/');
        for (const char *c = slash ? slash + 1 : piece[i].path; *c; c++)
            hash = (hash ^ (uint8_t)*c) * 0x100000001b3u;
        hash = (hash ^ (uint64_t)piece[i].begin) * 0x100000001b3u;
        hash = (hash ^ (uint64_t)piece[i].end) * 0x100000001b3u;
    }
    return hash;
}

tr_status tr_leases_new(tr_leases **out, tr_job *job, tr_dataset *data, int64_t passes, double seconds)
{
    tr_leases *leases = tr__must_alloc(sizeof *leases);
    tr_status  status;

    leases->job = job;
    leases->data = data;
    TR_TRY_GOTO(fail, tr_pieces_list(&leases->piece, &leases->pieces, tr__dataset_spec(data)));
    if (leases->pieces > UINT32_MAX || passes > UINT32_MAX) {
        status = tr_fail(TR_ERANGE, "data: %lld tasks in %lld passes", (long long)leases->pieces, (long long)passes);
        goto fail;
    }
    leases->spec = (tr_tasks_spec){(uint32_t)leases->pieces, (uint32_t)passes, digest(leases->piece, leases->pieces), seconds};
    TR_TRY_GOTO(fail, tr_job_tasks_begin(job, &leases->spec));
    TR_TRY_GOTO(fail, tr__dataset_begin_leased(data));
    *out = leases;
    return TR_OK;
fail:
    tr_leases_free(leases);
    return status;
}

void tr_leases_free(tr_leases *leases)
{
    if (!leases)
        return;
    if (leases->is_asking && tr_job_wait(leases->job, leases->ticket) != TR_OK)
        return;                                    /* the job has failed, and its thread may still write the answer here */
    free(leases->piece);
    free(leases);
}

static tr_status take_answer(tr_leases *leases)
{
    leases->is_asking = false;
    leases->look_at = tr__clock() + LOOK_AGAIN;
    leases->is_early = leases->answer.answer == TR_TASK_LATER;
    if (leases->is_early || leases->answer.answer == TR_TASK_WAIT) {
        leases->ask_at = tr__clock() + ASK_AGAIN;
        return TR_OK;
    }
    leases->is_over = leases->answer.answer == TR_TASK_END;
    if (leases->is_over)
        return TR_OK;
    if (leases->answer.task >= leases->pieces)
        return tr_fail(TR_EFORMAT, "server 0 gives task %u; there are %lld", leases->answer.task, (long long)leases->pieces);
    tr_piece piece = leases->piece[leases->answer.task];
    piece.id = (int64_t)leases->answer.lease;
    tr__dataset_add(leases->data, &piece);
    for (int i = 0; i < MOST_HELD; i++)
        if (!leases->skip[i].left) {
            leases->skip[i].lease = piece.id;
            leases->skip[i].left = leases->answer.skip;
            break;
        }
    leases->held++;
    return TR_OK;
}

tr_status tr_leases_pump(bool *is_over, tr_leases *leases)
{
    if (leases->is_asking && tr_job_is_done(leases->job, leases->ticket))
        TR_TRY(take_answer(leases));
    if (!leases->is_asking && !leases->is_over && leases->held < MOST_HELD && tr__clock() >= leases->ask_at) {
        if (leases->is_early)
            TR_TRY(tr_job_tasks_again(leases->job, &leases->spec));
        TR_TRY(tr_job_task_ask(leases->job, &leases->answer, &leases->ticket));
        leases->is_asking = true;
    }
    if (!leases->is_asking && !leases->is_over && leases->held == MOST_HELD && tr__clock() >= leases->look_at) {
        TR_TRY(tr_job_task_look(leases->job, &leases->answer, &leases->ticket));
        leases->is_asking = true;
    }
    /* Wait for an answer that is on its way if this trainer has no other work; it comes soon. */
    if (leases->is_asking && !leases->held) {
        TR_TRY(tr_job_wait(leases->job, leases->ticket));
        TR_TRY(take_answer(leases));
    }
    *is_over = leases->is_over;
    return TR_OK;
}

bool tr_leases_has_task(const tr_leases *leases)
{
    return leases->held > 0;
}

bool tr_leases_was_made(tr_leases *leases, int64_t lease)
{
    for (int i = 0; i < MOST_HELD; i++)
        if (leases->skip[i].lease == lease && leases->skip[i].left) {
            leases->skip[i].left--;
            return true;
        }
    return false;
}

tr_status tr_leases_end(tr_leases *leases, int64_t lease)
{
    for (int i = 0; i < MOST_HELD; i++)
        if (leases->skip[i].lease == lease)
            leases->skip[i].left = 0;
    leases->held--;
    leases->ask_at = 0;
    return tr_job_task_end(leases->job, (uint64_t)lease, true, NULL);
}
