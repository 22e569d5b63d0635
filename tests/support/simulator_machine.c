/* simulator_machine.c - the machine of a simulated rank: virtual time, doorbells in one array, processes that are ranks.
 *
 * A rank's process number is FIRST_PID + rank, and a handle of a process (machine.h) is its rank. */
#include "tests/support/simulator_state.h"

#include "framework/base/memory.h"
#include "proto/pserver.pb-c.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_PID = 100 };

void tr__sim_end(tr_sim *sim, int rank, bool is_dead)
{
    tr__sim_rank *r = &sim->rank[rank];
    const bool    is_seen = is_dead || atomic_load(&r->comm->watch.has_survived);

    if (r->has_ended)
        return;
    r->has_ended = true;
    r->is_dead = is_dead;
    sim->left--;
    for (int k = 0; k < TR__THREADS; k++)
        *tr__sim_turn_of(sim, rank, k) = INT64_MAX;
    if (is_dead)
        tr__sim_net_die(sim, rank);
    for (int i = 0; is_seen && sim->options.notice >= 0 && i < sim->size; i++)
        if (!sim->rank[i].has_ended)
            tr__sim_push(sim, (tr__event){.kind = TR__REPORT, .rank = i, .about = rank,
                                          .time = sim->now + 1 + tr__sim_time(sim, sim->options.notice)});
}

static int64_t clock_of(void *self)
{
    return ((tr__sim_rank *)self)->sim->now;
}

/* A processor for each rank, so that no rank wakes on another one's processor. */
static int processors(void *self)
{
    return ((tr__sim_rank *)self)->sim->size;
}

static int processor(void *self)
{
    return ((tr__sim_rank *)self)->rank;
}

/* Wake the threads that sleep on the word. An owner's own bell wakes an owner that waits for its loop's state. */
static void ring(void *self, atomic_uint *word, unsigned who)
{
    tr__sim_rank *r = self;
    tr_sim       *sim = r->sim;

    atomic_fetch_add(word, 1);
    if (word == &r->comm->owner_bell) {
        if (r->owner != TR__OWNER_WAITS && r->owner != TR__OWNER_FREE)
            tr__sim_rouse(sim, r->rank, TR__OWNER);
        return;
    }
    const int rank = (int)((tr_doorbell *)(void *)((char *)word - offsetof(tr_doorbell, rings)) - sim->bell);
    for (int k = 0; k < TR__THREADS; k++)
        if (sim->rank[rank].rest[k].kind == TR__REST_NAP && sim->rank[rank].rest[k].who & who)
            tr__sim_rouse(sim, rank, k);
}

static tr_doorbell *make_doorbell(void *self, int *file)
{
    const tr__sim_rank *r = self;

    *file = r->rank;
    return &r->sim->bell[r->rank];
}

static int rank_of(const tr_sim *sim, int64_t pid)
{
    const int64_t rank = pid - FIRST_PID;
    return rank >= 0 && rank < sim->size ? (int)rank : -1;
}

static tr_doorbell *open_doorbell(void *self, int64_t pid, int file)
{
    const tr__sim_rank *r = self;
    return file >= 0 && rank_of(r->sim, pid) == file ? &r->sim->bell[file] : NULL;
}

static void close_doorbell(void *self, tr_doorbell *bell)
{
    (void)self;
    (void)bell;
}

static tr_status pack_hello(uint8_t **out, size_t *size, void *self, tr_role role, uint32_t incarnation, bool can_replace, int doorbell)
{
    Trireme__Pserver__Hello hello = TRIREME__PSERVER__HELLO__INIT;
    const tr__sim_rank     *r = self;

    hello.version = (char *)(uintptr_t)tr_version();
    hello.role = (uint32_t)role;
    hello.pid = (uint64_t)(FIRST_PID + r->rank);
    hello.host = (char *)"h";
    hello.host_id = (char *)(uintptr_t)r->program.host;
    hello.incarnation = incarnation;
    hello.has_can_replace = hello.can_replace = can_replace;
    hello.has_doorbell = true;
    hello.doorbell = doorbell;
    *size = trireme__pserver__hello__get_packed_size(&hello);
    *out = tr__must_bytes(*size);
    trireme__pserver__hello__pack(&hello, *out);
    return TR_OK;
}

static int64_t progress(void *self)
{
    const tr__sim_rank *r = self;
    return r->is_stuck ? 0 : r->sim->now;
}

/* == processes ================================================================================= */

static int open_process(void *self, int64_t pid)
{
    const tr__sim_rank *r = self;
    const int           rank = rank_of(r->sim, pid);
    return rank >= 0 && !r->sim->rank[rank].has_ended ? rank : -1;
}

static void close_process(void *self, int process)
{
    (void)self;
    (void)process;
}

static bool has_ended(void *self, int process)
{
    return ((tr__sim_rank *)self)->sim->rank[process].has_ended;
}

static bool has_any_ended(void *self)
{
    (void)self;
    return true;                                   /* the loop looks at each process */
}

static bool is_open(void *self, int process)
{
    (void)self;
    return process >= 0;
}

static void kill_process(void *self, int process)
{
    tr__sim_end(((tr__sim_rank *)self)->sim, process, true);
}

static bool can_read(void *self, int64_t pid)
{
    (void)self;
    (void)pid;
    return true;
}

/* == messages to users ========================================================================= */

static void hear(const tr__sim_rank *r, const char *what, int about, const char *text)
{
    const tr_sim_options *o = &r->sim->options;
    if (o->hear)
        o->hear(o->payload, r->sim->now, r->rank, what, about, text);
}

static bool tell(void *self, tr_notice what, int rank, const char *text)
{
    if (what == TR_NOTICE_TOLD)                 /* without a launcher the rank itself prints */
        return false;
    hear(self, tr_notice_file(what), rank, text);
    return true;
}

static bool may_explain(void *self)
{
    tr__sim_rank *r = self;

    for (int i = 0; i < r->sim->size; i++)
        if (r->sim->rank[i].has_heard && !strcmp(r->sim->rank[i].program.host, r->program.host))
            return false;
    return r->has_heard = true;
}

static void print(void *self, const char *text)
{
    const tr__sim_rank *r = self;
    hear(r, "says", r->rank, text);
}

static __attribute__((noreturn)) void end(void *self, tr_rank_end how, int code)
{
    tr__sim_rank *r = self;

    (void)how;
    (void)code;
    tr__sim_end(r->sim, r->rank, true);
    longjmp(r->sim->turn, 1);
}

tr_machine tr__sim_machine(tr__sim_rank *r)
{
    return (tr_machine){r, clock_of, processors, processor, ring, make_doorbell, open_doorbell, close_doorbell, pack_hello,
                        progress, open_process, close_process, has_ended, has_any_ended, is_open, kill_process, can_read, tell,
                        may_explain, print, end};
}
