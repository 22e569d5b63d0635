/* comm.c - the loop of who drives, and the owner's side of it. What other ranks send is received in comm_receive.c. */
#include "pserver/comm_state.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* So long commands that are not urgent wait for company. Nanoseconds, as all here. */
static const int64_t GATHERING = 1000000;
/* How long a driver without work polls hot before it naps: for long while messages have come one shortly after the other, so many in a row.
 * Then it yields to the other ranks, too, where they are more than the processors; else it does not, since who yields to a thread that computes
 * is not woken but waits for that one's whole slice. */
static const int64_t HOT = 30000, HOT_CALM = 5000, SHORT_WAIT = 200000;
enum { SHORT_WAITS = 64 };
/* A nap that no doorbell ends is a part of the quiet before it, so that it delays what ends the quiet by no more than that part, but never so
 * long that heartbeats notice, nor, where not every rank can ring this one, that messages wait for long. */
static const int64_t NAP_MIN = 20000, NAP_MIN_RUNG = 1000000, NAP_PART = 8, NAP_MAX = 5000000, NAP_MAX_RUNG = 12000000;
/* Who was sent something is rung when nothing moves here any more, or after so long. */
static const int64_t UNRUNG_MAX = 50000;
/* How often who does not drive looks at who does. */
static const int64_t LOOK = 1000000;
static const int64_t MPI_END = 5000000000;
/* How long who was killed may take to be gone: milliseconds. */
enum { KILLED_MAX = 100 };

/* == sending =================================================================================== */

static bool hand_over(tr_comm *comm, const tr_message *message)
{
    uint8_t header[TR_WIRE_HEADER];

    tr_wire_encode(header, &message->wire);
    if (!comm->table->send(comm->transport, message->peer, header, message->payload, (int64_t)message->wire.bytes,
                           tr__token_of(message)))
        return false;
    if (comm->doorbell[message->peer] && !comm->is_to_ring[message->peer]) {
        comm->is_to_ring[message->peer] = true;
        comm->unrung_since = comm->to_ring_count ? comm->unrung_since : comm->now;
        comm->to_ring[comm->to_ring_count++] = message->peer;
    }
    tr_liveness_sent(comm->liveness, message->peer, comm->now);
    atomic_fetch_add_explicit(&comm->messages_sent, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&comm->bytes_sent, TR_WIRE_HEADER + message->wire.bytes, memory_order_relaxed);
    return true;
}

/* When all that is to be sent now is with MPI, and those of other processors first: who wakes on this one takes it from this thread, and keeps
 * it for as long as it computes. */
static void ring(tr_comm *comm)
{
    int near = 0;

    if (!comm->to_ring_count)
        return;
    atomic_thread_fence(memory_order_seq_cst);     /* the messages first: their readers arm, then look */
    for (int i = 0; i < comm->to_ring_count; i++) {
        const int peer = comm->to_ring[i];
        comm->is_to_ring[peer] = false;
        if (tr_doorbell_is_armed_near(comm->doorbell[peer]))
            comm->to_ring[near++] = peer;
        else
            tr_doorbell_ring_armed(comm->doorbell[peer]);
    }
    for (int i = 0; i < near; i++)
        tr_doorbell_ring_armed(comm->doorbell[comm->to_ring[i]]);
    comm->to_ring_count = 0;
}

/* A peer that is slow holds up nobody else: it has a line of its own. */
static void post_message(tr_comm *comm, const tr_message *message)
{
    tr_outbox *out = &comm->out[message->peer];

    if (out->count || !hand_over(comm, message)) {
        tr_outbox_put(out, message);
        comm->out_waiting++;
    }
}

void tr__comm_send(tr_comm *comm, int peer, tr_wire_kind kind, void *payload, uint64_t bytes)
{
    const tr_message message = {
        .peer = peer, .payload = payload, .owned = payload,
        .wire = {.kind = kind, .sender = (uint32_t)comm->roster->self, .epoch = comm->options.epoch, .bytes = bytes}};
    post_message(comm, &message);
}

static int send_waiting(tr_comm *comm)
{
    int count = 0;

    if (comm->out_waiting && comm->has_node && comm->node.awaits_loans && comm->node.awaits_loans(comm->node.self))
        for (int i = 0; i < comm->roster->size; i++)
            tr_outbox_give_back(&comm->out[i]);
    for (int i = 0; comm->out_waiting && i < comm->roster->size; i++) {
        tr_outbox *out = &comm->out[i];
        while (out->count && hand_over(comm, &out->item[out->first])) {
            tr_message message;
            tr_outbox_take(out, &message);
            comm->out_waiting--;
            count++;
        }
    }
    return count;
}

static int send_core(tr_comm *comm)
{
    tr_message message;
    int        count = 0;

    while (comm->has_node && comm->node.next(comm->node.self, &message)) {
        post_message(comm, &message);
        count++;
    }
    return count;
}

/* == the thread ================================================================================ */

static bool begin(tr_comm *comm)
{
    const tr_transport_events events = tr__comm_events(comm);
    char                      error[2048] = "";
    uint8_t                  *hello;
    size_t                    size;

    comm->now = tr__clock();
    comm->table = tr_transport_load(comm->transport_path, error, sizeof error);
    if (comm->table)
        comm->transport = comm->table->start(&events, error, sizeof error);
    if (!comm->transport) {
        pthread_mutex_lock(&comm->lock);
        comm->status = TR_EUNSUPPORTED;
        snprintf(comm->text, sizeof comm->text, "%s", error);
        pthread_mutex_unlock(&comm->lock);
        atomic_store(&comm->state, TR__FAILED);
        tr__bell_ring(&comm->owner_bell);
        return false;
    }
    const int rank = comm->table->rank(comm->transport), ranks = comm->table->size(comm->transport);
    comm->now = tr__clock();
    comm->start_deadline = comm->now + comm->options.start_timeout;
    comm->roster = tr_roster_new(rank, ranks);
    comm->liveness = tr_liveness_new(rank, ranks, comm->options.heartbeat, comm->options.timeout, comm->now);
    comm->out = calloc((size_t)ranks, sizeof *comm->out);
    comm->gone_at = calloc((size_t)ranks, sizeof *comm->gone_at);
    comm->doorbell = calloc((size_t)ranks, sizeof *comm->doorbell);
    comm->to_ring = calloc((size_t)ranks, sizeof *comm->to_ring);
    comm->is_to_ring = calloc((size_t)ranks, sizeof *comm->is_to_ring);
    comm->pidfd = malloc((size_t)ranks * sizeof *comm->pidfd);
    for (int i = 0; i < ranks; i++)
        comm->pidfd[i] = -1;
    if (tr_roster_pack_hello(&hello, &size, comm->options.role, comm->options.epoch, comm->options.can_inherit,
                             comm->doorbell_file) != TR_OK)
        return true;                               /* nobody hears of this rank in time, and that is said */
    for (int i = 0; i < ranks; i++)
        if (i != rank)
            tr__comm_send(comm, i, TR_WIRE_HELLO, memcpy(malloc(size), hello, size), size);
    tr_roster_hear(comm->roster, rank, hello, size);
    free(hello);
    return true;
}

/* All ranks are known: number them, make the core, give it what came too early. */
static void begin_core(tr_comm *comm)
{
    const tr_status status = tr_roster_close(comm->roster);

    if (status != TR_OK) {
        tr__comm_failed(comm, status, comm->roster->self, tr_error());
        return;
    }
    comm->node = comm->core.make(comm->core.self, comm->roster);
    comm->has_node = true;
    tr__comm_watch_begin(comm);
    tr__comm_receive_early(comm);
    int expected = TR__STARTING;
    atomic_compare_exchange_strong(&comm->state, &expected, TR__RUNNING);
    tr__bell_ring(&comm->owner_bell);
}

static int take_commands(tr_comm *comm)
{
    const unsigned tail = atomic_load_explicit(&comm->ring_tail, memory_order_acquire);
    unsigned       head = atomic_load_explicit(&comm->ring_head, memory_order_relaxed);
    const unsigned count = tail - head;
    bool           is_urgent = atomic_load(&comm->owner_drives);

    for (; head != tail; head++) {
        is_urgent |= comm->ring[head % TR__RING].is_urgent;
        comm->core.command(comm->core.self, &comm->ring[head % TR__RING]);
        atomic_store_explicit(&comm->ring_head, head + 1, memory_order_release);
    }
    if (count && !comm->gathers_since)
        comm->gathers_since = comm->now;
    if (comm->gathers_since && (is_urgent || comm->now - comm->gathers_since >= GATHERING)) {
        comm->core.flush(comm->core.self);
        comm->gathers_since = 0;
    }
    return (int)count;
}

static void publish(tr_comm *comm)
{
    atomic_store_explicit(&comm->done, comm->core.done(comm->core.self), memory_order_release);
}

/* Nothing moves: the longer the quiet, the deeper the sleep. The doorbell ends it. */
typedef struct rhythm {
    unsigned who;                     /* as the doorbell knows it */
    int64_t quiet_since, looked_at;
    bool    is_aside;                 /* nobody waits for what moves: leave the processor to those who compute */
    bool    is_armed;                 /* the doorbell was, and then was looked once more */
    bool    is_brisk, hears_all;      /* as of the last turn */
} rhythm;

/* Is it worth while to look for messages at once, and again? */
static bool is_hot(const rhythm *r, int64_t quiet)
{
    return quiet < (r->is_brisk ? HOT : HOT_CALM) && !r->is_aside;
}

/* Nothing that this rank waits for comes without a ring. What MPI sends by itself, such as that a payload was taken, does. */
static bool hears_all(const tr_comm *comm)
{
    return comm->is_rung_by_all && !comm->out_waiting &&
           !(comm->has_node && comm->node.awaits_loans && comm->node.awaits_loans(comm->node.self));
}

/* `seen`: the doorbell's rings before the last look. */
static void rest(tr_comm *comm, rhythm *r, unsigned seen)
{
    const int64_t quiet = r->looked_at - r->quiet_since;

    if (is_hot(r, quiet)) {
        if (comm->is_crowded && r->is_brisk)
            sched_yield();
        else
            tr__pause();
    } else if (!r->is_armed) {
        tr_doorbell_arm(comm->own_doorbell, r->who);
        r->is_armed = true;
    } else {
        const int64_t least = r->hears_all ? NAP_MIN_RUNG : NAP_MIN, most = comm->is_rung_by_all ? NAP_MAX_RUNG : NAP_MAX;
        const int64_t part = quiet / NAP_PART, nap = part > least ? part : least;
        tr__bell_wait_as(&comm->own_doorbell->rings, r->who, seen, nap < most ? nap : most);
        r->is_armed = atomic_load(&comm->own_doorbell->armed) == r->who;
    }
}

static bool is_quiet(const tr_comm *comm)
{
    return !comm->out_waiting && comm->table->unsent(comm->transport) == 0;
}

/* This rank's end: a BYE to everybody when all else is sent; the thread stays until everybody's has come. */
static bool may_end(tr_comm *comm)
{
    if (!atomic_load(&comm->is_leaving) || comm->status != TR_OK || !is_quiet(comm))
        return false;
    if (!comm->said_bye) {
        comm->said_bye = true;
        for (int i = 0; i < comm->roster->size; i++)
            if (i != comm->roster->self)
                tr__comm_send(comm, i, TR_WIRE_BYE, NULL, 0);
        return false;
    }
    return tr_liveness_all_left(comm->liveness);
}

static bool has_commands(const tr_comm *comm)
{
    return atomic_load_explicit(&comm->ring_head, memory_order_relaxed) != atomic_load(&comm->ring_tail);
}

/* While a message is likely at any moment: to look for one costs less than to look at everything else. */
static int poll_often(const tr_comm *comm)
{
    enum { OFTEN = 8 };
    int moved = 0;

    for (int i = 0; i < OFTEN && !moved && !has_commands(comm); i++)
        moved = comm->table->poll(comm->transport);
    return moved;
}

/* What the owner wants, and the answers to what has come, leave before anything else is looked at. */
static int turn(tr_comm *comm, bool often)
{
    int moved = 0;

    if (comm->has_node && comm->status == TR_OK && has_commands(comm)) {
        moved += take_commands(comm);
        moved += send_core(comm);
    }
    moved += often && !moved ? poll_often(comm) : comm->table->poll(comm->transport);
    if (moved)
        moved += send_core(comm);
    if (!comm->has_node && comm->status == TR_OK && comm->roster->known == comm->roster->size)
        begin_core(comm);
    if (comm->has_node && comm->status == TR_OK) {
        moved += take_commands(comm);
        comm->node.tick(comm->node.self, comm->now);
        tr__comm_check_core(comm, comm->roster->self);
        publish(comm);
    }
    moved += send_core(comm);
    moved += send_waiting(comm);
    tr__comm_watch(comm);
    if (!moved || comm->now - comm->unrung_since >= UNRUNG_MAX)
        ring(comm);
    return moved;
}

/* A rank that is killed in the middle of a message may leave a queue of shared memory in which its reader's MPI turns in a
 * circle for ever. The others take such a reader for dead; it must end by itself, too, as the dead do: an exit code would be the
 * job's to mpirun. Whoever does not drive looks: a driver
 * that makes no turn while this thread has run a thousand times, and for longer than a peer may be silent, is stuck. */
typedef struct stuck {
    long long turns;
    int64_t   since;
    int       looks;
} stuck;

static void look_whether_stuck(const tr_comm *comm, stuck *s)
{
    const long long turns = atomic_load_explicit(&comm->turns, memory_order_relaxed);
    const int64_t   now = tr__clock();

    if (turns != s->turns)
        *s = (stuck){turns, now, 0};
    else if (++s->looks > 1000 && now - s->since > comm->options.timeout + comm->options.grace)
        raise(SIGKILL);
}

/* False: it was not to be had for so long. The sanitizer of threads does not know pthread_mutex_clocklock. */
static bool lock_within(pthread_mutex_t *mutex, int64_t nanoseconds)
{
#ifdef __SANITIZE_THREAD__
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    const int64_t until = (int64_t)at.tv_sec * 1000000000 + at.tv_nsec + nanoseconds;
    at = (struct timespec){until / 1000000000, until % 1000000000};
    return pthread_mutex_timedlock(mutex, &at) == 0;
#else
    const int64_t         until = tr__clock() + nanoseconds;
    const struct timespec at = {until / 1000000000, until % 1000000000};
    return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &at) == 0;
#endif
}

/* Become who drives. */
static void take_drive(tr_comm *comm)
{
    stuck s = {0};

    if (pthread_mutex_trylock(&comm->drive) == 0)
        return;
    while (!lock_within(&comm->drive, LOOK))
        look_whether_stuck(comm, &s);
}

/* One turn of whoever drives. */
static int drive(tr_comm *comm, rhythm *r)
{
    atomic_fetch_add_explicit(&comm->turns, 1, memory_order_relaxed);
    tr__comm_turn_begins(comm);
    const int moved = turn(comm, is_hot(r, comm->now - r->quiet_since));
    r->looked_at = comm->now;
    if (moved) {
        if (!r->is_aside)
            comm->short_waits = comm->now - r->quiet_since < SHORT_WAIT ? comm->short_waits + 1 : 0;
        r->quiet_since = comm->now;
        if (r->is_armed)
            atomic_store(&comm->own_doorbell->armed, 0);
        r->is_armed = false;
        tr_counter_add(&comm->moving, tr__clock() - comm->now);
    }
    r->is_brisk = comm->short_waits >= SHORT_WAITS;
    r->hears_all = hears_all(comm);
    return moved;
}

static void *run(void *payload)
{
    tr_comm *comm = payload;
    rhythm   r;
    stuck    owner = {0};

    prctl(PR_SET_NAME, "trireme-comm");
    prctl(PR_SET_TIMERSLACK, 1000);
    pthread_mutex_lock(&comm->drive);
    const bool has_begun = begin(comm);
    pthread_mutex_unlock(&comm->drive);
    if (!has_begun)
        return NULL;
    /* A trainer that waits drives itself. */
    r = (rhythm){.who = TR_BELL_THREAD, .quiet_since = comm->now, .is_aside = comm->options.role == TR_ROLE_TRAINER};
    for (;;) {
        const unsigned seen = atomic_load(&comm->own_doorbell->rings);
        if (atomic_load(&comm->is_parked))
            return NULL;
        if (atomic_load(&comm->owner_drives)) {
            r.is_armed = false;
            look_whether_stuck(comm, &owner);
            atomic_store(&comm->thread_sleeps, true);
            tr__bell_wait_as(&comm->own_doorbell->rings, TR_BELL_THREAD, seen, LOOK);
            continue;
        }
        atomic_store(&comm->thread_sleeps, false);
        pthread_mutex_lock(&comm->drive);
        const int  moved = drive(comm, &r);
        const bool is_over = may_end(comm);
        pthread_mutex_unlock(&comm->drive);
        if (is_over)
            break;
        if (moved)
            continue;
        atomic_store(&comm->thread_sleeps, true);
        if (!has_commands(comm))
            rest(comm, &r, seen);
    }
    atomic_store(&comm->state, TR__LEFT);
    tr__bell_ring(&comm->owner_bell);
    comm->table->stop(comm->transport, !atomic_load(&comm->has_survived));
    atomic_store(&comm->state, TR__ENDED);
    tr__bell_ring(&comm->owner_bell);
    return NULL;
}

/* == the owner's side =========================================================================== */

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
        owner_rest(comm, seen, left);
    }
}

tr_status tr_comm_start(tr_comm **out, const tr_comm_options *options, const tr_comm_core *core)
{
    tr_comm *comm = aligned_alloc(64, (sizeof *comm + 63) & ~(size_t)63);

    memset(comm, 0, sizeof *comm);
    comm->options = *options;
    comm->core = *core;
    comm->early_end = &comm->early;
    comm->own_doorbell = tr_doorbell_new(&comm->doorbell_file);
    snprintf(comm->transport_path, sizeof comm->transport_path, "%s", options->transport);
    pthread_mutex_init(&comm->lock, NULL);
    pthread_mutex_init(&comm->drive, NULL);
    *out = comm;
    if (pthread_create(&comm->thread, NULL, run, comm))
        return tr_fail(TR_ENOMEM, "cannot start the communication thread");
    comm->has_thread = true;
    /* The thread's own deadline comes first, and says who is missing; beyond it MPI_Init itself hangs. */
    const tr_status status = wait_state(comm, TR__RUNNING, options->start_timeout + 2000000000);
    if (status == TR_ETIMEOUT)
        return tr_fail(TR_ETIMEOUT, "MPI did not start within %.0f s: did a rank die before the others had started?",
                       (double)options->start_timeout / 1e9);
    return status;
}

const tr_roster *tr_comm_roster(const tr_comm *comm)
{
    return comm->roster;
}

/* It naps as a driver, or stands aside for an owner's thread that may nap. */
static void wake_thread(tr_comm *comm)
{
    tr_doorbell_ring(comm->own_doorbell, TR_BELL_OWNER | TR_BELL_THREAD);
}

void tr_comm_carry_on(tr_comm *comm)
{
    if (atomic_load(&comm->thread_sleeps))
        wake_thread(comm);
}

/* What is urgent leaves in the caller's own thread, unless the other is at it. The other is woken where there is more to do: it carries on. */
static void drive_once(tr_comm *comm)
{
    bool is_done = false;

    if (pthread_mutex_trylock(&comm->drive) == 0) {
        rhythm r = {.who = TR_BELL_OWNER, .quiet_since = comm->now};
        drive(comm, &r);
        ring(comm);
        is_done = comm->is_rung_by_all && !comm->out_waiting;
        pthread_mutex_unlock(&comm->drive);
    }
    if (!is_done)
        tr_comm_carry_on(comm);
}

tr_status tr_comm_post(tr_comm *comm, const tr_command *command)
{
    const unsigned tail = atomic_load_explicit(&comm->ring_tail, memory_order_relaxed);

    while (tail - atomic_load_explicit(&comm->ring_head, memory_order_acquire) == TR__RING) {
        TR_TRY(tr_comm_status(comm));
        drive_once(comm);
    }
    if (atomic_load_explicit(&comm->state, memory_order_acquire) == TR__FAILED)
        return tr_comm_status(comm);
    comm->ring[tail % TR__RING] = *command;
    atomic_store(&comm->ring_tail, tail + 1);
    if (command->is_urgent)
        drive_once(comm);
    return TR_OK;
}

uint64_t tr_comm_done(const tr_comm *comm)
{
    return atomic_load_explicit(&comm->done, memory_order_acquire);
}

/* The owner has nothing better to do, so it drives: a message that it waits for needs no change of thread. */
tr_status tr_comm_wait(tr_comm *comm, uint64_t done, int64_t timeout)
{
    const int64_t from = tr__clock();
    rhythm        r = {TR_BELL_OWNER, from};
    bool          is_late = false;

    atomic_store(&comm->owner_drives, true);
    take_drive(comm);
    if (atomic_load_explicit(&comm->own_doorbell->armed, memory_order_relaxed))
        atomic_store(&comm->own_doorbell->armed, 0);
    while (tr_comm_done(comm) < done && atomic_load(&comm->state) != TR__FAILED && !is_late) {
        const unsigned seen = atomic_load(&comm->own_doorbell->rings);
        if (!drive(comm, &r))
            rest(comm, &r, seen);
        is_late = comm->now - from > timeout;
    }
    char waiting[512] = "the servers";
    if (is_late && comm->has_node)
        comm->node.describe(comm->node.self, waiting, sizeof waiting);
    ring(comm);
    pthread_mutex_unlock(&comm->drive);
    atomic_store(&comm->owner_drives, false);
    if (tr_comm_done(comm) >= done)
        return TR_OK;
    return is_late ? tr_fail(TR_ETIMEOUT, "waited %.1f s for %s", (double)timeout / 1e9, waiting) : tr_comm_status(comm);
}

tr_status tr_comm_stand_by(tr_comm *comm, uint64_t done, int64_t timeout)
{
    const int64_t deadline = tr__clock() + timeout;

    while (tr_comm_done(comm) < done) {
        TR_TRY(tr_comm_status(comm));
        if (tr__clock() > deadline)
            return tr_fail(TR_ETIMEOUT, "waited %.1f s for the servers", (double)timeout / 1e9);
        usleep(100);
    }
    return TR_OK;
}

static void free_comm(tr_comm *comm)
{
    for (int i = 0; comm->out && i < comm->roster->size; i++)
        tr_outbox_deinit(&comm->out[i]);
    tr__comm_watch_end(comm);
    tr_doorbell_close(comm->own_doorbell);
    if (comm->doorbell_file >= 0)
        close(comm->doorbell_file);
    tr_roster_free(comm->roster);
    tr_liveness_free(comm->liveness);
    free(comm->out);
    free(comm->doorbell);
    free(comm->to_ring);
    free(comm->is_to_ring);
    free(comm->pidfd);
    free(comm->gone_at);
    pthread_mutex_destroy(&comm->lock);
    pthread_mutex_destroy(&comm->drive);
    free(comm);
}

/* The failure is told when somebody has printed it; a little later the messages about it are on their way. */
static void leave_failed(tr_comm *comm)
{
    const int64_t deadline = tr__clock() + comm->options.grace;

    while (comm->transport && !atomic_load(&comm->is_told) && tr__clock() < deadline)
        owner_rest(comm, atomic_load(&comm->owner_bell), 5000000);
    if (comm->transport)
        usleep(50000);
    atomic_store(&comm->is_parked, true);
    wake_thread(comm);
    pthread_join(comm->thread, NULL);              /* MPI stays as it is, and what it may write into */
}

/* MPI's end asks its daemon, which may sleep or be gone: the job is over all the same. */
static bool end_mpi(tr_comm *comm)
{
    if (wait_state(comm, TR__ENDED, MPI_END) != TR_OK)
        return false;                              /* what the thread uses is left to it */
    pthread_join(comm->thread, NULL);
    free_comm(comm);
    return true;
}

tr_status tr_comm_leave(tr_comm *comm, int64_t timeout, bool *must_exit)
{
    *must_exit = false;
    if (!comm->has_thread) {
        free_comm(comm);
        return TR_OK;
    }
    atomic_store(&comm->is_leaving, true);
    wake_thread(comm);
    const tr_status status = wait_state(comm, TR__LEFT, timeout);
    *must_exit = atomic_load(&comm->has_survived);
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

static bool all_are_out(const tr_comm *comm, const int *rank, int count, bool may_have_died)
{
    for (int i = 0; i < count; i++) {
        const tr_life life = tr_liveness_of(comm->liveness, rank[i]);
        if (life == TR_LIFE_ALIVE || (life == TR_LIFE_DEAD && !may_have_died))
            return false;
    }
    return true;
}

/* A dead trainer's place may be taken yet, for all that this rank knows; servers know. */
bool tr_comm_trainers_left(const tr_comm *comm)
{
    const tr_roster *roster = comm->roster;
    const bool       may_be_replaced = tr_roster_heir_for(roster, roster->trainer_rank[0]) >= 0;

    return all_are_out(comm, roster->trainer_rank, roster->trainers, !may_be_replaced) ||
           all_are_out(comm, roster->server_rank, roster->servers, true);
}

void tr_comm_kill(tr_comm *comm, int rank)
{
    struct pollfd end = {comm->pidfd[rank], POLLIN, 0};

    if (end.fd < 0)
        return;
    syscall(SYS_pidfd_send_signal, end.fd, SIGKILL, NULL, 0);
    poll(&end, 1, KILLED_MAX);
}

void tr_comm_take_place(tr_comm *comm, int server)
{
    tr_roster_replace(comm->roster, server, comm->roster->self);
}

bool tr_comm_inherit(tr_comm *comm, int trainer, uint32_t epoch)
{
    return tr_roster_inherit(comm->roster, trainer, comm->roster->self, epoch);
}

bool tr_comm_mirror(tr_comm *comm, int server)
{
    return tr_roster_mirror(comm->roster, server, comm->roster->self);
}

void tr_comm_set_exit_code(tr_comm *comm, int code)
{
    atomic_store(&comm->exit_code, code);
}

int tr_comm_exit_code(const tr_comm *comm)
{
    const int code = atomic_load(&comm->exit_code);
    return code ? code : 1;
}

void tr_comm_stats(const tr_comm *comm, tr_job_stats *stats)
{
    stats->wire_nanoseconds = tr_counter_get(&comm->moving);
    stats->messages_sent = (int64_t)atomic_load_explicit(&comm->messages_sent, memory_order_relaxed);
    stats->messages_received = (int64_t)atomic_load_explicit(&comm->messages_received, memory_order_relaxed);
    stats->bytes_sent = (int64_t)atomic_load_explicit(&comm->bytes_sent, memory_order_relaxed);
    stats->bytes_received = (int64_t)atomic_load_explicit(&comm->bytes_received, memory_order_relaxed);
}
