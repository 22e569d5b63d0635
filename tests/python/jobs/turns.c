/* turns.c - see turns.h. */
#include "turns.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { NOBODY = -1, TURN_MOST = 2000, WAKE_MOST = 5000, GONE_MOST = 1000 };

static turns       *shared;
static int          own_rank;
static _Thread_local int own_thread = NOBODY;

/* == chance ==================================================================================== */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

int64_t turns_draw(turns *t, int64_t most)
{
    t->random += 0x9e3779b97f4a7c15U;
    return most > 0 ? 1 + (int64_t)(mix(t->random) % (uint64_t)most) : 0;
}

/* == the next turn ============================================================================= */

static void futex(atomic_uint *word, int what, unsigned value)
{
    syscall(SYS_futex, word, what, value, NULL, NULL, 0);
}

static void wake(turns_thread *one)
{
    atomic_store(&one->turn, 1);
    futex(&one->turn, FUTEX_WAKE, 1);
}

static void await_turn(turns_thread *one)
{
    while (!atomic_exchange(&one->turn, 0))
        futex(&one->turn, FUTEX_WAIT, 0);
}

static void end_rank(turns *t, int rank, bool is_reported)
{
    turns_rank *dead = &t->rank[rank];

    if (dead->is_gone)
        return;
    dead->is_gone = true;
    for (int i = 0; i < MOST_THREADS; i++)
        dead->thread[i].state = TURNS_FREE;
    for (int i = 0; i < t->size && is_reported && t->notice >= 0; i++) {
        const int64_t at = t->now + turns_draw(t, t->notice);
        t->rank[i].reported[rank] = at;
        turns_message(t, i, at);
    }
}

/* Others see the process end at this moment, so it must be gone. */
static void kill_rank(turns *t, int rank)
{
    const pid_t   pid = t->rank[rank].pid;
    const int     process = (int)syscall(SYS_pidfd_open, pid, 0);
    struct pollfd end = {process, POLLIN, 0};

    if (t->rank[rank].is_gone || !pid)
        return;
    end_rank(t, rank, true);
    if (pid == getpid())
        t->runs_rank = rank;                       /* its parent hands the turn on */
    kill(pid, SIGKILL);
    poll(&end, 1, GONE_MOST);
    close(process);
}

static bool find_next(const turns *t, int *rank, int *thread, int64_t *at)
{
    *at = INT64_MAX;
    *rank = NOBODY;
    for (int r = 0; r < t->size; r++)
        for (int i = 0; i < MOST_THREADS; i++) {
            const turns_thread *one = &t->rank[r].thread[i];
            if (one->state == TURNS_RESTS && one->at < *at) {
                *at = one->at;
                *rank = r;
                *thread = i;
            }
        }
    return *rank != NOBODY;
}

/* Kill the ranks whose time has come before that of the next turn. */
static bool kill_before(turns *t, int64_t at)
{
    for (int i = 0; i < MOST_KILLS; i++)
        if (t->kill[i].at && t->kill[i].at <= at) {
            t->now = t->kill[i].at > t->now ? t->kill[i].at : t->now;
            t->kill[i].at = 0;
            kill_rank(t, t->kill[i].rank);
            return true;
        }
    return false;
}

static void hand_on(turns *t)
{
    int     rank, thread;
    int64_t at;

    do {
        t->runs_rank = NOBODY;
        if (!find_next(t, &rank, &thread, &at))
            return;
    } while (kill_before(t, at));
    turns_thread *next = &t->rank[rank].thread[thread];
    t->now = at > t->now ? at : t->now;
    t->handed++;
    t->digest = mix(t->digest ^ (uint64_t)(t->now - t->begun) ^ (uint64_t)(rank * MOST_THREADS + thread));
    next->state = TURNS_RUNS;
    t->runs_rank = rank;
    wake(next);
}

static turns_thread *own(void)
{
    return &shared->rank[own_rank].thread[own_thread];
}

static void rest(int64_t nanoseconds, bool polls, atomic_uint *word, unsigned who)
{
    turns_thread *one = own();
    const int64_t most = INT64_MAX / 2, until = nanoseconds < most ? shared->now + nanoseconds : most;

    *one = (turns_thread){.state = TURNS_RESTS, .at = until + turns_draw(shared, TURN_MOST), .polls = polls, .word = word, .who = who};
    hand_on(shared);
    await_turn(one);
}

void turns_message(turns *t, int rank, int64_t at)
{
    for (int i = 0; i < MOST_THREADS; i++) {
        turns_thread *one = &t->rank[rank].thread[i];
        if (one->state == TURNS_RESTS && one->polls && at < one->at)
            one->at = at > t->now ? at : t->now;
    }
}

/* == the schedule ============================================================================== */

static int64_t clock_of(void)
{
    return shared->now;
}

static bool is_shared(const atomic_uint *word)
{
    return (const char *)word >= (const char *)shared && (const char *)word < (const char *)(shared + 1);
}

static void wait_on(atomic_uint *word, unsigned who, unsigned seen, int64_t nanoseconds)
{
    if (own_thread == NOBODY) {                    /* a thread of the script's: it looks again soon */
        const int64_t most = word ? 100000 : nanoseconds;
        nanosleep(&(struct timespec){most / 1000000000, most % 1000000000}, NULL);
        return;
    }
    rest(word && atomic_load(word) != seen ? 0 : nanoseconds, false, word, who);
}

static void poll_for(int64_t nanoseconds)
{
    const int64_t next = rings_next() - shared->now, left = nanoseconds > 0 ? nanoseconds : 0;

    if (own_thread != NOBODY)
        rest(next < left ? (next > 0 ? next : 0) : left, true, NULL, 0);
}

static void ring(atomic_uint *word, unsigned who)
{
    if (own_thread == NOBODY)
        return;                                    /* whoever sleeps on it looks again soon */
    for (int r = 0; r < shared->size; r++)
        for (int i = 0; i < MOST_THREADS && (r == own_rank || is_shared(word)); i++) {
            turns_thread *one = &shared->rank[r].thread[i];
            if (one->state != TURNS_RESTS || one->word != word || !(one->who & who))
                continue;
            const int64_t at = shared->now + turns_draw(shared, WAKE_MOST);
            one->at = at < one->at ? at : one->at;
        }
}

static int announce(void)
{
    for (int i = 0; own_thread != NOBODY && i < MOST_THREADS; i++)
        if (shared->rank[own_rank].thread[i].state == TURNS_FREE) {
            turns_thread *one = &shared->rank[own_rank].thread[i];
            *one = (turns_thread){.state = TURNS_RESTS, .at = shared->now + turns_draw(shared, WAKE_MOST)};
            return i;
        }
    return NOBODY;
}

static void enter(int number)
{
    own_thread = number;
    if (number != NOBODY)
        await_turn(own());
}

static void leave(void)
{
    if (own_thread == NOBODY)
        return;
    own()->state = TURNS_FREE;
    own_thread = NOBODY;
    hand_on(shared);
}

static void forget_in_child(void)
{
    own_thread = NOBODY;
}

void *turns_map(int file, size_t bytes)
{
    void *const address = (void *)(uintptr_t)0x200000000000;
    void       *memory = mmap(address, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED_NOREPLACE, file, 0);

    return memory == MAP_FAILED ? errno == EEXIST ? address : NULL : memory;        /* it is there: the process was forked */
}

void turns_unmap(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

turns *turns_of(int *rank)
{
    const char *text = getenv("TRIREME_RINGS");
    int         file;
    struct stat about;

    if (!shared && text && sscanf(text, "%d %d", &own_rank, &file) == 2 && fstat(file, &about) == 0)
        shared = turns_map(file, (size_t)about.st_size);
    *rank = own_rank;
    return shared;
}

static void begin(void)
{
    int         number;
    turns      *t = turns_of(&number);

    if (!t)
        abort();                                   /* a job of this transport has TRIREME_RINGS */
    turns_rank *rank = &t->rank[number];
    pthread_atfork(NULL, NULL, forget_in_child);
    own_thread = 0;
    rank->pid = getpid();
    turns own_chance = {.random = t->random + (uint64_t)number};       /* not the shared one: several begin at a time */
    rank->thread[0] = (turns_thread){.state = TURNS_RESTS, .at = t->now + turns_draw(&own_chance, TURN_MOST)};
    if (atomic_fetch_sub(&shared->awaited, 1) == 1)
        hand_on(shared);
    await_turn(&rank->thread[0]);
}

const tr_schedule turns_schedule = {begin, clock_of, wait_on, poll_for, ring, announce, enter, leave};

/* == the machine: one thread runs at a time, as on one processor ================================ */

static int one_processor(void *self)
{
    (void)self;
    return 1;
}

static int first_processor(void *self)
{
    (void)self;
    return 0;
}

static tr_doorbell *make_doorbell(void *self, int *file)
{
    (void)self;
    *file = -1;
    return &shared->rank[own_rank].bell;
}

static tr_doorbell *open_doorbell(void *self, int64_t pid, int file)
{
    (void)self, (void)file;
    for (int i = 0; i < shared->size; i++)
        if (shared->rank[i].pid == pid)
            return &shared->rank[i].bell;
    return NULL;
}

static void close_doorbell(void *self, tr_doorbell *bell)
{
    (void)self, (void)bell;
}

void turns_adapt(tr_machine *machine)
{
    machine->processors = one_processor;
    machine->processor = first_processor;
    machine->make_doorbell = make_doorbell;
    machine->open_doorbell = open_doorbell;
    machine->close_doorbell = close_doorbell;
}

void turns_sleep(int64_t nanoseconds)
{
    wait_on(NULL, 0, 0, nanoseconds);
}

/* == the parent of the ranks =================================================================== */

void turns_prepare(void *memory, int size, uint64_t seed, int64_t now, int64_t delay, int64_t notice)
{
    turns *t = memory;

    t->size = size;
    t->random = mix(seed + 1);
    t->now = t->begun = now;
    t->delay = delay;
    t->notice = notice;
    t->runs_rank = NOBODY;
    atomic_store(&t->awaited, size);
}

void turns_kill(void *memory, int rank, int64_t after)
{
    turns *t = memory;

    for (int i = 0; i < MOST_KILLS; i++)
        if (!t->kill[i].at) {
            t->kill[i].rank = rank;
            t->kill[i].at = t->now + after;
            return;
        }
}

void turns_reap(void *memory, int rank, bool has_failed)
{
    turns     *t = memory;
    const bool has_begun = t->rank[rank].pid != 0, ran = t->runs_rank == rank;

    if (!has_begun) {
        t->rank[rank].is_gone = true;
        if (atomic_fetch_sub(&t->awaited, 1) == 1)
            hand_on(t);
        return;
    }
    end_rank(t, rank, has_failed);
    if (ran)
        hand_on(t);
}

void turns_count(const void *memory, int64_t out[3])
{
    const turns *t = memory;

    out[0] = t->handed;
    out[1] = t->now - t->begun;
    out[2] = (int64_t)t->digest;
}
