/* test_doorbell.c - who sleeps is woken by another process; what is no doorbell is not opened. */
#include "tests/support/expect.h"

#include "pserver/transport/comm_state.h"

#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LONG_ENOUGH = 1000000000 };     /* nanoseconds of a sleep that somebody is to end */

static void ring(tr_doorbell *bell)
{
    const unsigned who = tr_doorbell_disarm(bell);
    if (who)
        tr_machine_real.ring(tr_machine_real.self, &bell->rings, who);
}

/* The child rings when its parent has armed. */
static void ring_as_child(pid_t parent, int file)
{
    tr_doorbell *bell = tr_doorbell_open(parent, file);

    for (int i = 0; bell && i < 10000; i++) {
        if (atomic_load(&bell->armed)) {
            ring(bell);
            _exit(0);
        }
        usleep(1000);
    }
    _exit(1);
}

TEST(a_ring_wakes_a_sleeper_in_another_process)
{
    int          file, status;
    tr_doorbell *bell = tr_doorbell_new(&file);
    const pid_t  parent = getpid(), child = fork();

    if (child == 0)
        ring_as_child(parent, file);
    const unsigned seen = atomic_load(&bell->rings);
    tr_doorbell_arm(bell, TR_BELL_THREAD, sched_getcpu());
    for (int i = 0; i < 20 && atomic_load(&bell->rings) == seen; i++)
        tr__bell_wait_as(&bell->rings, TR_BELL_THREAD, seen, LONG_ENOUGH);
    assert_int_equal(atomic_load(&bell->rings), seen + 1);
    assert_int_equal(atomic_load(&bell->armed), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tr_doorbell_close(bell);
    close(file);
}

TEST(awake_thread_is_not_rung)
{
    int          file;
    tr_doorbell *bell = tr_doorbell_new(&file);

    ring(bell);
    assert_int_equal(atomic_load(&bell->rings), 0);
    tr_doorbell_arm(bell, TR_BELL_THREAD, sched_getcpu());
    ring(bell);
    ring(bell);
    assert_int_equal(atomic_load(&bell->rings), 1);
    tr_doorbell_close(bell);
    close(file);
}

TEST(a_receipt_wakes_receivers_that_armed_for_receipts)
{
    int          file;
    tr_doorbell *bell = tr_doorbell_new(&file);

    assert_false(tr_doorbell_is_armed(bell, false));
    tr_doorbell_arm(bell, TR_BELL_OWNER, 0);
    assert_true(tr_doorbell_is_armed(bell, false));
    assert_false(tr_doorbell_is_armed(bell, true));
    tr_doorbell_arm(bell, TR_BELL_OWNER | TR_BELL_RECEIPTS, 0);
    assert_true(tr_doorbell_is_armed(bell, true));
    tr_doorbell_close(bell);
    close(file);
}

enum { HERE, ELSEWHERE, SPARED, RANKS };       /* who sleeps on this processor, on another one, and without interest in receipts */

static void send_one(tr_comm *comm, int peer, bool is_receipt)
{
    comm->peer[peer].is_due = true;
    comm->peer[peer].has_news = !is_receipt;
    comm->bells.due[comm->bells.due_count++] = peer;
}

static void expect_rings(const tr_comm *comm, unsigned here, unsigned elsewhere, unsigned spared)
{
    assert_int_equal(atomic_load(&comm->peer[HERE].bell->rings), here);
    assert_int_equal(atomic_load(&comm->peer[ELSEWHERE].bell->rings), elsewhere);
    assert_int_equal(atomic_load(&comm->peer[SPARED].bell->rings), spared);
}

/* Whoever would wake on this processor is rung with what comes right after. */
TEST(a_message_with_others_behind_it_rings_other_processors_alone)
{
    static tr_comm comm;
    tr_doorbell   *bell[RANKS];
    int            file[RANKS], to_ring[RANKS];
    tr__peer       peers[RANKS] = {{.bell = NULL}};
    cpu_set_t      before, one;

    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_getaffinity(0, sizeof before, &before);
    sched_setaffinity(0, sizeof one, &one);
    comm.machine = tr_machine_real;
    comm.peer = peers;
    comm.bells.due = to_ring;
    for (int i = 0; i < RANKS; i++) {
        peers[i].bell = bell[i] = tr_doorbell_new(&file[i]);
        tr_doorbell_arm(bell[i], i == SPARED ? TR_BELL_OWNER : TR_BELL_OWNER | TR_BELL_RECEIPTS, sched_getcpu());
        send_one(&comm, i, true);
    }
    atomic_store(&bell[ELSEWHERE]->cpu, -1);
    tr__comm_ring(&comm, true);
    expect_rings(&comm, 0, 1, 0);
    assert_int_equal(comm.bells.due_count, 1);
    send_one(&comm, SPARED, false);
    tr__comm_ring(&comm, false);
    expect_rings(&comm, 1, 1, 1);
    assert_int_equal(comm.bells.due_count, 0);
    for (int i = 0; i < RANKS; i++) {
        assert_false(peers[i].is_due || peers[i].has_news);
        tr_doorbell_close(bell[i]);
        close(file[i]);
    }
    sched_setaffinity(0, sizeof before, &before);
}

/* Of the threads of one rank the one that armed. */
TEST(a_ring_wakes_armed_receivers_alone)
{
    int            file;
    tr_doorbell   *bell = tr_doorbell_new(&file);
    const pid_t    parent = getpid(), child = fork();

    if (child == 0) {
        tr_doorbell *theirs = tr_doorbell_open(parent, file);
        usleep(50000);
        ring(theirs);
        _exit(0);
    }
    const int64_t  from = tr__clock();
    const unsigned seen = atomic_load(&bell->rings);
    tr_doorbell_arm(bell, TR_BELL_THREAD, sched_getcpu());
    tr__bell_wait_as(&bell->rings, TR_BELL_OWNER, seen, LONG_ENOUGH / 5);
    assert_true(tr__clock() - from >= LONG_ENOUGH / 5);
    assert_int_equal(atomic_load(&bell->rings), seen + 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    tr_doorbell_close(bell);
    close(file);
}

TEST(a_ring_before_the_sleep_is_not_lost)
{
    int            file;
    tr_doorbell   *bell = tr_doorbell_new(&file);
    const unsigned seen = atomic_load(&bell->rings);

    tr_machine_real.ring(NULL, &bell->rings, TR_BELL_THREAD);
    tr__bell_wait_as(&bell->rings, TR_BELL_THREAD, seen, INT64_MAX / 2);
    tr_doorbell_close(bell);
    close(file);
}

/* Rung for what it has seen by then: it is armed for nothing, and must arm again before it sleeps. */
TEST(thread_rung_before_its_last_look_arms_again)
{
    static tr_comm comm;
    tr__rhythm     r = {.who = TR_BELL_THREAD, .looked_at = LONG_ENOUGH, .wakes_as = TR_BELL_THREAD};
    int            file;

    comm.machine = tr_machine_real;
    comm.own_doorbell = tr_doorbell_new(&file);
    assert_int_equal(tr__comm_choose_rest(&comm, &r, 0).kind, TR__REST_NONE);
    ring(comm.own_doorbell);
    assert_int_equal(tr__comm_choose_rest(&comm, &r, 1).kind, TR__REST_NONE);
    assert_int_equal(atomic_load(&comm.own_doorbell->armed), TR_BELL_THREAD);
    assert_int_equal(tr__comm_choose_rest(&comm, &r, 1).kind, TR__REST_NAP);
    tr_doorbell_close(comm.own_doorbell);
    close(file);
}

TEST(a_file_that_is_no_doorbell_is_not_opened)
{
    int         pipes[2];
    FILE       *page = tmpfile();
    const pid_t dead = fork();

    if (dead == 0)
        _exit(0);
    waitpid(dead, NULL, 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ftruncate(fileno(page), 4096), 0);
    assert_null(tr_doorbell_open(getpid(), -1));
    assert_null(tr_doorbell_open(getpid(), 1000));
    assert_null(tr_doorbell_open(getpid(), pipes[0]));
    assert_null(tr_doorbell_open(getpid(), fileno(page)));
    assert_null(tr_doorbell_open(dead, pipes[0]));
    fclose(page);
    close(pipes[0]);
    close(pipes[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_wakes_a_sleeper_in_another_process),
        cmocka_unit_test(awake_thread_is_not_rung),
        cmocka_unit_test(a_receipt_wakes_receivers_that_armed_for_receipts),
        cmocka_unit_test(a_message_with_others_behind_it_rings_other_processors_alone),
        cmocka_unit_test(a_ring_wakes_armed_receivers_alone),
        cmocka_unit_test(a_ring_before_the_sleep_is_not_lost),
        cmocka_unit_test(thread_rung_before_its_last_look_arms_again),
        cmocka_unit_test(a_file_that_is_no_doorbell_is_not_opened),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
