/* server_decided.c - see server_decided.h. */
#include "pserver/core/members/server_decided.h"

#include "framework/base/memory.h"

#include <stdlib.h>
#include <string.h>

void tr__decided_new(tr_server *server)
{
    const size_t trainers = (size_t)server->trainer_count;
    tr__decided *d = &server->decided;

    d->settled = tr__must_array(trainers, sizeof *d->settled);
    d->trainer = tr__must_array(trainers, sizeof *d->trainer);
    d->member = tr__must_array(trainers, sizeof *d->member);
}

void tr__decided_free(tr_server *server)
{
    free(server->decided.settled);
    free(server->decided.trainer);
    free(server->decided.member);
}

/* == the beginning ============================================================================= */

/* The first decision about updates: no update beyond the settled steps. */
static void begin_updates(tr_server *server)
{
    tr__decided *d = &server->decided;

    d->update = server->updates;
    for (int i = 0; i < server->trainer_count; i++)
        d->settled[i] = server->trainer[i].settled;
}

/* Server 0's successor takes the decision from the commit of the dead server 0. */
static void take_up(tr_server *server, const tr_commit *commit)
{
    tr__decided *d = &server->decided;

    d->number = commit->decisions;
    d->snapshot = commit->snapshot;
    for (int i = 0; i < server->trainer_count; i++) {
        d->trainer[i] = commit->trainer[i] & (TR_TRAINER_IN | TR_TRAINER_OUT);
        if (d->trainer[i] & TR_TRAINER_OUT)
            d->trainer[i] |= commit->trainer[i] & TR_TRAINER_LOST;
    }
    if (!tr__server_decides_updates(server))
        return;
    d->update = commit->decided;
    for (int i = 0; i < server->trainer_count; i++)
        d->settled[i] += tr__server_is_pending(server) && d->trainer[i] & TR_TRAINER_IN;
}

/* Set the process of each trainer. `member`: the committed decision; NULL: take the processes from the roster. */
static tr_status begin_members(tr_server *server, const tr_member *member)
{
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        server->decided.member[i] = member ? member[i] : (tr_member){t->incarnation, t->rank};
        if ((uint32_t)server->decided.member[i].rank >= (uint32_t)server->roster->size)
            return tr_fail(TR_EFORMAT, "the state of the dead server has trainer %d as rank %d, and there are %d ranks", i,
                           server->decided.member[i].rank, server->roster->size);
    }
    return TR_OK;
}

tr_status tr__decided_begin(tr_server *server, const tr_commit *commit)
{
    if (tr__server_decides_updates(server))
        begin_updates(server);
    if (commit)
        take_up(server, commit);
    return begin_members(server, commit ? commit->member : NULL);
}

/* == DECISION ================================================================================== */

void tr__decided_send(tr_server *server, int to)
{
    const size_t                trainers = (size_t)server->trainer_count;
    tr__decided                *d = &server->decided;
    Trireme__Pserver__Decision  decision = TRIREME__PSERVER__DECISION__INIT;

    if (!d->number)
        return;
    decision.number = d->number;
    decision.has_update = tr__server_decides_updates(server);
    decision.update = d->update;
    decision.n_settled = decision.has_update ? trainers : 0;
    decision.settled = d->settled;
    decision.trainer = (ProtobufCBinaryData){trainers, d->trainer};
    decision.n_incarnation = decision.n_rank = trainers;
    decision.incarnation = tr__must_array(trainers, sizeof *decision.incarnation);
    decision.rank = tr__must_array(trainers, sizeof *decision.rank);
    for (size_t i = 0; i < trainers; i++) {
        decision.incarnation[i] = d->member[i].incarnation;
        decision.rank[i] = (uint32_t)d->member[i].rank;
    }
    decision.snapshot = d->snapshot.number;
    decision.snapshot_is_taken = d->snapshot.is_taken;
    decision.has_snapshot_update = decision.has_update && d->snapshot.is_taken;
    decision.snapshot_update = d->snapshot.update;
    const size_t size = trireme__pserver__decision__get_packed_size(&decision);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__decision__pack(&decision, payload);
    free(decision.incarnation);
    free(decision.rank);
    tr__server_send(server, server->roster->server_rank[to], (tr_wire){.kind = TR_WIRE_DECISION, .bytes = size}, payload);
}

static tr_status check_decision(const tr_server *server, const Trireme__Pserver__Decision *decision)
{
    const size_t trainers = (size_t)server->trainer_count;
    const bool   has_update = tr__server_decides_updates(server);

    if (decision->trainer.len != trainers || decision->n_incarnation != trainers || decision->n_rank != trainers ||
        decision->n_settled != (has_update ? trainers : 0) || decision->has_update != has_update)
        return tr_fail(TR_EFORMAT, "a decision of server 0 is about %zu trainers instead of %zu", decision->trainer.len, trainers);
    for (size_t i = 0; i < trainers; i++)
        if (decision->rank[i] >= (uint32_t)server->roster->size)
            return tr_fail(TR_EFORMAT, "server 0 decides that trainer %zu is rank %u, of %d ranks", i, decision->rank[i],
                           server->roster->size);
    if (has_update && decision->update > server->updates + 1)
        return tr_fail(TR_EPEER, "server 0 decides update %llu; %s has %llu", (unsigned long long)decision->update,
                       tr_roster_name(server->roster, server->roster->self), (unsigned long long)server->updates);
    return TR_OK;
}

static void take(tr_server *server, const Trireme__Pserver__Decision *decision)
{
    const size_t trainers = (size_t)server->trainer_count;
    tr__decided *d = &server->decided;

    d->number = decision->number;
    memcpy(d->trainer, decision->trainer.data, trainers);
    for (size_t i = 0; i < trainers; i++)
        d->member[i] = (tr_member){decision->incarnation[i], (int32_t)decision->rank[i]};
    d->snapshot = (tr_decided_snapshot){decision->snapshot, decision->snapshot_is_taken, decision->snapshot_update};
    tr__server_due(server, TR__RULE_SNAPSHOT);
    if (!decision->has_update)
        return;
    d->update = decision->update > d->update ? decision->update : d->update;
    memcpy(d->settled, decision->settled, trainers * sizeof *d->settled);
}

tr_status tr__decided_receive(tr_server *server, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Decision *decision = trireme__pserver__decision__unpack(NULL, bytes, payload);

    if (!decision)
        return tr_fail(TR_EFORMAT, "a decision of server 0 is damaged");
    const tr_status status = check_decision(server, decision);
    if (status == TR_OK && decision->number > server->decided.number)
        take(server, decision);
    trireme__pserver__decision__free_unpacked(decision, NULL);
    return status;
}
