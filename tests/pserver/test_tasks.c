/* test_tasks.c - every task is done in every pass, whoever dies or is slow; the state comes back from its bytes. */
#include "tests/support/expect.h"

#include "pserver/core/tasks/tasks.h"

#include <stdio.h>

enum { SECOND = 1000000000 };

static tr_tasks *make(uint32_t count, uint32_t passes)
{
    return tr_tasks_new(&(tr_tasks_spec){.count = count, .passes = passes, .digest = 77, .lease = 10}, 0, NULL);
}

static void expect_task(tr_task got, tr_task_answer answer, uint32_t task, uint32_t pass)
{
    assert_int_equal(got.answer, answer);
    assert_int_equal(got.task, task);
    assert_int_equal(got.pass, pass);
}

TEST(tasks_are_dealt_in_order_and_passes_follow_each_other)
{
    tr_tasks *tasks = make(3, 2);

    for (uint32_t pass = 0; pass < 2; pass++) {
        tr_task given[3];
        for (uint32_t i = 0; i < 3; i++)
            expect_task(given[i] = tr_tasks_lease(tasks, 0, (int)i % 2), TR_TASK_GIVEN, i, pass);
        assert_int_equal(tr_tasks_lease(tasks, 0, 0).answer, TR_TASK_WAIT);
        for (int i = 2; i >= 0; i--)
            assert_true(tr_tasks_done(tasks, i % 2, given[i].lease));
    }
    assert_int_equal(tr_tasks_lease(tasks, 0, 1).answer, TR_TASK_END);
    assert_int_equal(tr_tasks_count(tasks).leases, 6);
    assert_int_equal(tr_tasks_count(tasks).ran_out, 0);
    tr_tasks_free(tasks);
}

TEST(a_lease_that_runs_out_is_anothers)
{
    tr_tasks     *tasks = make(2, 1);
    const tr_task slow = tr_tasks_lease(tasks, 0, 0);
    const tr_task quick = tr_tasks_lease(tasks, 5 * (int64_t)SECOND, 1);

    assert_int_equal(tr_tasks_lease(tasks, 9 * (int64_t)SECOND, 1).answer, TR_TASK_WAIT);
    const tr_task again = tr_tasks_lease(tasks, 10 * (int64_t)SECOND, 1);
    expect_task(again, TR_TASK_GIVEN, 0, 0);
    assert_int_not_equal(again.lease, slow.lease);
    assert_false(tr_tasks_done(tasks, 0, slow.lease));     /* too late: it is not counted */
    assert_false(tr_tasks_done(tasks, 0, again.lease));    /* nor is another's */
    assert_true(tr_tasks_done(tasks, 1, quick.lease));
    assert_true(tr_tasks_done(tasks, 1, again.lease));
    assert_false(tr_tasks_done(tasks, 1, again.lease));
    assert_int_equal(tr_tasks_lease(tasks, 11 * (int64_t)SECOND, 0).answer, TR_TASK_END);
    assert_int_equal(tr_tasks_count(tasks).ran_out, 1);
    tr_tasks_free(tasks);
}

TEST(leaving_trainer_gives_its_tasks_back)
{
    tr_tasks *tasks = make(3, 1);

    tr_tasks_lease(tasks, 0, 0);
    const tr_task mine = tr_tasks_lease(tasks, 0, 1);
    tr_tasks_lease(tasks, 0, 0);
    tr_tasks_leave(tasks, 0);
    assert_int_equal(tr_tasks_count(tasks).to_do, 2);
    expect_task(tr_tasks_lease(tasks, 1, 1), TR_TASK_GIVEN, 0, 0);
    assert_true(tr_tasks_done(tasks, 1, mine.lease));
    tr_tasks_free(tasks);
}

TEST(a_task_that_fails_everywhere_is_at_fault)
{
    tr_tasks *tasks = make(5, 1);

    for (int i = 0; i < TR_TASK_FAILURES - 1; i++)
        EXPECT_OK(tr_tasks_failed(tasks, i, tr_tasks_lease(tasks, 0, i).lease));
    const tr_task last = tr_tasks_lease(tasks, 0, 7);
    expect_task(last, TR_TASK_GIVEN, 0, 0);
    EXPECT_OK(tr_tasks_failed(tasks, 6, last.lease));      /* not its own */
    EXPECT_FAIL(TR_EPEER, "task 0 of 5 has failed 3 times in pass 0", tr_tasks_failed(tasks, 7, last.lease));
    tr_tasks_free(tasks);
}

TEST(an_empty_list_of_tasks_is_done)
{
    tr_tasks *tasks = make(0, 3);

    assert_int_equal(tr_tasks_lease(tasks, 0, 0).answer, TR_TASK_END);
    tr_tasks_free(tasks);
}

/* A checkpoint holds what is done; what was leased is to be done again. */
TEST(the_state_comes_back_from_its_bytes)
{
    tr_tasks *tasks = make(70, 3), *back = NULL;
    void     *bytes;
    size_t    size;

    for (int i = 0; i < 70; i++)
        tr_tasks_done(tasks, 0, tr_tasks_lease(tasks, 0, 0).lease);
    for (int i = 0; i < 69; i++) {
        const tr_task task = tr_tasks_lease(tasks, 0, 0);
        if (i != 5)
            tr_tasks_done(tasks, 0, task.lease);
    }
    EXPECT_OK(tr_tasks_save(&bytes, &size, tasks));
    EXPECT_OK(tr_tasks_load(&back, bytes, size));
    tr_tasks_counts counts = tr_tasks_count(back);
    assert_int_equal(counts.pass, 1);
    assert_int_equal(counts.done, 68);
    assert_int_equal(counts.leased, 1);
    expect_task(tr_tasks_leased(back, 0, 76), TR_TASK_GIVEN, 5, 1);        /* who has it goes on */
    expect_task(tr_tasks_leased(back, 1, 76), TR_TASK_WAIT, 0, 0);
    tr_tasks_made(back, 0, 76, 3);
    tr_tasks_leave(back, 0);
    counts = tr_tasks_count(back);
    assert_int_equal(counts.to_do, 2);
    assert_int_equal(counts.leased, 0);
    assert_int_equal(tr_tasks_spec_of(back)->digest, 77);
    const tr_task task = tr_tasks_lease(back, 0, 3);
    expect_task(task, TR_TASK_GIVEN, 5, 1);
    assert_int_equal(task.lease, 140);                     /* numbers go on: an old lease means nothing here */
    assert_int_equal(task.skip, 3);
    expect_task(tr_tasks_lease(back, 0, 3), TR_TASK_GIVEN, 69, 1);
    tr_tasks_free(back);

    for (size_t cut = 0; cut < size; cut += 7)
        EXPECT_FAIL(TR_EFORMAT, "the state of tasks is damaged", tr_tasks_load(&back, bytes, cut));
    ((uint8_t *)bytes)[0] = 9;
    EXPECT_FAIL(TR_EFORMAT, "version 9", tr_tasks_load(&back, bytes, size));
    free(bytes);
    tr_tasks_free(tasks);
}

TEST(more_passes_go_on_behind_the_last)
{
    tr_tasks *tasks = make(2, 1);

    for (int i = 0; i < 2; i++)
        tr_tasks_done(tasks, 0, tr_tasks_lease(tasks, 0, 0).lease);
    assert_int_equal(tr_tasks_lease(tasks, 0, 0).answer, TR_TASK_END);
    tr_tasks_extend(tasks, 2, 10);
    expect_task(tr_tasks_lease(tasks, 0, 0), TR_TASK_GIVEN, 0, 1);
    tr_tasks_extend(tasks, 1, 10);
    assert_int_equal(tr_tasks_lease(tasks, 0, 0).answer, TR_TASK_END);
    tr_tasks_free(tasks);
}

/* Whatever happens, each pass ends with every task done at least once, and passes never mix. */
TEST(chance_loses_no_task)
{
    enum { COUNT = 20, PASSES = 4, TRAINERS = 5 };

    for (uint64_t seed = 1; seed < 300; seed++) {
        tr_tasks *tasks = make(COUNT, PASSES);
        tr_task   held[TRAINERS] = {0};
        bool      holds[TRAINERS] = {false};
        int       done[PASSES][COUNT] = {{0}};
        int64_t   now = 0;
        uint64_t  bits = seed;
        for (int turn = 0; tr_tasks_count(tasks).pass < PASSES; turn++) {
            assert_in_range(turn, 0, 100000);
            bits = bits * 6364136223846793005u + 1442695040888963407u;
            const int who = (int)(bits >> 33) % TRAINERS, what = (int)(bits >> 50) % 16;
            now += (int64_t)(bits >> 60) * SECOND / 4;
            if (what == 0) {
                tr_tasks_leave(tasks, who);
                holds[who] = false;
            } else if (what == 1) {
                holds[who] = false;                        /* forgets it: the lease runs out */
            } else if (!holds[who]) {
                held[who] = tr_tasks_lease(tasks, now, who);
                holds[who] = held[who].answer == TR_TASK_GIVEN;
                if (holds[who])
                    assert_int_equal(held[who].pass, tr_tasks_count(tasks).pass);
            } else {
                done[held[who].pass][held[who].task] += tr_tasks_done(tasks, who, held[who].lease);
                holds[who] = false;
            }
        }
        for (int pass = 0; pass < PASSES; pass++)
            for (int i = 0; i < COUNT; i++)
                assert_int_equal(done[pass][i], 1);
        tr_tasks_free(tasks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_dealt_in_order_and_passes_follow_each_other),
        cmocka_unit_test(a_lease_that_runs_out_is_anothers),
        cmocka_unit_test(leaving_trainer_gives_its_tasks_back),
        cmocka_unit_test(a_task_that_fails_everywhere_is_at_fault),
        cmocka_unit_test(an_empty_list_of_tasks_is_done),
        cmocka_unit_test(the_state_comes_back_from_its_bytes),
        cmocka_unit_test(more_passes_go_on_behind_the_last),
        cmocka_unit_test(chance_loses_no_task),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
