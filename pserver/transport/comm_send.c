/* comm_send.c - sends the core's messages and this rank's own, to each peer through a queue of its own. */
#include "pserver/observe/trace.h"
#include "pserver/transport/comm_state.h"
#include "pserver/wire/bundle.h"

/* A heartbeat wakes nobody: its receiver finds it after its nap, long before it would count as missing. */
static void note_to_ring(tr_comm *comm, const tr_message *message)
{
    const int peer = message->peer;

    if (message->wire.kind == TR_WIRE_BEAT)
        return;
    comm->peer[peer].has_news |= !message->is_receipt;
    if (!comm->peer[peer].bell || comm->peer[peer].is_due)
        return;
    comm->peer[peer].is_due = true;
    comm->bells.due_since = comm->bells.due_count ? comm->bells.due_since : comm->now;
    comm->bells.due[comm->bells.due_count++] = peer;
}

/* Also the messages in a bundle: the trace of the receiver has them, too. */
static void trace(const tr_comm *comm, const tr_message *message)
{
    tr_wire        inside;
    const uint8_t *payload;

    tr_trace_message(comm->now, comm->roster->self, true, message->peer, &message->wire);
    if (message->wire.kind != TR_WIRE_BUNDLE)
        return;
    tr_bundle_reader reader = tr_bundle_open(message->payload, &message->wire);
    while (tr_bundle_next(&reader, &inside, &payload))
        tr_trace_message(comm->now, comm->roster->self, true, message->peer, &inside);
}

static bool hand_over(tr_comm *comm, const tr_message *message)
{
    uint8_t header[TR_WIRE_HEADER];

    tr_wire_encode(header, &message->wire);
    if (!comm->table->send(comm->transport, message->peer, header, message->payload, (int64_t)message->wire.bytes,
                           tr__token_of(message)))
        return false;
    if (tr_trace_has_messages())
        trace(comm, message);
    note_to_ring(comm, message);
    tr_liveness_sent(comm->liveness, message->peer, comm->now);
    if (message->wire.kind == TR_WIRE_BUNDLE)
        tr_traffic_add(&comm->sent, TR_WIRE_BUNDLE, TR_WIRE_HEADER);
    else
        tr_traffic_add(&comm->sent, message->wire.kind, TR_WIRE_HEADER + (int64_t)message->wire.bytes);
    return true;
}

static void ring_armed(const tr_comm *comm, tr_doorbell *bell)
{
    const unsigned who = tr_doorbell_disarm(bell);
    if (who)
        comm->machine.ring(comm->machine.self, &bell->rings, who);
}

/* Ring the receivers of messages. This happens when MPI has all messages of the turn. Receivers on other processors come first, because
 * a receiver on this processor takes it from this thread and keeps it while it computes.
 *
 * An acknowledgement wakes only a receiver that waits for one: a bit of the armed doorbell says so. The receiver sets the bit by its
 * state after the last turn, then it looks once more, and arms anew if the state has changed. All other messages wake a receiver in any
 * case, so no ring is lost. */
void tr__comm_ring(tr_comm *comm, bool has_more)
{
    int near = 0;

    if (!comm->bells.due_count)
        return;
    const int here = comm->machine.processor(comm->machine.self);
    atomic_thread_fence(memory_order_seq_cst);     /* order the messages before the rings: a reader arms its doorbell, then looks */
    for (int i = 0; i < comm->bells.due_count; i++) {
        const int    peer = comm->bells.due[i];
        tr_doorbell *bell = comm->peer[peer].bell;
        const bool   is_armed = tr_doorbell_is_armed(bell, !comm->peer[peer].has_news),
                     is_near = is_armed && tr_doorbell_is_near(bell, here);
        if (is_near)
            comm->bells.due[near++] = peer;
        if (is_near && has_more)
            continue;
        comm->peer[peer].is_due = comm->peer[peer].has_news = false;
        if (is_armed && !is_near)
            ring_armed(comm, bell);
    }
    for (int i = 0; i < near && !has_more; i++)
        ring_armed(comm, comm->peer[comm->bells.due[i]].bell);
    comm->bells.due_count = has_more ? near : 0;
}

void tr__comm_post_message(tr_comm *comm, const tr_message *message)
{
    tr_outbox *out = &comm->peer[message->peer].out;

    if (out->count || !hand_over(comm, message)) {
        tr_outbox_put(out, message);
        comm->out_waiting++;
    }
}

void tr__comm_send(tr_comm *comm, int peer, tr_wire_kind kind, void *payload, uint64_t bytes)
{
    const tr_message message = {
        .peer = peer, .payload = payload, .owned = payload,
        .wire = {.kind = kind, .sender = (uint32_t)comm->roster->self, .incarnation = comm->options.incarnation, .bytes = bytes}};
    tr__comm_post_message(comm, &message);
}

int tr__comm_send_waiting(tr_comm *comm)
{
    int count = 0;

    if (comm->out_waiting && comm->has_node && comm->node.awaits_loans && comm->node.awaits_loans(comm->node.self))
        for (int i = 0; i < comm->roster->size; i++)
            tr_outbox_give_back(&comm->peer[i].out);
    for (int i = 0; comm->out_waiting && i < comm->roster->size; i++) {
        tr_outbox *out = &comm->peer[i].out;
        while (out->count && hand_over(comm, &out->item[out->first])) {
            tr_message message;
            tr_outbox_take(out, &message);
            comm->out_waiting--;
            count++;
        }
    }
    return count;
}

static bool next_of_core(tr_comm *comm, tr_message *message)
{
    tr__comm_away(comm);
    const bool has_one = comm->node.next && comm->node.next(comm->node.self, message);
    tr__comm_back(comm);
    return has_one;
}

int tr__comm_send_core(tr_comm *comm)
{
    tr_message message;
    int        count = 0;

    while (comm->has_node && next_of_core(comm, &message)) {
        tr__comm_gather(comm, &message);
        count++;
    }
    tr__comm_send_gathered(comm);
    return count;
}
