/* test_threadpool.c - slices run once each, on any number of threads, nested, concurrently and after a fork. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/threads/gang.h"
#include "framework/threads/team_choice.h"
#include "framework/threads/threadpool.h"
#include "tests/support/expect.h"

#ifdef __SANITIZE_THREAD__
/* Else the sanitizer ends a forked child that starts threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

enum { MANY = 1000 };

typedef struct tally {
    atomic_int seen[MANY];
} tally;

static void count(void *payload, int64_t slice)
{
    atomic_fetch_add(&((tally *)payload)->seen[slice], 1);
}

static void run_and_check(int64_t slices)
{
    tally t = {0};
    tr_parallel(slices, count, &t);
    for (int64_t i = 0; i < MANY; i++)
        assert_int_equal(t.seen[i], i < slices);
}

static void every_slice_runs_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        tr_set_num_threads(threads);
        assert_int_equal(tr_num_threads(), threads);
        for (int round = 0; round < 200; round++)
            run_and_check(round % 17);
        run_and_check(MANY);
    }
}

/* Each slice waits until all have begun. */
static void add(void *payload, int64_t slice)
{
    atomic_fetch_add((atomic_llong *)payload, slice + 1);
}

/* More than a ticket can count. */
static void a_million_slices_run_once(void **state)
{
    (void)state;
    enum { MILLION = 1000003 };
    for (int threads = 1; threads <= 3; threads++) {
        atomic_llong sum = 0;
        tr_set_num_threads(threads);
        tr_parallel(MILLION, add, &sum);
        assert_int_equal(sum, (long long)MILLION * (MILLION + 1) / 2);
    }
}

static void begin_together(void *payload, int64_t slice)
{
    pthread_barrier_wait(payload);
    run_and_check(slice % 17);                         /* runs inline */
}

static void slices_may_wait_for_each_other(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 6; threads += 2) {
        tr_set_num_threads(threads);
        for (int slices = 1; slices <= 7; slices++)
            for (int round = 0; round < 20; round++) {
                pthread_barrier_t barrier;
                pthread_barrier_init(&barrier, NULL, (unsigned)slices);
                assert_true(tr_parallel_gang(slices, begin_together, &barrier));
                pthread_barrier_destroy(&barrier);
            }
    }
    assert_false(tr_parallel_gang(1000, begin_together, NULL));
}

static void jobs_after_a_pause_wake_the_workers(void **state)
{
    (void)state;
    tr_set_num_threads(4);
    for (int round = 0; round < 20; round++) {
        run_and_check(8);
        usleep(round % 2 ? 100 : 2000);
    }
}

static void nested(void *payload, int64_t slice)
{
    tally inner = {0};
    tr_parallel(10, count, &inner);
    for (int i = 0; i < 10; i++)
        if (inner.seen[i] != 1)
            return;
    count(payload, slice);
}

static void nested_calls_run_inline(void **state)
{
    (void)state;
    tally t = {0};
    tr_set_num_threads(3);
    tr_parallel(50, nested, &t);
    for (int i = 0; i < 50; i++)
        assert_int_equal(t.seen[i], 1);
}

static void *caller(void *failures)
{
    for (int round = 0; round < 500; round++) {
        tally t = {0};
        tr_parallel(7, count, &t);
        for (int i = 0; i < 7; i++)
            if (t.seen[i] != 1)
                atomic_fetch_add((atomic_int *)failures, 1);
    }
    return NULL;
}

static void callers_share_the_pool(void **state)
{
    (void)state;
    pthread_t  thread[4];
    atomic_int failures = 0;
    tr_set_num_threads(3);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, caller, &failures), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    assert_int_equal(failures, 0);
}

static void a_forked_child_has_a_pool_of_its_own(void **state)
{
    (void)state;
    int status;
    tr_set_num_threads(3);
    run_and_check(20);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        tally t = {0};
        for (int round = 0; round < 100; round++)
            tr_parallel(20, count, &t);
        for (int i = 0; i < 20; i++)
            if (t.seen[i] != 100)
                _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    run_and_check(20);
}

static void the_environment_sets_the_default(void **state)
{
    (void)state;
    setenv("TRIREME_NUM_THREADS", "3", 1);
    tr_set_num_threads(0);
    assert_int_equal(tr_num_threads(), 3);
    unsetenv("TRIREME_NUM_THREADS");
    tr_set_num_threads(0);
    assert_true(tr_num_threads() >= 1);
}

static void an_invalid_number_of_threads_is_an_error(void **state)
{
    (void)state;
    static const char *const texts[] = {"abc", "0", "-1", "1e3", "4 ", "257", "99999999999999999999"};

    for (int i = 0; i < 7; i++) {
        char expected[128];
        setenv("TRIREME_NUM_THREADS", texts[i], 1);
        tr_set_num_threads(0);
        assert_true(tr_num_threads() >= 1);        /* who asks before the check does not hide it */
        snprintf(expected, sizeof expected, "TRIREME_NUM_THREADS='%s' in the environment; a whole number from 1 to 256", texts[i]);
        EXPECT_FAIL(TR_EINVAL, expected, tr_num_threads_check());
        tr_set_num_threads(2);                     /* it is not asked any more */
        EXPECT_OK(tr_num_threads_check());
    }
    setenv("TRIREME_NUM_THREADS", "", 1);
    tr_set_num_threads(0);
    EXPECT_OK(tr_num_threads_check());
    unsetenv("TRIREME_NUM_THREADS");
    tr_set_num_threads(0);
}

static void ranges_cover_everything_in_order(void **state)
{
    (void)state;
    const int64_t items[] = {0, 1, 15, 16, 17, 100, 1000}, grains[] = {1, 16, 64};
    for (int i = 0; i < 7; i++)
        for (int g = 0; g < 3; g++)
            for (int64_t slices = 1; slices <= 9; slices++) {
                int64_t at = 0, begin, end;
                for (int64_t s = 0; s < slices; s++, at = end) {
                    tr_slice_range(&begin, &end, items[i], grains[g], slices, s);
                    assert_int_equal(begin, at);
                    assert_true(end >= begin);
                    assert_true(end == items[i] || end % grains[g] == 0);
                }
                assert_int_equal(at, items[i]);
            }
}

static void small_work_is_one_slice(void **state)
{
    (void)state;
    assert_int_equal(tr_slice_count(0, 100), 1);
    assert_int_equal(tr_slice_count(199, 100), 1);
    assert_int_equal(tr_slice_count(200, 100), 2);
    assert_int_equal(tr_slice_count(INT64_MAX, 1), TR_MAX_SLICES);
}

static void mark(void *payload, int64_t begin, int64_t end)
{
    for (int64_t i = begin; i < end; i++)
        ((unsigned char *)payload)[i]++;
}

static void parallel_range_visits_each_item_once(void **state)
{
    (void)state;
    static unsigned char seen[100000];
    const int64_t        items[] = {0, 1, 63, 64, 1000, 99999};
    tr_set_num_threads(4);
    for (int i = 0; i < 6; i++) {
        memset(seen, 0, sizeof seen);
        tr_parallel_range(items[i], 100, mark, seen);
        for (int64_t k = 0; k < (int64_t)sizeof seen; k++)
            assert_int_equal(seen[k], k < items[i]);
    }
}

static void scratch_keeps_its_size_and_alignment(void **state)
{
    (void)state;
    char *large = tr_thread_scratch(TR_SCRATCH_COLUMNS, 100000);
    assert_int_equal((uintptr_t)large % 64, 0);
    memset(large, 1, 100000);
    assert_ptr_equal(tr_thread_scratch(TR_SCRATCH_COLUMNS, 10), large);
    char *other = tr_thread_scratch(TR_SCRATCH_PACK, 10);
    assert_true(other + 10 <= large || other >= large + 100000);
}

static void a_copy_is_whole_whatever_its_size(void **state)
{
    static const size_t sizes[] = {0, 1, 4095, (1 << 20) + 3, (5 << 20) + 7};

    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint8_t *from = malloc(sizes[i] + 1), *to = calloc(sizes[i] + 1, 1);
        for (size_t at = 0; at <= sizes[i]; at++)
            from[at] = (uint8_t)(at * 7 + 1);
        from[sizes[i]] = 1;
        tr_parallel_copy(to, from, sizes[i]);
        assert_memory_equal(to, from, sizes[i]);
        assert_int_equal(to[sizes[i]], 0);             /* and no more */
        free(from);
        free(to);
    }
}

/* Where two slices ran that ran at the same time. */
typedef struct meeting {
    atomic_int there;
    int        cpu[2];
} meeting;

static void meet(void *payload, int64_t slice)
{
    meeting *m = payload;

    atomic_fetch_add(&m->there, 1);
    while (atomic_load(&m->there) < 2)
        sched_yield();
    m->cpu[slice] = sched_getcpu();
}

/* The caller moves to the CPU of its worker, again and again. Each time they soon run on two CPUs. */
static void a_worker_leaves_the_callers_cpu(void **state)
{
    cpu_set_t all, one;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    if (CPU_COUNT(&all) < 2)
        skip();
    tr_set_num_threads(2);
    for (int round = 0; round < 20; round++) {
        meeting m = {0};
        assert_true(tr__pool_run_gang(2, meet, &m));
        const int caller = sched_getcpu();
        CPU_ZERO(&one);
        CPU_SET(m.cpu[0] == caller ? m.cpu[1] : m.cpu[0], &one);
        assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
        assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
        int tries = 0;
        do {
            m = (meeting){0};
            assert_true(tr__pool_run_gang(2, meet, &m));
        } while (m.cpu[0] == m.cpu[1] && ++tries < 10000);
        assert_int_not_equal(m.cpu[0], m.cpu[1]);
    }
}

/* -- the choice of a plan ------------------------------------------------------------------------------ */

/* Steps that take so long alone and by all threads; returns how many of the last hundred were alone. */
static int steps_alone(tr_team_choice *choice, int steps, int64_t alone_ns, int64_t together_ns)
{
    int last = 0;
    for (int i = 0; i < steps; i++) {
        const bool is_alone = tr__team_is_alone(choice);
        tr__team_learn(choice, is_alone, is_alone ? alone_ns : together_ns);
        last += is_alone && i >= steps - 100;
    }
    return last;
}

static void a_step_is_alone_where_that_was_faster(void **state)
{
    (void)state;
    tr_team_choice fast_alone = {0}, fast_together = {0}, changing = {0};

    assert_int_equal(steps_alone(&fast_alone, 1000, 500000, 580000), 100);
    assert_int_equal(steps_alone(&fast_together, 1000, 500000, 300000), 0);
    assert_int_equal(steps_alone(&changing, 1000, 500000, 580000), 100);
    assert_int_equal(steps_alone(&changing, 4096, 500000, 300000), 0);     /* it looks again */
}

static void a_long_step_is_never_tried_alone(void **state)
{
    (void)state;
    tr_team_choice choice = {0};

    for (int i = 0; i < 10000; i++) {
        assert_false(tr__team_is_alone(&choice));
        tr__team_learn(&choice, false, 5000000);
    }
}

static void count_in_slice(void *payload, int64_t slice)
{
    (void)slice;
    atomic_fetch_add((atomic_int *)payload, 1);
}

static void a_step_alone_runs_all_slices_on_its_thread(void **state)
{
    (void)state;
    tr_team_choice choice = {.steps = 100, .is_alone = true};
    atomic_int     count = 0;

    tr_set_num_threads(4);
    const tr_team_step step = tr__team_begin(&choice);
    assert_true(step.is_alone);
    assert_false(tr__pool_run_gang(2, count_in_slice, &count));            /* no worker is had */
    tr_parallel(8, count_in_slice, &count);
    tr__team_end(&choice, &step);
    assert_int_equal(count, 8);
    assert_true(tr__pool_run_gang(2, count_in_slice, &count));
    assert_int_equal(choice.steps, 101);
    tr_set_num_threads(1);
    const tr_team_step single = tr__team_begin(&choice);
    tr__team_end(&choice, &single);
    assert_int_equal(choice.steps, 101);                                   /* there is no choice */
    tr_set_num_threads(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_slice_runs_once),
        cmocka_unit_test(a_million_slices_run_once),
        cmocka_unit_test(slices_may_wait_for_each_other),
        cmocka_unit_test(jobs_after_a_pause_wake_the_workers),
        cmocka_unit_test(a_worker_leaves_the_callers_cpu),
        cmocka_unit_test(nested_calls_run_inline),
        cmocka_unit_test(callers_share_the_pool),
        cmocka_unit_test(a_forked_child_has_a_pool_of_its_own),
        cmocka_unit_test(the_environment_sets_the_default),
        cmocka_unit_test(an_invalid_number_of_threads_is_an_error),
        cmocka_unit_test(ranges_cover_everything_in_order),
        cmocka_unit_test(small_work_is_one_slice),
        cmocka_unit_test(parallel_range_visits_each_item_once),
        cmocka_unit_test(scratch_keeps_its_size_and_alignment),
        cmocka_unit_test(a_copy_is_whole_whatever_its_size),
        cmocka_unit_test(a_step_is_alone_where_that_was_faster),
        cmocka_unit_test(a_long_step_is_never_tried_alone),
        cmocka_unit_test(a_step_alone_runs_all_slices_on_its_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
