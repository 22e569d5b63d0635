/* test_resize.c - what is in another size or place: *_interp and *_interp_v2, affine_grid, grid_sampler. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#define THREE_QUESTIONS(name, op, cases, reference)                                                   \
    TEST(name##_matches_reference)   { EACH_OF(c, cases) check_forward(op, c, reference, 4e-6); }     \
    TEST(name##_gradient_is_numeric) { EACH_OF(c, cases) check_gradient(op, c, 1e-5, 1e-7); }

#define TO(h, w) INT_ATTR("out_h", h), INT_ATTR("out_w", w)
#define CORNERS(on) BOOL_ATTR("align_corners", on)
#define METHOD(name) STRING_ATTR("interp_method", name)
#define SIZE_OF(n, ...) {SIZE(n), .values = LIST(__VA_ARGS__), .is_typed = true, .dtype = TR_INT32}
#define SIZE_2 SIZE_OF(2, 3, 7)

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
    {"to one element, mode 0", {DIMS(2, 1, 3, 4)}, {TO(1, 2), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"scale", {DIMS(1, 1, 3, 4)}, {TO(-1, -1), FLOAT_ATTR("scale", 2.5)}, {DIMS(1, 1, 7, 10)}},
    {"a scale that floats round up", {DIMS(1, 1, 10, 4)}, {TO(-1, -1), FLOAT_ATTR("scale", 0.7)}, {DIMS(1, 1, 7, 2)}},
    {"fed size", {DIMS(1, 2, 2, 3), SIZE_2}, {TO(1, 1)}, {DIMS(1, 2, 3, 7)}},
    {"no images", {DIMS(0, 2, 2, 3)}, {TO(4, 4)}},
};
#define NEAREST METHOD("nearest")
static const op_case nearest_cases[] = {
    {"larger", {DIMS(2, 3, 3, 4)}, {TO(5, 9), NEAREST}, {DIMS(2, 3, 5, 9)}},
    {"smaller", {DIMS(1, 2, 7, 8)}, {TO(3, 2), NEAREST}},
    {"no corners", {DIMS(1, 2, 3, 4)}, {TO(7, 5), CORNERS(0), NEAREST}},
    {"to one element", {DIMS(2, 1, 3, 4)}, {TO(1, 1), NEAREST}},
    {"scale", {DIMS(1, 1, 3, 4)}, {TO(-1, -1), FLOAT_ATTR("scale", 2)}, {DIMS(1, 1, 6, 8)}},
    {"method of the other operator", {DIMS(1, 2, 3, 4)}, {TO(4, 7), STRING_ATTR("interp_method", "bilinear")}},
    {"no images", {DIMS(0, 2, 2, 3)}, {TO(4, 4)}},
};

static const op_case linear_cases[] = {
    {"longer", {DIMS(2, 3, 4)}, {INT_ATTR("out_w", 9), METHOD("linear")}, {DIMS(2, 3, 9)}},
    {"shorter, mode 0", {DIMS(1, 2, 7)}, {INT_ATTR("out_w", 3), CORNERS(0), INT_ATTR("align_mode", 0), METHOD("linear")}},
    {"mode 1", {DIMS(1, 2, 5)}, {INT_ATTR("out_w", 8), CORNERS(0)}},
    {"to one element", {DIMS(2, 1, 5)}, {INT_ATTR("out_w", 1), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"scale", {DIMS(1, 2, 10)}, {FLOAT_ATTR("scale", 0.7)}, {DIMS(1, 2, 7)}},
    {"fed size", {DIMS(1, 2, 3), SIZE_OF(1, 5)}, {INT_ATTR("out_w", 1)}, {DIMS(1, 2, 5)}},
    {"no lines", {DIMS(0, 2, 3)}, {INT_ATTR("out_w", 4)}},
};
static const op_case cubic_cases[] = {
    {"larger", {DIMS(2, 3, 3, 4)}, {TO(5, 9), METHOD("bicubic")}, {DIMS(2, 3, 5, 9)}},
    {"smaller", {DIMS(1, 2, 7, 8)}, {TO(3, 2), CORNERS(0), METHOD("bicubic")}},
    {"larger, no corners", {DIMS(1, 2, 3, 4)}, {TO(7, 5), CORNERS(0), METHOD("bicubic")}},
    {"one element", {DIMS(2, 1, 1, 1)}, {TO(3, 2), CORNERS(0)}},
    {"to one element", {DIMS(2, 1, 3, 4)}, {TO(1, 5), CORNERS(0)}},
    {"as large", {DIMS(1, 2, 3, 4)}, {TO(3, 4), CORNERS(0)}},
    {"scale", {DIMS(1, 1, 3, 4)}, {FLOAT_ATTR("scale", 2.5)}, {DIMS(1, 1, 7, 10)}},
    {"fed size", {DIMS(1, 2, 2, 3), SIZE_2}, {TO(1, 1)}, {DIMS(1, 2, 3, 7)}},
    {"no images", {DIMS(0, 2, 2, 3)}, {TO(4, 4)}},
};
#define TO_3(d, h, w) INT_ATTR("out_d", d), TO(h, w)
static const op_case trilinear_cases[] = {
    {"larger", {DIMS(2, 2, 2, 3, 4)}, {TO_3(3, 5, 6), METHOD("trilinear")}, {DIMS(2, 2, 3, 5, 6)}},
    {"mode 1", {DIMS(1, 2, 3, 2, 4)}, {TO_3(5, 3, 3), CORNERS(0)}},
    {"mode 0", {DIMS(1, 2, 3, 2, 4)}, {TO_3(5, 3, 3), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"to one element", {DIMS(1, 1, 3, 2, 4)}, {TO_3(1, 1, 1), CORNERS(0), INT_ATTR("align_mode", 0)}},
    {"scale", {DIMS(1, 1, 2, 3, 2)}, {FLOAT_ATTR("scale", 1.5)}, {DIMS(1, 1, 3, 4, 3)}},
    {"fed size", {DIMS(1, 2, 2, 2, 3), SIZE_OF(3, 3, 4, 2)}, {TO_3(1, 1, 1)}, {DIMS(1, 2, 3, 4, 2)}},
    {"no volumes", {DIMS(0, 2, 2, 3, 2)}, {TO_3(1, 2, 3)}},
};
#define SCALES(...) FLOATS_ATTR("scale", __VA_ARGS__)
static const op_case later_lines[] = {{"a half too much", {DIMS(1, 2, 5)}, {SCALES(1.5), CORNERS(0), INT_ATTR("align_mode", 0)}, {DIMS(1, 2, 7)}}};
static const op_case later_cubics[] = {{"a half too much", {DIMS(1, 2, 5, 3)}, {SCALES(1.5, 2), CORNERS(0)}, {DIMS(1, 2, 7, 6)}}};
static const op_case later_volumes[] = {{"a half too much", {DIMS(1, 1, 3, 2, 5)}, {SCALES(1.5, 2, 0.5), CORNERS(0)}, {DIMS(1, 1, 4, 4, 2)}}};

typedef enum { NEAREST_ONE, LINEAR, CUBIC } how;

static double source(const op_case *c, how method, int axis, int64_t k, int64_t in, int64_t out)
{
    double step = (double)in / (double)out;

    if (op_case_number(c, "align_corners", 1) != 0)
        return out > 1 ? (double)(k * (in - 1)) / (double)(out - 1) : 0;
    for (int i = 0; i < OP_MAX_ATTRS && c->attr[i].name; i++)
        step = strcmp(c->attr[i].name, "scale") == 0 && c->attr[i].list ? 1 / c->attr[i].list[axis] : step;
    if (out == 1)                                          /* as in Fluid */
        step = 0;
    if (method == CUBIC)
        return ((double)k + 0.5) * step - 0.5;
    return method == NEAREST_ONE || op_case_number(c, "align_mode", 1) != 0 ? (double)k * step : fmax(((double)k + 0.5) * step - 0.5, 0);
}

/* Keys, 1981. */
static double keys(double d)
{
    const double a = -0.75;
    return d <= 1 ? (a + 2) * d * d * d - (a + 3) * d * d + 1 : d < 2 ? a * d * d * d - 5 * a * d * d + 8 * a * d - 4 * a : 0;
}

/* What element m of the source counts for at place s. */
static double weight(const op_case *c, how method, double s, int64_t m, int64_t in)
{
    double sum = 0;

    if (method == NEAREST_ONE)
        return (int64_t)floor(s + (op_case_number(c, "align_corners", 1) != 0 ? 0.5 : 0) + 1e-9) == m;
    for (int64_t i = -3; i < in + 3; i++)              /* beyond an end its last element stands */
        if ((i < 0 ? 0 : i < in ? i : in - 1) == m)
            sum += method == CUBIC ? keys(fabs(s - (double)i)) : fmax(1 - fabs(s - (double)i), 0);
    return sum;
}

static void resize(op_values *v, how method)
{
    const op_array *in = &v->in[0];
    op_array       *out = &v->out[0];
    const int       axes = in->rank - 2;
    int64_t         plane = 1;

    for (int a = 0; a < axes; a++)
        plane *= in->dims[a + 2];
    for (int64_t i = 0; i < out->count; i++) {
        int64_t place[3], rest = i;
        for (int a = axes - 1; a >= 0; rest /= out->dims[2 + a--])
            place[a] = rest % out->dims[2 + a];
        out->data[i] = 0;
        for (int64_t k = 0; k < plane; k++) {
            double  all = 1;
            int64_t left = k;
            for (int a = axes - 1; a >= 0; left /= in->dims[2 + a--])
                all *= weight(v->c, method, source(v->c, method, a, place[a], in->dims[2 + a], out->dims[2 + a]), left % in->dims[2 + a], in->dims[2 + a]);
            out->data[i] += all * in->data[rest * plane + k];
        }
    }
}

static void linear_reference(op_values *v)  { resize(v, LINEAR); }
static void nearest_reference(op_values *v) { resize(v, NEAREST_ONE); }
static void cubic_reference(op_values *v)   { resize(v, CUBIC); }

THREE_QUESTIONS(linear, "linear_interp", linear_cases, linear_reference)
THREE_QUESTIONS(bilinear, "bilinear_interp", bilinear_cases, linear_reference)
THREE_QUESTIONS(nearest, "nearest_interp", nearest_cases, nearest_reference)
THREE_QUESTIONS(bicubic, "bicubic_interp", cubic_cases, cubic_reference)
THREE_QUESTIONS(trilinear, "trilinear_interp", trilinear_cases, linear_reference)
THREE_QUESTIONS(later_linear, "linear_interp_v2", later_lines, linear_reference)
THREE_QUESTIONS(later_bicubic, "bicubic_interp_v2", later_cubics, cubic_reference)
THREE_QUESTIONS(later_trilinear, "trilinear_interp_v2", later_volumes, linear_reference)

TEST(interp_mistakes_are_explained)
{
    EXPECT_FAIL(TR_ERANGE, "so dimension 2 of Out would be 0", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2)}, {TO(0, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "nothing to take elements from", infer_shapes("nearest_interp", {DIMS(1, 1, 0, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "bilinear_interp: interp_method is that of another operator; write the operator nearest_interp", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2)}, {TO(2, 4), NEAREST}));
    EXPECT_FAIL(TR_ERANGE, "one of linear, bilinear, nearest, bicubic, trilinear", infer_shapes("nearest_interp", {DIMS(1, 1, 2, 2)}, {TO(2, 4), STRING_ATTR("interp_method", "cubic")}));
    EXPECT_FAIL(TR_ESHAPE, "X must", infer_shapes("bilinear_interp", {DIMS(1, 2, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "OutSize must be [2], got [3]", infer_shapes("bilinear_interp", {DIMS(1, 1, 2, 2), INT32S(1, 2, 3)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "nearest_interp: OutSize 'x1' is 0 for dimension 2, where X has 2; Out must have at least 1", run_status("nearest_interp", {DIMS(1, 1, 2, 2), INT32S(0, 1, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ESHAPE, "X must have rank 5", infer_shapes("trilinear_interp", {DIMS(1, 2, 2, 2)}, {TO(2, 4)}));
    EXPECT_FAIL(TR_ERANGE, "scale must have 1 elements above 0", infer_shapes("linear_interp_v2", {DIMS(1, 2, 2)}, {SCALES(2, 2)}));
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

#define BOTH(name) cmocka_unit_test(name##_matches_reference), cmocka_unit_test(name##_gradient_is_numeric)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(linear), BOTH(bilinear), BOTH(nearest), BOTH(bicubic), BOTH(trilinear), BOTH(later_linear), BOTH(later_bicubic), BOTH(later_trilinear),
        cmocka_unit_test(interp_mistakes_are_explained), BOTH(grid), BOTH(sampler),
        cmocka_unit_test(grid_mistakes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
