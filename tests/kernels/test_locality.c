/* test_locality.c - operators that say they work row by row, or point by point, do: a run on pieces gives the bits of a run on the
 * whole. */
#include "tests/support/op_check.h"

#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 1003, HIGH = 17, WIDE = 59 };          /* 1003 = 17 * 59 */

/* Operators whose inputs are not all floats of one shape. */
typedef struct local_case {
    const char *op;
    op_case     c;
} local_case;

#define IMAGE       DIMS(6, 8, 4, 4)
#define HALF_IMAGE  DIMS(6, 8, 2, 2)
#define KSIZE       INTS_ATTR("ksize", 2, 2), INTS_ATTR("strides", 2, 2)
#define KSIZE_3D    INTS_ATTR("ksize", 2, 2, 2), INTS_ATTR("strides", 2, 2, 2)
#define CLASSES     FLOATS(0.1, 0.9, 12, 7), INT64S(0, 7, 12, 1)
#define POOLING     STRING_ATTR("pooling_type", "avg")
#define COLUMN      FLOATS(0.1, 0.9, 12, 1)

static const local_case special[] = {
    {"cast", {"", {DIMS(HIGH, WIDE)}, {INT_ATTR("in_dtype", TR_FP32), INT_ATTR("out_dtype", TR_FP64)}}},
    {"clip", {"", {DIMS(HIGH, WIDE)}, {FLOAT_ATTR("min", -0.5), FLOAT_ATTR("max", 0.25)}}},
    {"clip_grad", {"", {DIMS(HIGH, WIDE), DIMS(HIGH, WIDE)}, {FLOAT_ATTR("min", -0.5), FLOAT_ATTR("max", 0.25)}}},
    {"momentum", {"", {DIMS(HIGH, WIDE), DIMS(HIGH, WIDE), DIMS(HIGH, WIDE), DIMS(1)}, {FLOAT_ATTR("mu", 0.9)}}},
    {"sum", {"", {DIMS(HIGH, WIDE), MORE(HIGH, WIDE), MORE(HIGH, WIDE)}}},
    {"bpr_loss", {"", {CLASSES}}},
    {"bpr_loss_grad", {"", {CLASSES, COLUMN}}},
    {"cos_sim", {"", {DIMS(12, 5), DIMS(12, 5)}}},
    {"cross_entropy", {"", {CLASSES}}},
    {"cross_entropy", {"soft", {FLOATS(0.1, 0.9, 12, 7), FLOATS(0, 1, 12, 7)}, {BOOL_ATTR("soft_label", 1)}}},
    {"cross_entropy_grad", {"", {CLASSES, COLUMN}}},
    {"cross_entropy2", {"", {CLASSES}}},
    {"cross_entropy_grad2", {"", {FLOATS(0.1, 0.9, 12, 7), INT64S(0, 7, 12, 1), COLUMN, COLUMN}}},
    {"cvm", {"", {FLOATS(1, 9, 12, 5), FLOATS(1, 9, 12, 2)}}},
    {"cvm_grad", {"", {FLOATS(1, 9, 12, 5), FLOATS(1, 9, 12, 2), DIMS(12, 5)}}},
    {"dropout_grad", {"", {{SIZE(HIGH, WIDE), TYPED(TR_UINT8, 0, 2)}, DIMS(HIGH, WIDE)}}},
    {"hinge_loss", {"", {COLUMN, COLUMN}}},
    {"hinge_loss_grad", {"", {COLUMN, COLUMN, COLUMN}}},
    {"huber_loss", {"", {COLUMN, COLUMN}, {FLOAT_ATTR("delta", 0.2)}}},
    {"huber_loss_grad", {"", {COLUMN, COLUMN}, {FLOAT_ATTR("delta", 0.2)}}},
    {"log_loss", {"", {COLUMN, COLUMN}, {FLOAT_ATTR("epsilon", 1e-4)}}},
    {"log_loss_grad", {"", {COLUMN, COLUMN, COLUMN}, {FLOAT_ATTR("epsilon", 1e-4)}}},
    {"lstm_unit", {"", {DIMS(12, 20), DIMS(12, 5)}}},
    {"lstm_unit_grad", {"", {DIMS(12, 20), DIMS(12, 5), DIMS(12, 5), DIMS(12, 5), DIMS(12, 5)}}},
    {"margin_rank_loss", {"", {COLUMN, COLUMN, COLUMN}}},
    {"margin_rank_loss_grad", {"", {COLUMN, COLUMN, COLUMN}}},
    {"max_pool2d_with_index", {"", {IMAGE}, {KSIZE}}},
    {"max_pool2d_with_index_grad", {"", {IMAGE, INT32S(0, 16, 6, 8, 2, 2), HALF_IMAGE}, {KSIZE}}},
    {"max_pool3d_with_index", {"", {DIMS(6, 3, 4, 4, 4)}, {KSIZE_3D}}},
    {"max_pool3d_with_index_grad", {"", {DIMS(6, 3, 4, 4, 4), INT32S(0, 64, 6, 3, 2, 2, 2), DIMS(6, 3, 2, 2, 2)}, {KSIZE_3D}}},
    {"maxout", {"", {IMAGE}, {INT_ATTR("groups", 2)}}},
    {"maxout_grad", {"", {IMAGE, DIMS(6, 4, 4, 4), DIMS(6, 4, 4, 4)}, {INT_ATTR("groups", 2)}}},
    {"modified_huber_loss", {"", {COLUMN, COLUMN}}},
    {"modified_huber_loss_grad", {"", {COLUMN, COLUMN, COLUMN}}},
    {"one_hot", {"", {INT64S(0, 5, 12, 1)}, {INT_ATTR("depth", 5)}}},
    {"pad2d", {"", {IMAGE}, {INTS_ATTR("paddings", 1, 0, 2, 1)}}},
    {"pad2d_grad", {"", {IMAGE, ABSENT, DIMS(6, 8, 5, 7)}, {INTS_ATTR("paddings", 1, 0, 2, 1)}}},
    {"pixel_shuffle", {"", {IMAGE}, {INT_ATTR("upscale_factor", 2)}}},
    {"pixel_shuffle_grad", {"", {IMAGE, DIMS(6, 2, 8, 8)}, {INT_ATTR("upscale_factor", 2)}}},
    {"pool2d", {"", {IMAGE}, {KSIZE, POOLING}}},
    {"pool2d_grad", {"", {IMAGE, HALF_IMAGE, HALF_IMAGE}, {KSIZE, POOLING}}},
    {"pool3d", {"", {DIMS(6, 3, 4, 4, 4)}, {KSIZE_3D, POOLING}}},
    {"pool3d_grad", {"", {DIMS(6, 3, 4, 4, 4), DIMS(6, 3, 2, 2, 2), DIMS(6, 3, 2, 2, 2)}, {KSIZE_3D, POOLING}}},
    {"rank_loss", {"", {COLUMN, COLUMN, COLUMN}}},
    {"rank_loss_grad", {"", {COLUMN, COLUMN, COLUMN, COLUMN}}},
    {"shuffle_channel", {"", {IMAGE}, {INT_ATTR("group", 2)}}},
    {"shuffle_channel_grad", {"", {IMAGE, IMAGE}, {INT_ATTR("group", 2)}}},
    {"smooth_l1_loss", {"", {DIMS(12, 5), DIMS(12, 5), DIMS(12, 5), DIMS(12, 5)}}},
    {"smooth_l1_loss_grad", {"", {DIMS(12, 5), DIMS(12, 5), DIMS(12, 5), COLUMN}}},
    {"softmax_with_cross_entropy", {"", {CLASSES}}},
    {"softmax_with_cross_entropy_grad", {"", {CLASSES, COLUMN}}},
    {"space_to_depth", {"", {IMAGE}, {LONG_ATTR("blocksize", 2)}}},
    {"space_to_depth_grad", {"", {IMAGE, DIMS(6, 32, 2, 2)}, {LONG_ATTR("blocksize", 2)}}},
    {"spp", {"", {IMAGE}, {INT_ATTR("pyramid_height", 2), POOLING}}},
    {"spp_grad", {"", {IMAGE, DIMS(6, 40), DIMS(6, 40)}, {INT_ATTR("pyramid_height", 2), POOLING}}},
    {"spp_take", {"", {IMAGE, DIMS(6, 40), IMAGE}, {INT_ATTR("pyramid_height", 2), POOLING}}},
    {"spp_take_grad", {"", {IMAGE, DIMS(6, 40), IMAGE, DIMS(6, 40)}, {INT_ATTR("pyramid_height", 2), POOLING}}},
    {"squared_l2_distance", {"", {DIMS(12, 5), DIMS(12, 5)}}},
    {"teacher_student_sigmoid_loss", {"", {COLUMN, COLUMN}}},
    {"teacher_student_sigmoid_loss_grad", {"", {COLUMN, COLUMN, COLUMN}}},
    {"top_k", {"", {DIMS(12, 9)}, {INT_ATTR("k", 3)}}},
    {"take_places", {"", {IMAGE, INT32S(0, 16, 6, 8, 2, 2)}}},
    {"take_places_grad", {"", {IMAGE, INT32S(0, 16, 6, 8, 2, 2), HALF_IMAGE}}},
    {"unpool", {"", {HALF_IMAGE, INT32S(0, 16, 6, 8, 2, 2)}, {KSIZE, STRING_ATTR("unpooling_type", "max")}}},
    {"unpool_grad", {"", {INT32S(0, 16, 6, 8, 2, 2), IMAGE}, {KSIZE, STRING_ATTR("unpooling_type", "max")}}},
};

/* -- a piece of a case --------------------------------------------------------------------------------- */

static int64_t count_of(const op_arg *arg)
{
    int64_t count = arg->rank > 0;

    for (int d = 0; d < arg->rank; d++)
        count *= arg->dims[d];
    return count;
}

/* Elements [from, to) of `parts` equal parts of an input, which become a vector where `is_flat`, else rows. */
static void take_part(op_arg *arg, const double *values, int64_t parts, int64_t from, int64_t to, bool is_flat)
{
    const int64_t each = count_of(arg) / parts;

    arg->values = values + from * each;
    arg->dims[0] = to - from;
    if (is_flat)
        arg->rank = 1;
}

/* NaN is NaN whatever its bits. */
static void expect_equal(const char *op, const op_array *whole, const op_array *piece, int out, int64_t parts, int64_t from)
{
    const int64_t at = whole->count / parts * from;

    for (int64_t i = 0; i < piece->count; i++) {
        const double want = whole->data[at + i], got = piece->data[i];
        if (memcmp(&want, &got, sizeof got) && !(isnan(want) && isnan(got)))
            fail_msg("%s: output %d, element %lld: %.17g of the whole, %.17g of the piece from %lld on", op, out, (long long)(at + i), want,
                     got, (long long)from);
    }
}

static void check_part(const char *op, const op_case *c, const op_values *whole, tr_dtype dtype, int64_t parts, int64_t from, int64_t to,
                       bool is_flat)
{
    op_case piece = *c;

    for (int i = 0; i < whole->in_count; i++)
        if (count_of(&c->in[i]) > 1)
            take_part(&piece.in[i], whole->in[i].data, parts, from, to, is_flat);
        else
            piece.in[i].values = whole->in[i].data;
    op_values got = run_op(op, &piece, dtype);
    for (int o = 0; o < got.out_count; o++) {
        if (whole->out[o].count % parts || got.out[o].count != whole->out[o].count / parts * (to - from))
            fail_msg("%s: output %d has %lld elements of the whole, %lld of %lld parts", op, o, (long long)whole->out[o].count,
                     (long long)got.out[o].count, (long long)(to - from));
        expect_equal(op, &whole->out[o], &got.out[o], o, parts, from);
    }
    op_values_free(&got);
}

/* Pieces that begin and end anywhere: within a vector of the processor, and across many. */
static void check_parts(const tr_op *op, const op_case *c, tr_dtype dtype)
{
    const bool    is_flat = op->locality == TR_POINTWISE;
    const int64_t parts = is_flat ? count_of(&c->in[0]) : c->in[0].dims[0];
    const int64_t cuts[] = {0, 1, parts / 3, parts / 2 + 1, parts};
    op_values     whole = run_op(op->type, c, dtype);

    for (size_t i = 0; i + 1 < sizeof cuts / sizeof *cuts; i++)
        if (cuts[i] < cuts[i + 1])
            check_part(op->type, c, &whole, dtype, parts, cuts[i], cuts[i + 1], is_flat);
    op_values_free(&whole);
}

/* -- cases of operators with inputs of one shape ------------------------------------------------------------ */

static bool is_number(const char *slot)
{
    return !strcmp(slot, "LearningRate") || !strcmp(slot, "Beta1Pow") || !strcmp(slot, "Beta2Pow");
}

static op_case usual_case(const tr_op *op, double low, double high)
{
    op_case c = {"usual"};

    for (int s = 0; s < tr_op_input_count(op); s++)
        c.in[s] = is_number(tr_op_input_name(op, s)) ? (op_arg)FLOATS(0.1, 0.9, 1) : (op_arg)FLOATS(low, high, HIGH, WIDE);
    return c;
}

static bool has_kernel(const tr_op *op, tr_dtype dtype)
{
    return op->run || op->kernels.of[dtype] || (op->types & TR_TYPE(dtype));
}

static int check_special(const tr_op *op)
{
    int count = 0;

    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(special[i].op, op->type)) {
            check_parts(op, &special[i].c, TR_FP32);
            if (has_kernel(op, TR_FP64))
                check_parts(op, &special[i].c, TR_FP64);
            count++;
        }
    return count;
}

static void check_usual(const tr_op *op)
{
    static const struct { tr_dtype dtype; double low, high; } kinds[] = {
        {TR_FP32, 0.1, 0.9}, {TR_FP32, -1, 1}, {TR_FP32, -30, 30}, {TR_FP64, 0.1, 0.9}, {TR_FP64, -1, 1},
        {TR_INT32, -9, 9}, {TR_INT64, -9, 9}, {TR_BOOL, 0, 2},
    };
    int count = 0;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (has_kernel(op, kinds[i].dtype) && !(op->run && kinds[i].dtype != TR_FP32)) {
            const op_case c = usual_case(op, kinds[i].low, kinds[i].high);
            check_parts(op, &c, kinds[i].dtype);
            count++;
        }
    if (count == 0)
        fail_msg("%s has no kernel that this test knows", op->type);
}

TEST(pieces_give_the_bits_of_the_whole)
{
    int count = 0;

    assert_int_equal(tr_init(), TR_OK);
    for (int i = 0; i < tr_op_count(); i++) {
        const tr_op *op = tr_op_at(i);
        if (op->locality == TR_NOT_LOCAL)
            continue;
        count++;
        if (check_special(op) == 0)
            check_usual(op);
    }
    assert_true(count > 100);
}

/* -- which operators must say so ------------------------------------------------------------------------------ */

TEST(every_optimizer_without_norms_works_point_by_point)
{
    for (int i = 0; i < tr_op_count(); i++) {
        const tr_op *op = tr_op_at(i);
        const bool   is_optimizer = op->updates && strcmp(tr_op_input_name(op, 0), "Param") == 0;
        if (is_optimizer && strcmp(op->type, "lars_momentum") != 0 && strcmp(op->type, "lamb") != 0 && op->locality != TR_POINTWISE)
            fail_msg("%s", op->type);
    }
}

TEST(operators_that_work_in_parts_draw_no_numbers_and_have_no_effect)
{
    for (int i = 0; i < tr_op_count(); i++) {
        const tr_op *op = tr_op_at(i);
        if (op->locality && (op->has_effect || op->has_block || op->is_random || op->io))
            fail_msg("%s", op->type);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_give_the_bits_of_the_whole),
        cmocka_unit_test(every_optimizer_without_norms_works_point_by_point),
        cmocka_unit_test(operators_that_work_in_parts_draw_no_numbers_and_have_no_effect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
