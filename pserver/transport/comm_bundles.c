/* comm_bundles.c - small messages of the core to one peer leave together, in a BUNDLE (bundle.h).
 *
 * A message costs each side some microseconds, whatever its size. A trainer with many tables has hundreds of small messages a step. So the
 * messages that the core has at one time are gathered for each peer. A message that stays alone leaves as it is, without a copy. So does a
 * large one, or a part of a large value, behind those gathered before it: a peer gets all messages in their order.
 *
 * The buffers of bundles, sent and received, are kept and used again. A buffer that is in use has a reader.
 *
 * What must stay true: nothing stays gathered between two turns. */
#include "framework/base/memory.h"
#include "pserver/transport/comm_state.h"
#include "pserver/wire/bundle.h"

#include <stddef.h>
#include <stdlib.h>

uint8_t *tr__comm_bundle_begin(tr_comm *comm)
{
    tr__bundle *b = comm->bundles;

    while (b && b->loan.readers)
        b = b->next;
    if (!b) {
        b = tr__must_aligned(sizeof *b);
        b->loan = (tr_loan){0};
        b->next = comm->bundles;
        comm->bundles = b;
    }
    b->loan.readers = 1;
    return b->payload;
}

static tr__bundle *bundle_of(uint8_t *payload)
{
    return (tr__bundle *)(void *)(payload - offsetof(tr__bundle, payload));
}

void tr__comm_bundle_end(uint8_t *payload)
{
    bundle_of(payload)->loan.readers = 0;
}

void tr__comm_free_bundles(tr_comm *comm)
{
    while (comm->bundles) {
        tr__bundle *b = comm->bundles;
        comm->bundles = b->next;
        free(b);
    }
}

/* Send what is gathered for a peer. */
static void close_bundle(tr_comm *comm, int peer)
{
    tr__gathered *g = &comm->peer[peer].gathered;
    tr_message    message = g->first;

    if (!g->count)
        return;
    if (g->count > 1)
        message = (tr_message){
            .peer = peer, .payload = g->payload, .loan = &bundle_of(g->payload)->loan, .is_receipt = !g->has_news,
            .wire = {.kind = TR_WIRE_BUNDLE, .sender = (uint32_t)comm->roster->self, .incarnation = comm->options.incarnation,
                     .bytes = g->bytes, .bundle = {.count = g->count}}};
    *g = (tr__gathered){.is_listed = g->is_listed};
    tr__comm_post_message(comm, &message);
}

static void put(tr_comm *comm, tr__gathered *g, const tr_message *message)
{
    const uint64_t size = tr_bundle_put(g->payload + g->bytes, &message->wire, message->payload);

    g->bytes += size;
    g->has_news |= !message->is_receipt;
    tr_traffic_add_bundled(&comm->sent, message->wire.kind, (int64_t)size);
    tr_message_over(message);
}

static void list(tr_comm *comm, int peer)
{
    if (comm->peer[peer].gathered.is_listed)
        return;
    comm->peer[peer].gathered.is_listed = true;
    comm->gathering[comm->gathering_count++] = peer;
}

void tr__comm_gather(tr_comm *comm, const tr_message *message)
{
    tr__gathered  *g = &comm->peer[message->peer].gathered;
    const uint64_t size = tr_bundle_size(message->wire.bytes);

    const bool     is_taken = tr_bundle_takes(&message->wire);

    if (!is_taken || g->bytes + size > TR_LIMIT_BUNDLE)
        close_bundle(comm, message->peer);
    if (!is_taken) {
        tr__comm_post_message(comm, message);
        return;
    }
    if (g->count == 1) {
        g->payload = tr__comm_bundle_begin(comm);
        put(comm, g, &g->first);
    }
    if (g->count)
        put(comm, g, message);
    else
        g->first = *message;
    g->count++;
    list(comm, message->peer);
}

void tr__comm_send_gathered(tr_comm *comm)
{
    for (int i = 0; i < comm->gathering_count; i++) {
        close_bundle(comm, comm->gathering[i]);
        comm->peer[comm->gathering[i]].gathered.is_listed = false;
    }
    comm->gathering_count = 0;
}
