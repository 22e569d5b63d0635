/* simulator.c - a heap of events, and the next turn of each rank's two threads. The earliest of all comes next. At equal times events
 * come before turns, and ties are broken by the order of creation. */
#include "tests/support/simulator_state.h"

#include "framework/base/memory.h"

#include <assert.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times are nanoseconds, as in all files of the simulator. */
static const int64_t MILLISECOND = 1000000;
/* A command that calls a function of the program. */
enum { CALL_KIND = -1 };

typedef struct call {
    void (*call)(void *payload);
    void  *payload;
} call;

/* == a rank's core, with one command of the simulator's own ==================================== */

static tr_node make(void *self, const tr_roster *roster)
{
    tr__sim_rank *r = self;
    return r->program.core.make(r->program.core.self, roster);
}

/* A command that carries a call instead. */
typedef struct carrier {
    tr_command head;
    call      *what;
} carrier;

static void command(void *self, const tr_command *c)
{
    tr__sim_rank *r = self;

    if (c->kind != CALL_KIND) {
        r->program.core.command(r->program.core.self, c);
        return;
    }
    call *const what = ((const carrier *)(const void *)c)->what;
    const call  todo = *what;
    free(what);
    todo.call(todo.payload);
}

static void flush(void *self, bool owner_waits)
{
    tr__sim_rank *r = self;
    r->program.core.flush(r->program.core.self, owner_waits);
}

static uint64_t done(void *self)
{
    tr__sim_rank *r = self;
    return r->program.core.done(r->program.core.self);
}

/* == a simulator =============================================================================== */

/* Simulators come and go by thousands: what one frees the next one takes, without the kernel. */
static void keep_memory(void)
{
    static bool is_kept;

    if (!is_kept) {
        mallopt(M_MMAP_THRESHOLD, 1 << 30);
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
    }
    is_kept = true;
}

tr_sim *tr_sim_new(int size, const tr_sim_options *options)
{
    keep_memory();
    tr_sim *sim = tr__must_alloc(sizeof *sim);

    sim->options = *options;
    if (!sim->options.timeout) {
        sim->options.heartbeat = 500 * MILLISECOND;
        sim->options.timeout = 3000 * MILLISECOND;
    }
    sim->size = sim->left = size;
    sim->random = options->seed * 2 + 1;
    sim->running = -1;
    sim->rank = tr__must_array((size_t)size, sizeof *sim->rank);
    sim->bell = tr__must_array((size_t)size, sizeof *sim->bell);
    sim->at = tr__must_array((size_t)size * TR__THREADS, sizeof *sim->at);
    for (int i = 0; i < size; i++) {
        sim->rank[i].sim = sim;
        sim->rank[i].rank = i;
        tr__sim_net_init(&sim->rank[i].transport, sim, i);
    }
    return sim;
}

void tr_sim_attach(tr_sim *sim, int rank, const tr_sim_program *program)
{
    tr__sim_rank         *r = &sim->rank[rank];
    const tr_machine      machine = tr__sim_machine(r);
    const tr_comm_core    core = {r, make, command, flush, done};
    const tr_comm_options options = {.role = program->role, .can_replace = program->can_replace, .incarnation = program->incarnation,
                                     .heartbeat = sim->options.heartbeat, .timeout = sim->options.timeout,
                                     .start_timeout = 4 * sim->options.timeout, .grace = sim->options.timeout / 2, .transport = ""};

    r->program = *program;
    for (r->host = 0; r->host < rank && strcmp(sim->rank[r->host].program.host, program->host) != 0;)
        r->host++;
    r->comm = tr__comm_new(&options, &core, &machine);
    r->comm->table = &tr__sim_transport;
    sim->at[rank * TR__THREADS + TR__THREAD] = sim->now + tr__sim_time(sim, sim->options.delay);
    sim->at[rank * TR__THREADS + TR__OWNER] = sim->at[rank * TR__THREADS + TR__BEATER] = INT64_MAX;
}

static void free_rank(tr__sim_rank *r)
{
    tr_comm *comm = r->comm;

    if (!comm)
        return;
    for (unsigned i = comm->commands.head; i != comm->commands.tail; i++) {
        const void *posted = &comm->commands.slot[i % TR__RING];
        if (((const tr_command *)posted)->kind == CALL_KIND)
            free(((const carrier *)posted)->what);
    }
    while (comm->early) {
        tr__early *early = comm->early;
        comm->early = early->next;
        free(early->payload);
        free(early);
    }
    comm->doorbell_file = -1;                      /* the simulated number is no descriptor of this process */
    tr__comm_free(comm);
}

/* A rank that ended in the middle of a send may have the message in a queue, too, which frees it then. */
static void leave_to_queue(tr__sim_rank *r)
{
    for (int i = 0; r->comm && r->comm->peer && i < r->sim->size; i++) {
        const tr_outbox *out = &r->comm->peer[i].out;
        if (out->count && tr__token_of(&out->item[out->first]) == r->transport.token)
            r->transport.token = NULL;
    }
}

void tr_sim_free(tr_sim *sim)
{
    if (!sim)
        return;
    for (size_t i = 0; i < sim->count; i++)
        if (sim->heap[i].parcel)
            tr__sim_release(sim->heap[i].parcel);
    for (int i = 0; i < sim->size; i++) {
        leave_to_queue(&sim->rank[i]);
        tr__sim_net_deinit(&sim->rank[i].transport);
        free_rank(&sim->rank[i]);
    }
    free(sim->heap);
    free(sim->rank);
    free(sim->bell);
    free(sim->at);
    free(sim);
}

tr_comm *tr_sim_comm(tr_sim *sim, int rank)
{
    return sim->rank[rank].comm;
}

int64_t tr_sim_now(const tr_sim *sim)
{
    return sim->now;
}

bool tr_sim_is_dead(const tr_sim *sim, int rank)
{
    return sim->rank[rank].is_dead;
}

bool tr_sim_has_ended(const tr_sim *sim, int rank)
{
    return sim->rank[rank].has_ended;
}

tr_status tr_sim_status(const tr_sim *sim, int rank, const char **text)
{
    const tr_comm *comm = sim->rank[rank].comm;

    *text = comm->status == TR_OK ? NULL : comm->text;
    return comm->status;
}

void tr_sim_call(tr_sim *sim, int rank, int64_t after, void (*function)(void *payload), void *payload)
{
    tr__sim_push(sim, (tr__event){.kind = TR__CALL, .time = sim->now + after, .rank = rank, .call = function, .payload = payload});
}

void tr_sim_kill(tr_sim *sim, int rank, int64_t after)
{
    tr__sim_push(sim, (tr__event){.kind = TR__KILL, .time = sim->now + after, .rank = rank});
}

void tr_sim_stop(tr_sim *sim, int rank, int64_t after, int64_t duration)
{
    tr__sim_push(sim, (tr__event){.kind = TR__STOP, .time = sim->now + after, .rank = rank, .duration = duration});
}

/* == the next turn ============================================================================= */

void tr_sim_wake(tr_sim *sim, int rank)
{
    if (sim->rank[rank].owner == TR__OWNER_IDLE)
        tr__sim_rouse(sim, rank, TR__OWNER);
}

/* How a thread rests until its next turn. */
static void rest(tr__sim_rank *r, int thread, tr__rest how)
{
    tr_sim       *sim = r->sim;
    const int64_t turn = sim->options.turn ? tr__sim_time(sim, sim->options.turn) : 0;
    int64_t       at = sim->now + turn;

    if (how.kind == TR__REST_NAP && how.seen != atomic_load(&r->comm->own_doorbell->rings))
        how.kind = TR__REST_NONE;
    if (how.kind != TR__REST_NONE && how.kind != TR__REST_NAP && r->transport.is_fresh)
        how.kind = TR__REST_NONE;
    if (how.kind != TR__REST_NONE)
        at += how.nanoseconds;
    r->rest[thread] = how;
    tr__sim_set_turn(sim, r->rank, thread, at);
}

static void thread_turn(tr__sim_rank *r)
{
    tr_sim *sim = r->sim;

    if (!r->has_begun) {
        r->has_begun = tr__comm_thread_begin(r->comm, &r->thread);
        assert(r->has_begun);
        rest(r, TR__THREAD, (tr__rest){TR__REST_NONE});
        tr__sim_set_turn(sim, r->rank, TR__OWNER, sim->now);
        return;
    }
    const tr__rest how = tr__comm_thread_turn(r->comm, &r->thread);
    if (how.kind != TR__REST_OVER) {
        rest(r, TR__THREAD, how);
        return;
    }
    *tr__sim_turn_of(sim, r->rank, TR__THREAD) = INT64_MAX;
    if (atomic_load(&r->comm->wish) != TR__PARK)
        tr__comm_thread_end(r->comm);
}

/* == owners ==================================================================================== */

static void owner_sleeps(tr__sim_rank *r, int64_t until)
{
    r->rest[TR__OWNER] = (tr__rest){TR__REST_NONE};
    tr__sim_set_turn(r->sim, r->rank, TR__OWNER, until);
}

/* Leave a failed job as tr_comm_leave does: wait until a rank has printed the reason, and a little longer. */
static void fail(tr__sim_rank *r)
{
    tr_sim *sim = r->sim;

    if (r->owner != TR__OWNER_FAILS) {
        r->owner = TR__OWNER_FAILS;
        r->gone_at = sim->now + r->comm->options.grace;
        owner_sleeps(r, r->gone_at);
    }
    if (atomic_load(&r->comm->watch.is_told) || sim->now >= r->gone_at) {
        r->owner = TR__OWNER_GOES;
        owner_sleeps(r, sim->now + 50 * MILLISECOND);
    }
}

static void plan(tr__sim_rank *r)
{
    tr_sim           *sim = r->sim;
    const tr_sim_plan next = r->program.go_on(r->program.core.self);

    switch (next.kind) {
    case TR_SIM_WAIT:
        r->owner = TR__OWNER_WAITS;
        tr__comm_wait_begin(r->comm, &r->wait, next.until, INT64_MAX / 4);
        owner_sleeps(r, sim->now);
        break;
    case TR_SIM_WORK:
        r->owner = TR__OWNER_FREE;
        owner_sleeps(r, sim->now + (int64_t)next.until);
        break;
    case TR_SIM_IDLE:
        r->owner = TR__OWNER_IDLE;
        owner_sleeps(r, INT64_MAX);
        break;
    case TR_SIM_LEAVE:
        r->owner = TR__OWNER_LEAVES;
        owner_sleeps(r, INT64_MAX);
        tr__comm_leave_begin(r->comm, true);
        break;
    }
}

static void wait_turn(tr__sim_rank *r)
{
    const tr__rest how = tr__comm_wait_turn(r->comm, &r->wait);

    if (how.kind != TR__REST_OVER) {
        rest(r, TR__OWNER, how);
        return;
    }
    tr__comm_wait_end(r->comm, &r->wait, NULL);
    r->owner = TR__OWNER_FREE;
    rest(r, TR__OWNER, (tr__rest){TR__REST_NONE});
}

static void owner_turn(tr__sim_rank *r)
{
    const int state = atomic_load(&r->comm->state);

    if (r->owner == TR__OWNER_WAITS)
        wait_turn(r);
    else if (r->owner == TR__OWNER_GOES)
        tr__sim_end(r->sim, r->rank, true);
    else if (state == TR__FAILED)
        fail(r);
    else if (r->owner == TR__OWNER_LEAVES && state == TR__ENDED)
        tr__sim_end(r->sim, r->rank, false);
    else if (r->owner == TR__OWNER_LEAVES || state == TR__STARTING)
        owner_sleeps(r, INT64_MAX);
    else
        plan(r);
}

/* == running =================================================================================== */

void tr_sim_busy(tr_sim *sim, int rank, int64_t duration, bool is_stuck)
{
    tr__sim_rank *r = &sim->rank[rank];

    r->busy_until = sim->now + duration;
    r->is_stuck = is_stuck;
    tr__sim_push(sim, (tr__event){.kind = TR__FREE, .time = r->busy_until, .rank = rank});
}

/* The turn is over. If it takes longer, its driver is away from the transport until then. */
static void stay_away(tr_sim *sim, int rank)
{
    tr__sim_rank *r = &sim->rank[rank];

    if (r->has_ended || sim->now >= r->busy_until || atomic_load(&r->comm->inside) == TR__AWAY)
        return;
    tr__comm_away(r->comm);
    r->pulse = (tr__pulse){.turns = -1};
    for (int k = 0; k < TR__THREADS; k++)
        tr__sim_set_turn(sim, rank, k, k == TR__BEATER ? sim->now : *tr__sim_turn_of(sim, rank, k));
}

static void post_call(tr_sim *sim, const tr__event *e)
{
    tr__sim_rank *r = &sim->rank[e->rank];

    if (r->has_ended || atomic_load(&r->comm->state) != TR__RUNNING)
        return;
    const int64_t free_at = r->stopped_until > r->busy_until ? r->stopped_until : r->busy_until;
    if (sim->now < free_at) {
        tr_sim_call(sim, e->rank, free_at - sim->now, e->call, e->payload);
        return;
    }
    call *todo = tr__must_bytes(sizeof *todo);
    *todo = (call){e->call, e->payload};
    sim->running = e->rank;
    if (setjmp(sim->turn) == 0) {
        const carrier c = {.head = {CALL_KIND, .is_urgent = true}, .what = todo};
        if (tr_comm_post(r->comm, &c.head, sizeof c) != TR_OK)
            free(todo);
    }
    sim->running = -1;
    stay_away(sim, e->rank);
    tr__sim_stir(sim, e->rank);
}

static void stop(tr_sim *sim, int rank, int64_t duration)
{
    sim->rank[rank].stopped_until = sim->now + duration;
    for (int k = 0; k < TR__THREADS; k++)
        tr__sim_set_turn(sim, rank, k, *tr__sim_turn_of(sim, rank, k));
}

static void come_back(tr_sim *sim, int rank)
{
    tr__sim_rank *r = &sim->rank[rank];

    if (!r->has_ended && atomic_load(&r->comm->inside) == TR__AWAY)
        tr__comm_back(r->comm);
    *tr__sim_turn_of(sim, rank, TR__BEATER) = INT64_MAX;
}

static void beater_turn(tr__sim_rank *r)
{
    const tr__rest how = tr__comm_pulse_turn(r->comm, &r->pulse);
    tr__sim_set_turn(r->sim, r->rank, TR__BEATER, r->sim->now + how.nanoseconds);
}

static void happen(tr_sim *sim, const tr__event *e)
{
    switch (e->kind) {
    case TR__ARRIVE: tr__sim_arrive(sim, e->parcel); break;
    case TR__WHOLE:  tr__sim_whole(sim, e->parcel); break;
    case TR__CALL:   post_call(sim, e); break;
    case TR__KILL:   tr__sim_end(sim, e->rank, true); break;
    case TR__REPORT: tr__sim_report(sim, e->rank, e->about); break;
    case TR__STOP:   stop(sim, e->rank, e->duration); break;
    case TR__FREE:   come_back(sim, e->rank); break;
    }
}

static void take_turn(tr_sim *sim, int rank, int thread)
{
    sim->running = rank;
    if (setjmp(sim->turn) == 0) {
        if (thread == TR__THREAD)
            thread_turn(&sim->rank[rank]);
        else if (thread == TR__OWNER)
            owner_turn(&sim->rank[rank]);
        else
            beater_turn(&sim->rank[rank]);
    }
    sim->running = -1;
    stay_away(sim, rank);
}

static int next_turn(const tr_sim *sim)
{
    int next = 0;

    for (int i = 1; i < sim->size * TR__THREADS; i++)
        if (sim->at[i] < sim->at[next])
            next = i;
    return next;
}

bool tr_sim_run(tr_sim *sim, int64_t until)
{
    while (sim->left) {
        const int     next = next_turn(sim);
        const bool    is_event = sim->count && sim->heap[0].time <= sim->at[next];
        const int64_t time = is_event ? sim->heap[0].time : sim->at[next];
        if (time > until)
            return false;
        sim->now = time > sim->now ? time : sim->now;
        if (is_event) {
            const tr__event e = tr__sim_pop(sim);
            happen(sim, &e);
        } else {
            take_turn(sim, next / TR__THREADS, next % TR__THREADS);
        }
    }
    return true;
}
