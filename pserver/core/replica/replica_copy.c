/* replica_copy.c - see replica_copy.h. */
#include "pserver/core/replica/replica_copy.h"

#include "framework/base/memory.h"
#include "storage/util/crc32c.h"

#include <stdlib.h>
#include <string.h>

static tr_status allocate(tr_replica *r)
{
    const Trireme__Pserver__Setup *setup = r->setup;

    TR_TRY(tr_policy_parse(&r->policy, setup->mode));
    r->grad = tr__must_array(setup->n_blocks + 1, sizeof *r->grad);
    r->pulled = tr__must_array(setup->n_blocks + 1, sizeof *r->pulled);
    r->table = tr__must_array(setup->n_tables + 1, sizeof *r->table);
    r->update = tr__must_array(setup->n_tables + 1, sizeof *r->update);
    for (size_t i = 0; i < setup->n_blocks; i++) {
        const uint64_t bytes = setup->blocks[i]->bytes;
        r->grad[i] = tr__array_alloc(bytes);
        r->pulled[i] = r->policy.compensation > 0 ? tr__array_alloc(bytes) : NULL;
        if (!r->grad[i] || (r->policy.compensation > 0 && !r->pulled[i]))
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
    TR_TRY(allocate(r));
    return r->store.setup(r->store.self, r->setup, &r->policy, packed, bytes, resume);
}

/* Undo an update that the server does not have, and commit the state before it at once. Otherwise a process that finds this state would
 * count steps that no server has. The commit has the number of the start in which the state was left, because server 0's state of tasks is
 * still that of this start. */
static tr_status go_back(tr_replica *r, const uint8_t *payload, uint64_t bytes, uint32_t start)
{
    Trireme__Pserver__Update *update = trireme__pserver__update__unpack(NULL, bytes, payload);
    const bool                is_good = !tr__replica_is_damaged(r, update) && update->updates == r->updates - 1;

    if (is_good) {
        tr__replica_take_lists(r, &r->received, update);
        const tr_commit commit = {.updates = --r->updates, .settled = r->received.settled, .trainer = r->received.flags,
                                  .decided = r->received.decided, .decisions = r->received.decisions,
                                  .start = start, .newest_snapshot = r->received.newest_snapshot};
        r->store.go_back(r->store.self, &commit);
    }
    if (update)
        trireme__pserver__update__free_unpacked(update, NULL);
    return is_good ? TR_OK : tr_fail(TR_EFORMAT, "the committed steps after update %llu are damaged", (unsigned long long)r->updates - 1);
}

static void begin_to_count(tr_replica *r, uint32_t generation)
{
    tr__replica_move(r, TR__REPLICA_COUNTING);
    if (r->store.counts)
        r->store.counts(r->store.self, generation);
}

/* COPY_KEEP: continue from the state that is on this host. */
static tr_status keep_state(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const void *packed;
    uint64_t    bytes;
    tr_commit   commit = {.start = tr_roster_start(r->roster)};
    const bool  is_first = !r->setup;

    if (is_first) {
        if (!r->store.last_commit(r->store.self, &commit, &packed, &bytes))
            return tr_fail(TR_EPEER, "it must continue from update %llu, and has no state", (unsigned long long)wire->copy.update);
        TR_TRY(take_setup(r, packed, bytes, true));
        r->updates = commit.updates;
    }
    if (r->updates == wire->copy.update + 1 && !r->is_busy)
        TR_TRY(go_back(r, payload, wire->bytes, commit.start));
    if (r->updates != wire->copy.update)
        return tr_fail(TR_EPEER, "it must continue from update %llu, and its state has %llu", (unsigned long long)wire->copy.update,
                       (unsigned long long)r->updates);
    if (is_first)
        TR_TRY(r->store.ready(r->store.self));
    if (r->stage == TR__REPLICA_COPYING)
        tr__replica_move(r, TR__REPLICA_WHOLE);
    begin_to_count(r, wire->copy.generation);
    return TR_OK;
}

tr_status tr__replica_on_copy(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->kind == TR_WIRE_COPY_LIVE) {
        begin_to_count(r, wire->copy_generation.generation);
        return TR_OK;
    }
    if (!r->is_busy) {                             /* an update that is being undone has settled more steps */
        memset(r->next.settled, 0, (size_t)r->roster->trainers * sizeof *r->next.settled);
        memset(r->next.flags, 0, (size_t)r->roster->trainers);
        r->next.decided = 0;
    }
    if (wire->kind == TR_WIRE_COPY_KEEP)
        return keep_state(r, wire, payload);
    if (r->stage == TR__REPLICA_COUNTING || r->is_busy)
        return tr_fail(TR_EPEER, "it gets a second state");
    tr__replica_move(r, TR__REPLICA_COPYING);
    tr__replica_forget(r);
    TR_TRY(take_setup(r, payload, wire->bytes, false));
    r->updates = wire->copy.update;
    return TR_OK;
}

tr_status tr__replica_on_value(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const tr_form_value *piece = &wire->value;

    if (!r->setup || piece->value >= r->setup->n_values || piece->offset > r->setup->values[piece->value]->bytes ||
        wire->bytes > r->setup->values[piece->value]->bytes - piece->offset)
        return tr_fail(TR_EFORMAT, "value %u at %llu: there is no such piece", piece->value, (unsigned long long)piece->offset);
    memcpy((uint8_t *)r->store.value(r->store.self, piece->value) + piece->offset, payload, wire->bytes);
    return TR_OK;
}

tr_status tr__replica_on_write_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const tr_form_write_rows *write = &wire->write_rows;

    if (!r->setup || write->table >= r->setup->n_tables)
        return tr_fail(TR_EFORMAT, "rows of table %u: there is no such table", write->table);
    return r->store.write_rows(r->store.self, write, payload, wire->bytes);
}
