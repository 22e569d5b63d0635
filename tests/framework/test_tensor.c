/* test_tensor.c - memory, sharing, sequences and rows of a tensor; shapes and types. */
#include "tests/support/expect.h"

#include "framework/tensors/dtype.h"
#include "framework/tensors/tensor.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define DIMS(...) (const int64_t[]){__VA_ARGS__}

TEST(a_new_tensor_has_no_value)
{
    tr_tensor *t = tr_tensor_new();

    assert_int_equal(tr_tensor_dtype(t), TR_DTYPE_NONE);
    assert_null(tr_tensor_data(t));
    assert_int_equal(tr_tensor_bytes(t), 0);
    assert_int_equal(tr_tensor_lod_levels(t), 0);
    assert_false(tr_tensor_has_rows(t));
    tr_tensor_free(t);
    tr_tensor_free(NULL);
}

TEST(resizing_keeps_memory_that_is_large_enough)
{
    tr_tensor *t = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, DIMS(8, 16)));
    assert_int_equal(tr_tensor_numel(t), 128);
    assert_int_equal(tr_tensor_bytes(t), 512);
    assert_int_equal((uintptr_t)tr_tensor_data(t) % 64, 0);
    void         *data = tr_tensor_data(t);
    const int64_t before = tr__tensor_allocations();
    EXPECT_OK(tr_tensor_resize(t, TR_FP64, 1, DIMS(64)));
    EXPECT_OK(tr_tensor_resize(t, TR_BOOL, 3, DIMS(2, 0, 4)));
    assert_ptr_equal(tr_tensor_data(t), data);
    assert_int_equal(tr__tensor_allocations(), before);
    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, DIMS(80, 16)));
    assert_true(tr__tensor_allocations() > before);
    tr_tensor_free(t);
}

TEST(a_large_array_begins_a_huge_page)
{
    const int64_t huge = 2 << 20, sizes[] = {huge, huge + 1, 3 * huge - 64};

    for (int i = 0; i < 3; i++) {
        tr_tensor *t = tr_tensor_new();
        EXPECT_OK(tr_tensor_resize(t, TR_UINT8, 1, &sizes[i]));
        uint8_t *data = tr_tensor_data(t);
        assert_int_equal((uintptr_t)data % (uintptr_t)huge, 0);
        data[0] = data[sizes[i] - 1] = 1;
        tr_tensor_free(t);
    }
}

TEST(impossible_sizes_are_explained)
{
    tr_tensor *t = tr_tensor_new();

    EXPECT_FAIL(TR_EDTYPE, "7 is no data type", tr_tensor_resize(t, (tr_dtype)7, 1, DIMS(1)));
    EXPECT_FAIL(TR_ESHAPE, "rank must be 0..9, got 10", tr_tensor_resize(t, TR_FP32, 10, DIMS(0)));
    EXPECT_FAIL(TR_ESHAPE, "dimension 1 is -1", tr_tensor_resize(t, TR_FP32, 2, DIMS(2, -1)));
    assert_int_not_equal(tr_tensor_resize(t, TR_FP32, 3, DIMS(INT64_C(1) << 31, INT64_C(1) << 31, 2)), TR_OK);
    assert_int_equal(tr_tensor_dtype(t), TR_DTYPE_NONE);
    tr_tensor_free(t);
}

TEST(shared_memory_outlives_its_first_owner)
{
    tr_tensor *a = tr_tensor_new(), *b = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(a, TR_INT32, 1, DIMS(3)));
    ((int32_t *)tr_tensor_data(a))[2] = 7;
    tr_tensor_share(b, a);
    assert_ptr_equal(tr_tensor_data(a), tr_tensor_data(b));
    assert_false(tr__tensor_is_sole_owner(a));
    EXPECT_OK(tr_tensor_resize(a, TR_INT32, 1, DIMS(3)));      /* gets memory of its own */
    ((int32_t *)tr_tensor_data(a))[2] = 8;
    assert_int_equal(((int32_t *)tr_tensor_data(b))[2], 7);
    assert_true(tr__tensor_is_sole_owner(b));
    tr_tensor_share(b, b);
    tr_tensor_free(a);
    assert_int_equal(((int32_t *)tr_tensor_data(b))[2], 7);
    tr_tensor_free(b);
}

TEST(a_copy_is_independent)
{
    tr_tensor *a = tr_tensor_new(), *b = tr_tensor_new(), *empty = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(a, TR_FP32, 2, DIMS(2, 1)));
    memset(tr_tensor_data(a), 0, 8);
    EXPECT_OK(tr_tensor_set_rows(a, 9, 2, DIMS(8, 3)));
    EXPECT_OK(tr_tensor_copy(b, a));
    ((float *)tr_tensor_data(a))[0] = 1;
    assert_true(((float *)tr_tensor_data(b))[0] == 0);
    assert_int_equal(tr_tensor_rows(b)[0], 8);
    assert_true(tr_tensor_rows(b) != tr_tensor_rows(a));
    EXPECT_OK(tr_tensor_copy(b, b));
    EXPECT_OK(tr_tensor_copy(b, empty));
    assert_int_equal(tr_tensor_dtype(b), TR_DTYPE_NONE);
    tr_tensor_free(a);
    tr_tensor_free(b);
    tr_tensor_free(empty);
}

TEST(borrowed_memory_is_looked_at)
{
    float      values[4] = {1, 2, 3, 4};
    tr_tensor *t = tr_tensor_new(), *second = tr_tensor_new();

    EXPECT_OK(tr_tensor_borrow(t, TR_FP32, 2, DIMS(2, 2), values));
    assert_ptr_equal(tr_tensor_data(t), values);
    assert_false(tr__tensor_is_sole_owner(t));
    tr_tensor_share(second, t);
    assert_ptr_equal(tr_tensor_data(second), values);
    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, DIMS(2, 2)));    /* never writes to what was borrowed */
    assert_true(tr_tensor_data(t) != (void *)values);
    tr_tensor_free(t);
    tr_tensor_free(second);
}

TEST(sequences_are_checked)
{
    static const int64_t words[] = {0, 2, 2, 5}, sentences[] = {0, 1, 3}, falls[] = {0, 3, 2, 5}, late[] = {1, 5};
    tr_tensor *t = tr_tensor_new(), *other = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(t, TR_INT64, 2, DIMS(5, 1)));
    EXPECT_OK(tr_tensor_set_lod(t, 2, DIMS(3, 4), (const int64_t *const[]){sentences, words}));
    assert_int_equal(tr_tensor_lod_levels(t), 2);
    assert_int_equal(tr_tensor_lod_count(t, 1), 4);
    assert_int_equal(tr_tensor_lod_offsets(t, 1)[3], 5);
    assert_null(tr_tensor_lod_offsets(t, 2));
    assert_int_equal(tr_tensor_lod_count(t, -1), 0);
    EXPECT_FAIL(TR_EINVAL, "falls from 3 to 2", tr_tensor_set_lod(t, 1, DIMS(4), (const int64_t *const[]){falls}));
    EXPECT_FAIL(TR_EINVAL, "must start with offset 0", tr_tensor_set_lod(t, 1, DIMS(2), (const int64_t *const[]){late}));
    EXPECT_FAIL(TR_EINVAL, "ends at 3, but there are 5 rows",
                tr_tensor_set_lod(t, 1, DIMS(3), (const int64_t *const[]){sentences}));
    assert_int_equal(tr_tensor_lod_levels(t), 2);              /* as it was */
    EXPECT_OK(tr_tensor_resize(other, TR_FP32, 1, DIMS(5)));
    tr__tensor_share_lod(other, t);
    EXPECT_OK(tr_tensor_set_lod(t, 0, NULL, NULL));
    assert_int_equal(tr_tensor_lod_levels(t), 0);
    assert_int_equal(tr_tensor_lod_levels(other), 2);
    EXPECT_OK(tr_tensor_resize(other, TR_FP32, 1, DIMS(5)));
    assert_int_equal(tr_tensor_lod_levels(other), 0);          /* new contents, no sequences */
    tr_tensor_free(t);
    tr_tensor_free(other);
}

TEST(offsets_are_written_into_memory_of_the_tensors_own_once_nobody_shares_it)
{
    const int64_t first[] = {0, 1, 4}, second[] = {0, 2, 4}, third[] = {0, 4};
    tr_tensor *t = tr_tensor_new(), *other = tr_tensor_new();

    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 1, DIMS(4)));
    EXPECT_OK(tr_tensor_resize(other, TR_FP32, 1, DIMS(4)));
    EXPECT_OK(tr_tensor_set_lod(t, 1, DIMS(3), (const int64_t *const[]){first}));
    tr__tensor_share_lod(other, t);
    const int64_t before = tr__tensor_allocations();
    EXPECT_OK(tr_tensor_set_lod(t, 1, DIMS(3), (const int64_t *const[]){second}));
    assert_int_equal(tr__tensor_allocations(), before + 1);          /* the other one still reads the first */
    assert_int_equal(tr_tensor_lod_offsets(other, 0)[1], 1);
    tr__tensor_share_lod(other, t);
    tr__tensor_drop_lod(other);
    tr__tensor_drop_lod(t);
    assert_int_equal(tr_tensor_lod_levels(t), 0);
    EXPECT_OK(tr_tensor_set_lod(t, 1, DIMS(3), (const int64_t *const[]){first}));
    EXPECT_OK(tr_tensor_set_lod(t, 1, DIMS(2), (const int64_t *const[]){third}));
    assert_int_equal(tr__tensor_allocations(), before + 1);
    EXPECT_OK(tr__tensor_copy_lod(other, t));
    EXPECT_OK(tr_tensor_set_lod(t, 1, DIMS(3), (const int64_t *const[]){second}));
    assert_int_equal(tr__tensor_allocations(), before + 2);          /* the copy's */
    assert_int_equal(tr_tensor_lod_offsets(other, 0)[1], 4);
    assert_int_equal(tr_tensor_lod_offsets(t, 0)[1], 2);
    tr_tensor_free(other);
    tr_tensor_free(t);
}

TEST(row_numbers_are_checked_and_their_memory_is_kept)
{
    tr_tensor *t = tr_tensor_new(), *sharing = tr_tensor_new();
    int64_t   *index, *again;

    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 2, DIMS(2, 3)));
    EXPECT_FAIL(TR_ESHAPE, "3 indices for a tensor [2, 3]", tr_tensor_set_rows(t, 9, 3, DIMS(0, 1, 2)));
    EXPECT_FAIL(TR_ERANGE, "index 1 is 9, but the height is 9", tr_tensor_set_rows(t, 9, 2, DIMS(0, 9)));
    EXPECT_FAIL(TR_ERANGE, "index 0 is -1", tr_tensor_set_rows(t, 9, 2, DIMS(-1, 3)));
    EXPECT_OK(tr_tensor_set_rows(t, 9, 2, DIMS(8, 8)));
    assert_int_equal(tr_tensor_height(t), 9);
    EXPECT_OK(tr__tensor_reserve_rows(t, 9, 1, &index));
    EXPECT_OK(tr__tensor_reserve_rows(t, 9, 2, &again));
    assert_ptr_equal(index, again);
    tr_tensor_share(sharing, t);
    EXPECT_OK(tr__tensor_reserve_rows(t, 9, 2, &again));       /* shared ones are left as they are */
    assert_true(index != again);
    tr_tensor_free(t);
    tr_tensor_free(sharing);
}

/* A thread that makes the last of some numbers wrong and right again, without a pause. */
enum { NUMBERS = 64 };

typedef struct toggler {
    int64_t     number[NUMBERS];
    pthread_t   thread;
    atomic_bool has_begun, is_over;
} toggler;

static void *toggle(void *payload)
{
    toggler *t = payload;

    for (int64_t turn = 0; !atomic_load(&t->is_over); turn++) {
        __atomic_store_n(&t->number[NUMBERS - 1], turn % 2 ? NUMBERS - 1 : 1000000, __ATOMIC_RELAXED);
        atomic_store(&t->has_begun, true);
    }
    return NULL;
}

static void start(toggler *t)
{
    *t = (toggler){0};
    for (int i = 0; i < NUMBERS; i++)
        t->number[i] = i;
    assert_int_equal(pthread_create(&t->thread, NULL, toggle, t), 0);
    while (!atomic_load(&t->has_begun))
        sched_yield();
}

TEST(numbers_that_another_thread_changes_are_refused_or_right)
{
#ifdef __SANITIZE_THREAD__
    skip();                                        /* the race is the caller's, and meant */
#endif
    tr_tensor *t = tr_tensor_new();
    toggler    other;

    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 1, DIMS(NUMBERS - 1)));
    start(&other);
    for (int i = 0; i < 200000; i++)
        if (tr_tensor_set_lod(t, 1, DIMS(NUMBERS), (const int64_t *const[]){other.number}) == TR_OK)
            assert_int_equal(tr_tensor_lod_offsets(t, 0)[NUMBERS - 1], NUMBERS - 1);
    EXPECT_OK(tr_tensor_resize(t, TR_FP32, 1, DIMS(NUMBERS)));
    for (int i = 0; i < 200000; i++)
        if (tr_tensor_set_rows(t, NUMBERS, NUMBERS, other.number) == TR_OK)
            assert_int_equal(tr_tensor_rows(t)[NUMBERS - 1], NUMBERS - 1);
    atomic_store(&other.is_over, true);
    pthread_join(other.thread, NULL);
    tr_tensor_free(t);
}

TEST(shapes_know_what_they_do_not_know)
{
    const tr_shape a = TR_SHAPE(2, -1, 3), b = TR_SHAPE(2, 5, 3), c = TR_SHAPE(2, 5), none = {.rank = 0};

    assert_string_equal(TR_SHAPE_STR(a), "[2, ?, 3]");
    assert_string_equal(TR_SHAPE_STR(none), "[]");
    assert_true(tr_shape_fits(&a, &b));
    assert_false(tr_shape_equal(&a, &b));
    assert_false(tr_shape_fits(&b, &c));
    assert_false(tr_shape_is_known(&a));
    assert_true(tr_shape_is_known(&none));
    assert_int_equal(tr_shape_numel(&a), -1);
    assert_int_equal(tr_shape_numel(&b), 30);
    assert_int_equal(tr_shape_numel(&none), 1);
    assert_int_equal(tr_shape_product(&a, 2, 3), 3);
    assert_int_equal(tr_shape_product(&a, 1, 1), 1);
}

TEST(types_have_a_size_and_a_name)
{
    assert_int_equal(tr_dtype_size(TR_BF16), 2);
    assert_int_equal(tr_dtype_size(TR_SIZE_T), 8);
    assert_int_equal(tr_dtype_size((tr_dtype)7), 0);
    assert_int_equal(tr_dtype_size(TR_DTYPE_NONE), 0);
    assert_string_equal(tr_dtype_name(TR_FP32), "float32");
    assert_string_equal(tr_dtype_name((tr_dtype)100), "?");
    assert_true(tr_dtype_is_float(TR_FP16));
    assert_false(tr_dtype_is_float(TR_INT64));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_tensor_has_no_value),
        cmocka_unit_test(resizing_keeps_memory_that_is_large_enough),
        cmocka_unit_test(a_large_array_begins_a_huge_page),
        cmocka_unit_test(impossible_sizes_are_explained),
        cmocka_unit_test(shared_memory_outlives_its_first_owner),
        cmocka_unit_test(a_copy_is_independent),
        cmocka_unit_test(borrowed_memory_is_looked_at),
        cmocka_unit_test(sequences_are_checked),
        cmocka_unit_test(offsets_are_written_into_memory_of_the_tensors_own_once_nobody_shares_it),
        cmocka_unit_test(row_numbers_are_checked_and_their_memory_is_kept),
        cmocka_unit_test(numbers_that_another_thread_changes_are_refused_or_right),
        cmocka_unit_test(shapes_know_what_they_do_not_know),
        cmocka_unit_test(types_have_a_size_and_a_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
