/* Scores of some classes instead of all, and the counts of shows and clicks in an embedding. */
#include "tests/support/net.h"
#include "tests/support/op_check.h"

/* -- sample_logits with given classes --------------------------------------------------------------------------- */

#define GIVEN(list, ...)   {SIZE(__VA_ARGS__), TYPED(TR_INT64, 0, 1), .values = list}
#define CHANCES(...)       {SIZE(__VA_ARGS__), .low = 0.1, .high = 1, .is_constant = true}
#define CUSTOM             BOOL_ATTR("use_customized_samples", 1)

static const op_case given_cases[] = {
    {"one truth, with a hit", {FLOATS(-3, 3, 2, 6), GIVEN(LIST(2, 5), 2, 1), GIVEN(LIST(2, 0, 4, 5, 1, 5), 2, 3), CHANCES(2, 3)},
     {CUSTOM, INT_ATTR("num_samples", 2)}, {DIMS(2, 3), DIMS(2, 3), DIMS(0, 6), DIMS(0, 1), DIMS(2, 3), DIMS(2, 1)}},
    {"two truths, hits stay", {DIMS(2, 4), GIVEN(LIST(0, 1, 3, 3), 2, 2), GIVEN(LIST(0, 1, 1, 0, 3, 3, 3, 2), 2, 4), CHANCES(2, 4)},
     {CUSTOM, INT_ATTR("num_samples", 2), BOOL_ATTR("remove_accidental_hits", 0)}},
    {"empty batch", {DIMS(0, 4), INT64S(0, 4, 0, 1), INT64S(0, 4, 0, 3), CHANCES(0, 3)}, {CUSTOM, INT_ATTR("num_samples", 2)}},
};

static void given_reference(op_values *v)
{
    const int64_t rows = v->in[0].dims[0], classes = v->in[0].dims[1], truths = v->in[1].dims[1], picks = v->in[2].dims[1];
    const bool    removes = op_case_number(v->c, "remove_accidental_hits", 1) != 0;

    for (int64_t i = 0; i < rows; i++) {
        for (int64_t k = 0; k < picks; k++) {
            const int64_t at = i * picks + k, id = (int64_t)v->in[2].data[at];
            bool          is_hit = false;
            for (int64_t t = 0; t < truths && k >= truths; t++)
                is_hit |= (int64_t)v->in[2].data[i * picks + t] == id;
            v->out[0].data[at] = (double)id;
            v->out[1].data[at] = v->in[3].data[at];
            v->out[4].data[at] = v->in[0].data[i * classes + id] - log(v->in[3].data[at]) - (is_hit && removes ? 1e20 : 0);
        }
        for (int64_t t = 0; t < truths; t++)
            v->out[5].data[i * truths + t] = (double)t;
    }
}

TEST(given_classes_match_reference)  { EACH_OF(c, given_cases) check_forward("sample_logits", c, given_reference, 1e-6); }
TEST(the_gradient_adds_up_at_classes) { check_gradient("sample_logits", &given_cases[1], 1e-5, 1e-7); }

/* -- sample_logits that draws -------------------------------------------------------------------------------------- */

/* How often a class is to be expected among `drawn` different ones that `tries` draws gave; `tries` is what makes class `id`'s known. */
static double tries_of(double chance, double p) { return log1p(-chance) / log1p(-p); }
static double log_uniform(int64_t id, int64_t classes) { return log((double)(id + 2) / (double)(id + 1)) / log((double)classes + 1); }

TEST(drawn_classes_differ_and_their_chances_are_those_of_so_many_tries)
{
    const op_case        c = {"drawn", {DIMS(3, 40), GIVEN(LIST(0, 7, 39), 3, 1)}, {INT_ATTR("num_samples", 12)}};
    op_values            v = run_op("sample_logits", &c, TR_FP64);
    const int64_t        picks = 13;
    const double         tries = tries_of(v.out[1].data[1], log_uniform((int64_t)v.out[0].data[1], 40));

    assert_true(tries > 12 && fabs(tries - round(tries)) < 1e-6);
    for (int64_t i = 0; i < 3; i++) {
        assert_true(v.out[0].data[i * picks] == v.in[1].data[i]);
        for (int64_t k = 0; k < picks; k++) {
            const double id = v.out[0].data[i * picks + k];
            assert_true(fabs(v.out[1].data[i * picks + k] + expm1(tries * log1p(-log_uniform((int64_t)id, 40)))) < 1e-9);
            for (int64_t j = 1; j < k; j++)
                assert_true(v.out[0].data[i * picks + j] != id);
            if (k > 0)
                assert_true(v.out[0].data[k] == id);                  /* the same ones for all rows */
        }
    }
    op_values_free(&v);
}

TEST(all_classes_can_be_drawn)
{
    const op_case        c = {"all", {DIMS(1, 9), GIVEN(LIST(3), 1, 1)}, {INT_ATTR("num_samples", 9)}};
    op_values            v = run_op("sample_logits", &c, TR_FP32);
    double               sum = 0;

    for (int k = 1; k < 10; k++)
        sum += v.out[0].data[k];
    assert_true(sum == 36);
    op_values_free(&v);
}

TEST(each_run_draws_anew_and_a_seed_gives_other_draws)
{
    float   x[20] = {0};
    int64_t label[1] = {4}, first[8];
    net     n;

    net_init(&n);
    net_var(&n, "x", TR_FP32, 2, -1, 20);
    net_var(&n, "label", TR_INT64, 2, -1, 1);
    net_op(&n, 0, "sample_logits", "Logits=x Labels=label", "Samples=s SampledLogits=o SampledLabels=l", "num_samples=7");
    net_op(&n, 0, "sample_logits", "Logits=x Labels=label", "Samples=s2 SampledLogits=o2 SampledLabels=l2", "num_samples=7 seed=5");
    net_feed(&n, "x", x, 2, 1, 20);
    net_feed(&n, "label", label, 2, 1, 1);
    net_run(&n, "s s2");
    memcpy(first, net_i64(&n, 0), sizeof first);
    assert_memory_not_equal(first, net_i64(&n, 1), sizeof first);
    net_run(&n, "s s2");
    assert_memory_not_equal(first, net_i64(&n, 0), sizeof first);
    net_deinit(&n);
}

/* -- cvm -------------------------------------------------------------------------------------------------------------- */

static const op_case cvm_cases[] = {
    {"logs", {FLOATS(0, 9, 5, 6), FLOATS(0, 9, 5, 2)}},
    {"left out", {FLOATS(0, 9, 5, 6), FLOATS(0, 9, 5, 2)}, {BOOL_ATTR("use_cvm", 0)}, {DIMS(5, 4)}},
    {"of sequences", {{SIZE(5, 4), .low = 0, .high = 9, .lod = {OFFSETS(0, 2, 2, 5)}}, FLOATS(0, 9, 3, 2)}},
    {"counts alone", {FLOATS(0, 9, 3, 2), FLOATS(0, 9, 3, 2)}},
    {"empty batch", {DIMS(0, 4), DIMS(0, 2)}},
};

static void cvm_reference(op_values *v)
{
    const bool    keeps = op_case_number(v->c, "use_cvm", 1) != 0;
    const int64_t width = v->in[0].dims[1], kept = keeps ? width : width - 2;

    for (int64_t i = 0; i < v->in[0].dims[0]; i++)
        for (int64_t k = 0; k < kept; k++) {
            const double *x = v->in[0].data + i * width;
            v->out[0].data[i * kept + k] = !keeps ? x[k + 2] : k == 0 ? log(x[0] + 1) : k == 1 ? log(x[1] + 1) - log(x[0] + 1) : x[k];
        }
}

TEST(cvm_matches_reference) { EACH_OF(c, cvm_cases) check_forward("cvm", c, cvm_reference, 2e-6); }

/* Rows 0 and 1 are of the first sample, row 2 of the second: weight w gives each element its own gradient. */
static void check_cvm_gradient(const char *attrs, int kept)
{
    static const int64_t offsets[] = {0, 2, 3};
    double               x[12], cvm[4] = {7, 8, 9, 10}, w[12];
    net                  n;

    for (int i = 0; i < 12; i++) {
        x[i] = i;
        w[i] = 100 + i;
    }
    net_init(&n);
    net_var(&n, "x", TR_FP64, 2, -1, 4);
    tr_var_desc_set_lod_level(tr_block_find_var(tr_program_block(n.program, 0), "x"), 1);
    net_var(&n, "cvm", TR_FP64, 2, -1, 2);
    net_var(&n, "w", TR_FP64, 2, -1, kept);
    net_op(&n, 0, "cvm", "X=x CVM=cvm", "Y=y", attrs);
    net_op(&n, 0, "elementwise_mul", "X=y Y=w", "Out=p", "");
    net_op(&n, 0, "reduce_sum", "X=p", "Out=loss", "reduce_all=true");
    EXPECT_OK(tr_append_backward(n.program, "loss", 0, NULL, 2, (const char *const[]){"cvm", "w"}));
    net_feed(&n, "x", x, 2, 3, 4);
    net_feed_lod(&n, "x", 1, 3, offsets);
    net_feed(&n, "cvm", cvm, 2, 2, 2);
    net_feed(&n, "w", w, 2, 3, kept);
    net_run(&n, "x@GRAD");
    for (int i = 0; i < 3; i++) {
        const double *dx = net_f64(&n, 0) + 4 * i, *sample = cvm + (i == 2 ? 2 : 0), *tail = w + i * kept + kept - 2;
        assert_true(dx[0] == sample[0] && dx[1] == sample[1] && dx[2] == tail[0] && dx[3] == tail[1]);
    }
    net_deinit(&n);
}

TEST(the_gradient_of_the_counts_is_what_the_sample_counts)
{
    check_cvm_gradient("use_cvm=false", 2);
    check_cvm_gradient("", 4);
}

/* -- mistakes ------------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "num_samples is 5, but Logits [2, 4] has only 4 classes",
                infer_shapes("sample_logits", {DIMS(2, 4), INT64S(0, 4, 2, 1)}, {INT_ATTR("num_samples", 5)}));
    EXPECT_FAIL(TR_EINVAL, "needs CustomizedSamples and CustomizedProbabilities",
                infer_shapes("sample_logits", {DIMS(2, 4), INT64S(0, 4, 2, 1)}, {INT_ATTR("num_samples", 2), CUSTOM}));
    EXPECT_FAIL(TR_ERANGE, "row 1 of 'x1' names class 4; there are 4",
                run_status("sample_logits", {DIMS(2, 4), GIVEN(LIST(0, 4), 2, 1)}, {INT_ATTR("num_samples", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "CustomizedSamples must be [2, 3]",
                infer_shapes("sample_logits", {DIMS(2, 4), INT64S(0, 4, 2, 1), INT64S(0, 4, 2, 2), DIMS(2, 3)},
                             {INT_ATTR("num_samples", 2), CUSTOM}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "uniq",
                infer_shapes("sample_logits", {DIMS(2, 4), INT64S(0, 4, 2, 1)}, {INT_ATTR("num_samples", 2), BOOL_ATTR("uniq", 0)}));
    EXPECT_FAIL(TR_ESHAPE, "X must be at least 2 wide", infer_shapes("cvm", {DIMS(2, 1), DIMS(2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "CVM must be [2, 2], got [3, 2]", infer_shapes("cvm", {DIMS(2, 4), DIMS(3, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "CVM 'x1' has 3 rows, but X 'x0' has 2 sequences",
                run_status("cvm", {SEQUENCES(OFFSETS(0, 1, 4), 4, 4), DIMS(3, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(given_classes_match_reference),
        cmocka_unit_test(the_gradient_adds_up_at_classes),
        cmocka_unit_test(drawn_classes_differ_and_their_chances_are_those_of_so_many_tries),
        cmocka_unit_test(all_classes_can_be_drawn),
        cmocka_unit_test(each_run_draws_anew_and_a_seed_gives_other_draws),
        cmocka_unit_test(cvm_matches_reference),
        cmocka_unit_test(the_gradient_of_the_counts_is_what_the_sample_counts),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
