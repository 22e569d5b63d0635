/* op_check.h - the three questions to an operator: does it match a reference, is its gradient the numeric one, are
 * mistakes explained?
 *
 *     static void reference(op_values *v)           // computes with doubles whatever the type under test
 *     {
 *         for (int64_t i = 0; i < v->out[0].count; i++)
 *             v->out[0].data[i] = fmax(v->in[0].data[i], 0);
 *     }
 *     TEST(matches_reference)   { EACH(c) check_forward("relu", c, reference, 0); }
 *     TEST(gradient_is_numeric) { EACH(c) check_gradient("relu", c, 1e-5, 1e-7); }
 *     TEST(wrong_width_is_explained)
 *     {
 *         EXPECT_FAIL(TR_ESHAPE, "Y must have 4 rows", infer_shapes("mul", {DIMS(3, 4), DIMS(5, 2)}));
 *     }
 *
 * What else check_forward and check_gradient see to: inputs are left as they are although the operator may run in
 * place; a repeated run allocates nothing; one thread and four give the same bits; nothing depends on dimensions
 * being known when the program is built; the gradient of one input does not need that another is wanted, too; it
 * reads nothing but what its rule says. */
#pragma once

#include <math.h>

#include "tests/support/expect.h"
#include "tests/support/op_case.h"

/* One run: inputs as the case lists them, outputs slot by slot. */
typedef struct op_values {
    const op_case *c;
    int            in_count, out_count;
    op_array       in[OP_MAX_ARGS], out[OP_MAX_ARGS];
} op_values;

/* Fills in `out`, whose shapes are those the operator gave them. */
typedef void (*op_reference)(op_values *v);

/* In float32 and in float64. `tolerance` is relative to 1 + |expected| and meant for float32; for float64 it shrinks by
 * the ratio of the precisions. With 0 the result must be the reference's, rounded to the type. Then stored in bfloat16 and in
 * float16: results must be those of float32 for the same numbers, rounded once. */
void check_forward(const char *op, const op_case *c, op_reference reference, double tolerance);
/* The gradients of all float inputs, against central differences in float64, for random gradients of all float
 * outputs; and in float32 against those in float64, in bfloat16 and float16 against those in float32. `tolerance` is relative to 1 +
 * |expected|. */
void check_gradient(const char *op, const op_case *c, double step, double tolerance);

/* Of a composite operator: it, and its gradient operator, give the same bits as the operators that it is made of when
 * those stand in the program, with their own gradients. */
void check_expansion(const char *op, const op_case *c);

/* Run it and look for yourself; free the result. A failure ends the test. */
op_values run_op(const char *op, const op_case *c, tr_dtype dtype);
void      op_values_free(op_values *v);

/* Append the operator to a program: infer_shapes("mul", {inputs}, {attributes}). */
tr_status op_infer(const char *op, const op_case *c);
#define infer_shapes(op, ...) op_infer(op, &(const op_case){"", __VA_ARGS__})
/* Run it: run_status("lookup_table", {inputs}, {attributes}). */
tr_status op_run_status(const char *op, const op_case *c);
#define run_status(op, ...) op_run_status(op, &(const op_case){"", __VA_ARGS__})

/* The operator's first output comes out as "float32[?, 10]": EXPECT_SHAPE("float32[?, 10]", "mul", {inputs}). */
void op_expect_shape(const char *expected, const char *op, const op_case *c);
#define EXPECT_SHAPE(expected, op, ...) op_expect_shape(expected, op, &(const op_case){"", __VA_ARGS__})

/* Every row of the table `cases`, or of another one. */
#define EACH_OF(c, table) for (const op_case *c = (table); c < (table) + sizeof(table) / sizeof *(table); c++)
#define EACH(c)           EACH_OF(c, cases)
