/* server_serving.c - see server_serving.h. */
#include "pserver/core/members/server_serving.h"

#include "framework/base/memory.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/updates/server_updates.h"

#include <stdlib.h>

/* The number of ended steps of each trainer; malloc'ed. */
static uint64_t *ended_of(const tr_server *server)
{
    uint64_t *ended = tr__must_array((size_t)server->trainer_count, sizeof *ended);

    for (int i = 0; i < server->trainer_count; i++)
        ended[i] = server->trainer[i].ended;
    return ended;
}

static void put_commit(Trireme__Pserver__Serving *serving, const tr_server *server, const tr_commit *commit)
{
    serving->has_updates = true;
    serving->updates = commit->updates;
    serving->n_settled = (size_t)server->trainer_count;
    serving->settled = (uint64_t *)(uintptr_t)commit->settled;
}

void tr__serving_send(tr_server *server, int rank)
{
    Trireme__Pserver__Serving serving = TRIREME__PSERVER__SERVING__INIT;
    const void               *packed;
    uint64_t                  bytes;
    tr_commit                 commit;

    serving.server = (uint32_t)server->self;
    serving.has_snapshot = server->is_running;
    serving.snapshot = tr__snapshots_number(server);
    if (server->is_running) {
        commit = tr__updates_commit_of(server, false);
        put_commit(&serving, server, &commit);
        serving.n_ended = (size_t)server->trainer_count;
        serving.ended = ended_of(server);
    } else if (server->store.last_commit(server->store.self, &commit, &packed, &bytes)) {
        put_commit(&serving, server, &commit);
    }
    const size_t size = trireme__pserver__serving__get_packed_size(&serving);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__serving__pack(&serving, payload);
    free(serving.ended);
    tr__server_send(server, rank, (tr_wire){.kind = TR_WIRE_SERVING, .incarnation = server->roster->rank[rank].incarnation, .bytes = size},
                    payload);
}

void tr__serving_send_to_all(tr_server *server)
{
    for (int i = 0; i < server->roster->size; i++)
        if (i != server->roster->self)
            tr__serving_send(server, i);
}
