/* server_start.c - see server_start.h. */
#include "pserver/core/members/server_start.h"

#include "framework/base/memory.h"
#include "pserver/core/base/join_facts.h"
#include "pserver/core/members/server_copy.h"
#include "pserver/core/members/server_decisions.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_rows.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tr__start {
    uint64_t *value_filled;           /* of each first value: bytes that have arrived */
    uint32_t  values_missing;
    bool      is_filling;             /* the store reads values of a checkpoint */
    bool      has_values;             /* all first values are here */
    Trireme__Pserver__Join **join;    /* of each trainer; NULL: it has not joined */
    uint64_t *even;                   /* of each trainer: steps that every server had settled when the trainer joined */
    bool      has_gap;                /* what was left here is not of the start before this one */
};

static const uint64_t CHUNK_MIN = 4096, CHUNK_MAX = (uint64_t)1 << 24;

void tr__start_new(tr_server *server)
{
    tr__start *s = server->start = tr__must_alloc(sizeof *s);

    s->join = tr__must_array((size_t)server->trainer_count, sizeof(Trireme__Pserver__Join *));
    s->even = tr__must_array((size_t)server->trainer_count, sizeof *s->even);
}

void tr__start_free(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (server->start->join[i])
            trireme__pserver__join__free_unpacked(server->start->join[i], NULL);
    free(server->start->join);
    free(server->start->even);
    free(server->start->value_filled);
    free(server->start);
}

/* == SETUP and values ========================================================================= */

static tr_status check_setup(const tr_server *server, const Trireme__Pserver__Setup *setup)
{
    const char *name = tr_roster_name(server->roster, server->roster->self);

    if (setup->chunk_bytes < CHUNK_MIN || setup->chunk_bytes > CHUNK_MAX || setup->chunk_bytes % 64)
        return tr_fail(TR_ERANGE, "%s: chunks of %llu bytes; a multiple of 64 from %llu to %llu is possible", name,
                       (unsigned long long)setup->chunk_bytes, (unsigned long long)CHUNK_MIN,
                       (unsigned long long)CHUNK_MAX);
    for (size_t i = 0; i < setup->n_blocks; i++) {
        const Trireme__Pserver__Block *b = setup->blocks[i];
        if (b->dtype != TR_FP32 && b->dtype != TR_FP64)
            return tr_fail(TR_EDTYPE, "%s: gradient '%s' is %s; float32 and float64 can be summed", name, b->grad,
                           tr_dtype_name((tr_dtype)b->dtype));
        if (b->bytes == 0 || b->bytes % (uint64_t)tr_dtype_size((tr_dtype)b->dtype) || b->bytes > INT64_MAX / 2)
            return tr_fail(TR_ESHAPE, "%s: gradient '%s' of %llu bytes", name, b->grad, (unsigned long long)b->bytes);
    }
    return TR_OK;
}

static void lay_out_blocks(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    server->block_count = (uint32_t)setup->n_blocks;
    server->block = tr__must_array(setup->n_blocks + setup->n_values + 1, sizeof *server->block);
    for (uint32_t i = 0; i < server->block_count; i++) {
        tr__block *b = &server->block[i];
        b->dtype = (tr_dtype)setup->blocks[i]->dtype;
        b->bytes = setup->blocks[i]->bytes;
        b->is_number = setup->blocks[i]->is_number;
        b->first_chunk = server->chunk_count;
        b->chunks = (b->bytes + server->chunk_bytes - 1) / server->chunk_bytes;
        server->chunk_count += b->chunks;
    }
    server->pull_count = server->block_count;
    for (uint32_t i = 0; i < setup->n_values; i++)
        server->block[server->pull_count++] = (tr__block){.bytes = setup->values[i]->bytes, .value = i};
}

/* The setup is known: allocate the blocks, tables and values that it describes. */
static tr_status lay_out(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    TR_TRY(tr_policy_parse(&server->policy, setup->mode));
    server->chunk_bytes = setup->chunk_bytes;
    if (setup->compress)
        TR_TRY(tr_compress_parse(&server->compress, setup->compress));
    lay_out_blocks(server);
    server->start->value_filled = tr__must_array(setup->n_values + 1, sizeof *server->start->value_filled);
    TR_TRY(tr__rows_new(server));
    tr__row_pulls_new(server);
    tr__contributions_new(server);
    return tr__rounds_new(server);
}

static tr_status finish_values(tr_server *server)
{
    if (server->start->values_missing || server->start->is_filling)
        return TR_OK;
    TR_TRY(server->store.ready(server->store.self));
    TR_TRY(tr__pulls_keep_copies(server));
    server->start->has_values = true;
    return TR_OK;
}

static tr_status set_up_store(tr_server *server, const void *packed, uint64_t bytes, bool resume)
{
    const tr_store *store = &server->store;

    TR_TRY(store->setup(store->self, server->setup, &server->policy, packed, bytes, resume));
    if (server->setup->keeps && store->expect_snapshots)
        store->expect_snapshots(store->worker);
    return TR_OK;
}

/* After a restart the setup is the same, except for the checkpoint from which the job began. That part is taken from the stored Setup. */
static tr_status take_beginning(tr_server *server, const void *packed, uint64_t bytes)
{
    Trireme__Pserver__Setup *now = server->setup, *before = trireme__pserver__setup__unpack(NULL, bytes, packed);
    bool                     is_same = before && before->n_tables == now->n_tables && before->n_values == now->n_values;

    for (size_t i = 0; is_same && i < now->n_values; i++) {
        now->values[i]->has_is_restored = before->values[i]->has_is_restored;
        now->values[i]->is_restored = before->values[i]->is_restored;
    }
    for (size_t i = 0; is_same && i < now->n_tables; i++) {
        now->tables[i]->has_updates = before->tables[i]->has_updates;
        now->tables[i]->updates = before->tables[i]->updates;
    }
    if (is_same) {
        free(now->tasks.data);
        now->has_restores = before->has_restores;
        now->restores = before->restores;
        now->has_tasks = before->has_tasks;
        now->tasks = before->tasks;
        before->has_tasks = false;
        before->tasks = (ProtobufCBinaryData){0};
        uint8_t *again = tr__must_bytes(trireme__pserver__setup__get_packed_size(now) + 1);
        is_same = trireme__pserver__setup__pack(now, again) == bytes && !memcmp(again, packed, bytes);
        free(again);
    }
    if (before)
        trireme__pserver__setup__free_unpacked(before, NULL);
    if (is_same)
        return TR_OK;
    return tr_fail(TR_EPEER, "%s: the job's program, blocks, mode or compression are others than before the job was started again",
                   tr_roster_name(server->roster, server->roster->self));
}

/* Restart: continue from the state that an earlier process of this server has left. In mode sync some servers may have applied a step that
 * others have not; these servers undo it, and all repeat it. */
static tr_status resume_state(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit;
    const char *name = tr_roster_name(server->roster, server->roster->self);

    if (!server->store.last_commit(server->store.self, &commit, &packed, &bytes))
        return tr_fail(TR_EPEER, "%s: trainer 0 continues from update %llu, and this server has no state", name,
                       (unsigned long long)wire->setup.updates);
    TR_TRY(take_beginning(server, packed, bytes));
    TR_TRY(set_up_store(server, payload, wire->bytes, true));
    server->updates = commit.updates;
    server->start->has_gap = commit.start + 1 != tr_roster_start(server->roster);
    if (server->policy.is_lockstep && commit.updates == wire->setup.updates + 1) {
        server->store.go_back(server->store.self, NULL);
        server->updates--;
    } else if (server->policy.is_lockstep && commit.updates != wire->setup.updates) {
        return tr_fail(TR_EPEER, "%s: its state has %llu updates, and the job continues after %llu", name,
                       (unsigned long long)commit.updates, (unsigned long long)wire->setup.updates);
    }
    TR_TRY(tr__tasks_take_over(server, false));
    return finish_values(server);
}

tr_status tr__start_on_setup(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer->index != 0)
        return tr_fail(TR_EPEER, "%s: only trainer 0 may send the setup", tr__server_trainer_name(server, trainer));
    if (server->setup)
        return tr_fail(TR_EPEER, "trainer 0 said twice what is to be done");
    Trireme__Pserver__Setup *setup = trireme__pserver__setup__unpack(NULL, wire->bytes, payload);
    if (!setup)
        return tr_fail(TR_EFORMAT, "the setup of trainer 0 is damaged");
    server->setup = setup;
    TR_TRY(check_setup(server, setup));
    TR_TRY(lay_out(server));
    if (setup->has_restores && !server->store.fill)
        return tr_fail(TR_EPEER, "%s reads no checkpoints", tr_roster_name(server->roster, server->roster->self));
    if (wire->setup.resumes)
        return resume_state(server, wire, payload);
    TR_TRY(set_up_store(server, payload, wire->bytes, false));
    for (size_t i = 0; i < setup->n_values; i++)
        server->start->values_missing += setup->values[i]->bytes != 0 && !setup->values[i]->is_restored;
    if (setup->has_restores) {
        server->start->is_filling = true;
        server->store.fill(server->store.worker);
    }
    return finish_values(server);
}

uint8_t *tr__start_value_buffer(tr_server *server, const tr_wire *wire)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    const tr_form_value *piece = &wire->value;

    if (!setup || piece->value >= setup->n_values || piece->offset != server->start->value_filled[piece->value] ||
        wire->bytes > setup->values[piece->value]->bytes - piece->offset) {
        tr__server_fail(server, tr_fail(TR_EFORMAT, "first value %u at %llu: no such piece is missing", piece->value,
                                        (unsigned long long)piece->offset));
        return NULL;
    }
    return (uint8_t *)server->store.value(server->store.self, piece->value) + piece->offset;
}

tr_status tr__start_on_value(tr_server *server, const tr_wire *wire)
{
    uint64_t *filled = &server->start->value_filled[wire->value.value];

    *filled += wire->bytes;
    if (wire->bytes && *filled == server->setup->values[wire->value.value]->bytes) {
        server->start->values_missing--;
        return finish_values(server);
    }
    return TR_OK;
}

static bool is_in_last(const tr_server *server, const tr_commit *commit, int trainer)
{
    if (!server->policy.decides)
        return commit->settled[trainer] == commit->updates;
    return commit->decided == commit->updates && commit->trainer[trainer] & TR_TRAINER_IN;
}

/* A trainer that took part in the last update computes its next step with the parameters of that update. Where late steps are dropped, any
 * other trainer may have older ones. */
static uint64_t pulled_before(const tr_server *server, const tr_commit *commit, int trainer)
{
    const bool is_known = !server->policy.decides || is_in_last(server, commit, trainer) || commit->updates == 0;

    return commit->updates - !is_known;
}

/* The state of a trainer by the commit of a dead server. A trainer that has left may still send DRAIN again. A replacement counts as one
 * that has made no step until it reports otherwise. */
static tr_membership state_of(const tr_server *server, const Trireme__Pserver__Setup *setup, const tr__trainer *trainer, uint8_t flags)
{
    if (flags & TR_TRAINER_LOST)
        return TR_MEMBER_LOST;
    if (flags & TR_TRAINER_GONE)
        return setup->keeps && tr_roster_is_here(server->roster, trainer->rank) ? TR_MEMBER_DRAINING : TR_MEMBER_LEFT;
    return tr_roster_is_replacement(trainer->incarnation) ? TR_MEMBER_RETURNING : TR_MEMBER_ACTIVE;
}

/* Set the state and the steps of each trainer from the commit. */
static void take_trainers(tr_server *server, const tr_commit *commit)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        t->state = state_of(server, server->setup, t, commit->trainer[i]);
        t->incarnation += t->state == TR_MEMBER_LOST;
        tr__updates_set_settled(server, t, commit->settled[i], is_in_last(server, commit, i) ? commit->updates : 0);
        tr__pulls_set(server, t, pulled_before(server, commit, i), t->settled);    /* a part of the answer to its pull may have arrived */
    }
}

tr_status tr__start_take_over(tr_server *server)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit;

    if (!server->store.last_commit(server->store.self, &commit, &packed, &bytes))
        return tr_fail(TR_ENOTFOUND, "%s left no state", tr_roster_name(server->roster, server->roster->self));
    /* A state of an earlier start is no basis for failover: since then dead trainers live again, and servers that were a step ahead undo
     * it. */
    if (commit.start != tr_roster_start(server->roster))
        return tr_fail(TR_ENOTFOUND, "server %d died before all trainers had agreed on the work", server->self);
    /* The packed setup stays valid below; the arrays of the commit do not. */
    server->setup = trireme__pserver__setup__unpack(NULL, bytes, packed);
    if (!server->setup)
        return tr_fail(TR_EFORMAT, "the setup in the state that was left is damaged");
    TR_TRY(lay_out(server));
    server->updates = commit.updates;
    take_trainers(server, &commit);
    tr__rounds_begin(server);
    tr__copy_take_over(server);
    TR_TRY(tr__decisions_begin(server, &commit));
    TR_TRY(set_up_store(server, packed, bytes, true));
    TR_TRY(finish_values(server));
    TR_TRY(tr__tasks_take_over(server, true));
    tr__board_take_over(server);
    server->is_running = true;
    tr__copy_begin(server);
    return TR_OK;
}

/* == agreement ================================================================================ */

static tr_status differ(const tr_server *server, const tr__trainer *first, const tr__trainer *other, const char *text)
{
    char name[320];                                /* one of the two names may be in a shared buffer */

    snprintf(name, sizeof name, "%s", tr__server_trainer_name(server, first));
    return tr_fail(TR_EPEER, "%s (here) and %s (there) do not mean the same work:%s", name, tr__server_trainer_name(server, other),
                   text);
}

/* `both`: a fact that only `other` has is a difference, too. */
static tr_status compare(const tr_server *server, int one, int other, bool both)
{
    char text[4096];

    if (!tr_join_facts_diff(text, sizeof text, server->start->join[one], server->start->join[other], both))
        return TR_OK;
    return differ(server, &server->trainer[one], &server->trainer[other], text);
}

static tr_status compare_all(const tr_server *server)
{
    for (int i = 1; i < server->trainer_count; i++) {
        const tr_status status = compare(server, 0, i, true);
        if (status != TR_OK)
            return status;                         /* the text is complete with the differences */
    }
    return TR_OK;
}

static tr_status take_facts(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    Trireme__Pserver__Join **join = &server->start->join[trainer->index];
    Trireme__Pserver__Join  *facts = trireme__pserver__join__unpack(NULL, wire->bytes, payload);

    if (!facts)
        return tr_fail(TR_EFORMAT, "the facts of %s are damaged", tr__server_trainer_name(server, trainer));
    if (*join)
        trireme__pserver__join__free_unpacked(*join, NULL);
    *join = facts;
    return TR_OK;
}

tr_status tr__start_rejoin(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    TR_TRY(take_facts(server, trainer, wire, payload));
    for (int i = 0; i < server->trainer_count; i++)
        if (i != trainer->index && server->start->join[i])
            return compare(server, trainer->index, i, false);
    return TR_OK;
}

static tr_status run(tr_server *server)
{
    server->is_running = true;
    tr__rounds_begin(server);
    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if (server->start->has_gap)                /* steps that other servers have may have been left out since */
            tr__tasks_join_with_gap(server, t);
        else
            tr__tasks_join(server, t, server->start->even[i]);
        tr__stream_open(server, t, TR__OPEN_JOIN, 0);
        tr__stream_owe(server, t);
    }
    const tr_status status = tr__decisions_begin(server, NULL);
    tr__replication_commit(server);
    tr__copy_begin(server);
    return status;
}

/* Have all trainers joined? */
static bool is_complete(const tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        if (!server->start->join[i])
            return false;
    return true;
}

tr_status tr__start_filled(tr_server *server, tr_status status)
{
    if (status != TR_OK)
        return tr_context(status, "while %s went on from a checkpoint", tr_roster_name(server->roster, server->roster->self));
    server->start->is_filling = false;
    TR_TRY(finish_values(server));
    if (!server->start->has_values || !is_complete(server))
        return TR_OK;
    TR_TRY(compare_all(server));
    return run(server);
}

tr_status tr__start_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer->has_joined)
        return tr_fail(TR_EPEER, "%s joined twice", tr__server_trainer_name(server, trainer));
    TR_TRY(take_facts(server, trainer, wire, payload));
    trainer->has_joined = true;
    tr__stream_open(server, trainer, TR__OPEN_JOIN, wire->seq);
    tr__updates_set_settled(server, trainer, wire->join.step, 0);
    server->start->even[trainer->index] = wire->join.everywhere;
    tr__pulls_set(server, trainer, server->updates, UINT64_MAX);
    for (int i = 0; i < server->trainer_count; i++) {
        if (tr_membership_is_over(server->trainer[i].state))
            return tr_fail(TR_EPEER, "%s left before all trainers had agreed on the work",
                           tr__server_trainer_name(server, &server->trainer[i]));
        if (!server->start->join[i])
            return TR_OK;
    }
    if (server->start->is_filling)
        return TR_OK;
    if (!server->start->has_values)                /* trainer 0 sends JOIN after all values */
        return tr_fail(TR_EPEER, "%s joined before its first values were complete",
                       tr__server_trainer_name(server, &server->trainer[0]));
    TR_TRY(compare_all(server));
    return run(server);
}
