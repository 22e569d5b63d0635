/* server_requests.c - see server_requests.h. */
#include "pserver/core/server/server_requests.h"

#include "pserver/core/members/server_copy.h"
#include "pserver/core/members/server_deaths.h"
#include "pserver/core/members/server_decisions.h"
#include "pserver/core/members/server_serving.h"
#include "pserver/core/members/server_restore.h"
#include "pserver/core/members/server_start.h"
#include "pserver/core/snapshots/server_board.h"
#include "pserver/core/snapshots/server_initiator.h"
#include "pserver/core/snapshots/server_places.h"
#include "pserver/core/snapshots/server_replication.h"
#include "pserver/core/snapshots/server_row_files.h"
#include "pserver/core/snapshots/server_set_rows.h"
#include "pserver/core/snapshots/server_snapshots.h"
#include "pserver/core/snapshots/server_tasks.h"
#include "pserver/core/updates/push_parts.h"
#include "pserver/core/updates/server_contributions.h"
#include "pserver/core/updates/server_meters.h"
#include "pserver/core/updates/server_pulls.h"
#include "pserver/core/updates/server_row_pulls.h"
#include "pserver/core/updates/server_rows.h"
#include "pserver/core/updates/server_sets.h"
#include "pserver/core/updates/server_streams.h"
#include "pserver/core/updates/server_updates.h"

#include <stdlib.h>
#include <string.h>

/* == requests that concern several protocols ==================================================
 * Those of one protocol are handled in its own file. */

/* The name of a gradient that is missing in the step which the trainer ends. NULL: the step is complete. */
static const char *first_missing(const tr_server *server, const tr__trainer *trainer)
{
    const char *missing = tr__contributions_first_missing(server, trainer);
    return missing ? missing : tr__rows_first_missing(server, trainer);
}

static tr_status check_step_end(const tr_server *server, const tr__trainer *trainer, const tr_wire *wire)
{
    const bool  has_gradient = !wire->step_end.is_idle;
    const char *missing = has_gradient ? first_missing(server, trainer) : NULL;

    if (missing)
        return tr_fail(TR_EPEER, "%s ended step %llu without the gradient '%s'", tr__server_trainer_name(server, trainer),
                       (unsigned long long)wire->step_end.step, missing);
    if (!has_gradient && (tr__contributions_begun(server, trainer) || server->policy.decides))
        return tr_fail(TR_EPEER, "%s leaves step %llu out, which it has begun, or about which server 0 decides",
                       tr__server_trainer_name(server, trainer), (unsigned long long)wire->step_end.step);
    return TR_OK;
}

static tr_status on_step_end(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)payload;
    (void)is_owned;
    tr__deaths_replaced(server, trainer);
    if (tr__server_has_ended(trainer, wire->step_end.step)) {
        tr__updates_end_step_again(server, trainer, wire->step_end.step, wire->seq);
        return TR_OK;
    }
    TR_TRY(tr__server_check_step(server, trainer, wire, trainer->ended + 1));
    TR_TRY(check_step_end(server, trainer, wire));
    TR_TRY(tr__sets_ended(server, trainer, wire->step_end.step, !wire->step_end.is_idle));
    tr__updates_end_step(server, trainer, wire->seq);
    tr__tasks_set_everywhere(server, trainer, wire->step_end.everywhere);
    tr__meters_ended(server, trainer);
    tr__rows_ended(server, trainer);
    tr__contributions_ended(server, trainer, !wire->step_end.is_idle);
    tr__board_look(server);
    return TR_OK;
}

/* DRAIN and GOODBYE. The trainer may have made its last step before: then this is the GOODBYE after its DRAIN, or a DRAIN that a dead
 * server had taken. */
static tr_status on_leave(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    if (tr__contributions_begun(server, trainer))
        return tr_fail(TR_EPEER, "%s said goodbye in the middle of step %llu", tr__server_trainer_name(server, trainer),
                       (unsigned long long)trainer->ended + 1);
    if (server->setup && !server->is_running)
        return tr_fail(TR_EPEER, "%s left before all trainers had agreed on the work",
                       tr__server_trainer_name(server, trainer));
    TR_TRY(tr__places_on_leave(server, trainer, wire, payload));
    /* The DRAIN of a trainer that has died meanwhile has the effect of a GOODBYE. */
    const bool is_draining = wire->kind == TR_WIRE_DRAIN && !server->roster->rank[trainer->rank].is_dead;
    if (tr_membership_is_over(trainer->state) && !is_draining) {
        if (wire->leave.has_last)
            tr__initiator_set_last(server, true);
        tr__deaths_drained(server, trainer);
        return TR_OK;
    }
    tr__stream_open(server, trainer, TR__OPEN_DRAIN, is_draining ? wire->seq : 0);
    if (tr_membership_is_over(trainer->state)) {
        tr__server_move(server, trainer, TR_MEMBER_DRAINING);
        tr__server_due(server, TR__RULE_INITIATOR);
        tr__server_due(server, TR__RULE_SNAPSHOT);
        return TR_OK;
    }
    tr__tasks_set_everywhere(server, trainer, wire->leave.everywhere);
    tr__deaths_leave(server, trainer, is_draining);
    return TR_OK;
}

/* TASKS comes at the beginning of a loop, when all servers have the same steps of this trainer. */
static tr_status on_tasks(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)payload;
    (void)is_owned;
    tr__deaths_replaced(server, trainer);
    return tr__tasks_on_tasks(server, trainer, wire);
}

static tr_status on_snapshot(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    return tr__snapshots_on_snapshot(server, trainer, wire, payload, tr__copy_is_freezing(server));
}

static tr_status on_value(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    uint8_t *to = tr__start_value_buffer(server, wire);

    if (!to)
        return server->status;
    memcpy(to, payload, wire->bytes);
    return tr__start_on_value(server, wire);
}

static tr_status on_set(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const tr_status status = tr__sets_on_set(server, trainer, wire, payload);

    if (status == TR_OK && is_owned)
        tr__server_buffer_free(server, payload);
    return status;
}

/* A trainer that begins a step may need the step of one that waits for posts. */
static tr_status on_push(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const bool is_first = !tr__contributions_begun(server, trainer);

    if (is_first)
        tr__board_look(server);
    return tr__contributions_on_push(server, trainer, wire, payload, is_owned);
}

/* SETUP, VALUE, JOIN. A successor of a dead server may get requests that the dead server had taken already. */
static tr_status on_start(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    (void)is_owned;
    if (server->is_running && wire->kind == TR_WIRE_JOIN && trainer->state == TR_MEMBER_VACANT)
        return tr__deaths_on_join(server, trainer, wire, payload);
    if (server->is_running && wire->kind == TR_WIRE_JOIN)
        tr__tasks_join(server, trainer, wire->join.everywhere);
    if (server->is_running)
        return TR_OK;
    if (wire->kind == TR_WIRE_SETUP)
        return tr__start_on_setup(server, trainer, wire, payload);
    if (wire->kind == TR_WIRE_VALUE)
        return on_value(server, wire, payload);
    tr__board_look(server);
    return tr__start_on_join(server, trainer, wire, payload);
}

/* == to the protocols ========================================================================= */

static const tr__handler of_several[] = {
    {TR_WIRE_SETUP, on_start, NULL}, {TR_WIRE_VALUE, on_start, NULL}, {TR_WIRE_JOIN, on_start, NULL},
    {TR_WIRE_PUSH, on_push, tr__contributions_on_push_again}, {TR_WIRE_PUSH_MANY, on_push, tr__contributions_on_push_again},
    {TR_WIRE_PUSH_COMPRESSED, on_push, tr__contributions_on_push_again},
    {TR_WIRE_SET, on_set, NULL}, {TR_WIRE_STEP_END, on_step_end, NULL}, {TR_WIRE_DRAIN, on_leave, NULL}, {TR_WIRE_GOODBYE, on_leave, NULL},
    {TR_WIRE_SNAPSHOT, on_snapshot, NULL}, {TR_WIRE_TASKS, on_tasks, NULL}, {0}};

static const tr__handler *const PROTOCOLS[] = {
    of_several,            tr__pulls_handlers, tr__row_pulls_handlers, tr__rows_handlers,     tr__set_rows_handlers,
    tr__tasks_handlers,    tr__board_handlers, tr__restore_handlers,   tr__row_files_handlers};

void tr__requests_new(tr_server *server)
{
    for (size_t i = 0; i < sizeof PROTOCOLS / sizeof *PROTOCOLS; i++)
        for (const tr__handler *handler = PROTOCOLS[i]; handler->take; handler++)
            server->handler[handler->kind] = handler;
}

/* Handle a request whose turn has come. A push keeps `payload` if it is a buffer of the pool (`is_owned`). */
static tr_status handle(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    const tr__handler *handler = server->handler[wire->kind];

    if (!handler)
        return tr_fail(TR_EFORMAT, "%s sent %s, which is no request", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind));
    return handler->take(server, trainer, wire, payload, is_owned);
}

/* A repeated request: acknowledge it again, and answer it again if it is a question. */
static void repeat(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    const tr__handler *handler = server->handler[wire->kind];

    tr__stream_owe(server, trainer);
    if (handler && handler->repeat)
        handler->repeat(server, trainer, wire, payload);
}

/* == in which order, once ===================================================================== */

/* May a trainer that makes no more steps send this kind? A draining trainer begins snapshots, and repeats its last requests to a successor
 * of a dead server. */
static bool is_allowed_late(const tr__trainer *trainer, tr_wire_kind kind)
{
    return kind == TR_WIRE_POST || kind == TR_WIRE_DRAIN || kind == TR_WIRE_GOODBYE ||
           (kind == TR_WIRE_SNAPSHOT && trainer->state != TR_MEMBER_LOST);
}

/* Take the trainer's next request. Returns whether the payload belongs to the server now. */
static bool take(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    tr__stream_take(server, trainer, wire->seq);
    if (tr_membership_is_over(trainer->state) && !is_allowed_late(trainer, wire->kind)) {
        tr__server_fail(server, tr_fail(TR_EPEER, "%s sent %s after its last step", tr__server_trainer_name(server, trainer),
                                        tr_wire_kind_name(wire->kind)));
        return false;
    }
    /* A post is not part of a snapshot. It is handled even while its trainer is parked, because other trainers may need it before they take
     * part. */
    if (tr__stream_is_parked(server, trainer) && wire->kind != TR_WIRE_POST) {
        tr__stream_defer(server, trainer, wire, payload, is_owned);
        return true;
    }
    const tr_status status = handle(server, trainer, wire, payload, is_owned);
    if (status != TR_OK)
        tr__server_fail(server, status);
    return status == TR_OK && tr_wire_is_push(wire->kind);
}

/* A request that is ahead of its turn is dropped, because the trainer will repeat it. */
static bool receive_from_trainer(tr_server *server, int peer, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    if (wire->kind == TR_WIRE_SERVING_ASK)
        tr__serving_send(server, peer);
    else if (wire->seq <= tr__stream_taken(server, trainer))
        repeat(server, trainer, wire, payload);
    else if (wire->seq == tr__stream_taken(server, trainer) + 1)
        return take(server, trainer, wire, payload, is_owned);
    return false;
}

/* == parked requests ========================================================================== */

/* Handle a deferred request. Its payload is a buffer of the pool. */
static void take_in(tr_server *server, tr__trainer *trainer, const tr__deferred *held)
{
    const bool is_wanted = server->status == TR_OK && tr__server_is_present(trainer);
    tr_status  status = TR_OK;

    if (is_wanted)
        status = handle(server, trainer, &held->wire, held->payload, true);
    if (status != TR_OK)
        tr__server_fail(server, status);
    if (server->status != TR_OK || !is_wanted || !tr_wire_is_push(held->wire.kind))
        tr__server_buffer_free(server, held->payload);
}

static void unpark(tr_server *server, tr__trainer *trainer)
{
    tr__deferred_list list = tr__stream_take_parked(server, trainer);
    tr__deferred     *held;

    while ((held = tr__deferred_take(&list))) {
        if (tr__stream_is_parked(server, trainer))         /* one of its requests was the SNAPSHOT of the next snapshot */
            tr__stream_defer(server, trainer, &held->wire, held->payload, true);
        else
            take_in(server, trainer, held);
        free(held);
    }
}

void tr__requests_unpark(tr_server *server)
{
    for (int i = 0; i < server->trainer_count; i++)
        unpark(server, &server->trainer[i]);
}

/* == from whom ================================================================================ */

void tr__requests_pass_share_on(tr_server *server, uint64_t before)
{
    if (tr_gather_done(server->gather) > before)
        tr__replication_share(server, server->share.to, (uint64_t)server->share.bytes * (uint64_t)server->roster->servers);
}

static void on_share(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    const uint64_t  before = tr_gather_done(server->gather);
    const tr_status status = tr_gather_receive(server->gather, server->updates, peer, wire, payload);

    if (status != TR_OK)
        tr__server_fail(server, status);
    tr__requests_pass_share_on(server, before);
}

/* Messages of other servers, of standbys, and of replacements. */
static void receive_from_rank(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    tr_status status = TR_OK;

    if (wire->kind == TR_WIRE_SERVING_ASK)
        tr__serving_send(server, peer);
    else if (server->status == TR_OK &&
             (wire->kind == TR_WIRE_READY || wire->kind == TR_WIRE_MEMBER || wire->kind == TR_WIRE_SNAPSHOT_NEWS ||
              wire->kind == TR_WIRE_DECISION || wire->kind == TR_WIRE_SERVING))
        status = tr__decisions_on_message(server, peer, wire, payload);
    if (status != TR_OK)
        tr__server_fail(server, status);
}

/* Handle the message if it is not a request of a trainer. Returns true if it is not. */
static bool is_no_request(tr_server *server, int peer, const tr__trainer *trainer, const tr_wire *wire, uint8_t *payload)
{
    const bool is_replica = tr__replication_is_replica(server, peer);

    if (wire->kind == TR_WIRE_SHARE)
        on_share(server, peer, wire, payload);
    else if (is_replica && wire->kind == TR_WIRE_REPLICA_ACK)
        tr__replication_on_ack(server, wire->seq);
    else if (wire->kind == TR_WIRE_REPLICA_STATE)
        tr__copy_on_state(server, peer, wire, payload);
    else if (is_replica)
        return true;
    else if (wire->kind == TR_WIRE_REPLACE_DONE)
        tr__deaths_on_done(server, peer, &wire->replace_done);
    else if (wire->kind == TR_WIRE_REPLACE_CALL)
        return true;                               /* the call was meant for this rank as a standby */
    else if (!trainer)
        receive_from_rank(server, peer, wire, payload);
    else
        return false;
    return true;
}

/* Refuse a process that was declared dead and comes back; after a failure of the core, refuse every trainer. Returns whether the message is
 * refused. */
static bool is_refused(tr_server *server, int peer, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->incarnation != trainer->incarnation)
        tr__server_refuse(server, peer, wire->incarnation);
    else if (server->status != TR_OK)
        tr__server_send_failure(server, trainer);
    else
        return false;
    return true;
}

/* A carrier may still have messages of a process that is dead, or has been replaced. */
static bool is_late(tr_server *server, int peer, const tr_wire *wire)
{
    const tr__trainer *trainer = tr__server_trainer_of(server, peer);

    return wire->carrier && (server->roster->rank[peer].is_dead || !trainer || wire->incarnation != trainer->incarnation);
}

static bool is_sum_of_rows(const tr_wire *wire)
{
    return wire->kind == TR_WIRE_PUSH_ROWS && wire->push_rows.part == TR_PART_FIRST;
}

static void take_sum(tr_server *server, const tr__trainer *first, const tr_wire *wire, const uint8_t *payload, bool is_owned)
{
    uint8_t *kept = is_owned ? (uint8_t *)(uintptr_t)payload : tr__server_buffer_new(server, wire->bytes + 1);

    if (!is_owned && wire->bytes)
        memcpy(kept, payload, wire->bytes);
    const tr_status status = tr__rows_take_sum(server, first, wire, kept);
    if (status != TR_OK)
        tr__server_fail(server, status);
}

/* The trainer in whose place a carrier sends the sum of its host group, if that process is dead (late); else NULL. */
static tr__trainer *trainer_of_late_sum(tr_server *server, int peer, const tr_wire *wire)
{
    const tr_roster *roster = server->roster;
    const bool       is_sum = is_sum_of_rows(wire) || (tr__push_is_dense(wire->kind) && tr__push_part(wire) == TR_PART_FIRST);
    const tr__trainer *carrier = is_sum && is_late(server, peer, wire) ? tr__server_trainer_of(server, (int)wire->carrier - 1) : NULL;

    return carrier && server->is_running && server->status == TR_OK ? &server->trainer[roster->group_first[carrier->index]] : NULL;
}

/* Nothing more is heard of such a process. But sums are of others, too. */
static void receive_late(tr_server *server, int peer, const tr_wire *wire, uint8_t *payload, bool is_direct)
{
    tr__trainer *first = trainer_of_late_sum(server, peer, wire);

    if (first && is_sum_of_rows(wire)) {
        take_sum(server, first, wire, payload, is_direct);
        return;
    }
    if (first && !is_direct)
        payload = memcpy(tr__server_buffer_new(server, wire->bytes), payload, wire->bytes);
    if (first)
        tr__contributions_on_late_sum(server, first, wire, payload);
    else if (is_direct)
        tr__server_buffer_free(server, payload);
}

void tr__requests_receive(tr_server *server, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr__trainer *trainer = tr__server_trainer_of(server, peer);
    /* Is the payload a buffer of the pool, and not the driver's or a place in a sum? */
    bool         is_owned = is_direct && !tr__contributions_is_buffer(server, trainer, wire, payload), is_taken = false;
    tr_wire      rest;

    if (is_late(server, peer, wire)) {
        receive_late(server, peer, wire, payload, is_direct);
        return;
    }
    if (is_sum_of_rows(wire) && trainer && server->is_running && server->status == TR_OK && wire->incarnation == trainer->incarnation) {
        take_sum(server, trainer, wire, payload, is_owned);
        rest = *wire;                              /* the request that brought it has no payload any more */
        rest.bytes = 0;
        wire = &rest;
        payload = NULL;
        is_owned = false;
    }
    if (!is_no_request(server, peer, trainer, wire, payload) && !is_refused(server, peer, trainer, wire))
        is_taken = receive_from_trainer(server, peer, trainer, wire, payload, is_owned);
    if (is_owned && !is_taken)
        tr__server_buffer_free(server, payload);
}

void *tr__requests_receive_buffer(tr_server *server, int peer, const tr_wire *wire)
{
    const tr__trainer *trainer = tr__server_trainer_of(server, peer);

    if (wire->kind == TR_WIRE_SHARE || wire->kind == TR_WIRE_DECISION || wire->kind == TR_WIRE_REPLICA_STATE)
        return tr__server_buffer_new(server, wire->bytes);
    if (is_late(server, peer, wire))
        return trainer_of_late_sum(server, peer, wire) ? tr__server_buffer_new(server, wire->bytes) : NULL;
    if (!trainer)
        return NULL;
    /* An unwanted message must still be received, so that its sender gets a refusal. */
    const bool is_used = wire->incarnation == trainer->incarnation && server->status == TR_OK;
    if (is_used && wire->kind == TR_WIRE_PUSH && !tr__stream_is_parked(server, trainer) &&
        wire->seq > tr__stream_taken(server, trainer)) {
        uint8_t *sum = tr__contributions_receive_buffer(server, trainer, wire);
        if (sum)
            return sum;
    }
    return tr__server_buffer_new(server, wire->bytes);
}
