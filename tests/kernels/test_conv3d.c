/* test_conv3d.c - conv3d, the transposed convolutions, pool3d and the pools with an index, against loops over every element.
 *
 * The references take images for volumes of depth 1. */
#include "tests/support/op_check.h"

/* -- volumes ------------------------------------------------------------------------------------------ */

static int spatial_of(const op_array *a) { return a->rank - 2; }

/* Extent of spatial axis i of three; 1 of those that an image does not have. */
static int64_t extent(const op_array *a, int i)
{
    const int at = i - (3 - spatial_of(a));
    return at < 0 ? 1 : a->dims[at + 2];
}

/* Element i of a list that the case gives, for three axes. */
static int64_t number(const op_values *v, const char *name, int i, int64_t otherwise)
{
    const int at = i - (3 - spatial_of(&v->in[0]));

    for (int k = 0; at >= 0 && k < OP_MAX_ATTRS && v->c->attr[k].name; k++)
        if (strcmp(v->c->attr[k].name, name) == 0)
            return (int64_t)v->c->attr[k].list[at];
    return otherwise;
}

static int64_t index_of(const op_array *a, int64_t n, int64_t c, const int64_t *place)
{
    int64_t index = n * a->dims[1] + c;

    for (int i = 0; i < 3; i++)
        index = index * extent(a, i) + place[i];
    return index;
}

static bool is_inside(const op_array *a, const int64_t *place)
{
    bool inside = true;
    for (int i = 0; i < 3; i++)
        inside = inside && place[i] >= 0 && place[i] < extent(a, i);
    return inside;
}

#define EACH_PLACE(place, e0, e1, e2)                                   \
    for (int64_t place[3] = {0}; place[0] < (e0); place[0]++)           \
        for (place[1] = 0; place[1] < (e1); place[1]++)                 \
            for (place[2] = 0; place[2] < (e2); place[2]++)
#define EACH_PLACE_OF(place, a) EACH_PLACE(place, extent(a, 0), extent(a, 1), extent(a, 2))

/* -- convolution ------------------------------------------------------------------------------------ */

static const op_case conv_cases[] = {
    {"one element", {DIMS(1, 1, 1, 1, 1), DIMS(1, 1, 1, 1, 1)}},
    {"plain", {DIMS(2, 3, 4, 5, 6), DIMS(2, 3, 2, 3, 2)}, .out = {DIMS(2, 2, 3, 3, 5)}},
    {"padding and strides", {DIMS(1, 2, 4, 5, 3), DIMS(3, 2, 3, 2, 3)},
     {INTS_ATTR("paddings", 1, 0, 2), INTS_ATTR("strides", 2, 1, 3)}},
    {"dilations", {DIMS(1, 1, 5, 5, 6), DIMS(2, 1, 2, 2, 2)}, {INTS_ATTR("dilations", 2, 1, 3)}},
    {"groups", {DIMS(2, 4, 3, 3, 3), DIMS(6, 2, 2, 2, 2)}, {INT_ATTR("groups", 2)}},
    {"larger than the volume", {DIMS(2, 2, 3, 4, 2), DIMS(3, 2, 4, 2, 4)}, {INTS_ATTR("strides", 2, 2, 3)}, {DIMS(2, 3, 1, 2, 1)}},
    {"bias", {DIMS(2, 2, 3, 3, 3), DIMS(3, 2, 2, 2, 2), DIMS(3)}},
    {"empty batch", {DIMS(0, 2, 4, 4, 4), DIMS(3, 2, 3, 3, 3)}},
};

/* Where tap k of a window at `at` lies. */
static void tap(int64_t *to, const op_values *v, const int64_t *at, const int64_t *k)
{
    for (int i = 0; i < 3; i++)
        to[i] = at[i] * number(v, "strides", i, 1) - number(v, "paddings", i, 0) + k[i] * number(v, "dilations", i, 1);
}

/* The body runs for each product of the convolution that takes `image` to `result`: tap k of filter (o, c). */
#define EACH_PRODUCT(image, w, result, v)                                                                              \
    const int64_t groups = (int64_t)op_case_number((v)->c, "groups", 1);                                               \
    for (int64_t n = 0; n < (image)->dims[0]; n++)                                                                     \
        for (int64_t o = 0; o < (w)->dims[0]; o++)                                                                     \
            for (int64_t c = 0, at_c; c < (w)->dims[1]; c++)                                                           \
                EACH_PLACE_OF(y, result)                                                                               \
                    EACH_PLACE_OF(k, w)                                                                                \
                        for (int64_t x[3], once = (tap(x, v, y, k), at_c = o / ((w)->dims[0] / groups) * (w)->dims[1] + c, \
                                                   is_inside(image, x)); once; once = 0)

static void fill_with_bias(op_values *v)
{
    op_array     *out = &v->out[0];
    const int64_t pixels = extent(out, 0) * extent(out, 1) * extent(out, 2);

    for (int64_t i = 0; i < out->count; i++)
        out->data[i] = v->in_count > 2 ? v->in[2].data[i / pixels % out->dims[1]] : 0;
}

static void conv_reference(op_values *v)
{
    const op_array *image = &v->in[0], *w = &v->in[1];
    op_array       *out = &v->out[0];

    fill_with_bias(v);
    EACH_PRODUCT(image, w, out, v)
        out->data[index_of(out, n, o, y)] += image->data[index_of(image, n, at_c, x)] * w->data[index_of(w, o, c, k)];
}

TEST(conv3d_matches_reference)   { EACH_OF(c, conv_cases) check_forward("conv3d", c, conv_reference, 4e-6); }
TEST(conv3d_gradient_is_numeric) { EACH_OF(c, conv_cases) check_gradient("conv3d", c, 1e-4, 1e-7); }

TEST(conv3d_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Input must have rank 5", infer_shapes("conv3d", {DIMS(1, 3, 8, 8), DIMS(4, 3, 3, 3, 3)}));
    EXPECT_FAIL(TR_EINVAL, "strides must be three numbers of 1 or more: [depth, height, width]",
                infer_shapes("conv3d", {DIMS(1, 3, 4, 4, 4), DIMS(4, 3, 3, 3, 3)}, {INTS_ATTR("strides", 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "covers 5", infer_shapes("conv3d", {DIMS(1, 1, 4, 9, 9), DIMS(1, 1, 5, 9, 9)}));
    EXPECT_SHAPE("float32[?, 2, 3, ?, 5]", "conv3d", {DIMS(-1, 3, 4, -1, 6), DIMS(2, 3, 2, 3, 2)});
}

/* -- transposed convolution ------------------------------------------------------------------------------ */

static const op_case back_cases[] = {
    {"one pixel", {DIMS(1, 1, 1, 1), DIMS(1, 1, 1, 1)}},
    {"plain", {DIMS(2, 3, 4, 3), DIMS(3, 2, 3, 2)}, .out = {DIMS(2, 2, 6, 4)}},
    {"strides", {DIMS(2, 2, 3, 4), DIMS(2, 3, 3, 2)}, {INTS_ATTR("strides", 2, 3)}, {DIMS(2, 3, 7, 11)}},
    {"padding", {DIMS(1, 2, 4, 4), DIMS(2, 1, 3, 3)}, {INTS_ATTR("paddings", 1, 2)}, {DIMS(1, 1, 4, 2)}},
    {"output size", {DIMS(1, 2, 3, 3), DIMS(2, 2, 3, 3)},
     {INTS_ATTR("strides", 2, 3), INTS_ATTR("paddings", 1, 1), INTS_ATTR("output_size", 6, 9)}, {DIMS(1, 2, 6, 9)}},
    {"dilations", {DIMS(1, 1, 3, 4), DIMS(1, 2, 2, 3)}, {INTS_ATTR("dilations", 3, 2)}},
    {"groups", {DIMS(2, 4, 3, 3), DIMS(4, 3, 2, 2)}, {INT_ATTR("groups", 2)}, {DIMS(2, 6, 4, 4)}},
    {"depthwise", {DIMS(2, 3, 4, 4), DIMS(3, 1, 3, 3)}, {INT_ATTR("groups", 3), INTS_ATTR("strides", 2, 2)}},
    {"bias", {DIMS(2, 2, 3, 2), DIMS(2, 3, 2, 2), DIMS(3)}},
    {"empty batch", {DIMS(0, 2, 3, 3), DIMS(2, 3, 2, 2)}},
};

static const op_case back_cases_3d[] = {
    {"volume", {DIMS(2, 2, 2, 3, 2), DIMS(2, 3, 2, 2, 3)}, {INTS_ATTR("strides", 2, 1, 2), INTS_ATTR("paddings", 0, 1, 1)}},
    {"groups", {DIMS(1, 4, 2, 2, 2), DIMS(4, 1, 2, 1, 2)}, {INT_ATTR("groups", 2), INTS_ATTR("dilations", 1, 2, 2)}},
    {"output size", {DIMS(1, 1, 2, 2, 2), DIMS(1, 1, 2, 2, 2)},
     {INTS_ATTR("strides", 2, 2, 2), INTS_ATTR("output_size", 5, 4, 5)}, {DIMS(1, 1, 5, 4, 5)}},
    {"no volumes", {DIMS(0, 2, 2, 3, 2), DIMS(2, 3, 2, 2, 2)}, {}, {DIMS(0, 3, 3, 4, 3)}},
};

static void back_reference(op_values *v)
{
    const op_array *in = &v->in[0], *w = &v->in[1];
    op_array       *out = &v->out[0];

    fill_with_bias(v);
    EACH_PRODUCT(out, w, in, v)
        out->data[index_of(out, n, at_c, x)] += in->data[index_of(in, n, o, y)] * w->data[index_of(w, o, c, k)];
}

TEST(transposed_matches_reference)
{
    EACH_OF(c, back_cases) check_forward("conv2d_transpose", c, back_reference, 4e-6);
    EACH_OF(c, back_cases) check_forward("depthwise_conv2d_transpose", c, back_reference, 4e-6);
    EACH_OF(c, back_cases_3d) check_forward("conv3d_transpose", c, back_reference, 4e-6);
}

TEST(transposed_gradient_is_numeric)
{
    EACH_OF(c, back_cases) check_gradient("conv2d_transpose", c, 1e-4, 1e-7);
    check_gradient("depthwise_conv2d_transpose", &back_cases[7], 1e-4, 1e-7);
    EACH_OF(c, back_cases_3d) check_gradient("conv3d_transpose", c, 1e-4, 1e-7);
}

TEST(transposed_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "has 2 channels, but Filter [3, 2, 3, 3] is for 3",
                infer_shapes("conv2d_transpose", {DIMS(1, 2, 4, 4), DIMS(3, 2, 3, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "output_size[1] must be in [6, 8) for Input [1, 2, 3, 3], got 8",
                infer_shapes("conv2d_transpose", {DIMS(1, 2, 3, 3), DIMS(2, 2, 2, 2)},
                             {INTS_ATTR("strides", 2, 2), INTS_ATTR("output_size", 6, 8)}));
    EXPECT_FAIL(TR_ESHAPE, "padding 2 leaves nothing",
                infer_shapes("conv2d_transpose", {DIMS(1, 1, 1, 5), DIMS(1, 1, 3, 3)}, {INTS_ATTR("paddings", 2, 0)}));
    EXPECT_FAIL(TR_ESHAPE, "cannot be cut into 2 groups",
                infer_shapes("conv2d_transpose", {DIMS(1, 3, 4, 4), DIMS(3, 2, 3, 3)}, {INT_ATTR("groups", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [4]",
                infer_shapes("conv2d_transpose", {DIMS(1, 2, 4, 4), DIMS(2, 4, 3, 3), DIMS(2)}));
    EXPECT_FAIL(TR_ESHAPE, "conv3d_transpose: Input must have rank 5",
                infer_shapes("conv3d_transpose", {DIMS(1, 2, 3, 3), DIMS(2, 3, 2, 2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "depthwise_conv2d_transpose: Input [1, 3, 4, 4] has 3 channels, but Filter [2, 1, 3, 3] is for 2",
                infer_shapes("depthwise_conv2d_transpose", {DIMS(1, 3, 4, 4), DIMS(2, 1, 3, 3)}, {INT_ATTR("groups", 3)}));
    EXPECT_FAIL(TR_ESHAPE, "nothing to spread", infer_shapes("conv2d_transpose", {DIMS(1, 2, 0, 4), DIMS(2, 4, 3, 3)}));
    EXPECT_SHAPE("float32[?, 2, ?, 4]", "conv2d_transpose", {DIMS(-1, 3, -1, 3), DIMS(3, 2, 3, 2)});
}

/* -- pools ------------------------------------------------------------------------------------------------- */

#define MAX STRING_ATTR("pooling_type", "max")
#define AVG STRING_ATTR("pooling_type", "avg")

static const op_case pool_cases[] = {
    {"max", {DIMS(2, 2, 4, 6, 4)}, {INTS_ATTR("ksize", 2, 2, 2), INTS_ATTR("strides", 2, 2, 2), MAX}, {DIMS(2, 2, 2, 3, 2)}},
    {"overlapping", {DIMS(1, 2, 3, 4, 5)}, {INTS_ATTR("ksize", 2, 3, 2), AVG}},
    {"padded", {DIMS(1, 2, 3, 4, 3)}, {INTS_ATTR("ksize", 2, 3, 2), INTS_ATTR("paddings", 1, 1, 0), AVG}},
    {"padding that counts",
     {DIMS(1, 1, 3, 4, 3)},
     {INTS_ATTR("ksize", 2, 3, 2), INTS_ATTR("paddings", 1, 1, 1), BOOL_ATTR("exclusive", 0), AVG}},
    {"global", {DIMS(2, 3, 2, 3, 2)}, {INTS_ATTR("ksize", 1, 1, 1), BOOL_ATTR("global_pooling", 1), AVG}, {DIMS(2, 3, 1, 1, 1)}},
    {"adaptive max", {DIMS(1, 2, 5, 4, 3)}, {INTS_ATTR("ksize", 2, 3, 2), BOOL_ATTR("adaptive", 1), MAX}},
    {"adaptive average", {DIMS(1, 2, 5, 4, 3)}, {INTS_ATTR("ksize", 3, 2, 2), BOOL_ATTR("adaptive", 1), AVG}},
    {"empty batch", {DIMS(0, 2, 3, 3, 3)}, {INTS_ATTR("ksize", 2, 2, 2), MAX}},
    {"larger than the volume",
     {DIMS(1, 2, 3, 2, 4)},
     {INTS_ATTR("ksize", 4, 3, 2), INTS_ATTR("strides", 2, 2, 2), AVG},
     {DIMS(1, 2, 1, 1, 2)}},
    {"the largest of it", {DIMS(1, 2, 3, 2, 4)}, {INTS_ATTR("ksize", 4, 3, 5), INTS_ATTR("strides", 2, 2, 2), MAX}, {DIMS(1, 2, 1, 1, 1)}},
};

static const op_case index_cases[] = {
    {"plain", {DIMS(2, 3, 4, 6)}, {INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2)}, {DIMS(2, 3, 2, 3)}},
    {"overlapping, padded", {DIMS(1, 2, 5, 4)}, {INTS_ATTR("ksize", 3, 2), INTS_ATTR("paddings", 1, 1)}},
    {"global", {DIMS(2, 2, 3, 4)}, {INTS_ATTR("ksize", 1, 1), BOOL_ATTR("global_pooling", 1)}},
    {"adaptive", {DIMS(1, 2, 7, 5)}, {INTS_ATTR("ksize", 3, 2), BOOL_ATTR("adaptive", 1)}},
    {"all alike", {VALUES(((const double[]){1, 1, 1, 1, 1, 1, 1, 1, 1}), 1, 1, 3, 3)}, {INTS_ATTR("ksize", 2, 2)}},
    {"empty batch", {DIMS(0, 2, 4, 4)}, {INTS_ATTR("ksize", 2, 2)}},
    {"larger than the image", {DIMS(1, 2, 3, 2)}, {INTS_ATTR("ksize", 4, 5), INTS_ATTR("strides", 3, 4)}, {DIMS(1, 2, 1, 1)}},
};

static const op_case index_cases_3d[] = {
    {"volume", {DIMS(2, 2, 4, 3, 4)}, {INTS_ATTR("ksize", 2, 2, 2), INTS_ATTR("strides", 2, 1, 2)}},
    {"padded", {DIMS(1, 2, 3, 3, 2)}, {INTS_ATTR("ksize", 2, 3, 2), INTS_ATTR("paddings", 1, 1, 1)}},
    {"adaptive", {DIMS(1, 2, 3, 5, 4)}, {INTS_ATTR("ksize", 2, 2, 3), BOOL_ATTR("adaptive", 1)}},
    {"no volumes", {DIMS(0, 2, 4, 3, 4)}, {INTS_ATTR("ksize", 2, 2, 2)}, {DIMS(0, 2, 3, 2, 3)}},
};

static void window(int64_t *begin, int64_t *end, const op_values *v, const int64_t *o)
{
    for (int i = 0; i < 3; i++) {
        const int64_t in = extent(&v->in[0], i), out = extent(&v->out[0], i);
        begin[i] = o[i] * number(v, "strides", i, 1) - number(v, "paddings", i, 0);
        end[i] = begin[i] + number(v, "ksize", i, 1);
        if (op_case_number(v->c, "global_pooling", 0) != 0) {
            begin[i] = 0;
            end[i] = in;
        } else if (op_case_number(v->c, "adaptive", 0) != 0) {
            begin[i] = o[i] * in / out;
            end[i] = ((o[i] + 1) * in + out - 1) / out;
        }
    }
}

static bool is_average(const op_case *c)
{
    for (int k = 0; k < OP_MAX_ATTRS && c->attr[k].name; k++)
        if (c->attr[k].text && strcmp(c->attr[k].text, "avg") == 0)
            return true;
    return false;
}

static void pool_at(op_values *v, int64_t n, int64_t c, const int64_t *o)
{
    const op_array *x = &v->in[0];
    const int64_t   to = index_of(&v->out[0], n, c, o);
    int64_t         begin[3], end[3], inside = 0, place = 0;
    double          largest = -INFINITY, sum = 0;

    window(begin, end, v, o);
    EACH_PLACE(k, end[0] - begin[0], end[1] - begin[1], end[2] - begin[2]) {
        const int64_t at[3] = {begin[0] + k[0], begin[1] + k[1], begin[2] + k[2]};
        if (!is_inside(x, at))
            continue;
        const double value = x->data[index_of(x, n, c, at)];
        if (value > largest) {
            largest = value;
            place = (at[0] * extent(x, 1) + at[1]) * extent(x, 2) + at[2];
        }
        sum += value;
        inside++;
    }
    if (op_case_number(v->c, "exclusive", 1) == 0)
        inside = (end[0] - begin[0]) * (end[1] - begin[1]) * (end[2] - begin[2]);
    v->out[0].data[to] = is_average(v->c) ? sum / (double)inside : largest;
    if (v->out_count > 1)
        v->out[1].data[to] = (double)place;
}

static void pool_reference(op_values *v)
{
    for (int64_t n = 0; n < v->out[0].dims[0]; n++)
        for (int64_t c = 0; c < v->out[0].dims[1]; c++)
            EACH_PLACE_OF(o, &v->out[0])
                pool_at(v, n, c, o);
}

TEST(pools_match_reference)
{
    EACH_OF(c, pool_cases) check_forward("pool3d", c, pool_reference, 1e-6);
    EACH_OF(c, index_cases) check_forward("max_pool2d_with_index", c, pool_reference, 0);
    EACH_OF(c, index_cases_3d) check_forward("max_pool3d_with_index", c, pool_reference, 0);
}

TEST(pools_gradients_are_numeric)
{
    EACH_OF(c, pool_cases) check_gradient("pool3d", c, 1e-6, 1e-6);
    EACH_OF(c, index_cases) if (strcmp(c->name, "all alike") != 0) check_gradient("max_pool2d_with_index", c, 1e-6, 1e-6);
    EACH_OF(c, index_cases_3d) check_gradient("max_pool3d_with_index", c, 1e-6, 1e-6);
}

TEST(pool_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 5", infer_shapes("pool3d", {DIMS(1, 1, 4, 4)}, {MAX, INTS_ATTR("ksize", 2, 2, 2)}));
    EXPECT_FAIL(TR_EINVAL, "ksize must be three numbers",
                infer_shapes("pool3d", {DIMS(1, 1, 4, 4, 4)}, {MAX, INTS_ATTR("ksize", 2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "a plane must have 1 to",
                infer_shapes("max_pool2d_with_index", {DIMS(1, 1, 0, 4)}, {INTS_ATTR("ksize", 1, 1), BOOL_ATTR("adaptive", 1)}));
    EXPECT_FAIL(TR_EINVAL, "max_pool3d_with_index: padding 2 must be smaller",
                infer_shapes("max_pool3d_with_index", {DIMS(1, 1, 4, 4, 4)},
                             {INTS_ATTR("ksize", 2, 2, 2), INTS_ATTR("paddings", 2, 0, 0)}));
}

TEST(a_place_outside_the_plane_is_refused)
{
    EXPECT_FAIL(TR_ERANGE, "Mask has place 4; a plane of X [1, 1, 2, 2] has places 0 to 3",
                run_status("max_pool2d_with_index_grad",
                           {DIMS(1, 1, 2, 2), {SIZE(1, 1, 1, 1), .values = LIST(4), .is_typed = true, .dtype = TR_INT32},
                            DIMS(1, 1, 1, 1)}, {INTS_ATTR("ksize", 2, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv3d_matches_reference),      cmocka_unit_test(conv3d_gradient_is_numeric),
        cmocka_unit_test(conv3d_mistakes_are_explained), cmocka_unit_test(transposed_matches_reference),
        cmocka_unit_test(transposed_gradient_is_numeric), cmocka_unit_test(transposed_mistakes_are_explained),
        cmocka_unit_test(pools_match_reference),         cmocka_unit_test(pools_gradients_are_numeric),
        cmocka_unit_test(pool_mistakes_are_explained),   cmocka_unit_test(a_place_outside_the_plane_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
