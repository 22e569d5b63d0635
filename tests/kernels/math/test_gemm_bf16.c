/* test_gemm_bf16.c - bfloat16 products: packing and both micro kernels through a model of the instructions on every CPU, the
 * instructions themselves against the model where the CPU has them, and tr_gemm in this precision.
 *
 * Products of small integers are exact in every way, so there each way must give the very numbers of a triple loop. Products
 * of other numbers lie within the bound of gemm_bf16.h. */
#define TR_BF16_MODEL
#include "kernels/math/products/gemm_bf16_units.h"

#include "kernels/math/products/gemm_bf16.h"
#include "kernels/math/products/gemm_bf16_blocks.h"

#include "framework/threads/precision.h"
#include "kernels/math/images/conv.h"
#include "kernels/math/products/blas.h"
#include "tests/kernels/math/check.h"

static const int64_t shapes[][3] = {                          /* m, n, k */
    {1, 1, 1},    {1, 7, 9},      {7, 1, 9},     {3, 5, 2},     {16, 16, 16},  {16, 32, 32},   {32, 32, 32},  {33, 65, 17},
    {14, 32, 31}, {15, 33, 33},   {47, 50, 300}, {64, 64, 512}, {31, 31, 513}, {20, 96, 1030}, {290, 40, 48}, {5, 1061, 20},
    {281, 130, 33},
};

typedef void multiply_fn(int64_t m, int64_t n, int64_t k, const tr_bf16_product *g);

typedef struct operands {
    bool    ta, tb;
    int64_t m, n, k;
    float  *a, *b, *c, *c0;
} operands;

static float *numbers(int64_t count, uint64_t key, bool whole)
{
    float *x = random_f32(count, key, whole ? -9 : -1, whole ? 9 : 1);
    for (int64_t i = 0; i < count && whole; i++)
        x[i] = rintf(x[i]);
    return x;
}

static operands operands_of(const int64_t shape[3], int trans, bool whole)
{
    const int64_t m = shape[0], n = shape[1], k = shape[2];
    return (operands){trans & 1, trans & 2, m, n, k, numbers(m * k, 1, whole), numbers(k * n, 2, whole), numbers(m * n, 3, whole),
                      numbers(m * n, 3, whole)};
}

static void free_operands(operands *o)
{
    free(o->a), free(o->b), free(o->c), free(o->c0);
}

static tr_bf16_product product_of(const operands *o, bool by_tiles, float alpha, float beta)
{
    return (tr_bf16_product){o->ta, o->tb, by_tiles, o->ta ? o->m : o->k, o->tb ? o->k : o->n, o->n, alpha, beta, o->a, o->b, o->c};
}

/* The rounded numbers of a matrix of rows x cols, transposed or not: row by row of op. */
static double *rounded_rows(const float *x, bool trans, int64_t rows, int64_t cols)
{
    double *out = array_new(rows * cols, sizeof *out);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            out[i * cols + j] = (double)tr_f32_of_bf16(tr_bf16_of_f32(x[trans ? j * rows + i : i * cols + j]));
    return out;
}

/* The exact sum of k products, and of their sizes. */
static double exact(const double *a, const double *b, int64_t k, double *size)
{
    double sum = 0;
    *size = 0;
    for (int64_t p = 0; p < k; p++) {
        sum += a[p] * b[p];
        *size += fabs(a[p] * b[p]);
    }
    return sum;
}

static void check_result(const operands *o, float alpha, float beta, bool whole)
{
    double *a = rounded_rows(o->a, o->ta, o->m, o->k), *b = rounded_rows(o->b, !o->tb, o->n, o->k);
    for (int64_t i = 0; i < o->m; i++)
        for (int64_t j = 0; j < o->n; j++) {
            const double kept = beta == 0 ? 0 : (double)beta * (double)o->c0[i * o->n + j];
            double       size;
            const double want = (double)alpha * exact(a + i * o->k, b + j * o->k, o->k, &size) + kept, got = (double)o->c[i * o->n + j];
            const double bound = whole ? 0 : (double)(o->k + 2) * 0x1p-24 * (fabs((double)alpha) * size + fabs(kept));
            if (!(fabs(got - want) <= bound))
                fail_msg("m %lld n %lld k %lld trans %d %d alpha %g beta %g: c[%lld, %lld] is %.9g, expected %.9g within %.3g",
                         (long long)o->m, (long long)o->n, (long long)o->k, o->ta, o->tb, (double)alpha, (double)beta, (long long)i,
                         (long long)j, got, want, bound);
        }
    free(a), free(b);
}

static void check_products(multiply_fn *way, bool by_tiles, bool whole)
{
    static const float factors[][2] = {{1, 0}, {1, 1}, {2, 0}, {-0.5f, 4}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
        for (int trans = 0; trans < 4; trans++)
            for (size_t f = 0; f < 4; f++) {
                if (f > 0 && shapes[s][0] * shapes[s][1] * shapes[s][2] > 1000000)
                    continue;
                operands o = operands_of(shapes[s], trans, whole);
                for (int64_t i = 0; i < o.m * o.n && factors[f][1] == 0; i++)
                    o.c[i] = NAN;                             /* must not be read */
                const tr_bf16_product g = product_of(&o, by_tiles, factors[f][0], factors[f][1]);
                way(o.m, o.n, o.k, &g);
                check_result(&o, factors[f][0], factors[f][1], whole);
                free_operands(&o);
            }
}

/* -- the model: on every CPU ------------------------------------------------------------------------------------------ */

static void numbers_are_rounded_to_nearest_even(void **state)
{
    (void)state;
    const float in[] = {1, 1.00390625f, 1.01171875f, 1.004f, 3.4028235e38f, -INFINITY, NAN, -0.0f};
    const float want[] = {1, 1, 1.015625f, 1.0078125f, INFINITY, -INFINITY, NAN, -0.0f};
    float       got[8];
    tr__bf16_round(got, in, 2, 3, 4);                         /* two rows of 3, 4 apart */
    assert_memory_equal(got, want, 3 * sizeof *got);
    assert_true(isinf(got[3]) && isinf(got[4]) && isnan(got[5]));
    tr__bf16_round(got, in, 1, 8, 8);
    for (int i = 0; i < 8; i++)
        assert_true(isnan(want[i]) ? isnan(got[i]) : got[i] == want[i] && signbit(got[i]) == signbit(want[i]));
}

static void vectors_multiply_whole_numbers_exactly(void **state) { (void)state; check_products(multiply, false, true); }
static void tiles_multiply_whole_numbers_exactly(void **state) { (void)state; check_products(multiply, true, true); }
static void vectors_stay_within_the_bound(void **state) { (void)state; check_products(multiply, false, false); }
static void tiles_stay_within_the_bound(void **state) { (void)state; check_products(multiply, true, false); }

/* Rows [top, bottom) and columns [left, right) of a product computed alone. */
static void multiply_part(const operands *o, bool by_tiles, float beta, int64_t top, int64_t bottom, int64_t left, int64_t right)
{
    tr_bf16_product g = product_of(o, by_tiles, 1, beta);
    g.a += o->ta ? top : top * g.lda;
    g.b += o->tb ? left * g.ldb : left;
    g.c += top * g.ldc + left;
    multiply(bottom - top, right - left, o->k, &g);
}

static void cuts_change_no_bit(void **state)
{
    (void)state;
    const int64_t shape[3] = {70, 75, 600};
    for (int trans = 0; trans < 4; trans++)
        for (int how = 0; how < 4; how++) {
            const bool  by_tiles = how & 1;
            const float beta = how & 2 ? 1 : 0;
            operands    o = operands_of(shape, trans, false), whole = operands_of(shape, trans, false);
            multiply_part(&whole, by_tiles, beta, 0, 70, 0, 75);
            multiply_part(&o, by_tiles, beta, 0, 33, 0, 16);
            multiply_part(&o, by_tiles, beta, 33, 70, 0, 16);
            multiply_part(&o, by_tiles, beta, 0, 41, 16, 75);
            multiply_part(&o, by_tiles, beta, 41, 70, 16, 75);
            assert_memory_equal(o.c, whole.c, 70 * 75 * sizeof(float));
            free_operands(&o), free_operands(&whole);
        }
}

static void panels_make_the_product(void **state)
{
    (void)state;
    for (int how = 0; how < 8; how++) {
        const int64_t   shape[3] = {37, 80, how & 4 ? 1100 : 40};
        operands        o = operands_of(shape, how & 2, false), whole = operands_of(shape, how & 2, false);
        tr_bf16_product g = product_of(&o, how & 1, 1, 0), all = product_of(&whole, how & 1, 1, 0);
        uint32_t       *panels = aligned_alloc(64, (size_t)panels_words(o.n, o.k) * sizeof *panels);
        pack_panels(panels, o.tb, o.n, o.k, o.b, g.ldb);
        g.b = NULL;
        multiply_panels(o.m, o.n, o.k, &g, panels, 0, 32);
        multiply_panels(o.m, o.n, o.k, &g, panels, 32, 48);
        multiply(o.m, o.n, o.k, &all);
        assert_memory_equal(o.c, whole.c, (size_t)(o.m * o.n) * sizeof(float));
        free(panels);
        free_operands(&o), free_operands(&whole);
    }
}

static void nan_and_infinities_stay_in_their_row_and_column(void **state)
{
    (void)state;
    for (int by_tiles = 0; by_tiles < 2; by_tiles++) {
        const int64_t shape[3] = {20, 20, 35};
        operands      o = operands_of(shape, 0, false);
        o.a[3 * 35 + 34] = NAN;
        o.b[34 * 20 + 19] = INFINITY;
        const tr_bf16_product g = product_of(&o, by_tiles, 1, 0);
        multiply(20, 20, 35, &g);
        for (int64_t i = 0; i < 20; i++)
            for (int64_t j = 0; j < 20; j++)
                assert_int_equal(isfinite(o.c[i * 20 + j]) != 0, i != 3 && j != 19);
        free_operands(&o);
    }
}

/* -- the instructions ------------------------------------------------------------------------------------------------- */

static void check_instructions(tr_bf16_way least_way, const char *what)
{
    if (tr__bf16_way() < least_way) {
        print_message("skipped: this processor or its system has no %s\n", what);
        skip();
    }
    check_products(tr__gemm_bf16, least_way == TR_BF16_TILES, true);
    check_products(tr__gemm_bf16, least_way == TR_BF16_TILES, false);
}

static void vector_instructions_are_what_the_model_says(void **state) { (void)state; check_instructions(TR_BF16_VECTORS, "AVX512_BF16"); }
static void tile_instructions_are_what_the_model_says(void **state) { (void)state; check_instructions(TR_BF16_TILES, "AMX-BF16"); }

/* Packing is exact, so that panels must have the model's very words. */
static void packed_words_are_the_models(void **state)
{
    (void)state;
    if (tr__bf16_way() == TR_BF16_NONE) {
        print_message("skipped: this processor has no AVX512_BF16\n");
        skip();
    }
    for (int trans = 0; trans < 2; trans++) {
        const int64_t words = panels_words(77, 555);
        float        *b = random_f32(77 * 555, 5, -1, 1);
        uint32_t     *got = aligned_alloc(64, (size_t)words * sizeof *got), *want = aligned_alloc(64, (size_t)words * sizeof *want);
        memset(got, 0, (size_t)words * sizeof *got);
        memset(want, 0, (size_t)words * sizeof *want);
        assert_int_equal(tr__bf16_panels_words(77, 555), words);
        tr__bf16_panels_pack(got, trans, 77, 555, b, trans ? 555 : 77);
        pack_panels(want, trans, 77, 555, b, trans ? 555 : 77);
        assert_memory_equal(got, want, (size_t)words * sizeof *got);
        free(b), free(got), free(want);
    }
}

/* -- tr_gemm in this precision ------------------------------------------------------------------------------------------ */

static int enter_bfloat16(void **state)
{
    (void)state;
    tr__precision_enter(TR_PRECISION_BFLOAT16);
    return tr_blas_init() == TR_OK ? 0 : -1;
}

static int leave_bfloat16(void **state)
{
    (void)state;
    tr__precision_enter(TR_PRECISION_FLOAT32);
    return 0;
}

static void by_gemm(int64_t m, int64_t n, int64_t k, const tr_bf16_product *g)
{
    tr_gemm_f32(g->trans_a, g->trans_b, m, n, k, g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
}

static void by_gemm_one(int64_t m, int64_t n, int64_t k, const tr_bf16_product *g)
{
    tr_gemm_one_f32(g->trans_a, g->trans_b, m, n, k, g->alpha, g->a, g->lda, g->b, g->ldb, g->beta, g->c, g->ldc);
}

static void gemm_rounds_its_operands(void **state)
{
    (void)state;
    check_products(by_gemm, false, true);
    check_products(by_gemm, false, false);
    check_products(by_gemm_one, false, false);
}

static void empty_products_are_scaled(void **state)
{
    (void)state;
    float c[6] = {1, 2, 3, 4, 5, 6};
    tr_gemm_f32(false, false, 2, 3, 0, 1, c, 1, c, 3, 2, c, 3);
    assert_true(c[0] == 2 && c[5] == 12);
    tr_gemm_f32(false, false, 0, 3, 4, 1, c, 4, c, 3, 0, c, 3);
    tr_gemm_f32(false, false, 2, 0, 4, 1, c, 4, c, 1, 0, c, 1);
    assert_true(c[0] == 2 && c[5] == 12);
}

static void threads_do_not_matter(void **state)
{
    (void)state;
    const int64_t large[][3] = {{130, 150, 170}, {300, 301, 302}, {16, 1500, 700}, {283, 1061, 259}, {1500, 20, 700}};
    for (size_t s = 0; s < sizeof large / sizeof *large; s++)
        for (int trans = 0; trans < 4; trans++) {
            operands              o = operands_of(large[s], trans, false);
            const size_t          bytes = (size_t)(o.m * o.n) * sizeof(float);
            const tr_bf16_product g = product_of(&o, false, 1, trans == 1 ? 1 : 0);
            SAME_FOR_ALL_THREADS(o.c, bytes, memcpy(o.c, o.c0, bytes), by_gemm(o.m, o.n, o.k, &g));
            free_operands(&o);
        }
}

static void factors_make_the_product(void **state)
{
    (void)state;
    const int64_t sizes[][3] = {{64, 400, 100}, {100, 33, 1030}, {3, 70, 20}};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int trans = 0; trans < 4; trans += 2)
            for (int beta = 0; beta < 2; beta++) {
                operands      o = operands_of(sizes[s], trans, false);
                const int64_t rows = 64, size = tr_factor_size_f32(o.n, o.k, rows);
                float        *memory = aligned_alloc(64, (size_t)(size + 16) / 16 * 64);
                tr_factor_f32 factor;
                tr_factor_init_f32(&factor, trans, o.n, o.k, o.b, trans ? o.k : o.n, rows, memory);
                const size_t bytes = (size_t)(o.m * o.n) * sizeof(float);
                SAME_FOR_ALL_THREADS(o.c, bytes, memcpy(o.c, o.c0, bytes),
                                     tr_gemm_factor_f32(o.m, o.a, o.k, &factor, (float)beta, o.c, o.n));
                check_result(&o, 1, (float)beta, false);
                free(memory);
                free_operands(&o);
            }
}

static void batches_are_products(void **state)
{
    (void)state;
    const int64_t shape[3] = {6 * 9, 11, 40};                  /* 6 products of 9 x 11 that share B */
    operands      o = operands_of(shape, 0, false);
    tr_gemm_batched_f32(false, false, 6, 9, 11, 40, 1, o.a, 40, 9 * 40, o.b, 11, 0, 0, o.c, 11, 9 * 11);
    check_result(&o, 1, 0, false);
    free_operands(&o);
}

/* A 1x1 convolution of one image is a product: also inside of slices, and not by conv_direct.c nor conv_winograd.c. */
static void convolutions_round_their_operands(void **state)
{
    (void)state;
    const tr_conv_shape s = {.batch = 1, .in_channels = 40, .out_channels = 17, .groups = 1, .in = {1, 6, 9}, .out = {1, 6, 9},
                             .kernel = {1, 1, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}};
    const int64_t       shape[3] = {17, 54, 40};
    operands            o = operands_of(shape, 0, false);
    tr_conv_f32(o.c, o.b, o.a, NULL, &s);
    check_result(&o, 1, 0, false);
    free_operands(&o);
}

/* A group of one filter has no use for columns: its convolution is the same in both precisions where it goes directly, and
 * close where it does not. */
static void depthwise_convolutions_are_close(void **state)
{
    (void)state;
    enum { CHANNELS = 24, SIDE = 9 };
    const tr_conv_shape s = {.batch = 2, .in_channels = CHANNELS, .out_channels = CHANNELS, .groups = CHANNELS, .in = {1, SIDE, SIDE},
                             .out = {1, SIDE, SIDE}, .kernel = {1, 3, 3}, .stride = {1, 1, 1}, .pad = {0, 1, 1}, .dilation = {1, 1, 1}};
    const int64_t       size = 2 * CHANNELS * SIDE * SIDE;
    float *x = random_f32(size, 1, -1, 1), *w = random_f32(CHANNELS * 9, 2, -1, 1);
    float *rounded = array_new(size, sizeof *x), *exact = array_new(size, sizeof *x);

    tr_conv_f32(rounded, x, w, NULL, &s);
    const tr_precision before = tr__precision_enter(TR_PRECISION_FLOAT32);
    tr_conv_f32(exact, x, w, NULL, &s);
    tr__precision_enter(before);
    for (int64_t i = 0; i < size; i++)
        assert_true(fabsf(rounded[i] - exact[i]) <= 9 * 0x1p-8f);
    free(x), free(w), free(rounded), free(exact);
}

static void doubles_keep_theirs(void **state)
{
    (void)state;
    const double a = 1.001, b = 1.003;
    double       c = 0;
    tr_gemm_f64(false, false, 1, 1, 1, 1, &a, 1, &b, 1, 0, &c, 1);
    assert_true(fabs(c - a * b) < 1e-15);
}

static void note_precision(void *payload, int64_t slice)
{
    ((tr_precision *)payload)[slice] = tr__precision_now();
}

static void slices_have_the_callers_precision(void **state)
{
    (void)state;
    tr_precision seen[64];
    tr_set_num_threads(4);
    for (int round = 0; round < 200; round++) {
        const tr_precision mine = round % 3 ? TR_PRECISION_BFLOAT16 : TR_PRECISION_FLOAT32;
        tr__precision_enter(mine);
        tr_parallel(64, note_precision, seen);
        for (int i = 0; i < 64; i++)
            assert_int_equal(seen[i], mine);
    }
    tr_set_num_threads(2);
}

#define IN_BFLOAT16(test) cmocka_unit_test_setup_teardown(test, enter_bfloat16, leave_bfloat16)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(numbers_are_rounded_to_nearest_even),
        cmocka_unit_test(vectors_multiply_whole_numbers_exactly),
        cmocka_unit_test(tiles_multiply_whole_numbers_exactly),
        cmocka_unit_test(vectors_stay_within_the_bound),
        cmocka_unit_test(tiles_stay_within_the_bound),
        cmocka_unit_test(cuts_change_no_bit),
        cmocka_unit_test(panels_make_the_product),
        cmocka_unit_test(nan_and_infinities_stay_in_their_row_and_column),
        cmocka_unit_test(vector_instructions_are_what_the_model_says),
        cmocka_unit_test(tile_instructions_are_what_the_model_says),
        cmocka_unit_test(packed_words_are_the_models),
        IN_BFLOAT16(gemm_rounds_its_operands),
        IN_BFLOAT16(empty_products_are_scaled),
        IN_BFLOAT16(threads_do_not_matter),
        IN_BFLOAT16(factors_make_the_product),
        IN_BFLOAT16(batches_are_products),
        IN_BFLOAT16(convolutions_round_their_operands),
        IN_BFLOAT16(depthwise_convolutions_are_close),
        IN_BFLOAT16(doubles_keep_theirs),
        IN_BFLOAT16(slices_have_the_callers_precision),
    };
    print_message("bfloat16: %s\n", tr_bfloat16_way());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
