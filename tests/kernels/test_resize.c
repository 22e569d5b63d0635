/* test_resize.c - images in another size or place: bilinear_interp, nearest_interp, affine_grid, grid_sampler. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 1e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-7); }

#define TO(h, w) INT_ATTR("out_h", h), INT_ATTR("out_w", w)
#define CORNERS(on) BOOL_ATTR("align_corners", on)
#define SIZE_2 {SIZE(2), .values = LIST(3, 7), .is_typed = true, .dtype = TR_INT32}

static double at(const op_array *a, int64_t plane, int64_t y, int64_t x)
{
    return a->data[(plane * a->dims[2] + y) * a->dims[3] + x];
}

/* -- interpolation ------------------------------------------------------------------------------------------ */

static const op_case bilinear_cases[] = {
    {"larger", {DIMS(2, 3, 3, 4)}, {TO(5, 9)}, {DIMS(2, 3, 5, 9)}},
    {"smaller", {DIMS(1, 2, 7, 8)}, {TO(3, 2)}},
    {"no corners, mode 1", {DIMS(1, 2, 3, 4)}, {TO(7, 5), CORNERS(0)}},
    {"no corners, mode 0", {DIMS(1, 2, 3, 4)}, {TO(7, 5), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"smaller, mode 0", {DIMS(1, 2, 7, 5)}, {TO(3, 2), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"one element", {DIMS(2, 1, 1, 1)}, {TO(3, 2)}},
    {"to one element", {DIMS(2, 1, 3, 4)}, {TO(1, 1)}},
    {"scale", {DIMS(1, 1, 3, 4)}, {TO(-1, -1), FLOAT_ATTR("scale", 2.5)}, {DIMS(1, 1, 7, 10)}},
    {"fed size", {DIMS(1, 2, 2, 3), SIZE_2}, {TO(1, 1)}, {DIMS(1, 2, 3, 7)}},
    {"no images", {DIMS(0, 2, 2, 3)}, {TO(4, 4)}},
};
#define NEAREST STRING_ATTR("interp_method", "nearest")
static const op_case nearest_cases[] = {
    {"larger", {DIMS(2, 3, 3, 4)}, {TO(5, 9), NEAREST}, {DIMS(2, 3, 5, 9)}},
    {"smaller", {DIMS(1, 2, 7, 8)}, {TO(3, 2), NEAREST}},
    {"no corners", {DIMS(1, 2, 3, 4)}, {TO(7, 5), CORNERS(0), NEAREST}},
    {"to one element", {DIMS(2, 1, 3, 4)}, {TO(1, 1), NEAREST}},
    {"scale", {DIMS(1, 1, 3, 4)}, {TO(-1, -1), FLOAT_ATTR("scale", 2)}, {DIMS(1, 1, 6, 8)}},
    {"method of the other operator", {DIMS(1, 2, 3, 4)}, {TO(4, 7), STRING_ATTR("interp_method", "bilinear")}},
    {"no images", {DIMS(0, 2, 2, 3)}, {TO(4, 4)}},
};

static double source(const op_case *c, bool is_nearest, int64_t k, int64_t in, int64_t out)
{
    if (op_case_number(c, "align_corners", 1) != 0)
        return out > 1 ? (double)(k * (in - 1)) / (double)(out - 1) : 0;
    if (is_nearest || op_case_number(c, "align_mode", 1) != 0)
        return (double)(k * in) / (double)out;
    return fmax(((double)k + 0.5) * (double)in / (double)out - 0.5, 0);
}

static void bilinear_reference(op_values *v)
{
    const op_array *in = &v->in[0];
    op_array       *out = &v->out[0];

    for (int64_t i = 0; i < out->count; i++) {
        const int64_t x = i % out->dims[3], y = i / out->dims[3] % out->dims[2], plane = i / out->dims[3] / out->dims[2];
        const double  sy = source(v->c, false, y, in->dims[2], out->dims[2]), sx = source(v->c, false, x, in->dims[3], out->dims[3]);
        double        sum = 0;
        for (int64_t a = 0; a < in->dims[2]; a++)          /* every element counts with its distance */
            for (int64_t b = 0; b < in->dims[3]; b++) {
                const double dy = fmin(fabs(sy - (double)a), 1), dx = fmin(fabs(sx - (double)b), 1);
                const double beyond_y = a == in->dims[2] - 1 && sy > (double)a ? 0 : dy;
                const double beyond_x = b == in->dims[3] - 1 && sx > (double)b ? 0 : dx;
                sum += (1 - beyond_y) * (1 - beyond_x) * at(in, plane, a, b);
            }
        out->data[i] = sum;
    }
}

static void nearest_reference(op_values *v)
{
    const op_array *in = &v->in[0];
    op_array       *out = &v->out[0];
    const double    half = op_case_number(v->c, "align_corners", 1) != 0 ? 0.5 : 0;

    for (int64_t i = 0; i < out->count; i++) {
        const int64_t x = i % out->dims[3], y = i / out->dims[3] % out->dims[2], plane = i / out->dims[3] / out->dims[2];
        const double  sy = source(v->c, true, y, in->dims[2], out->dims[2]), sx = source(v->c, true, x, in->dims[3], out->dims[3]);
        out->data[i] = at(in, plane, (int64_t)floor(sy + half + 1e-9), (int64_t)floor(sx + half + 1e-9));
    }
}

THREE_QUESTIONS(bilinear, "bilinear_interp", bilinear_cases, bilinear_reference)
THREE_QUESTIONS(nearest, "nearest_interp", nearest_cases, nearest_reference)

TEST(interp_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "so dimension 2 of Out would be 0", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2)}, {TO(0, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "nothing to take elements from", infer_shapes("nearest_interp", {DIMS(1, 1, 0, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "write the operator nearest_interp", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2)}, {TO(2, 4), NEAREST}));
    EXPECT_FAIL(TR_ERANGE, "one of bilinear, nearest", infer_shapes("nearest_interp", {DIMS(1, 1, 2, 2)}, {TO(2, 4), STRING_ATTR("interp_method", "cubic")}));
    EXPECT_FAIL(TR_ESHAPE, "X must", infer_shapes("bilinear_interp", {DIMS(1, 2, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "OutSize must be [2], got [3]", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2), INT32S(1, 2, 3)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "both must be at least 1", run_status("nearest_interp", {DIMS(1, 1, 2, 2), INT32S(0, 1, 2)}, {TO(2, 4)}));
    EXPECT_SHAPE("float32[?, 3, 4, 4]", "bilinear_interp", {DIMS(-1, 3, -1, -1)}, {TO(4, 4)});
    EXPECT_SHAPE("float32[?, 3, ?, 6]", "nearest_interp", {DIMS(-1, 3, -1, 3)}, {TO(0, 0), FLOAT_ATTR("scale", 2)});
}

/* -- grids ---------------------------------------------------------------------------------------------------- */

#define SHAPE_4 {SIZE(4), .values = LIST(2, 3, 4, 5), .is_typed = true, .dtype = TR_INT32}

static const op_case grid_cases[] = {
    {"two images", {DIMS(2, 2, 3)}, {INTS_ATTR("output_shape", 2, 3, 4, 5)}, {DIMS(2, 4, 5, 2)}},
    {"one element", {DIMS(1, 2, 3)}, {INTS_ATTR("output_shape", 1, 1, 1, 1)}},
    {"fed shape", {DIMS(2, 2, 3), SHAPE_4}, {}, {DIMS(2, 4, 5, 2)}},
    {"no images", {DIMS(0, 2, 3)}, {INTS_ATTR("output_shape", 0, 3, 2, 2)}},
};
static const op_case sampler_cases[] = {
    {"inside", {DIMS(2, 3, 4, 5), FLOATS(-0.9, 0.9, 2, 3, 2, 2)}, {}, {DIMS(2, 3, 3, 2)}},
    {"partly outside", {DIMS(1, 2, 3, 3), FLOATS(-1.7, 1.7, 1, 4, 5, 2)}},
    {"far outside", {DIMS(1, 2, 3, 3), FLOATS(5, 9, 1, 2, 2, 2)}},
    {"one element", {DIMS(2, 1, 1, 1), FLOATS(-1, 1, 2, 2, 2, 2)}},
    {"no images", {DIMS(0, 2, 3, 3), DIMS(0, 2, 2, 2)}},
};

static void grid_reference(op_values *v)
{
    op_array *out = &v->out[0];

    for (int64_t i = 0; i < out->count; i++) {
        const int64_t k = i % 2, x = i / 2 % out->dims[2], y = i / 2 / out->dims[2] % out->dims[1], n = i / 2 / out->dims[2] / out->dims[1];
        const double *row = v->in[0].data + n * 6 + k * 3;
        const double  u = out->dims[2] > 1 ? -1 + 2 * (double)x / (double)(out->dims[2] - 1) : -1;
        const double  w = out->dims[1] > 1 ? -1 + 2 * (double)y / (double)(out->dims[1] - 1) : -1;
        out->data[i] = row[0] * u + row[1] * w + row[2];
    }
}

static void sampler_reference(op_values *v)
{
    const op_array *in = &v->in[0], *grid = &v->in[1];
    op_array       *out = &v->out[0];
    const int64_t   places = out->dims[2] * out->dims[3];

    for (int64_t i = 0; i < out->count; i++) {
        const int64_t plane = i / places, n = plane / in->dims[1];
        const double *place = grid->data + 2 * (n * places + i % places);
        const double  sx = (place[0] + 1) / 2 * (double)(in->dims[3] - 1), sy = (place[1] + 1) / 2 * (double)(in->dims[2] - 1);
        out->data[i] = 0;
        for (int64_t y = 0; y < in->dims[2]; y++)
            for (int64_t x = 0; x < in->dims[3]; x++)
                out->data[i] += fmax(1 - fabs(sy - (double)y), 0) * fmax(1 - fabs(sx - (double)x), 0) * at(in, plane, y, x);
    }
}

THREE_QUESTIONS(grid, "affine_grid", grid_cases, grid_reference)
THREE_QUESTIONS(sampler, "grid_sampler", sampler_cases, sampler_reference)

TEST(grid_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ESHAPE, "Theta must be [?, 2, 3], got [1, 3, 3]", infer_shapes("affine_grid", {DIMS(1, 3, 3)}, {INTS_ATTR("output_shape", 1, 1, 2, 2)}));
    EXPECT_FAIL(TR_ERANGE, "must have 4 numbers", infer_shapes("affine_grid", {DIMS(1, 2, 3)}));
    EXPECT_FAIL(TR_ESHAPE, "for the 2 matrices of Theta", infer_shapes("affine_grid", {DIMS(2, 2, 3)}, {INTS_ATTR("output_shape", 1, 1, 2, 2)}));
    EXPECT_FAIL(TR_ESHAPE, "above 0", run_status("affine_grid", {DIMS(1, 2, 3), INT32S(0, 1, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "Grid must be [2, ?, ?, 2]", infer_shapes("grid_sampler", {DIMS(2, 1, 3, 3), DIMS(1, 3, 3, 2)}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bilinear_matches_reference), cmocka_unit_test(bilinear_gradient_is_numeric),
        cmocka_unit_test(nearest_matches_reference),  cmocka_unit_test(nearest_gradient_is_numeric),
        cmocka_unit_test(interp_mistakes_are_explained),
        cmocka_unit_test(grid_matches_reference),     cmocka_unit_test(grid_gradient_is_numeric),
        cmocka_unit_test(sampler_matches_reference),  cmocka_unit_test(sampler_gradient_is_numeric),
        cmocka_unit_test(grid_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
