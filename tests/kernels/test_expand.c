/* test_expand.c - composite operators in plans: their parts, their gradients, what is computed once and what twice. */
#include "tests/support/net.h"

#include <stdio.h>
#include <stdlib.h>

#include "framework/formats/op_text.h"

static double a[12] = {1, 2, 3, -1, 0.5, 2, 1, -2, 0.25, 3, 1, 1}, b[12] = {2, 1, -1, 1, 1, 0.5, 3, 2, -1, 1, 0.5, 2};

/* loss = mean of cos_sim(a, b) */
static void build_cosine(net *n)
{
    net_init(n);
    net_var(n, "a", TR_FP64, 2, -1, 3);
    net_var(n, "b", TR_FP64, 2, -1, 3);
    net_op(n, 0, "cos_sim", "X=a Y=b", "Out=c XNorm=xn YNorm=yn", "");
    net_op(n, 0, "mean", "X=c", "Out=loss", "");
    net_feed(n, "a", a, 2, 4, 3);
    net_feed(n, "b", b, 2, 4, 3);
}

static int times_in_plan(const net *n, const char *what)
{
    char *text;
    int   times = 0;

    EXPECT_OK(tr_plan_to_string(&text, n->plan));
    for (const char *at = strstr(text, what); at; at = strstr(at + 1, what))
        times++;
    tr_free(text);
    return times;
}

TEST(parts_are_in_the_plan_and_the_operator_in_the_program)
{
    net   n;
    char *text;
    build_cosine(&n);
    net_run(&n, "loss");
    assert_false(net_plan_says(&n, "cos_sim("));
    assert_int_equal(times_in_plan(&n, "= reduce_sum("), 3);
    EXPECT_OK(tr_program_to_string(&text, n.program));
    assert_non_null(strstr(text, "= cos_sim(a, b)"));
    assert_null(strstr(text, "reduce_sum"));
    tr_free(text);
    net_deinit(&n);
}

TEST(parts_that_nothing_needs_are_left_out)
{
    net n;
    build_cosine(&n);
    net_run(&n, "yn");
    assert_int_equal(times_in_plan(&n, "= reduce_sum("), 1);
    net_deinit(&n);
}

TEST(the_gradient_reads_what_the_forward_parts_have_computed)
{
    net n;
    build_cosine(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "loss a@GRAD b@GRAD");
    assert_int_equal(times_in_plan(&n, "= reduce_sum("), 3);
    assert_int_equal(times_in_plan(&n, "= sqrt("), 2);
    net_check_gradient(&n, "a", a, 12, 1e-6);
    net_check_gradient(&n, "b", b, 12, 1e-6);
    net_deinit(&n);
}

TEST(a_gradient_operator_alone_computes_the_body_again)
{
    net    n, alone;
    double kept[12], ones[4] = {0.25, 0.25, 0.25, 0.25};

    build_cosine(&n);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "a@GRAD c xn yn");
    memcpy(kept, net_f64(&n, 0), sizeof kept);
    net_init(&alone);
    net_var(&alone, "a", TR_FP64, 2, -1, 3);
    net_var(&alone, "b", TR_FP64, 2, -1, 3);
    for (int i = 0; i < 4; i++) {
        static const char *const names[] = {"c", "xn", "yn", "dc"};
        net_var(&alone, names[i], TR_FP64, 2, -1, 1);
        net_feed(&alone, names[i], i < 3 ? net_f64(&n, 1 + i) : ones, 2, 4, 1);
    }
    net_feed(&alone, "a", a, 2, 4, 3);
    net_feed(&alone, "b", b, 2, 4, 3);
    net_op(&alone, 0, "cos_sim_grad", "X=a Y=b Out=c XNorm=xn YNorm=yn Out@GRAD=dc", "X@GRAD=da", "");
    net_run(&alone, "da");
    assert_memory_equal(net_f64(&alone, 0), kept, sizeof kept);
    net_deinit(&alone);
    net_deinit(&n);
}

TEST(an_input_that_is_overwritten_later_is_that_of_the_operator)
{
    net n;
    build_cosine(&n);
    net_op(&n, 0, "scale", "X=a", "Out=a2", "scale=3.0");
    net_op(&n, 0, "cos_sim", "X=a2 Y=b", "Out=c2 XNorm=xn2 YNorm=yn2", "");
    net_op(&n, 0, "scale", "X=a2", "Out=a2", "scale=2.0");          /* a2 is another value from here on */
    net_op(&n, 0, "square", "X=a2", "Out=s", "");
    net_op(&n, 0, "mean", "X=s", "Out=m", "");
    net_op(&n, 0, "mean", "X=c2", "Out=m2", "");
    net_op(&n, 0, "sum", "X=m,m2", "Out=loss2", "");
    net_op(&n, 0, "scale", "X=loss2", "Out=loss", "");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "a@GRAD loss");
    net_check_gradient(&n, "a", a, 12, 1e-6);
    net_deinit(&n);
}

TEST(one_variable_in_two_slots_has_one_gradient)
{
    net n;
    net_init(&n);
    net_var(&n, "a", TR_FP64, 2, -1, 3);
    net_op(&n, 0, "scale", "X=a", "Out=y", "scale=1.0 bias=0.5");
    net_op(&n, 0, "cos_sim", "X=a Y=a", "Out=one", "");
    net_op(&n, 0, "squared_l2_distance", "X=y Y=a", "Out=d", "");
    net_op(&n, 0, "sum", "X=one,d", "Out=both", "");
    net_op(&n, 0, "mean", "X=both", "Out=loss", "");
    net_feed(&n, "a", a, 2, 4, 3);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "loss a@GRAD");
    assert_float_equal(net_f64(&n, 0)[0], 1.75, 1e-9);
    net_check_gradient(&n, "a", a, 12, 1e-6);
    net_deinit(&n);
}

TEST(a_program_is_expanded_twice_without_harm)
{
    net         n;
    tr_program *once, *twice;
    char       *first, *second;

    build_cosine(&n);
    EXPECT_OK(tr_program_expand(&once, n.program));
    EXPECT_OK(tr_program_expand(&twice, once));
    EXPECT_OK(tr_program_to_string(&first, once));
    EXPECT_OK(tr_program_to_string(&second, twice));
    assert_string_equal(first, second);
    assert_non_null(strstr(first, "reduce_sum("));
    tr_free(first);
    tr_free(second);
    tr_program_free(twice);
    tr_program_free(n.program);
    n.program = once;
    net_op(&n, 0, "cos_sim", "X=a Y=b", "Out=d", "");             /* new names beside those of the parts that are there */
    net_run(&n, "c d");
    assert_memory_equal(net_f64(&n, 0), net_f64(&n, 1), 4 * sizeof(double));
    net_deinit(&n);
}

TEST(a_failure_names_the_part_and_the_operator)
{
    net n;
    net_init(&n);
    net_var(&n, "a", TR_FP64, 2, -1, -1);
    net_var(&n, "b", TR_FP64, 2, -1, -1);
    net_op(&n, 0, "cos_sim", "X=a Y=b", "Out=c", "");
    net_feed(&n, "a", a, 2, 4, 3);
    net_feed(&n, "b", b, 2, 4, 2);
    EXPECT_FAIL(TR_ESHAPE, "(part of 'cos_sim', block 0, operator 0)", net_try_run(&n, "c"));
    net_deinit(&n);
}

TEST(lines_of_a_body_are_read)
{
    tr_op_desc *op;
    size_t      size;

    EXPECT_OK(tr__op_desc_parse(&op, "pool2d(X=x) {pooling_type=max, ksize=[2, 3], global_pooling=true, strides=[1,1]} -> y"));
    assert_string_equal(tr_op_desc_type(op), "pool2d");
    assert_string_equal(tr_op_desc_input(op, "X", 0), "x");
    assert_string_equal(tr_op_desc_output(op, "Out", 0), "y");
    assert_string_equal(tr_op_desc_attr_string(op, "pooling_type", 0, &size), "max");
    assert_int_equal(tr_op_desc_attr_int(op, "ksize", 1), 3);
    assert_int_equal(tr_op_desc_attr_int(op, "global_pooling", 0), 1);
    assert_int_equal(tr_op_desc_attr_size(op, "strides"), 2);
    tr_op_desc_free(op);
    EXPECT_OK(tr__op_desc_parse(&op, "concat(X=[a, b.1]) {axis=-1} -> Out=[y]"));
    assert_int_equal(tr_op_desc_input_count(op, "X"), 2);
    assert_int_equal(tr_op_desc_attr_int(op, "axis", 0), -1);
    tr_op_desc_free(op);
    EXPECT_OK(tr__op_desc_parse(&op, "scale(X=x) {scale=-1.5e-3} -> y"));
    assert_float_equal(tr_op_desc_attr_float(op, "scale", 0), -1.5e-3, 1e-9);
    tr_op_desc_free(op);
}

TEST(lines_that_cannot_be_read_are_refused)
{
    static const char *const lines[] = {
        "", "no_such_op(X=x) -> y", "scale X=x -> y", "scale(X=x -> y", "scale(=x) -> y", "scale(X=) -> y", "scale(X=x)",
        "scale(X=x) ->", "scale(X=x) {scale} -> y", "scale(X=x) {height=1} -> y", "scale(X=x) {scale=1 -> y",
        "scale(X=x) -> y z", "concat(X=[a, b) -> y", "concat(X=[a, b]) {axis=0 -> y", "pool2d(X=x) {ksize=[a, 2]} -> y",
    };

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        tr_op_desc *op;
        EXPECT_FAIL(TR_EINTERNAL, "cannot read the operator", tr__op_desc_parse(&op, lines[i]));
        assert_null(op);
    }
}

/* A program for clicks has hundreds of slots: each piece of x has a weight of its own in the loss. */
enum { MANY = 300 };

static void build_many(net *n)
{
    tr_op_desc *cut = tr_op_desc_new("split_byref"),
               *joined[2] = {tr_op_desc_new("fusion_transpose_flatten_concat"), tr_op_desc_new("concat")};
    char        name[MANY][16];
    const char *piece[MANY];
    int64_t     rows[MANY];

    for (int i = 0; i < MANY; i++) {
        snprintf(name[i], sizeof name[i], "p%d", i);
        piece[i] = name[i];
        rows[i] = 1;
    }
    net_init(n);
    net_var(n, "x", TR_FP64, 2, MANY, 1);
    net_var(n, "w", TR_FP64, 2, MANY, 1);
    tr_op_desc_set_input(cut, "X", 1, (const char *[]){"x"});
    tr_op_desc_set_output(cut, "Out", MANY, piece);
    tr_op_desc_set_ints(cut, "sections", MANY, rows, TR_ATTR_INTS);
    EXPECT_OK(tr_block_insert_op(tr_program_block(n->program, 0), -1, cut));
    tr_op_desc_set_ints(joined[0], "trans_axis", 2, (const int64_t[]){0, 1}, TR_ATTR_INTS);
    tr_op_desc_set_int(joined[0], "flatten_axis", 1, TR_ATTR_INT);
    tr_op_desc_set_int(joined[0], "concat_axis", 0, TR_ATTR_INT);
    for (int i = 0; i < 2; i++) {
        tr_op_desc_set_input(joined[i], "X", MANY, piece);
        tr_op_desc_set_output(joined[i], "Out", 1, (const char *[]){i ? "joined" : "y"});
        EXPECT_OK(tr_block_insert_op(tr_program_block(n->program, 0), -1, joined[i]));
    }
    net_op(n, 0, "elementwise_mul", "X=joined Y=w", "Out=weighted", "");
    net_op(n, 0, "mean", "X=weighted", "Out=loss", "");
}

TEST(lists_are_as_long_as_they_need_be)
{
    net           n;
    static double x[MANY], w[MANY];

    for (int i = 0; i < MANY; i++) {
        x[i] = i;
        w[i] = 1 + i % 7;
    }
    build_many(&n);
    net_feed(&n, "x", x, 2, MANY, 1);
    net_feed(&n, "w", w, 2, MANY, 1);
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 0, NULL));
    net_run(&n, "y x@GRAD");
    assert_memory_equal(net_f64(&n, 0), x, sizeof x);
    for (int i = 0; i < MANY; i++)
        assert_float_equal(net_f64(&n, 1)[i], w[i] / MANY, 1e-12);
    net_deinit(&n);
}

static int start(void **state)
{
    (void)state;
    return tr_init() == TR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_in_the_plan_and_the_operator_in_the_program),
        cmocka_unit_test(parts_that_nothing_needs_are_left_out),
        cmocka_unit_test(the_gradient_reads_what_the_forward_parts_have_computed),
        cmocka_unit_test(a_gradient_operator_alone_computes_the_body_again),
        cmocka_unit_test(an_input_that_is_overwritten_later_is_that_of_the_operator),
        cmocka_unit_test(one_variable_in_two_slots_has_one_gradient),
        cmocka_unit_test(a_program_is_expanded_twice_without_harm),
        cmocka_unit_test(a_failure_names_the_part_and_the_operator),
        cmocka_unit_test(lists_are_as_long_as_they_need_be),
        cmocka_unit_test(lines_of_a_body_are_read),
        cmocka_unit_test(lines_that_cannot_be_read_are_refused),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
