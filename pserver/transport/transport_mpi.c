/* transport_mpi.c - messages over MPI point-to-point; built as trireme_mpi.so, which needs libmpi alone.
 *
 * One binary runs on Open MPI 5 and 4.1. The fault-tolerance calls (MPIX_*, ULFM) are looked up when the process starts. Without them,
 * or in a job started without --with-ft ulfm, other code must notice deaths.
 *
 * These rules follow from measurements under killed ranks:
 *   - one thread at a time in MPI (SERIALIZED; MULTIPLE deadlocks at a death);
 *   - no blocking call to a peer, no collective after the start, no MPI_Finalize after a death;
 *   - one receive posted for each peer, no MPI_ANY_SOURCE;
 *   - MPIX_Comm_get_failed before every MPI_Isend: streaming to a dead peer over tcp crashes;
 *   - at its first error a peer is dropped; its requests and their buffers are abandoned, never freed. */
#include "framework/base/memory.h"
#include "pserver/transport/transport.h"
#include "pserver/transport/transport_mpi_begin.h"

#include <mpi.h>

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { TAG_HEADER = 7701, TAG_BULK = 7702 };
enum { SLOT = 4096, INLINE_MAX = SLOT - TR_TRANSPORT_HEADER };
enum { RECV_DEPTH = 8, SEND_DEPTH = 32 };

/* Memory for a header and a small payload. All peers share the spare ones, so that memory does not grow with the messages of each. */
typedef union slot {
    union slot *next;
    uint8_t     bytes[SLOT];
} slot;

/* An incoming message: its header is here, its payload may be on the way. */
typedef struct inbound {
    uint8_t    *slot;
    bool        has_bulk;
    MPI_Request bulk;
    void       *to;
    void       *scratch;              /* memory for a payload that is thrown away */
    int64_t     bytes;
} inbound;

typedef struct outbound {
    uint8_t    *slot;
    MPI_Request header, bulk;
    void       *token;
} outbound;

typedef struct peer {
    bool     is_dead;
    bool     has_failed;              /* a heartbeat could not be sent; the next poll reports the death */
    MPI_Request beat;                 /* the last heartbeat of `beat`, with its header */
    uint8_t    *beat_header;
    bool     is_posted;               /* a receive for a header is posted */
    bool     is_active;               /* it is in `active` of the transport */
    unsigned in_first, in_count;      /* rings */
    unsigned out_first, out_count;
    inbound  in[RECV_DEPTH + 1];      /* one more than messages: the slot of the posted receive */
    outbound out[SEND_DEPTH];
} peer;

typedef int (*get_failed_fn)(MPI_Comm comm, MPI_Group *group);

struct tr_transport {
    tr_transport_events events;
    int            rank, size;
    get_failed_fn  get_failed;
    int            failed;            /* ranks whose failure MPI has reported */
    peer          *peer;
    MPI_Request   *header;            /* the posted receive of each peer */
    MPI_Status    *status;
    int           *index;
    int           *active, active_count;           /* the only peers that a poll looks at: with messages under way, or a receive to post */
    slot          *spare;
};

/* == start ==================================================================================== */

static uint8_t *take_slot(tr_transport *t)
{
    slot *taken = t->spare;

    if (!taken)
        return tr__must_aligned(SLOT);
    t->spare = taken->next;
    return taken->bytes;
}

static void give_slot(tr_transport *t, uint8_t **bytes)
{
    slot *given = (slot *)(void *)*bytes;

    given->next = t->spare;
    t->spare = given;
    *bytes = NULL;
}

static void activate(tr_transport *t, int rank)
{
    if (!t->peer[rank].is_active)
        t->active[t->active_count++] = rank;
    t->peer[rank].is_active = true;
}

static void post(tr_transport *t, int rank)
{
    peer    *p = &t->peer[rank];
    inbound *in = &p->in[(p->in_first + p->in_count) % (RECV_DEPTH + 1)];

    if (p->is_dead || p->is_posted || p->in_count == RECV_DEPTH)
        return;
    if (!in->slot)
        in->slot = take_slot(t);
    p->is_posted = MPI_Irecv(in->slot, SLOT, MPI_BYTE, rank, TAG_HEADER, MPI_COMM_WORLD, &t->header[rank]) == MPI_SUCCESS;
    if (!p->is_posted)
        t->header[rank] = MPI_REQUEST_NULL;
}

static tr_transport *start(const tr_transport_events *events, char *error, size_t error_size)
{
    if (!tr__mpi_begin(error, error_size))
        return NULL;
    tr_transport *t = tr__must_alloc(sizeof *t);
    t->events = *events;
    MPI_Comm_rank(MPI_COMM_WORLD, &t->rank);
    MPI_Comm_size(MPI_COMM_WORLD, &t->size);
    t->get_failed = (get_failed_fn)(uintptr_t)dlsym(RTLD_DEFAULT, "MPIX_Comm_get_failed");
    t->peer = tr__must_array((size_t)t->size, sizeof *t->peer);
    t->header = tr__must_bytes((size_t)t->size * sizeof *t->header);
    t->status = tr__must_bytes((size_t)t->size * sizeof *t->status);
    t->index = tr__must_bytes((size_t)t->size * sizeof *t->index);
    t->active = tr__must_bytes((size_t)t->size * sizeof *t->active);
    for (int i = 0; i < t->size; i++) {
        activate(t, i);
        t->header[i] = t->peer[i].beat = MPI_REQUEST_NULL;
        t->peer[i].beat_header = tr__must_aligned(TR_TRANSPORT_HEADER);
        t->peer[i].is_dead = i == t->rank;
    }
    return t;
}

static int rank_of(const tr_transport *t)
{
    return t->rank;
}

static int size_of(const tr_transport *t)
{
    return t->size;
}

/* == death ==================================================================================== */

static void drop(tr_transport *t, int rank)
{
    t->peer[rank].is_dead = true;
    t->header[rank] = MPI_REQUEST_NULL;            /* the request is abandoned */
}

static void die(tr_transport *t, int rank)
{
    if (t->peer[rank].is_dead)
        return;
    drop(t, rank);
    t->events.dead(t->events.self, rank);
}

static void look_for_failed(tr_transport *t)
{
    MPI_Group failed, world;
    int       count = 0;

    if (!t->get_failed || t->get_failed(MPI_COMM_WORLD, &failed) != MPI_SUCCESS)
        return;
    MPI_Group_size(failed, &count);
    if (count > t->failed) {
        t->failed = count;
        MPI_Comm_group(MPI_COMM_WORLD, &world);
        for (int i = 0; i < count; i++) {
            int rank = MPI_UNDEFINED;
            MPI_Group_translate_ranks(failed, 1, &i, world, &rank);
            if (rank != MPI_UNDEFINED)
                die(t, rank);
        }
        MPI_Group_free(&world);
    }
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
}

/* Does MPI know of failures that `poll` has not reported yet? */
static bool has_news_of_failed(const tr_transport *t)
{
    MPI_Group failed;
    int       count = 0;

    if (!t->get_failed || t->get_failed(MPI_COMM_WORLD, &failed) != MPI_SUCCESS)
        return false;
    MPI_Group_size(failed, &count);
    if (failed != MPI_GROUP_EMPTY)
        MPI_Group_free(&failed);
    return count > t->failed;
}

/* == sending ================================================================================== */

static bool send_message(tr_transport *t, int rank, const uint8_t *header, const void *payload, int64_t bytes, void *token)
{
    peer *p = &t->peer[rank];

    look_for_failed(t);
    if (p->is_dead || bytes > INT_MAX) {
        if (token)
            t->events.sent(t->events.self, token);
        return true;
    }
    if (p->out_count == SEND_DEPTH)
        return false;
    outbound *out = &p->out[(p->out_first + p->out_count) % SEND_DEPTH];
    activate(t, rank);
    out->slot = take_slot(t);
    const bool is_inline = bytes <= INLINE_MAX;
    memcpy(out->slot, header, TR_TRANSPORT_HEADER);
    if (is_inline && bytes)
        memcpy(out->slot + TR_TRANSPORT_HEADER, payload, (size_t)bytes);
    out->token = token;
    out->bulk = MPI_REQUEST_NULL;
    const int size = TR_TRANSPORT_HEADER + (is_inline ? (int)bytes : 0);
    int rc = MPI_Isend(out->slot, size, MPI_BYTE, rank, TAG_HEADER, MPI_COMM_WORLD, &out->header);
    if (rc == MPI_SUCCESS && !is_inline)
        rc = MPI_Isend(payload, (int)bytes, MPI_BYTE, rank, TAG_BULK, MPI_COMM_WORLD, &out->bulk);
    if (rc != MPI_SUCCESS) {
        die(t, rank);                              /* the token is abandoned with the request */
        return true;
    }
    p->out_count++;
    return true;
}

static void finish_beat(peer *p)
{
    int is_done;

    if (!p->is_dead && p->beat != MPI_REQUEST_NULL)
        p->has_failed = MPI_Test(&p->beat, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS;
}

/* One heartbeat at a time is under way to a peer, beside the other messages. */
static void beat(tr_transport *t, int rank, const uint8_t *header)
{
    peer *p = &t->peer[rank];

    if (p->is_dead || p->has_failed || has_news_of_failed(t))
        return;
    finish_beat(p);
    if (p->has_failed || p->beat != MPI_REQUEST_NULL)
        return;
    activate(t, rank);
    memcpy(p->beat_header, header, TR_TRANSPORT_HEADER);
    p->has_failed = MPI_Isend(p->beat_header, TR_TRANSPORT_HEADER, MPI_BYTE, rank, TAG_HEADER, MPI_COMM_WORLD, &p->beat) != MPI_SUCCESS;
}

/* Is the request done? An error means that the peer is dead. */
static bool is_complete(tr_transport *t, int rank, MPI_Request *request)
{
    int done = 1;

    if (*request != MPI_REQUEST_NULL && MPI_Test(request, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) {
        die(t, rank);
        return false;
    }
    return done;
}

static int finish_sends(tr_transport *t, int rank)
{
    peer *p = &t->peer[rank];
    int   count = 0;

    while (p->out_count && !p->is_dead) {
        outbound *out = &p->out[p->out_first];
        if (!is_complete(t, rank, &out->header) || !is_complete(t, rank, &out->bulk))
            break;
        give_slot(t, &out->slot);
        p->out_first = (p->out_first + 1) % SEND_DEPTH;
        p->out_count--;
        count++;
        if (out->token)
            t->events.sent(t->events.self, out->token);
    }
    return count;
}

/* == receiving ================================================================================ */

/* The header in the posted receive is complete, with `size` bytes. */
static void take_header(tr_transport *t, int rank, int size)
{
    peer    *p = &t->peer[rank];
    inbound *in = &p->in[(p->in_first + p->in_count) % (RECV_DEPTH + 1)];

    p->is_posted = false;
    in->bytes = size - TR_TRANSPORT_HEADER;
    in->has_bulk = false;
    in->to = in->scratch = NULL;
    in->bulk = MPI_REQUEST_NULL;
    if (in->bytes < 0) {
        die(t, rank);
        return;
    }
    if (in->bytes == 0)
        in->bytes = t->events.receive_buffer(t->events.self, rank, in->slot, &in->to);
    else
        in->to = in->slot + TR_TRANSPORT_HEADER;
    if (in->bytes < 0 || in->bytes > INT_MAX) {
        die(t, rank);
        return;
    }
    if (size == TR_TRANSPORT_HEADER && in->bytes) {
        in->has_bulk = true;
        if (!in->to)
            in->scratch = tr__must_bytes((size_t)in->bytes);
        if (MPI_Irecv(in->to ? in->to : in->scratch, (int)in->bytes, MPI_BYTE, rank, TAG_BULK, MPI_COMM_WORLD, &in->bulk)
            != MPI_SUCCESS) {
            die(t, rank);
            return;
        }
    }
    p->in_count++;
}

static int deliver(tr_transport *t, int rank)
{
    peer *p = &t->peer[rank];
    int   count = 0;

    while (p->in_count && !p->is_dead) {
        inbound *in = &p->in[p->in_first];
        if (!is_complete(t, rank, &in->bulk))
            break;
        if (in->scratch)
            free(in->scratch);
        else
            t->events.receive(t->events.self, rank, in->slot, in->to, in->bytes, in->has_bulk);
        give_slot(t, &in->slot);
        p->in_first = (p->in_first + 1) % (RECV_DEPTH + 1);
        p->in_count--;
        count++;
    }
    return count;
}

/* Return how many messages came. Payloads of large messages come at the next poll. */
static int take_headers(tr_transport *t)
{
    int count = 0, size;

    const int rc = MPI_Testsome(t->size, t->header, &count, t->index, t->status);
    if (rc != MPI_SUCCESS && rc != MPI_ERR_IN_STATUS) {
        look_for_failed(t);
        return 0;
    }
    if (count == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < count; i++) {
        const int rank = t->index[i];
        if (rc == MPI_ERR_IN_STATUS && t->status[i].MPI_ERROR != MPI_SUCCESS) {
            die(t, rank);
            continue;
        }
        MPI_Get_count(&t->status[i], MPI_BYTE, &size);
        activate(t, rank);
        take_header(t, rank, size);
    }
    return count;
}

static bool is_still_active(const peer *p)
{
    return !p->is_dead && (p->out_count || p->in_count || p->has_failed || p->beat != MPI_REQUEST_NULL || !p->is_posted);
}

static void forget_idle_peers(tr_transport *t)
{
    int kept = 0;

    for (int i = 0; i < t->active_count; i++) {
        peer *p = &t->peer[t->active[i]];
        p->is_active = is_still_active(p);
        if (p->is_active)
            t->active[kept++] = t->active[i];
    }
    t->active_count = kept;
}

/* Do the work that the last messages left before polling again, so that nothing stands between a message and its answer. */
static int poll_all(tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->active_count; i++) {
        const int rank = t->active[i];
        finish_beat(&t->peer[rank]);
        if (t->peer[rank].has_failed)
            die(t, rank);
        if (t->peer[rank].out_count)
            count += finish_sends(t, rank);
        post(t, rank);
    }
    count += take_headers(t);
    for (int i = 0; i < t->active_count; i++)
        if (t->peer[t->active[i]].in_count)
            count += deliver(t, t->active[i]);
    forget_idle_peers(t);
    return count;
}

static int unsent(const tr_transport *t)
{
    int count = 0;

    for (int i = 0; i < t->size; i++)
        if (!t->peer[i].is_dead)
            count += (int)t->peer[i].out_count + (t->peer[i].beat != MPI_REQUEST_NULL);
    return count;
}

/* == end ====================================================================================== */

static void stop(tr_transport *t, bool is_clean)
{
    if (!is_clean)
        return;                                    /* MPI may still write into what we would free */
    for (int i = 0; i < t->size; i++)
        if (t->header[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&t->header[i]);
            MPI_Request_free(&t->header[i]);
        }
    tr__mpi_end();
    for (int i = 0; i < t->size; i++) {
        free(t->peer[i].beat_header);
        for (int k = 0; k <= RECV_DEPTH; k++)
            free(t->peer[i].in[k].slot);
    }
    while (t->spare)
        free(take_slot(t));
    free(t->peer);
    free(t->header);
    free(t->status);
    free(t->index);
    free(t->active);
    free(t);
}

__attribute__((visibility("default"))) extern const tr_transport_table tr_transport_mpi;
const tr_transport_table tr_transport_mpi = {
    .version = TR_TRANSPORT_VERSION, .name = "mpi", .start = start, .rank = rank_of, .size = size_of,
    .send = send_message, .beat = beat, .poll = poll_all, .drop = drop, .unsent = unsent, .stop = stop,
};
