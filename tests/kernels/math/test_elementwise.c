/* test_elementwise.c - every operation and pattern of broadcasting against loops of scalars. */
#ifndef T
#include "kernels/math/arrays/elementwise.h"

#include "tests/kernels/math/check.h"

static const int64_t counts[][3] = {                          /* pre, n, post */
    {1, 0, 1}, {1, 1, 1}, {1, 17, 1},   {1, 1, 33},   {3, 5, 1},    {3, 5, 7},  {0, 4, 2},
    {4, 1, 6}, {2, 300, 1}, {1, 40000, 1}, {70, 700, 1}, {5, 9, 1001}, {9, 1, 1}, {1, 1, 40000},
};
enum { CASES = sizeof counts / sizeof *counts };

static int32_t *random_i32(int64_t n, uint64_t key, int32_t min, int32_t max)
{
    int32_t *x = array_new(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = min + (int32_t)tr_random_below(key, (uint64_t)i, (uint64_t)(max - min));
    return x;
}

static int64_t *random_i64(int64_t n, uint64_t key, int64_t min, int64_t max)
{
    int64_t *x = array_new(n, sizeof *x);
    for (int64_t i = 0; i < n; i++)
        x[i] = min + (int64_t)tr_random_below(key, (uint64_t)i, (uint64_t)(max - min));
    return x;
}

static void near_i32(double got, double want, double size, double units, const char *what, int64_t at)
{
    near_f64(got, want, size, 0 * units, what, at);
}

static void near_i64(double got, double want, double size, double units, const char *what, int64_t at)
{
    near_f64(got, want, size, 0 * units, what, at);
}

static double exact(tr_binary op, double a, double b, bool is_integer)
{
    if (is_integer && b == 0 && (op == TR_BINARY_DIV || op == TR_BINARY_MOD || op == TR_BINARY_FLOORDIV))
        return 0;
    switch (op) {
    case TR_BINARY_ADD: return a + b;
    case TR_BINARY_SUB: return a - b;
    case TR_BINARY_MUL: return a * b;
    case TR_BINARY_DIV: return is_integer ? trunc(a / b) : a / b;
    case TR_BINARY_MAX: return fmax(a, b);
    case TR_BINARY_MIN: return fmin(a, b);
    case TR_BINARY_POW: return !is_integer || b >= 0 ? pow(a, b) : a == 0 ? 0 : trunc(pow(a, b));
    case TR_BINARY_MOD: return a - b * floor(a / b);
    default:            return floor(a / b);
    }
}

static bool compares(tr_compare op, double a, double b)
{
    switch (op) {
    case TR_COMPARE_EQ: return a == b;
    case TR_COMPARE_NE: return a != b;
    case TR_COMPARE_LT: return a < b;
    case TR_COMPARE_LE: return a <= b;
    case TR_COMPARE_GT: return a > b;
    default:            return a >= b;
    }
}

static void logic_on_bytes(void **state)
{
    (void)state;
    const uint8_t a[] = {0, 0, 1, 1, 2}, b[] = {0, 1, 0, 1, 4};
    uint8_t       out[5];
    tr_logical_apply(TR_LOGICAL_AND, out, a, b, 5);
    assert_memory_equal(out, ((uint8_t[]){0, 0, 0, 1, 1}), 5);
    tr_logical_apply(TR_LOGICAL_OR, out, a, b, 5);
    assert_memory_equal(out, ((uint8_t[]){0, 1, 1, 1, 1}), 5);
    tr_logical_apply(TR_LOGICAL_XOR, out, a, b, 5);
    assert_memory_equal(out, ((uint8_t[]){0, 1, 1, 0, 0}), 5);
    tr_logical_not(out, a, 5);
    assert_memory_equal(out, ((uint8_t[]){1, 1, 0, 0, 0}), 5);
}

static void fills_of_every_size(void **state)
{
    (void)state;
    static unsigned char out[8 * 1001];
    const unsigned char  value[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    for (int64_t size = 1; size <= 8; size *= 2) {
        memset(out, 0, sizeof out);
        tr_fill(out, value, size, 1000);
        for (int64_t i = 0; i < 1001; i++)
            for (int64_t b = 0; b < size; b++)
                assert_int_equal(out[i * size + b], i < 1000 ? value[b] : 0);
    }
}

/* The smallest number divided by -1 would trap. */
static void the_smallest_integer_does_not_trap(void **state)
{
    (void)state;
    const int32_t a = INT32_MIN, b = -1;
    int32_t       out;
    tr_binary_apply_i32(TR_BINARY_DIV, &out, &a, &b, 1, 1, 1);
    assert_int_equal(out, INT32_MIN);
    tr_binary_apply_i32(TR_BINARY_MOD, &out, &a, &b, 1, 1, 1);
    assert_int_equal(out, 0);
    tr_binary_apply_i32(TR_BINARY_FLOORDIV, &out, &a, &b, 1, 1, 1);
    assert_int_equal(out, INT32_MIN);
}

#include "kernels/math/tools/each_number.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logic_on_bytes),
        cmocka_unit_test(fills_of_every_size),
        cmocka_unit_test(the_smallest_integer_does_not_trap),
        BOTH(operations_match), cmocka_unit_test(operations_match_i32), cmocka_unit_test(operations_match_i64),
        BOTH(comparisons_match), cmocka_unit_test(comparisons_match_i32), cmocka_unit_test(comparisons_match_i64),
        BOTH(vectors_match), cmocka_unit_test(vectors_match_i32), cmocka_unit_test(vectors_match_i64),
        BOTH(gradients_match),
        BOTH(bias_and_activation_match),
        BOTH(dropout_keeps_what_the_mask_says),
        BOTH(infinities_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else

#if T_IS_FLOATING
enum { NAME(LOW) = 1, NAME(IS_INTEGER) = 0 };
#else
enum { NAME(LOW) = -6, NAME(IS_INTEGER) = 1 };
#endif

static void NAME(operations_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const int64_t pre = counts[c][0], n = counts[c][1], post = counts[c][2], size = pre * n * post;
        T *a = NAME(random)(size, 1, NAME(LOW), 5), *b = NAME(random)(n, 2, NAME(LOW), 5), *out = array_new(size, sizeof(T));
        for (int op = 0; op < TR_BINARY_COUNT; op++) {
            SAME_FOR_ALL_THREADS(out, size * (int64_t)sizeof(T), (void)0, NAME(tr_binary_apply)(op, out, a, b, pre, n, post));
            for (int64_t i = 0; i < size; i++) {
                const double x = (double)a[i], y = (double)b[i / post % n], want = exact(op, x, y, NAME(IS_INTEGER));
                NAME(near)((double)out[i], want, fabs(want) + (op == TR_BINARY_MOD ? 5 : 0), 2, "out", i);
            }
            memcpy(out, a, (size_t)size * sizeof(T));
            NAME(tr_binary_apply)(op, out, out, b, pre, n, post);             /* in place */
            for (int64_t i = 0; i < size; i++)
                NAME(near)((double)out[i], exact(op, (double)a[i], (double)b[i / post % n], NAME(IS_INTEGER)), 3200, 2,
                           "in place", i);
        }
        free(a), free(b), free(out);
    }
}

static void NAME(comparisons_match)(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++) {
        const int64_t pre = counts[c][0], n = counts[c][1], post = counts[c][2], size = pre * n * post;
        T       *a = NAME(random)(size, 1, 0, 3), *b = NAME(random)(n, 2, 0, 3);
        uint8_t *out = array_new(size, 1);
        for (int64_t i = 0; i < size; i += 3)
            a[i] = b[i / post % n];
        for (int op = 0; op < TR_COMPARE_COUNT; op++) {
            NAME(tr_compare_apply)(op, out, a, b, pre, n, post);
            for (int64_t i = 0; i < size; i++)
                assert_int_equal(out[i], compares(op, (double)a[i], (double)b[i / post % n]));
        }
        free(a), free(b), free(out);
    }
}

static void NAME(vectors_match)(void **state)
{
    (void)state;
    const int64_t sizes[] = {0, 1, 31, 40000};
    for (int s = 0; s < 4; s++) {
        const int64_t n = sizes[s];
        T *x = NAME(random)(n, 1, NAME(LOW), 9), *y = NAME(random)(n, 2, NAME(LOW), 9), *z = NAME(random)(n, 3, NAME(LOW), 9);
        T *out = array_new(n, sizeof(T));
        const T *const all[] = {x, y, z};
        NAME(tr_scale)(out, x, 3, 2, n);
        for (int64_t i = 0; i < n; i++)
            NAME(near)((double)out[i], 3 * (double)x[i] + 2, 30, 1, "scale", i);
        memcpy(out, y, (size_t)n * sizeof(T));
        NAME(tr_axpy)(out, 2, x, n);
        for (int64_t i = 0; i < n; i++)
            NAME(near)((double)out[i], (double)y[i] + 2 * (double)x[i], 30, 1, "axpy", i);
        NAME(tr_sum_arrays)(out, all, 3, n);
        for (int64_t i = 0; i < n; i++)
            NAME(near)((double)out[i], (double)x[i] + (double)y[i] + (double)z[i], 30, 2, "sum", i);
        NAME(tr_clip)(out, x, 2, 4, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(out[i] == (x[i] < 2 ? 2 : x[i] > 4 ? 4 : x[i]));
        NAME(tr_clip_grad)(out, y, x, 2, 4, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(out[i] == (x[i] > 2 && x[i] < 4 ? y[i] : 0));
        NAME(tr_sum_arrays)(x, all, 3, n);                                    /* into the first */
        for (int64_t i = 0; i < n; i++)
            out[i] = x[i] - y[i] - z[i];
        NAME(tr_sum_arrays)(out, NULL, 0, n);
        for (int64_t i = 0; i < n; i++)
            assert_true(out[i] == 0);
        free(x), free(y), free(z), free(out);
    }
}

#if T_IS_FLOATING
static void NAME(exact_grad)(tr_binary op, double *da, double *db, double d, double a, double b)
{
    const bool to_a = op == TR_BINARY_MAX ? a > b : a < b;
    switch (op) {
    case TR_BINARY_ADD: *da = d, *db = d; break;
    case TR_BINARY_SUB: *da = d, *db = -d; break;
    case TR_BINARY_MUL: *da = d * b, *db = d * a; break;
    case TR_BINARY_DIV: *da = d / b, *db = -d * a / b / b; break;
    case TR_BINARY_POW: *da = d * b * pow(a, b - 1), *db = d * pow(a, b) * log(a); break;
    default:            *da = to_a ? d : 0, *db = to_a ? 0 : d;
    }
}

static void NAME(check_gradient)(tr_binary op, int64_t pre, int64_t n, int64_t post)
{
    const int64_t size = pre * n * post;
    T *a = NAME(random)(size, 1, 1, 2), *b = NAME(random)(n, 2, 1, 2), *d = NAME(random)(size, 3, -1, 1);
    T *da = array_new(size, sizeof(T)), *db = array_new(n, sizeof(T));
    double *sum = calloc((size_t)n + 1, sizeof *sum);
    SAME_FOR_ALL_THREADS(db, n * (int64_t)sizeof(T), (void)0, NAME(tr_binary_grad)(op, da, db, d, a, b, pre, n, post));
    for (int64_t i = 0; i < size; i++) {
        double to_a, to_b;
        NAME(exact_grad)(op, &to_a, &to_b, (double)d[i], (double)a[i], (double)b[i / post % n]);
        NAME(near)((double)da[i], to_a, fabs(to_a), 4, "da", i);
        sum[i / post % n] += to_b;
    }
    for (int64_t i = 0; i < n; i++)
        NAME(near)((double)db[i], sum[i], 4 * sqrt((double)(pre * post)) + fabs(sum[i]), 8, "db", i);
    NAME(tr_binary_grad)(op, d, NULL, d, a, b, pre, n, post);                 /* in place */
    assert_memory_equal(d, da, (size_t)size * sizeof(T));
    free(a), free(b), free(d), free(da), free(db), free(sum);
}

static void NAME(gradients_match)(void **state)
{
    (void)state;
    const tr_binary ops[] = {TR_BINARY_ADD, TR_BINARY_SUB, TR_BINARY_MUL, TR_BINARY_DIV, TR_BINARY_MAX, TR_BINARY_MIN,
                             TR_BINARY_POW};
    for (int c = 0; c < CASES; c++)
        for (int o = 0; o < 7; o++)
            NAME(check_gradient)(ops[o], counts[c][0], counts[c][1], counts[c][2]);
}

static void NAME(bias_and_activation_match)(void **state)
{
    (void)state;
    const int64_t shapes[][2] = {{0, 3}, {1, 1}, {3, 10}, {64, 128}, {300, 300}, {2, 5000}};
    const tr_act  acts[] = {TR_ACT_identity, TR_ACT_relu, TR_ACT_sigmoid};
    for (int s = 0; s < 6; s++)
        for (int k = 0; k < 3; k++) {
            const int64_t rows = shapes[s][0], cols = shapes[s][1], size = rows * cols;
            T *x = NAME(random)(size, 1, -2, 2), *bias = NAME(random)(cols, 2, -2, 2), *out = array_new(size, sizeof(T));
            SAME_FOR_ALL_THREADS(out, size * (int64_t)sizeof(T), (void)0,
                                 NAME(tr_bias_act)(out, x, bias, rows, cols, acts[k], 0, 0));
            for (int64_t i = 0; i < size; i++) {
                const double u = (double)(T)(x[i] + bias[i % cols]);
                const double want = k == 0 ? u : k == 1 ? fmax(u, 0) : 1 / (1 + exp(-u));
                NAME(near)((double)out[i], want, fabs(want), 4, "out", i);
            }
            NAME(tr_bias_act)(x, x, bias, rows, cols, acts[k], 0, 0);
            assert_memory_equal(x, out, (size_t)size * sizeof(T));
            free(x), free(bias), free(out);
        }
}

static void NAME(dropout_keeps_what_the_mask_says)(void **state)
{
    (void)state;
    enum { N = 50001 };
    T       *x = NAME(random)(N, 1, 1, 2), *out = array_new(N, sizeof(T)), *dx = array_new(N, sizeof(T));
    uint8_t *mask = array_new(N, 1), *want = array_new(N, 1);
    SAME_FOR_ALL_THREADS(out, N * sizeof(T), (void)0, NAME(tr_dropout)(out, mask, x, N, 5, 10, 0.7, 2));
    tr_random_bernoulli(want, N, 5, 10, 0.7);
    assert_memory_equal(mask, want, N);
    NAME(tr_dropout_grad)(dx, x, mask, N, 2);
    for (int i = 0; i < N; i++) {
        assert_true(out[i] == (mask[i] ? x[i] * 2 : 0));
        assert_true(dx[i] == out[i]);
    }
    free(x), free(out), free(dx), free(mask), free(want);
}

static void NAME(infinities_are_found)(void **state)
{
    (void)state;
    enum { N = 5000 };
    const T bad[] = {(T)NAN, (T)INFINITY, -(T)INFINITY};
    T      *x = NAME(random)(N, 1, -1, 1);
    x[7] = sizeof(T) == 4 ? (T)FLT_MAX : (T)DBL_MAX;
    assert_true(NAME(tr_all_finite)(x, N));
    assert_true(NAME(tr_all_finite)(x, 0));
    for (int i = 0; i < N; i += 613)
        for (int b = 0; b < 3; b++) {
            const T old = x[i];
            x[i] = bad[b];
            assert_false(NAME(tr_all_finite)(x, N));
            x[i] = old;
        }
    free(x);
}
#endif

#endif
