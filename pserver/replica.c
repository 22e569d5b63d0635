/* replica.c - take a state, then updates; apply, commit, acknowledge. */
#include "pserver/replica.h"

#include "framework/memory.h"
#include "pserver/crc32c.h"
#include "pserver/gather.h"
#include "pserver/kept_tasks.h"
#include "pserver/mode.h"
#include "pserver/outbox.h"
#include "pserver/shares.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The rows that an update brings to a table. */
typedef struct rows {
    tr_rows_part *part;
    uint8_t     **payload;            /* of each part: its memory */
    int           count, capacity;
} rows;

/* What an update says of each trainer. */
typedef struct lists {
    uint64_t *settled;
    uint8_t  *flags;
    bool     *takes_part;
    uint64_t  decided, verdicts;
} lists;

struct tr_replica {
    const tr_roster *roster;
    tr_store         store;
    int              server, peer;    /* index; the rank that is this server now */
    tr_status        status;
    char            *text;
    tr_outbox        outbox;

    Trireme__Pserver__Setup *setup;   /* NULL: there is no state yet */
    uint32_t         check;           /* its checksum */
    tr_mode          mode;
    uint8_t        **grad, **pulled;  /* of each block */
    rows            *table;
    tr_rows_update  *update;          /* of each table, as the store wants it */

    uint64_t         accepted, update_seq;         /* of its messages; of the update that is being applied */
    bool             owes_ack;
    bool             is_whole;        /* it has a state that was committed, of `updates` */
    bool             was_called;      /* in the middle of the job */
    bool             counts;          /* it has all that its server tells others */
    bool             is_broken;       /* it did not come so far, and will not */
    bool             is_busy;         /* the store is at `updates` + 1 */
    bool             owes_word;       /* what it has, to a new server */
    bool             repeats;         /* that one sends the update anew that the store is at */
    uint64_t         updates;
    lists            next, word;      /* of the update that is being applied; of a message */

    tr_kept_tasks    tasks;

    tr_shares        shares;          /* of the update that is being applied */
};

/* == life ==================================================================================== */

static lists new_lists(size_t trainers)
{
    return (lists){calloc(trainers, sizeof(uint64_t)), calloc(trainers, 1), calloc(trainers, sizeof(bool)), 0, 0};
}

static void free_lists(lists *l)
{
    free(l->settled);
    free(l->flags);
    free(l->takes_part);
}

tr_replica *tr_replica_new(const tr_roster *roster, const tr_store *store)
{
    tr_replica *r = calloc(1, sizeof *r);

    r->roster = roster;
    r->store = *store;
    r->server = roster->rank[roster->self].index;
    r->peer = r->server < roster->servers ? roster->server_rank[r->server] : -1;
    r->next = new_lists((size_t)roster->trainers);
    r->word = new_lists((size_t)roster->trainers);
    return r;
}

static void drop_rows(rows *t)
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

/* All that it has of a state; the store forgets it when the next one comes. */
static void forget(tr_replica *r)
{
    for (size_t i = 0; r->table && i < r->setup->n_tables; i++) {
        drop_rows(&r->table[i]);
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
    r->is_whole = false;
    r->updates = 0;
}

void tr_replica_free(tr_replica *r)
{
    if (!r)
        return;
    forget(r);
    tr_outbox_deinit(&r->outbox);
    tr_shares_deinit(&r->shares);
    free_lists(&r->next);
    free_lists(&r->word);
    free(r->text);
    free(r);
}

static void say_what_is_here(tr_replica *r);

/* One that does not count yet is no loss: its server looks for another one. */
static tr_status break_off(tr_replica *r, tr_status status)
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
    r->text = strdup(tr_error());
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
        forget(r);
    for (size_t i = 0; !r->is_busy && r->table && i < r->setup->n_tables; i++)
        drop_rows(&r->table[i]);                   /* of an update that comes again from its beginning */
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
    uint8_t     *payload = malloc(size + 1);
    trireme__pserver__replica__pack(&word, payload);
    tr_outbox_put(&r->outbox, &(tr_message){
        .peer = r->peer, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_REPLICA, .sender = (uint32_t)r->roster->self, .bytes = size}});
}

/* While the store computes, what it comes to is not known; but one that waits for what servers gather waits for the new server.
 * Where it is not used anyway, anything will do. */
static void try_word(tr_replica *r)
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
        .wire = {.kind = TR_WIRE_MIRROR, .sender = (uint32_t)r->roster->self, .block = (uint32_t)r->server, .part = 1}});
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
        try_word(r);
    }
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

/* == the state ================================================================================= */

static tr_status make_room(tr_replica *r)
{
    const Trireme__Pserver__Setup *setup = r->setup;

    TR_TRY(tr_mode_parse(&r->mode, setup->mode));
    r->grad = calloc(setup->n_blocks + 1, sizeof *r->grad);
    r->pulled = calloc(setup->n_blocks + 1, sizeof *r->pulled);
    r->table = calloc(setup->n_tables + 1, sizeof *r->table);
    r->update = calloc(setup->n_tables + 1, sizeof *r->update);
    for (size_t i = 0; i < setup->n_blocks; i++) {
        const uint64_t bytes = setup->blocks[i]->bytes;
        r->grad[i] = tr__array_alloc(bytes);
        r->pulled[i] = r->mode.compensation > 0 ? tr__array_alloc(bytes) : NULL;
        if (!r->grad[i] || (r->mode.compensation > 0 && !r->pulled[i]))
            return tr_fail(TR_ENOMEM, "no memory for gradient '%s' of %llu bytes", setup->blocks[i]->grad,
                           (unsigned long long)bytes);
    }
    return TR_OK;
}

static tr_status take_setup(tr_replica *r, const void *packed, uint64_t bytes, bool resume)
{
    r->setup = trireme__pserver__setup__unpack(NULL, bytes, packed);
    if (!r->setup)
        return tr_fail(TR_EFORMAT, "its setup is damaged");
    r->check = tr_crc32c(0, packed, bytes);
    TR_TRY(make_room(r));
    return r->store.setup(r->store.self, r->setup, packed, bytes, resume);
}

static void take_lists(const tr_replica *r, lists *l, const Trireme__Pserver__Update *update)
{
    l->decided = update->decided;
    l->verdicts = update->verdicts;
    for (int i = 0; i < r->roster->trainers; i++) {
        l->settled[i] = update->settled[i];
        l->flags[i] = update->trainer.data[i];
        l->takes_part[i] = update->takes_part[i];
    }
}

static bool is_damaged(const tr_replica *r, const Trireme__Pserver__Update *update)
{
    const size_t trainers = (size_t)r->roster->trainers;

    return !update || update->n_settled != trainers || update->trainer.len != trainers || update->n_takes_part != trainers;
}

/* The update that is ahead of the server and what counts with it go at once: who takes this state over in between would miss steps. */
static tr_status go_back(tr_replica *r, const uint8_t *payload, uint64_t bytes)
{
    Trireme__Pserver__Update *update = trireme__pserver__update__unpack(NULL, bytes, payload);
    const bool                is_good = !is_damaged(r, update) && update->updates == r->updates - 1;

    if (is_good) {
        take_lists(r, &r->word, update);
        const tr_commit commit = {.updates = --r->updates, .settled = r->word.settled, .trainer = r->word.flags,
                                  .decided = r->word.decided, .verdicts = r->word.verdicts};
        r->store.go_back(r->store.self, &commit);
    }
    if (update)
        trireme__pserver__update__free_unpacked(update, NULL);
    return is_good ? TR_OK : tr_fail(TR_EFORMAT, "what counts behind update %llu is damaged", (unsigned long long)r->updates - 1);
}

static void begin_to_count(tr_replica *r, const tr_wire *wire)
{
    r->counts = true;
    if (r->store.counts)
        r->store.counts(r->store.self, (uint32_t)wire->offset);
}

/* Go on from what is here. */
static tr_status keep(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit;
    const bool  is_first = !r->setup;

    if (is_first) {
        if (!r->store.kept(r->store.self, &commit, &packed, &bytes))
            return tr_fail(TR_EPEER, "it is to go on from update %llu, of which nothing is here", (unsigned long long)wire->step);
        TR_TRY(take_setup(r, packed, bytes, true));
        r->updates = commit.updates;
    }
    if (r->updates == wire->step + 1 && !r->is_busy)
        TR_TRY(go_back(r, payload, wire->bytes));
    if (r->updates != wire->step)
        return tr_fail(TR_EPEER, "it is to go on from update %llu, and has %llu", (unsigned long long)wire->step,
                       (unsigned long long)r->updates);
    if (is_first)
        TR_TRY(r->store.ready(r->store.self));
    r->is_whole = true;
    begin_to_count(r, wire);
    return TR_OK;
}

static tr_status on_copy(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->part == 2) {
        begin_to_count(r, wire);
        return TR_OK;
    }
    if (!r->is_busy) {                             /* an update that is gone back from has settled more */
        memset(r->next.settled, 0, (size_t)r->roster->trainers * sizeof *r->next.settled);
        memset(r->next.flags, 0, (size_t)r->roster->trainers);
        r->next.decided = 0;
    }
    if (wire->part)
        return keep(r, wire, payload);
    if (r->counts || r->is_busy)
        return tr_fail(TR_EPEER, "it gets a second state");
    forget(r);
    TR_TRY(take_setup(r, payload, wire->bytes, false));
    r->updates = wire->step;
    return TR_OK;
}

static tr_status on_value(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (!r->setup || wire->block >= r->setup->n_values || wire->offset > r->setup->values[wire->block]->bytes ||
        wire->bytes > r->setup->values[wire->block]->bytes - wire->offset)
        return tr_fail(TR_EFORMAT, "value %u at %llu: there is no such piece", wire->block, (unsigned long long)wire->offset);
    memcpy((uint8_t *)r->store.value(r->store.self, wire->block) + wire->offset, payload, wire->bytes);
    return TR_OK;
}

static tr_status on_write_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (!r->setup || wire->block >= r->setup->n_tables)
        return tr_fail(TR_EFORMAT, "rows of table %u: there is no such table", wire->block);
    return r->store.write_rows(r->store.self, wire->block, payload, wire->bytes, wire->part == 1);
}

/* == updates =================================================================================== */

static uint8_t *copy_of(const uint8_t *payload, uint64_t bytes)
{
    uint8_t *copy = malloc(bytes + 1);

    if (bytes)
        memcpy(copy, payload, bytes);
    return copy;
}

static uint8_t *gradient_place(const tr_replica *r, const tr_wire *wire)
{
    if (!r->setup || wire->block >= r->setup->n_blocks || wire->offset > r->setup->blocks[wire->block]->bytes ||
        wire->bytes > r->setup->blocks[wire->block]->bytes - wire->offset)
        return NULL;
    uint8_t *block = (wire->part ? r->pulled : r->grad)[wire->block];
    return block ? block + wire->offset : NULL;
}

static tr_status on_push(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    uint8_t *to = gradient_place(r, wire);

    if (!to)
        return tr_fail(TR_EFORMAT, "block %u at %llu: there is no such piece", wire->block, (unsigned long long)wire->offset);
    if (to != payload && !r->repeats)
        memcpy(to, payload, wire->bytes);
    return TR_OK;
}

static tr_status on_push_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (!r->setup || wire->block >= r->setup->n_tables || wire->part >= (uint32_t)r->roster->trainers)
        return tr_fail(TR_EFORMAT, "rows of table %u from trainer %u: there is no such thing", wire->block, wire->part);
    const uint64_t row = sizeof(int64_t) + (uint64_t)r->setup->tables[wire->block]->width * sizeof(float);
    rows          *t = &r->table[wire->block];
    if (wire->bytes % row)
        return tr_fail(TR_EFORMAT, "rows of table %u in %llu bytes", wire->block, (unsigned long long)wire->bytes);
    if (r->repeats)
        return TR_OK;
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->part = realloc(t->part, (size_t)t->capacity * sizeof *t->part);
        t->payload = realloc(t->payload, (size_t)t->capacity * sizeof *t->payload);
    }
    uint8_t      *copy = copy_of(payload, wire->bytes);
    const int64_t count = (int64_t)(wire->bytes / row);
    t->payload[t->count] = copy;
    t->part[t->count++] = (tr_rows_part){(int)wire->part, wire->weight, count, (const int64_t *)(void *)copy,
                                         (const float *)(void *)(copy + count * (int64_t)sizeof(int64_t))};
    return TR_OK;
}

static void apply(tr_replica *r)
{
    for (size_t i = 0; i < r->setup->n_tables; i++)
        r->update[i] = (tr_rows_update){.part = r->table[i].part, .count = r->table[i].count};
    const tr_update update = {.number = r->updates + 1, .grad = r->grad, .compensation = r->mode.compensation,
                              .pulled = r->mode.compensation > 0 ? r->pulled : NULL, .takes_part = r->next.takes_part,
                              .rows = r->update};
    r->is_busy = true;
    r->store.apply(r->store.self, &update);
}

static void commit(tr_replica *r, const lists *l, bool is_update)
{
    r->updates += is_update;
    const tr_commit now = {.updates = r->updates, .settled = l->settled, .trainer = l->flags, .decided = l->decided,
                           .verdicts = l->verdicts};
    r->store.commit(r->store.self, &now, is_update);
    r->is_whole = true;
}

/* No update: trainers have left, or were told that a gradient was dropped. It holds behind the newest update, too, which is in
 * hand here, or still in the server's. */
static tr_status settle(tr_replica *r, const Trireme__Pserver__Update *update)
{
    take_lists(r, &r->word, update);
    for (int i = 0; i < r->roster->trainers; i++) {
        r->next.settled[i] = r->word.settled[i] > r->next.settled[i] ? r->word.settled[i] : r->next.settled[i];
        r->next.flags[i] = (uint8_t)(r->word.flags[i] | (r->next.flags[i] & TR_TRAINER_GONE));
    }
    r->next.decided = r->word.decided > r->next.decided ? r->word.decided : r->next.decided;
    r->next.verdicts = r->word.verdicts;
    if (!r->is_whole)
        TR_TRY(r->store.ready(r->store.self));
    commit(r, r->is_busy ? &r->word : &r->next, false);
    return TR_OK;
}

static tr_status do_update(tr_replica *r, const tr_wire *wire, const Trireme__Pserver__Update *update)
{
    const bool is_update = wire->part == 0;

    if (!r->setup || is_damaged(r, update) || (is_update ? update->updates != r->updates + 1 : r->updates - update->updates > 1))
        return tr_fail(TR_EFORMAT, "its update is damaged, or not the one behind %llu", (unsigned long long)r->updates);
    if (!is_update)
        return settle(r, update);
    take_lists(r, &r->next, update);
    r->update_seq = wire->seq;
    if (!r->repeats)
        apply(r);
    r->repeats = false;
    return TR_OK;
}

static tr_status on_update(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    Trireme__Pserver__Update *update = trireme__pserver__update__unpack(NULL, wire->bytes, payload);
    const tr_status           status = do_update(r, wire, update);

    if (update)
        trireme__pserver__update__free_unpacked(update, NULL);
    return status;
}

void tr_replica_applied(tr_replica *r, tr_status status)
{
    r->is_busy = false;
    if (status != TR_OK) {
        break_off(r, status);
        return;
    }
    if (r->counts || !r->owes_word)
        commit(r, &r->next, true);
    for (size_t i = 0; i < r->setup->n_tables; i++)
        drop_rows(&r->table[i]);
    tr_shares_drop(&r->shares);
    r->update_seq = 0;
    r->owes_ack = !r->owes_word;
    try_word(r);
}

/* -- what servers gather ------------------------------------------------------------------------- */

/* Room for it is made by whoever asks: as much as all servers may gather. */
static tr_status on_share(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->bytes > (uint64_t)r->roster->servers * TR_GATHER_MAX)
        return tr_fail(TR_EFORMAT, "it gets %llu bytes as what %d servers have gathered", (unsigned long long)wire->bytes,
                       r->roster->servers);
    tr_shares_put(&r->shares, payload, wire->bytes);
    return TR_OK;
}

void tr_replica_share(tr_replica *r, void *all)
{
    tr_shares_ask(&r->shares, all);
    try_word(r);
}

uint64_t tr_replica_shared(const tr_replica *r)
{
    return r->shares.done;
}

uint64_t tr_replica_updates(const tr_replica *r)
{
    return r->updates;
}

/* -- leased tasks -------------------------------------------------------------------------------- */

static tr_status on_tasks(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (!r->setup)
        return tr_fail(TR_EFORMAT, "the state of tasks comes before its setup");
    if (!r->tasks.memory)
        tr_kept_tasks_attach(&r->tasks, &r->store);
    if (tr_kept_tasks_room(&r->tasks) != wire->bytes)
        tr_kept_tasks_create(&r->tasks, &r->store, wire->bytes, r->roster->trainers);
    tr_kept_tasks_put(&r->tasks, payload, wire->bytes);
    return TR_OK;
}

/* == messages ================================================================================== */

/* A gradient goes to where it is read, unless something reads there. */
static void *place(void *self, int peer, const tr_wire *wire)
{
    tr_replica *r = self;
    const bool  is_new = peer == r->peer && wire->kind == TR_WIRE_PUSH && wire->seq > r->accepted && !r->is_busy;
    uint8_t    *to = is_new ? gradient_place(r, wire) : NULL;

    return to ? to : malloc(wire->bytes + 1);
}

static tr_status handle(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    switch (wire->kind) {
    case TR_WIRE_COPY:
        return on_copy(r, wire, payload);
    case TR_WIRE_VALUE:
        return on_value(r, wire, payload);
    case TR_WIRE_WRITE_ROWS:
        return on_write_rows(r, wire, payload);
    case TR_WIRE_PUSH:
        return on_push(r, wire, payload);
    case TR_WIRE_PUSH_ROWS:
        return on_push_rows(r, wire, payload);
    case TR_WIRE_UPDATE:
        if (wire->part < 2)
            return on_update(r, wire, payload);
        return wire->part == 2 ? on_share(r, wire, payload) : on_tasks(r, wire, payload);
    default:
        return tr_fail(TR_EFORMAT, "%s is nothing for a replica", tr_wire_kind_name(wire->kind));
    }
}

static void receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_replica *r = self;
    const bool  is_ours = is_placed && payload != gradient_place(r, wire);

    (void)now;
    if (wire->kind == TR_WIRE_SERVING) {
        on_serving(r, peer, payload, wire->bytes);
    } else if (wire->kind == TR_WIRE_HEIR ? wire->part == TR_HEIR_CALLED : wire->kind == TR_WIRE_MIRROR && wire->part == 0) {
        called_again(r, peer);
    } else if (peer == r->peer && wire->kind != TR_WIRE_ACK && wire->seq > 0 && r->status == TR_OK && !r->owes_word && !r->is_broken) {
        if (wire->seq == r->accepted + 1) {
            r->accepted++;
            break_off(r, handle(r, wire, payload));
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
                        .wire = {.kind = TR_WIRE_ACK, .sender = (uint32_t)r->roster->self,
                                 .seq = r->update_seq ? r->update_seq - 1 : r->accepted, .step = r->updates}};
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
