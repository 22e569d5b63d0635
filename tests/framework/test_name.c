/* test_name.c - which names are possible, where they enter. */
#include "tests/support/expect.h"

#include <string.h>

#include "framework/base/name.h"

TEST(text_is_a_name)
{
    static const char *const names[] = {"x", "fc_0.w_0@GRAD", "encoder/layer_0/w", "a b", "gr\xc3\xb6\xc3\x9f" "e", "\xe6\xa8\xa1\xe5\x9e\x8b",
                                        "\xf0\x9f\x98\x80", "..", "/x"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        EXPECT_OK(tr_name_check(names[i]));
}

TEST(an_invalid_name_is_explained)
{
    static const char *const no_utf8[] = {"\x80", "\xc3", "\xc3x", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80",
                                          "\xf8\x88\x80\x80\x80", "\xff"};
    static const char *const control[] = {"a\nb", "\x1b[2J", "\x7f", "\xc2\x9b" "2J"};
    char                     longest[TR_NAME_MAX + 2];

    EXPECT_FAIL(TR_EINVAL, "at least one letter", tr_name_check(""));
    for (size_t i = 0; i < sizeof no_utf8 / sizeof *no_utf8; i++)
        EXPECT_FAIL(TR_EINVAL, "no valid UTF-8", tr_name_check(no_utf8[i]));
    for (size_t i = 0; i < sizeof control / sizeof *control; i++)
        EXPECT_FAIL(TR_EINVAL, "a control character", tr_name_check(control[i]));
    EXPECT_FAIL(TR_EINVAL, "the name 'a\\x0ab' is not possible", tr_name_check("a\nb"));
    memset(longest, 'x', sizeof longest);
    longest[TR_NAME_MAX + 1] = 0;
    EXPECT_FAIL(TR_EINVAL, "longer than 1024 bytes", tr_name_check(longest));
    longest[TR_NAME_MAX] = 0;
    EXPECT_OK(tr_name_check(longest));
}

TEST(programs_and_scopes_take_no_other)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);
    tr_scope   *scope = tr_scope_new(NULL);

    assert_null(tr_block_create_var(block, "a\nb"));
    assert_non_null(strstr(tr_error(), "control character"));
    assert_null(tr_scope_var(scope, "\xff"));
    assert_non_null(strstr(tr_error(), "no valid UTF-8"));
    assert_non_null(tr_block_create_var(block, "x"));
    EXPECT_FAIL(TR_EINVAL, "at least one letter", tr_block_rename_var(block, "x", ""));
    assert_int_equal(tr_block_var_count(block), 1);
    assert_int_equal(tr_scope_count(scope), 0);
    tr_scope_free(scope);
    tr_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_a_name),
        cmocka_unit_test(an_invalid_name_is_explained),
        cmocka_unit_test(programs_and_scopes_take_no_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
