/* test_weight_cache.c - right sides of products that stay as they are. Products with kept panels equal those of tr_gemm, whichever thread
 * packs the panels. Only named memory is kept. */
#include "kernels/math/products/weight_cache.h"

#include "kernels/math/products/gemm_bf16.h"

#include "framework/threads/precision.h"
#include "tests/kernels/math/check.h"

#include <pthread.h>

enum { N = 80, K = 300, ROWS = 40 };

static const tr_precision precisions[] = {TR_PRECISION_FLOAT32, TR_PRECISION_BFLOAT16};

/* C = A op(B) + beta C with what the thread has entered. */
static void product(float *c, const float *a, const float *b, bool trans, int64_t rows, float beta)
{
    tr_gemm_f32(false, trans, rows, N, K, 1, a, K, b, trans ? K : N, beta, c, N);
}

static void check_near(const float *got, const float *want, int64_t count, bool exactly)
{
    for (int64_t i = 0; i < count; i++)
        near_f32((double)got[i], (double)want[i], exactly ? 0 : 20, exactly ? 0 : 16, "c", i);
}

static void products_are_those_of_gemm(void **state)
{
    (void)state;
    float   *a = random_f32(ROWS * K, 1, -1, 1), *b = random_f32(N * K, 2, -1, 1);
    float   *got = array_new(ROWS * N, sizeof *got), *want = array_new(ROWS * N, sizeof *want);
    tr_weight_cache *kept = tr__weight_cache_new();

    tr__weight_cache_add(kept, b, N * K * sizeof *b);
    for (int how = 0; how < 16; how++) {
        const bool    trans = how & 1;
        const float   beta = how & 2 ? 1 : 0;
        const int64_t rows = how & 4 ? ROWS : 1;
        memset(got, 0, ROWS * N * sizeof *got);
        memset(want, 0, ROWS * N * sizeof *want);
        tr__precision_enter(precisions[how >> 3]);
        product(want, a, b, trans, rows, beta);
        assert_null(tr__weight_cache_enter(kept));
        product(got, a, b, trans, rows, beta);
        product(got, a, b, trans, rows, 0);
        assert_ptr_equal(tr__weight_cache_enter(NULL), kept);
        /* With instructions for it bfloat16 has the bits of tr_gemm. Without, rounded floats are multiplied, as floats are. */
        check_near(got, want, rows * N, how >> 3 && tr__bf16_way() != TR_BF16_NONE);
    }
    tr__precision_enter(TR_PRECISION_FLOAT32);
    tr__weight_cache_free(kept);
    free(a), free(b), free(got), free(want);
}

/* What lies in no named memory, or only in part, and what is outside of a set. */
static void only_what_is_named_is_kept(void **state)
{
    (void)state;
    float   *b = random_f32(3 * N * K, 3, -1, 1);
    tr_weight_cache *kept = tr__weight_cache_new();

    tr__weight_cache_add(kept, b + 2 * N * K, N * K * sizeof *b);
    tr__weight_cache_add(kept, b, N * K * sizeof *b);
    assert_null(tr__weight_cache_factor(kept, false, N, K, b + N * K, N));
    assert_null(tr__weight_cache_factor(kept, false, N, K, b + 1, N));
    assert_null(tr__weight_cache_factor(kept, false, N, K, b - 1, N));
    const tr_factor_f32 *first = tr__weight_cache_factor(kept, false, N, K, b, N);
    if (tr_factor_size_f32(N, K, TR_FACTOR_MOST_ROWS) > 0) {                  /* this processor packs */
        assert_non_null(first);
        assert_non_null(tr__weight_cache_factor(kept, false, N, K, b + 2 * N * K, N));
        assert_ptr_equal(tr__weight_cache_factor(kept, false, N, K, b, N), first);
        assert_ptr_not_equal(tr__weight_cache_factor(kept, true, N, K, b, K), first);
        assert_ptr_not_equal(tr__weight_cache_factor(kept, false, N / 2, K, b, N), first);
        tr__precision_enter(TR_PRECISION_BFLOAT16);
        assert_ptr_not_equal(tr__weight_cache_factor(kept, false, N, K, b, N), first);
        tr__precision_enter(TR_PRECISION_FLOAT32);
    }
    tr__weight_cache_free(kept);
    free(b);
}

/* Within the caller's memory, with room for one form: the other one is packed by each product. */
static void a_set_keeps_what_its_room_holds(void **state)
{
    (void)state;
    const size_t room = tr__weight_cache_room(tr_factor_size_f32(N, K, TR_FACTOR_MOST_ROWS)), bytes = tr__weight_cache_bytes(1, room);
    float       *a = random_f32(ROWS * K, 6, -1, 1), *b = random_f32(N * K, 7, -1, 1);
    float       *got = array_new(ROWS * N, sizeof *got), *want = array_new(ROWS * N, sizeof *want);
    void        *memory = array_new((int64_t)bytes, 1);

    for (int turn = 0; turn < 2; turn++) {                            /* a new set in the same memory knows nothing of the old one */
        tr_weight_cache *kept = tr__weight_cache_new_in(memory, 1, room);
        tr__weight_cache_add(kept, b, N * K * sizeof *b);
        const tr_factor_f32 *first = tr__weight_cache_factor(kept, turn, N, K, b, turn ? K : N);
        assert_true(room == 0 || (first && (const char *)first > (char *)memory && (const char *)first < (char *)memory + bytes));
        assert_ptr_equal(tr__weight_cache_factor(kept, turn, N, K, b, turn ? K : N), first);
        assert_null(tr__weight_cache_factor(kept, !turn, N, K, b, turn ? N : K));
        for (int trans = 0; trans < 2; trans++) {
            product(want, a, b, trans, ROWS, 0);
            assert_false(tr__weight_cache_is_entered());
            tr__weight_cache_enter(kept);
            assert_true(tr__weight_cache_is_entered());
            product(got, a, b, trans, ROWS, 0);
            tr__weight_cache_enter(NULL);
            check_near(got, want, ROWS * N, false);
        }
    }
    free(a), free(b), free(got), free(want), free(memory);
}

typedef struct user {
    pthread_t thread;
    tr_weight_cache  *kept;
    const float *a, *b;
    float     c[ROWS * N];
} user;

static void *use(void *payload)
{
    user *u = payload;
    tr__weight_cache_enter(u->kept);
    for (int i = 0; i < 50; i++)
        product(u->c, u->a, u->b + i % 5 * N * K, i & 1, ROWS, 0);
    tr__weight_cache_enter(NULL);
    return NULL;
}

static void threads_share_a_set(void **state)
{
    (void)state;
    float   *a = random_f32(ROWS * K, 4, -1, 1), *b = random_f32(5 * N * K, 5, -1, 1), *want = array_new(ROWS * N, sizeof *want);
    tr_weight_cache *kept = tr__weight_cache_new();
    user     users[4];

    tr__weight_cache_add(kept, b, 5 * N * K * sizeof *b);
    for (int i = 0; i < 4; i++) {
        users[i].kept = kept, users[i].a = a, users[i].b = b;
        assert_int_equal(pthread_create(&users[i].thread, NULL, use, &users[i]), 0);
    }
    product(want, a, b + 4 * N * K, true, ROWS, 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(users[i].thread, NULL);
        check_near(users[i].c, want, ROWS * N, false);
    }
    tr__weight_cache_free(kept);
    free(a), free(b), free(want);
}

static int set_up(void **state)
{
    (void)state;
    return tr_blas_init() == TR_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_gemm),
        cmocka_unit_test(only_what_is_named_is_kept),
        cmocka_unit_test(a_set_keeps_what_its_room_holds),
        cmocka_unit_test(threads_share_a_set),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
