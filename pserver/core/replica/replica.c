/* replica.c - the boundary of a replica's core: its life, its inputs, and the effects that its store carries out (as server.c). */
#include "pserver/core/replica/replica.h"

#include "framework/base/memory.h"
#include "pserver/core/replica/replica_copy.h"
#include "pserver/core/replica/replica_update.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == life ==================================================================================== */

tr_replica *tr_replica_new(const tr_roster *roster, const tr_store *store)
{
    tr_replica *r = tr__must_alloc(sizeof *r);

    r->roster = roster;
    r->store = *store;
    r->server = roster->rank[roster->self].index;
    r->peer = r->server < roster->servers ? roster->server_rank[r->server] : -1;
    r->next = tr__replica_lists_new((size_t)roster->trainers);
    r->received = tr__replica_lists_new((size_t)roster->trainers);
    return r;
}

void tr_replica_free(tr_replica *r)
{
    if (!r)
        return;
    tr__replica_forget(r);
    tr_outbox_deinit(&r->outbox);
    tr_effects_deinit(&r->effects);
    tr_shares_deinit(&r->shares);
    tr__replica_lists_free(&r->next);
    tr__replica_lists_free(&r->received);
    free(r->text);
    free(r);
}

/* == being called ================================================================================ */

static void send_done(tr_replica *r, int rank)
{
    tr_outbox_put(&r->outbox, &(tr_message){
        .peer = rank,
        .wire = {.kind = TR_WIRE_REPLICA_DONE, .sender = (uint32_t)r->roster->self, .server = {.server = (uint32_t)r->server}}});
}

tr_replica *tr_replica_new_called(const tr_roster *roster, const tr_store *store)
{
    tr_replica *r = tr_replica_new(roster, store);

    r->was_called = true;
    for (int i = 0; i < roster->size; i++)
        if (i != roster->self)
            send_done(r, i);
    tr__replica_report(r);
    return r;
}

/* REPLICA_CALL of a server whose replica this rank is already, or of another server: the REPLICA_DONE was lost, so send it again. */
static void on_called_again(tr_replica *r, int peer)
{
    send_done(r, peer);
    if (peer == r->peer && !r->accepted && !r->setup)
        tr__replica_report(r);
}

static void on_serving(tr_replica *r, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, bytes, payload);

    /* Report again to a server whose COPY message was lost, and to a successor from which no message has come yet. */
    if (serving && serving->server == (uint32_t)r->server && (peer != r->peer || !r->accepted)) {
        r->peer = peer;
        r->owes_report = true;
        tr__replica_try_report(r);
    }
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

/* == effects ================================================================================== */

static void carry_out(tr_replica *r, const tr_effect *effect)
{
    const tr__replica_lists *l = r->committed;

    if (effect->kind == TR_EFFECT_APPLY) {
        r->store.apply(r->store.worker, &r->in_hand);
    } else {
        const tr_commit commit = {.updates = r->updates, .settled = l->settled, .trainer = l->flags, .decided = l->decided,
                                  .decisions = l->decisions, .start = tr_roster_start(r->roster),
                                  .newest_snapshot = l->newest_snapshot};
        r->store.commit(r->store.self, &commit, effect->is_update);
    }
}

/* Run after each input: carry out the effects that it has queued. */
static void run_until_idle(tr_replica *r)
{
    const tr_effect *effect;

    if (r->is_at_work)
        return;                                    /* the store reports from within an effect, so the loop below is running already */
    r->is_at_work = true;
    while ((effect = tr_effects_take(&r->effects)))
        carry_out(r, effect);
    r->is_at_work = false;
}

/* == messages ================================================================================== */

/* A gradient is received directly into the update's memory, unless the store is reading that memory. */
static void *receive_buffer(void *self, int peer, const tr_wire *wire)
{
    tr_replica *r = self;
    const bool  is_new = peer == r->peer && wire->kind == TR_WIRE_REPLICA_PUSH && wire->seq > r->accepted && !r->is_busy;
    uint8_t    *to = is_new ? tr__replica_gradient_buffer(r, wire) : NULL;

    return to ? to : tr__must_bytes(wire->bytes + 1);
}

static tr_status handle(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    switch (wire->kind) {
    case TR_WIRE_COPY_STATE:
    case TR_WIRE_COPY_KEEP:
    case TR_WIRE_COPY_LIVE:
        return tr__replica_on_copy(r, wire, payload);
    case TR_WIRE_VALUE:
        return tr__replica_on_value(r, wire, payload);
    case TR_WIRE_WRITE_ROWS:
        return tr__replica_on_write_rows(r, wire, payload);
    case TR_WIRE_REPLICA_PUSH:
        return tr__replica_on_push(r, wire, payload);
    case TR_WIRE_REPLICA_SET:
        return tr__replica_on_set(r, wire, payload);
    case TR_WIRE_REPLICA_ROWS:
        return tr__replica_on_push_rows(r, wire, payload);
    case TR_WIRE_REPLICA_UPDATE:
    case TR_WIRE_REPLICA_COMMIT:
        return tr__replica_on_update(r, wire, payload);
    case TR_WIRE_REPLICA_SHARES:
        return tr__replica_on_share(r, wire, payload);
    case TR_WIRE_REPLICA_TASKS:
        return tr__replica_on_tasks(r, wire, payload);
    case TR_WIRE_REPLICA_POST:
        return tr__replica_on_post(r, wire, payload);
    default:
        return tr_fail(TR_EFORMAT, "%s is nothing for a replica", tr_wire_kind_name(wire->kind));
    }
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr_replica *r = self;
    const bool  is_ours = is_direct && (wire->kind != TR_WIRE_REPLICA_PUSH || payload != tr__replica_gradient_buffer(r, wire));

    (void)now;
    if (wire->kind == TR_WIRE_SERVING) {
        on_serving(r, peer, payload, wire->bytes);
    } else if (wire->kind == TR_WIRE_REPLACE_CALL || wire->kind == TR_WIRE_REPLICA_CALL) {
        on_called_again(r, peer);
    } else if (peer == r->peer && wire->seq > 0 && r->status == TR_OK && !r->owes_report && r->stage != TR__REPLICA_BROKEN) {
        if (wire->seq == r->accepted + 1) {
            r->accepted++;
            tr__replica_break_off(r, handle(r, wire, payload));
        }
        r->owes_ack = true;
    }
    if (is_ours)
        free(payload);
    run_until_idle(r);
}

void tr_replica_applied(tr_replica *r, tr_status status)
{
    tr__replica_computed(r, status);
    run_until_idle(r);
}

void tr_replica_share(tr_replica *r, void *all)
{
    tr_shares_ask(&r->shares, all);
    tr__replica_try_report(r);
}

uint64_t tr_replica_shared(const tr_replica *r)
{
    return r->shares.done;
}

static bool next(void *self, tr_message *out)
{
    tr_replica *r = self;

    if (tr_outbox_take(&r->outbox, out))
        return true;
    if (!r->owes_ack)
        return false;
    r->owes_ack = false;
    *out = (tr_message){.peer = r->peer,
                        .wire = {.kind = TR_WIRE_REPLICA_ACK, .sender = (uint32_t)r->roster->self,
                                 .seq = r->update_seq ? r->update_seq - 1 : r->accepted}};
    return true;
}

static tr_status status_of(const void *self, const char **text)
{
    const tr_replica *r = self;
    *text = r->text;
    return r->status;
}

static void describe(const void *self, char *out, size_t size)
{
    const tr_replica *r = self;
    snprintf(out, size, "update %llu of server %d", (unsigned long long)r->updates + 1, r->server);
}

/* A replica does nothing about a death: other ranks decide, and SERVING names the successor of its server. */
tr_node tr_replica_node(tr_replica *r)
{
    return (tr_node){.self = r, .receive_buffer = receive_buffer, .receive = receive, .next = next, .status = status_of,
                     .describe = describe};
}
