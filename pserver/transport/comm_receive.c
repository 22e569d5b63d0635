/* comm_receive.c - callbacks of the transport. A header has come; a message is complete; a message of this rank was sent; a rank is
 * dead. All of them run on the driver's thread. */
#include "framework/base/memory.h"
#include "pserver/observe/trace.h"
#include "pserver/transport/comm_state.h"
#include "pserver/wire/bundle.h"

#include "proto/pserver.pb-c.h"

#include <stdlib.h>
#include <string.h>

/* A message may come through another trainer of its sender's host, or of this one (carrier.h). Which rank is it from, for the core? The
 * rank that carries it on gets it from its peer. -1: nobody may send such a message. */
static int origin_of(const tr_comm *comm, int peer, tr_wire *wire)
{
    const tr_roster *roster = comm->roster;
    const int        size = roster->size, sender = (int)wire->sender, receiver = (int)wire->receiver - 1;

    if (!wire->receiver)
        return peer;
    if (!comm->has_node || !wire->seq || wire->sender >= (uint32_t)size || wire->receiver > (uint32_t)size || sender == receiver)
        return -1;
    if (receiver != roster->self)                  /* this rank is to carry it on */
        return roster->rank[roster->self].role == TR_ROLE_TRAINER ? peer : -1;
    if (sender == peer)
        return peer;
    wire->carrier = (uint32_t)peer + 1;
    return tr_roster_share_host(roster, peer, sender) || tr_roster_share_host(roster, peer, receiver) ? sender : -1;
}

static int64_t on_header(void *self, int peer, const uint8_t *header, void **to)
{
    tr_comm *comm = self;
    tr_wire  wire;

    *to = NULL;
    if (tr_wire_decode(&wire, header) != TR_OK) {
        tr__comm_failed(comm, TR_EFORMAT, peer, tr_error());
        return -1;
    }
    const int origin = origin_of(comm, peer, &wire);
    if (wire.bytes && origin >= 0) {
        if (wire.kind == TR_WIRE_BUNDLE)
            *to = tr__comm_bundle_begin(comm);
        else if (tr_wire_is_of_loop(wire.kind) || wire.kind == TR_WIRE_SERVING || !comm->has_node)
            *to = tr__must_aligned(wire.bytes);
        else if (comm->node.receive_buffer)
            *to = comm->node.receive_buffer(comm->node.self, origin, &wire);
    }
    return (int64_t)wire.bytes;
}

static void keep_for_later(tr_comm *comm, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    tr__early *early = tr__must_bytes(sizeof *early);

    if (!is_direct && wire->bytes) {
        void *copy = tr__must_aligned(wire->bytes);
        memcpy(copy, payload, wire->bytes);
        payload = copy;
    }
    *early = (tr__early){NULL, peer, *wire, payload};
    *comm->early_end = early;
    comm->early_end = &early->next;
}

static void on_hello(tr_comm *comm, int peer, const uint8_t *payload, uint64_t bytes)
{
    const tr_status status = tr_roster_on_hello(comm->roster, peer, payload, bytes);

    if (status != TR_OK)
        tr__comm_failed(comm, status, comm->roster->self, tr_error());
}

/* A goodbye: from now on the rank counts as left, unless it was dead before. */
static void on_bye(tr_comm *comm, int peer)
{
    tr_liveness_left(comm->liveness, peer);
    tr_rank *r = &comm->roster->rank[peer];
    r->has_left = tr_liveness_of(comm->liveness, peer) == TR_LIFE_LEFT;
    if (r->has_left && comm->has_node && comm->node.left) {
        tr__comm_away(comm);
        comm->node.left(comm->node.self, peer);
        tr__comm_back(comm);
        tr__comm_check_core(comm, comm->roster->self);
    }
}

static void trace(const tr_comm *comm, int peer, const tr_wire *wire)
{
    if (tr_trace_has_messages())
        tr_trace_message(comm->now, comm->roster->self, false, peer, wire);
}

/* Messages between the ranks' event loops. */
static void receive_own(tr_comm *comm, int peer, const tr_wire *wire, void *payload, bool is_direct)
{
    trace(comm, peer, wire);
    if (wire->kind == TR_WIRE_HELLO)
        on_hello(comm, peer, payload, wire->bytes);
    else if (wire->kind == TR_WIRE_BYE)
        on_bye(comm, peer);
    else if (wire->kind == TR_WIRE_ABORT)
        tr__comm_on_abort(comm, peer, payload, wire->bytes);
    if (is_direct)
        free(payload);
}

/* Tell the launcher that these deaths are the reason of the failure, so that it starts the job again. */
static void tell_deaths(const tr_comm *comm)
{
    for (int i = 0; i < comm->roster->size; i++)
        if (comm->roster->rank[i].is_dead)
            comm->machine.tell(comm->machine.self, TR_NOTICE_DIED, i, "died");
}

void tr__comm_check_core(tr_comm *comm, int peer)
{
    const char     *text;
    const tr_status status = comm->node.status(comm->node.self, &text);

    if (status == TR_OK || comm->said_bye)         /* a rank that has said goodbye needs no other rank */
        return;
    /* When does a core fail with EPEER? A trainer's core does when a server refuses it, or when no standby takes a dead server's place.
     * A server's core does when it refuses a trainer, or some time after a death without a replacement. */
    const bool is_trainer = comm->roster->rank[comm->roster->self].role == TR_ROLE_TRAINER, is_refused = is_trainer && status == TR_EPEER;
    if (status == TR_EPEER && (!is_trainer || peer == comm->roster->self))
        tell_deaths(comm);
    tr__comm_failed(comm, status, is_refused ? peer : comm->roster->self, text);
}

/* A standby has taken a server's place. */
static void see_server(tr_comm *comm, int peer, const uint8_t *payload, int64_t bytes)
{
    Trireme__Pserver__Serving *serving = trireme__pserver__serving__unpack(NULL, (size_t)bytes, payload);
    tr_roster                 *roster = comm->roster;

    if (serving && comm->has_node && serving->server < (uint32_t)roster->servers &&
        roster->rank[peer].role == TR_ROLE_STANDBY && roster->server_rank[serving->server] != peer)
        tr_roster_replace_server(roster, (int)serving->server, peer);
    if (serving)
        trireme__pserver__serving__free_unpacked(serving, NULL);
}

/* A standby has replaced a trainer. If this rank was that trainer, it ends. */
static void see_replacement(const tr_comm *comm, int peer, const tr_wire *wire)
{
    tr_roster     *roster = comm->roster;
    const uint32_t trainer = wire->replace_done.trainer;

    if (!comm->has_node || trainer >= (uint32_t)roster->trainers)
        return;
    const int before = roster->trainer_rank[trainer];
    if (tr_roster_replace_trainer(roster, (int)trainer, peer, wire->replace_done.called) && before == roster->self)
        comm->machine.end(comm->machine.self, TR_RANK_IS_DEAD, 0);      /* this rank was declared dead while it slept: no message of it may
                                                                         * reach the job */
}

/* A standby has become a server's replica. */
static void see_replica(tr_comm *comm, int peer, const tr_wire *wire)
{
    if (comm->has_node && wire->server.server < (uint32_t)comm->roster->servers)
        tr_roster_set_replica(comm->roster, (int)wire->server.server, peer);
}

/* A message for the core, by itself or in a bundle. */
static void receive_for_core(tr_comm *comm, int from, tr_wire *wire, void *payload, bool is_direct)
{
    const int peer = origin_of(comm, from, wire);

    if (peer < 0) {
        tr__comm_failed(comm, TR_EFORMAT, from, "a message is to be carried, or was carried, between ranks that it does not concern");
        return;
    }
    trace(comm, from, wire);
    if (wire->kind == TR_WIRE_SERVING)
        see_server(comm, peer, payload, (int64_t)wire->bytes);
    if (wire->kind == TR_WIRE_REPLACE_DONE)
        see_replacement(comm, peer, wire);
    if (wire->kind == TR_WIRE_REPLICA_DONE)
        see_replica(comm, peer, wire);
    if (wire->kind == TR_WIRE_REPLACED)
        comm->machine.end(comm->machine.self, TR_RANK_IS_DEAD, 0);      /* this rank was declared dead while it slept: no message of it may
                                                                         * reach the job */
    if (!comm->has_node) {
        keep_for_later(comm, peer, wire, payload, is_direct);
        return;
    }
    const bool is_ours = is_direct && wire->kind == TR_WIRE_SERVING;
    tr__comm_away(comm);
    comm->node.receive(comm->node.self, comm->now, peer, wire, payload, is_direct && !is_ours);
    tr__comm_back(comm);
    if (is_ours)
        free(payload);
    tr__comm_check_core(comm, peer);
}

static void receive_bundle(tr_comm *comm, int peer, const tr_wire *wire, uint8_t *payload, bool is_direct)
{
    tr_bundle_reader reader = tr_bundle_open(payload, wire);
    tr_wire          inside;
    const uint8_t   *data;

    trace(comm, peer, wire);
    while (tr_bundle_next(&reader, &inside, &data)) {
        tr_traffic_add_bundled(&comm->received, inside.kind, (int64_t)tr_bundle_size(inside.bytes));
        receive_for_core(comm, peer, &inside, (uint8_t *)(uintptr_t)data, false);
    }
    if (reader.status != TR_OK)
        tr__comm_failed(comm, TR_EFORMAT, peer, tr_error());
    if (is_direct)
        tr__comm_bundle_end(payload);
}

static void on_receive(void *self, int peer, const uint8_t *header, void *payload, int64_t bytes, bool is_direct)
{
    tr_comm *comm = self;
    tr_wire  wire;

    if (tr_wire_decode(&wire, header) != TR_OK || (int64_t)wire.bytes != bytes) {
        tr__comm_failed(comm, TR_EFORMAT, peer, "a message has another size than its header says");
        return;
    }
    const bool is_bundle = wire.kind == TR_WIRE_BUNDLE;
    tr_liveness_heard(comm->liveness, peer, comm->now);
    tr_traffic_add(&comm->received, wire.kind, TR_WIRE_HEADER + (is_bundle ? 0 : bytes));
    if (is_bundle)
        receive_bundle(comm, peer, &wire, payload, is_direct);
    else if (tr_wire_is_of_loop(wire.kind))
        receive_own(comm, peer, &wire, payload, is_direct);
    else
        receive_for_core(comm, peer, &wire, payload, is_direct);
}

static void on_sent(void *self, void *token)
{
    (void)self;
    if ((uintptr_t)token & 1)
        ((tr_loan *)(void *)((char *)token - 1))->readers--;
    else
        free(token);
}

static void on_dead(void *self, int peer)
{
    tr__comm_gone(self, peer, "died");
}

tr_transport_events tr__comm_events(tr_comm *comm)
{
    return (tr_transport_events){comm, on_header, on_receive, on_sent, on_dead};
}

void tr__comm_receive_early(tr_comm *comm)
{
    while (comm->early) {
        tr__early *early = comm->early;
        comm->early = early->next;
        tr__comm_away(comm);
        comm->node.receive(comm->node.self, comm->now, early->peer, &early->wire, early->payload, false);
        tr__comm_back(comm);
        tr__comm_check_core(comm, early->peer);
        free(early->payload);
        free(early);
    }
}
