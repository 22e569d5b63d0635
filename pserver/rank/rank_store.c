/* rank_store.c - see rank_store.h. */
#include "pserver/rank/rank_store.h"

#include "pserver/rank/rank_driver.h"
#include "pserver/rank/rank_moving.h"
#include "pserver/rank/rank_options.h"
#include "pserver/rank/rank_pieces.h"
#include "pserver/rank/rank_restoring.h"
#include "pserver/rank/rank_saving.h"
#include "pserver/util/wake.h"

void tr__rank_tell_applied(tr__driver *d, tr_status status)
{
    if (d->replica) {
        tr_replica_applied(d->replica, status);
        return;
    }
    tr_server_tell_time(d->server, tr__clock());
    tr_server_applied(d->server, status);
}

static tr_status piece(void *worker, uint32_t index, uint64_t offset, uint64_t bytes, const void *grad)
{
    return tr__pieces_put(((tr__driver *)worker)->rank->pieces, index, offset, bytes, grad);
}

/* Let the main thread run the program, while this thread moves messages and heartbeats. A very short program runs on this thread,
 * because waking the other thread would take as long. */
static void apply(void *worker, const tr_update *update)
{
    tr__driver *d = worker;

    d->rank->update = *update;
    if (tr_server_program_is_quick(d->rank->program) && !update->set_count && tr__pieces_are_done(d->rank->pieces)) {
        tr__rank_tell_applied(d, tr_server_program_run(d->rank->program, update));
        return;
    }
    atomic_store(&d->rank->has_update, true);
    tr__bell_ring(&d->rank->bell);
}

static void expect_snapshots(void *worker)
{
    tr__saving_expect(((tr__driver *)worker)->rank->saving);
}

static void snapshot(void *worker, const Trireme__Pserver__SnapshotTarget *target)
{
    tr__saving_begin(((tr__driver *)worker)->rank->saving, target);
}

static void restore(void *worker, const char *path, uint64_t number)
{
    tr__driver           *d = worker;
    const tr_roster      *roster = tr_comm_roster(d->rank->comm);
    const tr_server_part  part = {.server = roster->rank[roster->self].index, .servers = roster->servers};

    tr__restoring_read(d->rank->restoring, path, number, &part);
}

static void fill(void *worker)
{
    tr__restoring_fill(((tr__driver *)worker)->rank->restoring);
}

static void save_rows(void *worker, uint32_t index, const tr_table_file *file, void *packed, uint64_t bytes)
{
    tr__moving_save(((tr__driver *)worker)->rank->moving, index, file, packed, bytes);
}

static void load_rows(void *worker, uint32_t index, const tr_table_file *file)
{
    tr__moving_load(((tr__driver *)worker)->rank->moving, index, file);
}

static void freeze(void *worker)
{
    tr__driver *d = worker;

    atomic_store(&d->rank->wants_frozen, true);
    tr__bell_ring(&d->rank->bell);
}

static void thaw(void *worker)
{
    tr__driver *d = worker;

    atomic_store(&d->rank->wants_thaw, true);
    tr__bell_ring(&d->rank->bell);
}

tr_store tr__rank_store(tr__driver *d, const tr_roster *roster, tr_server_duty duty)
{
    const int            server = roster->rank[roster->self].index;
    const tr_server_part part = {duty, server, roster->servers, roster->trainers, tr_roster_newest(roster, server),
                                 tr__rank_incarnation_of_start() << 16};
    tr_store             store = tr_server_store(d->rank->program, &part);

    d->rank->server_index = server;
    d->rank->trainer_count = roster->trainers;
    store.worker = d;
    store.piece = piece;
    store.apply = apply;
    store.restore = restore;
    store.fill = fill;
    store.expect_snapshots = expect_snapshots;
    store.snapshot = snapshot;
    store.save_rows = save_rows;
    store.load_rows = load_rows;
    store.freeze = freeze;
    store.thaw = thaw;
    return store;
}
