/* Losses of scores: yes or no, which of two, which of many, and how far from a distribution. */
#include "tests/support/op_check.h"

#define CONSTANTS(from, to, ...) {SIZE(__VA_ARGS__), .low = (from), .high = (to), .is_constant = true}
#define GIVEN(list, ...)         {SIZE(__VA_ARGS__), .values = list, .is_constant = true}

static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }

/* -- hinge_loss, modified_huber_loss -------------------------------------------------------------------------- */

static const op_case yes_cases[] = {
    {"some of both", {FLOATS(-3, 3, 8, 1), GIVEN(LIST(1, 0, 1, 0, 0, 1, 1, 0), 8, 1)}},
    {"in between", {FLOATS(-3, 3, 2, 3), CONSTANTS(0, 1, 2, 3)}},
    {"one element", {DIMS(1, 1), GIVEN(LIST(1), 1, 1)}},
    {"empty batch", {DIMS(0, 1), CONSTANTS(0, 1, 0, 1)}},
};

static void hinge_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = fmax(1 - (2 * v->in[1].data[i] - 1) * v->in[0].data[i], 0);
}

static void modified_huber_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double z = v->in[0].data[i] * (2 * v->in[1].data[i] - 1);
        v->out[0].data[i] = z;
        v->out[1].data[i] = z < -1 ? -4 * z : z < 1 ? (1 - z) * (1 - z) : 0;
    }
}

TEST(hinge_matches_reference)            { EACH_OF(c, yes_cases) check_forward("hinge_loss", c, hinge_reference, 1e-6); }
TEST(hinge_gradient_is_numeric)          { EACH_OF(c, yes_cases) check_gradient("hinge_loss", c, 1e-6, 1e-7); }
TEST(modified_huber_matches_reference)   { EACH_OF(c, yes_cases) check_forward("modified_huber_loss", c, modified_huber_reference, 1e-6); }
TEST(modified_huber_gradient_is_numeric) { EACH_OF(c, yes_cases) check_gradient("modified_huber_loss", c, 1e-6, 1e-7); }

/* -- teacher_student_sigmoid_loss ------------------------------------------------------------------------------- */

static const op_case teacher_cases[] = {
    {"every kind of label", {FLOATS(-3, 3, 8, 1), GIVEN(LIST(-2, -1, 0, 0.25, 0.75, 1, 1.5, 2), 8, 1)}},
    {"other bounds",
     {FLOATS(-3, 3, 2, 3), CONSTANTS(0, 2, 2, 3)},
     {FLOAT_ATTR("soft_max_up_bound", 20), FLOAT_ATTR("soft_max_lower_bound", -20)}},
    {"empty batch", {DIMS(0, 1), CONSTANTS(0, 1, 0, 1)}},
};

static void teacher_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double x = v->in[0].data[i], label = v->in[1].data[i], click = label < -1 || (label >= 0 && label < 1) ? 0 : 1;
        const bool   has_teacher = label >= 0;
        v->out[0].data[i] = softplus(x) - click * x + (has_teacher ? softplus(x) - (label - click) * x : 0);
    }
}

TEST(teacher_matches_reference)   { EACH_OF(c, teacher_cases) check_forward("teacher_student_sigmoid_loss", c, teacher_reference, 1e-6); }
TEST(teacher_gradient_is_numeric) { EACH_OF(c, teacher_cases) check_gradient("teacher_student_sigmoid_loss", c, 1e-5, 1e-7); }

/* -- rank_loss, margin_rank_loss ---------------------------------------------------------------------------------- */

static const op_case rank_cases[] = {
    {"every kind of label", {GIVEN(LIST(0, 1, 0.5, 1, 0), 5, 1), FLOATS(-3, 3, 5, 1), FLOATS(-3, 3, 5, 1)}},
    {"far apart", {GIVEN(LIST(0, 1), 2, 1), FLOATS(40, 80, 2, 1), FLOATS(-80, -40, 2, 1)}},
    {"empty batch", {CONSTANTS(0, 1, 0, 1), DIMS(0, 1), DIMS(0, 1)}},
};

static const op_case margin_cases[] = {
    {"no margin", {FLOATS(-3, 3, 7, 1), FLOATS(-3, 3, 7, 1), GIVEN(LIST(1, -1, 1, 1, -1, -1, 1), 7, 1)}},
    {"a margin", {FLOATS(-1, 1, 2, 3), FLOATS(-1, 1, 2, 3), GIVEN(LIST(1, -1, 1, 1, -1, -1), 2, 3)}, {FLOAT_ATTR("margin", 0.5)}},
    {"empty batch", {DIMS(0, 1), DIMS(0, 1), CONSTANTS(0, 1, 0, 1)}},
};

static void rank_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double o = v->in[1].data[i] - v->in[2].data[i];
        v->out[0].data[i] = softplus(o) - v->in[0].data[i] * o;
    }
}

static void margin_reference(op_values *v)
{
    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double loss = op_case_number(v->c, "margin", 0) - v->in[2].data[i] * (v->in[0].data[i] - v->in[1].data[i]);
        v->out[0].data[i] = loss > 0;
        v->out[1].data[i] = fmax(loss, 0);
    }
}

TEST(rank_matches_reference)     { EACH_OF(c, rank_cases) check_forward("rank_loss", c, rank_reference, 1e-6); }
TEST(rank_gradient_is_numeric)   { EACH_OF(c, rank_cases) check_gradient("rank_loss", c, 1e-5, 1e-7); }
TEST(margin_matches_reference)   { EACH_OF(c, margin_cases) check_forward("margin_rank_loss", c, margin_reference, 1e-6); }
TEST(margin_gradient_is_numeric) { EACH_OF(c, margin_cases) check_gradient("margin_rank_loss", c, 1e-6, 1e-7); }

/* -- bpr_loss ------------------------------------------------------------------------------------------------------- */

static const op_case bpr_cases[] = {
    {"ragged", {FLOATS(-3, 3, 7, 5), INT64S(0, 5, 7, 1)}},
    {"flat labels of more dimensions", {DIMS(2, 3, 4), INT64S(0, 4, 2, 3)}},
    {"one class", {DIMS(3, 1), INT64S(0, 1, 3, 1)}},
    {"empty batch", {DIMS(0, 4), INT64S(0, 4, 0, 1)}},
};

static void bpr_reference(op_values *v)
{
    const int64_t classes = v->in[0].dims[v->in[0].rank - 1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const double *x = v->in[0].data + i * classes;
        double        sum = 0;
        for (int64_t k = 0; k < classes; k++)
            if (k != (int64_t)v->in[1].data[i])
                sum += softplus(x[k] - x[(int64_t)v->in[1].data[i]]);
        v->out[0].data[i] = classes > 1 ? sum / (double)(classes - 1) : 0;
    }
}

TEST(bpr_matches_reference)   { EACH_OF(c, bpr_cases) check_forward("bpr_loss", c, bpr_reference, 2e-6); }
TEST(bpr_gradient_is_numeric) { EACH_OF(c, bpr_cases) check_gradient("bpr_loss", c, 1e-5, 1e-7); }

/* -- kldiv_loss ------------------------------------------------------------------------------------------------------ */

static const op_case kldiv_cases[] = {
    {"mean", {FLOATS(-5, 0, 3, 17), CONSTANTS(0, 1, 3, 17)}},
    {"sum, with zeros", {FLOATS(-5, 0, 2, 3), GIVEN(LIST(0, 0.5, 0.5, 1, 0, -1), 2, 3)}, {STRING_ATTR("reduction", "sum")}},
    {"mean by rows", {FLOATS(-5, 0, 3, 2, 2), CONSTANTS(0, 1, 3, 2, 2)}, {STRING_ATTR("reduction", "batchmean")}},
    {"each", {FLOATS(-5, 0, 4, 3), CONSTANTS(0, 1, 4, 3)}, {STRING_ATTR("reduction", "none")}},
    {"empty batch", {DIMS(0, 3), CONSTANTS(0, 1, 0, 3)}},
    {"each of an empty batch", {DIMS(0, 3), CONSTANTS(0, 1, 0, 3)}, {STRING_ATTR("reduction", "none")}},
};

static void kldiv_reference(op_values *v)
{
    const char  *how = v->c->attr[0].text ? v->c->attr[0].text : "mean";
    const double count = (double)v->in[0].count, rows = (double)v->in[0].dims[0];
    double       sum = 0;

    for (int64_t i = 0; i < v->in[0].count; i++) {
        const double t = v->in[1].data[i], loss = t > 0 ? t * (log(t) - v->in[0].data[i]) : 0;
        sum += loss;
        if (strcmp(how, "none") == 0)
            v->out[0].data[i] = loss;
    }
    if (strcmp(how, "none") != 0)
        v->out[0].data[0] = count > 0 ? sum / (strcmp(how, "mean") == 0 ? count : strcmp(how, "sum") == 0 ? 1 : rows) : 0;
}

TEST(kldiv_matches_reference)   { EACH_OF(c, kldiv_cases) check_forward("kldiv_loss", c, kldiv_reference, 2e-6); }
TEST(kldiv_gradient_is_numeric) { EACH_OF(c, kldiv_cases) check_gradient("kldiv_loss", c, 1e-5, 1e-7); }

/* -- cross_entropy2 ---------------------------------------------------------------------------------------------------- */

static const op_case entropy_cases[] = {
    {"ragged", {FLOATS(0.1, 1, 5, 7), INT64S(0, 7, 5, 1)}},
    {"more dimensions, flat labels", {FLOATS(0.1, 1, 2, 3, 4), INT64S(0, 4, 2, 3)}},
    {"some ignored",
     {FLOATS(0.1, 1, 4, 3), {SIZE(4, 1), TYPED(TR_INT64, 0, 3), .values = LIST(2, -1, 0, -1)}},
     {INT_ATTR("ignore_index", -1)}},
    {"empty batch", {DIMS(0, 4), INT64S(0, 4, 0, 1)}},
};

static void entropy_reference(op_values *v)
{
    const int64_t classes = v->in[0].dims[v->in[0].rank - 1];

    for (int64_t i = 0; i < v->out[0].count; i++) {
        const int64_t label = (int64_t)v->in[1].data[i];
        const double  match = label == (int64_t)op_case_number(v->c, "ignore_index", -100) ? 0 : v->in[0].data[i * classes + label];
        v->out[2].data[i] = match;
        v->out[0].data[i] = match > 0 ? -log(match) : 0;
    }
}

TEST(entropy_matches_reference)   { EACH_OF(c, entropy_cases) check_forward("cross_entropy2", c, entropy_reference, 1e-6); }
TEST(entropy_gradient_is_numeric) { EACH_OF(c, entropy_cases) check_gradient("cross_entropy2", c, 1e-6, 1e-7); }

/* -- mistakes ------------------------------------------------------------------------------------------------------------ */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Labels is [3, 2], but Logits is [3, 1]", infer_shapes("hinge_loss", {DIMS(3, 1), DIMS(3, 2)}));
    EXPECT_FAIL(TR_EDTYPE, "Labels must be float32", infer_shapes("hinge_loss", {DIMS(3, 1), INT64S(0, 2, 3, 1)}));
    EXPECT_FAIL(TR_ERANGE, "hinge_loss: the label of row 1 in 'x1' is -1; it must be 0 or 1",
                run_status("hinge_loss", {DIMS(2, 1), VALUES(LIST(1, -1), 2, 1)}));
    EXPECT_FAIL(TR_ERANGE, "modified_huber_loss: the label of row 0 in 'x1' is 2",
                run_status("modified_huber_loss", {DIMS(1, 1), VALUES(LIST(2), 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Label is [3, 2], but X is [3, 1]", infer_shapes("teacher_student_sigmoid_loss", {DIMS(3, 1), DIMS(3, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Right is [2, 1], but Left is [3, 1]", infer_shapes("rank_loss", {DIMS(3, 1), DIMS(3, 1), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Label is [2, 1], but X1 is [3, 1]", infer_shapes("margin_rank_loss", {DIMS(3, 1), DIMS(3, 1), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Label must be [3, 1]", infer_shapes("bpr_loss", {DIMS(3, 4), INT64S(0, 4, 3, 2)}));
    EXPECT_FAIL(TR_ERANGE, "bpr_loss: the label of row 1 in 'x1' is 4; it must be in [0, 4)",
                run_status("bpr_loss", {DIMS(2, 4), {SIZE(2, 1), TYPED(TR_INT64, 0, 4), .values = LIST(0, 4)}}));
    EXPECT_FAIL(TR_ERANGE, "reduction", infer_shapes("kldiv_loss", {DIMS(3, 4), DIMS(3, 4)}, {STRING_ATTR("reduction", "max")}));
    EXPECT_FAIL(TR_ESHAPE, "Target is [3, 5], but X is [3, 4]", infer_shapes("kldiv_loss", {DIMS(3, 4), DIMS(3, 5)}));
    EXPECT_FAIL(TR_ERANGE, "cross_entropy2: the label of row 0",
                run_status("cross_entropy2", {DIMS(1, 4), {SIZE(1, 1), TYPED(TR_INT64, 0, 4), .values = LIST(-5)}}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hinge_matches_reference),
        cmocka_unit_test(hinge_gradient_is_numeric),
        cmocka_unit_test(modified_huber_matches_reference),
        cmocka_unit_test(modified_huber_gradient_is_numeric),
        cmocka_unit_test(teacher_matches_reference),
        cmocka_unit_test(teacher_gradient_is_numeric),
        cmocka_unit_test(rank_matches_reference),
        cmocka_unit_test(rank_gradient_is_numeric),
        cmocka_unit_test(margin_matches_reference),
        cmocka_unit_test(margin_gradient_is_numeric),
        cmocka_unit_test(bpr_matches_reference),
        cmocka_unit_test(bpr_gradient_is_numeric),
        cmocka_unit_test(kldiv_matches_reference),
        cmocka_unit_test(kldiv_gradient_is_numeric),
        cmocka_unit_test(entropy_matches_reference),
        cmocka_unit_test(entropy_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
