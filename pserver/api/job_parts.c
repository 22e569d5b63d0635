/* job_parts.c - see job_parts.h. */
#include "pserver/api/job_parts.h"

#include "framework/base/memory.h"
#include "pserver/api/job.h"

#include <stdlib.h>

void tr__parts_init(tr__parts *p, int servers, int trainers)
{
    *p = (tr__parts){.item = tr__must_alloc((size_t)(servers + 1 + trainers) * sizeof *p->item),
                     .answer = tr__must_alloc((size_t)servers * sizeof *p->answer), .servers = servers};
}

void tr__parts_deinit(tr__parts *p)
{
    for (int i = 0; i < p->count; i++)
        tr_part_free(p->item[i]);
    for (int i = 0; i < p->answers; i++)
        trireme__pserver__snapshot_done__free_unpacked(p->answer[i], NULL);
    free(p->item);
    free(p->answer);
}

void tr__parts_add(tr__parts *p, tr_part *own)
{
    if (own)
        p->item[p->count++] = own;
}

/* == the servers' answers ======================================================================== */

static tr_status hear(tr__parts *p, const tr_client *client, int server)
{
    const tr_client_answer    *a = tr_client_snapshot_answer(client, server);
    Trireme__Pserver__SnapshotDone *done = trireme__pserver__snapshot_done__unpack(NULL, a->size, a->bytes);

    if (!done)
        return tr_fail(TR_EFORMAT, "the answer of server %d about its part is damaged", server);
    p->answer[p->answers++] = done;
    return TR_OK;
}

tr_status tr__parts_hear(tr__parts *p, const tr_client *client)
{
    for (int i = 0; i < p->servers; i++)
        TR_TRY(hear(p, client, i));
    return TR_OK;
}

static tr_status take(tr__parts *p, int server)
{
    const Trireme__Pserver__SnapshotDone *done = p->answer[server];

    if (!done->has_part)
        return tr_fail(TR_EIO, "server %d: %s", server, done->error ? done->error : "it wrote no part");
    tr_part *part = tr_part_parse(done->part.data, done->part.len);
    if (!part)
        return tr_fail(TR_EFORMAT, "the description of the part of server %d is damaged", server);
    p->item[p->count++] = part;
    return TR_OK;
}

tr_status tr__parts_take(tr__parts *p)
{
    for (int i = 0; i < p->servers; i++)
        TR_TRY(take(p, i));
    return TR_OK;
}

int64_t tr__parts_bytes(const tr__parts *p)
{
    int64_t bytes = 0;

    for (int i = 0; i < p->count; i++)
        bytes += (int64_t)p->item[i]->bytes;
    return bytes;
}

double tr__parts_pause(const tr__parts *p)
{
    uint64_t longest = 0;

    for (int i = 0; i < p->answers; i++)
        longest = p->answer[i]->pause > longest ? p->answer[i]->pause : longest;
    return (double)longest / 1e9;
}

/* == the manifest ================================================================================ */

static tr_trainer_state *trainers_of(const tr_places *places)
{
    tr_trainer_state *trainers = tr__must_alloc((size_t)places->count * sizeof *trainers + 1);

    for (int i = 0; i < places->count; i++) {
        const Trireme__Pserver__Place *from = places->place[i];
        trainers[i] = (tr_trainer_state){(int)from->index, (int64_t)from->steps, (int64_t)from->runs,
                                         from->has_position ? from->position.data : NULL,
                                         from->has_position ? from->position.len : 0};
    }
    return trainers;
}

/* Only server 0 has the leased tasks. */
tr_status tr__parts_write_manifest(const tr__parts *p, const char *dir, const char *folder, tr_checkpoint_facts facts,
                                   const char *groups, uint64_t snapshot, const tr_places *places)
{
    const Trireme__Pserver__SnapshotDone *first = p->answer[0];
    tr_trainer_state                *trainers = trainers_of(places);

    facts.trainer_count = places->count;
    facts.trainers = trainers;
    facts.tasks = first->has_tasks ? first->tasks.data : NULL;
    facts.tasks_size = first->tasks.len;
    const tr_status status = tr_manifest_write(dir, folder, &facts, groups, snapshot, p->count, p->item);
    free(trainers);
    return status;
}
