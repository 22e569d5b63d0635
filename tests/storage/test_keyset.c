/* test_keyset.c - keys are numbered in the order in which they first came, and rows of equal keys become one. */
#include "tests/support/expect.h"

#include "framework/tensors/random.h"
#include "storage/util/keyset.h"
#include "storage/util/row_copy.h"

enum { MOST = 500 };

/* Keys of few homes, too: so many that some have the place of another one. */
static void draw(int64_t *keys, int count, int range, uint64_t seed)
{
    for (int i = 0; i < count; i++) {
        const int64_t key = (int64_t)tr_random_below(seed, (uint64_t)i, (uint64_t)range);
        keys[i] = key % 3 == 0 ? -key : key % 3 == 1 ? INT64_MAX - key : key << 32;
    }
}

static uint32_t number_of(int64_t *different, uint32_t *count, int64_t key)
{
    uint32_t i = 0;

    while (i < *count && different[i] != key)
        i++;
    if (i == *count)
        different[(*count)++] = key;
    return i;
}

static void check_numbers(tr_keyset *set, const int64_t *keys, int count, int64_t *different, uint32_t *seen)
{
    uint32_t number[MOST];

    tr_keyset_add(set, number, keys, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(number[i], number_of(different, seen, keys[i]));
    assert_int_equal(set->count, *seen);
    assert_memory_equal(set->keys, different, *seen * sizeof *different);
}

static void keys_are_numbered_as_they_first_come(void **state)
{
    static const int ranges[] = {1, 7, 100, 100000};
    int64_t          keys[MOST], different[MOST];
    tr_keyset        set = {0};

    (void)state;
    for (int r = 0; r < 4; r++)
        for (int count = 0; count <= MOST; count += count < 70 ? 1 : 43) {
            uint32_t seen = 0;
            draw(keys, count, ranges[r], (uint64_t)count);
            assert_int_equal(tr_keyset_reset(&set, count), TR_OK);
            check_numbers(&set, keys, count / 3, different, &seen);
            check_numbers(&set, keys + count / 3, count - count / 3, different, &seen);
        }
    tr_keyset_deinit(&set);
}

static void a_full_set_still_knows_its_keys(void **state)
{
    int64_t   keys[MOST], different[MOST];
    uint32_t  seen = 0;
    tr_keyset set = {0};

    (void)state;
    assert_int_equal(tr_keyset_reset(&set, 1), TR_OK);
    const int most = (int)set.capacity;
    for (int i = 0; i < most; i++)
        keys[i] = i * 1000003;
    check_numbers(&set, keys, most, different, &seen);
    check_numbers(&set, keys, most, different, &seen);
    assert_int_equal(set.count, most);
    tr_keyset_deinit(&set);
}

/* Whatever the memory held, and with the sign of each zero. */
static void the_first_of_several_rows_is_copied(void **state)
{
    enum { WIDTH = 37 };
    float x[WIDTH], sum[WIDTH + 1];

    (void)state;
    for (int width = 0; width <= WIDTH; width++) {
        for (int i = 0; i < width; i++)
            x[i] = i % 3 == 0 ? -0.0f : i % 3 == 1 ? 0.0f : (float)i - 7.5f;
        memset(sum, 0xff, sizeof sum);
        tr_row_add(sum, x, width, true);
        assert_memory_equal(sum, x, (size_t)width * sizeof *x);
        tr_row_add(sum, x, width, false);
        for (int i = 0; i < width; i++)
            assert_true(sum[i] == 2 * x[i]);
        assert_true(sum[width] != sum[width]);         /* untouched */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keys_are_numbered_as_they_first_come),
        cmocka_unit_test(a_full_set_still_knows_its_keys),
        cmocka_unit_test(the_first_of_several_rows_is_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
