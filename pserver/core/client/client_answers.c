/* client_answers.c - a trainer receives messages of servers: acknowledgements, refusals, news of snapshots, and answers, which it hands to
 * the request that they answer. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* Is it an answer to one request, whose number it has? */
static bool is_answer(tr_wire_kind kind)
{
    return kind != TR_WIRE_ACK && kind != TR_WIRE_SERVING && kind != TR_WIRE_SNAPSHOT_DONE && kind != TR_WIRE_REFUSED &&
           kind != TR_WIRE_REPLACED;
}

/* Is the receive buffer of a payload of this kind the memory where it stays? Any other was malloc'ed. */
static bool stays(tr_wire_kind kind)
{
    return kind == TR_WIRE_DATA || kind == TR_WIRE_DATA_ROWS;
}

void *tr__client_receive_buffer(void *self, int peer, const tr_wire *wire)
{
    tr_client         *client = self;
    tr__stream        *s = tr__client_stream_of(client, peer);
    tr__request *const r = s && is_answer(wire->kind) ? tr__client_find(s, wire->seq) : NULL;

    if (!s || wire->incarnation != client->incarnation || (is_answer(wire->kind) && !r))
        return NULL;
    return r && r->ask->receive_buffer ? r->ask->receive_buffer(client, s, r, wire) : tr__must_bytes(wire->bytes);
}

static void on_ack(tr_client *client, tr__stream *s, const tr_wire *wire)
{
    tr__client_on_ack_of_snapshots(client, s, &wire->ack);
    s->awaits_replacement = wire->ack.declines;
    tr__client_on_ack_of_posts(client, &wire->ack);
    for (tr__request *r = tr__client_open(s); r && r->wire.seq <= wire->seq; r = r->next)
        if (!r->ask->is_question && r->sent_at)
            tr__client_finish(client, s, r);
}

static void on_refused(tr_client *client, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Refusal *refusal = trireme__pserver__refusal__unpack(NULL, bytes, payload);

    tr__client_fail(client, tr_fail(TR_EPEER, "%s", refusal ? refusal->text : "a server refused, and its reason is damaged"));
    if (refusal)
        trireme__pserver__refusal__free_unpacked(refusal, NULL);
}

static void on_answer(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    tr__request *const r = tr__client_find(s, wire->seq);

    if (r && r->ask->take)                             /* else it is a second answer to a repeated request */
        r->ask->take(client, s, r, wire, payload, is_direct);
}

static void on_message(tr_client *client, tr__stream *s, int peer, const tr_wire *wire, const uint8_t *payload, bool is_direct)
{
    switch (wire->kind) {
    case TR_WIRE_SERVING:
        tr__client_on_serving(client, peer, payload, wire->bytes);
        break;
    case TR_WIRE_ACK:
        on_ack(client, s, wire);
        break;
    case TR_WIRE_SNAPSHOT_DONE:
        tr__client_on_snapshot_done(client, s, wire, payload);
        break;
    case TR_WIRE_REFUSED:
    case TR_WIRE_REPLACED:
        on_refused(client, payload, wire->bytes);
        break;
    default:
        on_answer(client, s, wire, payload, is_direct);
    }
}

void tr__client_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr_client  *client = self;
    tr__stream *s = tr__client_stream_of(client, peer);

    client->now = now;
    if (s && wire->incarnation == client->incarnation) {
        on_message(client, s, peer, wire, payload, is_direct);
        tr__client_reap(client, s);
        tr__client_send_tasks(client);
    }
    if (is_direct && !stays(wire->kind))
        free(payload);
}
