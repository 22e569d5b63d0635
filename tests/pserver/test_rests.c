/* test_rests.c - threads without work wake seldom, whatever keeps them waiting. Ends of processes are seen by one look at all. */
#include "tests/support/expect.h"

#include "pserver/transport/comm_state.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t MILLISECOND = 1000000, HEARTBEAT = 500000000, TIMEOUT = 3000000000;

static int64_t clock_now;
static int     ends;

static int64_t virtual_clock(void *self)
{
    (void)self;
    return clock_now;
}

static int64_t no_progress(void *self)
{
    (void)self;
    return 0;
}

/* The machine's own `end` does not return; this one is the last thing that a test sees. */
static jmp_buf at_end;

static __attribute__((noreturn)) void note_end(void *self, tr_rank_end how, int code)
{
    (void)self;
    (void)how;
    (void)code;
    ends++;
    longjmp(at_end, 1);
}

static tr_comm *new_comm(void)
{
    static tr_comm comm;

    memset(&comm, 0, sizeof comm);
    clock_now = MILLISECOND;
    ends = 0;
    comm.machine = tr_machine_real;
    comm.machine.clock = virtual_clock;
    comm.machine.progress = no_progress;
    comm.machine.end = note_end;
    comm.options.heartbeat = HEARTBEAT;
    comm.options.timeout = comm.options.grace = TIMEOUT;
    comm.own_doorbell = tr_doorbell_new(&comm.doorbell_file);
    pthread_mutex_init(&comm.drive, NULL);
    return &comm;
}

static void free_comm(tr_comm *comm)
{
    tr_doorbell_close(comm->own_doorbell);
    close(comm->doorbell_file);
}

static int64_t pulse_rest_after(tr_comm *comm, tr__pulse *p, int64_t nanoseconds)
{
    clock_now += nanoseconds;
    return tr__comm_pulse_turn(comm, p).nanoseconds;
}

TEST(heartbeats_of_a_busy_driver_are_sought_often_but_not_while_mpi_starts_or_ends)
{
    tr_comm  *comm = new_comm();
    tr__pulse p = {.turns = -1};

    pulse_rest_after(comm, &p, 0);
    assert_int_equal(pulse_rest_after(comm, &p, 10 * HEARTBEAT), HEARTBEAT / 4);
    tr_counter_add(&comm->turns, 1);
    pulse_rest_after(comm, &p, 0);
    assert_int_equal(pulse_rest_after(comm, &p, HEARTBEAT), MILLISECOND);
    atomic_store(&comm->state, TR__LEFT);
    assert_int_equal(pulse_rest_after(comm, &p, HEARTBEAT), HEARTBEAT / 4);
    free_comm(comm);
}

/* The sleeps of the thread beside an owner that drives for so long. */
static int count_looks(tr_comm *comm, tr__thread *t, int64_t until, bool turns)
{
    int looks = 0;

    while (clock_now < until) {
        const tr__rest rest = tr__comm_thread_turn(comm, t);
        assert_int_equal(rest.kind, TR__REST_NAP);
        clock_now += rest.nanoseconds;
        if (turns)
            tr_counter_add(&comm->turns, 1);
        looks++;
    }
    return looks;
}

TEST(the_thread_beside_a_long_wait_wakes_less_and_less)
{
    tr_comm   *comm = new_comm();
    tr__thread t = {.rhythm = {.who = TR_BELL_THREAD}};
    tr__wait   w = {0};

    atomic_store(&comm->owner_drives, true);
    assert_int_equal(tr__comm_thread_turn(comm, &t).nanoseconds, TR__LOOK);
    assert_false(atomic_load(&comm->sleeps_long));
    const int looks = count_looks(comm, &t, clock_now + 1000 * MILLISECOND, true);
    assert_true(looks < 40);
    assert_true(atomic_load(&comm->sleeps_long));

    const unsigned rings = atomic_load(&comm->own_doorbell->rings);
    pthread_mutex_lock(&comm->drive);
    tr__comm_wait_end(comm, &w, NULL);
    assert_int_equal(atomic_load(&comm->own_doorbell->rings), rings + 1);
    free_comm(comm);
}

TEST(a_driver_that_is_stuck_is_found_as_soon_as_with_short_sleeps)
{
    tr_comm   *comm = new_comm();
    tr__thread t = {.rhythm = {.who = TR_BELL_THREAD}};

    atomic_store(&comm->owner_drives, true);
    if (!setjmp(at_end))
        count_looks(comm, &t, 20 * TIMEOUT, false);
    assert_int_equal(ends, 1);
    assert_true(clock_now > 2 * TIMEOUT && clock_now < 2 * TIMEOUT + 100 * MILLISECOND);
    free_comm(comm);
}

/* Naps of a driver that has armed its doorbell, until one is longer than `long_enough`. */
static int count_naps(tr_comm *comm, bool is_patient, int64_t long_enough)
{
    tr__rhythm r = {.who = TR_BELL_THREAD, .is_aside = true, .is_patient = is_patient, .until_tick = INT64_MAX};
    int        naps = 0;

    comm->ranks_here = 1;
    tr__comm_choose_rest(comm, &r, 0);
    for (tr__rest rest = {0}; rest.nanoseconds < long_enough; naps++) {
        rest = tr__comm_choose_rest(comm, &r, 0);
        assert_int_equal(rest.kind, TR__REST_NAP);
        r.looked_at += rest.nanoseconds;
    }
    return naps;
}

TEST(a_rank_that_waits_for_many_hellos_naps_seldom)
{
    tr_comm *comm = new_comm();

    assert_true(count_naps(comm, false, 2 * MILLISECOND) > 40);
    assert_true(count_naps(comm, true, 2 * MILLISECOND) < 20);
    free_comm(comm);
}

TEST(the_end_of_any_process_is_news_once)
{
    const tr_machine *machine = &tr_machine_real;
    int               process[40];
    pid_t             child[40];

    for (int i = 0; i < 40; i++) {
        if ((child[i] = fork()) == 0) {
            pause();
            _exit(0);
        }
        process[i] = machine->open_process(machine->self, child[i]);
    }
    assert_false(machine->has_any_ended(machine->self));
    kill(child[33], SIGKILL);
    waitpid(child[33], NULL, 0);
    assert_true(machine->has_any_ended(machine->self));
    assert_true(machine->has_ended(machine->self, process[33]));
    assert_false(machine->has_any_ended(machine->self));
    for (int i = 0; i < 40; i++) {
        kill(child[i], SIGKILL);
        machine->close_process(machine->self, process[i]);
        waitpid(child[i], NULL, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heartbeats_of_a_busy_driver_are_sought_often_but_not_while_mpi_starts_or_ends),
        cmocka_unit_test(the_thread_beside_a_long_wait_wakes_less_and_less),
        cmocka_unit_test(a_driver_that_is_stuck_is_found_as_soon_as_with_short_sleeps),
        cmocka_unit_test(a_rank_that_waits_for_many_hellos_naps_seldom),
        cmocka_unit_test(the_end_of_any_process_is_news_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
