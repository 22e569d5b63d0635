/* job_core.c - see job_core.h. */
#include "pserver/job/job_core.h"

#include "pserver/job/job_checkpoint.h"
#include "pserver/job/job_own_part.h"
#include "pserver/job/job_place.h"
#include "pserver/job/job_saving.h"
#include "pserver/memory/segment.h"
#include "pserver/observe/launcher.h"
#include "pserver/observe/runlog.h"
#include "pserver/util/wake.h"

#include <stdlib.h>

/* == the roles that a standby takes ============================================================== */

static tr_server *make_server(tr_job *job, const tr_roster *roster)
{
    const tr_store store = tr__job_store(job, roster);
    tr_server     *server = tr_server_new(roster, &store);

    atomic_store_explicit(&job->seen_server, server, memory_order_release);
    return server;
}

/* A standby becomes the server that has died. If that process only sleeps, it is killed first, because it holds the memory. */
static tr_status take_place(void *self, int server, int dead)
{
    tr_job         *job = self;
    const char     *prefix = getenv("TRIREME_STATE");
    char            name[TR_SEGMENT_NAME];

    tr_comm_kill(job->comm, dead);
    job->server_index = server;
    if (!prefix || !tr__job_state_name(name, sizeof name, job))
        return tr_fail(TR_ENOTFOUND, "nothing is kept of servers that die: TRIREME_STATE is not set");
    tr_status status = job->kept ? TR_OK : tr_state_attach(&job->kept, name);
    if (status == TR_OK) {
        tr_comm_take_place(job->comm, server);
        job->server = make_server(job, tr_comm_roster(job->comm));
        tr_runlog_note("took_place", ",\"server\":%d", server);
        status = tr_server_take_over(job->server);
        if (status == TR_OK)
            tr_comm_tell_losses(job->comm);
    }
    if (status != TR_OK)
        tr__launcher_tell("died", dead, tr_error());   /* tell the launcher that a failure of the job comes from this death */
    return status;
}

static tr_client_options client_options(const tr_job *job)
{
    return (tr_client_options){(uint64_t)job->options.chunk_bytes, (uint64_t)job->options.window_bytes, 0,
                               tr__seconds(job->options.timeout)};
}

/* A standby becomes the trainer that has died. tr_job_serve tells the owner. */
static void inherit(void *self, int trainer, uint32_t epoch)
{
    tr_job                 *job = self;
    const tr_client_options options = client_options(job);

    tr_comm_kill(job->comm, tr_comm_roster(job->comm)->trainer_rank[trainer]);     /* the dead trainer may only sleep */
    if (!tr_comm_inherit(job->comm, trainer, epoch))
        return;
    job->client = tr_client_new_replacement(tr_comm_roster(job->comm), &options);
    tr__place_watch(job->place);
    atomic_store(&job->is_replacement, true);
    tr__bell_ring(&job->bell);
}

/* A standby, or a replica without a server, becomes the replica of a server that has lost its own. If the old replica was on this host
 * and only sleeps, it is killed first, because it holds the memory. */
static void replicate(void *self, int server)
{
    tr_job          *job = self;
    const tr_roster *roster = tr_comm_roster(job->comm);

    if (!tr_comm_replica_rank(job->comm, server))
        return;
    for (int i = 0; i < roster->size; i++)
        if (i != roster->self && roster->rank[i].role == TR_ROLE_REPLICA && roster->rank[i].index == server)
            tr_comm_kill(job->comm, i);
    tr_state_free(job->kept, false);
    job->kept = NULL;
    const tr_store store = tr__job_store(job, roster);
    job->replica = tr_replica_new_called(roster, &store);
    tr_runlog_note("took_place", ",\"replica\":%d", server);
}

/* == the core of a standby: it passes each call on to its present role =============================== */

static tr_node core_now(const tr_job *job)
{
    return job->client    ? tr_client_node(job->client)
           : job->server  ? tr_server_node(job->server)
           : job->replica ? tr_replica_node(job->replica)
                          : tr_standby_node(job->standby);
}

static void *either_place(void *self, int peer, const tr_wire *wire)
{
    const tr_node node = core_now(self);
    return node.place(node.self, peer, wire);
}

static void either_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    const tr_node node = core_now(self);
    node.receive(node.self, now, peer, wire, payload, is_placed);
}

static void either_lost(void *self, int peer, const char *how)
{
    const tr_node node = core_now(self);
    node.lost(node.self, peer, how);
}

static int64_t either_tick(void *self, int64_t now)
{
    const tr_node node = core_now(self);
    return node.tick(node.self, now);
}

static bool either_next(void *self, tr_message *out)
{
    const tr_node node = core_now(self);
    return node.next(node.self, out);
}

static tr_status either_status(const void *self, const char **text)
{
    const tr_node node = core_now(self);
    return node.status(node.self, text);
}

static void either_describe(const void *self, char *out, size_t size)
{
    const tr_node node = core_now(self);
    node.describe(node.self, out, size);
}

static bool either_awaits_loans(const void *self)
{
    const tr_node node = core_now(self);
    return node.awaits_loans && node.awaits_loans(node.self);
}

static void either_left(void *self, int peer)
{
    const tr_node node = core_now(self);

    if (node.left)
        node.left(node.self, peer);
}

static bool either_awaits_receipts(const void *self, bool owner_waits)
{
    const tr_node node = core_now(self);
    return !node.awaits_receipts || node.awaits_receipts(node.self, owner_waits);
}

static tr_node make_standby(tr_job *job, const tr_roster *roster)
{
    job->standby = tr_standby_new(roster, take_place, inherit, replicate, job);
    return (tr_node){job, either_place, either_receive, either_lost, either_tick, either_next, either_status,
                     either_describe, either_awaits_loans, either_left, either_awaits_receipts};
}

/* == the core of this rank ========================================================================= */

static tr_node make_client(tr_job *job, const tr_roster *roster)
{
    const tr_client_options options = client_options(job);

    job->client = tr_client_new(roster, &options);
    tr__place_watch(job->place);
    return tr_client_node(job->client);
}

static tr_node make_replica(tr_job *job, const tr_roster *roster)
{
    const tr_store store = tr__job_store(job, roster);

    job->replica = tr_replica_new(roster, &store);
    return tr_replica_node(job->replica);
}

static tr_node make_core(void *self, const tr_roster *roster)
{
    tr_job *job = self;

    if (job->role == TR_ROLE_SERVER) {
        job->server = make_server(job, roster);
        return tr_server_node(job->server);
    }
    if (job->role == TR_ROLE_TRAINER)
        return make_client(job, roster);
    const bool has_server = job->role == TR_ROLE_REPLICA && roster->rank[roster->self].index < roster->servers;
    return has_server ? make_replica(job, roster) : make_standby(job, roster);
}

/* == commands ======================================================================================== */

static void set_up(tr_client *client, const tr__setup_call *call)
{
    if (call->keeps_settled)
        tr_client_keep_settled(client);
    tr_client_setup_all(client, call->server, call->block_count, call->block);
    if (call->survives_trainers)
        tr_client_survive_trainers(client);
}

static void pull(tr_client *client, tr__pull_call *call)
{
    tr_client_pull(client, call->count, call->block, call->to);
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

static void trainer_command(tr_job *job, const tr_command *command)
{
    tr_client     *client = job->client;
    const uint32_t block = (uint32_t)command->block;

    switch ((tr__command)command->kind) {
    case TR__SETUP:           set_up(client, command->data); break;
    case TR__PUSH:            tr_client_push(client, block, command->data, command->weight); break;
    case TR__PUSH_COMPRESSED: tr_client_push_compressed(client, block, command->data, command->weight); break;
    case TR__STEP_END:        tr_client_step_end(client); break;
    case TR__STEP_IDLE:       tr_client_step_idle(client); break;
    case TR__PULL:            pull(client, command->data); break;
    case TR__PULL_ROWS:       tr_client_pull_rows(client, command->data); break;
    case TR__READ_ROWS:       read_rows(client, command->data); break;
    case TR__PUSH_ROWS:       tr_client_push_rows(client, command->data); break;
    case TR__STAY:            tr_client_stay(client); break;
    case TR__GOODBYE:         tr_client_goodbye(client); break;
    case TR__ABORT:           abort_job(client, command->data); break;
    case TR__REST:            tr_client_rest(client); break;
    case TR__SNAPSHOT:             tr__checkpointer_command(job, command); break;
    case TR__TASK:            request_task(client, command->data); break;
    case TR__EVEN:            tr_client_say_even(client); break;
    case TR__POST:            tr_client_post_request(client, command->data); break;
    case TR__FLUSH:           break;               /* it is urgent, and commands that were gathering leave with it */
    case TR__APPLIED:                              /* a server's commands */
    case TR__SNAPPED:
    case TR__FROZEN:
    case TR__WRITTEN:
    case TR__SHARE:           break;
    }
}

static void share(tr_job *job, const tr_command *command)
{
    if (job->replica)
        tr_replica_share(job->replica, job->share);
    else
        tr_server_share(job->server, command->data, (uint32_t)command->block, job->share);
}

static void applied(tr_job *job, const tr_command *command)
{
    if (command->data)
        tr_fail((tr_status)command->block, "%s", (char *)command->data);
    tr__job_tell_applied(job, (tr_status)command->block);
    free(command->data);
}

static void server_command(tr_job *job, const tr_command *command)
{
    switch ((tr__command)command->kind) {
    case TR__APPLIED: applied(job, command); break;
    case TR__SHARE:   share(job, command); break;
    case TR__FROZEN:  tr_server_frozen(job->server, (tr_status)command->block); break;
    case TR__SNAPPED:
    case TR__WRITTEN: tr__saving_command(job, command); break;
    default:          break;                       /* a trainer's commands */
    }
}

static void on_command(void *self, const tr_command *command)
{
    tr_job *job = self;

    if (job->role == TR_ROLE_TRAINER)
        trainer_command(job, command);
    else
        server_command(job, command);
}

static void on_flush(void *self)
{
    tr_job *job = self;

    if (job->client)
        tr_client_flush(job->client);
}

static uint64_t core_done(void *self)
{
    tr_job *job = self;

    if (job->client) {
        tr__checkpointer_poll(job);
        tr__own_part_poll(job->own_part);
        return tr_client_done(job->client);
    }
    const bool is_over = job->server ? tr_server_is_done(job->server) : tr_roster_is_over(tr_comm_roster(job->comm));
    if (is_over && !atomic_load_explicit(&job->is_done, memory_order_relaxed)) {
        job->is_forsaken = job->server && tr_server_is_forsaken(job->server);
        atomic_store(&job->is_done, true);
        tr__bell_ring(&job->bell);
    }
    return job->replica ? tr_replica_shared(job->replica) : job->server ? tr_server_shared(job->server) : 0;
}

tr_comm_core tr__job_core(tr_job *job)
{
    return (tr_comm_core){job, make_core, on_command, on_flush, core_done};
}
