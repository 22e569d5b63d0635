/* client_snapshot.c - a trainer's part in snapshots: the initiator begins one, and the other trainers take part after their next step. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* == who makes them ============================================================================== */

static uint32_t index_of(const tr_client *client)
{
    return (uint32_t)client->roster->rank[client->roster->self].index;
}

bool tr_client_heard_from_server(tr_client *client)
{
    const bool has_news = client->snapshots.has_news;

    client->snapshots.has_news = false;
    return has_news;
}

bool tr_client_is_initiator(const tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        if (client->stream[i].initiator != index_of(client))
            return false;
    return client->stream_count > 0;
}

bool tr_client_is_over(const tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        if (client->stream[i].initiator == TR_INITIATOR_OVER)
            return true;
    return false;
}

uint64_t tr_client_updates(const tr_client *client)
{
    return client->stream[0].updates_now;
}

/* Learn a snapshot's number and step from an ACK, which has only the lower 32 bits of the step. */
static void see_snapshot(tr_client *client, uint32_t number, uint32_t step)
{
    if (number <= client->snapshots.seen)
        return;
    client->snapshots.seen = number;
    client->snapshots.seen_step = client->step + (uint64_t)(int64_t)(int32_t)(step - (uint32_t)client->step);
}

/* Where all trainers take part, a trainer that drains does so with its last step, and says nothing. The snapshots before a replacement's
 * set-up are not its own: its predecessor took part in them, or they were given up. */
bool tr_client_sees_snapshot(uint32_t *number, uint64_t *step, const tr_client *client)
{
    const uint32_t before = client->snapshots.seen > client->snapshots.before ? client->snapshots.seen : client->snapshots.before;

    if (client->policy.snapshots_all && client->is_draining && client->snapshots.known > before) {
        *number = client->snapshots.known;
        *step = client->step;
        return true;
    }
    *number = client->snapshots.seen;
    *step = client->is_draining && client->snapshots.seen_step > client->step ? client->step : client->snapshots.seen_step;
    return *number && *step <= client->step;
}

void tr__client_on_ack_of_snapshots(tr_client *client, tr__stream *s, const tr_form_ack *ack)
{
    client->snapshots.has_news = true;
    s->initiator = ack->initiator;
    s->updates_now = ack->updates;
    const uint32_t over = ack->newest_snapshot - (ack->wanted_snapshot && ack->wanted_snapshot == ack->newest_snapshot);
    s->snapshot_over = over > s->snapshot_over ? over : s->snapshot_over;
    client->snapshots.known = ack->newest_snapshot > client->snapshots.known ? ack->newest_snapshot : client->snapshots.known;
    /* Before its set-up a replacement does not know its step, nor this policy. */
    if (tr__client_is_set_up(client) && !client->policy.snapshots_all)
        see_snapshot(client, ack->newest_snapshot, ack->snapshot_step);
    if (ack->wanted_snapshot <= client->snapshots.wanted)
        return;
    client->snapshots.wanted = ack->wanted_snapshot;
    client->snapshots.initiator = ack->initiator;
}

void tr__client_hear_from_server(tr_client *client)
{
    client->snapshots.has_news = true;
}

void tr__client_note_snapshot(tr_client *client, uint32_t number)
{
    client->snapshots.known = number > client->snapshots.known ? number : client->snapshots.known;
}

uint32_t tr__client_known_snapshot(const tr_client *client)
{
    return client->snapshots.known;
}

void tr__client_forget_snapshots(tr_client *client)
{
    client->snapshots.before = client->snapshots.known;
}

/* == taking part ====================================================================================== */

/* A server with a step behind it has missed it. */
static uint64_t settled_by(const tr_wire *wire)
{
    return wire->snapshot.step + 1;
}

static void describe(char *out, size_t size, const tr_wire *wire, int server)
{
    snprintf(out, size, "the snapshot of server %d after step %llu", server, (unsigned long long)wire->snapshot.step);
}

static const tr__ask of_snapshot = {.kept = TR__KEPT_UNTIL_OVER, .settled_by = settled_by, .describe = describe};

static void ask_for_snapshot(tr_client *client, tr__stream *s, uint32_t number, uint32_t initiator, uint8_t *payload, size_t size)
{
    /* A server that has more steps of this trainer declines the snapshot. */
    const uint64_t step = tr__client_is_uneven(client) ? client->step : tr__client_step_of(client, s);
    const tr_wire  ask = {.kind = TR_WIRE_SNAPSHOT, .snapshot = {.step = step, .number = number, .initiator = initiator}};

    tr__client_add(client, s, &of_snapshot, &ask, 0, payload, size)->owned = payload;
}

void tr_client_snapshot(tr_client *client, uint8_t *const *payloads, const size_t *sizes)
{
    tr_client_flush(client);
    client->snapshots.joined = (client->snapshots.joined > client->snapshots.known ? client->snapshots.joined : client->snapshots.known) +
                               1;
    client->snapshots.own = client->snapshots.joined;
    see_snapshot(client, client->snapshots.own, (uint32_t)client->step);
    client->snapshots.asked_at = client->now;
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        free(s->answer.bytes);
        s->answer = (tr_client_answer){NULL, 0};
        ask_for_snapshot(client, s, client->snapshots.joined, index_of(client), payloads[i], sizes[i]);
    }
}

/* An answer may have been lost. A server that has not written its part yet answers later, so the question is repeated. */
int64_t tr__client_ask_again_for_answers(tr_client *client)
{
    const int64_t patience = 4 * client->options.retry;

    if (!client->snapshots.own || tr_client_snapshot_is_answered(client))
        return INT64_MAX;
    if (client->now - client->snapshots.asked_at < patience)
        return client->snapshots.asked_at + patience;
    client->snapshots.asked_at = client->now;
    for (int i = 0; i < client->stream_count; i++)
        if (!client->stream[i].answer.bytes)
            ask_for_snapshot(client, &client->stream[i], client->snapshots.own, index_of(client), NULL, 0);
    return client->now + patience;
}

uint8_t *tr__client_pack_place(tr_client *client, size_t *size)
{
    *size = 0;
    return tr__client_is_set_up(client) && client->snapshots.pack_place
               ? client->snapshots.pack_place(client->snapshots.pack_self, size, client->step)
               : NULL;
}

/* Another trainer has begun a snapshot. This trainer is between two steps, so it takes part now. */
static void take_part(tr_client *client)
{
    client->snapshots.joined = client->snapshots.wanted;
    see_snapshot(client, client->snapshots.joined, (uint32_t)client->step);
    for (int i = 0; i < client->stream_count; i++) {
        size_t   size;
        uint8_t *payload = tr__client_pack_place(client, &size);
        ask_for_snapshot(client, &client->stream[i], client->snapshots.joined, client->snapshots.initiator, payload, size);
    }
}

uint64_t tr_client_even_from(const tr_client *client)
{
    uint64_t most = 0;

    for (int i = 0; i < client->stream_count; i++)
        most = client->stream[i].settled > most ? client->stream[i].settled : most;
    return most;
}

void tr_client_rest(tr_client *client)
{
    if (client->snapshots.wanted > client->snapshots.joined && client->snapshots.pack_place &&
        client->snapshots.initiator != index_of(client) && !client->is_draining && tr_client_may_begin_snapshot(client))
        take_part(client);
}

bool tr_client_may_begin_snapshot(const tr_client *client)
{
    return client->step >= tr_client_even_from(client) && !tr__client_is_uneven(client);
}

bool tr_client_awaits_replacement(const tr_client *client)
{
    bool is_awaited = false;

    for (int i = 0; i < client->stream_count; i++)
        is_awaited |= client->stream[i].awaits_replacement;
    return is_awaited;
}

bool tr_client_snapshot_is_answered(const tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        if (!client->stream[i].answer.bytes)
            return false;
    return client->snapshots.own > 0;
}

uint32_t tr_client_own_snapshot(const tr_client *client)
{
    return client->snapshots.own;
}

const tr_client_answer *tr_client_snapshot_answer(const tr_client *client, int server)
{
    return &client->stream[server].answer;
}

void tr_client_set_place(tr_client *client, uint8_t *(*pack)(void *self, size_t *size, uint64_t step), void *self)
{
    client->snapshots.pack_place = pack;
    client->snapshots.pack_self = self;
}

void tr__client_on_snapshot_done(tr_client *client, tr__stream *s, const tr_wire *wire, const uint8_t *payload)
{
    if (!client->snapshots.own || wire->snapshot_number.number != client->snapshots.own || s->answer.bytes)
        return;
    s->answer.size = wire->bytes;
    s->answer.bytes = tr__must_bytes(wire->bytes + 1);
    memcpy(s->answer.bytes, payload, wire->bytes);
}

/* Is a SNAPSHOT still to be sent to this server, or to be acknowledged by it? */
static bool takes_snapshot(const tr__stream *s)
{
    for (const tr__request *r = s->first; r; r = r->next)
        if (r->wire.kind == TR_WIRE_SNAPSHOT && r->state != TR__DONE)
            return true;
    return false;
}

void tr__client_give_up_lost_answer(tr_client *client, tr__stream *s)
{
    Trireme__Pserver__SnapshotDone done = TRIREME__PSERVER__SNAPSHOT_DONE__INIT;

    if (!client->snapshots.own || s->answer.bytes || takes_snapshot(s))
        return;
    done.error = (char *)"it died before its part was written";
    done.has_given_up = done.given_up = true;
    s->answer.size = trireme__pserver__snapshot_done__get_packed_size(&done);
    s->answer.bytes = tr__must_bytes(s->answer.size + 1);
    trireme__pserver__snapshot_done__pack(&done, s->answer.bytes);
}
