/* client_pulls.c - parameters from servers (PULL, answered by DATA and DATA_MANY). Pulls of one server share a message. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"
#include "storage/util/little_endian.h"

/* == the answer =================================================================================== */

static uint32_t number_of(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_DATA ? wire->data.number : wire->data_many.number;
}

/* May this message of an answer be received directly into the memory where it stays? Small messages before it are not direct, and may wait
 * to be received. So the message need not be the next one, unless a message was lost. A message that is on its way already gets no second
 * buffer. */
static bool may_be_direct(const tr__answer *answer, uint32_t number)
{
    return (answer->has_gap ? number == answer->parts : number >= answer->parts) && (!answer->pending || number >= answer->direct);
}

/* A part of the answer to a pull of a block: where it is received, and how it is stored. */
typedef struct arrival {
    uint8_t *to;                      /* NULL: the trainer has no pull of this block */
    uint8_t *values;                  /* the part of the parameter, of `bytes` bytes */
    uint64_t bytes;
    bool     is_rounded;
} arrival;

static arrival arrival_of(tr_client *client, const tr__stream *s, uint32_t local, uint64_t offset, uint64_t bytes)
{
    const int server = (int)(s - client->stream);

    if (local >= client->local_count[server])
        return (arrival){0};
    const tr__client_block *b = &client->block[client->global[server][local]];
    const uint64_t          all = tr_rounded_bytes(b->bytes, b->is_rounded);
    if (!b->pull_to || offset > all || bytes > all - offset || (b->is_rounded && (offset | bytes) % 2))
        return (arrival){0};
    if (!b->is_rounded)
        return (arrival){b->pull_to + offset, b->pull_to + offset, bytes, false};
    uint8_t *floats = b->pull_to + 2 * offset;
    return (arrival){tr_rounded_buffer(floats, 2 * bytes), floats, 2 * bytes, true};
}

static void take_arrival(const arrival *a)
{
    if (a->is_rounded)
        tr_rounded_widen(a->values, a->bytes);
}

static void *receive_buffer(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire)
{
    const bool is_many = wire->kind == TR_WIRE_DATA_MANY;

    if ((!is_many && wire->kind != TR_WIRE_DATA) || !may_be_direct(&r->answer, number_of(wire)))
        return NULL;
    r->answer.carrier = wire->carrier;
    uint8_t *to = is_many ? tr__must_bytes(wire->bytes) : arrival_of(client, s, wire->data.block, wire->data.offset, wire->bytes).to;
    if (to) {
        r->answer.direct = number_of(wire) + 1;
        r->answer.pending++;
    }
    return to;
}

static tr_status on_many(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, uint64_t *got)
{
    tr_wire_entries entries;
    uint32_t        local;
    const uint8_t  *data;
    uint64_t        bytes;

    TR_TRY(tr_wire_entries_open(&entries, payload, wire->bytes, wire->data_many.count));
    while (tr_wire_entries_next(&entries, &local, &data, &bytes)) {
        const arrival a = arrival_of(client, s, local, 0, bytes);
        if (!a.to)
            return tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled",
                           tr_roster_name(client->roster, s->rank));
        memcpy(a.to, data, bytes);
        take_arrival(&a);
        *got += bytes;
    }
    return TR_OK;
}

static tr_status on_one(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    const arrival a = arrival_of(client, s, wire->data.block, wire->data.offset, wire->bytes);

    if (!a.to)
        return tr_fail(TR_EFORMAT, "%s answers with a block that nobody pulled", tr_roster_name(client->roster, s->rank));
    if (!is_direct)
        memcpy(a.to, payload, wire->bytes);
    take_arrival(&a);
    return TR_OK;
}

static void take(tr_client *client, tr__stream *s, tr__request *r, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    const bool  is_many = wire->kind == TR_WIRE_DATA_MANY;
    tr__answer *answer = &r->answer;
    uint64_t    got = is_many ? 0 : wire->bytes;

    if (!is_many && wire->kind != TR_WIRE_DATA)
        return;
    answer->pending -= is_direct && answer->pending;
    answer->has_gap = number_of(wire) > answer->parts || (answer->has_gap && number_of(wire) < answer->parts);
    if (answer->parts != number_of(wire))
        return;                                    /* or the message is a repetition */
    answer->parts++;
    const tr_status status = is_many ? on_many(client, s, wire, payload, &got) : on_one(client, s, wire, payload, is_direct);
    if (status != TR_OK) {
        tr__client_fail(client, status);
        return;
    }
    answer->left -= got < answer->left ? got : answer->left;
    if (answer->left == 0)
        tr__client_finish(client, s, r);
}

/* == the request ================================================================================== */

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "its parameters of step %llu from server %d", (unsigned long long)wire->pull.step, server);
}

static const tr__ask of_pull = {.is_question = true, .describe = describe, .receive_buffer = receive_buffer, .take = take};

void tr__client_flush_pulls(tr_client *client, tr__stream *s)
{
    tr__list *l = &s->pulls;
    uint8_t  *payload;

    if (!l->count)
        return;
    const uint64_t step = tr__client_step_of(client, s);
    const tr_wire  pull = {.kind = TR_WIRE_PULL, .pull = {.step = step, .remakes = (uint32_t)(step - client->step)}};
    tr__request   *r = tr__client_add_gathered(client, s, &of_pull, &pull, l, 4 * (uint64_t)l->count, &payload);
    for (uint32_t i = 0; i < l->count; i++) {
        const tr__client_block *b = &client->block[l->item[i].block];
        tr_put_u32(payload + 4 * i, b->local | (b->is_rounded ? TR_ROUNDED_BIT : 0));
    }
    r->answer.left = r->answer.size = l->wanted;
    l->count = 0;
    l->bytes = l->wanted = 0;
}

uint64_t tr_client_pull(tr_client *client, uint32_t count, const int *blocks, void *const *data)
{
    const uint64_t op = tr__client_op_begin(client);

    for (uint32_t i = 0; i < count; i++) {
        tr__client_block *b = &client->block[blocks[i]];
        b->pull_to = data[i];
        ++*tr__client_op_at(client, op);
        tr__stream *s = &client->stream[b->server];
        tr__client_gather(&s->pulls, (uint32_t)blocks[i], NULL, op, 4);
        s->pulls.wanted += tr_rounded_bytes(b->bytes, b->is_rounded);
        /* Several small pulls let the trainer use the first blocks while the others arrive. Where trainers do not wait for each other, an
         * update may happen between two answers. There all blocks of a server are pulled at once, so that they are of the same update. */
        if (s->pulls.wanted >= client->options.chunk_bytes / 2 && !client->policy.survives_trainers)
            tr__client_flush_pulls(client, s);
    }
    tr__client_op_count_down(client, op);
    return op;
}
