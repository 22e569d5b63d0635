/* test_dgc.c - deep gradient compression: one step of it, against the algorithm; what twenty do, tests/python/test_dgc.py says. */
#include <string.h>

#include "tests/support/op_check.h"

#define STEP(x)   {SIZE(1), TYPED(TR_INT64, x, (x) + 1)}
#define STATE     DIMS(5, 3)
#define NONE_ENCODED .out_count = {1, 1, -1, 1, 1}
/* Shares of 15 values: 12, 8 and 3 are sent. */
#define PERIODS   FLOATS_ATTR("sparsity", 0.2, 0.45, 0.8), FLOAT_ATTR("rampup_begin_step", 4), FLOAT_ATTR("rampup_step", 6)

static const op_case cases[] = {
    {"dense", {STATE, STATE, STATE, STEP(3)}, {PERIODS, BOOL_ATTR("use_nesterov", 0)}, NONE_ENCODED},
    {"dense by Nesterov", {STATE, STATE, STATE, STEP(0)}, {PERIODS, FLOAT_ATTR("m", 0.5)}, NONE_ENCODED},
    {"first period", {STATE, STATE, STATE, STEP(4)}, {PERIODS, BOOL_ATTR("use_nesterov", 0)}, NONE_ENCODED},
    {"second period, by Nesterov", {STATE, STATE, STATE, STEP(7)}, {PERIODS}, NONE_ENCODED},
    {"last period", {STATE, STATE, STATE, STEP(8)}, {PERIODS, FLOAT_ATTR("m", 0.5)}, NONE_ENCODED},
    {"beyond the periods", {STATE, STATE, STATE, {SIZE(1), TYPED(TR_FP32, 1000, 1001)}}, {PERIODS}, NONE_ENCODED},
    {"one value at least", {STATE, STATE, STATE, STEP(4)}, {FLOATS_ATTR("sparsity", 0.999), FLOAT_ATTR("rampup_step", 1)}, NONE_ENCODED},
    {"equal values", {CONSTANT(4), CONSTANT(4), {SIZE(4), .values = LIST(2, -2, 2, 1)}, STEP(0)},
     {FLOATS_ATTR("sparsity", 0.5), FLOAT_ATTR("rampup_step", 1), FLOAT_ATTR("m", 0)}, NONE_ENCODED},
    {"nothing", {DIMS(0, 3), DIMS(0, 3), DIMS(0, 3), STEP(9)}, {PERIODS}, NONE_ENCODED},
};

static int sent_of(const op_values *v, int64_t n)
{
    const double since = v->in[3].data[0] - op_case_number(v->c, "rampup_begin_step", 0);
    int          at = 0;

    if (since < 0)
        return (int)n;
    int periods = 0;
    while (op_case_item(v->c, "sparsity", periods, -1) >= 0)
        periods++;
    at = (int)(since * periods / op_case_number(v->c, "rampup_step", 0));
    const long k = lround((double)n * (1 - op_case_item(v->c, "sparsity", at < periods ? at : periods - 1, 0)));
    return k < 1 ? 1 : (int)k;
}

/* Among the k largest, of equal ones the first? */
static bool goes(const double *v, int64_t n, int64_t i, int k)
{
    int before = 0;

    for (int64_t j = 0; j < n; j++)
        before += fabs(v[j]) > fabs(v[i]) || (j < i && fabs(v[j]) == fabs(v[i]));
    return before < k;
}

static void reference(op_values *v)
{
    const int64_t n = v->in[0].count;
    const int     k = sent_of(v, n);
    const double  m = (float)op_case_number(v->c, "m", 0.9f);
    const bool    nesterov = op_case_number(v->c, "use_nesterov", 1) != 0,
                  is_dense = v->in[3].data[0] < op_case_number(v->c, "rampup_begin_step", 0);
    double       *u = v->out[0].data, *rest = v->out[1].data, *sent = v->out[2].data, all[64];

    for (int64_t i = 0; i < n; i++) {
        const double g = v->in[2].data[i];
        u[i] = m * v->in[0].data[i] + g;
        sent[i] = nesterov ? g + m * u[i] : u[i];
        rest[i] = all[i] = v->in[1].data[i] + (is_dense ? 0 : sent[i]);
    }
    for (int64_t i = 0; i < n && !is_dense; i++) {
        const bool is_sent = goes(all, n, i, k);
        sent[i] = is_sent ? all[i] : 0;
        rest[i] = is_sent ? 0 : all[i];
        u[i] = is_sent ? 0 : u[i];
    }
    v->out[3].data[0] = k > n ? (double)n : k;
}

TEST(dgc_matches_reference) { EACH_OF(c, cases) if (c->in[0].dims[0] > 0) check_forward("dgc", c, reference, 1e-6); }

TEST(an_empty_gradient_sends_nothing)
{
    op_values v = run_op("dgc", &cases[8], TR_FP32);
    assert_int_equal(v.out[2].count, 0);
    op_values_free(&v);
}

static const op_case encoded = {"", {VALUES(LIST(0, 0, 0, 0), 4), VALUES(LIST(0, 0, 0, 0), 4), VALUES(LIST(1, -3, 0.5, 2), 4), STEP(0)},
                                {FLOATS_ATTR("sparsity", 0.5), FLOAT_ATTR("rampup_step", 1), FLOAT_ATTR("m", 0)}};

TEST(the_sent_part_may_be_encoded)
{
    int64_t   places[2];
    op_values v = run_op("dgc", &encoded, TR_FP64);
    assert_int_equal(v.out[2].count, 4);
    memcpy(places, v.out[2].data, sizeof places);
    assert_int_equal(places[0], 1);
    assert_int_equal(places[1], 3);
    assert_true(v.out[2].data[2] == -3 && v.out[2].data[3] == 2);
    op_values_free(&v);
}

/* -- dgc_clip_by_norm ------------------------------------------------------------------------------------ */

static const op_case clip_cases[] = {
    {"clips", {DIMS(7, 9), STEP(5)}, {FLOAT_ATTR("max_norm", 1.5), FLOAT_ATTR("rampup_begin_step", 5)}},
    {"not yet", {DIMS(7, 9), STEP(4)}, {FLOAT_ATTR("max_norm", 1.5), FLOAT_ATTR("rampup_begin_step", 5)}},
    {"is short enough", {DIMS(7, 9), STEP(0)}, {FLOAT_ATTR("max_norm", 1000)}},
};

static void clip_reference(op_values *v)
{
    const double most = op_case_number(v->c, "max_norm", 0);
    double       squares = 0;

    for (int64_t i = 0; i < v->in[0].count; i++)
        squares += v->in[0].data[i] * v->in[0].data[i];
    const bool clips = v->in[1].data[0] >= op_case_number(v->c, "rampup_begin_step", -1) && sqrt(squares) > most;
    for (int64_t i = 0; i < v->in[0].count; i++)
        v->out[0].data[i] = v->in[0].data[i] * (clips ? most / sqrt(squares) : 1);
}

TEST(clip_matches_reference) { EACH_OF(c, clip_cases) check_forward("dgc_clip_by_norm", c, clip_reference, 1e-6); }

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "V must be [5, 3], got [5]", infer_shapes("dgc", {STATE, DIMS(5), STATE, STEP(0)}, {PERIODS}));
    EXPECT_FAIL(TR_ERANGE, "'sparsity' holds 1; shares from 0 to below 1 are possible",
                infer_shapes("dgc", {STATE, STATE, STATE, STEP(0)}, {FLOATS_ATTR("sparsity", 0.5, 1), FLOAT_ATTR("rampup_step", 1)}));
    EXPECT_FAIL(TR_ERANGE, "'rampup_step'",
                infer_shapes("dgc", {STATE, STATE, STATE, STEP(0)}, {FLOATS_ATTR("sparsity", 0.5), FLOAT_ATTR("rampup_step", 0)}));
    EXPECT_FAIL(TR_EDTYPE, "dgc: current_step must be int64, int32, float32 or float64, got bool",
                infer_shapes("dgc", {STATE, STATE, STATE, BOOLS(1)}, {PERIODS}));
    EXPECT_FAIL(TR_ESHAPE, "current_step", infer_shapes("dgc_clip_by_norm", {STATE, DIMS(2)}, {FLOAT_ATTR("max_norm", 1)}));
    EXPECT_FAIL(TR_ERANGE, "'max_norm'", infer_shapes("dgc_clip_by_norm", {STATE, STEP(0)}, {FLOAT_ATTR("max_norm", 0)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dgc_matches_reference),        cmocka_unit_test(an_empty_gradient_sends_nothing),
        cmocka_unit_test(the_sent_part_may_be_encoded), cmocka_unit_test(clip_matches_reference),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
