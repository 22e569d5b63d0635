/* conv2d, depthwise_conv2d and pool2d against loops over every element of every window. */
#include "tests/support/op_check.h"

/* A pair that the case gives an attribute: element i, or `otherwise`. */
static int64_t pair(const op_case *c, const char *name, int i, int64_t otherwise)
{
    for (int k = 0; k < OP_MAX_ATTRS && c->attr[k].name; k++)
        if (strcmp(c->attr[k].name, name) == 0)
            return (int64_t)c->attr[k].list[i];
    return otherwise;
}

static double at(const op_array *a, int64_t n, int64_t c, int64_t y, int64_t x)
{
    if (y < 0 || x < 0 || y >= a->dims[2] || x >= a->dims[3])
        return 0;
    return a->data[((n * a->dims[1] + c) * a->dims[2] + y) * a->dims[3] + x];
}

/* -- convolution ------------------------------------------------------------------------------------ */

static const op_case conv_cases[] = {
    {"one pixel", {DIMS(1, 1, 1, 1), DIMS(1, 1, 1, 1)}},
    {"plain", {DIMS(2, 3, 7, 6), DIMS(4, 3, 3, 2)}},
    {"1x1", {DIMS(2, 5, 4, 3), DIMS(3, 5, 1, 1)}},
    {"padding", {DIMS(1, 2, 4, 5), DIMS(3, 2, 3, 3)}, {INTS_ATTR("paddings", 1, 2)}, {DIMS(1, 3, 4, 7)}},
    {"strides", {DIMS(2, 2, 7, 9), DIMS(2, 2, 3, 3)}, {INTS_ATTR("strides", 2, 3), INTS_ATTR("paddings", 1, 0)},
     {DIMS(2, 2, 4, 3)}},
    {"1x1 with strides", {DIMS(1, 3, 5, 5), DIMS(2, 3, 1, 1)}, {INTS_ATTR("strides", 2, 2)}},
    {"dilations", {DIMS(1, 2, 8, 9), DIMS(2, 2, 3, 2)}, {INTS_ATTR("dilations", 2, 3), INTS_ATTR("paddings", 1, 1)}},
    {"groups", {DIMS(2, 4, 5, 5), DIMS(6, 2, 3, 3)}, {INT_ATTR("groups", 2)}},
    {"depthwise", {DIMS(2, 3, 5, 6), DIMS(6, 1, 3, 3)}, {INT_ATTR("groups", 3), INTS_ATTR("paddings", 1, 1)}},
    {"bias", {DIMS(2, 2, 4, 4), DIMS(3, 2, 3, 3), DIMS(3)}},
    {"many images", {DIMS(9, 1, 6, 6), DIMS(2, 1, 5, 5)}},
    {"empty batch", {DIMS(0, 2, 4, 4), DIMS(3, 2, 3, 3)}},
    {"a window larger than the image", {DIMS(2, 2, 6, 6), DIMS(3, 2, 7, 7)}, {INTS_ATTR("strides", 2, 2)}, {DIMS(2, 3, 1, 1)}},
    {"larger along one axis", {DIMS(1, 2, 3, 9), DIMS(3, 2, 5, 2), DIMS(3)}, {INTS_ATTR("strides", 3, 2)}, {DIMS(1, 3, 1, 4)}},
    {"larger with padding and dilations", {DIMS(1, 1, 2, 2), DIMS(2, 1, 3, 2)},
     {INTS_ATTR("strides", 4, 4), INTS_ATTR("paddings", 1, 1), INTS_ATTR("dilations", 3, 5)}, {DIMS(1, 2, 1, 1)}},
};

static const op_case larger_depthwise = {"larger, each channel for itself", {DIMS(2, 3, 2, 8), DIMS(6, 1, 3, 3)},
                                         {INT_ATTR("groups", 3), INTS_ATTR("strides", 2, 2)}, {DIMS(2, 6, 1, 3)}};

static double conv_at(const op_values *v, int64_t n, int64_t o, int64_t y, int64_t x)
{
    const op_array *image = &v->in[0], *w = &v->in[1];
    const int64_t   groups = (int64_t)op_case_number(v->c, "groups", 1), first = o / (w->dims[0] / groups) * w->dims[1];
    double          sum = v->in_count > 2 ? v->in[2].data[o] : 0;

    for (int64_t c = 0; c < w->dims[1]; c++)
        for (int64_t i = 0; i < w->dims[2]; i++)
            for (int64_t j = 0; j < w->dims[3]; j++)
                sum += at(w, o, c, i, j) *
                       at(image, n, first + c,
                          y * pair(v->c, "strides", 0, 1) - pair(v->c, "paddings", 0, 0) + i * pair(v->c, "dilations", 0, 1),
                          x * pair(v->c, "strides", 1, 1) - pair(v->c, "paddings", 1, 0) + j * pair(v->c, "dilations", 1, 1));
    return sum;
}

static void conv_reference(op_values *v)
{
    op_array *out = &v->out[0];

    for (int64_t k = 0; k < out->count; k++) {
        const int64_t x = k % out->dims[3], y = k / out->dims[3] % out->dims[2];
        const int64_t o = k / (out->dims[3] * out->dims[2]) % out->dims[1];
        out->data[k] = conv_at(v, k / (out->dims[3] * out->dims[2] * out->dims[1]), o, y, x);
    }
}

TEST(conv_matches_reference)
{
    EACH_OF(c, conv_cases) check_forward("conv2d", c, conv_reference, 4e-6);
    EACH_OF(c, conv_cases) check_forward("depthwise_conv2d", c, conv_reference, 4e-6);
    check_forward("depthwise_conv2d", &larger_depthwise, conv_reference, 4e-6);
}

TEST(conv_gradient_is_numeric)
{
    EACH_OF(c, conv_cases) check_gradient("conv2d", c, 1e-4, 1e-7);
    check_gradient("depthwise_conv2d", &conv_cases[8], 1e-4, 1e-7);
    check_gradient("depthwise_conv2d", &larger_depthwise, 1e-4, 1e-7);
}

/* A batch and a plane large enough that threads share the work. */
TEST(conv_of_many_images_is_the_same_on_any_number_of_threads)
{
    const op_case c = {"large", {DIMS(24, 6, 20, 20), DIMS(10, 6, 5, 5)}};

    check_forward("conv2d", &c, conv_reference, 2e-5);
}

TEST(conv_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "has 3 channels, but Filter [4, 2, 3, 3] with groups 1 is for 2",
                infer_shapes("conv2d", {DIMS(1, 3, 8, 8), DIMS(4, 2, 3, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "cannot be cut into 2 groups",
                infer_shapes("conv2d", {DIMS(1, 4, 8, 8), DIMS(3, 2, 3, 3)}, {INT_ATTR("groups", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "Input must have rank 4, got [3, 8]", infer_shapes("conv2d", {DIMS(3, 8), DIMS(4, 3, 3, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "covers 9, more than Input [1, 1, 4, 9] with padding 0 has along dimension 2, by a stride (1) or more", infer_shapes("conv2d", {DIMS(1, 1, 4, 9), DIMS(1, 1, 9, 9)}));
    EXPECT_FAIL(TR_ESHAPE, "Bias must be [4]", infer_shapes("conv2d", {DIMS(1, 3, 8, 8), DIMS(4, 3, 3, 3), DIMS(3)}));
    EXPECT_FAIL(TR_EINVAL, "strides must be two numbers",
                infer_shapes("conv2d", {DIMS(1, 3, 8, 8), DIMS(4, 3, 3, 3)}, {INTS_ATTR("strides", 1)}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "fuse_",
                infer_shapes("conv2d", {DIMS(1, 3, 8, 8), DIMS(4, 3, 3, 3)}, {BOOL_ATTR("fuse_relu", 1)}));
}

TEST(conv_shape_of_unknown_batch)
{
    EXPECT_SHAPE("float32[?, 20, 24, 24]", "conv2d", {DIMS(-1, 1, 28, 28), DIMS(20, 1, 5, 5)});
}

/* -- pooling ------------------------------------------------------------------------------------------- */

#define MAX STRING_ATTR("pooling_type", "max")
#define AVG STRING_ATTR("pooling_type", "avg")

static const op_case pool_cases[] = {
    {"max", {DIMS(2, 3, 6, 8)}, {MAX, INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2)}, {DIMS(2, 3, 3, 4)}},
    {"average", {DIMS(2, 3, 6, 8)}, {AVG, INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2)}},
    {"overlapping", {DIMS(1, 2, 7, 5)}, {MAX, INTS_ATTR("ksize", 3, 2)}},
    {"ragged, rounded down", {DIMS(1, 1, 7, 8)}, {MAX, INTS_ATTR("ksize", 2, 3), INTS_ATTR("strides", 2, 3)},
     {DIMS(1, 1, 3, 2)}},
    {"ragged, rounded up", {DIMS(1, 1, 7, 8)},
     {MAX, INTS_ATTR("ksize", 2, 3), INTS_ATTR("strides", 2, 3), BOOL_ATTR("ceil_mode", 1)}, {DIMS(1, 1, 4, 3)}},
    {"average, rounded up", {DIMS(1, 1, 7, 8)},
     {AVG, INTS_ATTR("ksize", 2, 3), INTS_ATTR("strides", 2, 3), BOOL_ATTR("ceil_mode", 1)}},
    {"padded max", {FLOATS(-2, -1, 1, 2, 4, 4)}, {MAX, INTS_ATTR("ksize", 3, 3), INTS_ATTR("paddings", 1, 1)}},
    {"padded average", {DIMS(1, 2, 4, 4)}, {AVG, INTS_ATTR("ksize", 3, 3), INTS_ATTR("paddings", 1, 1)}},
    {"average that counts padding", {DIMS(1, 2, 4, 4)},
     {AVG, INTS_ATTR("ksize", 3, 3), INTS_ATTR("paddings", 1, 1), BOOL_ATTR("exclusive", 0)}},
    {"global max", {DIMS(2, 3, 5, 4)}, {MAX, INTS_ATTR("ksize", 1, 1), BOOL_ATTR("global_pooling", 1)},
     {DIMS(2, 3, 1, 1)}},
    {"global average", {DIMS(2, 3, 5, 4)},
     {AVG, INTS_ATTR("ksize", 2, 2), INTS_ATTR("paddings", 1, 1), BOOL_ATTR("global_pooling", 1)}},
    {"adaptive max", {DIMS(1, 2, 7, 5)}, {MAX, INTS_ATTR("ksize", 3, 2), BOOL_ATTR("adaptive", 1)}, {DIMS(1, 2, 3, 2)}},
    {"adaptive average", {DIMS(1, 2, 7, 5)}, {AVG, INTS_ATTR("ksize", 3, 2), BOOL_ATTR("adaptive", 1)}},
    {"empty batch", {DIMS(0, 2, 4, 4)}, {MAX, INTS_ATTR("ksize", 2, 2)}},
    {"a window larger than the image", {DIMS(2, 1, 6, 6)}, {AVG, INTS_ATTR("ksize", 7, 7), INTS_ATTR("strides", 7, 7)}, {DIMS(2, 1, 1, 1)}},
    {"the largest of it", {DIMS(2, 1, 6, 6)}, {MAX, INTS_ATTR("ksize", 7, 7), INTS_ATTR("strides", 7, 7)}, {DIMS(2, 1, 1, 1)}},
    {"all of it counts", {DIMS(2, 1, 6, 6)}, {AVG, INTS_ATTR("ksize", 7, 7), INTS_ATTR("strides", 7, 7), BOOL_ATTR("exclusive", 0)}},
    {"larger along one axis", {DIMS(1, 2, 3, 9)}, {AVG, INTS_ATTR("ksize", 4, 2), INTS_ATTR("strides", 3, 2)}, {DIMS(1, 2, 1, 4)}},
    {"larger with padding", {DIMS(1, 2, 2, 2)}, {MAX, INTS_ATTR("ksize", 5, 6), INTS_ATTR("strides", 3, 4), INTS_ATTR("paddings", 1, 1)}},
    {"larger, rounded up", {DIMS(1, 2, 2, 3)}, {AVG, INTS_ATTR("ksize", 4, 4), INTS_ATTR("strides", 3, 3), BOOL_ATTR("ceil_mode", 1)}, {DIMS(1, 2, 1, 1)}},
    {"counts padding, rounded up", {DIMS(1, 1, 3, 3)},
     {AVG, INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2), INTS_ATTR("paddings", 1, 0), BOOL_ATTR("exclusive", 0), BOOL_ATTR("ceil_mode", 1)}},
    {"padding alone", {DIMS(1, 2, 2, 2)},
     {AVG, INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 3, 3), INTS_ATTR("paddings", 1, 1), BOOL_ATTR("ceil_mode", 1)}, {DIMS(1, 2, 2, 2)}},
};

/* The places [begin, end) of window o along one axis, padding included. */
static void window(int64_t *begin, int64_t *end, const op_values *v, int i, int64_t o)
{
    const op_case *c = v->c;
    const int64_t  in = v->in[0].dims[i + 2], out = v->out[0].dims[i + 2];

    *begin = o * pair(c, "strides", i, 1) - pair(c, "paddings", i, 0);
    *end = *begin + pair(c, "ksize", i, 1);
    if (op_case_number(c, "global_pooling", 0) != 0) {
        *begin = 0;
        *end = in;
    } else if (op_case_number(c, "adaptive", 0) != 0) {
        *begin = o * in / out;
        *end = ((o + 1) * in + out - 1) / out;
    }
}

static double pool_at(const op_values *v, int64_t n, int64_t c, int64_t oy, int64_t ox)
{
    const op_array *x = &v->in[0];
    const bool      is_max = strcmp(v->c->attr[0].text, "max") == 0;
    int64_t         y0, y1, x0, x1, inside = 0;
    double          largest = -INFINITY, sum = 0;

    window(&y0, &y1, v, 0, oy);
    window(&x0, &x1, v, 1, ox);
    for (int64_t i = y0; i < y1; i++)
        for (int64_t j = x0; j < x1; j++) {
            if (i < 0 || j < 0 || i >= x->dims[2] || j >= x->dims[3])
                continue;
            largest = fmax(largest, at(x, n, c, i, j));
            sum += at(x, n, c, i, j);
            inside++;
        }
    if (is_max)
        return largest;
    if (inside == 0)
        return 0;
    return sum / (double)(op_case_number(v->c, "exclusive", 1) != 0 ? inside : (y1 - y0) * (x1 - x0));
}

static void pool_reference(op_values *v)
{
    op_array *out = &v->out[0];

    for (int64_t k = 0; k < out->count; k++) {
        const int64_t plane = k / (out->dims[3] * out->dims[2]);
        out->data[k] = pool_at(v, plane / out->dims[1], plane % out->dims[1], k / out->dims[3] % out->dims[2],
                               k % out->dims[3]);
    }
}

TEST(pool_matches_reference)   { EACH_OF(c, pool_cases) check_forward("pool2d", c, pool_reference, 1e-6); }
TEST(pool_gradient_is_numeric) { EACH_OF(c, pool_cases) check_gradient("pool2d", c, 1e-6, 1e-6); }

TEST(pool_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "pooling_type",
                infer_shapes("pool2d", {DIMS(1, 1, 4, 4)}, {STRING_ATTR("pooling_type", "min"), INTS_ATTR("ksize", 2, 2)}));
    EXPECT_FAIL(TR_EINVAL, "padding 2 must be smaller than the window (2)",
                infer_shapes("pool2d", {DIMS(1, 1, 4, 4)}, {MAX, INTS_ATTR("ksize", 2, 2), INTS_ATTR("paddings", 2, 0)}));
    EXPECT_FAIL(TR_ESHAPE, "the window of 5 is larger than X [1, 1, 4, 4] with padding 0 along dimension 3, by a stride (1) or more",
                infer_shapes("pool2d", {DIMS(1, 1, 4, 4)}, {MAX, INTS_ATTR("ksize", 2, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 4", infer_shapes("pool2d", {DIMS(4, 4)}, {MAX, INTS_ATTR("ksize", 2, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(conv_matches_reference),
        cmocka_unit_test(conv_gradient_is_numeric),
        cmocka_unit_test(conv_of_many_images_is_the_same_on_any_number_of_threads),
        cmocka_unit_test(conv_mistakes_are_explained),
        cmocka_unit_test(conv_shape_of_unknown_batch),
        cmocka_unit_test(pool_matches_reference),
        cmocka_unit_test(pool_gradient_is_numeric),
        cmocka_unit_test(pool_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
