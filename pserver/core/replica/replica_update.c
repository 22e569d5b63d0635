/* replica_update.c - see replica_update.h. */
#include "pserver/core/replica/replica_update.h"

#include "framework/base/memory.h"
#include "pserver/core/base/gathering.h"

#include <stdlib.h>
#include <string.h>

/* == gradients ================================================================================= */

static uint8_t *copy_of(const uint8_t *payload, uint64_t bytes)
{
    uint8_t *copy = tr__must_bytes(bytes + 1);

    if (bytes)
        memcpy(copy, payload, bytes);
    return copy;
}

uint8_t *tr__replica_gradient_buffer(const tr_replica *r, const tr_wire *wire)
{
    const tr_form_replica_block *piece = &wire->replica_block;

    if (!r->setup || piece->block >= r->setup->n_blocks || piece->offset > r->setup->blocks[piece->block]->bytes ||
        wire->bytes > r->setup->blocks[piece->block]->bytes - piece->offset)
        return NULL;
    uint8_t *block = (piece->is_pulled ? r->pulled : r->grad)[piece->block];
    return block ? block + piece->offset : NULL;
}

tr_status tr__replica_on_push(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    uint8_t *to = tr__replica_gradient_buffer(r, wire);

    if (!to)
        return tr_fail(TR_EFORMAT, "block %u at %llu: there is no such piece", wire->replica_block.block,
                       (unsigned long long)wire->replica_block.offset);
    if (to != payload && !r->repeats)
        memcpy(to, payload, wire->bytes);
    return TR_OK;
}

tr_status tr__replica_on_push_rows(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const tr_form_replica_rows *rows = &wire->replica_rows;

    if (!r->setup || rows->table >= r->setup->n_tables || rows->trainer >= (uint32_t)r->roster->trainers)
        return tr_fail(TR_EFORMAT, "rows of table %u from trainer %u: there is no such thing", rows->table, rows->trainer);
    const uint64_t row = sizeof(int64_t) + (uint64_t)r->setup->tables[rows->table]->width * sizeof(float);
    tr__replica_rows *t = &r->table[rows->table];
    if (wire->bytes % row)
        return tr_fail(TR_EFORMAT, "rows of table %u in %llu bytes", rows->table, (unsigned long long)wire->bytes);
    if (r->repeats)
        return TR_OK;
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->part = tr__must_realloc(t->part, (size_t)t->capacity * sizeof *t->part);
        t->payload = tr__must_realloc(t->payload, (size_t)t->capacity * sizeof *t->payload);
    }
    uint8_t      *copy = copy_of(payload, wire->bytes);
    const int64_t count = (int64_t)(wire->bytes / row);
    t->payload[t->count] = copy;
    t->part[t->count++] = (tr_rows_part){
        (int)rows->trainer, rows->weight, count, (const int64_t *)(void *)copy,
        (const float *)(void *)(copy + count * (int64_t)sizeof(int64_t)), .is_sum = rows->is_sum,
        .group = r->policy.gathers_per_trainer ? 0 : r->roster->group_first[rows->trainer]};
    return TR_OK;
}

/* The chunks of a value come in order, one value after the other. */
tr_status tr__replica_on_set(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    const tr_form_replica_set *form = &wire->replica_set;

    if (!r->setup || form->value >= r->setup->n_values || form->offset > r->setup->values[form->value]->bytes ||
        wire->bytes > r->setup->values[form->value]->bytes - form->offset)
        return tr_fail(TR_EFORMAT, "value %u at %llu: there is no such piece", form->value, (unsigned long long)form->offset);
    if (r->repeats)
        return TR_OK;
    if (form->offset == 0) {
        r->set = tr__must_realloc(r->set, (r->set_count + 1) * sizeof *r->set);
        r->set[r->set_count++] = (tr_set_value){form->value, tr__must_bytes(r->setup->values[form->value]->bytes + 1)};
    }
    if (!r->set_count || r->set[r->set_count - 1].value != form->value)
        return tr_fail(TR_EFORMAT, "value %u at %llu: its beginning is missing", form->value, (unsigned long long)form->offset);
    memcpy((uint8_t *)(uintptr_t)r->set[r->set_count - 1].data + form->offset, payload, wire->bytes);
    return TR_OK;
}

static void apply(tr_replica *r)
{
    for (size_t i = 0; i < r->setup->n_tables; i++)
        r->update[i] = (tr_rows_update){.part = r->table[i].part, .count = r->table[i].count};
    const tr_update update = {.number = r->updates + 1, .grad = r->grad, .compensation = r->policy.compensation,
                              .pulled = r->policy.compensation > 0 ? r->pulled : NULL, .takes_part = r->next.takes_part,
                              .rows = r->update, .set = r->set, .set_count = r->set_count};
    r->is_busy = true;
    r->in_hand = update;
    tr_effects_add(&r->effects, TR_EFFECT_APPLY);
}

static void commit(tr_replica *r, const tr__replica_lists *l, bool is_update)
{
    r->updates += is_update;
    r->committed = l;
    tr_effects_commit(&r->effects, is_update);
    if (r->stage == TR__REPLICA_COPYING)
        tr__replica_move(r, TR__REPLICA_WHOLE);
}

/* REPLICA_COMMIT: steps were settled without an update, because trainers have left or gradients were dropped. They are settled also after
 * the newest update, which the replica or the server may still be computing. */
static tr_status settle(tr_replica *r, const Trireme__Pserver__Update *update)
{
    tr__replica_take_lists(r, &r->received, update);
    for (int i = 0; i < r->roster->trainers; i++) {
        r->next.settled[i] = r->received.settled[i] > r->next.settled[i] ? r->received.settled[i] : r->next.settled[i];
        r->next.flags[i] = (uint8_t)(r->received.flags[i] | (r->next.flags[i] & TR_TRAINER_GONE));
    }
    r->next.decided = r->received.decided > r->next.decided ? r->received.decided : r->next.decided;
    r->next.decisions = r->received.decisions;
    r->next.newest_snapshot = r->received.newest_snapshot;
    if (r->stage == TR__REPLICA_COPYING)
        TR_TRY(r->store.ready(r->store.self));
    commit(r, r->is_busy ? &r->received : &r->next, false);
    return TR_OK;
}

static tr_status do_update(tr_replica *r, const tr_wire *wire, const Trireme__Pserver__Update *update)
{
    const bool is_update = wire->kind == TR_WIRE_REPLICA_UPDATE;

    if (!r->setup || tr__replica_is_damaged(r, update) ||
        (is_update ? update->updates != r->updates + 1 : r->updates - update->updates > 1))
        return tr_fail(TR_EFORMAT, "its update is damaged, or does not follow update %llu", (unsigned long long)r->updates);
    if (!is_update)
        return settle(r, update);
    tr__replica_take_lists(r, &r->next, update);
    r->update_seq = wire->seq;
    if (!r->repeats)
        apply(r);
    r->repeats = false;
    return TR_OK;
}

tr_status tr__replica_on_update(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    Trireme__Pserver__Update *update = trireme__pserver__update__unpack(NULL, wire->bytes, payload);
    const tr_status           status = do_update(r, wire, update);

    if (update)
        trireme__pserver__update__free_unpacked(update, NULL);
    return status;
}

void tr__replica_computed(tr_replica *r, tr_status status)
{
    r->is_busy = false;
    if (status != TR_OK) {
        tr__replica_break_off(r, status);
        return;
    }
    if (r->stage == TR__REPLICA_COUNTING || !r->owes_report)
        commit(r, &r->next, true);
    for (size_t i = 0; r->table && i < r->setup->n_tables; i++)          /* a new copy may have begun meanwhile */
        tr__replica_drop_rows(&r->table[i]);
    tr__replica_drop_sets(r);
    tr_shares_drop(&r->shares);
    r->update_seq = 0;
    r->owes_ack = !r->owes_report;
    tr__replica_try_report(r);
}

/* == what servers gather ========================================================================= */

/* tr_replica_share gives the memory for these values: TR_GATHER_MAX bytes for each server. */
tr_status tr__replica_on_share(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (wire->bytes > (uint64_t)r->roster->servers * TR_GATHER_MAX)
        return tr_fail(TR_EFORMAT, "it gets %llu bytes as what %d servers have gathered", (unsigned long long)wire->bytes,
                       r->roster->servers);
    tr_shares_put(&r->shares, payload, wire->bytes);
    return TR_OK;
}

/* == leased tasks ================================================================================ */

tr_status tr__replica_on_tasks(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    if (!r->setup)
        return tr_fail(TR_EFORMAT, "the state of tasks comes before its setup");
    if (!r->tasks.memory)
        tr_durable_tasks_attach(&r->tasks, &r->store);
    if (tr_durable_tasks_capacity(&r->tasks) != wire->bytes)
        tr_durable_tasks_create(&r->tasks, &r->store, wire->bytes, r->roster->trainers);
    tr_durable_tasks_put(&r->tasks, payload, wire->bytes);
    return TR_OK;
}

/* == the board =================================================================================== */

tr_status tr__replica_on_post(tr_replica *r, const tr_wire *wire, const uint8_t *payload)
{
    bool is_new;

    if (!r->setup)
        return tr_fail(TR_EFORMAT, "a post comes before its setup");
    if (!r->board)
        r->board = tr_board_new(&r->store, r->roster->trainers, true);
    return tr_board_put(&is_new, r->board, payload, wire->bytes);
}
