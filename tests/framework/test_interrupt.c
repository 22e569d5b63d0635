/* test_interrupt.c - what an interrupt ends, and signals that interrupt. */
#include "tests/support/expect.h"

#include <signal.h>

#include "framework/threads/interrupt.h"

static volatile sig_atomic_t seen, seen_in_time;

static void note(int number)
{
    seen += number == SIGUSR1;
    seen_in_time = !tr__is_interrupted();
}

static void note_with_info(int number, siginfo_t *info, void *context)
{
    (void)context;
    seen += number == SIGUSR1 && info->si_signo == SIGUSR1;
}

TEST(an_interrupt_ends_what_has_begun_and_nothing_later)
{
    tr__interruptible_begin();
    assert_false(tr__is_interrupted());
    tr_interrupt();
    assert_true(tr__is_interrupted());
    tr__interruptible_begin();                       /* inside: the same run */
    assert_true(tr__is_interrupted());
    tr__interruptible_end();
    tr__interruptible_end();
    assert_false(tr__is_interrupted());              /* nothing is under way */
    tr__interruptible_begin();
    assert_false(tr__is_interrupted());
    tr__interruptible_end();
    assert_int_equal(tr__fail_interrupted("the run"), TR_EINTR);
}

TEST(a_signal_interrupts_behind_the_handler_that_was_there)
{
    signal(SIGUSR1, note);
    EXPECT_OK(tr_interrupt_on(SIGUSR1));
    EXPECT_OK(tr_interrupt_on(SIGUSR1));             /* not twice around itself */
    tr__interruptible_begin();
    seen = 0;
    raise(SIGUSR1);
    assert_int_equal(seen, 1);
    assert_true(seen_in_time);
    assert_true(tr__is_interrupted());
    tr__interruptible_end();

    const struct sigaction info = {.sa_flags = SA_SIGINFO, .sa_sigaction = note_with_info};
    sigaction(SIGUSR1, &info, NULL);
    EXPECT_OK(tr_interrupt_on(SIGUSR1));
    raise(SIGUSR1);
    assert_int_equal(seen, 2);
}

TEST(a_signal_without_a_handler_only_interrupts)
{
    signal(SIGUSR1, SIG_DFL);
    EXPECT_OK(tr_interrupt_on(SIGUSR1));
    tr__interruptible_begin();
    raise(SIGUSR1);
    assert_true(tr__is_interrupted());
    tr__interruptible_end();
}

TEST(a_signal_that_is_ignored_stays_so)
{
    struct sigaction action;

    signal(SIGUSR1, SIG_IGN);
    EXPECT_OK(tr_interrupt_on(SIGUSR1));
    sigaction(SIGUSR1, NULL, &action);
    assert_ptr_equal(action.sa_handler, SIG_IGN);
    EXPECT_FAIL(TR_EINVAL, "0 is no signal", tr_interrupt_on(0));
    EXPECT_FAIL(TR_EINVAL, "signal 9 cannot be caught", tr_interrupt_on(SIGKILL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_interrupt_ends_what_has_begun_and_nothing_later),
        cmocka_unit_test(a_signal_interrupts_behind_the_handler_that_was_there),
        cmocka_unit_test(a_signal_without_a_handler_only_interrupts),
        cmocka_unit_test(a_signal_that_is_ignored_stays_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
