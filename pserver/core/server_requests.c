/* server_requests.c - requests of trainers as they arrive: the sender's epoch is checked, each request is taken once and in order, and is handed to the
 * protocol that it belongs to. */
#include "pserver/core/server_board.h"
#include "pserver/core/server_state.h"
#include "pserver/core/server_tasks.h"

#include <string.h>

void *tr__server_place(void *self, int peer, const tr_wire *wire)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);

    if (wire->kind == TR_WIRE_SHARE || wire->kind == TR_WIRE_DECISION || wire->kind == TR_WIRE_REPLICA_STATE)
        return tr__server_buffer_new(server, wire->bytes);
    if (!trainer)
        return NULL;
    /* What is not used is taken, too: who sends it is to be refused. */
    const bool is_used = wire->epoch == trainer->epoch && server->status == TR_OK;
    if (is_used && wire->kind == TR_WIRE_PUSH && !trainer->is_parked) {
        uint8_t *sum = wire->seq > trainer->accepted ? tr__server_push_place(server, trainer, wire) : NULL;
        if (sum)
            return sum;
    }
    return tr__server_buffer_new(server, wire->bytes);
}

static bool is_of_start(tr_wire_kind kind)
{
    return kind == TR_WIRE_SETUP || kind == TR_WIRE_VALUE || kind == TR_WIRE_JOIN;
}

static tr_status set_up(tr_server *server, const tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    if (trainer != &server->trainer[0])
        return tr_fail(TR_EPEER, "%s: only trainer 0 says what is to be done", tr__server_trainer_name(server, trainer));
    return tr__server_on_setup(server, wire, payload);
}

static tr_status keep_value(tr_server *server, const tr_wire *wire, const uint8_t *payload)
{
    uint8_t *to = tr__server_value_place(server, wire);

    if (!to)
        return server->status;
    memcpy(to, payload, wire->bytes);
    return tr__server_on_value(server, wire);
}

tr_status tr__server_handle(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    if (tr__server_is_task(wire))
        return tr__server_on_task(server, trainer, wire, server->now);
    if (server->is_running && wire->kind == TR_WIRE_JOIN && trainer->state == TR_MEMBER_VACANT)
        return tr__server_on_replacement_join(server, trainer, wire, payload);
    if (server->is_running && wire->kind == TR_WIRE_JOIN)
        tr__server_tasks_join(server, trainer, wire->join.everywhere);
    if (server->is_running && is_of_start(wire->kind))
        return TR_OK;                              /* the server that died had it, and died before it said so */
    switch (wire->kind) {
    case TR_WIRE_SETUP:
        return set_up(server, trainer, wire, payload);
    case TR_WIRE_VALUE:
        return keep_value(server, wire, payload);
    case TR_WIRE_JOIN:
        return tr__server_on_join(server, trainer, wire, payload);
    case TR_WIRE_PUSH:
    case TR_WIRE_PUSH_MANY:
    case TR_WIRE_PUSH_COMPRESSED:
        return tr__server_on_push(server, trainer, wire, payload, is_owned);
    case TR_WIRE_STEP_END:
        return tr__server_on_step_end(server, trainer, wire);
    case TR_WIRE_PULL:
        return tr__server_on_pull(server, trainer, wire, payload);
    case TR_WIRE_PUSH_ROWS:
        return tr__server_on_push_rows(server, trainer, wire, payload, is_owned);
    case TR_WIRE_WRITE_ROWS:
        return tr__server_on_write_rows(server, trainer, wire, payload);
    case TR_WIRE_READ_ROWS:
    case TR_WIRE_PULL_ROWS:
        return tr__server_on_pull_rows(server, trainer, wire, payload);
    case TR_WIRE_DRAIN:
    case TR_WIRE_GOODBYE:
        return tr__server_on_goodbye(server, trainer, wire, payload);
    case TR_WIRE_SNAPSHOT:
    case TR_WIRE_SNAPSHOT_OVER:
        return tr__server_on_snapshot(server, trainer, wire, payload);
    case TR_WIRE_POST:
        return tr__server_on_post(server, trainer, wire, payload);
    default:
        return tr_fail(TR_EFORMAT, "%s sent %s, which is no request", tr__server_trainer_name(server, trainer),
                       tr_wire_kind_name(wire->kind));
    }
}

/* == from whom ================================================================================ */

/* From other servers, and from ranks that wait, or were declared dead. */
static void hear_rank(tr_server *server, int peer, const tr_wire *wire, const uint8_t *payload)
{
    tr_status status = TR_OK;

    if (wire->kind == TR_WIRE_SERVING_ASK)
        tr__server_say_serving(server, peer);
    else if (server->status == TR_OK &&
             (wire->kind == TR_WIRE_READY || wire->kind == TR_WIRE_DECISION || wire->kind == TR_WIRE_SERVING))
        status = tr__server_on_peer(server, peer, wire, payload);
    if (status != TR_OK)
        tr__server_fail(server, status);
}

/* What is no request of a trainer, whoever says it. */
static bool is_no_request(tr_server *server, int peer, const tr__trainer *trainer, const tr_wire *wire, uint8_t *payload)
{
    if (wire->kind == TR_WIRE_SHARE)
        tr__server_on_share(server, peer, wire, payload);
    else if (tr__server_replica_done(server, peer))
        tr__server_replication_receive(server, wire, payload);
    else if (wire->kind == TR_WIRE_REPLICA_STATE)
        tr__server_replication_adopt(server, peer, wire, payload);
    else if (wire->kind == TR_WIRE_REPLICA_CALL || wire->kind == TR_WIRE_REPLICA_DONE)
        tr__server_standby_died(server);
    else if (wire->kind == TR_WIRE_REPLACE_CALL || wire->kind == TR_WIRE_REPLACE_DONE || wire->kind == TR_WIRE_REPLACE_WANT)
        tr__server_on_replacement(server, peer, wire);
    else if (!trainer)
        hear_rank(server, peer, wire, payload);
    else
        return false;
    return true;
}

/* A process that was declared dead and comes back is told so, and nothing of it is used; nor of anybody when the job has failed. */
static bool is_refused(tr_server *server, int peer, const tr__trainer *trainer, const tr_wire *wire)
{
    if (wire->epoch != trainer->epoch)
        tr__server_refuse(server, peer, wire->epoch);
    else if (server->status != TR_OK)
        tr__server_say_failed(server, trainer);
    else
        return false;
    return true;
}

/* == in which order, once ======================================================================= */

/* What was taken in before is acknowledged again, and answered again. */
static void hear_again(tr_server *server, tr__trainer *trainer, const tr_wire *wire, const uint8_t *payload)
{
    trainer->owes_ack = true;
    if (wire->kind == TR_WIRE_PULL)
        tr__server_pull_again(server, trainer, wire, payload);
    else if (wire->kind == TR_WIRE_PULL_ROWS || wire->kind == TR_WIRE_READ_ROWS)
        tr__server_pull_rows_again(server, trainer, wire, payload);
    else if (wire->kind == TR_WIRE_TASK_ASK)
        tr__server_task_again(server, trainer, wire);
    else if (wire->kind == TR_WIRE_POST)
        tr__server_post_again(server, trainer, wire);
}

/* Of who stays a checkpoint; and a server that has taken a dead one's place hears again what that one had heard last. */
static bool may_come_late(const tr__trainer *trainer, tr_wire_kind kind)
{
    return kind == TR_WIRE_POST || kind == TR_WIRE_DRAIN || kind == TR_WIRE_GOODBYE ||
           ((kind == TR_WIRE_SNAPSHOT || kind == TR_WIRE_SNAPSHOT_OVER) && trainer->state != TR_MEMBER_LOST);
}

/* A post is in no snapshot, and others may wait for it before they take part. */
static bool goes_on_while_parked(tr_wire_kind kind)
{
    return kind == TR_WIRE_POST || kind == TR_WIRE_SNAPSHOT_OVER;
}

/* The trainer's next request. Returns whether `payload` is taken over. */
static bool take(tr_server *server, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    trainer->accepted = wire->seq;
    trainer->owes_ack = true;
    if (tr_membership_is_over(trainer->state) && !may_come_late(trainer, wire->kind)) {
        tr__server_fail(server, tr_fail(TR_EPEER, "%s sent %s after its last step", tr__server_trainer_name(server, trainer),
                                        tr_wire_kind_name(wire->kind)));
        return false;
    }
    if (trainer->is_parked && !goes_on_while_parked(wire->kind)) {
        tr__server_hold(server, &trainer->parked_end, wire, payload, is_owned);
        return true;
    }
    const bool      is_push = tr_wire_is_push(wire->kind);
    const tr_status status = tr__server_handle(server, trainer, wire, payload, is_owned);
    if (status != TR_OK)
        tr__server_fail(server, status);
    return status == TR_OK && is_push;
}

/* The same of anything that a trainer sends. What is ahead of its turn comes again. */
static bool hear_trainer(tr_server *server, int peer, tr__trainer *trainer, const tr_wire *wire, uint8_t *payload, bool is_owned)
{
    if (wire->kind == TR_WIRE_SERVING_ASK)
        tr__server_say_serving(server, peer);
    else if (wire->seq <= trainer->accepted)
        hear_again(server, trainer, wire, payload);
    else if (wire->seq == trainer->accepted + 1)
        return take(server, trainer, wire, payload, is_owned);
    return false;
}

void tr__server_receive(void *self, int64_t now, int peer, const tr_wire *wire, void *payload, bool is_placed)
{
    tr_server   *server = self;
    tr__trainer *trainer = tr__server_trainer_of(server, peer);
    /* Does the payload belong to us (and not to the driver, nor to the sum)? */
    const bool   is_owned = is_placed && !tr__server_is_sum(server, trainer, wire, payload);
    bool         is_taken = false;

    server->now = now;
    if (!is_no_request(server, peer, trainer, wire, payload) && !is_refused(server, peer, trainer, wire))
        is_taken = hear_trainer(server, peer, trainer, wire, payload, is_owned);
    if (is_owned && !is_taken)
        tr__server_buffer_free(server, payload);
}
