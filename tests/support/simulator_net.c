/* simulator_net.c - messages between simulated ranks, moved as transport_mpi.c moves them. Each poll reads one header from each peer. A
 * large payload follows when its place is known. A rank that MPI declares dead is dropped, with all of its messages under way. */
#include "tests/support/simulator_state.h"

#include "framework/base/memory.h"
#include "pserver/wire/bundle.h"
#include "storage/util/little_endian.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { INLINE_MAX = 4032, RECV_DEPTH = 8, SEND_DEPTH = 32 };

/* == parcels ================================================================================== */

static tr__parcel *parcel_new(int from, int to, const uint8_t *header, const void *payload, int64_t bytes, void *token, bool copies)
{
    tr__parcel *p = tr__must_bytes(sizeof *p + (copies ? (size_t)bytes : 0));

    *p = (tr__parcel){.from = from, .to = to, .payload = payload, .bytes = bytes, .token = token, .is_large = bytes > INLINE_MAX};
    memcpy(p->header, header, sizeof p->header);
    if (copies && bytes)
        p->payload = memcpy(p + 1, payload, (size_t)bytes);
    return p;
}

/* Remember memory that a reader has set aside for a payload that never came. With MPI, too, a rank that drops its peer leaves the memory of its open receives
 * to MPI, and never frees it. Programs that look for leaks find it here. */
static void abandon(void *place)
{
    static void **places;
    static size_t count;

    places = tr__must_realloc(places, (count + 1) * sizeof *places);
    places[count++] = place;
}

void tr__sim_release(tr__parcel *p)
{
    if (--p->holders)
        return;
    if (p->is_large && p->to_place)
        abandon(p->to_place);
    free(p);
}

#define RING_AT(ring, i) ((ring)->item[((ring)->first + (i)) & ((ring)->capacity - 1)])

#define RING_PUT(ring, parcel)                                                                               \
    do {                                                                                                     \
        if ((ring)->count == (ring)->capacity) {                                                             \
            const unsigned room_ = (ring)->capacity ? 2 * (ring)->capacity : 8;                              \
            tr__parcel   **item_ = tr__must_bytes(room_ * sizeof *item_);                                    \
            for (unsigned i_ = 0; i_ < (ring)->count; i_++)                                                  \
                item_[i_] = RING_AT(ring, i_);                                                               \
            free((ring)->item);                                                                              \
            (ring)->item = item_;                                                                            \
            (ring)->first = 0;                                                                               \
            (ring)->capacity = room_;                                                                        \
        }                                                                                                    \
        (ring)->count++;                                                                                     \
        RING_AT(ring, (ring)->count - 1) = (parcel);                                                         \
        (parcel)->holders++;                                                                                 \
    } while (0)

#define RING_POP(ring)                                                                                       \
    do {                                                                                                     \
        tr__parcel *gone_ = RING_AT(ring, 0);                                                                \
        (ring)->first++;                                                                                     \
        (ring)->count--;                                                                                     \
        tr__sim_release(gone_);                                                                              \
    } while (0)

void tr__sim_net_init(tr_transport *transport, tr_sim *sim, int rank)
{
    *transport = (tr_transport){.sim = sim, .rank = rank, .way = tr__must_array((size_t)sim->size, sizeof(tr__link))};
}

/* Free a payload that was never sent, unless it is on loan (comm_state.h). */
static void free_token(void *token)
{
    if (!((uintptr_t)token & 1))
        free(token);
}

void tr__sim_net_deinit(tr_transport *t)
{
    for (int i = 0; i < t->sim->size; i++) {
        tr__link *way = &t->way[i];
        while (way->in.count)
            RING_POP(&way->in);
        for (; way->out.count;) {
            tr__parcel *p = RING_AT(&way->out, 0);
            free_token(p->token);
            RING_POP(&way->out);
        }
        free(way->in.item);
        free(way->out.item);
    }
    free_token(t->token);
    if (t->in_hand)
        tr__sim_release(t->in_hand);
    free(t->way);
}

/* In runs that repeat messages (MPI never does), a payload may be read after its acknowledgement, or be written twice at the same time.
 * So in such runs all payloads are copied when they are sent, and arrive complete. */
static bool is_lossy(const tr_sim *sim)
{
    return sim->options.drop > 0 || sim->options.duplicate > 0;
}

/* == messages under way ======================================================================== */

/* Return when so many bytes, sent now, have left the sender and reached the receiver. */
static int64_t through(tr_sim *sim, int from, int to, int64_t bytes)
{
    if (sim->options.bandwidth <= 0)
        return sim->now;
    tr_transport *out = &sim->rank[from].transport, *in = &sim->rank[to].transport;
    const int64_t cost = (int64_t)((double)bytes / sim->options.bandwidth);
    const int64_t begins = out->out_free > sim->now ? out->out_free : sim->now;
    out->out_free = begins + cost;
    in->in_free = (in->in_free > begins ? in->in_free : begins) + cost;
    return in->in_free;
}

static bool are_near(const tr_sim *sim, const tr__parcel *p)
{
    return sim->rank[p->from].host == sim->rank[p->to].host;
}

static void post(tr_sim *sim, tr__parcel *p)
{
    tr__link      *back = &sim->rank[p->to].transport.way[p->from];
    const int64_t bytes = TR_TRANSPORT_HEADER + (p->is_large ? 0 : p->bytes);

    p->holders++;                                  /* the event holds a reference */
    if (are_near(sim, p)) {
        tr__sim_arrive(sim, p);
        return;
    }
    int64_t time = through(sim, p->from, p->to, bytes) + tr__sim_time(sim, sim->options.delay);
    if (time < back->last)
        time = back->last;
    back->last = time;
    tr__sim_push(sim, (tr__event){.kind = TR__ARRIVE, .time = time, .parcel = p});
}

/* Messages of a dead sender arrive up to a random moment; later ones are lost. */
static bool is_lost(const tr_sim *sim, const tr__parcel *p)
{
    const tr__link *way = &sim->rank[p->to].transport.way[p->from];
    return sim->rank[p->to].has_ended || way->is_dropped || (sim->rank[p->from].is_dead && sim->now > way->cut);
}

void tr__sim_arrive(tr_sim *sim, tr__parcel *p)
{
    tr_transport *t = &sim->rank[p->to].transport;

    if (!is_lost(sim, p)) {
        RING_PUT(&t->way[p->from].in, p);
        t->is_fresh = true;
        tr__sim_stir(sim, p->to);
    }
    tr__sim_release(p);
}

/* Read the payload now, as late as possible. If its sender is dead, the payload is gone. */
void tr__sim_whole(tr_sim *sim, tr__parcel *p)
{
    if (!is_lost(sim, p) && !(sim->rank[p->from].is_dead && p->payload != (void *)(p + 1))) {
        if (p->to_place)
            memcpy(p->to_place, p->payload, (size_t)p->bytes);
        p->is_whole = true;
        sim->rank[p->to].transport.is_fresh = true;
        tr__sim_stir(sim, p->to);
        if (!p->is_sent && !sim->rank[p->from].has_ended) {
            p->is_sent = true;
            sim->rank[p->from].transport.is_fresh = true;
            tr__sim_stir(sim, p->from);
        }
    }
    tr__sim_release(p);
}

void tr__sim_net_die(tr_sim *sim, int rank)
{
    for (int i = 0; i < sim->size; i++)
        sim->rank[i].transport.way[rank].cut = sim->now + tr__sim_time(sim, sim->options.delay + 1) - 1;
}

void tr__sim_report(tr_sim *sim, int rank, int dead)
{
    tr_transport *t = &sim->rank[rank].transport;

    if (sim->rank[rank].has_ended)
        return;
    t->reports += !t->way[dead].is_dropped;
    t->way[dead].is_reported = t->is_fresh = true;
    for (int k = 0; k < TR__THREADS; k++)          /* a nap may also end without a reason */
        if (sim->rank[rank].rest[k].kind == TR__REST_NAP)
            tr__sim_rouse(sim, rank, k);
    tr__sim_stir(sim, rank);
}

/* == the transport's functions ================================================================= */

static tr_transport *start(const tr_transport_events *events, char *error, size_t error_size)
{
    const tr_comm *comm = events->self;
    tr_transport  *t = &((tr__sim_rank *)comm->machine.self)->transport;

    (void)error;
    (void)error_size;
    t->events = *events;
    t->way[t->rank].is_dropped = true;
    return t;
}

static int rank_of(const tr_transport *t)
{
    return t->rank;
}

static int size_of(const tr_transport *t)
{
    return t->sim->size;
}

/* Abandon messages to a peer. Their memory is kept until the end of the run. */
static void drop(tr_transport *t, int peer)
{
    tr__link *way = &t->way[peer];

    if (way->is_dropped)
        return;
    way->is_dropped = true;
    t->reports -= way->is_reported;
    while (way->in.count)
        RING_POP(&way->in);
}

static void die(tr_transport *t, int peer)
{
    if (t->way[peer].is_dropped)
        return;
    drop(t, peer);
    t->events.dead(t->events.self, peer);
}

static void look_for_failed(tr_transport *t)
{
    for (int i = 0; i < t->sim->size; i++)
        if (t->way[i].is_reported)
            die(t, i);
}

/* Watchers hear of a bundle, and then of each message in it. */
static void watch(const tr_transport *t, bool is_sent, int peer, const uint8_t *header, const void *payload)
{
    const tr_sim_options *o = &t->sim->options;
    tr_wire               wire, inside;
    const uint8_t        *data;

    if (!o->watch || tr_wire_decode(&wire, header) != TR_OK)
        return;
    o->watch(o->payload, t->sim->now, t->rank, is_sent, peer, &wire);
    if (wire.kind != TR_WIRE_BUNDLE)
        return;
    tr_bundle_reader reader = tr_bundle_open(payload, &wire);
    while (tr_bundle_next(&reader, &inside, &data))
        o->watch(o->payload, t->sim->now, t->rank, is_sent, peer, &inside);
}

/* A bundle is lost as a whole, when one of its messages is to be lost. */
static bool is_wanted_lost(const tr_transport *t, int peer, const uint8_t *header, const void *payload)
{
    const tr_sim_options *o = &t->sim->options;
    tr_wire               wire, inside;
    const uint8_t        *data;

    if (!o->lose || tr_wire_decode(&wire, header) != TR_OK)
        return false;
    bool is_lost = o->lose(o->payload, t->rank, peer, &wire);
    if (wire.kind != TR_WIRE_BUNDLE)
        return is_lost;
    tr_bundle_reader reader = tr_bundle_open(payload, &wire);
    while (!is_lost && tr_bundle_next(&reader, &inside, &data))
        is_lost = o->lose(o->payload, t->rank, peer, &inside);
    return is_lost;
}

static bool send_message(tr_transport *t, int peer, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    tr_sim  *sim = t->sim;
    tr__link *way = &t->way[peer];
    const tr_wire_kind kind = (tr_wire_kind)tr_get_u32(header + 4);

    t->token = token;
    if (t->reports)
        look_for_failed(t);
    t->token = NULL;
    if (way->is_dropped) {
        if (token)
            t->events.sent(t->events.self, token);
        return true;
    }
    if (way->out.count == (unsigned)(sim->options.depth ? sim->options.depth : SEND_DEPTH))
        return false;
    watch(t, true, peer, header, payload);
    tr__parcel *p = parcel_new(t->rank, peer, header, payload, bytes, token, bytes <= INLINE_MAX || is_lossy(sim));
    const bool  is_own = tr_wire_is_of_loop(kind) && kind != TR_WIRE_BUNDLE;
    const bool  is_dropped = is_wanted_lost(t, peer, header, payload) || (!is_own && tr__sim_happens(sim, sim->options.drop));
    p->is_sent = is_dropped || !p->is_large;
    t->is_fresh |= p->is_sent;
    RING_PUT(&way->out, p);
    if (is_dropped)
        return true;
    post(sim, p);
    if (!is_own && tr__sim_happens(sim, sim->options.duplicate)) {
        tr__parcel *again = parcel_new(t->rank, peer, header, payload, bytes, NULL, true);
        again->is_sent = true;
        post(sim, again);
    }
    return true;
}

/* It takes no room among the messages under way. */
static void beat(tr_transport *t, int peer, const uint8_t *header)
{
    if (t->way[peer].is_dropped || t->reports)
        return;
    watch(t, true, peer, header, NULL);
    tr__parcel *p = parcel_new(t->rank, peer, header, NULL, 0, NULL, true);
    p->is_sent = true;
    post(t->sim, p);
}

static int finish_sends(tr_transport *t, int peer)
{
    tr__link *way = &t->way[peer];
    int      count = 0;

    while (way->out.count && RING_AT(&way->out, 0)->is_sent && !way->is_dropped) {
        void *token = RING_AT(&way->out, 0)->token;
        RING_POP(&way->out);
        count++;
        if (token)
            t->events.sent(t->events.self, token);
    }
    return count;
}

/* Take one header of each peer. A small message is complete with its header. */
static int take_header(tr_transport *t, int peer)
{
    tr__link *way = &t->way[peer];
    unsigned i = 0;

    if (is_lossy(t->sim) && way->in.count && RING_AT(&way->in, 0)->is_direct)
        return 0;

    while (i < way->in.count && i < RECV_DEPTH && RING_AT(&way->in, i)->is_direct)
        i++;
    if (i == way->in.count || i == RECV_DEPTH)
        return 0;
    tr__parcel *p = RING_AT(&way->in, i);
    p->is_direct = true;
    if (!p->is_large) {
        p->is_whole = true;
        if (!p->bytes && t->events.receive_buffer(t->events.self, peer, p->header, &p->to_place) < 0)
            die(t, peer);
        return 1;
    }
    if (t->events.receive_buffer(t->events.self, peer, p->header, &p->to_place) < 0) {
        die(t, peer);
        return 1;
    }
    p->holders++;
    if (is_lossy(t->sim) || are_near(t->sim, p))   /* the reader copies it */
        tr__sim_whole(t->sim, p);
    else
        tr__sim_push(t->sim, (tr__event){.kind = TR__WHOLE, .parcel = p,
                                         .time = through(t->sim, p->from, p->to, p->bytes) + tr__sim_time(t->sim, t->sim->options.delay)});
    return 1;
}

static int deliver(tr_transport *t, int peer)
{
    tr__link *way = &t->way[peer];
    int      count = 0;

    while (way->in.count && RING_AT(&way->in, 0)->is_whole && !way->is_dropped) {
        tr__parcel *p = t->in_hand = RING_AT(&way->in, 0);
        way->in.first++;                           /* meanwhile this rank may have dropped its peer, or ended */
        way->in.count--;
        if (!p->is_large || p->to_place) {
            void *payload = p->is_large ? p->to_place : (void *)(uintptr_t)p->payload;
            p->to_place = NULL;                    /* the reader has it back */
            watch(t, false, peer, p->header, payload);
            t->events.receive(t->events.self, peer, p->header, payload, p->bytes, p->is_large);
        }
        t->in_hand = NULL;
        tr__sim_release(p);
        count++;
    }
    return count;
}

/* MPI notices a dead rank when its receive fails: after the messages that have arrived are read, and no more will come. */
static void find_failed(tr_transport *t)
{
    for (int i = 0; i < t->sim->size; i++) {
        const tr__link *way = &t->way[i];
        if (way->is_reported && (!way->in.count || (RING_AT(&way->in, 0)->is_direct && !RING_AT(&way->in, 0)->is_whole)))
            die(t, i);
    }
}

static int poll_all(tr_transport *t)
{
    int count = 0;

    if (!t->is_fresh)
        return 0;
    t->is_fresh = false;
    for (int i = 0; i < t->sim->size; i++)
        if (t->way[i].out.count)
            count += finish_sends(t, i);
    for (int i = 0; i < t->sim->size; i++)
        if (t->way[i].in.count)
            count += take_header(t, i);
    for (int i = 0; i < t->sim->size; i++)
        if (t->way[i].in.count)
            count += deliver(t, i);
    if (t->reports)
        find_failed(t);
    t->is_fresh |= count > 0;
    return count;
}

static int unsent(const tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->sim->size; i++)
        if (!t->way[i].is_dropped)
            count += (int)t->way[i].out.count;
    return count;
}

static void stop(tr_transport *t, bool is_clean)
{
    (void)t;
    (void)is_clean;
}

const tr_transport_table tr__sim_transport = {
    .version = TR_TRANSPORT_VERSION, .name = "simulator", .start = start, .rank = rank_of, .size = size_of,
    .send = send_message, .beat = beat, .poll = poll_all, .drop = drop, .unsent = unsent, .stop = stop,
};
