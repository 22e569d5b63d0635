/* op_check.c - see op_check.h. */
#include "tests/support/op_check.h"
#include "tests/support/op_rig.h"

#include <stdio.h>
#include <stdlib.h>

/* -- saying what went wrong ------------------------------------------------------------------------------- */

static void must(const op_rig *rig, tr_status status, const char *what)
{
    if (status != TR_OK)
        fail_msg("%s, case '%s', %s: %s failed: %s", rig->op, rig->c ? rig->c->name : "?", tr_dtype_name(rig->dtype),
                 what, tr_error());
}

static void differ(const op_rig *rig, const char *what, int index, int64_t element, double got, double want)
{
    fail_msg("%s, case '%s', %s: %s %d, element %lld: got %.17g, expected %.17g (off by %g)", rig->op, rig->c->name,
             tr_dtype_name(rig->dtype), what, index, (long long)element, got, want, got - want);
}

static bool is_close(double got, double want, double tolerance)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    return got == want || fabs(got - want) <= tolerance * (1 + fabs(want));
}

static void expect_close(const op_rig *rig, const char *what, int index, const op_array *got, const op_array *want,
                         double tolerance)
{
    if (got->count != want->count)
        fail_msg("%s, case '%s': %s %d has %lld elements, expected %lld", rig->op, rig->c->name, what, index,
                 (long long)got->count, (long long)want->count);
    for (int64_t i = 0; i < got->count; i++) {
        const double expected = op_round(got->dtype, want->data[i]);
        if (!is_close(got->data[i], expected, tolerance))
            differ(rig, what, index, i, got->data[i], expected);
    }
}

static void expect_same_bits(const op_rig *rig, const char *what, int index, tr_tensor *got, const op_array *want)
{
    op_array array = op_array_of_tensor(got);

    expect_close(rig, what, index, &array, want, 0);
    op_array_free(&array);
}

/* -- running ------------------------------------------------------------------------------------------------ */

static void take_outputs(op_values *v, const op_rig *rig)
{
    *v = (op_values){.c = rig->c, .in_count = rig->in_count, .out_count = rig->out_count};
    for (int i = 0; i < rig->in_count; i++)
        v->in[i] = op_array_of_input(rig->c, i, rig->dtype);
    for (int i = 0; i < rig->out_count; i++)
        v->out[i] = op_array_of_tensor(rig->result[i]);
}

void op_values_free(op_values *v)
{
    for (int i = 0; i < OP_MAX_ARGS; i++) {
        op_array_free(&v->in[i]);
        op_array_free(&v->out[i]);
    }
}

op_values run_op(const char *op, const op_case *c, tr_dtype dtype)
{
    op_rig    rig;
    op_values v;

    must(&(op_rig){.op = op, .c = c, .dtype = dtype}, op_rig_init(&rig, op, c, dtype, OP_PLAIN), "building");
    op_rig_fetch_outputs(&rig);
    must(&rig, op_rig_run(&rig), "running");
    take_outputs(&v, &rig);
    op_rig_deinit(&rig);
    return v;
}

tr_status op_run_status(const char *op, const op_case *c)
{
    op_rig    rig;
    tr_status status = op_rig_init(&rig, op, c, TR_FP32, OP_PLAIN);

    if (status != TR_OK)
        return status;
    op_rig_fetch_outputs(&rig);
    status = op_rig_run(&rig);
    op_rig_deinit(&rig);
    return status;
}

tr_status op_infer(const char *op, const op_case *c)
{
    op_rig          rig;
    const tr_status status = op_rig_init(&rig, op, c, TR_FP32, OP_SHAPES_ONLY);

    if (status == TR_OK)
        op_rig_deinit(&rig);
    return status;
}

void op_expect_shape(const char *expected, const char *op, const op_case *c)
{
    char   text[160];
    op_rig rig;

    must(&(op_rig){.op = op, .c = c, .dtype = TR_FP32}, op_rig_init(&rig, op, c, TR_FP32, OP_SHAPES_ONLY),
         "shape inference");
    const tr_var_desc *out = tr_block_find_var(tr_program_block(rig.program, 0), "out0");
    int                n = snprintf(text, sizeof text, "%s[", tr_dtype_name(tr_var_desc_dtype(out)));
    for (int i = 0; i < tr_var_desc_rank(out); i++) {
        const int64_t dim = tr_var_desc_dims(out)[i];
        n += snprintf(text + n, sizeof text - (size_t)n, dim < 0 ? "%s?" : "%s%lld", i ? ", " : "", (long long)dim);
    }
    snprintf(text + n, sizeof text - (size_t)n, "]");
    op_rig_deinit(&rig);
    assert_string_equal(text, expected);
}

/* -- forward --------------------------------------------------------------------------------------------------- */

static void expect_out(const op_rig *rig, int i)
{
    const op_arg *want = &rig->c->out[i];
    tr_tensor    *got = rig->result[i];

    if (want->rank == 0)
        return;
    if (tr_tensor_rank(got) != want->rank ||
        memcmp(tr_tensor_dims(got), want->dims, (size_t)want->rank * sizeof *want->dims) != 0)
        fail_msg("%s, case '%s': output %d has rank %d and begins with %lld, expected rank %d and %lld", rig->op,
                 rig->c->name, i, tr_tensor_rank(got), (long long)tr_tensor_dims(got)[0], want->rank,
                 (long long)want->dims[0]);
    if (want->is_typed)
        assert_int_equal(tr_tensor_dtype(got), want->dtype);
    for (int level = 0; level < OP_MAX_LODS && want->lod[level].count > 0; level++) {
        assert_int_equal(tr_tensor_lod_count(got, level), want->lod[level].count);
        assert_memory_equal(tr_tensor_lod_offsets(got, level), want->lod[level].item,
                            (size_t)want->lod[level].count * sizeof(int64_t));
    }
    if (want->height > 0) {
        assert_true(tr_tensor_has_rows(got));
        assert_int_equal(tr_tensor_height(got), want->height);
        assert_memory_equal(tr_tensor_rows(got), want->rows.item, (size_t)want->rows.count * sizeof(int64_t));
    }
}

/* Repeated, on one thread and on four: the same bits, and no allocation. */
static void expect_repeatable(op_rig *rig, const op_values *first)
{
    enum { WARM = 3 };
    int64_t before = 0;

    for (int run = 0; run < WARM + 2; run++) {
        if (run == WARM)
            before = tr_plan_allocations(rig->plan);
        tr_set_num_threads(run % 2 ? 1 : 4);
        must(rig, op_rig_run(rig), "a repeated run");
        for (int i = 0; i < rig->out_count; i++)
            expect_same_bits(rig, "repeated with another number of threads, output", i, rig->result[i],
                             &first->out[i]);
    }
    tr_set_num_threads(0);
    if (tr_plan_allocations(rig->plan) != before)
        fail_msg("%s, case '%s': a repeated run allocates memory (%lld times in 2 runs)", rig->op, rig->c->name,
                 (long long)(tr_plan_allocations(rig->plan) - before));
}

/* Fetched after the run, inputs are what was fed, and outputs are what they were. All inputs are fetched, or all but
 * `dying`, whose memory an output may take over then. */
static void expect_inputs_untouched(op_rig *rig, const op_values *first, int dying)
{
    op_rig_fetch_nothing(rig);
    for (int i = 0; i < rig->out_count; i++)
        op_rig_fetch(rig, dying < 0 ? "out%d" : "copy%d", i);
    for (int i = 0; i < rig->in_count; i++)
        if (rig->c->in[i].rank > 0 && i != dying)
            op_rig_fetch(rig, "x%d", i);
    must(rig, op_rig_run(rig), "running with inputs fetched");
    for (int i = 0; i < rig->out_count; i++)
        expect_same_bits(rig, "with inputs fetched, output", i, rig->result[i], &first->out[i]);
    for (int i = 0, at = rig->out_count; i < rig->in_count; i++)
        if (rig->c->in[i].rank > 0 && i != dying)
            expect_same_bits(rig, "after the run, input", i, rig->result[at++], &rig->in[i]);
}

/* As before, in a program that does not know any dimension; each input in turn is the one that dies. */
static void expect_the_same_in_place(const char *op, const op_case *c, tr_dtype dtype, const op_values *first)
{
    enum { NOBODY = -1 };
    op_rig rig;

    must(&(op_rig){.op = op, .c = c, .dtype = dtype}, op_rig_init(&rig, op, c, dtype, OP_UNKNOWN_DIMS),
         "building without known dimensions");
    for (int dying = NOBODY; dying < rig.in_count; dying++)
        expect_inputs_untouched(&rig, first, dying);
    op_rig_deinit(&rig);
}

static void check_forward_in(const char *op, const op_case *c, op_reference reference, double tolerance,
                             tr_dtype dtype)
{
    op_rig    rig;
    op_values first, expected;

    must(&(op_rig){.op = op, .c = c, .dtype = dtype}, op_rig_init(&rig, op, c, dtype, OP_PLAIN), "building");
    op_rig_fetch_outputs(&rig);
    must(&rig, op_rig_run(&rig), "running");
    take_outputs(&first, &rig);
    take_outputs(&expected, &rig);
    for (int i = 0; i < rig.out_count; i++)
        expect_out(&rig, i);
    for (int i = 0; i < rig.out_count && reference; i++)      /* what it does not fill in is wrong */
        for (int64_t k = 0; k < expected.out[i].count; k++)
            expected.out[i].data[k] = NAN;
    if (reference)
        reference(&expected);
    for (int i = 0; i < rig.out_count; i++)
        expect_close(&rig, "output", i, &first.out[i], &expected.out[i], tolerance);
    expect_repeatable(&rig, &first);
    op_rig_deinit(&rig);
    expect_the_same_in_place(op, c, dtype, &first);
    op_values_free(&first);
    op_values_free(&expected);
}

static bool depends_on_tested_type(const op_case *c)
{
    for (int i = 0; i < op_case_inputs(c); i++)
        if (c->in[i].rank > 0 && !c->in[i].is_typed)
            return true;
    return false;
}

/* -- stored in 16 bits --------------------------------------------------------------------------------------------- */

static const tr_dtype halves[] = {TR_BF16, TR_FP16};

/* Products have the factors that the kernel for `half` has. */
static void set_precision(op_rig *rig, tr_dtype half)
{
    must(rig, tr_executor_set_matmul_precision(rig->executor, half == TR_BF16 ? "bfloat16" : "float32"), "setting the precision");
}

/* The operator for numbers of type `half`, stored as such and as float32. False: there is no such kernel. */
static bool half_rigs(op_rig *stored, op_rig *wide, const char *op, const op_case *c, tr_dtype half)
{
    const tr_status status = op_rig_init_rounded(stored, op, c, half, half);

    if (status == TR_EDTYPE)
        return false;
    must(&(op_rig){.op = op, .c = c, .dtype = half}, status, "building");
    must(stored, op_rig_init_rounded(wide, op, c, TR_FP32, half), "building");
    set_precision(wide, half);
    return true;
}

static void expect_rounded_once(const char *op, const op_case *c, tr_dtype half)
{
    op_rig    stored, wide;
    op_values first, exact;

    if (!half_rigs(&stored, &wide, op, c, half))
        return;
    op_rig_fetch_outputs(&stored);
    op_rig_fetch_outputs(&wide);
    must(&stored, op_rig_run(&stored), "running");
    must(&wide, op_rig_run(&wide), "running");
    take_outputs(&first, &stored);
    take_outputs(&exact, &wide);
    for (int i = 0; i < stored.out_count; i++)
        expect_close(&stored, "rounded once, output", i, &first.out[i], &exact.out[i], 0);
    expect_repeatable(&stored, &first);
    op_rig_deinit(&stored);
    op_rig_deinit(&wide);
    op_values_free(&first);
    op_values_free(&exact);
}

void check_forward(const char *op, const op_case *c, op_reference reference, double tolerance)
{
    op_rig_keep(op, c, false);
    check_forward_in(op, c, reference, tolerance, TR_FP32);
    if (depends_on_tested_type(c))
        check_forward_in(op, c, reference, tolerance * 0x1p-29, TR_FP64);
    for (int h = 0; h < 2 && depends_on_tested_type(c) && !tr_op_is_composite(tr_op_find(op)); h++)
        expect_rounded_once(op, c, halves[h]);
}

/* -- gradient ---------------------------------------------------------------------------------------------------- */

/* sum of weight * out over all outputs */
static double loss_of(op_rig *rig, const op_rig *weights)
{
    double loss = 0;

    must(rig, op_rig_run(rig), "running for the numeric gradient");
    for (int i = 0; i < rig->out_count; i++) {
        const double *out = tr_tensor_data(rig->result[i]);
        if (weights->weight[i].rank == 0)
            continue;
        for (int64_t k = 0; k < weights->weight[i].count; k++)
            loss += weights->weight[i].data[k] * out[k];
    }
    return loss;
}

static op_array numeric_gradient(op_rig *rig, const op_rig *weights, int i, double step)
{
    op_array gradient = op_array_of_input(rig->c, i, TR_FP64);
    double  *x = rig->bytes[i];

    for (int64_t k = 0; k < gradient.count; k++) {
        const double kept = x[k];
        x[k] = kept + step;
        const double above = loss_of(rig, weights);
        x[k] = kept - step;
        const double below = loss_of(rig, weights);
        x[k] = kept;
        gradient.data[k] = (above - below) / (2 * step);
    }
    return gradient;
}

/* A rig with gradients of all inputs but `without`, run and fetched: result[n] is that of the n-th of them. */
static void gradient_rig(op_rig *rig, const char *op, const op_case *c, tr_dtype dtype, int without)
{
    op_values plain = run_op(op, c, dtype);

    must(&(op_rig){.op = op, .c = c, .dtype = dtype}, op_rig_init(rig, op, c, dtype, OP_PLAIN), "building");
    must(rig, op_rig_add_gradients(rig, plain.out, without), "appending gradients");
    op_rig_fetch_gradients(rig, without);
    must(rig, op_rig_run(rig), "running the gradient");
    op_values_free(&plain);
}

static int gradient_count(const op_rig *rig)
{
    int count = 0;

    for (int i = 0; i < rig->in_count; i++)
        count += op_rig_has_gradient(rig, i);
    return count;
}

/* In float32, and with one input at a time not wanted: as in `full`. */
static void expect_variants(const op_rig *full)
{
    enum { EVERY_ONE = -1 };
    op_rig rig;

    gradient_rig(&rig, full->op, full->c, TR_FP32, EVERY_ONE);
    for (int n = 0; n < full->gradient_count; n++) {
        op_array got = op_array_of_tensor(rig.result[n]), want = op_array_of_tensor(full->result[n]);
        expect_close(&rig, "float32 beside float64, gradient", n, &got, &want, 1e-4);
        op_array_free(&got);
        op_array_free(&want);
    }
    op_rig_deinit(&rig);
    for (int without = 0; without < full->in_count && gradient_count(full) > 1; without++) {
        if (!op_rig_has_gradient(full, without))
            continue;
        gradient_rig(&rig, full->op, full->c, TR_FP64, without);
        for (int i = 0, n = 0, m = 0; i < full->in_count; i++) {
            if (!op_rig_has_gradient(full, i))
                continue;
            op_array want = op_array_of_tensor(full->result[n++]);
            if (i != without)
                expect_same_bits(&rig, "when another is not wanted, gradient", i, rig.result[m++], &want);
            op_array_free(&want);
        }
        op_rig_deinit(&rig);
    }
}

static void expect_no_allocation(op_rig *rig)
{
    enum { WARM = 3 };
    int64_t before = 0;

    for (int run = 0; run < WARM + 2; run++) {
        if (run == WARM)
            before = tr_plan_allocations(rig->plan);
        must(rig, op_rig_run(rig), "a repeated gradient");
    }
    if (tr_plan_allocations(rig->plan) != before)
        fail_msg("%s, case '%s': a repeated gradient allocates memory", rig->op, rig->c->name);
}

/* Forward results that a gradient operator reads are rounded: a part in 2^8 or 2^11 of what it computes may differ. */
static void expect_half_gradients(const char *op, const op_case *c, tr_dtype half)
{
    const double tolerance = half == TR_BF16 ? 0.125 : 0.015625;
    op_rig       stored, wide;

    if (!half_rigs(&stored, &wide, op, c, half))
        return;
    op_rig_fetch_outputs(&stored);
    must(&stored, op_rig_run(&stored), "running");
    op_values plain = run_op(op, c, TR_FP32);
    op_values own;
    take_outputs(&own, &stored);
    must(&stored, op_rig_add_gradients(&stored, own.out, -1), "appending gradients");
    must(&wide, op_rig_add_gradients(&wide, plain.out, -1), "appending gradients");
    op_rig_fetch_gradients(&stored, -1);
    op_rig_fetch_gradients(&wide, -1);
    must(&stored, op_rig_run(&stored), "running the gradient");
    must(&wide, op_rig_run(&wide), "running the gradient");
    for (int n = 0; n < stored.gradient_count; n++) {
        op_array got = op_array_of_tensor(stored.result[n]), want = op_array_of_tensor(wide.result[n]);
        expect_close(&stored, "beside float32, gradient", n, &got, &want, tolerance);
        op_array_free(&got);
        op_array_free(&want);
    }
    expect_no_allocation(&stored);
    op_values_free(&plain);
    op_values_free(&own);
    op_rig_deinit(&stored);
    op_rig_deinit(&wide);
}

void check_gradient(const char *op, const op_case *c, double step, double tolerance)
{
    op_rig full, forward;

    op_rig_keep(op, c, true);
    gradient_rig(&full, op, c, TR_FP64, -1);
    must(&full, op_rig_init(&forward, op, c, TR_FP64, OP_PLAIN), "building");
    op_rig_fetch_outputs(&forward);
    for (int i = 0, n = 0; i < full.in_count; i++) {
        if (!op_rig_has_gradient(&full, i))
            continue;
        op_array got = op_array_of_tensor(full.result[n++]), want = numeric_gradient(&forward, &full, i, step);
        expect_close(&full, "gradient of input", i, &got, &want, tolerance);
        op_array_free(&got);
        op_array_free(&want);
    }
    expect_no_allocation(&full);
    expect_variants(&full);
    for (int h = 0; h < 2 && !c->has_jumps; h++)
        expect_half_gradients(op, c, halves[h]);
    op_rig_deinit(&forward);
    op_rig_deinit(&full);
}

/* -- expansion ------------------------------------------------------------------------------------------------------ */

static void expand(op_rig *rig)
{
    tr_program *expanded;

    must(rig, tr_program_expand(&expanded, rig->program), "expanding");
    tr_block *block = tr_program_block(expanded, 0);
    for (int i = 0; i < tr_block_op_count(block); i++)
        assert_false(tr_op_is_composite(tr_op_find(tr_op_desc_type(tr_block_op_at(block, i)))));
    tr_program_free(rig->program);
    rig->program = expanded;
}

static void expect_same_results(const op_rig *rig, const op_rig *other, const char *what)
{
    for (int i = 0; i < rig->fetch_count; i++) {
        op_array want = op_array_of_tensor(other->result[i]);
        expect_same_bits(rig, what, i, rig->result[i], &want);
        op_array_free(&want);
    }
}

void check_expansion(const char *op, const op_case *c)
{
    op_rig    whole, parts;
    op_values plain = run_op(op, c, TR_FP64);

    assert_true(tr_op_is_composite(tr_op_find(op)));
    must(&(op_rig){.op = op, .c = c, .dtype = TR_FP64}, op_rig_init(&whole, op, c, TR_FP64, OP_PLAIN), "building");
    must(&whole, op_rig_init(&parts, op, c, TR_FP64, OP_PLAIN), "building");
    expand(&parts);
    for (int pass = 0; pass < (tr_op_has_grad(tr_op_find(op)) ? 2 : 1); pass++) {
        op_rig *const rigs[] = {&whole, &parts};
        for (int r = 0; r < 2; r++) {
            if (pass == 0) {
                op_rig_fetch_outputs(rigs[r]);
            } else {
                must(rigs[r], op_rig_add_gradients(rigs[r], plain.out, -1), "appending gradients");
                op_rig_fetch_gradients(rigs[r], -1);
            }
            must(rigs[r], op_rig_run(rigs[r]), "running");
        }
        expect_same_results(&parts, &whole, pass == 0 ? "of its parts, output" : "of its parts, gradient");
    }
    op_values_free(&plain);
    op_rig_deinit(&whole);
    op_rig_deinit(&parts);
}
