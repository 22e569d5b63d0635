/* replica_state.c - the base of a replica: its memory, its reports to the server, its failure. */
#include "pserver/core/replica/replica_state.h"

#include "framework/base/memory.h"
#include "pserver/core/base/gathering.h"
#include "storage/util/crc32c.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* == memory ================================================================================== */

void tr__replica_move(tr_replica *r, tr__replica_stage to)
{
#define M(STAGE) 1U << TR__REPLICA_##STAGE
#define X(STAGE, next) [TR__REPLICA_##STAGE] = next,
    static const unsigned may_follow[] = {TR__REPLICA_STAGES(X)};
#undef X
#undef M

    (void)may_follow;
    assert(to == r->stage || may_follow[r->stage] & 1U << to);
    r->stage = to;
}

tr__replica_lists tr__replica_lists_new(size_t trainers)
{
    return (tr__replica_lists){tr__must_array(trainers, sizeof(uint64_t)), tr__must_array(trainers, 1),
                               tr__must_array(trainers, sizeof(bool)), 0, 0};
}

void tr__replica_lists_free(tr__replica_lists *l)
{
    free(l->settled);
    free(l->flags);
    free(l->takes_part);
}

void tr__replica_drop_rows(tr__replica_rows *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->payload[i]);
    t->count = 0;
}

void tr__replica_drop_sets(tr_replica *r)
{
    for (uint32_t i = 0; i < r->set_count; i++)
        free((void *)(uintptr_t)r->set[i].data);
    free(r->set);
    r->set = NULL;
    r->set_count = 0;
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
    tr__replica_drop_sets(r);
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
    r->updates = 0;
}

/* == what an update says of trainers ========================================================= */

void tr__replica_take_lists(const tr_replica *r, tr__replica_lists *l, const Trireme__Pserver__Update *update)
{
    l->decided = update->decided;
    l->decisions = update->decisions;
    l->newest_snapshot = update->newest_snapshot;
    for (int i = 0; i < r->roster->trainers; i++) {
        l->settled[i] = update->settled[i];
        l->flags[i] = update->trainer.data[i];
        l->takes_part[i] = update->takes_part[i];
    }
}

bool tr__replica_is_damaged(const tr_replica *r, const Trireme__Pserver__Update *update)
{
    const size_t trainers = (size_t)r->roster->trainers;

    return !update || update->n_settled != trainers || update->trainer.len != trainers || update->n_takes_part != trainers;
}

/* == reports to the server ===================================================================== */

/* The reported state is that of this process, or that of an earlier one on this host. */
void tr__replica_report(tr_replica *r)
{
    Trireme__Pserver__Replica report = TRIREME__PSERVER__REPLICA__INIT;
    const void               *packed;
    uint64_t                  bytes;
    tr_commit                 commit;

    r->owes_report = false;
    if (r->stage < TR__REPLICA_COUNTING) {
        tr__replica_move(r, TR__REPLICA_COPYING);
        tr__replica_forget(r);
    }
    for (size_t i = 0; !r->is_busy && r->table && i < r->setup->n_tables; i++)
        tr__replica_drop_rows(&r->table[i]);                   /* the new server sends the update again from its beginning */
    if (!r->is_busy)
        tr__replica_drop_sets(r);
    r->repeats = r->is_busy;
    r->accepted = r->update_seq = 0;
    tr_shares_restart(&r->shares);
    r->owes_ack = false;
    report.is_broken = r->stage == TR__REPLICA_BROKEN;
    if (report.is_broken) {
        ;
    } else if (r->setup) {
        report.has_updates = report.has_setup = true;
        report.updates = r->updates;
        report.setup = r->check;
    } else if (!r->was_called && r->store.last_commit(r->store.self, &commit, &packed, &bytes)) {
        report.has_updates = report.has_setup = true;
        report.updates = r->updates = commit.updates;
        report.setup = tr_crc32c(0, packed, bytes);
    }
    const size_t size = trireme__pserver__replica__get_packed_size(&report);
    uint8_t     *payload = tr__must_bytes(size + 1);
    trireme__pserver__replica__pack(&report, payload);
    tr_outbox_put(&r->outbox, &(tr_message){
        .peer = r->peer, .payload = payload, .owned = payload,
        .wire = {.kind = TR_WIRE_REPLICA_STATE, .sender = (uint32_t)r->roster->self, .bytes = size}});
}

/* While the store computes an update, its result is not known yet, so the report waits. But an update that waits for gathered values waits
 * for the new server, which waits for this report. So the report is sent at once, or, where the state will not be used, zeros let the
 * update end. */
void tr__replica_try_report(tr_replica *r)
{
    if (!r->owes_report)
        return;
    if (!r->is_busy || (r->stage == TR__REPLICA_COUNTING && r->shares.to)) {
        tr__replica_report(r);
    } else if (r->shares.to) {
        tr_shares_give_up(&r->shares, (uint64_t)r->roster->servers * TR_GATHER_MAX);
    }
}

/* == failing ================================================================================== */

tr_status tr__replica_break_off(tr_replica *r, tr_status status)
{
    if (status == TR_OK || r->status != TR_OK)
        return r->status;
    if (r->was_called && r->stage != TR__REPLICA_COUNTING) {
        tr__replica_move(r, TR__REPLICA_BROKEN);
        tr__replica_report(r);
        return status;
    }
    tr_context(status, "while %s took in what server %d has", tr_roster_name(r->roster, r->roster->self), r->server);
    r->status = status;
    r->text = tr__must_strdup(tr_error());
    return status;
}
