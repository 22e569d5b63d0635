/* replica.c - a replica's life, what it says of itself, and what comes to it. */
#include "framework/memory.h"
#include "pserver/core/replica_state.h"

#include "pserver/core/gather.h"
#include "pserver/util/crc32c.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* == life ==================================================================================== */

static tr__replica_lists new_lists(size_t trainers)
{
    return (tr__replica_lists){tr__must_array(trainers, sizeof(uint64_t)), tr__must_array(trainers, 1), tr__must_array(trainers, sizeof(bool)), 0, 0};
}

static void free_lists(tr__replica_lists *l)
{
    free(l->settled);
    free(l->flags);
    free(l->takes_part);
}

tr_replica *tr_replica_new(const tr_roster *roster, const tr_store *store)
{
    tr_replica *r = tr__must_alloc(sizeof *r);

    r->roster = roster;
    r->store = *store;
    r->server = roster->rank[roster->self].index;
    r->peer = r->server < roster->servers ? roster->server_rank[r->server] : -1;
    r->next = new_lists((size_t)roster->trainers);
    r->word = new_lists((size_t)roster->trainers);
    return r;
}

void tr__replica_drop_rows(tr__replica_rows *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->payload[i]);
    t->count = 0;
}

static void free_blocks(uint8_t **block, size_t count)
{
    for (size_t i = 0; block && i < count; i++)
        free(block[i]);
    free(block);
}

void tr__replica_forget(tr_replica *r)
{
    for (size_t i = 0; r->table && i < r->setup->n_tables; i++) {
        tr__replica_drop_rows(&r->table[i]);
        free(r->table[i].part);
        free(r->table[i].payload);
    }
    tr_shares_drop(&r->shares);
    if (r->setup) {
        free_blocks(r->grad, r->setup->n_blocks);
        free_blocks(r->pulled, r->setup->n_blocks);
        trireme__pserver__setup__free_unpacked(r->setup, NULL);
    }
    free(r->table);
    free(r->update);
    r->setup = NULL;
    r->grad = r->pulled = NULL;
    r->table = NULL;
    r->update = NULL;
    r->tasks.memory = NULL;
    tr_board_free(r->board);
    r->board = NULL;
    r->is_whole = false;
    r->updates = 0;
}

void tr_replica_free(tr_replica *r)
{
    if (!r)
        return;
    tr__replica_forget(r);
    tr_outbox_deinit(&r->outbox);
    tr_shares_deinit(&r->shares);
    free_lists(&r->next);
    free_lists(&r->word);
    free(r->text);
    free(r);
}

static void say_what_is_here(tr_replica *r);

tr_status tr__replica_break_off(tr_replica *r, tr_status status)
{
    if (status == TR_OK || r->status != TR_OK)
        return r->status;
    if (r->was_called && !r->counts) {
        r->is_broken = true;
        say_what_is_here(r);
        return status;
    }
    tr_context(status, "while %s took in what server %d has", tr_roster_name(r->roster, r->roster->self), r->server);
    r->status = status;
    r->text = tr__must_strdup(tr_error());
    return status;
}

/* == words to the server ======================================================================= */

/* What it has: of this process, or of one before it. */
static void say_what_is_here(tr_replica *r)
{
    Trireme__Pserver__Replica word = TRIREME__PSERVER__REPLICA__INIT;
    const void               *packed;
    uint64_t                  bytes;
    tr_commit                 commit;

    r->owes_word = false;
    if (!r->counts && !r->is_broken)
        tr__replica_forget(r);
    for (size_t i = 0; !r->is_busy && r->table && i < r->setup->n_tables; i++)
        tr__replica_drop_rows(&r->table[i]);                   /* of an update that comes again from its beginning */
    r->repeats = r->is_busy;
    r->accepted = r->update_seq = 0;
    tr_shares_again(&r->shares);
    r->owes_ack = false;
    word.is_broken = r->is_broken;
    if (r->is_broken) {
        ;
    } else if (r->setup) {
        word.has_updates = word.has_setup = true;
        word.updates = r->updates;
        word.setup = r->check;
    } else if (!r->was_called && r->store.kept(r->store.self, &commit, &packed, &bytes)) {
        word.has_updates = word.has_setup = true;
        word.updates = r->updates = commit.updates;
        word.setup = tr_crc32c(0, packed, bytes);
    }
    const size_t size = trireme__pserver__replica__get_packed_size(&word);
    uint8_t     *payload = tr__must_bytes(size + 1);
    trireme__pserver__replica__pack(&word, payload);
    tr_outbox_put(&r->outbox, &(tr_message){
        .peer = r->peer, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_REPLICA_STATE, .sender = (uint32_t)r->roster->self, .bytes = size}});
}

/* While the store computes, what it comes to is not known; but one that waits for what servers gather waits for the new server.
 * Where it is not used anyway, anything will do. */
void tr__replica_try_word(tr_replica *r)
{
    if (!r->owes_word)
        return;
    if (!r->is_busy || (r->counts && r->shares.to)) {
        say_what_is_here(r);
    } else if (r->shares.to) {
        tr_shares_give_up(&r->shares, (uint64_t)r->roster->servers * TR_GATHER_MAX);
    }
}

/* == being called ================================================================================ */

static void say_who(tr_replica *r, int rank)
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
            say_who(r, i);
    say_what_is_here(r);
    return r;
}

/* Who asks does not know it, or has not heard its word. */
static void called_again(tr_replica *r, int peer)
{
    say_who(r, peer);
    if (peer == r->peer && !r->accepted && !r->setup)
        say_what_is_here(r);
}

static void on_serving(tr_replica *r, int peer, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, bytes, payload);

    /* Said again to a rank whose answer was lost, or that has not been heard yet. */
    if (serving && serving->server == (uint32_t)r->server && (peer != r->peer || !r->accepted)) {
        r->peer = peer;
        r->owes_word = true;
        tr__replica_try_word(r);
    }
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

/* == messages ================================================================================== */

/* A gradient goes to where it is read, unless something reads there. */
static void *place(void *self, int peer, const tr_wire *wire)
{
    tr_replica *r = self;
    const bool  is_new = peer == r->peer && wire->kind == TR_WIRE_REPLICA_PUSH && wire->seq > r->accepted && !r->is_busy;
    uint8_t    *to = is_new ? tr__replica_gradient_place(r, wire) : NULL;

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

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_replica *r = self;
    const bool  is_ours = is_placed && (wire->kind != TR_WIRE_REPLICA_PUSH || payload != tr__replica_gradient_place(r, wire));

    (void)now;
    if (wire->kind == TR_WIRE_SERVING) {
        on_serving(r, peer, payload, wire->bytes);
    } else if (wire->kind == TR_WIRE_REPLACE_CALL || wire->kind == TR_WIRE_REPLICA_CALL) {
        called_again(r, peer);
    } else if (peer == r->peer && wire->seq > 0 && r->status == TR_OK && !r->owes_word && !r->is_broken) {
        if (wire->seq == r->accepted + 1) {
            r->accepted++;
            tr__replica_break_off(r, handle(r, wire, payload));
        }
        r->owes_ack = true;
    }
    if (is_ours)
        free(payload);
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

/* Others mourn; a server's place is taken, or the job ends. */
static void lost(void *self, int peer, const char *how)
{
    (void)self;
    (void)peer;
    (void)how;
}

static int64_t tick(void *self, int64_t now)
{
    (void)self;
    (void)now;
    return INT64_MAX;
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

tr_node tr_replica_node(tr_replica *r)
{
    return (tr_node){r, place, receive, lost, tick, next, status_of, describe};
}
