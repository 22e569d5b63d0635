/* bench_math.c - the arithmetic floor beside what the machine can do: products beside one large one-thread product, vector
 * functions beside the triad, both measured in this run.
 *
 *     bench_math [THREADS]          default: all; the first column is always one thread
 *
 * Every figure is the best of ROUNDS rounds, since other processes only slow a round down. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "framework/base/compiler.h"
#include "framework/tensors/random.h"
#include "framework/threads/threadpool.h"
#include "kernels/math/arrays/activation.h"
#include "kernels/math/arrays/elementwise.h"
#include "kernels/math/arrays/norm.h"
#include "kernels/math/arrays/reduce.h"
#include "kernels/math/arrays/rows.h"
#include "kernels/math/arrays/softmax.h"
#include "kernels/math/arrays/transpose.h"
#include "kernels/math/images/conv.h"
#include "kernels/math/images/pool.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/tools/cast.h"
#include "kernels/math/training/optimizer.h"

enum { ROUNDS = 9, N = 1 << 23, COLS = 256, ROWS = N / COLS };

static float   *a, *b, *c, *d, *stats;
static int64_t *ids;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds of the best round; short work is repeated within a round. */
static double best_of(void (*run)(const void *arg), const void *arg)
{
    double best = 1e9, once = now();
    run(arg);
    once = now() - once;
    const int repeats = once > 1e-3 ? 1 : 1 + (int)(1e-3 / (once + 1e-9));
    for (int round = 0; round < ROUNDS; round++) {
        const double start = now();
        for (int i = 0; i < repeats; i++)
            run(arg);
        const double seconds = (now() - start) / repeats;
        best = seconds < best ? seconds : best;
    }
    return best;
}

static double best_with(int threads, void (*run)(const void *arg), const void *arg)
{
    tr_set_num_threads(threads);
    return best_of(run, arg);
}

/* -- products ------------------------------------------------------------------------------------------------ */

typedef struct product {
    int64_t m, k, n;
    bool    trans_a, trans_b;
} product;

static const product products[] = {
    {1024, 1024, 1024, 0, 0}, {512, 512, 512, 0, 0}, {64, 784, 128, 0, 0},   {784, 64, 128, 1, 0},  {64, 128, 784, 0, 1},
    {32, 784, 128, 0, 0},     {256, 784, 1024, 0, 0}, {784, 256, 1024, 1, 0}, {256, 1024, 784, 0, 1}, {256, 400, 400, 0, 0},
    {512, 273, 400, 0, 0},    {16, 2048, 2048, 0, 0}, {100, 256, 2073, 0, 0}, {3136, 500, 50, 0, 0},  {20, 25, 576, 0, 0},
    {50, 500, 64, 0, 0},      {32, 32, 32, 0, 0},     {1, 1, 1, 0, 0},
};

static void multiply(const void *arg)
{
    const product *p = arg;
    tr_gemm_f32(p->trans_a, p->trans_b, p->m, p->n, p->k, 1, a, p->trans_a ? p->m : p->k, b, p->trans_b ? p->k : p->n, 0, c,
                p->n);
}

static void multiply_raw(const void *arg)
{
    const product *p = arg;
    tr_gemm_one_f32(p->trans_a, p->trans_b, p->m, p->n, p->k, 1, a, p->trans_a ? p->m : p->k, b, p->trans_b ? p->k : p->n, 0,
                    c, p->n);
}

static void bench_products(int threads)
{
    printf("\n%-24s %10s %10s %10s   GFLOP/s (OpenBLAS core %s)\n", "product m, k, n", "raw, 1", "ours, 1", "ours, all",
           tr_blas_core());
    for (int i = 0; i < TR_COUNT(products); i++) {
        const product *p = &products[i];
        const double   work = 2e-9 * (double)p->m * (double)p->n * (double)p->k;
        printf("%5" PRId64 ",%5" PRId64 ",%5" PRId64 " %c%c     %10.1f %10.1f %10.1f\n", p->m, p->k, p->n, p->trans_a ? 'T' : 'N',
               p->trans_b ? 'T' : 'N', work / best_with(1, multiply_raw, p), work / best_with(1, multiply, p),
               work / best_with(threads, multiply, p));
    }
}

/* -- memory: bytes are those that must move, an element read or written once each ------------------------------- */

TR_CLONES static void triad_range(void *unused, int64_t begin, int64_t end)
{
    (void)unused;
    for (int64_t i = begin; i < end; i++)
        a[i] = b[i] + 3 * c[i];
}

static void triad(const void *arg) { (void)arg; tr_parallel_range(N, 65536, triad_range, NULL); }
static void add(const void *arg) { (void)arg; tr_binary_apply_f32(TR_BINARY_ADD, a, b, c, 1, N, 1); }
static void add_in_place(const void *arg) { (void)arg; tr_binary_apply_f32(TR_BINARY_ADD, a, a, c, 1, N, 1); }
static void bias_relu(const void *arg) { (void)arg; tr_bias_act_f32(a, b, stats, ROWS, COLS, TR_ACT_relu, 0, 0); }
static void scale(const void *arg) { (void)arg; tr_scale_f32(a, b, 2, 1, N); }
static void axpy(const void *arg) { (void)arg; tr_axpy_f32(a, 1e-9f, b, N); }
static void act(const void *arg) { tr_act_apply_f32(*(const tr_act *)arg, a, b, N, 1, 1); }
static void act_grad(const void *arg) { tr_act_grad_f32(*(const tr_act *)arg, a, b, c, c, N, 1, 1); }
static void sgd(const void *arg) { (void)arg; tr_sgd_f32(a, NULL, b, 1e-9f, N); }
static void momentum(const void *arg) { (void)arg; tr_momentum_f32(a, b, NULL, c, 1e-9f, 0.9f, false, N); }
static void adam(const void *arg) { (void)arg; tr_adam_f32(a, b, d, NULL, c, 1e-9f, 0.9f, 0.999f, 1e-8f, N); }
static void adagrad(const void *arg) { (void)arg; tr_adagrad_f32(a, d, NULL, c, 1e-9f, 1e-6f, N); }
static void sum_all(const void *arg) { (void)arg; tr_reduce_apply_f32(TR_REDUCE_SUM, stats, b, 1, N, 1); }
static void sum_rows(const void *arg) { (void)arg; tr_reduce_apply_f32(TR_REDUCE_SUM, a, b, ROWS, COLS, 1); }
static void sum_columns(const void *arg) { (void)arg; tr_reduce_apply_f32(TR_REDUCE_SUM, stats, b, 1, ROWS, COLS); }
static void softmax(const void *arg) { (void)arg; tr_softmax_f32(a, b, ROWS, COLS); }
static void softmax_grad(const void *arg) { (void)arg; tr_softmax_grad_f32(a, b, c, ROWS, COLS); }
static void dropout(const void *arg) { (void)arg; tr_dropout_f32(a, (uint8_t *)d, b, N, 1, 0, 0.5, 2); }
static void normal(const void *arg) { (void)arg; tr_random_normal_f32(a, N, 1, 0, 0, 1); }
static void uniform(const void *arg) { (void)arg; tr_random_uniform_f32(a, N, 1, 0, 0, 1); }
static void to_half(const void *arg) { (void)arg; tr_cast(a, TR_FP16, b, TR_FP32, N); }
static void gather(const void *arg) { (void)arg; tr_rows_gather(a, b, ids, N / 16, 64, -1); }
static void scatter_add(const void *arg) { (void)arg; tr_rows_scatter_add_f32(a, ids, b, N / 16, 16, -1); }
static void batch_norm(const void *arg) { (void)arg; tr_batch_norm_f32(a, b, stats, stats, stats, stats, 32, 256, N / 32 / 256); }
static void channel_stats(const void *arg) { (void)arg; tr_channel_stats_f32(stats, stats + 256, b, 32, 256, N / 32 / 256); }
static void layer_norm(const void *arg) { (void)arg; tr_layer_norm_f32(a, d, d + ROWS, b, stats, stats, 1e-5f, ROWS, COLS); }
static void transpose(const void *arg) { (void)arg; tr_transpose(a, b, 2, (int64_t[]){ROWS, COLS}, (int[]){1, 0}, 4); }

static const tr_act relu = TR_ACT_relu, sigmoid = TR_ACT_sigmoid, tanh_ = TR_ACT_tanh, exp_ = TR_ACT_exp, log_ = TR_ACT_log,
                    gelu = TR_ACT_gelu;

static const struct row {
    const char *name;
    void      (*run)(const void *arg);
    const void *arg;
    double      bytes;                                       /* of an element */
} rows[] = {
    {"triad", triad, NULL, 12},        {"add", add, NULL, 12},           {"add in place", add_in_place, NULL, 12},
    {"bias + relu", bias_relu, NULL, 8}, {"scale", scale, NULL, 8},      {"axpy", axpy, NULL, 12},
    {"relu", act, &relu, 8},           {"sigmoid", act, &sigmoid, 8},    {"tanh", act, &tanh_, 8},
    {"exp", act, &exp_, 8},            {"log", act, &log_, 8},           {"gelu", act, &gelu, 8},
    {"relu grad", act_grad, &relu, 12}, {"sigmoid grad", act_grad, &sigmoid, 12}, {"sum of all", sum_all, NULL, 4},
    {"sum of rows", sum_rows, NULL, 4}, {"sum of columns", sum_columns, NULL, 4}, {"softmax", softmax, NULL, 8},
    {"softmax grad", softmax_grad, NULL, 12}, {"layer norm", layer_norm, NULL, 8}, {"batch norm", batch_norm, NULL, 8},
    {"channel stats", channel_stats, NULL, 4}, {"sgd", sgd, NULL, 12},   {"momentum", momentum, NULL, 20},
    {"adam", adam, NULL, 28},          {"adagrad", adagrad, NULL, 20},   {"uniform", uniform, NULL, 4},
    {"normal", normal, NULL, 4},       {"dropout", dropout, NULL, 9},    {"fp32 to fp16", to_half, NULL, 6},
    {"gather 64 B rows", gather, NULL, 8}, {"scatter-add 64 B rows", scatter_add, NULL, 12}, {"transpose", transpose, NULL, 8},
};

static void fill_arrays(void)
{
    tr_random_uniform_f32(a, N, 1, 0, 0.1f, 1);
    tr_random_uniform_f32(b, N, 2, 0, 0.1f, 1);
    tr_random_uniform_f32(c, N, 3, 0, 0.1f, 1);
    tr_random_uniform_f32(d, N, 4, 0, 0.1f, 1);
    for (int i = 0; i < N / 16; i++)
        ids[i] = (int64_t)tr_random_below(5, (uint64_t)i, N / 16);
}

static void bench_memory(int threads)
{
    double triads[2] = {0, 0};
    printf("\n%-24s %10s %8s %10s %8s   GB/s out of cache, and of the triad\n", "function", "1", "", "all", "");
    for (int i = 0; i < TR_COUNT(rows); i++) {
        double rate[2];
        fill_arrays();
        for (int t = 0; t < 2; t++) {
            rate[t] = rows[i].bytes * N * 1e-9 / best_with(t == 0 ? 1 : threads, rows[i].run, rows[i].arg);
            if (i == 0)
                triads[t] = rate[t];
        }
        printf("%-24s %10.1f %7.0f%% %10.1f %7.0f%%\n", rows[i].name, rate[0], 100 * rate[0] / triads[0], rate[1],
               100 * rate[1] / triads[1]);
    }
}

/* -- layers of small images ----------------------------------------------------------------------------------- */

static const struct { const char *name; tr_conv_shape shape; } convs[] = {
    {"20@5x5 on 64x1x28x28", {64, 1, 20, 1, {1, 28, 28}, {1, 24, 24}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"50@5x5 on 64x20x12x12", {64, 20, 50, 1, {1, 12, 12}, {1, 8, 8}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"16@3x3 on 32x16x32x32", {32, 16, 16, 1, {1, 32, 32}, {1, 32, 32}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
    {"64@3x3 on 32x64x8x8", {32, 64, 64, 1, {1, 8, 8}, {1, 8, 8}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
};
static const tr_pool_shape pool = {.planes = 64 * 20, .in = {1, 24, 24}, .out = {1, 12, 12}, .kernel = {1, 2, 2},
                                   .stride = {1, 2, 2}};

static void conv(const void *arg) { tr_conv_f32(c, a, b, NULL, arg); }
static void conv_input(const void *arg) { tr_conv_grad_input_f32(a, c, b, arg); }
static void conv_filter(const void *arg) { tr_conv_grad_filter_f32(b, c, a, arg); }
static void max_pool(const void *arg) { tr_max_pool_f32(c, NULL, a, arg); }
static void max_pool_grad(const void *arg) { tr_max_pool_grad_f32(d, c, a, c, arg); }
static void empty_slice(void *payload, int64_t slice) { (void)payload, (void)slice; }
static void empty_job(const void *arg) { tr_parallel(2, empty_slice, (void *)(uintptr_t)arg); }

static void bench_images(int threads)
{
    printf("\n%-24s %10s %10s %10s   GFLOP/s, 1 / all threads\n", "convolution", "forward", "input", "filter");
    for (int i = 0; i < TR_COUNT(convs); i++) {
        const tr_conv_shape *s = &convs[i].shape;
        void (*const passes[])(const void *arg) = {conv, conv_input, conv_filter};
        const double work = 2e-9 * (double)(s->batch * s->out_channels * s->in_channels * s->out[1] * s->out[2] * s->kernel[1] *
                                            s->kernel[2]);
        fill_arrays();
        printf("%-24s", convs[i].name);
        for (int pass = 0; pass < 3; pass++)
            printf(" %5.1f/%5.1f", work / best_with(1, passes[pass], s), work / best_with(threads, passes[pass], s));
        printf("\n");
    }
    printf("max pool 2x2 of 64x20x24x24: %.0f / %.0f us, gradient %.0f / %.0f us\n", 1e6 * best_with(1, max_pool, &pool),
           1e6 * best_with(threads, max_pool, &pool), 1e6 * best_with(1, max_pool_grad, &pool),
           1e6 * best_with(threads, max_pool_grad, &pool));
    printf("hand-over of an empty job of 2 slices: %.2f us\n", 1e6 * best_with(threads, empty_job, NULL));
}

int main(int argc, char **argv)
{
    tr_set_num_threads(argc > 1 ? atoi(argv[1]) : 0);
    const int threads = tr_num_threads();
    if (tr_blas_init() != TR_OK) {
        fprintf(stderr, "%s\n", tr_error());
        return 1;
    }
    a = aligned_alloc(64, N * sizeof *a);
    b = aligned_alloc(64, N * sizeof *b);
    c = aligned_alloc(64, N * sizeof *c);
    d = aligned_alloc(64, N * sizeof *d);
    ids = aligned_alloc(64, N / 16 * sizeof *ids);
    stats = aligned_alloc(64, 4096 * sizeof *stats);
    if (!a || !b || !c || !d || !ids || !stats)
        return 1;
    tr_random_uniform_f32(stats, 4096, 6, 0, 0.5f, 1);
    fill_arrays();
    printf("threads: %d\n", threads);
    bench_products(threads);
    bench_memory(threads);
    bench_images(threads);
    free(a), free(b), free(c), free(d), free(ids), free(stats);
    return 0;
}
