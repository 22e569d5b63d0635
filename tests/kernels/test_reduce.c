/* Reductions: over some dimensions, over all, to the size of a tensor. */
#include "tests/support/op_check.h"

static double add(double a, double b) { return a + b; }
static double multiply(double a, double b) { return a * b; }
static double larger(double a, double b) { return fmax(a, b); }
static double smaller(double a, double b) { return fmin(a, b); }

static const struct operator {
    const char *op;
    double    (*f)(double a, double b);
    double      start;
    bool        is_mean;
} operators[] = {
    {"reduce_sum", add, 0, false},         {"reduce_mean", add, 0, true},
    {"reduce_max", larger, -INFINITY, false}, {"reduce_min", smaller, INFINITY, false},
    {"reduce_prod", multiply, 1, false},
};
static const struct operator *current;

#define EACH_OPERATOR for (current = operators; current < operators + sizeof operators / sizeof *operators; current++)
#define DIM(...)      INTS_ATTR("dim", __VA_ARGS__)
#define KEEP          BOOL_ATTR("keep_dim", true)
#define ALL           BOOL_ATTR("reduce_all", true)

static const op_case cases[] = {
    {"default is the first", {DIMS(3, 5)}, .out = {DIMS(5)}},
    {"last",             {DIMS(3, 17)}, {DIM(-1)}, {DIMS(3)}},
    {"middle, kept",     {DIMS(2, 3, 4)}, {DIM(1), KEEP}, {DIMS(2, 1, 4)}},
    {"two at the end",   {DIMS(2, 3, 4)}, {DIM(1, 2)}, {DIMS(2)}},
    {"two, unordered",   {DIMS(2, 3, 4)}, {DIM(2, 1)}, {DIMS(2)}},
    {"one in between",   {DIMS(2, 3, 4)}, {DIM(0, 2)}, {DIMS(3)}},
    {"channels, kept",   {DIMS(2, 3, 2, 2)}, {DIM(0, -2, -1), KEEP}, {DIMS(1, 3, 1, 1)}},
    {"two in between",   {DIMS(2, 3, 2, 3)}, {DIM(1, 3)}, {DIMS(2, 2)}},
    {"every one",        {DIMS(2, 3)}, {DIM(0, 1)}, {DIMS(1)}},
    {"all",              {DIMS(2, 3, 4)}, {ALL}, {DIMS(1)}},
    {"all, kept",        {DIMS(2, 3)}, {ALL, KEEP}, {DIMS(1, 1)}},
    {"vector",           {DIMS(7)}, .out = {DIMS(1)}},
    {"empty batch",      {DIMS(0, 4)}, {DIM(1)}, {DIMS(0)}},
};

/* Whether dimension d goes. */
static bool goes(const op_case *c, int d, int rank)
{
    if (op_case_number(c, "reduce_all", 0))
        return true;
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        for (int k = 0; k < c->attr[i].count; k++)
            if ((int)c->attr[i].list[k] == d || (int)c->attr[i].list[k] + rank == d)
                return true;
    return c->attr[0].count == 0 && d == 0;
}

static void reference(op_values *v)
{
    const op_array *x = &v->in[0];
    op_array       *out = &v->out[0];

    for (int64_t i = 0; i < out->count; i++)
        out->data[i] = current->start;
    for (int64_t i = 0; i < x->count; i++) {
        int64_t rest = i, at = 0, step = 1;
        for (int d = x->rank - 1; d >= 0; d--) {
            if (!goes(v->c, d, x->rank)) {
                at += rest % x->dims[d] * step;
                step *= x->dims[d];
            }
            rest /= x->dims[d];
        }
        out->data[at] = current->f(out->data[at], x->data[i]);
    }
    for (int64_t i = 0; i < out->count && current->is_mean; i++)
        out->data[i] /= (double)(x->count / out->count);
}

TEST(matches_reference) { EACH_OPERATOR EACH(c) check_forward(current->op, c, reference, 2e-6); }
TEST(gradient_is_numeric) { EACH_OPERATOR EACH(c) check_gradient(current->op, c, 1e-5, 1e-7); }

TEST(matches_reference_when_threads_share_it)
{
    const op_case large[] = {
        {"rows",    {FLOATS(0.9, 1.1, 211, 501)}, {DIM(1)}},
        {"columns", {FLOATS(0.9, 1.1, 211, 501)}, {DIM(0)}},
        {"all",     {FLOATS(0.9, 1.1, 211, 501)}, {ALL}},
    };

    for (current = operators; current < operators + 4; current++)
        EACH_OF(c, large) check_forward(current->op, c, reference, 2e-5);
}

TEST(matches_reference_for_integers)
{
    EACH_OPERATOR {
        if (current->is_mean)
            continue;
        check_forward(current->op, &(op_case){"int32", {INT32S(-4, 5, 3, 5)}, {DIM(1)}}, reference, 0);
        check_forward(current->op, &(op_case){"int64", {INT64S(-4, 5, 3, 5, 2)}, {DIM(0, 2)}}, reference, 0);
    }
}

TEST(sequences_stay_when_rows_do)
{
    EXPECT_SHAPE("float32[?, 4]", "reduce_sum", {DIMS(-1, 3, 4)}, {DIM(1)});
    current = operators;
    check_forward("reduce_sum", &(op_case){"sequences", {SEQUENCES(OFFSETS(0, 1, 3), 3, 2)}, {DIM(1)},
                                           {SEQUENCES(OFFSETS(0, 1, 3), 3)}}, reference, 1e-6);
}

TEST(mistakes_are_explained)
{
    EACH_OPERATOR {
        EXPECT_FAIL(TR_ERANGE, "dim is 2", infer_shapes(current->op, {DIMS(3, 4)}, {DIM(2)}));
        EXPECT_FAIL(TR_ERANGE, "dim is -3", infer_shapes(current->op, {DIMS(3, 4)}, {DIM(-3)}));
        EXPECT_FAIL(TR_EDTYPE, "bool", run_status(current->op, {BOOLS(3)}));
    }
    EXPECT_FAIL(TR_EDTYPE, "int64", run_status("mean", {INT64S(0, 5, 3)}));
}

/* -- to one number ----------------------------------------------------------------------------------------- */

static double value(double x) { return x; }
static double square(double x) { return x * x; }

static const struct size {
    const char *op;
    double    (*f)(double x);
} sizes[] = {{"mean", value}, {"l1_norm", fabs}, {"squared_l2_norm", square}};
static const struct size *size;

static const op_case size_cases[] = {
    {"ragged", {DIMS(3, 17)}, .out = {DIMS(1)}},
    {"one",    {DIMS(1)}},
    {"large",  {DIMS(67, 1031)}},
};

static void size_reference(op_values *v)
{
    double sum = 0;

    for (int64_t i = 0; i < v->in[0].count; i++)
        sum += size->f(v->in[0].data[i]);
    v->out[0].data[0] = size->f == value ? sum / (double)v->in[0].count : sum;
}

#define EACH_SIZE for (size = sizes; size < sizes + sizeof sizes / sizeof *sizes; size++)

TEST(sizes_match_reference) { EACH_SIZE EACH_OF(c, size_cases) check_forward(size->op, c, size_reference, 2e-5); }

TEST(gradients_of_sizes_are_numeric)
{
    EACH_SIZE for (int i = 0; i < 2; i++) check_gradient(size->op, &size_cases[i], 1e-5, 1e-7);
}

TEST(size_of_nothing)
{
    op_values norm = run_op("l1_norm", &(op_case){"empty", {DIMS(0, 3)}}, TR_FP32);
    op_values mean = run_op("mean", &(op_case){"empty", {DIMS(0, 3)}}, TR_FP32);

    assert_true(norm.out[0].data[0] == 0);
    assert_true(isnan(mean.out[0].data[0]));
    op_values_free(&norm);
    op_values_free(&mean);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_reference),
        cmocka_unit_test(matches_reference_when_threads_share_it),
        cmocka_unit_test(matches_reference_for_integers),
        cmocka_unit_test(gradient_is_numeric),
        cmocka_unit_test(sequences_stay_when_rows_do),
        cmocka_unit_test(mistakes_are_explained),
        cmocka_unit_test(sizes_match_reference),
        cmocka_unit_test(gradients_of_sizes_are_numeric),
        cmocka_unit_test(size_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
