/* comm_thread.c - the communication thread: it starts MPI, makes the core when all ranks are known, drives, and ends after the last
 * goodbye. */
#include "framework/base/memory.h"
#include "pserver/transport/comm_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static bool begin(tr_comm *comm)
{
    const tr_transport_events events = tr__comm_events(comm);
    char                      error[2048] = "";
    uint8_t                  *hello;
    size_t                    size;

    comm->now = tr__comm_clock(comm);
    comm->transport = comm->table->start(&events, error, sizeof error);
    if (!comm->transport) {
        pthread_mutex_lock(&comm->lock);
        comm->status = TR_EUNSUPPORTED;
        snprintf(comm->text, sizeof comm->text, "%s", error);
        pthread_mutex_unlock(&comm->lock);
        atomic_store(&comm->state, TR__FAILED);
        tr__comm_ring_owner(comm);
        return false;
    }
    const int rank = comm->table->rank(comm->transport), ranks = comm->table->size(comm->transport);
    comm->now = tr__comm_clock(comm);
    comm->watch.start_deadline = comm->now + comm->options.start_timeout;
    comm->roster = tr_roster_new(rank, ranks);
    comm->liveness = tr_liveness_new(rank, ranks, comm->options.heartbeat, comm->options.timeout, comm->now);
    comm->peer = tr__must_array((size_t)ranks, sizeof *comm->peer);
    comm->bells.due = tr__must_array((size_t)ranks, sizeof *comm->bells.due);
    comm->gathering = tr__must_array((size_t)ranks, sizeof *comm->gathering);
    for (int i = 0; i < ranks; i++)
        comm->peer[i].process = -1;
    if (comm->machine.pack_hello(&hello, &size, comm->machine.self, comm->options.role, comm->options.incarnation,
                                 comm->options.can_replace, comm->doorbell_file) != TR_OK)
        return true;                               /* the other ranks do not hear of this rank in time, and report that */
    for (int i = 0; i < ranks; i++)
        if (i != rank)
            tr__comm_send(comm, i, TR_WIRE_HELLO, memcpy(tr__must_bytes(size), hello, size), size);
    tr_roster_on_hello(comm->roster, rank, hello, size);
    free(hello);
    return true;
}

static bool is_quiet(const tr_comm *comm)
{
    return !comm->out_waiting && comm->table->unsent(comm->transport) == 0;
}

/* Handle this rank's end. When all other messages are sent, it sends a BYE to every rank, and stays until theirs have come. The launcher
 * hears of the end before the other ranks do. After its BYE a rank is not missed, however its process ends, and hours may pass between
 * its own BYE and the last one. A rank that dies before its BYE counts as dead, by the other ranks' reports. */
static bool may_end(tr_comm *comm)
{
    const int wish = atomic_load(&comm->wish);

    if (wish == TR__STAY || comm->status != TR_OK || !is_quiet(comm))
        return false;
    if (!comm->said_bye) {
        comm->said_bye = comm->roster->rank[comm->roster->self].has_left = true;
        if (wish == TR__LEAVE_WELL)
            comm->machine.tell(comm->machine.self, TR_NOTICE_DONE, comm->roster->self, NULL);
        for (int i = 0; i < comm->roster->size; i++)
            if (i != comm->roster->self)
                tr__comm_send(comm, i, TR_WIRE_BYE, NULL, 0);
        return false;
    }
    return tr_liveness_all_left(comm->liveness);
}

bool tr__comm_thread_begin(tr_comm *comm, tr__thread *t)
{
    pthread_mutex_lock(&comm->drive);
    const bool has_begun = begin(comm);
    pthread_mutex_unlock(&comm->drive);
    /* A trainer that waits drives by itself, so its thread leaves the processor to others. */
    *t = (tr__thread){.rhythm = {.who = TR_BELL_THREAD, .quiet_since = comm->now, .is_aside = comm->options.role == TR_ROLE_TRAINER}};
    return has_begun;
}

/* An owner drives. The longer it does, the longer this thread sleeps. The owner wakes it from a long sleep when its wait is over: it says
 * so (owner_drives) before it reads `sleeps_long`, and this thread does it the other way round. */
static tr__rest stand_aside(tr_comm *comm, tr__thread *t, unsigned seen)
{
    const int64_t now = tr__comm_clock(comm);

    t->rhythm.has_armed = false;
    tr__comm_look_whether_stuck(comm, &t->owner, t->nap > TR__LOOK ? (int)(t->nap / TR__LOOK) : 1);
    t->aside_since = t->aside_since ? t->aside_since : now;
    t->nap = TR__LOOK + (now - t->aside_since) / 4;
    t->nap = t->nap < TR__LOOK_MAX ? t->nap : TR__LOOK_MAX;
    atomic_store(&comm->thread_sleeps, true);
    atomic_store(&comm->sleeps_long, t->nap > TR__LOOK);
    if (!atomic_load(&comm->owner_drives))
        return (tr__rest){TR__REST_NONE};
    return (tr__rest){TR__REST_NAP, TR_BELL_THREAD, seen, t->nap};
}

tr__rest tr__comm_thread_turn(tr_comm *comm, tr__thread *t)
{
    const unsigned seen = atomic_load(&comm->own_doorbell->rings);

    if (atomic_load(&comm->wish) == TR__PARK)
        return (tr__rest){TR__REST_OVER};
    if (atomic_load(&comm->owner_drives))
        return stand_aside(comm, t, seen);
    t->aside_since = t->nap = 0;
    if (atomic_load_explicit(&comm->thread_sleeps, memory_order_relaxed))
        atomic_store(&comm->thread_sleeps, false);
    pthread_mutex_lock(&comm->drive);
    const int  moved = tr__comm_drive(comm, &t->rhythm, tr__comm_clock(comm));
    const bool is_over = may_end(comm);
    pthread_mutex_unlock(&comm->drive);
    if (is_over)
        return (tr__rest){TR__REST_OVER};
    if (moved)
        return (tr__rest){TR__REST_NONE};
    const tr__rest rest = tr__comm_choose_rest(comm, &t->rhythm, seen);
    if (rest.kind != TR__REST_NAP)
        return rest;
    /* The thread that posts a command after this store rings the doorbell. A command from before the store is seen here. */
    atomic_store(&comm->thread_sleeps, true);
    return tr__comm_has_commands(comm) ? (tr__rest){TR__REST_NONE} : rest;
}

void tr__comm_thread_end(tr_comm *comm)
{
    atomic_store(&comm->state, TR__LEFT);
    tr__comm_ring_owner(comm);
    comm->table->stop(comm->transport, !atomic_load(&comm->watch.has_survived));
    atomic_store(&comm->state, TR__ENDED);
    tr__comm_ring_owner(comm);
}

void *tr__comm_run(void *payload)
{
    tr_comm   *comm = payload;
    tr__thread t;

    prctl(PR_SET_NAME, "trireme-comm");
    prctl(PR_SET_TIMERSLACK, 1000);
    if (!tr__comm_thread_begin(comm, &t))
        return NULL;
    for (;;) {
        const tr__rest rest = tr__comm_thread_turn(comm, &t);
        if (rest.kind == TR__REST_OVER)
            break;
        tr__comm_rest(comm, &rest);
    }
    if (atomic_load(&comm->wish) != TR__PARK)
        tr__comm_thread_end(comm);
    return NULL;
}
