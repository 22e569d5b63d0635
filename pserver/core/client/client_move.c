/* client_move.c - a trainer's side of failover: servers begin to serve, die, and are succeeded by standbys. Also the start of a
 * replacement. */
#include "pserver/core/client/client_protocols.h"

#include "framework/base/memory.h"

/* Have all servers settled the same steps of the dead trainer, and has no server a further step of it? Then the replacement repeats no
 * step. */
static bool has_equal_steps(const tr_client *client)
{
    for (int i = 0; i < client->stream_count; i++)
        if (client->stream[i].settled != client->step || client->stream[i].ended != client->step)
            return false;
    return true;
}

void tr_client_send_even(tr_client *client)
{
    if (!tr__client_is_set_up(client) || !tr__client_is_uneven(client) || !has_equal_steps(client))
        return;
    client->is_evened = true;
    for (int i = 0; i < client->stream_count; i++)
        client->stream[i].must_introduce = true;
}

/* The progress field of this replacement's REPLACE_DONE. A successor of a dead server does not get the JOIN that the dead server has
 * acknowledged, so it needs this field. */
static tr_replacement_progress progress_of(tr_client *client, int to)
{
    const tr__stream *s = tr__client_stream_of(client, to);

    if (!client->block || !s)
        return TR_REPLACEMENT_CALLED;
    for (const tr__request *r = s->first; r; r = r->next)
        if (r->wire.kind == TR_WIRE_JOIN && r->state == TR__OPEN)
            return TR_REPLACEMENT_CALLED;
    return tr__client_is_uneven(client) ? TR_REPLACEMENT_JOINED : TR_REPLACEMENT_STEPPED;
}

tr_message tr__client_replace_done(tr_client *client, int to)
{
    return (tr_message){.peer = to, .wire = {
        .kind = TR_WIRE_REPLACE_DONE, .incarnation = client->incarnation, .sender = (uint32_t)client->roster->self,
        .replace_done = {.step = client->first_step, .trainer = (uint32_t)client->roster->rank[client->roster->self].index,
                         .called = client->incarnation, .progress = progress_of(client, to)}}};
}

static void on_state_of(tr_client *client, tr__stream *s, const Trireme__Pserver__Serving *serving)
{
    const int self = client->roster->rank[client->roster->self].index;
    const bool was_serving = s->is_serving;
    bool       is_all = true;

    s->is_serving = true;
    s->has_state = serving->has_updates;
    s->updates = serving->updates;
    s->settled = (size_t)self < serving->n_settled ? serving->settled[self] : 0;
    s->ended = (size_t)self < serving->n_ended ? serving->ended[self] : 0;
    for (size_t i = 0; i < serving->n_settled; i++)
        s->fastest = serving->settled[i] > s->fastest ? serving->settled[i] : s->fastest;
    for (int i = 0; i < client->stream_count; i++)
        is_all &= client->stream[i].is_serving;
    tr__client_note_snapshot(client, serving->snapshot);
    if (is_all && !was_serving)
        tr__client_op_count_down(client, 1);
}

/* Queue the requests that the new server lacks once more, under numbers from 1 on. */
static void send_again(tr_client *client, tr__stream *s, uint64_t settled)
{
    s->last_seq = 0;
    s->in_flight = s->gathered_from = 0;
    for (tr__request *r = s->first; r; r = r->next) {
        const tr__ask *ask = r->ask;
        const bool     is_there = ask->settled_by && ask->settled_by(&r->wire) <= settled;
        r->is_flying = false;
        if (is_there)
            tr__client_finish(client, s, r);
        tr__client_forget_answer(r);
        if (ask->moved)
            ask->moved(r, settled);
        if (r->state != TR__OPEN && !is_there && (ask->kept == TR__KEPT_UNTIL_SETTLED || tr__client_is_kept(s, r)))
            r->state = TR__OWED;
        else if (r->state == TR__OWED)
            r->state = TR__DONE;
        r->sent_at = 0;
        if (r->state != TR__DONE)
            r->wire.seq = ++s->last_seq;
        else
            r->wire.seq = s->last_seq;             /* a done request is not sent again, so its number only marks its place */
    }
    s->unsent = s->open = s->first;
}

/* Another rank serves in a server's place. This trainer may not know yet that the server died. */
static void move_stream(tr_client *client, tr__stream *s, int peer, const Trireme__Pserver__Serving *serving)
{
    const int self = client->roster->rank[client->roster->self].index;

    if (!serving->has_updates || (size_t)self >= serving->n_settled) {
        tr__client_fail(client, tr_fail(TR_EPEER, "%s serves in the place of a server that died, without what that had",
                                        tr_roster_name(client->roster, peer)));
        return;
    }
    s->rank = peer;
    s->carrier = 0;
    s->is_orphan = s->awaits_replacement = false;
    tr__client_hear_from_server(client);
    s->must_introduce = tr__client_is_replacement(client);         /* the new server may not know this replacement */
    if (!client->block) {
        on_state_of(client, s, serving);
        return;
    }
    send_again(client, s, serving->settled[self]);
    tr__client_give_up_lost_answer(client, s);
}

void tr__client_on_serving(tr_client *client, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, bytes, payload);

    if (!serving || serving->server >= (uint32_t)client->stream_count) {
        tr__client_fail(client, tr_fail(TR_EFORMAT, "%s says in a damaged message that it serves",
                                        tr_roster_name(client->roster, peer)));
    } else {
        tr__stream *s = &client->stream[serving->server];
        if (s->rank != peer)
            move_stream(client, s, peer, serving);
        else if (!s->is_serving)
            on_state_of(client, s, serving);
    }
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

static void fail_orphan(tr_client *client, const tr__stream *s, const char *why)
{
    tr__client_fail(client, tr_fail(TR_EPEER, "%s %s, and %s", tr_roster_name(client->roster, s->rank), s->how, why));
}

int64_t tr__client_watch_orphans(tr_client *client)
{
    int64_t at = INT64_MAX;

    for (int i = 0; i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        if (!s->is_orphan)
            continue;
        if (!s->orphan_since)
            s->orphan_since = client->now;
        if (tr_roster_standby_for(client->roster, s->rank) < 0)
            fail_orphan(client, s, "no standby is left to take its place");
        else if (client->now - s->orphan_since > client->options.patience)
            fail_orphan(client, s, "no standby took its place in time");
        else if (s->orphan_since + client->options.patience < at)
            at = s->orphan_since + client->options.patience;
    }
    return client->status == TR_OK ? at + (at < INT64_MAX) : INT64_MAX;
}
