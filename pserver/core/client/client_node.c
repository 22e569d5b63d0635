/* client_node.c - the boundary of a trainer's protocol core (client.h): its life, its streams to the servers, and the order in which it
 * sends. */
#include "framework/base/memory.h"
#include "pserver/core/client/client_protocols.h"

/* == life ========================================================================================= */

tr_client *tr_client_new(const tr_roster *roster, const tr_client_options *options)
{
    tr_client *client = tr__must_alloc(sizeof *client);

    client->roster = roster;
    client->options = *options;
    client->incarnation = roster->rank[roster->self].incarnation;
    client->introduced = -1;
    client->policy.is_lockstep = true;
    tr__client_init_ops(client);
    client->stream_count = roster->servers;
    tr__client_hear_from_server(client);
    client->stream = tr__must_array((size_t)roster->servers, sizeof *client->stream);
    client->global = tr__must_array((size_t)roster->servers, sizeof *client->global);
    client->local_count = tr__must_array((size_t)roster->servers, sizeof *client->local_count);
    for (int i = 0; i < client->stream_count; i++) {
        client->stream[i].rank = roster->server_rank[i];
        client->stream[i].end = &client->stream[i].first;
    }
    return client;
}

tr_client *tr_client_new_replacement(const tr_roster *roster, const tr_client_options *options)
{
    tr_client *client = tr_client_new(roster, options);

    client->introduced = 0;
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        s->initiator = TR_INITIATOR_NONE;                  /* servers may still be writing a snapshot that the dead trainer began */
        s->is_orphan = roster->rank[s->rank].is_dead;
        s->how = s->is_orphan ? tr__must_strdup("died") : NULL;
    }
    return client;
}

void tr_client_free(tr_client *client)
{
    if (!client)
        return;
    for (int i = 0; i < client->stream_count; i++) {
        tr__client_free_requests(client->stream[i].first);
        free(client->stream[i].pushes.item);
        free(client->stream[i].pulls.item);
        free(client->stream[i].answer.bytes);
        free(client->global[i]);
    }
    for (int i = 0; i < client->stream_count; i++)
        free(client->stream[i].how);
    tr__client_free_ops(client);
    tr__client_free_tasks(client);
    free(client->stream);
    free(client->global);
    free(client->local_count);
    free(client->block);
    free(client->text);
    free(client);
}

int tr_client_last_server(const tr_client *client)
{
    return atomic_load_explicit(&client->last_server, memory_order_relaxed);
}

uint64_t tr_client_step(const tr_client *client)
{
    return client->step;
}

void tr_client_abort(tr_client *client, const char *text)
{
    tr__client_fail(client, tr_fail(TR_EPEER, "%s", text));
}

/* == sending ====================================================================================== */

/* From a step's first gradient on, requests may go through a carrier. All earlier ones must be done, so that none overtakes another. */
static void choose_carrier(const tr_client *client, tr__stream *s, const tr__request *r)
{
    const tr_policy *policy = &client->policy;
    const bool may = !client->options.is_apart && policy->is_lockstep && !policy->gathers_per_trainer;

    if (!s->carrier && may && tr__client_is_push(r) && tr__client_open(s) == r)
        s->carrier = (uint32_t)(tr_roster_carrier(client->roster, (int)(s - client->stream)) + 1);
}

static bool next_of(tr_client *client, tr__stream *s, tr_message *out)
{
    if (s->must_introduce && !s->is_orphan) {
        s->must_introduce = false;
        *out = tr__client_replace_done(client, s->rank);
        return true;
    }
    if (s->asks) {
        s->asks = false;
        const int peer = s->is_orphan ? tr_roster_standby_for(client->roster, s->rank) : s->rank;
        *out = (tr_message){.peer = peer, .wire = {.kind = TR_WIRE_SERVING_ASK, .incarnation = client->incarnation,
                                                   .sender = (uint32_t)client->roster->self}};
        if (tr__client_is_replacement(client))            /* a server answers REPLACE_DONE by SERVING, as it answers SERVING_ASK */
            *out = tr__client_replace_done(client, peer);
        return true;
    }
    while (s->unsent && s->unsent->state == TR__DONE)
        s->unsent = s->unsent->next;
    tr__request *r = s->unsent;
    if (!r || s->is_orphan || (s->gathered_from && r->wire.seq >= s->gathered_from))
        return false;
    if (tr__client_is_push(r) && s->in_flight && s->in_flight + r->wire.bytes > client->options.window_bytes)
        return false;
    if (tr__client_is_push(r)) {
        s->in_flight += r->wire.bytes;
        r->is_flying = true;
    }
    s->unsent = r->next;
    choose_carrier(client, s, r);
    *out = (tr_message){.peer = s->carrier ? (int)s->carrier - 1 : s->rank, .wire = r->wire, .payload = r->payload};
    out->wire.receiver = s->carrier ? (uint32_t)s->rank + 1 : 0;
    if (r->sent_at && r->payload)                  /* an ACK of the first copy may free the payload while this copy waits to be sent */
        out->payload = out->owned = memcpy(tr__must_bytes(r->wire.bytes + 1), r->payload, r->wire.bytes);
    r->sent_at = client->now ? client->now : 1;
    return true;
}

static bool next(void *self, tr_message *out)
{
    tr_client *client = self;

    if (client->status != TR_OK)
        return false;
    if (client->introduced == client->roster->self)
        client->introduced++;
    if (tr__client_is_replacement(client) && client->introduced < client->roster->size) {
        *out = tr__client_replace_done(client, client->introduced++);
        return true;
    }
    for (int i = 0; i < client->stream_count; i++) {
        const int at = (client->turn + i) % client->stream_count;
        if (next_of(client, &client->stream[at], out)) {
            client->turn = (at + 1) % client->stream_count;
            return true;
        }
    }
    return false;
}

/* Mark all requests that are not done to be sent again. */
static void rewind_stream(const tr_client *client, tr__stream *s)
{
    s->must_introduce = tr__client_is_replacement(client);         /* the server may not know this replacement */
    s->unsent = s->first;
    s->in_flight = 0;
    for (tr__request *r = s->first; r; r = r->next)
        r->is_flying = false;
}

/* Decide whether to send SERVING_ASK: the SERVING of a server, or of the standby in its place, may have been lost. Returns the time of the
 * next call. */
static int64_t ask_who_serves(const tr_client *client, tr__stream *s, int64_t now)
{
    s->asks = false;
    if (s->is_serving && !s->is_orphan)
        return INT64_MAX;
    if (now - s->asked_at >= client->options.retry) {
        s->asks = s->asked_at != 0 && client->status == TR_OK;
        s->asked_at = now ? now : 1;
    }
    return s->asked_at + client->options.retry;
}

static int64_t tick(void *self, int64_t now)
{
    tr_client *client = self;

    client->now = now;
    int64_t       at = tr__client_watch_orphans(client);
    const int64_t late = tr__client_flush_late(client);
    at = late < at ? late : at;
    if (!client->options.retry)
        return at;
    const int64_t answers = tr__client_ask_again_for_answers(client);
    at = answers < at ? answers : at;
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream   *s = &client->stream[i];
        const int64_t ask = ask_who_serves(client, s, now);
        at = ask < at ? ask : at;
        tr__request *r = tr__client_open(s);
        while (r && r->state == TR__DONE)
            r = r->next;
        if (!r || !r->sent_at || r == s->unsent)
            continue;
        if (now - r->sent_at >= client->options.retry)
            rewind_stream(client, s);
        else if (r->sent_at + client->options.retry < at)
            at = r->sent_at + client->options.retry;
    }
    return at;
}

/* == when others die ============================================================================== */

static tr_status status_of(const void *self, const char **text)
{
    const tr_client *client = self;
    *text = client->text;
    return client->status;
}

/* Describe what this trainer waits for: its oldest request that is not done. */
static void describe(const void *self, char *out, size_t size)
{
    const tr_client *client = self;

    out[0] = '\0';
    for (int i = 0; i < client->stream_count; i++) {
        const tr__request *r = client->stream[i].first;
        while (r && r->state != TR__OPEN)
            r = r->next;
        if (r) {
            r->ask->describe(out, size, &r->wire, i);
            return;
        }
    }
}

/* Has the server acknowledged the GOODBYE and everything before it? */
static bool has_left(const tr_client *client, const tr__stream *s)
{
    bool is_done = client->has_left;

    for (const tr__request *r = s->first; r && is_done; r = r->next)
        is_done = r->state != TR__OPEN;
    return is_done;
}

/* Requests went through this rank. What is not done goes to the servers themselves. */
static void lose_carrier(const tr_client *client, int peer)
{
    for (int i = 0; i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        if (s->carrier != (uint32_t)peer + 1)
            continue;
        s->carrier = 0;
        for (tr__request *r = s->first; r; r = r->next)
            if (r->state == TR__OPEN && r->ask->receive_buffer && r->answer.carrier)
                tr__client_forget_answer(r);
        rewind_stream(client, s);
    }
}

/* Of deaths only a server's matters here, and that of a carrier. Whether a trainer's death matters is for the servers to decide: the
 * trainer may have left already. */
static void lost(void *self, int peer, const char *how)
{
    tr_client  *client = self;
    char        waiting[256];
    tr__stream *s = tr__client_stream_of(client, peer);

    lose_carrier(client, peer);
    if (client->status != TR_OK || !s || has_left(client, s))
        return;
    if ((client->block || tr__client_is_replacement(client)) && tr_roster_standby_for(client->roster, peer) >= 0) {
        s->is_orphan = true;
        s->orphan_since = client->now;
        free(s->how);
        s->how = tr__must_strdup(how);
        return;
    }
    const char *self_name = tr_roster_name(client->roster, client->roster->self);
    describe(client, waiting, sizeof waiting);
    if (waiting[0])
        tr_fail(TR_EPEER, "%s %s; %s was waiting for %s", tr_roster_name(client->roster, peer), how, self_name, waiting);
    else
        tr_fail(TR_EPEER, "%s %s; %s had ended step %llu", tr_roster_name(client->roster, peer), how, self_name,
                (unsigned long long)client->step);
    tr__client_fail(client, TR_EPEER);
}

/* A server sends BYE when all trainers have left. So it has taken this trainer's GOODBYE, even if the acknowledgement was lost. */
static void left(void *self, int peer)
{
    tr_client   *client = self;
    tr__stream  *s = tr__client_stream_of(client, peer);
    tr__request *r = s ? s->first : NULL;

    lose_carrier(client, peer);
    while (r && r->state != TR__OPEN)
        r = r->next;
    if (r && r->wire.kind == TR_WIRE_GOODBYE)
        tr__client_finish(client, s, r);
}

/* An owner that waits for the answer to its last pull needs no receipts. A server takes requests in order and acknowledges them before it
 * answers the pull, so the awaited data arrives after the receipts and wakes this rank. Receipts matter to a trainer whose window is full,
 * and to one that waits until all servers have settled its steps. */
static bool awaits_receipts(const void *self, bool owner_waits)
{
    const tr_client *client = self;
    bool             awaits_answer = false;

    for (int i = 0; i < client->stream_count; i++) {
        tr__stream *s = &client->stream[i];
        if (!tr__client_open(s))
            continue;
        if (s->unsent || (owner_waits && (s->last->state != TR__OPEN || !s->last->ask->is_question || s->last->ask->needs_receipts)))
            return true;
        awaits_answer = true;
    }
    return tr__client_has_tasks_to_send(client) || (owner_waits && !awaits_answer);
}

tr_node tr_client_node(tr_client *client)
{
    return (tr_node){client, tr__client_receive_buffer, tr__client_receive, lost, tick, next, status_of, describe,
                     .awaits_receipts = awaits_receipts, .left = left};
}
