/* test_image_moves.c - operators that move, add, or choose elements of images: shuffles, pads, crops, unpool, maxout, spp. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

static int64_t at4(const op_array *a, int64_t n, int64_t c, int64_t y, int64_t x)
{
    return ((n * a->dims[1] + c) * a->dims[2] + y) * a->dims[3] + x;
}

#define EACH4(a)                                                 \
    for (int64_t n = 0; n < (a)->dims[0]; n++)                   \
        for (int64_t c = 0; c < (a)->dims[1]; c++)               \
            for (int64_t y = 0; y < (a)->dims[2]; y++)           \
                for (int64_t x = 0; x < (a)->dims[3]; x++)

/* -- shuffles ------------------------------------------------------------------------------------------ */

static const op_case pixel_cases[] = {
    {"two", {DIMS(2, 8, 3, 2)}, {INT_ATTR("upscale_factor", 2)}, {DIMS(2, 2, 6, 4)}},
    {"three", {DIMS(1, 9, 1, 2)}, {INT_ATTR("upscale_factor", 3)}, {DIMS(1, 1, 3, 6)}},
    {"one", {DIMS(2, 3, 2, 2)}},
    {"empty batch", {DIMS(0, 4, 2, 2)}, {INT_ATTR("upscale_factor", 2)}},
};
static const op_case channel_cases[] = {
    {"groups", {DIMS(2, 6, 2, 3)}, {INT_ATTR("group", 3)}}, {"one", {DIMS(1, 4, 2, 2)}},
    {"empty batch", {DIMS(0, 4, 2, 2)}, {INT_ATTR("group", 2)}},
};
static const op_case space_cases[] = {
    {"two", {DIMS(2, 8, 4, 2)}, {LONG_ATTR("blocksize", 2)}, {DIMS(2, 32, 2, 1)}},
    {"three", {DIMS(1, 9, 3, 6)}, {LONG_ATTR("blocksize", 3)}},
    {"empty batch", {DIMS(0, 4, 2, 2)}, {LONG_ATTR("blocksize", 2)}},
};
static const op_case shift_cases[] = {
    {"quarter", {DIMS(6, 8, 2, 1)}, {INT_ATTR("seg_num", 3)}},
    {"half", {DIMS(4, 4, 1, 2)}, {INT_ATTR("seg_num", 4), FLOAT_ATTR("shift_ratio", 0.5)}},
    {"few channels", {DIMS(4, 3, 1, 2)}, {INT_ATTR("seg_num", 2)}},
    {"one frame", {DIMS(3, 4, 2, 2)}, {INT_ATTR("seg_num", 1)}},
    {"empty batch", {DIMS(0, 4, 2, 2)}, {INT_ATTR("seg_num", 2)}},
};

static void pixel_reference(op_values *v)
{
    const int64_t r = (int64_t)op_case_number(v->c, "upscale_factor", 1);

    EACH4(&v->out[0])
        v->out[0].data[at4(&v->out[0], n, c, y, x)] = v->in[0].data[at4(&v->in[0], n, (c * r + y % r) * r + x % r, y / r, x / r)];
}

static void channel_reference(op_values *v)
{
    const int64_t groups = (int64_t)op_case_number(v->c, "group", 1), size = v->in[0].dims[1] / groups;

    EACH4(&v->in[0])
        v->out[0].data[at4(&v->out[0], n, c % size * groups + c / size, y, x)] = v->in[0].data[at4(&v->in[0], n, c, y, x)];
}

/* As Darknet writes it. */
static void space_reference(op_values *v)
{
    const op_array *in = &v->in[0];
    const int64_t   b = (int64_t)op_case_number(v->c, "blocksize", 2), channels = in->dims[1] / (b * b);

    EACH4(in) {
        const int64_t offset = c / channels, to_x = x * b + offset % b, to_y = y * b + offset / b;
        v->out[0].data[to_x + in->dims[3] * b * (to_y + in->dims[2] * b * (c % channels + channels * n))] = in->data[at4(in, n, c, y, x)];
    }
}

static void shift_reference(op_values *v)
{
    const op_array *in = &v->in[0];
    const int64_t   frames = (int64_t)op_case_number(v->c, "seg_num", 1);
    const double    ratio = op_case_number(v->c, "shift_ratio", 0.25);

    EACH4(in) {
        const bool    is_before = c < (int64_t)((double)in->dims[1] * ratio);
        const int     step = is_before ? -1 : c < (int64_t)((double)in->dims[1] * 2 * ratio) ? 1 : 0;
        const int64_t frame = n % frames + step;
        v->out[0].data[at4(in, n, c, y, x)] = frame < 0 || frame >= frames ? 0 : in->data[at4(in, n + step, c, y, x)];
    }
}

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 1e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-7); }

THREE_QUESTIONS(pixels, "pixel_shuffle", pixel_cases, pixel_reference)
THREE_QUESTIONS(channels, "shuffle_channel", channel_cases, channel_reference)
THREE_QUESTIONS(space, "space_to_depth", space_cases, space_reference)
THREE_QUESTIONS(shift, "temporal_shift", shift_cases, shift_reference)

TEST(shuffle_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "dimension 1 of X [1, 6, 2, 2] must be a multiple of 4",
                infer_shapes("pixel_shuffle", {DIMS(1, 6, 2, 2)}, {INT_ATTR("upscale_factor", 2)}));
    EXPECT_FAIL(TR_ESHAPE, "must be a multiple of 4", infer_shapes("shuffle_channel", {DIMS(1, 6, 2, 2)}, {INT_ATTR("group", 4)}));
    EXPECT_FAIL(TR_ESHAPE, "dimension 3 of X [1, 4, 2, 3] must be a multiple of 2", infer_shapes("space_to_depth", {DIMS(1, 4, 2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "5 frames, which are no videos of 2", infer_shapes("temporal_shift", {DIMS(5, 4, 2, 3)}, {INT_ATTR("seg_num", 2)}));
    EXPECT_SHAPE("float32[?, 2, ?, 4]", "pixel_shuffle", {DIMS(-1, 8, -1, 2)}, {INT_ATTR("upscale_factor", 2)});
    EXPECT_SHAPE("float32[?, 16, ?, 1]", "space_to_depth", {DIMS(-1, 4, -1, 2)});
}

/* -- pads ------------------------------------------------------------------------------------------------ */

static const op_case pad_cases[] = {
    {"matrix", {DIMS(2, 3)}, {INTS_ATTR("paddings", 1, 0, 2, 3), FLOAT_ATTR("pad_value", 0.5)}, {DIMS(3, 8)}},
    {"vector", {DIMS(3)}, {INTS_ATTR("paddings", 0, 2)}},
    {"nothing", {DIMS(2, 2, 2)}, {INTS_ATTR("paddings", 0, 0, 0, 0, 0, 0)}},
    {"rank 4", {DIMS(1, 2, 2, 3)}, {INTS_ATTR("paddings", 0, 1, 1, 0, 0, 0, 2, 1), FLOAT_ATTR("pad_value", -1)}},
    {"empty", {DIMS(0, 3)}, {INTS_ATTR("paddings", 1, 1, 0, 0)}},
};
static const op_case like_cases[] = {
    {"matrix", {CONSTANT(4, 5), DIMS(2, 3)}, {FLOAT_ATTR("pad_value", 2)}},
    {"as large", {CONSTANT(2, 3), DIMS(2, 3)}},
    {"rank 3", {CONSTANT(2, 3, 4), DIMS(1, 3, 2)}},
    {"empty", {CONSTANT(2, 3), DIMS(0, 3)}},
};

/* The box of `part` in `whole`, where it begins at begin[d]: part = whole's, or whole = part's. */
static void copy_box(op_array *whole, op_array *part, const int64_t *begin, bool take)
{
    for (int64_t i = 0; i < part->count; i++) {
        int64_t rest = i, at = 0, stride = 1;
        for (int d = part->rank - 1; d >= 0; d--) {
            at += (rest % part->dims[d] + begin[d]) * stride;
            rest /= part->dims[d];
            stride *= whole->dims[d];
        }
        *(take ? &part->data[i] : &whole->data[at]) = take ? whole->data[at] : part->data[i];
    }
}

static void pad_reference(op_values *v)
{
    const bool is_like = v->in_count > 1;
    int64_t    begin[TR_MAX_RANK] = {0};

    for (int d = 0; d < v->in[0].rank && !is_like; d++)
        begin[d] = (int64_t)op_case_item(v->c, "paddings", 2 * d, 0);
    for (int64_t i = 0; i < v->out[0].count; i++)
        v->out[0].data[i] = op_case_number(v->c, "pad_value", 0);
    copy_box(&v->out[0], &v->in[is_like ? 1 : 0], begin, false);
}

THREE_QUESTIONS(pad, "pad", pad_cases, pad_reference)
THREE_QUESTIONS(like, "pad_constant_like", like_cases, pad_reference)

#define MODE(mode) STRING_ATTR("mode", mode)
#define PADDINGS4(list) {SIZE(4), .values = list, .is_typed = true, .dtype = TR_INT32}

static const op_case pad2d_cases[] = {
    {"constant", {DIMS(2, 2, 3, 2)}, {INTS_ATTR("paddings", 1, 2, 0, 3), FLOAT_ATTR("pad_value", 0.5)}, {DIMS(2, 2, 6, 5)}},
    {"reflect", {DIMS(1, 2, 4, 3)}, {INTS_ATTR("paddings", 3, 1, 2, 2), MODE("reflect")}},
    {"edge", {DIMS(1, 2, 2, 3)}, {INTS_ATTR("paddings", 3, 1, 0, 4), MODE("edge")}},
    {"channels last", {DIMS(2, 3, 4, 2)}, {INTS_ATTR("paddings", 1, 1, 2, 1), MODE("reflect"), STRING_ATTR("data_format", "NHWC")}},
    {"channels last, constant", {DIMS(1, 2, 2, 3)}, {INTS_ATTR("paddings", 1, 0, 0, 1), STRING_ATTR("data_format", "NHWC")}},
    {"paddings that are fed", {DIMS(1, 2, 3, 3), PADDINGS4(((const double[]){1, 0, 2, 1}))}, {MODE("edge"), INTS_ATTR("paddings", 1, 0, 2, 1)},
     {DIMS(1, 2, 4, 6)}},
    {"nothing", {DIMS(1, 1, 2, 2)}},
    {"empty batch", {DIMS(0, 2, 3, 3)}, {INTS_ATTR("paddings", 1, 1, 1, 1), MODE("reflect")}},
};

static int64_t pad_source(const op_case *c, int64_t at, int64_t n)
{
    if (at >= 0 && at < n)
        return at;
    if (op_case_says(c, "mode", "reflect"))
        return at < 0 ? -at : 2 * (n - 1) - at;
    return op_case_says(c, "mode", "edge") ? (at < 0 ? 0 : n - 1) : -1;
}

static void pad2d_reference(op_values *v)
{
    const op_array *in = &v->in[0];
    op_array       *out = &v->out[0];
    const int       h = op_case_says(v->c, "data_format", "NHWC") ? 1 : 2;

    for (int64_t i = 0; i < out->count; i++) {
        int64_t place[4], rest = i;
        for (int d = 3; d >= 0; rest /= out->dims[d--])
            place[d] = rest % out->dims[d];
        place[h] = pad_source(v->c, place[h] - (int64_t)op_case_item(v->c, "paddings", 0, 0), in->dims[h]);
        place[h + 1] = pad_source(v->c, place[h + 1] - (int64_t)op_case_item(v->c, "paddings", 2, 0), in->dims[h + 1]);
        out->data[i] = place[h] < 0 || place[h + 1] < 0 ? op_case_number(v->c, "pad_value", 0)
                                                        : in->data[at4(in, place[0], place[1], place[2], place[3])];
    }
}

THREE_QUESTIONS(pad2d, "pad2d", pad2d_cases, pad2d_reference)

TEST(pad_mistakes_are_explained)
{
    EXPECT_FAIL(TR_EINVAL, "needs 4 paddings", infer_shapes("pad", {DIMS(2, 3)}, {INTS_ATTR("paddings", 1, 1)}));
    EXPECT_FAIL(TR_ERANGE, "paddings", infer_shapes("pad", {DIMS(2)}, {INTS_ATTR("paddings", -1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "Y [3, 3] does not fit into X [2, 3]", infer_shapes("pad_constant_like", {DIMS(2, 3), DIMS(3, 3)}));
    EXPECT_FAIL(TR_EINVAL, "four numbers", infer_shapes("pad2d", {DIMS(1, 1, 2, 2)}, {INTS_ATTR("paddings", 1, 1)}));
    EXPECT_FAIL(TR_ESHAPE, "in mode reflect must be at most 1",
                infer_shapes("pad2d", {DIMS(1, 1, 2, 2)}, {INTS_ATTR("paddings", 2, 0, 0, 0), MODE("reflect")}));
    EXPECT_FAIL(TR_ERANGE, "must not be negative",
                run_status("pad2d", {DIMS(1, 1, 2, 2), PADDINGS4(LIST(1, -1, 0, 0))}));
    EXPECT_SHAPE("float32[?, 1, 4, ?]", "pad2d", {DIMS(-1, 1, 2, -1)}, {INTS_ATTR("paddings", 1, 1, 1, 1)});
}

/* -- crops ------------------------------------------------------------------------------------------------- */

#define OFFSETS_OF(list, n) {SIZE(n), .values = list, .is_typed = true, .dtype = TR_INT32}

static const op_case crop_cases[] = {
    {"matrix", {DIMS(4, 5)}, {INTS_ATTR("offsets", 1, 2), INTS_ATTR("shape", 2, 3)}, {DIMS(2, 3)}},
    {"at the front", {DIMS(3, 4)}, {INTS_ATTR("shape", 2, 4)}},
    {"the rest", {DIMS(3, 4)}, {INTS_ATTR("offsets", 1, 0), INTS_ATTR("shape", -1, 2)}, {DIMS(2, 2)}},
    {"like Y", {DIMS(2, 3, 4), CONSTANT(1, 2, 4)}, {INTS_ATTR("offsets", 1, 1, 0)}, {DIMS(1, 2, 4)}},
    {"offsets that are fed", {DIMS(4, 4), ABSENT, OFFSETS_OF(((const double[]){2, 1}), 2)}, {INTS_ATTR("shape", 2, 2), INTS_ATTR("offsets", 2, 1)}},
    {"nothing of it", {DIMS(2, 3)}, {INTS_ATTR("offsets", 2, 0), INTS_ATTR("shape", 0, 3)}},
};

static void crop_reference(op_values *v)
{
    int64_t begin[TR_MAX_RANK];

    for (int d = 0; d < v->in[0].rank; d++)
        begin[d] = (int64_t)op_case_item(v->c, "offsets", d, 0);
    copy_box(&v->in[0], &v->out[0], begin, true);
}

THREE_QUESTIONS(crop, "crop", crop_cases, crop_reference)

TEST(crop_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "does not lie within X [4, 5]",
                infer_shapes("crop", {DIMS(4, 5)}, {INTS_ATTR("offsets", 3, 0), INTS_ATTR("shape", 2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "the box must have the rank of X", infer_shapes("crop", {DIMS(4, 5)}, {INTS_ATTR("shape", 2)}));
    EXPECT_FAIL(TR_EINVAL, "offsets must be 2 numbers",
                infer_shapes("crop", {DIMS(4, 5)}, {INTS_ATTR("shape", 2, 2), INTS_ATTR("offsets", 1)}));
    EXPECT_FAIL(TR_ERANGE, "does not lie within X [4, 4]",
                run_status("crop", {DIMS(4, 4), ABSENT, OFFSETS_OF(LIST(3, 0), 2)}, {INTS_ATTR("shape", 2, 2)}));
}

static const op_case random_cases[] = {
    {"images", {DIMS(5, 2, 6, 7), INT64S(0, 100, 1)}, {INTS_ATTR("shape", 3, 4)}, {DIMS(5, 2, 3, 4)}},
    {"whole", {DIMS(2, 3, 3), INT64S(0, 100, 1)}, {INTS_ATTR("shape", 3, 3)}},
    {"empty batch", {DIMS(0, 3, 3), INT64S(0, 100, 1)}, {INTS_ATTR("shape", 2, 2)}},
};

/* Each item is a box of its own item of X; the boxes of the first case are not all at one place. */
TEST(random_crops_are_boxes)
{
    EACH_OF(c, random_cases) {
        op_values v = run_op("random_crop", c, TR_FP32);
        int       places[8][8] = {{0}}, different = 0;
        const op_array *x = &v.in[0], *out = &v.out[0];
        const int64_t   h = out->dims[out->rank - 2], w = out->dims[out->rank - 1], H = x->dims[x->rank - 2], W = x->dims[x->rank - 1];
        for (int64_t item = 0; item * h * w < out->count; item++) {
            bool found = false;
            for (int64_t top = 0; top + h <= H; top++)
                for (int64_t left = 0; left + w <= W; left++) {
                    bool same = true;
                    for (int64_t i = 0; i < h * w; i++)
                        same = same && out->data[item * h * w + i] == x->data[(item * H + top + i / w) * W + left + i % w];
                    found = found || same;
                    if (same)
                        different += places[top][left]++ == 0;
                }
            assert_true(found);
        }
        assert_true(c != random_cases || different > 2);
        op_values_free(&v);
    }
}

TEST(random_crops_depend_on_the_seed_alone)
{
    const op_case c = {"seed", {DIMS(6, 8, 8), VALUES(LIST(7), 1)}, {INTS_ATTR("shape", 2, 2)}};
    op_case       typed = c;

    typed.in[1].is_typed = true;
    typed.in[1].dtype = TR_INT64;
    op_values first = run_op("random_crop", &typed, TR_FP32), again = run_op("random_crop", &typed, TR_FP32);
    assert_memory_equal(first.out[0].data, again.out[0].data, (size_t)first.out[0].count * sizeof(double));
    assert_true(first.out[1].data[0] == again.out[1].data[0] && first.out[1].data[0] != 7);
    typed.in[1].values = LIST(8);
    op_values other = run_op("random_crop", &typed, TR_FP32);
    assert_memory_not_equal(first.out[0].data, other.out[0].data, (size_t)first.out[0].count * sizeof(double));
    op_values_free(&first);
    op_values_free(&again);
    op_values_free(&other);
    op_rig_keep("random_crop", &typed, false);
    EXPECT_FAIL(TR_ESHAPE, "shape[0] is 9", infer_shapes("random_crop", {DIMS(2, 8, 8), INT64S(0, 9, 1)}, {INTS_ATTR("shape", 9, 2)}));
}

/* -- unpool, maxout, spp -------------------------------------------------------------------------------------- */

#define POOLED(list, ...) {SIZE(__VA_ARGS__), .values = list, .is_typed = true, .dtype = TR_INT32}
#define UNPOOL STRING_ATTR("unpooling_type", "max")

static const op_case unpool_cases[] = {
    {"plain", {DIMS(1, 2, 2, 2), POOLED(((const double[]){0, 3, 9, 15, 5, 7, 8, 10}), 1, 2, 2, 2)},
     {INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2), UNPOOL}, {DIMS(1, 2, 4, 4)}},
    {"padded", {DIMS(1, 1, 2, 2), POOLED(((const double[]){0, 1, 3, 2}), 1, 1, 2, 2)},
     {INTS_ATTR("ksize", 3, 3), INTS_ATTR("paddings", 1, 1), UNPOOL}, {DIMS(1, 1, 2, 2)}},
    {"empty batch", {DIMS(0, 1, 2, 2), INT32S(0, 1, 0, 1, 2, 2)}, {INTS_ATTR("ksize", 2, 2), UNPOOL}},
};

static void unpool_reference(op_values *v)
{
    const op_array *x = &v->in[0];
    const int64_t   plane = v->out[0].dims[2] * v->out[0].dims[3], in = x->dims[2] * x->dims[3];

    memset(v->out[0].data, 0, (size_t)v->out[0].count * sizeof(double));
    for (int64_t i = 0; i < x->count; i++)
        v->out[0].data[i / in * plane + (int64_t)v->in[1].data[i]] = x->data[i];
}

THREE_QUESTIONS(unpool, "unpool", unpool_cases, unpool_reference)

static const op_case place_cases[] = {
    {"several takers", {DIMS(1, 2, 2, 2), POOLED(((const double[]){0, 3, 3, 1, 2, 2}), 1, 2, 3)}, {{0}}, {DIMS(1, 2, 3)}},
    {"volumes", {DIMS(2, 3, 2, 1, 3), INT32S(0, 6, 2, 3, 1, 2, 2)}, {{0}}, {DIMS(2, 3, 1, 2, 2)}},
    {"ragged", {DIMS(3, 5, 17), INT32S(0, 17, 3, 5, 7)}},
    {"nothing taken", {DIMS(2, 1, 3), INT32S(0, 3, 2, 1, 0)}},
    {"empty batch", {DIMS(0, 1, 4), INT32S(0, 4, 0, 1, 2)}},
};

static void place_reference(op_values *v)
{
    const op_array *x = &v->in[0], *out = &v->out[0];
    const int64_t   planes = x->dims[0] * x->dims[1], size = planes ? x->count / planes : 0, taken = planes ? out->count / planes : 0;

    for (int64_t i = 0; i < out->count; i++)
        out->data[i] = x->data[i / taken * size + (int64_t)v->in[1].data[i]];
}

THREE_QUESTIONS(take_places, "take_places", place_cases, place_reference)

TEST(wrong_places_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Places must be [2, 3, ...]; got [2, 4, 5]", infer_shapes("take_places", {DIMS(2, 3, 4), INT32S(0, 4, 2, 4, 5)}));
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 3 or more", infer_shapes("take_places", {DIMS(2, 3), INT32S(0, 4, 2, 3, 5)}));
    EXPECT_FAIL(TR_ERANGE, "place 4 at position 0 of", run_status("take_places", {DIMS(2, 3, 2, 2), INT32S(4, 5, 2, 3, 1)}));
}

static const op_case maxout_cases[] = {
    {"two", {DIMS(2, 6, 3, 2)}, {INT_ATTR("groups", 2)}, {DIMS(2, 3, 3, 2)}},
    {"all", {DIMS(1, 4, 2, 2)}, {INT_ATTR("groups", 4)}},
    {"one", {DIMS(1, 4, 2, 2)}, {INT_ATTR("groups", 1)}},
    {"empty batch", {DIMS(0, 4, 2, 2)}, {INT_ATTR("groups", 2)}},
};

static void maxout_reference(op_values *v)
{
    const int64_t groups = (int64_t)op_case_number(v->c, "groups", 1);

    EACH4(&v->out[0]) {
        double largest = -INFINITY;
        for (int64_t g = 0; g < groups; g++)
            largest = fmax(largest, v->in[0].data[at4(&v->in[0], n, c * groups + g, y, x)]);
        v->out[0].data[at4(&v->out[0], n, c, y, x)] = largest;
    }
}

THREE_QUESTIONS(maxout, "maxout", maxout_cases, maxout_reference)

#define MAX STRING_ATTR("pooling_type", "max")
#define AVG STRING_ATTR("pooling_type", "avg")

static const op_case spp_cases[] = {
    {"max", {DIMS(2, 3, 8, 8)}, {INT_ATTR("pyramid_height", 3), MAX}, {DIMS(2, 63)}},
    {"average", {DIMS(1, 2, 7, 9)}, {INT_ATTR("pyramid_height", 2), AVG}, {DIMS(1, 10)}},
    {"windows of padding alone", {DIMS(1, 2, 5, 3)}, {INT_ATTR("pyramid_height", 3), MAX}},
    {"smaller than the pyramid", {DIMS(1, 1, 1, 2)}, {INT_ATTR("pyramid_height", 3), AVG}},
    {"empty batch", {DIMS(0, 2, 4, 4)}, {INT_ATTR("pyramid_height", 2), MAX}},
};

/* Of a window of the first input: what the last input has where the largest element is, or on the average. */
static double spp_window(const op_values *v, int64_t n, int64_t c, int64_t across, int64_t oy, int64_t ox)
{
    const op_array *in = &v->in[0], *from = &v->in[v->in_count - 1];
    const int64_t   h = (in->dims[2] + across - 1) / across, w = (in->dims[3] + across - 1) / across;
    const int64_t   top = oy * h - (h * across - in->dims[2] + 1) / 2, left = ox * w - (w * across - in->dims[3] + 1) / 2;
    double          largest = -INFINITY, taken = 0, sum = 0;
    int64_t         count = 0;

    for (int64_t y = top; y < top + h; y++)
        for (int64_t x = left; x < left + w; x++) {
            if (y < 0 || x < 0 || y >= in->dims[2] || x >= in->dims[3])
                continue;
            const int64_t at = at4(in, n, c, y, x);
            taken = in->data[at] > largest ? from->data[at] : taken;
            largest = fmax(largest, in->data[at]);
            sum += from->data[at];
            count++;
        }
    return count == 0 ? 0 : op_case_says(v->c, "pooling_type", "max") ? taken : sum / (double)count;
}

static void spp_reference(op_values *v)
{
    double *to = v->out[0].data;

    for (int64_t n = 0; n < v->in[0].dims[0]; n++)
        for (int level = 0; level < (int)op_case_number(v->c, "pyramid_height", 1); level++)
            for (int64_t c = 0; c < v->in[0].dims[1]; c++)
                for (int64_t o = 0; o < 1 << 2 * level; o++)
                    *to++ = spp_window(v, n, c, 1 << level, o >> level, o & ((1 << level) - 1));
}

THREE_QUESTIONS(spp, "spp", spp_cases, spp_reference)

static const op_case spp_take_cases[] = {
    {"max", {VALUES(LIST(1, 5, -2, 4, 9, 3, -7, 8), 1, 2, 2, 2), VALUES(LIST(5, 9, 1, 5, -2, 4, 9, 3, -7, 8), 1, 10), DIMS(1, 2, 2, 2)},
     {INT_ATTR("pyramid_height", 2), MAX}},
    {"equal elements", {VALUES(LIST(5, 5, 5, 5), 1, 1, 2, 2), VALUES(LIST(5), 1, 1), DIMS(1, 1, 2, 2)}, {INT_ATTR("pyramid_height", 1), MAX}},
    {"windows of padding", {VALUES(LIST(2, 1), 1, 1, 1, 2), VALUES(LIST(2, 0, 0, 2, 1), 1, 5), DIMS(1, 1, 1, 2)}, {INT_ATTR("pyramid_height", 2), MAX}},
    {"averages", {DIMS(2, 3, 5, 4), DIMS(2, 15), DIMS(2, 3, 5, 4)}, {INT_ATTR("pyramid_height", 2), AVG}},
    {"empty batch", {DIMS(0, 2, 4, 4), DIMS(0, 10), DIMS(0, 2, 4, 4)}, {INT_ATTR("pyramid_height", 2), MAX}},
};

/* Each element of Taken@GRAD goes back to the one place where its window's element of From is 1 and all others are 0. */
static void spp_back_reference(op_values *v)
{
    op_array  from = v->in[0], *out = &v->out[0];
    double   *ones = calloc((size_t)from.count + 1, sizeof *ones), *taken = calloc((size_t)v->in[3].count + 1, sizeof *taken);
    op_values probe = {.c = v->c, .in_count = 2, .in = {v->in[0], from}, .out_count = 1, .out = {v->in[3]}};

    probe.in[1].data = ones;
    probe.out[0].data = taken;
    for (int64_t i = 0; i < from.count; i++) {
        ones[i] = 1;
        spp_reference(&probe);
        ones[i] = 0;
        out->data[i] = 0;
        for (int64_t k = 0; k < v->in[3].count; k++)
            out->data[i] += taken[k] * v->in[3].data[k];
    }
    free(ones);
    free(taken);
}

static const op_case spp_back_cases[] = {
    {"max", {VALUES(LIST(1, 5, -2, 4, 9, 3, -7, 8), 1, 2, 2, 2), VALUES(LIST(5, 9, 1, 5, -2, 4, 9, 3, -7, 8), 1, 10), DIMS(1, 2, 2, 2), DIMS(1, 10)},
     {INT_ATTR("pyramid_height", 2), MAX}},
    {"averages", {DIMS(2, 1, 5, 4), DIMS(2, 5), DIMS(2, 1, 5, 4), DIMS(2, 5)}, {INT_ATTR("pyramid_height", 2), AVG}},
};

TEST(spp_take_gives_back)           { EACH_OF(c, spp_back_cases) check_forward("spp_take_grad", c, spp_back_reference, 1e-6); }
TEST(spp_takes_from_another_tensor) { EACH_OF(c, spp_take_cases) check_forward("spp_take", c, spp_reference, 1e-6); }

TEST(other_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "cannot be cut into groups of 4", infer_shapes("maxout", {DIMS(1, 6, 2, 2)}, {INT_ATTR("groups", 4)}));
    EXPECT_FAIL(TR_ERANGE, "pyramid_height", infer_shapes("spp", {DIMS(1, 6, 2, 2)}, {INT_ATTR("pyramid_height", 0), MAX}));
    EXPECT_FAIL(TR_ESHAPE, "Out must be [1, 6], got [1, 5]",
                infer_shapes("spp_take", {DIMS(1, 6, 2, 2), DIMS(1, 5), DIMS(1, 6, 2, 2)}, {INT_ATTR("pyramid_height", 1), MAX}));
    EXPECT_FAIL(TR_ESHAPE, "From must be [1, 6, 2, 2], got [1, 6, 2, 3]",
                infer_shapes("spp_take", {DIMS(1, 6, 2, 2), DIMS(1, 6), DIMS(1, 6, 2, 3)}, {INT_ATTR("pyramid_height", 1), MAX}));
    EXPECT_FAIL(TR_EUNSUPPORTED, "unpooling_type",
                infer_shapes("unpool", {DIMS(1, 1, 2, 2), INT32S(0, 1, 1, 1, 2, 2)}, {INTS_ATTR("ksize", 2, 2), STRING_ATTR("unpooling_type", "avg")}));
    EXPECT_FAIL(TR_ERANGE, "Indices has place 16; a plane of Out [1, 1, 4, 4] has places 0 to 15",
                run_status("unpool", {DIMS(1, 1, 1, 1), POOLED(LIST(16), 1, 1, 1, 1)}, {INTS_ATTR("ksize", 4, 4), UNPOOL}));
    EXPECT_FAIL(TR_ESHAPE, "dimension 2 of Out would be 0",
                infer_shapes("unpool", {DIMS(1, 1, 1, 1), INT32S(0, 1, 1, 1, 1, 1)}, {INTS_ATTR("ksize", 2, 2), INTS_ATTR("paddings", 1, 0), UNPOOL}));
}

int main(void)
{
#define BOTH(name) cmocka_unit_test(name##_matches_reference), cmocka_unit_test(name##_gradient_is_numeric)
    const struct CMUnitTest tests[] = {
        BOTH(pixels), BOTH(channels), BOTH(space), BOTH(shift), BOTH(pad), BOTH(like), BOTH(pad2d), BOTH(crop), BOTH(unpool), BOTH(take_places), cmocka_unit_test(wrong_places_are_explained),
        BOTH(maxout), BOTH(spp), cmocka_unit_test(spp_takes_from_another_tensor), cmocka_unit_test(spp_take_gives_back),
        cmocka_unit_test(shuffle_mistakes_are_explained), cmocka_unit_test(pad_mistakes_are_explained),
        cmocka_unit_test(crop_mistakes_are_explained), cmocka_unit_test(other_mistakes_are_explained),
        cmocka_unit_test(random_crops_are_boxes), cmocka_unit_test(random_crops_depend_on_the_seed_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
