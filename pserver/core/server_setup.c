/* server_setup.c - how a job begins on a server: SETUP, first values and JOIN; and the comparison of what the trainers' scripts have built. */
#include "framework/map.h"
#include "framework/memory.h"
#include "pserver/core/server_board.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINES_MAX = 12 };               /* of a diff */
static const uint64_t CHUNK_MIN = 4096, CHUNK_MAX = (uint64_t)1 << 24;

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

static tr_status lay_out(tr_server *server)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    TR_TRY(tr_policy_parse(&server->policy, setup->mode));
    server->chunk_bytes = setup->chunk_bytes;
    if (setup->compress)
        TR_TRY(tr_compress_parse(&server->compress, setup->compress));
    if (server->compress.kind != TR_COMPRESS_NONE) {
        server->decoded = aligned_alloc(64, server->chunk_bytes);
        if (!server->decoded)
            return tr_fail(TR_ENOMEM, "no memory for a piece of %llu bytes", (unsigned long long)server->chunk_bytes);
    }
    server->block_count = (uint32_t)setup->n_blocks;
    server->block = tr__must_array(setup->n_blocks + 1, sizeof *server->block);
    for (uint32_t i = 0; i < server->block_count; i++) {
        tr__block *b = &server->block[i];
        b->dtype = (tr_dtype)setup->blocks[i]->dtype;
        b->bytes = setup->blocks[i]->bytes;
        b->first_chunk = server->chunk_count;
        b->chunks = (b->bytes + server->chunk_bytes - 1) / server->chunk_bytes;
        server->chunk_count += b->chunks;
    }
    TR_TRY(tr__server_tables_new(server));
    return tr__server_rounds_new(server);
}

/* Where delay is compensated, each trainer's gradient is compared with the parameters that it was computed with. */
static tr_status keep_copies(tr_server *server)
{
    for (int i = 0; server->policy.compensation > 0 && i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        t->copy = tr__must_array(server->block_count + 1, sizeof *t->copy);
        for (uint32_t b = 0; b < server->block_count; b++) {
            const uint64_t bytes = server->block[b].bytes;
            t->copy[b] = tr__array_alloc(bytes);
            if (!t->copy[b])
                return tr_fail(TR_ENOMEM, "no memory for what trainer %d has of '%s', %llu bytes", i,
                               server->setup->blocks[b]->param, (unsigned long long)bytes);
            memcpy(t->copy[b], server->store.param(server->store.self, b), bytes);
        }
    }
    return TR_OK;
}

static tr_status finish_values(tr_server *server)
{
    if (server->values_missing)
        return TR_OK;
    TR_TRY(server->store.ready(server->store.self));
    TR_TRY(keep_copies(server));
    server->is_set_up = true;
    return TR_OK;
}

/* The work is the same as before the job was started again. Where it began, at a checkpoint perhaps, is what was said then. */
static tr_status take_beginning(tr_server *server, const void *packed, uint64_t bytes)
{
    Trireme__Pserver__Setup *now = server->setup, *before = trireme__pserver__setup__unpack(NULL, bytes, packed);
    bool                     is_same = before && before->n_tables == now->n_tables;

    for (size_t i = 0; is_same && i < now->n_tables; i++) {
        now->tables[i]->has_updates = before->tables[i]->has_updates;
        now->tables[i]->updates = before->tables[i]->updates;
    }
    if (is_same) {
        free(now->tasks.data);
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

/* Go on from what an earlier process of this server has left. In mode sync a step may have been applied by some servers
 * and not by others when the job broke off: it is made again by all. */
static tr_status take_kept(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit;
    const char *name = tr_roster_name(server->roster, server->roster->self);

    if (!server->store.kept(server->store.self, &commit, &packed, &bytes))
        return tr_fail(TR_EPEER, "%s: trainer 0 goes on from update %llu, of which nothing is here", name,
                       (unsigned long long)wire->setup.updates);
    TR_TRY(take_beginning(server, packed, bytes));
    TR_TRY(server->store.setup(server->store.self, server->setup, &server->policy, payload, wire->bytes, true));
    server->updates = commit.updates;
    if (server->policy.is_lockstep && commit.updates == wire->setup.updates + 1) {
        server->store.go_back(server->store.self, NULL);
        server->updates--;
    } else if (server->policy.is_lockstep && commit.updates != wire->setup.updates) {
        return tr_fail(TR_EPEER, "%s: its state has %llu updates, the job is to go on after %llu", name,
                       (unsigned long long)commit.updates, (unsigned long long)wire->setup.updates);
    }
    if (!server->policy.gathers_per_trainer)
        server->round[0].step = server->updates + 1;
    TR_TRY(tr__server_tasks_take_over(server, false));
    return finish_values(server);
}

tr_status tr__server_on_setup(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    if (server->setup)
        return tr_fail(TR_EPEER, "trainer 0 said twice what is to be done");
    Trireme__Pserver__Setup *setup = trireme__pserver__setup__unpack(NULL, wire->bytes, payload);
    if (!setup)
        return tr_fail(TR_EFORMAT, "the setup of trainer 0 is damaged");
    server->setup = setup;
    TR_TRY(check_setup(server, setup));
    TR_TRY(lay_out(server));
    server->value_filled = tr__must_array(setup->n_values + 1, sizeof *server->value_filled);
    if (wire->setup.resumes)
        return take_kept(server, wire, payload);
    TR_TRY(server->store.setup(server->store.self, setup, &server->policy, payload, wire->bytes, false));
    for (size_t i = 0; i < setup->n_values; i++)
        server->values_missing += setup->values[i]->bytes != 0;
    return finish_values(server);
}

uint8_t *tr__server_value_place(tr_server *server, const tr_wire *wire)
{
    const Trireme__Pserver__Setup *setup = server->setup;

    const tr_form_value *piece = &wire->value;

    if (!setup || piece->value >= setup->n_values || piece->offset != server->value_filled[piece->value] ||
        wire->bytes > setup->values[piece->value]->bytes - piece->offset) {
        tr__server_fail(server, tr_fail(TR_EFORMAT, "first value %u at %llu: no such piece is missing", piece->value,
                                        (unsigned long long)piece->offset));
        return NULL;
    }
    return (uint8_t *)server->store.value(server->store.self, piece->value) + piece->offset;
}

tr_status tr__server_on_value(tr_server *server, const tr_wire *wire)
{
    uint64_t *filled = &server->value_filled[wire->value.value];

    *filled += wire->bytes;
    if (wire->bytes && *filled == server->setup->values[wire->value.value]->bytes) {
        server->values_missing--;
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

/* Who took part in the last update computes its next step with that one's parameters. Where late steps are dropped, any other
 * may have older ones. */
static uint64_t pulled_before(const tr_server *server, const tr_commit *commit, int trainer)
{
    const bool is_known = !server->policy.decides || is_in_last(server, commit, trainer) || commit->updates == 0;

    return commit->updates - !is_known;
}

/* Of trainers that died while another process served here, or nobody, nothing more is said. */
static void note_deaths(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        if (server->roster->rank[t->rank].is_dead && !tr_membership_is_over(t->state))
            tr__server_trainer_died(server, t, "died");
    }
}

/* What a state that was left says of a trainer. One that has left may say again that it is draining; a replacement counts as one that has
 * made no step until it says otherwise. */
static tr_membership state_of(const tr_server *server, const Trireme__Pserver__Setup *setup, const tr__trainer *trainer, uint8_t flags)
{
    if (flags & TR_TRAINER_LOST)
        return TR_MEMBER_LOST;
    if (flags & TR_TRAINER_GONE)
        return setup->keeps && tr_roster_is_here(server->roster, trainer->rank) ? TR_MEMBER_DRAINING : TR_MEMBER_LEFT;
    return tr_roster_is_replacement(trainer->epoch) ? TR_MEMBER_RETURNING : TR_MEMBER_ACTIVE;
}

static tr_status take_over(tr_server *server)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit;

    if (!server->store.kept(server->store.self, &commit, &packed, &bytes))
        return tr_fail(TR_ENOTFOUND, "%s left no state", tr_roster_name(server->roster, server->roster->self));
    /* What an earlier start has left is not what the trainers of this one have agreed on: who had died then lives again, and servers that
     * were a step ahead go back. */
    if (commit.start != tr_roster_start(server->roster))
        return tr_fail(TR_ENOTFOUND, "server %d died before all trainers had agreed on the work", server->self);
    /* The setup stays where it is; the arrays of the commit do not. */
    Trireme__Pserver__Setup *setup = trireme__pserver__setup__unpack(NULL, bytes, packed);
    if (!setup)
        return tr_fail(TR_EFORMAT, "the setup in the state that was left is damaged");
    server->setup = setup;
    TR_TRY(lay_out(server));
    server->value_filled = tr__must_array(setup->n_values + 1, sizeof *server->value_filled);
    server->updates = commit.updates;
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        t->ended = t->settled = commit.settled[i];
        t->state = state_of(server, setup, t, commit.trainer[i]);
        t->epoch += t->state == TR_MEMBER_LOST;
        t->pulled = pulled_before(server, &commit, i);
        t->pulled_step = t->settled;               /* it may have some of what it asked for */
        t->applied_in = is_in_last(server, &commit, i) ? commit.updates : 0;
        if (server->policy.gathers_per_trainer)
            t->round->step = t->settled + 1;
    }
    if (!server->policy.gathers_per_trainer)
        server->round[0].step = server->updates + 1;
    tr__server_replication_take_over(server);
    tr__server_decisions_begin(server, &commit);
    TR_TRY(server->store.setup(server->store.self, setup, &server->policy, packed, bytes, true));
    TR_TRY(finish_values(server));
    TR_TRY(tr__server_tasks_take_over(server, true));
    tr__server_board_take_over(server);
    server->is_running = true;
    for (int i = 0; i < server->round_count; i++)
        tr__server_round_moves(server, &server->round[i]);       /* past those who have left */
    note_deaths(server);
    tr__server_decision_moves(server);
    tr__server_replication_begin(server);
    return server->status;
}

tr_status tr_server_take_over(tr_server *server)
{
    const tr_status status = take_over(server);
    return status == TR_OK ? TR_OK : tr__server_fail(server, status);
}

/* == serving ================================================================================= */

/* Steps of each trainer that are all here; one malloc. */
static uint64_t *ended_of(const tr_server *server)
{
    uint64_t *ended = tr__must_array((size_t)server->trainer_count, sizeof *ended);

    for (int i = 0; i < server->trainer_count; i++)
        ended[i] = server->trainer[i].ended;
    return ended;
}

void tr__server_say_serving(tr_server *server, int rank)
{
    Trireme__Pserver__Serving serving = TRIREME__PSERVER__SERVING__INIT;
    const void               *packed;
    uint64_t                  bytes;
    tr_commit                 commit;

    serving.server = (uint32_t)server->self;
    serving.has_snapshot = server->is_running;
    serving.snapshot = server->snapshot.number;
    if (server->is_running) {
        commit = tr__server_commit_of(server, false);
        serving.has_updates = true;
        serving.updates = commit.updates;
        serving.n_settled = (size_t)server->trainer_count;
        serving.settled = (uint64_t *)(uintptr_t)commit.settled;
        serving.n_ended = (size_t)server->trainer_count;
        serving.ended = ended_of(server);
    } else if (server->store.kept(server->store.self, &commit, &packed, &bytes)) {
        serving.has_updates = true;
        serving.updates = commit.updates;
        serving.n_settled = (size_t)server->trainer_count;
        serving.settled = (uint64_t *)(uintptr_t)commit.settled;
    }
    const size_t size = trireme__pserver__serving__get_packed_size(&serving);
    uint8_t     *payload = tr__must_bytes(size);
    trireme__pserver__serving__pack(&serving, payload);
    free(serving.ended);
    tr_outbox_put(&server->outbox, &(tr_message){
        .peer = rank, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_SERVING, .epoch = server->roster->rank[rank].epoch,
                 .sender = (uint32_t)server->roster->self, .bytes = size}});
}

/* == agreement ================================================================================ */

/* The facts of one trainer, looked up by key. Two trainers say them in the same order nearly always, so a fact is looked for at its place
 * in the other's list; only where it is not there, all keys go into a map. */
typedef struct fact_index {
    const Trireme__Pserver__Join *join;
    tr_map                        value;           /* by key; of the first fact of that key */
} fact_index;

static const char *value_of(fact_index *facts, size_t place, const char *key)
{
    const Trireme__Pserver__Join *join = facts->join;

    if (place < join->n_facts && !strcmp(join->facts[place]->key, key))
        return join->facts[place]->value;
    for (size_t i = facts->value.entry_count ? 0 : join->n_facts; i-- > 0;)
        if (tr_map_put(&facts->value, join->facts[i]->key, join->facts[i]->value) != 0)
            tr__out_of_memory(sizeof(void *));
    return tr_map_find(&facts->value, key);
}

/* One line of a diff, while there is room. */
static void say_difference(char *out, size_t size, const char *key, const char *a, const char *b)
{
    const size_t used = strlen(out);
    snprintf(out + used, size - used, "\n  %s: %s%s%s here, %s%s%s there", key, a ? "\"" : "", a ? a : "nothing",
             a ? "\"" : "", b ? "\"" : "", b ? b : "nothing", b ? "\"" : "");
}

/* The facts of `a` that `b` does not have, or has otherwise; returns how many differences there are now. */
static int say_differences(char *out, size_t size, const fact_index *a, fact_index *b, int differences)
{
    for (size_t i = 0; i < a->join->n_facts; i++) {
        const char *key = a->join->facts[i]->key, *mine = a->join->facts[i]->value, *theirs = value_of(b, i, key);
        if ((!theirs || strcmp(mine, theirs)) && differences++ < LINES_MAX)
            say_difference(out, size, key, mine, theirs);
    }
    return differences;
}

/* With `both`, also the facts that only `second` has. Returns the number of differences. */
static int diff(char *out, size_t size, const Trireme__Pserver__Join *first, const Trireme__Pserver__Join *second, bool both)
{
    fact_index a = {.join = first}, b = {.join = second};

    out[0] = '\0';
    int differences = say_differences(out, size, &a, &b, 0);
    for (size_t i = 0; both && i < second->n_facts; i++)
        if (!value_of(&a, i, second->facts[i]->key) && differences++ < LINES_MAX)
            say_difference(out, size, second->facts[i]->key, NULL, second->facts[i]->value);
    if (differences > LINES_MAX) {
        const size_t used = strlen(out);
        snprintf(out + used, size - used, "\n  and %d more", differences - LINES_MAX);
    }
    tr_map_deinit(&a.value);
    tr_map_deinit(&b.value);
    return differences;
}

static tr_status differ(const tr_server *server, const tr__trainer *first, const tr__trainer *other, const char *text)
{
    char name[320];                                /* one of the two names may be in a shared buffer */

    snprintf(name, sizeof name, "%s", tr__server_trainer_name(server, first));
    return tr_fail(TR_EPEER, "%s (here) and %s (there) do not mean the same work:%s", name, tr__server_trainer_name(server, other),
                   text);
}

static tr_status compare(const tr_server *server)
{
    const tr__trainer *first = &server->trainer[0];
    char               text[4096];

    for (int i = 1; i < server->trainer_count; i++)
        if (diff(text, sizeof text, first->join, server->trainer[i].join, true))
            return differ(server, first, &server->trainer[i], text);
    return TR_OK;
}

tr_status tr__server_compare_join(const tr_server *server, const tr__trainer *one, const tr__trainer *other)
{
    char text[4096];

    return diff(text, sizeof text, one->join, other->join, false) ? differ(server, one, other, text) : TR_OK;
}

tr_status tr__server_on_join(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer->join)
        return tr_fail(TR_EPEER, "%s joined twice", tr__server_trainer_name(server, trainer));
    trainer->join = trireme__pserver__join__unpack(NULL, wire->bytes, payload);
    if (!trainer->join)
        return tr_fail(TR_EFORMAT, "the facts of %s are damaged", tr__server_trainer_name(server, trainer));
    trainer->join_seq = wire->seq;
    trainer->ended = trainer->settled = wire->join.step;
    trainer->even = wire->join.everywhere;
    trainer->pulled = server->updates;
    trainer->pulled_step = UINT64_MAX;             /* nothing yet */
    for (int i = 0; i < server->trainer_count; i++) {
        if (tr_membership_is_over(server->trainer[i].state))
            return tr_fail(TR_EPEER, "%s left before all trainers had agreed on the work",
                           tr__server_trainer_name(server, &server->trainer[i]));
        if (!server->trainer[i].join)
            return TR_OK;
    }
    if (!server->is_set_up)                        /* trainer 0 joins after its values */
        return tr_fail(TR_EPEER, "%s joined before its first values were complete",
                       tr__server_trainer_name(server, &server->trainer[0]));
    const tr_status status = compare(server);
    if (status != TR_OK)
        return status;                             /* the diff stands for itself */
    server->is_running = true;
    for (int i = 0; i < server->trainer_count; i++) {
        if (server->policy.gathers_per_trainer)
            server->trainer[i].round->step = server->trainer[i].settled + 1;
        tr__server_tasks_join(server, &server->trainer[i], server->trainer[i].even);
        server->trainer[i].join_seq = 0;
        server->trainer[i].owes_ack = true;
    }
    tr__server_decisions_begin(server, NULL);
    tr__server_commit(server, false);
    tr__server_replication_begin(server);
    return TR_OK;
}
