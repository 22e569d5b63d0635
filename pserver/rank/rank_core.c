/* rank_core.c - see rank_core.h. */
#include "pserver/rank/rank_core.h"

#include "framework/base/memory.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/rank/rank_commands.h"
#include "pserver/rank/rank_driver.h"
#include "pserver/rank/rank_moving.h"
#include "pserver/rank/rank_options.h"
#include "pserver/rank/rank_restoring.h"
#include "pserver/rank/rank_saving.h"
#include "pserver/rank/rank_store.h"
#include "pserver/util/wake.h"

#include <stdlib.h>

tr__driver *tr__driver_new(tr__rank *rank)
{
    tr__driver *d = tr__must_alloc(sizeof *d);

    d->rank = rank;
    return d;
}

void tr__driver_free(tr__driver *d)
{
    tr_carrier_free(d->carrier);
    tr_client_free(d->client);
    tr_server_free(d->server);
    tr_standby_free(d->standby);
    tr_replica_free(d->replica);
    free(d);
}

/* == the roles that a standby takes ============================================================== */

static void make_server(tr__driver *d, const tr_roster *roster)
{
    const tr_store store = tr__rank_store(d, roster, d->rank->role == TR_ROLE_SERVER ? TR_DUTY_SERVER : TR_DUTY_SUCCESSOR);

    d->server = tr_server_new(roster, &store);
    atomic_store_explicit(&d->rank->seen_server, d->server, memory_order_release);
}

static tr_node set_client(tr__driver *d, const tr_roster *roster, tr_client *client)
{
    d->client = client;
    d->carrier = tr_carrier_new(roster, tr_client_node(client), (uint64_t)d->rank->options.chunk_bytes);
    d->rank->watch.begin(d->rank->watch.self, client);
    atomic_store_explicit(&d->rank->seen_client, client, memory_order_release);
    return tr_carrier_node(d->carrier);
}

/* A standby becomes the server that has died. If that process only sleeps, it is killed first, because it holds the memory. */
static tr_status take_place(void *self, int server, int dead)
{
    tr__driver *d = self;

    tr_comm_kill(d->rank->comm, dead);
    tr_status status = tr_server_store_attach(d->rank->program, server);
    if (status == TR_OK) {
        tr_comm_take_place(d->rank->comm, server);
        make_server(d, tr_comm_roster(d->rank->comm));
        tr_comm_set_core(d->rank->comm, tr_server_node(d->server));
        tr_runlog_note("took_place", ",\"server\":%d", server);
        status = tr_server_take_over(d->server);
        if (status == TR_OK)
            tr_comm_tell_losses(d->rank->comm);
    }
    if (status != TR_OK)
        tr__launcher_tell(TR_NOTICE_DIED, dead, tr_error());   /* tell the launcher that a failure of the job comes from this death */
    return status;
}

static tr_client_options client_options(const tr__driver *d)
{
    return (tr_client_options){(uint64_t)d->rank->options.chunk_bytes, (uint64_t)d->rank->options.window_bytes, 0,
                               tr__seconds(d->rank->options.timeout), .is_apart = !tr__rank_uses_carriers()};
}

/* A standby becomes the trainer that has died. tr_job_serve tells the owner. */
static void replace_trainer(void *self, int trainer, uint32_t incarnation)
{
    tr__driver *d = self;
    const tr_client_options options = client_options(d);

    tr_comm_kill(d->rank->comm, tr_comm_roster(d->rank->comm)->trainer_rank[trainer]);     /* the dead trainer may only sleep */
    if (!tr_comm_replace_trainer(d->rank->comm, trainer, incarnation))
        return;
    const tr_roster *roster = tr_comm_roster(d->rank->comm);
    tr_comm_set_core(d->rank->comm, set_client(d, roster, tr_client_new_replacement(roster, &options)));
    atomic_store(&d->rank->is_replacement, true);
    tr__bell_ring(&d->rank->bell);
}

/* A standby, or a replica without a server, becomes the replica of a server that has lost its own. If the old replica was on this host
 * and only sleeps, it is killed first, because it holds the memory. */
static void replicate(void *self, int server)
{
    tr__driver *d = self;
    const tr_roster *roster = tr_comm_roster(d->rank->comm);

    if (!tr_comm_replica_rank(d->rank->comm, server))
        return;
    for (int i = 0; i < roster->size; i++)
        if (i != roster->self && roster->rank[i].role == TR_ROLE_REPLICA && roster->rank[i].index == server)
            tr_comm_kill(d->rank->comm, i);
    const tr_store store = tr__rank_store(d, roster, TR_DUTY_CALLED_REPLICA);
    d->replica = tr_replica_new_called(roster, &store);
    tr_comm_set_core(d->rank->comm, tr_replica_node(d->replica));
    tr_runlog_note("took_place", ",\"replica\":%d", server);
}

/* == the core of this rank ========================================================================= */

static tr_node make_standby(tr__driver *d, const tr_roster *roster)
{
    d->standby = tr_standby_new(roster, take_place, replace_trainer, replicate, d);
    return tr_standby_node(d->standby);
}

static tr_node make_client(tr__driver *d, const tr_roster *roster)
{
    const tr_client_options options = client_options(d);

    return set_client(d, roster, tr_client_new(roster, &options));
}

static tr_node make_replica(tr__driver *d, const tr_roster *roster)
{
    const tr_store store = tr__rank_store(d, roster, TR_DUTY_REPLICA);

    d->replica = tr_replica_new(roster, &store);
    return tr_replica_node(d->replica);
}

static tr_node make_core(void *self, const tr_roster *roster)
{
    tr__driver *d = self;

    if (d->rank->role == TR_ROLE_SERVER) {
        make_server(d, roster);
        return tr_server_node(d->server);
    }
    if (d->rank->role == TR_ROLE_TRAINER)
        return make_client(d, roster);
    const bool has_server = d->rank->role == TR_ROLE_REPLICA && roster->rank[roster->self].index < roster->servers;
    return has_server ? make_replica(d, roster) : make_standby(d, roster);
}

/* == commands ======================================================================================== */

static void set_up(const tr__driver *d, const tr__setup_call *call)
{
    tr_client_setup_all(d->client, call->server, call->block_count, call->block, call->policy, !call->files);
    tr_carrier_set_up(d->carrier, &(tr_carrier_setup){.block_count = call->block_count, .blocks = call->block, .compress = call->compress,
                                                      .table_count = call->table_count, .width = call->width});
}

static void pull(tr_client *client, tr__pull_call *call)
{
    tr_client_pull(client, call->count, call->block, call->to);
    free(call);
}

static void set(tr_client *client, const tr__set *set)
{
    tr_client_set(client, set->server, set->value, set->bytes, set->size);
    free(set->bytes);
}

static void write_rows(tr_client *client, tr__write_call *call)
{
    tr_client_write_rows(client, call->server, &call->rows, call->clears, call->clock);
    free(call);
}

static void read_rows(tr_client *client, tr__read_call *call)
{
    tr_client_read_rows(client, call->server, call->shard, call->since, &call->pack);
}

static void abort_job(tr_client *client, char *why)
{
    tr_client_abort(client, why);
    free(why);
}

static void request_task(tr_client *client, tr_client_task *task)
{
    tr_client_task_request(client, task);
    free(task);
}

static void begin_snapshot(tr_client *client, tr__snapshot_call *call)
{
    tr_client_snapshot(client, call->payload, call->size);
    atomic_store(call->is_asked, true);
    free(call->payload);
    free(call->size);
    free(call);
}

static void client_command(const tr__driver *d, const tr__command *c)
{
    tr_client *client = d->client;

    switch ((tr__command_kind)c->head.kind) {
    case TR__SETUP:           set_up(d, c->setup); break;
    case TR__JOIN:            tr_client_join_all(client, c->join->server); break;
    case TR__SET:             set(client, &c->set); break;
    case TR__PUSH:            tr_client_push(client, c->push.block, c->push.data, c->push.weight); break;
    case TR__PUSH_COMPRESSED:
        tr_client_push_compressed(client, c->push_compressed.block, c->push_compressed.pieces, c->push_compressed.weight);
        break;
    case TR__STEP_END:        tr_client_step_end(client); break;
    case TR__STEP_IDLE:       tr_client_step_idle(client); break;
    case TR__PULL:            pull(client, c->pull); break;
    case TR__PULL_ROWS:       tr_client_pull_rows(client, c->pull_rows); break;
    case TR__EXPECT_ROWS:     tr_client_expect_rows(client, c->expect_rows); break;
    case TR__READ_ROWS:       read_rows(client, c->read_rows); break;
    case TR__MOVE_ROWS:       tr_client_move_rows(client, c->move_rows); break;
    case TR__WRITE_ROWS:      write_rows(client, c->write_rows); break;
    case TR__PUSH_ROWS:       tr_client_push_rows(client, c->push_rows); break;
    case TR__STAY:            tr_client_drain(client); break;
    case TR__GOODBYE:         tr_client_goodbye(client); break;
    case TR__ABORT:           abort_job(client, c->abort); break;
    case TR__REST:            tr_client_rest(client); break;
    case TR__SNAPSHOT:        begin_snapshot(client, c->snapshot); break;
    case TR__TASK:            request_task(client, c->task); break;
    case TR__EVEN:            tr_client_send_even(client); break;
    case TR__POST:            tr_client_post_request(client, c->post); break;
    case TR__RESTORE:         tr_client_restore(client, c->restore->path, c->restore->number, c->restore->restored); break;
    case TR__FLUSH:           tr_client_flush(client); break;
#define IGNORE(kind, ...) case TR__##kind:
    TR__SERVER_COMMANDS(IGNORE)
    TR__PLAIN_SERVER_COMMANDS(IGNORE) break;
#undef IGNORE
    }
}

static void share(tr__driver *d, const tr__share *share)
{
    if (d->replica)
        tr_replica_share(d->replica, d->rank->share);
    else
        tr_server_share(d->server, share->own, share->bytes, d->rank->share);
}

static void applied(tr__driver *d, const tr__applied *applied)
{
    if (applied->why)
        tr_fail(applied->status, "%s", applied->why);
    tr__rank_tell_applied(d, applied->status);
    free(applied->why);
}

static void written(tr_server *server, const tr__written *written)
{
    tr_server_written(server, written->part, written->size, written->error);
    free(written->part);
    free(written->error);
}

static void moved(tr__driver *d)
{
    const tr_table_file *file;
    void                *rows;
    uint64_t             bytes;
    const tr_status      status = tr__moving_take(&file, &rows, &bytes, d->rank->moving);

    tr_server_row_file(d->server, status, file, rows, bytes);
}

static void server_command(tr__driver *d, const tr__command *c)
{
    switch ((tr__command_kind)c->head.kind) {
    case TR__APPLIED: applied(d, &c->applied); break;
    case TR__SHARE:   share(d, &c->share); break;
    case TR__FROZEN:  tr_server_frozen(d->server, c->frozen); break;
    case TR__SNAPPED: tr_server_snapped(d->server, tr__clock()); break;
    case TR__WRITTEN: written(d->server, &c->written); break;
    case TR__MOVED:   moved(d); break;
    case TR__RESTORED: tr_server_restored(d->server, tr__restoring_finish(d->rank->restoring)); break;
    default:          break;                       /* a client's commands */
    }
}

static void on_command(void *self, const tr_command *head)
{
    tr__driver        *d = self;
    const tr__command *command = (const tr__command *)(const void *)head;

    if (d->client)
        client_command(d, command);
    else
        server_command(d, command);
}

static void on_flush(void *self, bool owner_waits)
{
    tr__driver *d = self;

    if (d->client && owner_waits)
        tr_client_flush(d->client);
    else if (d->client)
        tr_client_flush_midway(d->client);
}

static uint64_t client_done(tr__rank *rank, tr_client *client)
{
    const bool has_heard = tr_client_heard_from_server(client);

    if (has_heard) {
        atomic_store_explicit(&rank->awaits_replacement, tr_client_awaits_replacement(client), memory_order_relaxed);
        atomic_store_explicit(&rank->stops, tr_client_stops(client), memory_order_relaxed);
    }
    rank->watch.poll(rank->watch.self, client, has_heard);
    return tr_client_done(client);
}

static uint64_t core_done(void *self)
{
    tr__driver *d = self;

    if (d->client)
        return client_done(d->rank, d->client);
    const bool is_over = d->server ? tr_server_is_done(d->server) : tr_roster_is_over(tr_comm_roster(d->rank->comm));
    if (is_over && !atomic_load_explicit(&d->rank->is_done, memory_order_relaxed)) {
        d->rank->is_abandoned = d->server && tr_server_is_abandoned(d->server);
        atomic_store(&d->rank->is_done, true);
        tr__bell_ring(&d->rank->bell);
    }
    return d->replica ? tr_replica_shared(d->replica) : d->server ? tr_server_shared(d->server) : 0;
}

tr_comm_core tr__rank_core(tr__driver *d)
{
    return (tr_comm_core){d, make_core, on_command, on_flush, core_done};
}
