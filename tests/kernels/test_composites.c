/* test_composites.c - label_smooth, affine_channel: against references, and against the operators they are made of. */
#include "tests/support/op_check.h"

static const op_case smooth_cases[] = {
    {"no prior", {DIMS(3, 4)}, {FLOAT_ATTR("epsilon", 0.25)}},
    {"prior", {DIMS(3, 4), DIMS(1, 4)}, {FLOAT_ATTR("epsilon", 0.5)}},
    {"a prior for each label", {DIMS(3, 4), DIMS(3, 4)}, {FLOAT_ATTR("epsilon", 0.5)}},
    {"flat prior", {DIMS(2, 3, 5), DIMS(5)}, {FLOAT_ATTR("epsilon", 0.125)}},
    {"one class", {DIMS(2, 1)}, {FLOAT_ATTR("epsilon", 0.5)}},
    {"no rows", {DIMS(0, 4)}, {FLOAT_ATTR("epsilon", 0.5)}},
};

static void smooth_reference(op_values *v)
{
    const op_array *x = &v->in[0], *prior = &v->in[1];
    const double    epsilon = op_case_number(v->c, "epsilon", 0);
    const int64_t   classes = x->dims[x->rank - 1];

    for (int64_t i = 0; i < x->count; i++)
        v->out[0].data[i] = (1 - epsilon) * x->data[i] +
                            epsilon * (v->in_count > 1 ? prior->data[i % prior->count] : 1.0 / (double)classes);
}

TEST(smooth_matches_reference)   { EACH_OF(c, smooth_cases) check_forward("label_smooth", c, smooth_reference, 1e-6); }
TEST(smooth_gradient_is_numeric) { EACH_OF(c, smooth_cases) check_gradient("label_smooth", c, 1e-4, 1e-7); }
TEST(smooth_is_its_parts)        { EACH_OF(c, smooth_cases) check_expansion("label_smooth", c); }

TEST(smooth_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "PriorDist must be [4], got [1, 3]", infer_shapes("label_smooth", {DIMS(3, 4), DIMS(1, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "PriorDist must be [4], got [3]", infer_shapes("label_smooth", {DIMS(3, 4), DIMS(3)}));
    EXPECT_FAIL(TR_ERANGE, "epsilon", infer_shapes("label_smooth", {DIMS(3, 4)}, {FLOAT_ATTR("epsilon", 1.5)}));
}

static const op_case affine_cases[] = {
    {"image", {DIMS(2, 3, 2, 2), DIMS(3), DIMS(3)}},
    {"channels last", {DIMS(2, 3, 2, 5), DIMS(5), DIMS(5)}, {STRING_ATTR("data_layout", "NHWC")}},
    {"matrix", {DIMS(4, 3), DIMS(3), DIMS(3)}},
    {"no images", {DIMS(0, 3, 2, 2), DIMS(3), DIMS(3)}},
};

static void affine_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const bool      is_last = v->c->attr[0].name != NULL;
    int64_t         inner = 1;

    for (int d = 2; d < x->rank && !is_last; d++)
        inner *= x->dims[d];
    for (int64_t i = 0; i < x->count; i++) {
        const int64_t channel = i / inner % v->in[1].count;
        v->out[0].data[i] = x->data[i] * v->in[1].data[channel] + v->in[2].data[channel];
    }
}

TEST(affine_matches_reference)   { EACH_OF(c, affine_cases) check_forward("affine_channel", c, affine_reference, 1e-6); }
TEST(affine_gradient_is_numeric) { EACH_OF(c, affine_cases) check_gradient("affine_channel", c, 1e-4, 1e-7); }
TEST(affine_is_its_parts)        { EACH_OF(c, affine_cases) check_expansion("affine_channel", c); }

TEST(affine_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Scale must be [3], got [2]", infer_shapes("affine_channel", {DIMS(1, 3, 2, 2), DIMS(2), DIMS(3)}));
    EXPECT_FAIL(TR_ESHAPE, "rank 4 or 2", infer_shapes("affine_channel", {DIMS(1, 3, 2), DIMS(3), DIMS(3)}));
    EXPECT_FAIL(TR_ERANGE, "data_layout", infer_shapes("affine_channel", {DIMS(1, 3, 2, 2), DIMS(3), DIMS(3)},
                                                       {STRING_ATTR("data_layout", "CHWN")}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(smooth_matches_reference), cmocka_unit_test(smooth_gradient_is_numeric),
        cmocka_unit_test(smooth_is_its_parts),      cmocka_unit_test(smooth_mistakes_are_explained),
        cmocka_unit_test(affine_matches_reference), cmocka_unit_test(affine_gradient_is_numeric),
        cmocka_unit_test(affine_is_its_parts),      cmocka_unit_test(affine_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
