/* test_fork_lock.c - a child made while other threads hold locks finds all of them free, and what they guard whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/wait.h>
#include <unistd.h>

#include "framework/base/fork_lock.h"

#ifdef __SANITIZE_THREAD__
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

enum { LOCKS = 5, FORKS = 200 };

/* Of a guarded pair both numbers are equal whenever nobody holds the lock. */
static struct pair {
    tr_fork_lock lock;
    int          a, b;
} pairs[LOCKS] = {{TR_FORK_LOCK_INIT}};

static atomic_bool is_over;

static void change(struct pair *pair)
{
    tr__fork_lock_take(&pair->lock);
    pair->a++;
    for (volatile int spin = 0; spin < 100; spin++)
        ;
    pair->b++;
    tr__fork_lock_release(&pair->lock);
}

static void *change_all(void *payload)
{
    (void)payload;
    while (!atomic_load(&is_over)) {
        struct pair own = {0};
        for (int i = 0; i < LOCKS; i++)
            change(&pairs[i]);
        tr__fork_lock_init(&own.lock);                 /* locks come and go while others fork */
        change(&own);
        tr__fork_lock_deinit(&own.lock);
    }
    return NULL;
}

static int child_finds_whole_pairs(void)
{
    alarm(20);                                         /* a lock that is not free ends the child */
    for (int i = 0; i < LOCKS; i++) {
        tr__fork_lock_take(&pairs[i].lock);
        const int differ = pairs[i].a != pairs[i].b;
        tr__fork_lock_release(&pairs[i].lock);
        if (differ)
            return 1;
        change(&pairs[i]);
    }
    return 0;
}

static void a_child_finds_all_locks_free_and_what_they_guard_whole(void **state)
{
    pthread_t thread[3];

    (void)state;
    for (int i = 1; i < LOCKS; i++)
        tr__fork_lock_init(&pairs[i].lock);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, change_all, NULL), 0);
    for (int i = 0; i < FORKS; i++) {
        int         status = -1;
        const pid_t child = fork();
        if (child == 0)
            _exit(child_finds_whole_pairs());
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
    atomic_store(&is_over, true);
    for (int i = 0; i < 3; i++)
        pthread_join(thread[i], NULL);
    for (int i = 0; i < LOCKS; i++)
        tr__fork_lock_deinit(&pairs[i].lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_child_finds_all_locks_free_and_what_they_guard_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
