/* comm.c - the calls of the thread that owns the loop: its start and end, commands, waiting, and the calls that a core makes. */
#include "pserver/transport/comm_state.h"

#include "framework/base/memory.h"
#include "framework/threads/interrupt.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t MPI_END = 5000000000;

tr_status tr_comm_status(tr_comm *comm)
{
    if (atomic_load(&comm->state) != TR__FAILED)
        return TR_OK;
    pthread_mutex_lock(&comm->lock);
    const tr_status status = tr_fail(comm->status, "%s", comm->text);
    pthread_mutex_unlock(&comm->lock);
    return status;
}

/* Sleep until the bell rings or the deadline is near. */
static void owner_rest(tr_comm *comm, unsigned seen, int64_t left)
{
    tr__bell_wait(&comm->owner_bell, seen, left < 50000000 ? left : 50000000);
}

static tr_status wait_state(tr_comm *comm, tr__comm_state state, int64_t timeout)
{
    const int64_t deadline = tr__clock() + timeout;

    for (;;) {
        const unsigned seen = atomic_load(&comm->owner_bell);
        const int      now = atomic_load(&comm->state);
        if (now == TR__FAILED)
            return tr_comm_status(comm);
        if (now >= (int)state)
            return TR_OK;
        const int64_t left = deadline - tr__clock();
        if (left <= 0)
            return tr_fail(TR_ETIMEOUT, "timed out after %.1f s", (double)timeout / 1e9);
        if (tr__is_interrupted())
            return tr__fail_interrupted("the wait for the job's other ranks");
        owner_rest(comm, seen, left);
    }
}

tr_comm *tr__comm_new(const tr_comm_options *options, const tr_comm_core *core, const tr_machine *machine)
{
    tr_comm *comm = tr__must_aligned(sizeof *comm);

    memset(comm, 0, sizeof *comm);
    comm->options = *options;
    comm->core = *core;
    comm->machine = *machine;
    comm->early_end = &comm->early;
    comm->own_doorbell = machine->make_doorbell(machine->self, &comm->doorbell_file);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->drive, NULL);
    return comm;
}

tr_status tr_comm_start(tr_comm **out, const tr_comm_options *options, const tr_comm_core *core)
{
    char                      error[2048] = "";
    const tr_transport_table *table = tr_transport_load(options->transport, error, sizeof error);
    tr_machine                machine = tr_machine_real;

    if (table && table->adapt)
        table->adapt(&machine);
    tr_comm *comm = *out = tr__comm_new(options, core, &machine);
    comm->table = table;
    if (!table)
        return tr_fail(TR_EUNSUPPORTED, "%s", error);
    TR_TRY(tr_background_begin(&comm->thread, tr__comm_run, comm, "communicate"));
    tr__comm_pulse_begin(comm);
    /* The thread's own deadline comes first, and names the missing ranks. After it MPI_Init itself hangs. */
    tr__interruptible_begin();
    const tr_status status = wait_state(comm, TR__RUNNING, options->start_timeout + 2000000000);
    tr__interruptible_end();
    if (status == TR_ETIMEOUT)
        return tr_fail(TR_ETIMEOUT, "MPI did not start within %.0f s: did a rank die before the others had started?",
                       (double)options->start_timeout / 1e9);
    return status;
}

const tr_roster *tr_comm_roster(const tr_comm *comm)
{
    return comm->roster;
}

/* The thread naps as the driver, or while an owner drives, which may nap, too. */
static void wake_thread(tr_comm *comm)
{
    atomic_store(&comm->own_doorbell->armed, 0);
    comm->machine.ring(comm->machine.self, &comm->own_doorbell->rings, TR_BELL_OWNER | TR_BELL_THREAD);
}

void tr_comm_carry_on(tr_comm *comm)
{
    if (atomic_load(&comm->thread_sleeps))
        wake_thread(comm);
}

/* Drive for one turn, so that an urgent command leaves on the caller's own thread. If the other thread is driving, it sends the command.
 * Wake the other thread if it must continue the work. */
static void drive_once(tr_comm *comm, bool has_more)
{
    bool is_done = false;

    if (pthread_mutex_trylock(&comm->drive) == 0) {
        tr__rhythm r = {.who = TR_BELL_OWNER, .quiet_since = comm->now};
        tr__comm_arm_for_thread(comm);
        tr__comm_drive(comm, &r, tr__comm_clock(comm));
        tr__comm_ring(comm, has_more);
        is_done = comm->bells.are_mutual && !comm->out_waiting && !tr__comm_is_thread_deaf(comm);
        pthread_mutex_unlock(&comm->drive);
    }
    if (!is_done)
        tr_comm_carry_on(comm);
}

tr_status tr_comm_post(tr_comm *comm, const tr_command *command, size_t bytes)
{
    const unsigned tail = atomic_load_explicit(&comm->commands.tail, memory_order_relaxed);

    while (tail - atomic_load_explicit(&comm->commands.head, memory_order_acquire) == TR__RING) {
        TR_TRY(tr_comm_status(comm));
        drive_once(comm, false);
    }
    if (atomic_load_explicit(&comm->state, memory_order_acquire) == TR__FAILED)
        return tr_comm_status(comm);
    assert(bytes <= TR_COMMAND_BYTES);
    memcpy(&comm->commands.slot[tail % TR__RING], command, bytes);
    atomic_store(&comm->commands.tail, tail + 1);
    if (command->is_urgent)
        drive_once(comm, command->has_more);
    return TR_OK;
}

uint64_t tr_comm_done(const tr_comm *comm)
{
    return atomic_load_explicit(&comm->done, memory_order_acquire);
}

/* The owner waits anyway, so it drives: a message that it waits for needs no change of thread. */
void tr__comm_wait_begin(tr_comm *comm, tr__wait *w, uint64_t done, int64_t timeout)
{
    *w = (tr__wait){.done = done, .timeout = timeout};
    tr__interruptible_begin();
    atomic_store(&comm->owner_drives, true);
    w->until_driver = tr__comm_take_drive(comm);
    w->from = tr__comm_clock(comm);                /* not earlier: a driver's time never goes back, and a gap in it means that the process
                                                    * was stopped */
    w->rhythm = (tr__rhythm){.who = TR_BELL_OWNER, .quiet_since = w->from};
    if (atomic_load_explicit(&comm->own_doorbell->armed, memory_order_relaxed))
        atomic_store(&comm->own_doorbell->armed, 0);
}

static inline tr__rest wait_turn(tr_comm *comm, tr__wait *w, int64_t now)
{
    const unsigned seen = atomic_load(&comm->own_doorbell->rings);
    const int      moved = tr__comm_drive(comm, &w->rhythm, now);

    w->is_late = comm->now - w->from > w->timeout;
    w->is_interrupted = tr__is_interrupted();
    if (tr_comm_done(comm) >= w->done || atomic_load(&comm->state) == TR__FAILED || w->is_late || w->is_interrupted)
        return (tr__rest){TR__REST_OVER};
    return moved ? (tr__rest){TR__REST_NONE} : tr__comm_choose_rest(comm, &w->rhythm, seen);
}

tr__rest tr__comm_wait_turn(tr_comm *comm, tr__wait *w)
{
    return wait_turn(comm, w, tr__comm_clock(comm));
}

/* Say for what the owner has waited. The caller drives. */
static tr_status fail_late(tr_comm *comm, const tr__wait *w)
{
    char waiting[512] = "the servers";

    if (comm->has_node)
        comm->node.describe(comm->node.self, waiting, sizeof waiting);
    return tr_fail(TR_ETIMEOUT, "waited %.1f s for %s", (double)w->timeout / 1e9, waiting);
}

tr_status tr__comm_wait_end(tr_comm *comm, tr__wait *w, tr_span *waited)
{
    if (waited)
        *waited = (tr_span){w->from - w->until_driver, comm->now};
    const tr_status late = w->is_late ? fail_late(comm, w) : TR_OK;
    tr__comm_ring(comm, false);
    pthread_mutex_unlock(&comm->drive);
    atomic_store(&comm->owner_drives, false);
    if (atomic_exchange(&comm->sleeps_long, false))
        comm->machine.ring(comm->machine.self, &comm->own_doorbell->rings, TR_BELL_THREAD);
    tr__interruptible_end();
    if (tr_comm_done(comm) >= w->done)
        return TR_OK;
    if (w->is_interrupted && atomic_load(&comm->state) != TR__FAILED)
        return tr__fail_interrupted("the wait for the servers");
    return late != TR_OK ? late : tr_comm_status(comm);
}

tr_status tr_comm_wait(tr_span *waited, tr_comm *comm, uint64_t done, int64_t timeout)
{
    tr__wait w;

    tr__comm_wait_begin(comm, &w, done, timeout);
    for (int64_t now = w.from;; now = tr__comm_clock(comm)) {
        const tr__rest rest = wait_turn(comm, &w, now);
        if (rest.kind == TR__REST_OVER)
            return tr__comm_wait_end(comm, &w, waited);
        tr__comm_rest(comm, &rest);
    }
}

tr_status tr_comm_stand_by(tr_comm *comm, uint64_t done, int64_t timeout)
{
    const int64_t deadline = tr__clock() + timeout;

    while (tr_comm_done(comm) < done) {
        TR_TRY(tr_comm_status(comm));
        if (tr__clock() > deadline)
            return tr_fail(TR_ETIMEOUT, "waited %.1f s for the servers", (double)timeout / 1e9);
        if (tr__is_interrupted())
            return tr__fail_interrupted("the wait for the servers");
        tr__sleep(100000);
    }
    return TR_OK;
}

void tr__comm_free(tr_comm *comm)
{
    tr__comm_pulse_end(comm);
    for (int i = 0; comm->peer && i < comm->roster->size; i++)
        tr_outbox_deinit(&comm->peer[i].out);
    tr__comm_free_bundles(comm);
    tr__comm_watch_end(comm);
    comm->machine.close_doorbell(comm->machine.self, comm->own_doorbell);
    if (comm->doorbell_file >= 0)
        close(comm->doorbell_file);
    tr_roster_free(comm->roster);
    tr_liveness_free(comm->liveness);
    free(comm->peer);
    free(comm->bells.due);
    free(comm->gathering);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->drive);
    free(comm);
}

static void wish(tr_comm *comm, tr__wish new_wish)
{
    assert(atomic_load(&comm->wish) < (int)new_wish);
    atomic_store(&comm->wish, new_wish);
    wake_thread(comm);
}

/* After a failure: wait until a rank has printed it, and a little longer, so that the messages about it are on their way. */
static void leave_failed(tr_comm *comm)
{
    const int64_t deadline = tr__clock() + comm->options.grace;

    while (comm->transport && !atomic_load(&comm->watch.is_told) && tr__clock() < deadline)
        owner_rest(comm, atomic_load(&comm->owner_bell), 5000000);
    if (comm->transport)
        tr__sleep(50000000);
    wish(comm, TR__PARK);
    tr__comm_pulse_end(comm);
    tr_background_join(&comm->thread);             /* MPI is not finalized, and the memory that it may write into is kept */
}

/* Finalize MPI, which asks its daemon. The daemon may sleep or be gone; the job is over all the same. */
static bool end_mpi(tr_comm *comm)
{
    if (wait_state(comm, TR__ENDED, MPI_END) != TR_OK)
        return false;                              /* the thread still runs: its memory is kept */
    tr_background_join(&comm->thread);
    tr__comm_free(comm);
    return true;
}

void tr__comm_leave_begin(tr_comm *comm, bool is_well)
{
    wish(comm, is_well ? TR__LEAVE_WELL : TR__LEAVE);
}

tr_status tr_comm_leave(tr_comm *comm, bool is_well, int64_t timeout, bool *must_exit)
{
    *must_exit = false;
    if (!comm->thread.is_to_be_joined) {
        tr__comm_free(comm);
        return TR_OK;
    }
    tr__comm_leave_begin(comm, is_well);
    const tr_status status = wait_state(comm, TR__LEFT, timeout);
    *must_exit = atomic_load(&comm->watch.has_survived);
    if (status == TR_OK) {
        *must_exit |= !end_mpi(comm);
    } else if (status != TR_ETIMEOUT) {
        char text[4096];
        snprintf(text, sizeof text, "%s", tr_error());
        leave_failed(comm);
        return tr_fail(status, "%s", text);
    }
    return status;
}

void tr_comm_kill(tr_comm *comm, int rank)
{
    if (comm->peer[rank].process >= 0)
        comm->machine.kill(comm->machine.self, comm->peer[rank].process);
}

void tr_comm_take_place(tr_comm *comm, int server)
{
    tr_roster_replace_server(comm->roster, server, comm->roster->self);
}

void tr_comm_set_core(tr_comm *comm, tr_node node)
{
    comm->node = node;
}

void tr_comm_tell_losses(const tr_comm *comm)
{
    const tr_roster *roster = comm->roster;

    for (int i = 0; i < roster->size; i++)
        if (roster->rank[i].is_dead && roster->rank[i].role == TR_ROLE_TRAINER)
            comm->machine.tell(comm->machine.self, TR_NOTICE_LOST, i, "died");
}

bool tr_comm_replace_trainer(tr_comm *comm, int trainer, uint32_t incarnation)
{
    return tr_roster_replace_trainer(comm->roster, trainer, comm->roster->self, incarnation);
}

bool tr_comm_replica_rank(tr_comm *comm, int server)
{
    return tr_roster_set_replica(comm->roster, server, comm->roster->self);
}

void tr_comm_stats(const tr_comm *comm, tr_job_stats *stats)
{
    stats->wire_nanoseconds = tr_counter_get(&comm->moving);
    stats->messages_sent = tr_traffic_messages(&comm->sent);
    stats->messages_received = tr_traffic_messages(&comm->received);
    stats->bytes_sent = tr_traffic_bytes(&comm->sent);
    stats->bytes_received = tr_traffic_bytes(&comm->received);
}

void tr_comm_traffic(const tr_comm *comm, const tr_traffic **sent, const tr_traffic **received)
{
    *sent = &comm->sent;
    *received = &comm->received;
}
