/* test_status.c - the trail that a failure leaves. */
#include "tests/support/expect.h"

#include <pthread.h>

#include "framework/base/status.h"

static tr_status inner(bool fails)
{
    return fails ? tr_fail(TR_ESHAPE, "mul: X is %s", "[2, 3]") : TR_OK;
}

static tr_status outer(bool fails)
{
    TR_TRY(inner(fails));
    return TR_OK;
}

static tr_status cleaning(int *cleaned)
{
    tr_status status;

    TR_TRY_GOTO(done, outer(true));
done:
    (*cleaned)++;
    return status;
}

TEST(the_trail_names_every_frame)
{
    int cleaned = 0;

    assert_int_equal(cleaning(&cleaned), TR_ESHAPE);
    assert_int_equal(cleaned, 1);
    const char *text = tr_error();
    assert_ptr_equal(strstr(text, "mul: X is [2, 3]\n"), text);
    const char *in_outer = strstr(text, "in outer (");
    assert_non_null(in_outer);
    assert_non_null(strstr(in_outer, "tests/framework/test_status.c:"));
    assert_non_null(strstr(in_outer, "in cleaning ("));
    assert_int_equal(outer(false), TR_OK);
}

TEST(a_new_failure_begins_a_new_trail)
{
    tr_fail(TR_EIO, "first");
    tr_context(TR_EIO, "while %s", "reading");
    assert_string_equal(tr_error(), "first\n  while reading");
    assert_int_equal(tr_fail(TR_EINVAL, "second"), TR_EINVAL);
    assert_string_equal(tr_error(), "second");
    tr_fail(TR_EINVAL, "because: %s", tr_error());        /* its own text as an argument */
    assert_string_equal(tr_error(), "because: second");
}

TEST(a_long_text_is_cut_not_overrun)
{
    char long_text[20000];

    memset(long_text, 'x', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    tr_fail(TR_EINVAL, "%s", long_text);
    const size_t length = strlen(tr_error());
    assert_true(length > 1000 && length < sizeof long_text);
    for (int i = 0; i < 10; i++)
        tr_context(TR_EINVAL, "%s", long_text);
    assert_true(strlen(tr_error()) <= length + 16);
    tr_fail(TR_EINVAL, "short");
    assert_string_equal(tr_error(), "short");
}

static void *fail_elsewhere(void *text)
{
    tr_fail(TR_EIO, "another thread's");
    *(bool *)text = strcmp(tr_error(), "another thread's") == 0;
    return NULL;
}

TEST(every_thread_has_its_own_text)
{
    pthread_t thread;
    bool      seen = false;

    tr_fail(TR_EINVAL, "mine");
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &seen), 0);
    pthread_join(thread, NULL);
    assert_true(seen);
    assert_string_equal(tr_error(), "mine");
}

TEST(codes_have_names_and_texts)
{
    assert_string_equal(tr_status_name(TR_ESHAPE), "ESHAPE");
    assert_string_equal(tr_status_text(TR_ESHAPE), "shapes do not fit");
    for (int s = 0; s < TR_STATUS_COUNT; s++)
        assert_true(strlen(tr_status_text((tr_status)s)) > 0 && strcmp(tr_status_name((tr_status)s), "?") != 0);
    assert_string_equal(tr_status_name((tr_status)-1), "?");
    assert_string_equal(tr_status_name(TR_STATUS_COUNT), "?");
    assert_true(strlen(tr_version()) >= 5);
}

int main(void)
{
    setenv("TRIREME_BACKTRACE", "1", 1);                  /* asked for at the first failure */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_trail_names_every_frame),
        cmocka_unit_test(a_new_failure_begins_a_new_trail),
        cmocka_unit_test(a_long_text_is_cut_not_overrun),
        cmocka_unit_test(every_thread_has_its_own_text),
        cmocka_unit_test(codes_have_names_and_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
