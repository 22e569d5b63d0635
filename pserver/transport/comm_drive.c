/* comm_drive.c - the driver's work: turn after turn, with a rest when nothing moves. The driver is the communication thread, or an owner
 * that waits. */
#include "pserver/transport/comm_state.h"

#include <sched.h>

/* Commands that are not urgent wait at least so long for others. If the driver naps, they wait until its nap ends. Times in this file
 * are nanoseconds. */
static const int64_t GATHERING = 1000000;
/* How long a driver without work polls before it naps. It polls long (HOT) if the last SHORT_WAITS messages each came within SHORT_WAIT.
 * Then it also yields to the other ranks, if there are more ranks than processors. Otherwise it does not yield: if it yields to a thread
 * that computes, it waits for that thread's whole time slice. */
static const int64_t HOT = 30000, HOT_CALM = 5000, SHORT_WAIT = 200000;
enum { SHORT_WAITS = 64 };
/* A nap without a ring lasts a part of the quiet time before it. So it delays a message by no more than that part. It is never so long
 * that heartbeats are late. If some ranks cannot ring this one, it is also short enough for their messages. If all can ring it, a very
 * short nap would only take processor time from threads that compute. Where more than NAP_CROWD ranks share a processor, such naps are
 * longer by that. A rank that waits for hellos or goodbyes of many ranks is patient: each of them ends a quiet time, and few naps later the
 * next one comes. */
static const int64_t NAP_MIN = 20000, NAP_MIN_RUNG = 3000000, NAP_MIN_PATIENT = 1000000;
static const int64_t NAP_PART = 8, NAP_MAX = 5000000, NAP_MAX_RUNG = 12000000;
enum { NAP_CROWD = 4 };
/* Receivers of messages are rung when nothing moves here any more, or after so long. */
static const int64_t UNRUNG_MAX = 50000;

/* == a turn =================================================================================== */

static int take_commands(tr_comm *comm)
{
    const unsigned tail = atomic_load_explicit(&comm->commands.tail, memory_order_acquire);
    unsigned       head = atomic_load_explicit(&comm->commands.head, memory_order_relaxed);
    const unsigned count = tail - head;
    const bool     owner_waits = atomic_load(&comm->owner_drives);
    bool           is_urgent = owner_waits;

    for (; head != tail; head++) {
        is_urgent |= comm->commands.slot[head % TR__RING].head.is_urgent;
        tr__comm_away(comm);
        comm->core.command(comm->core.self, &comm->commands.slot[head % TR__RING].head);
        tr__comm_back(comm);
        atomic_store_explicit(&comm->commands.head, head + 1, memory_order_release);
    }
    if (count && !comm->commands.gather_since)
        comm->commands.gather_since = comm->now;
    if (comm->commands.gather_since && (is_urgent || comm->now - comm->commands.gather_since >= GATHERING)) {
        tr__comm_away(comm);
        comm->core.flush(comm->core.self, owner_waits);
        tr__comm_back(comm);
        comm->commands.gather_since = 0;
    }
    return (int)count;
}

static void publish(tr_comm *comm)
{
    atomic_store_explicit(&comm->done, comm->core.done(comm->core.self), memory_order_release);
}

/* Should the driver poll again at once? */
static bool is_hot(const tr__rhythm *r, int64_t quiet)
{
    return quiet < (r->is_brisk ? HOT : HOT_CALM) && !r->is_aside;
}

/* Does a ring announce everything that this rank waits for? Events inside MPI come without a ring: for example, that a payload was sent. */
static bool hears_all(const tr_comm *comm)
{
    return comm->bells.are_mutual && !comm->out_waiting &&
           !(comm->has_node && comm->node.awaits_loans && comm->node.awaits_loans(comm->node.self));
}

static unsigned bits_for(const tr_comm *comm, unsigned who)
{
    const bool awaits_receipts = !comm->has_node || !comm->node.awaits_receipts ||
                                 comm->node.awaits_receipts(comm->node.self, who == TR_BELL_OWNER);
    return awaits_receipts ? who | TR_BELL_RECEIPTS : who;
}

bool tr__comm_is_thread_deaf(const tr_comm *comm)
{
    const unsigned wanted = bits_for(comm, TR_BELL_THREAD);
    return (atomic_load(&comm->own_doorbell->armed) & wanted) != wanted;
}

bool tr__comm_has_commands(const tr_comm *comm)
{
    return atomic_load_explicit(&comm->commands.head, memory_order_relaxed) != atomic_load(&comm->commands.tail);
}

/* Poll many times while a message is likely at any moment: a poll costs less than the rest of a turn. */
static int poll_often(const tr_comm *comm)
{
    enum { OFTEN = 32 };
    int moved = 0;

    for (int i = 0; i < OFTEN && !moved && !tr__comm_has_commands(comm); i++)
        moved = comm->table->poll(comm->transport);
    return moved;
}

/* All ranks are known: number them, make the core, and give it the early messages. */
static void begin_core(tr_comm *comm)
{
    const tr_status status = tr_roster_close(comm->roster);

    if (status != TR_OK) {
        tr__comm_failed(comm, status, comm->roster->self, tr_error());
        return;
    }
    tr__comm_away(comm);
    comm->node = comm->core.make(comm->core.self, comm->roster);
    tr__comm_back(comm);
    comm->has_node = true;
    tr__comm_watch_begin(comm);
    tr__comm_receive_early(comm);
    int expected = TR__STARTING;
    atomic_compare_exchange_strong(&comm->state, &expected, TR__RUNNING);
    tr__comm_ring_owner(comm);
}

/* The owner's commands, and the answers to messages that have come, are sent before anything else. */
static int turn(tr_comm *comm, bool often)
{
    int moved = 0;

    if (comm->has_node && comm->status == TR_OK && tr__comm_has_commands(comm)) {
        moved += take_commands(comm);
        moved += tr__comm_send_core(comm);
    }
    moved += often && !moved ? poll_often(comm) : comm->table->poll(comm->transport);
    if (moved)
        moved += tr__comm_send_core(comm);
    if (!comm->has_node && comm->status == TR_OK && comm->roster->known == comm->roster->size)
        begin_core(comm);
    if (comm->has_node && comm->status == TR_OK) {
        moved += take_commands(comm);
        tr__comm_away(comm);
        comm->tick_at = comm->node.tick ? comm->node.tick(comm->node.self, comm->now) : INT64_MAX;
        tr__comm_back(comm);
        tr__comm_check_core(comm, comm->roster->self);
        publish(comm);
    }
    moved += tr__comm_send_core(comm);
    moved += tr__comm_send_waiting(comm);
    tr__comm_watch(comm);
    if (!moved || comm->now - comm->bells.due_since >= UNRUNG_MAX)
        tr__comm_ring(comm, false);
    return moved;
}

/* One turn of the driver. Reading the clock takes as long as sending a small message. So a turn reads it once when it begins, and once
 * more if anything moved. */
int tr__comm_drive(tr_comm *comm, tr__rhythm *r, int64_t now)
{
    tr_counter_add(&comm->turns, 1);
    tr__comm_turn_begins(comm, now);
    const int moved = turn(comm, is_hot(r, comm->now - r->quiet_since));
    if (moved) {
        if (!r->is_aside)
            comm->short_waits = comm->now - r->quiet_since < SHORT_WAIT ? comm->short_waits + 1 : 0;
        if (r->has_armed)
            atomic_store(&comm->own_doorbell->armed, 0);
        r->has_armed = false;
        r->quiet_since = comm->now = tr__comm_clock(comm);
        tr_counter_add(&comm->moving, comm->now - now);
    }
    r->looked_at = comm->now;
    r->is_brisk = comm->short_waits >= SHORT_WAITS;
    r->hears_all = hears_all(comm);
    r->is_patient = !comm->has_node || comm->said_bye;
    r->wakes_as = bits_for(comm, r->who);
    r->until_tick = comm->has_node ? comm->tick_at - comm->now : INT64_MAX;
    return moved;
}

/* == between turns ============================================================================= */

static void arm(tr_comm *comm, unsigned who)
{
    tr_doorbell_arm(comm->own_doorbell, who, comm->machine.processor(comm->machine.self));
}

/* The thread sleeps, or is about to. An earlier driver has disarmed its doorbell. */
void tr__comm_arm_for_thread(tr_comm *comm)
{
    if (atomic_load(&comm->thread_sleeps) && !atomic_load(&comm->own_doorbell->armed))
        arm(comm, bits_for(comm, TR_BELL_THREAD));
}

/* Choose the length of a nap. It never passes the time at which the core wants a tick. The thread naps without the lock of the drive, so
 * this reads nothing that another driver writes. */
static int64_t choose_nap(const tr_comm *comm, const tr__rhythm *r, int64_t quiet)
{
    const int64_t crowd = comm->ranks_here > NAP_CROWD ? comm->ranks_here / NAP_CROWD : 1;
    const int64_t shortest = r->hears_all ? NAP_MIN_RUNG : r->is_patient ? NAP_MIN_PATIENT : NAP_MIN;
    const int64_t least = shortest * crowd, most = comm->bells.are_mutual ? NAP_MAX_RUNG : NAP_MAX;
    const int64_t part = quiet / NAP_PART, nap = part > least ? part : least;
    const int64_t until_tick = r->until_tick > NAP_MIN ? r->until_tick : NAP_MIN;
    const int64_t bounded = nap < most ? nap : most;

    return until_tick < bounded ? until_tick : bounded;
}

/* Before a driver sleeps, it arms its doorbell and looks once more. A ring ends its sleep, also a ring that came before that look. Such
 * a ring disarms the doorbell. So a message that comes after the look would find an unarmed doorbell; then the driver arms it anew. */
tr__rest tr__comm_choose_rest(tr_comm *comm, tr__rhythm *r, unsigned seen)
{
    const int64_t quiet = r->looked_at - r->quiet_since;

    if (is_hot(r, quiet))
        return (tr__rest){comm->is_crowded && r->is_brisk ? TR__REST_YIELD : TR__REST_HOT, .seen = seen,
                          .nanoseconds = (r->is_brisk ? HOT : HOT_CALM) - quiet};
    if (!r->has_armed || atomic_load(&comm->own_doorbell->armed) != r->wakes_as) {
        arm(comm, r->wakes_as);
        r->has_armed = true;
        return (tr__rest){TR__REST_NONE};
    }
    return (tr__rest){TR__REST_NAP, r->who, seen, choose_nap(comm, r, quiet)};
}

void tr__comm_rest(tr_comm *comm, const tr__rest *rest)
{
    if (rest->kind != TR__REST_NAP && tr__schedule)
        tr__schedule->poll(rest->nanoseconds);
    else if (rest->kind == TR__REST_HOT)
        tr__pause();
    else if (rest->kind == TR__REST_YIELD)
        sched_yield();
    else if (rest->kind == TR__REST_NAP)
        tr__bell_wait_as(&comm->own_doorbell->rings, rest->who, rest->seen, rest->nanoseconds);
}

/* == becoming the driver ======================================================================== */

void tr__comm_look_whether_stuck(const tr_comm *comm, tr__stuck *s, int looks)
{
    const int64_t turns = tr_counter_get(&comm->turns) + tr_counter_get(&comm->pulse.count), now = tr__comm_clock(comm);

    if (turns != s->turns)
        *s = (tr__stuck){turns, now, 0};
    else if ((s->looks += looks) > 1000 && now - s->since > comm->options.timeout + comm->options.grace)
        comm->machine.end(comm->machine.self, TR_RANK_IS_DEAD, 0);
}

/* False: the lock was not free for so long. The thread sanitizer does not know pthread_mutex_clocklock, and glibc has it since 2.30. */
static bool lock_within(pthread_mutex_t *mutex, int64_t nanoseconds)
{
#if defined(__SANITIZE_THREAD__) || !__GLIBC_PREREQ(2, 30)
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

int64_t tr__comm_take_drive(tr_comm *comm)
{
    tr__stuck s = {0};

    if (pthread_mutex_trylock(&comm->drive) == 0)
        return 0;
    const int64_t from = tr__comm_clock(comm);
    while (!lock_within(&comm->drive, TR__LOOK))
        tr__comm_look_whether_stuck(comm, &s, 1);
    return tr__comm_clock(comm) - from;
}
