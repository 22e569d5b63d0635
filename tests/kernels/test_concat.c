/* concat, split, stack, unstack, slice and expand: what moves elements without changing them. */
#include "tests/support/op_check.h"

/* [pre][n][post] around an axis. */
typedef struct cut {
    int64_t pre, n, post;
} cut;

static cut cut_at(const op_array *x, int axis)
{
    cut c = {1, 1, 1};

    axis = axis < 0 ? axis + x->rank : axis;
    for (int d = 0; d < x->rank; d++)
        *(d < axis ? &c.pre : d == axis ? &c.n : &c.post) *= x->dims[d];
    return c;
}

static int axis_of(const op_values *v) { return (int)op_case_number(v->c, "axis", 0); }

/* Element (i, j, k) of a cut array. */
static double *element(const op_array *x, cut c, int64_t i, int64_t j, int64_t k)
{
    return &x->data[(i * c.n + j) * c.post + k];
}

/* Copy part `part` to the places of `whole` from `offset` on, or back. */
static void copy_part(const op_array *whole, const op_array *part, int64_t offset, int axis, bool to_whole)
{
    const cut w = cut_at(whole, axis), p = cut_at(part, axis);

    for (int64_t i = 0; i < p.pre; i++)
        for (int64_t j = 0; j < p.n; j++)
            for (int64_t k = 0; k < p.post; k++) {
                double *inside = element(whole, w, i, offset + j, k), *own = element(part, p, i, j, k);
                *(to_whole ? inside : own) = *(to_whole ? own : inside);
            }
}

/* -- concat ------------------------------------------------------------------------------------------------ */

static const op_case concat_cases[] = {
    {"rows", {DIMS(2, 3), MORE(4, 3)}, .out = {DIMS(6, 3)}},
    {"columns", {DIMS(2, 3), MORE(2, 1), MORE(2, 4)}, {INT_ATTR("axis", 1)}, {DIMS(2, 8)}},
    {"last axis", {DIMS(2, 2, 3), MORE(2, 2, 5)}, {INT_ATTR("axis", -1)}, {DIMS(2, 2, 8)}},
    {"middle axis", {DIMS(2, 2, 3), MORE(2, 1, 3)}, {INT_ATTR("axis", 1)}},
    {"one alone", {DIMS(2, 3)}},
    {"an empty one", {DIMS(2, 3), MORE(2, 0), MORE(2, 2)}, {INT_ATTR("axis", 1)}},
    {"whole numbers", {INT64S(-5, 5, 2, 2), {SIZE(1, 2), TYPED(TR_INT64, 0, 9), .is_more = true}}},
    {"sequences stay", {SEQUENCES(OFFSETS(0, 1, 3), 3, 2), MORE(3, 2)}, {INT_ATTR("axis", 1)},
     {SEQUENCES(OFFSETS(0, 1, 3), 3, 4)}},
};

static void concat_reference(op_values *v)
{
    int64_t offset = 0;

    for (int i = 0; i < v->in_count; i++) {
        copy_part(&v->out[0], &v->in[i], offset, axis_of(v), true);
        offset += cut_at(&v->in[i], axis_of(v)).n;
    }
}

static bool is_float(const op_case *c) { return !c->in[0].is_typed; }

TEST(concat_matches_reference) { EACH_OF(c, concat_cases) check_forward("concat", c, concat_reference, 0); }

TEST(concat_gradient_is_numeric)
{
    EACH_OF(c, concat_cases)
        if (is_float(c))
            check_gradient("concat", c, 1e-4, 1e-7);
}

/* -- split --------------------------------------------------------------------------------------------------- */

static const op_case split_cases[] = {
    {"halves", {DIMS(4, 3)}, {INT_ATTR("num", 2)}, {DIMS(2, 3), DIMS(2, 3)}, {2}},
    {"sections", {DIMS(2, 7)}, {INT_ATTR("axis", 1), INTS_ATTR("sections", 1, 4, 2)},
     {DIMS(2, 1), DIMS(2, 4), DIMS(2, 2)}, {3}},
    {"last axis", {DIMS(2, 2, 6)}, {INT_ATTR("axis", -1), INT_ATTR("num", 3)}, .out_count = {3}},
    {"whole numbers", {INT64S(-5, 5, 4)}, {INT_ATTR("num", 2)}, .out_count = {2}},
};

static void split_reference(op_values *v)
{
    int64_t offset = 0;

    for (int i = 0; i < v->out_count; i++) {
        copy_part(&v->in[0], &v->out[i], offset, axis_of(v), false);
        offset += cut_at(&v->out[i], axis_of(v)).n;
    }
}

TEST(split_matches_reference) { EACH_OF(c, split_cases) check_forward("split", c, split_reference, 0); }

TEST(split_gradient_is_numeric)
{
    EACH_OF(c, split_cases)
        if (is_float(c))
            check_gradient("split", c, 1e-4, 1e-7);
}

/* -- stack and unstack ---------------------------------------------------------------------------------------- */

static const op_case stack_cases[] = {
    {"in front", {DIMS(3, 4), MORE(3, 4)}, .out = {DIMS(2, 3, 4)}},
    {"at the end", {DIMS(3, 4), MORE(3, 4), MORE(3, 4)}, {INT_ATTR("axis", -1)}, {DIMS(3, 4, 3)}},
    {"in the middle", {DIMS(3, 4), MORE(3, 4)}, {INT_ATTR("axis", 1)}, {DIMS(3, 2, 4)}},
    {"empty", {DIMS(0, 4), MORE(0, 4)}, {INT_ATTR("axis", 1)}, {DIMS(0, 2, 4)}},
};
static const op_case unstack_cases[] = {
    {"in front", {DIMS(2, 3, 4)}, {INT_ATTR("num", 2)}, {DIMS(3, 4), DIMS(3, 4)}, {2}},
    {"at the end", {DIMS(2, 3)}, {INT_ATTR("num", 3), INT_ATTR("axis", -1)}, {DIMS(2), DIMS(2), DIMS(2)}, {3}},
};

/* Slice i of the whole along the new axis. */
static void copy_slice(const op_array *whole, const op_array *slice, int64_t i, int axis, bool to_whole)
{
    const cut c = cut_at(whole, axis);

    for (int64_t p = 0; p < c.pre; p++)
        for (int64_t k = 0; k < c.post; k++) {
            double *inside = element(whole, c, p, i, k), *own = &slice->data[p * c.post + k];
            *(to_whole ? inside : own) = *(to_whole ? own : inside);
        }
}

static void stack_reference(op_values *v)
{
    for (int i = 0; i < v->in_count; i++)
        copy_slice(&v->out[0], &v->in[i], i, axis_of(v), true);
}

static void unstack_reference(op_values *v)
{
    for (int i = 0; i < v->out_count; i++)
        copy_slice(&v->in[0], &v->out[i], i, axis_of(v), false);
}

TEST(stack_and_its_gradient)
{
    EACH_OF(c, stack_cases) check_forward("stack", c, stack_reference, 0);
    EACH_OF(c, stack_cases) check_gradient("stack", c, 1e-4, 1e-7);
}

TEST(unstack_and_its_gradient)
{
    EACH_OF(c, unstack_cases) check_forward("unstack", c, unstack_reference, 0);
    EACH_OF(c, unstack_cases) check_gradient("unstack", c, 1e-4, 1e-7);
}

/* -- slice ------------------------------------------------------------------------------------------------------ */

#define SLICE(axes, starts, ends) {LIST_ATTR("axes", TR_ATTR_INTS, axes), LIST_ATTR("starts", TR_ATTR_INTS, starts), \
                                   LIST_ATTR("ends", TR_ATTR_INTS, ends)}
#define AND ,

static const op_case slice_cases[] = {
    {"rows", {DIMS(5, 3)}, SLICE(0, 1, 4), {DIMS(3, 3)}},
    {"columns", {DIMS(5, 4)}, SLICE(1, 1, 3), {DIMS(5, 2)}},
    {"from the end", {DIMS(5, 4)}, SLICE(0 AND 1, -3 AND -2, -1 AND 9), {DIMS(2, 2)}},
    {"middle", {DIMS(2, 5, 3)}, SLICE(-2, 0, 2), {DIMS(2, 2, 3)}},
    {"whole numbers", {INT64S(-9, 9, 6)}, SLICE(0, 2, 5), {DIMS(3)}},
    {"nothing", {DIMS(5, 3)}, SLICE(0, 4, 2), {DIMS(0, 3)}},
};

static int64_t slice_start(const op_values *v, int axis)
{
    const op_array *x = &v->in[0];

    for (int i = 0; i < v->c->attr[0].count; i++) {
        const int at = (int)v->c->attr[0].list[i];
        const int64_t start = (int64_t)v->c->attr[1].list[i];
        if ((at < 0 ? at + x->rank : at) == axis)
            return start < 0 ? start + x->dims[axis] : start;
    }
    return 0;
}

static void slice_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    op_array       *out = &v->out[0];

    for (int64_t k = 0; k < out->count; k++) {
        int64_t from = 0, stride = 1, rest = k;
        for (int d = out->rank - 1; d >= 0; d--) {
            from += (slice_start(v, d) + rest % out->dims[d]) * stride;
            stride *= x->dims[d];
            rest /= out->dims[d];
        }
        out->data[k] = x->data[from];
    }
}

TEST(slice_matches_reference) { EACH_OF(c, slice_cases) check_forward("slice", c, slice_reference, 0); }

TEST(slice_gradient_is_numeric)
{
    EACH_OF(c, slice_cases)
        if (is_float(c))
            check_gradient("slice", c, 1e-4, 1e-7);
}

/* -- expand -------------------------------------------------------------------------------------------------------- */

static const op_case expand_cases[] = {
    {"rows", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 3, 1)}, {DIMS(6, 3)}},
    {"columns", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 1, 2)}, {DIMS(2, 6)}},
    {"both", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 2, 3)}, {DIMS(4, 9)}},
    {"three", {DIMS(2, 1, 3)}, {INTS_ATTR("expand_times", 2, 4, 2)}, {DIMS(4, 4, 6)}},
    {"not at all", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 1, 1)}, {DIMS(2, 3)}},
    {"whole numbers", {INT32S(0, 9, 3)}, {INTS_ATTR("expand_times", 2)}, {DIMS(6)}},
    {"empty", {DIMS(0, 3)}, {INTS_ATTR("expand_times", 2, 2)}, {DIMS(0, 6)}},
};

static void expand_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    op_array       *out = &v->out[0];

    for (int64_t k = 0; k < out->count; k++) {
        int64_t from = 0, stride = 1, rest = k;
        for (int d = out->rank - 1; d >= 0; d--) {
            from += rest % out->dims[d] % x->dims[d] * stride;
            stride *= x->dims[d];
            rest /= out->dims[d];
        }
        out->data[k] = x->data[from];
    }
}

TEST(expand_matches_reference) { EACH_OF(c, expand_cases) check_forward("expand", c, expand_reference, 0); }

TEST(expand_gradient_is_numeric)
{
    EACH_OF(c, expand_cases)
        if (is_float(c))
            check_gradient("expand", c, 1e-4, 1e-7);
}

/* -- mistakes --------------------------------------------------------------------------------------------------------- */

TEST(mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "X[1] is [2, 4] and X[0] [2, 3]", infer_shapes("concat", {DIMS(2, 3), MORE(2, 4)}));
    EXPECT_FAIL(TR_EDTYPE, "X must be float32",
                infer_shapes("concat", {DIMS(2, 3), {SIZE(2, 3), TYPED(TR_INT64, 0, 1), .is_more = true}}));
    EXPECT_FAIL(TR_EINVAL, "either sections or num", infer_shapes("split", {DIMS(4)}));
    EXPECT_FAIL(TR_ESHAPE, "cannot be cut into 3", op_infer("split", &(op_case){"", {DIMS(4)}, {INT_ATTR("num", 3)}, .out_count = {3}}));
    EXPECT_FAIL(TR_ESHAPE, "the sections sum up to 3",
                op_infer("split", &(op_case){"", {DIMS(4)}, {INTS_ATTR("sections", 1, 2)}, .out_count = {2}}));
    EXPECT_FAIL(TR_EINVAL, "num names 2 parts, but Out has 1", infer_shapes("split", {DIMS(4)}, {INT_ATTR("num", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "must be alike", infer_shapes("stack", {DIMS(2, 3), MORE(3, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "the three must agree", infer_shapes("unstack", {DIMS(2, 3)}, {INT_ATTR("num", 2)}));
    EXPECT_FAIL(TR_EINVAL, "equally long", infer_shapes("slice", {DIMS(4)}, SLICE(0, 1, 2 AND 3)));
    EXPECT_FAIL(TR_ERANGE, "axes is 1", infer_shapes("slice", {DIMS(4)}, SLICE(1, 1, 2)));
    EXPECT_FAIL(TR_ESHAPE, "expand_times has 1 elements, but X is [2, 3]",
                infer_shapes("expand", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 2)}));
    EXPECT_FAIL(TR_ERANGE, "expand_times[1] is 0", infer_shapes("expand", {DIMS(2, 3)}, {INTS_ATTR("expand_times", 2, 0)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(concat_matches_reference),
        cmocka_unit_test(concat_gradient_is_numeric),
        cmocka_unit_test(split_matches_reference),
        cmocka_unit_test(split_gradient_is_numeric),
        cmocka_unit_test(stack_and_its_gradient),
        cmocka_unit_test(unstack_and_its_gradient),
        cmocka_unit_test(slice_matches_reference),
        cmocka_unit_test(slice_gradient_is_numeric),
        cmocka_unit_test(expand_matches_reference),
        cmocka_unit_test(expand_gradient_is_numeric),
        cmocka_unit_test(mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
