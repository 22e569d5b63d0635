/* What looks at neighbours: sequence_conv, row_conv, im2sequence, add_position_encoding. */
#include "tests/support/op_check.h"

#define RAGGED            OFFSETS(0, 4, 4, 5, 7)
#define WINDOW(length, start) INT_ATTR("contextLength", length), INT_ATTR("contextStart", start)
#define TRAINABLE         BOOL_ATTR("paddingTrainable", 1)

/* -- sequence_conv ------------------------------------------------------------------------------ */

static const op_case cases[] = {
    {"around each row", {SEQUENCES(RAGGED, 7, 2), ABSENT, DIMS(6, 4)}, {WINDOW(3, -1)}, .out = {SEQUENCES(RAGGED, 7, 4)}},
    {"the row alone", {SEQUENCES(RAGGED, 7, 2), ABSENT, DIMS(2, 3)}, {WINDOW(1, 0)}},
    {"what comes before", {SEQUENCES(RAGGED, 7, 2), ABSENT, DIMS(4, 3)}, {WINDOW(2, -3)}},
    {"what comes later", {SEQUENCES(RAGGED, 7, 2), ABSENT, DIMS(4, 3)}, {WINDOW(2, 2)}},
    {"wider than any sequence", {SEQUENCES(RAGGED, 7, 3), ABSENT, DIMS(27, 2)}, {WINDOW(9, -4)}},
    {"trained ends", {SEQUENCES(RAGGED, 7, 2), DIMS(2, 2), DIMS(6, 4)}, {WINDOW(3, -1), TRAINABLE}},
    {"trained end before", {SEQUENCES(RAGGED, 7, 2), DIMS(3, 2), DIMS(4, 3)}, {WINDOW(2, -3), TRAINABLE}},
    {"trained end after", {SEQUENCES(RAGGED, 7, 2), DIMS(3, 2), DIMS(4, 3)}, {WINDOW(2, 2), TRAINABLE}},
    {"ends that are not used", {SEQUENCES(RAGGED, 7, 2), DIMS(2, 2), DIMS(6, 4)}, {WINDOW(3, -1)}},
    {"two levels", {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 2, 5, 6), 6, 2), ABSENT, DIMS(6, 2)}, {WINDOW(3, -1)},
     .out = {NESTED(OFFSETS(0, 2, 3), OFFSETS(0, 2, 5, 6), 6, 2)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0, 0), 0, 2), ABSENT, DIMS(6, 4)}, {WINDOW(3, -1)}},
};

/* Element k of row t's neighbour `row`, of the sequence [begin, end). */
static double neighbour(const op_values *v, int64_t row, int64_t k, int64_t begin, int64_t end)
{
    const int64_t width = v->in[0].dims[1];
    const int64_t start = (int64_t)op_case_number(v->c, "contextStart", 0), above = start < 0 ? -start : 0;

    if (row >= begin && row < end)
        return v->in[0].data[row * width + k];
    if (op_case_number(v->c, "paddingTrainable", 0) == 0)
        return 0;
    return v->in[1].data[(above + (row < begin ? row - begin : row - end)) * width + k];
}

static void reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int64_t     length = (int64_t)op_case_number(v->c, "contextLength", 0), width = v->in[0].dims[1];
    const int64_t     start = (int64_t)op_case_number(v->c, "contextStart", 0), filters = v->in[2].dims[1];

    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            for (int64_t f = 0; f < filters; f++) {
                double sum = 0;
                for (int64_t p = 0; p < length; p++)
                    for (int64_t k = 0; k < width; k++)
                        sum += neighbour(v, t + start + p, k, s->item[i], s->item[i + 1]) *
                               v->in[2].data[(p * width + k) * filters + f];
                v->out[0].data[t * filters + f] = sum;
            }
}

TEST(convolution_matches_reference)    { EACH(c) check_forward("sequence_conv", c, reference, 1e-5); }
TEST(convolution_gradient_is_numeric)  { EACH(c) check_gradient("sequence_conv", c, 1e-4, 1e-7); }

TEST(convolution_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "sequence_conv: X 'x0' has no sequences (LoD)",
                run_status("sequence_conv", {DIMS(7, 2), ABSENT, DIMS(6, 4)}, {WINDOW(3, -1)}));
    EXPECT_FAIL(TR_ESHAPE, "X is [7, 2] and contextLength 3, so Filter must have 6 rows; it is [5, 4]",
                infer_shapes("sequence_conv", {DIMS(7, 2), ABSENT, DIMS(5, 4)}, {WINDOW(3, -1)}));
    EXPECT_FAIL(TR_EINVAL, "PaddingData is missing",
                infer_shapes("sequence_conv", {DIMS(7, 2), ABSENT, DIMS(6, 4)}, {WINDOW(3, -1), TRAINABLE}));
    EXPECT_FAIL(TR_ESHAPE, "PaddingData must be [2, 2], got [3, 2]",
                infer_shapes("sequence_conv", {DIMS(7, 2), DIMS(3, 2), DIMS(6, 4)}, {WINDOW(3, -1), TRAINABLE}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "contextStride must be 1, got 2",
                infer_shapes("sequence_conv", {DIMS(7, 2), ABSENT, DIMS(6, 4)}, {WINDOW(3, -1), INT_ATTR("contextStride", 2)}));
}

/* -- row_conv ----------------------------------------------------------------------------------- */

static const op_case row_cases[] = {
    {"three ahead", {SEQUENCES(RAGGED, 7, 3), DIMS(3, 3)}, .out = {SEQUENCES(RAGGED, 7, 3)}},
    {"this row alone", {SEQUENCES(RAGGED, 7, 3), DIMS(1, 3)}},
    {"farther than any sequence", {SEQUENCES(RAGGED, 7, 3), DIMS(9, 3)}},
    {"no rows", {SEQUENCES(OFFSETS(0, 0), 0, 3), DIMS(2, 3)}},
};

static void row_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const int64_t     width = v->in[0].dims[1], ahead = v->in[1].dims[0];

    for (int64_t i = 0; i + 1 < s->count; i++)
        for (int64_t t = s->item[i]; t < s->item[i + 1]; t++)
            for (int64_t k = 0; k < width; k++) {
                double sum = 0;
                for (int64_t j = 0; j < ahead && t + j < s->item[i + 1]; j++)
                    sum += v->in[0].data[(t + j) * width + k] * v->in[1].data[j * width + k];
                v->out[0].data[t * width + k] = sum;
            }
}

TEST(row_conv_matches_reference)   { EACH_OF(c, row_cases) check_forward("row_conv", c, row_reference, 1e-6); }
TEST(row_conv_gradient_is_numeric) { EACH_OF(c, row_cases) check_gradient("row_conv", c, 1e-4, 1e-7); }

TEST(row_conv_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Filter must be [?, 3], got [2, 4]", infer_shapes("row_conv", {DIMS(7, 3), DIMS(2, 4)}));
    EXPECT_FAIL(TR_EINVAL, "row_conv: X 'x0' has no sequences", run_status("row_conv", {DIMS(7, 3), DIMS(2, 3)}));
}

/* -- im2sequence -------------------------------------------------------------------------------- */

#define KERNEL(h, w)  INTS_ATTR("kernels", h, w)
#define SIZES(list, n) {SIZE(n, 2), TYPED(TR_FP32, 0, 0), .values = list, .is_constant = true}

static const op_case image_cases[] = {
    {"windows side by side", {DIMS(2, 3, 4, 4)}, {KERNEL(2, 2), INTS_ATTR("strides", 2, 2)},
     .out = {SEQUENCES(OFFSETS(0, 4, 8), 8, 12)}},
    {"windows overlap", {DIMS(1, 2, 4, 3)}, {KERNEL(3, 2)}, .out = {SEQUENCES(OFFSETS(0, 4), 4, 12)}},
    {"uneven padding", {DIMS(2, 1, 3, 3)}, {KERNEL(2, 2), INTS_ATTR("paddings", 1, 0, 2, 1)}},
    {"the last windows reach beyond the edge", {DIMS(1, 1, 5, 4)}, {KERNEL(2, 3), INTS_ATTR("strides", 2, 2)}},
    {"images of their own sizes", {DIMS(2, 1, 4, 4), SIZES(LIST(8, 5, 4, 8), 2)},
     {KERNEL(2, 2), INTS_ATTR("out_stride", 2, 2)}, .out = {SEQUENCES(OFFSETS(0, 6, 9), 9, 4)}},
    {"a window larger than the image", {DIMS(2, 2, 4, 3)}, {KERNEL(7, 3), INTS_ATTR("strides", 3, 2)}, .out = {SEQUENCES(OFFSETS(0, 1, 2), 2, 42)}},
    {"larger with padding", {DIMS(1, 1, 2, 5)}, {KERNEL(5, 2), INTS_ATTR("strides", 2, 2), INTS_ATTR("paddings", 1, 0, 0, 1)}},
    {"true sizes smaller than the window", {DIMS(3, 1, 4, 4), SIZES(LIST(4, 4, 2, 3, 1, 3), 3)}, {KERNEL(4, 3), INTS_ATTR("strides", 2, 2)},
     .out = {SEQUENCES(OFFSETS(0, 2, 3, 3), 3, 12)}},
};

static int64_t at(const op_case *c, const char *name, int i, int64_t otherwise)
{
    for (int a = 0; a < OP_MAX_ATTRS && c->attr[a].name; a++)
        if (strcmp(c->attr[a].name, name) == 0)
            return (int64_t)c->attr[a].list[i];
    return otherwise;
}

static int64_t image_windows(const op_values *v, int64_t image, int axis)
{
    const op_case *c = v->c;
    const int64_t  shrink = at(c, "out_stride", axis, 1), stride = at(c, "strides", axis, 1);
    int64_t        size = v->in[0].dims[2 + axis];

    if (v->in_count > 1)
        size = ((int64_t)v->in[1].data[image * 2 + axis] + shrink - 1) / shrink;
    const int64_t room = size + at(c, "paddings", axis, 0) + at(c, "paddings", axis + 2, 0) - at(c, "kernels", axis, 1);
    return (room + stride - 1) / stride + 1 > 0 ? (room + stride - 1) / stride + 1 : 0;
}

static void image_reference(op_values *v)
{
    const op_case *c = v->c;
    const int64_t *x = v->in[0].dims, kh = at(c, "kernels", 0, 1), kw = at(c, "kernels", 1, 1);
    double        *out = v->out[0].data;

    for (int64_t n = 0; n < x[0]; n++)
        for (int64_t oy = 0; oy < image_windows(v, n, 0); oy++)
            for (int64_t ox = 0; ox < image_windows(v, n, 1); ox++)
                for (int64_t ch = 0; ch < x[1]; ch++)
                    for (int64_t k = 0; k < kh * kw; k++) {
                        const int64_t iy = oy * at(c, "strides", 0, 1) + k / kw - at(c, "paddings", 0, 0);
                        const int64_t ix = ox * at(c, "strides", 1, 1) + k % kw - at(c, "paddings", 1, 0);
                        const bool    is_in = iy >= 0 && iy < x[2] && ix >= 0 && ix < x[3];
                        *out++ = is_in ? v->in[0].data[((n * x[1] + ch) * x[2] + iy) * x[3] + ix] : 0;
                    }
}

TEST(images_become_sequences)      { EACH_OF(c, image_cases) check_forward("im2sequence", c, image_reference, 0); }
TEST(images_gradient_is_numeric)   { EACH_OF(c, image_cases) check_gradient("im2sequence", c, 1e-4, 1e-7); }

TEST(image_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "too small for a window of 5 x 2", infer_shapes("im2sequence", {DIMS(1, 1, 4, 4)}, {KERNEL(5, 2)}));
    EXPECT_FAIL(TR_EINVAL, "paddings must be 4 numbers, got 2",
                infer_shapes("im2sequence", {DIMS(1, 1, 4, 4)}, {KERNEL(2, 2), INTS_ATTR("paddings", 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Y must be [1, 2]", infer_shapes("im2sequence", {DIMS(1, 1, 4, 4), DIMS(2, 2)}, {KERNEL(2, 2)}));
}

/* -- add_position_encoding ---------------------------------------------------------------------- */

static const op_case position_cases[] = {
    {"sequences of one length", {DIMS(2, 5, 6)}, {FLOAT_ATTR("alpha", 0.5), FLOAT_ATTR("beta", 2)}},
    {"ragged ones", {SEQUENCES(RAGGED, 7, 4)}, .out = {SEQUENCES(RAGGED, 7, 4)}},
    {"the narrowest", {DIMS(1, 4, 2)}},
};

static double position(int64_t t, int64_t k, int64_t width)
{
    const int64_t half = width / 2, j = k % half;
    const double  angle = (double)t / (half > 1 ? pow(10000, (double)j / (double)(half - 1)) : 10000);
    return k < half ? sin(angle) : cos(angle);
}

static void position_reference(op_values *v)
{
    const op_offsets *s = op_case_sequences(v->c, 0);
    const double      alpha = op_case_number(v->c, "alpha", 1), beta = op_case_number(v->c, "beta", 1);
    const int64_t     width = v->in[0].dims[v->in[0].rank - 1];

    for (int64_t i = 0, sequence = 0; i < v->in[0].count; i++) {
        int64_t t = i / width;
        while (v->in[0].rank == 2 && t >= s->item[sequence + 1])
            sequence++;
        t = v->in[0].rank == 2 ? t - s->item[sequence] : t % v->in[0].dims[1];
        v->out[0].data[i] = alpha * v->in[0].data[i] + beta * position(t, i % width, width);
    }
}

TEST(positions_match_reference)
{
    EACH_OF(c, position_cases) check_forward("add_position_encoding", c, position_reference, 1e-6);
}
TEST(positions_gradient_is_numeric) { EACH_OF(c, position_cases) check_gradient("add_position_encoding", c, 1e-4, 1e-7); }

TEST(position_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "width of X must be even, got [2, 4, 3]", infer_shapes("add_position_encoding", {DIMS(2, 4, 3)}));
    EXPECT_FAIL(TR_EINVAL, "'x0' has no sequences", run_status("add_position_encoding", {DIMS(4, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_matches_reference),
        cmocka_unit_test(convolution_gradient_is_numeric),
        cmocka_unit_test(convolution_mistakes_are_explained),
        cmocka_unit_test(row_conv_matches_reference),
        cmocka_unit_test(row_conv_gradient_is_numeric),
        cmocka_unit_test(row_conv_mistakes_are_explained),
        cmocka_unit_test(images_become_sequences),
        cmocka_unit_test(images_gradient_is_numeric),
        cmocka_unit_test(image_mistakes_are_explained),
        cmocka_unit_test(positions_match_reference),
        cmocka_unit_test(positions_gradient_is_numeric),
        cmocka_unit_test(position_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
