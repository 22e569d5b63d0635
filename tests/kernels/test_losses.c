/* The losses of single numbers, against their formulas. */
#include "tests/support/op_check.h"

#define CONSTANTS(from, to, ...) {SIZE(__VA_ARGS__), .low = (from), .high = (to), .is_constant = true}

/* -- sigmoid_cross_entropy_with_logits ---------------------------------------------------------------------- */

static const op_case sigmoid_cases[] = {
    {"ragged", {FLOATS(-4, 4, 3, 17), CONSTANTS(0, 1, 3, 17)}},
    {"large logits", {FLOATS(-70, 70, 2, 5), CONSTANTS(0, 1, 2, 5)}},
    {"some ignored", {DIMS(2, 3), {SIZE(2, 3), .values = LIST(0, 1, -100, 1, -100, 0), .is_constant = true}}},
    {"normalised", {DIMS(2, 3), {SIZE(2, 3), .values = LIST(0, 1, -1, 1, -1, 0), .is_constant = true}},
     {BOOL_ATTR("normalize", 1), INT_ATTR("ignore_index", -1)}},
    {"all ignored", {DIMS(1, 2), {SIZE(1, 2), .values = LIST(-100, -100), .is_constant = true}},
     {BOOL_ATTR("normalize", 1)}},
    {"empty batch", {DIMS(0, 4), CONSTANTS(0, 1, 0, 4)}},
};

static void sigmoid_reference(op_values *v)
{
    const double ignore = op_case_number(v->c, "ignore_index", -100);
    int64_t      counted = 0;

    for (int64_t i = 0; i < v->out[0].count; i++)
        counted += v->in[1].data[i] != ignore;
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double x = v->in[0].data[i], label = v->in[1].data[i];
        const double loss = label == ignore ? 0 : fmax(x, 0) - x * label + log1p(exp(-fabs(x)));
        v->out[0].data[i] = op_case_number(v->c, "normalize", 0) != 0 && counted > 0 ? loss / (double)counted : loss;
    }
}

TEST(sigmoid_matches_reference)
{
    EACH_OF(c, sigmoid_cases) check_forward("sigmoid_cross_entropy_with_logits", c, sigmoid_reference, 1e-6);
}

TEST(sigmoid_gradient_is_numeric)
{
    EACH_OF(c, sigmoid_cases) check_gradient("sigmoid_cross_entropy_with_logits", c, 1e-5, 1e-7);
}

/* -- huber_loss ------------------------------------------------------------------------------------------------ */

static const op_case huber_cases[] = {
    {"within and beyond", {FLOATS(-2, 2, 9, 1), FLOATS(-2, 2, 9, 1)}, {FLOAT_ATTR("delta", 0.75)}},
    {"one element", {DIMS(1, 1), DIMS(1, 1)}, {FLOAT_ATTR("delta", 1)}},
    {"empty batch", {DIMS(0, 1), DIMS(0, 1)}, {FLOAT_ATTR("delta", 1)}},
};

static void huber_reference(op_values *v)
{
    const double delta = op_case_number(v->c, "delta", 0);

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double r = v->in[1].data[i] - v->in[0].data[i];
        v->out[0].data[i] = r;
        v->out[1].data[i] = fabs(r) <= delta ? r * r / 2 : delta * (fabs(r) - delta / 2);
    }
}

TEST(huber_matches_reference)   { EACH_OF(c, huber_cases) check_forward("huber_loss", c, huber_reference, 1e-6); }
TEST(huber_gradient_is_numeric) { EACH_OF(c, huber_cases) check_gradient("huber_loss", c, 1e-5, 1e-7); }

/* -- log_loss --------------------------------------------------------------------------------------------------- */

static const op_case log_cases[] = {
    {"probabilities", {FLOATS(0.05, 0.95, 13, 1), CONSTANTS(0, 1, 13, 1)}, {FLOAT_ATTR("epsilon", 0.0625)}},
    {"certain", {{SIZE(2, 1), .values = LIST(0, 1), .is_constant = true},
                 {SIZE(2, 1), .values = LIST(1, 0), .is_constant = true}}, {FLOAT_ATTR("epsilon", 0.0625)}},
    {"empty batch", {DIMS(0, 1), CONSTANTS(0, 1, 0, 1)}, {FLOAT_ATTR("epsilon", 0.5)}},
};

static void log_reference(op_values *v)
{
    const double epsilon = op_case_number(v->c, "epsilon", 0);

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double p = v->in[0].data[i], label = v->in[1].data[i];
        v->out[0].data[i] = -label * log(p + epsilon) - (1 - label) * log(1 - p + epsilon);
    }
}

TEST(log_loss_matches_reference)   { EACH_OF(c, log_cases) check_forward("log_loss", c, log_reference, 1e-6); }
TEST(log_loss_gradient_is_numeric) { check_gradient("log_loss", &log_cases[0], 1e-6, 1e-7); }

/* -- smooth_l1_loss ---------------------------------------------------------------------------------------------- */

static const op_case smooth_cases[] = {
    {"without weights", {FLOATS(-2, 2, 3, 5), FLOATS(-2, 2, 3, 5)}},
    {"a sharper bend", {FLOATS(-2, 2, 3, 5), FLOATS(-2, 2, 3, 5)}, {FLOAT_ATTR("sigma", 1.5)}},
    {"weights", {FLOATS(-2, 2, 3, 2, 2), FLOATS(-2, 2, 3, 2, 2), CONSTANTS(0.5, 2, 3, 2, 2), CONSTANTS(0, 1, 3, 2, 2)}},
    {"empty batch", {DIMS(0, 3), DIMS(0, 3)}},
};

static void smooth_reference(op_values *v)
{
    const double  sigma = op_case_number(v->c, "sigma", 1), s = sigma * sigma;
    const int64_t rows = v->out[1].count, cols = rows > 0 ? v->out[0].count / rows : 0;

    for (int64_t i = 0; i < rows; i++) {
        v->out[1].data[i] = 0;
        for (int64_t k = i * cols; k < (i + 1) * cols; k++) {
            const double d = (v->in[0].data[k] - v->in[1].data[k]) * (v->in_count > 2 ? v->in[2].data[k] : 1);
            const double loss = fabs(d) < 1 / s ? s * d * d / 2 : fabs(d) - 1 / (2 * s);
            v->out[0].data[k] = d;
            v->out[1].data[i] += loss * (v->in_count > 2 ? v->in[3].data[k] : 1);
        }
    }
}

TEST(smooth_l1_matches_reference)
{
    EACH_OF(c, smooth_cases) check_forward("smooth_l1_loss", c, smooth_reference, 2e-6);
}

TEST(smooth_l1_gradient_is_numeric) { EACH_OF(c, smooth_cases) check_gradient("smooth_l1_loss", c, 1e-5, 1e-7); }

/* -- mistakes ------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Label is [3, 5], but X is [3, 4]",
                infer_shapes("sigmoid_cross_entropy_with_logits", {DIMS(3, 4), DIMS(3, 5)}));
    EXPECT_FAIL(TR_EINVAL, "delta", infer_shapes("huber_loss", {DIMS(3, 1), DIMS(3, 1)}));
    EXPECT_FAIL(TR_ERANGE, "delta", infer_shapes("huber_loss", {DIMS(3, 1), DIMS(3, 1)}, {FLOAT_ATTR("delta", 0)}));
    EXPECT_FAIL(TR_EDTYPE, "Labels must be float32",
                infer_shapes("log_loss", {DIMS(3, 1), INT64S(0, 2, 3, 1)}, {FLOAT_ATTR("epsilon", 0.1)}));
    EXPECT_FAIL(TR_ERANGE, "element 1 of row 1 of 'x1' is 2; a label is from 0 to 1, or the ignored -100",
                run_status("sigmoid_cross_entropy_with_logits", {DIMS(2, 2), VALUES(LIST(0, -100, 1, 2), 2, 2)}));
    EXPECT_FAIL(TR_ERANGE, "element 0 of row 0 of 'x1' is nan",
                run_status("sigmoid_cross_entropy_with_logits", {DIMS(1, 2), VALUES(LIST(NAN, 1), 1, 2)}));
    EXPECT_FAIL(TR_ERANGE, "element 0 of row 0 of 'x1' is -100; a label is from 0 to 1, or the ignored -1",
                run_status("sigmoid_cross_entropy_with_logits", {DIMS(1, 1), VALUES(LIST(-100), 1, 1)}, {INT_ATTR("ignore_index", -1)}));
    EXPECT_FAIL(TR_ERANGE, "log_loss: the label of row 1 in 'x1' is -1; it must be from 0 to 1",
                run_status("log_loss", {VALUES(LIST(0.5, 0.5), 2, 1), VALUES(LIST(1, -1), 2, 1)}, {FLOAT_ATTR("epsilon", 0.1)}));
    EXPECT_FAIL(TR_ERANGE, "log_loss: the prediction of row 0 in 'x0' is 1.5; it must be from 0 to 1",
                run_status("log_loss", {VALUES(LIST(1.5, 0.5), 2, 1), VALUES(LIST(1, 0), 2, 1)}, {FLOAT_ATTR("epsilon", 0.1)}));
    EXPECT_FAIL(TR_EINVAL, "come together", infer_shapes("smooth_l1_loss", {DIMS(3, 2), DIMS(3, 2), DIMS(3, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sigmoid_matches_reference),
        cmocka_unit_test(sigmoid_gradient_is_numeric),
        cmocka_unit_test(huber_matches_reference),
        cmocka_unit_test(huber_gradient_is_numeric),
        cmocka_unit_test(log_loss_matches_reference),
        cmocka_unit_test(log_loss_gradient_is_numeric),
        cmocka_unit_test(smooth_l1_matches_reference),
        cmocka_unit_test(smooth_l1_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
