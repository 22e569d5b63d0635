/* test_print.c - what the print operator shows. */
#include "tests/support/expect.h"
#include "tests/support/net.h"

#include <stdio.h>
#include <unistd.h>

static const float values[] = {1, -2.5f, 1e10f, 0};

/* What a run writes to standard output, and its results in n->result. */
static char *shown_by(net *n, const char *fetches)
{
    const char *path = test_path("shown");
    size_t      size;

    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    assert_non_null(freopen(path, "w", stdout));
    const tr_status status = net_try_run(n, fetches);
    fflush(stdout);
    dup2(saved, STDOUT_FILENO);
    close(saved);
    EXPECT_OK(status);
    char *text = (char *)test_read_file(&size, path);
    text[size] = '\0';
    return text;
}

#define EXPECT_SHOWN(expected, n, fetches)                 \
    do {                                                   \
        char *shown = shown_by(n, fetches);                \
        assert_string_equal(shown, expected);              \
        free(shown);                                       \
    } while (0)

static void with_x(net *n)
{
    net_init(n);
    net_var(n, "x", TR_FP32, 2, -1, 2);
    net_feed(n, "x", values, 2, 2, 2);
}

TEST(a_line_says_name_type_shape_and_values)
{
    net n;

    with_x(&n);
    net_op(&n, 0, "print", "In=x", "", "message=here:");
    EXPECT_SHOWN("here: x float32[2, 2] = [1, -2.5, 1e+10, 0]\n", &n, "");
    EXPECT_SHOWN("here: x float32[2, 2] = [1, -2.5, 1e+10, 0]\n", &n, "");
    net_deinit(&n);
}

TEST(unwanted_parts_are_not_printed)
{
    net n;

    with_x(&n);
    net_op(&n, 0, "print", "In=x", "", "summarize=2 print_tensor_type=false print_tensor_shape=false");
    net_op(&n, 0, "print", "In=x", "", "summarize=0 print_tensor_name=false");
    EXPECT_SHOWN("x = [1, -2.5, ...]\nfloat32[2, 2] = [...]\n", &n, "");
    net_deinit(&n);
}

TEST(only_the_first_times_are_shown)
{
    net n;

    with_x(&n);
    net_op(&n, 0, "print", "In=x", "", "first_n=2 summarize=1");
    for (int i = 0; i < 4; i++)
        EXPECT_SHOWN(i < 2 ? "x float32[2, 2] = [1, ...]\n" : "", &n, "");
    net_deinit(&n);
}

TEST(rows_of_a_sparse_tensor_are_shown)
{
    net n;

    net_init(&n);
    net_parameter(&n, "w", TR_INT64, 2, 9, 1);
    tr_tensor *w = tr_var_tensor(tr_scope_var(n.scope, "w"));
    EXPECT_OK(tr_tensor_resize(w, TR_INT64, 2, (const int64_t[]){2, 1}));
    memcpy(tr_tensor_data(w), (const int64_t[]){-1, 5}, 16);
    EXPECT_OK(tr_tensor_set_rows(w, 9, 2, (const int64_t[]){8, 0}));
    net_op(&n, 0, "print", "In=w", "", "");
    EXPECT_SHOWN("w int64[2, 1] rows [8, 0] = [-1, 5]\n", &n, "");
    net_deinit(&n);
}

TEST(sequences_are_shown_by_their_offsets)
{
    static const int64_t offsets[] = {0, 1, 3}, count = 3;
    net n;

    net_init(&n);
    net_parameter(&n, "w", TR_BOOL, 2, -1, 1);
    tr_tensor *w = tr_var_tensor(tr_scope_var(n.scope, "w"));
    EXPECT_OK(tr_tensor_resize(w, TR_BOOL, 2, (const int64_t[]){3, 1}));
    memcpy(tr_tensor_data(w), "\1\0\1", 3);
    EXPECT_OK(tr_tensor_set_lod(w, 1, &count, (const int64_t *const[]){offsets}));
    net_op(&n, 0, "print", "In=w", "", "");
    net_op(&n, 0, "print", "In=w", "", "print_tensor_lod=false");
    EXPECT_SHOWN("w bool[3, 1] lod [[0, 1, 3]] = [true, false, true]\nw bool[3, 1] = [true, false, true]\n", &n, "");
    net_deinit(&n);
}

TEST(with_an_output_it_stands_in_the_stream_and_shows_the_gradient)
{
    net n;

    with_x(&n);
    net_op(&n, 0, "print", "In=x", "Out=y", "message=p print_tensor_type=false");
    net_op(&n, 0, "mean", "X=y", "Out=m", "");
    EXPECT_OK(tr_append_gradients(n.program, 1, (const char *const[]){"m"}, NULL, 0, NULL, 0, NULL));
    char *shown = shown_by(&n, "m x@GRAD y");
    const char *first = "p x [2, 2] = [1, -2.5, 1e+10, 0]\n";
    assert_memory_equal(shown, first, strlen(first));
    assert_non_null(strstr(shown, "(gradient) [2, 2] = [0.25, 0.25, 0.25, 0.25]\n"));
    free(shown);
    assert_true(net_f32(&n, 1)[3] == 0.25f);
    assert_memory_equal(net_f32(&n, 2), values, sizeof values);
    net_deinit(&n);
}

TEST(the_phase_decides)
{
    net n;

    with_x(&n);
    net_op(&n, 0, "print", "In=x", "Out=y", "print_phase=backward");
    net_op(&n, 0, "mean", "X=y", "Out=m", "");
    EXPECT_SHOWN("", &n, "m");
    EXPECT_FAIL(TR_ERANGE, "one of FORWARD, BACKWARD, BOTH", net_try_op(&n, 0, "print", "In=x", "", "print_phase=later"));
    net_deinit(&n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_says_name_type_shape_and_values),
        cmocka_unit_test(unwanted_parts_are_not_printed),
        cmocka_unit_test(only_the_first_times_are_shown),
        cmocka_unit_test(rows_of_a_sparse_tensor_are_shown),
        cmocka_unit_test(sequences_are_shown_by_their_offsets),
        cmocka_unit_test(with_an_output_it_stands_in_the_stream_and_shows_the_gradient),
        cmocka_unit_test(the_phase_decides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
