/* server_pull.c - answers to PULL: parameters are sent when the policy of the job allows it. */
#include "framework/memory.h"
#include "pserver/core/server_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == when ====================================================================================== */

/* Steps that all trainers have behind them which this server waits for, or (`with_parked`) which are there. */
static uint64_t slowest(const tr_server *server, bool with_parked)
{
    uint64_t least = UINT64_MAX;

    for (int i = 0; i < server->trainer_count; i++) {
        const tr__trainer *t = &server->trainer[i];
        if ((with_parked ? !tr_membership_is_over(t->state) : tr__server_is_moving(t)) && t->settled < least)
            least = t->settled;
    }
    return least;
}

uint64_t tr__server_clock(const tr_server *server)
{
    return slowest(server, true);
}

bool tr__server_may_answer(const tr_server *server, const tr__trainer *trainer, uint64_t step, uint64_t own)
{
    if (trainer->settled < step)
        return false;
    return server->policy.lead < 0 || own <= (uint64_t)server->policy.lead ||
           own - (uint64_t)server->policy.lead <= slowest(server, false);
}

/* == who reads ================================================================================= */

/* Parameters are sent from where they lie. An update writes the buffer of the update before the last one: where the mode does not
 * see to it that nobody reads that any more, messages hold it on loan, and the update waits. */
static tr_loan *loan_of(const tr_server *server, int rank, uint64_t update)
{
    return &server->loan[2 * (uint64_t)rank + update % 2];
}

bool tr__server_is_read(tr_server *server)
{
    bool is_read = false;

    for (int i = 0; i < server->roster->size; i++) {
        tr_loan *loan = loan_of(server, i, server->updates + 1);
        loan->is_wanted = loan->readers && !loan->is_void;
        is_read |= loan->is_wanted;
    }
    return is_read;
}

void tr__server_describe_readers(const tr_server *server, char *out, size_t size)
{
    size_t used = 0;

    for (int i = 0; i < server->roster->size && used < size; i++)
        if (loan_of(server, i, server->updates + 1)->is_wanted)
            used += (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", tr_roster_name(server->roster, i));
    if (used < size)
        snprintf(out + used, size - used, " to receive the parameters of update %llu", (unsigned long long)server->updates - 1);
}

/* == what ====================================================================================== */

typedef struct reply {
    tr_server         *server;
    const tr__trainer *trainer;
    uint64_t           seq;
    uint32_t           sent;          /* messages of this answer so far */
    bool               is_before;     /* as they were before the last update */
} reply;

static uint8_t *param_of(const reply *r, uint32_t index)
{
    const tr_store *store = &r->server->store;
    return r->is_before ? store->param_before(store->self, index) : store->param(store->self, index);
}

/* `message` has the kind and the fields of the answer. */
static void put_reply(reply *r, const tr_wire *message, uint64_t bytes, void *payload, void *owned)
{
    const bool is_lent = !owned && !r->server->policy.is_lockstep;
    tr_loan   *loan = is_lent ? loan_of(r->server, r->trainer->rank, r->server->updates) : NULL;

    tr_message answer = {.peer = r->trainer->rank, .payload = payload, .owned = owned, .loan = loan, .wire = *message};

    answer.wire.epoch = r->trainer->epoch;
    answer.wire.sender = (uint32_t)r->server->roster->self;
    answer.wire.seq = r->seq;
    answer.wire.bytes = bytes;
    if (loan)
        loan->readers++;
    tr_outbox_put(&r->server->outbox, &answer);
}

static bool is_small(const tr_server *server, uint32_t index)
{
    return tr_wire_is_small(server->block[index].bytes, server->chunk_bytes);
}

static void reply_large(reply *r, uint32_t index)
{
    tr_server       *server = r->server;
    const tr__block *block = &server->block[index];
    uint8_t         *param = param_of(r, index);

    for (uint64_t offset = 0; offset < block->bytes; offset += server->chunk_bytes) {
        const uint64_t left = block->bytes - offset;
        const tr_wire  data = {.kind = TR_WIRE_DATA, .data = {.offset = offset, .block = index, .number = r->sent++}};
        put_reply(r, &data, left < server->chunk_bytes ? left : server->chunk_bytes, param + offset, NULL);
    }
}

/* As many of the small blocks from `from` on as one message takes; returns the place after them. */
static uint32_t reply_small(reply *r, const uint32_t *blocks, uint32_t count, uint32_t from)
{
    tr_server *server = r->server;
    uint64_t   size = 0, cursor;
    uint32_t   n = 0, to = from, index = 0;

    for (; to < count; to++) {
        const uint64_t bytes = server->block[blocks[to]].bytes;
        if (!is_small(server, blocks[to]))
            continue;
        if (n && size + tr_wire_entry_size(bytes) > server->chunk_bytes)
            break;
        size += tr_wire_entry_size(bytes);
        n++;
    }
    if (!n)
        return count;
    uint8_t *payload = tr__must_bytes(size);
    cursor = (uint64_t)n * TR_WIRE_ENTRY;
    for (uint32_t i = from; i < to; i++) {
        const uint64_t bytes = server->block[blocks[i]].bytes;
        if (is_small(server, blocks[i]))
            memcpy(tr_wire_entry_put(payload, index++, &cursor, blocks[i], bytes),
                   param_of(r, blocks[i]), bytes);
    }
    put_reply(r, &(tr_wire){.kind = TR_WIRE_DATA_MANY, .data_many = {.count = n, .number = r->sent++}}, size, payload, payload);
    return to;
}

static void keep_copy(tr_server *server, tr__trainer *trainer, const uint32_t *blocks, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        memcpy(trainer->copy[blocks[i]], server->store.param(server->store.self, blocks[i]), server->block[blocks[i]].bytes);
}

/* Is the step ended here that comes next? Then the one that died had made it, with what it had got, and others wait for its replacement's. */
static bool is_made(const tr__trainer *trainer, uint64_t step)
{
    return trainer->ended > step;
}

void tr__server_note_pulled(const tr_server *server, tr__trainer *trainer, uint64_t step)
{
    if (is_made(trainer, step))
        return;
    if (trainer->pulled_step != step)
        trainer->pulled = server->updates;         /* of several answers the first is the oldest */
    trainer->pulled_step = step;
}

static void answer(tr_server *server, tr__trainer *trainer, uint64_t seq, uint64_t step, const uint32_t *blocks,
                   uint32_t count)
{
    reply r = {server, trainer, seq, 0, tr__server_wants_before(server, trainer, step)};

    tr__server_note_pulled(server, trainer, step);
    if (trainer->copy && !is_made(trainer, step))
        keep_copy(server, trainer, blocks, count);
    for (uint32_t i = 0; i < count;)
        i = reply_small(&r, blocks, count, i);
    for (uint32_t i = 0; i < count; i++)
        if (!is_small(server, blocks[i]))
            reply_large(&r, blocks[i]);
}

static tr__pull *parse_pull(const tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t count = wire->bytes / 4;
    tr__pull      *pull = tr__must_bytes(sizeof *pull + count * sizeof(uint32_t));

    pull->next = NULL;
    pull->seq = wire->seq;
    pull->step = wire->pull.step;
    pull->own = wire->pull.step - wire->pull.remakes;
    pull->count = (uint32_t)count;
    for (uint64_t i = 0; i < count; i++) {
        pull->block[i] = tr_wire_get_u32(payload + 4 * i);
        if (pull->block[i] >= server->block_count) {
            free(pull);
            return NULL;
        }
    }
    return pull;
}

tr_status tr__server_on_pull(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (!tr__server_lags(trainer, wire->pull.step))
        TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended));
    tr__pull *pull = parse_pull(server, wire, payload);
    if (!pull)
        return tr_fail(TR_EFORMAT, "%s pulls a block that does not exist", tr__server_trainer_name(server, trainer));
    if (tr__server_may_answer(server, trainer, pull->step, pull->own)) {
        answer(server, trainer, pull->seq, pull->step, pull->block, pull->count);
        free(pull);
    } else {
        tr__pull **end = &trainer->pulls;
        while (*end)
            end = &(*end)->next;
        *end = pull;
        tr__server_meter_holds(server, trainer);
    }
    return TR_OK;
}

void tr__server_pull_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer->is_parked)                        /* the first one may wait behind the snapshot */
        return;
    /* Of an earlier step: the trainer has pushed since, so it has its answer. Of a later one: it waits. */
    const bool is_now = trainer->ended == wire->pull.step || tr__server_lags(trainer, wire->pull.step);
    if (!server->is_running || !is_now || !tr__server_may_answer(server, trainer, wire->pull.step, wire->pull.step - wire->pull.remakes))
        return;
    tr__pull      *pull = parse_pull(server, wire, payload);
    const uint64_t pulled = trainer->pulled;
    if (pull)
        answer(server, trainer, pull->seq, pull->step, pull->block, pull->count);
    trainer->pulled = pulled;                      /* the first answer may be there already, or some of it */
    free(pull);
}

void tr__server_answer_all(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++) {
        tr__trainer *t = &server->trainer[i];
        while (t->pulls && tr__server_may_answer(server, t, t->pulls->step, t->pulls->own)) {
            tr__pull *pull = t->pulls;
            t->pulls = pull->next;
            answer(server, t, pull->seq, pull->step, pull->block, pull->count);
            free(pull);
        }
        tr__server_meter_answered(server, t);
    }
    tr__server_answer_rows(server);
}

void tr__server_pulls_free(tr__trainer *trainer)
{
    while (trainer->pulls) {
        tr__pull *pull = trainer->pulls;
        trainer->pulls = pull->next;
        free(pull);
    }
}
