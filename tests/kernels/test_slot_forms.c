/* test_slot_forms.c - the forms of slots (framework/operators/slot_form.h), by operators that have them. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

TEST(a_name_is_one_extent_in_all_slots)
{
    EXPECT_OK(infer_shapes("fsp", {DIMS(2, 3, 4, 5), DIMS(2, 7, 4, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [2, ?, 4, 5], got [2, 7, 5, 4]", infer_shapes("fsp", {DIMS(2, 3, 4, 5), DIMS(2, 7, 5, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "multiplex: X is [2, 3], but X[0] is [2, 4]; they must be alike",
                infer_shapes("multiplex", {INT32S(0, 1, 2), DIMS(2, 4), MORE(2, 3)}));
}

TEST(an_extent_that_is_not_known_fits_everything)
{
    EXPECT_OK(infer_shapes("fsp", {DIMS(-1, 3, 4, -1), DIMS(2, 7, -1, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [?, ?, 4, 5], got [2, 7, 5, 5]", infer_shapes("fsp", {DIMS(-1, 3, 4, 5), DIMS(2, 7, 5, 5)}));
}

TEST(a_multiple_is_checked_although_its_name_comes_later)
{
    EXPECT_OK(infer_shapes("lstm_unit", {DIMS(4, 12), DIMS(4, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "X must be [4, 12], got [4, 13]", infer_shapes("lstm_unit", {DIMS(4, 13), DIMS(4, 3)}));
}

TEST(one_of_two_forms_may_be_given)
{
    EXPECT_OK(infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2), DIMS(2)}));
    EXPECT_OK(infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2), DIMS(1, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 2], got [2, 1]", infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2), DIMS(2, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [1, 2], got [1, 1, 2]", infer_shapes("fc", {DIMS(3, 4), DIMS(4, 2), DIMS(1, 1, 2)}));
}

TEST(a_rank_is_exact_or_at_least_so_much)
{
    EXPECT_FAIL(TR_ESHAPE, "W must have rank 2, got [4]", infer_shapes("fc", {DIMS(3, 4), DIMS(4)}));
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 2 or more, got [4]", infer_shapes("group_norm", {DIMS(4)}, {INT_ATTR("groups", 2)}));
    EXPECT_OK(infer_shapes("group_norm", {DIMS(3, 4)}, {INT_ATTR("groups", 2)}));
    EXPECT_OK(infer_shapes("group_norm", {DIMS(3, 4, 5, 6, 7)}, {INT_ATTR("groups", 2)}));
}

TEST(one_element_may_have_any_shape)
{
    EXPECT_OK(infer_shapes("increment", {DIMS(1, 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "increment: X must hold one element, got [2]", infer_shapes("increment", {DIMS(2)}));
}

TEST(an_axis_lies_within_the_rank)
{
    EXPECT_OK(infer_shapes("cumsum", {DIMS(2, 3)}, {INT_ATTR("axis", -2)}));
    EXPECT_FAIL(TR_ERANGE, "cumsum: axis is -3; for a tensor of rank 2 it must be in [-2, 1]", infer_shapes("cumsum", {DIMS(2, 3)}, {INT_ATTR("axis", -3)}));
    EXPECT_FAIL(TR_ERANGE, "arg_max: axis is 2", infer_shapes("arg_max", {DIMS(2, 3)}, {LONG_ATTR("axis", 2)}));
}

TEST(a_type_is_the_kernel_s_or_the_slot_s_own)
{
    EXPECT_FAIL(TR_EDTYPE, "conv_shift: it computes with float32, so input Y must be float32, got int32",
                infer_shapes("conv_shift", {DIMS(2, 5), INT32S(0, 3, 2, 3)}));
    EXPECT_FAIL(TR_EDTYPE, "tree_conv: EdgeSet must be int32, got float32",
                infer_shapes("tree_conv", {DIMS(1, 3, 2), DIMS(1, 2, 2), DIMS(2, 3, 1, 1)}));
    EXPECT_OK(infer_shapes("scatter", {DIMS(5, 3), INT64S(0, 5, 2), DIMS(2, 3)}));
    EXPECT_OK(infer_shapes("scatter", {DIMS(5, 3), INT32S(0, 5, 2), DIMS(2, 3)}));
    EXPECT_FAIL(TR_EDTYPE, "Ids must be int64, got float32", infer_shapes("scatter", {DIMS(5, 3), DIMS(2), DIMS(2, 3)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_is_one_extent_in_all_slots),
        cmocka_unit_test(an_extent_that_is_not_known_fits_everything),
        cmocka_unit_test(a_multiple_is_checked_although_its_name_comes_later),
        cmocka_unit_test(one_of_two_forms_may_be_given),
        cmocka_unit_test(a_rank_is_exact_or_at_least_so_much),
        cmocka_unit_test(one_element_may_have_any_shape),
        cmocka_unit_test(an_axis_lies_within_the_rank),
        cmocka_unit_test(a_type_is_the_kernel_s_or_the_slot_s_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
