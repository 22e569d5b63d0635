/* comm_pulse.c - signs of life of a rank whose loop is busy: a small thread sends them while the driver works for the core.
 *
 * Work for the core may take long: to make the state of a parameter of 2 GB, to copy it, to read pages that were swapped out. Such work
 * need not know of heartbeats. While it lasts the driver is outside of the transport, and says so (tr__comm_away). Then this thread may
 * enter the transport for a moment. It sends a heartbeat to every rank, if the process has made progress since its last look: it has used
 * processor time, or the kernel has read or written for it. So a process that is stopped, or whose threads all wait for each other, is
 * silent and is found as before. A loop that turns for ever counts as busy for TR__BUSY_MAX.
 *
 * What must stay true: the transport has one user at a time. `comm->inside` says who that is: the driver; nobody (TR__AWAY); this thread
 * (TR__PULSE). The driver waits in tr__comm_back until this thread is outside. Of the loop this thread reads what the driver does not
 * change while it is away. */
#include "framework/base/memory.h"
#include "pserver/transport/comm_state.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static const int64_t MILLISECOND = 1000000;
static const int64_t TR__BUSY_MAX = (int64_t)600e9;

/* This thread looks so often. A rank whose loop has just become busy is silent for one heartbeat and two looks at most. */
static int64_t look_of(const tr_comm *comm)
{
    return comm->options.heartbeat / 4;
}

static void beat_all(tr_comm *comm)
{
    const tr_wire wire = {.kind = TR_WIRE_BEAT, .sender = (uint32_t)comm->roster->self, .incarnation = comm->options.incarnation};
    uint8_t       header[TR_WIRE_HEADER];

    tr_wire_encode(header, &wire);
    for (int i = 0; i < comm->roster->size; i++)
        if (i != comm->roster->self && !tr_liveness_is_gone(comm->liveness, i))
            comm->table->beat(comm->transport, i, header);
}

/* Beat if the driver is away at this moment. */
static bool try_beat(tr_comm *comm)
{
    int away = TR__AWAY;

    if (!atomic_compare_exchange_strong(&comm->inside, &away, TR__PULSE))
        return false;
    if (!comm->said_bye)
        beat_all(comm);
    atomic_store(&comm->pulse.at, tr__comm_clock(comm));
    tr_counter_add(&comm->pulse.count, 1);
    atomic_store(&comm->inside, TR__AWAY);
    return true;
}

tr__rest tr__comm_pulse_turn(tr_comm *comm, tr__pulse *p)
{
    const int64_t now = tr__comm_clock(comm), turns = tr_counter_get(&comm->turns);
    const unsigned seen = atomic_load(&comm->pulse.bell);
    tr__rest      rest = {TR__REST_NAP, FUTEX_BITSET_MATCH_ANY, seen, look_of(comm)};

    if (atomic_load(&comm->pulse.ends))
        return (tr__rest){TR__REST_OVER};
    if (turns != p->turns) {
        *p = (tr__pulse){turns, now, comm->machine.progress(comm->machine.self)};
        return rest;
    }
    if (!turns || atomic_load(&comm->state) == TR__LEFT)
        return rest;                               /* MPI starts or ends, and nobody waits for heartbeats */
    if (atomic_load(&comm->inside) == TR__DRIVER && now - p->since > look_of(comm))
        rest.nanoseconds = MILLISECOND;            /* a long turn of many short pieces of work: meet it between two of them */
    const int64_t progress = comm->machine.progress(comm->machine.self);
    p->is_owed |= progress != p->progress;
    p->progress = progress;
    if (p->is_owed && now - p->since <= TR__BUSY_MAX && now - atomic_load(&comm->pulse.at) >= comm->options.heartbeat / 2)
        p->is_owed = !try_beat(comm);
    return rest;
}

static void *run(void *payload)
{
    tr_comm  *comm = payload;
    tr__pulse p = {.turns = -1};

    prctl(PR_SET_NAME, "trireme-pulse");
    for (;;) {
        const tr__rest rest = tr__comm_pulse_turn(comm, &p);
        if (rest.kind == TR__REST_OVER)
            return NULL;
        tr__bell_wait(&comm->pulse.bell, rest.seen, rest.nanoseconds);
    }
}

void tr__comm_pulse_begin(tr_comm *comm)
{
    tr_background_begin(&comm->pulse.thread, run, comm, "beat");     /* without it the rank beats between two turns only */
}

void tr__comm_pulse_end(tr_comm *comm)
{
    if (!comm->pulse.thread.is_to_be_joined)
        return;
    atomic_store(&comm->pulse.ends, true);
    tr__bell_ring(&comm->pulse.bell);
    tr_background_join(&comm->pulse.thread);
}
