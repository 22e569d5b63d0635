/* test_transpose.c - transposes and strided copies against index arithmetic, for every item size. */
#include "kernels/math/arrays/transpose.h"

#include "tests/kernels/math/check.h"

static const struct { int rank, perm[5]; int64_t dims[5]; } cases[] = {
    {1, {0}, {7}},
    {2, {1, 0}, {1, 1}},
    {2, {1, 0}, {5, 33}},
    {2, {1, 0}, {300, 200}},
    {2, {0, 1}, {30, 20}},
    {3, {0, 2, 1}, {3, 17, 19}},
    {3, {2, 1, 0}, {4, 5, 6}},
    {3, {1, 0, 2}, {6, 7, 64}},
    {4, {0, 2, 1, 3}, {3, 10, 4, 16}},
    {4, {0, 3, 1, 2}, {2, 9, 8, 3}},
    {4, {0, 2, 3, 1}, {2, 3, 9, 8}},
    {5, {4, 2, 0, 3, 1}, {2, 3, 4, 5, 6}},
    {3, {2, 0, 1}, {4, 0, 3}},
    {4, {3, 2, 1, 0}, {40, 1, 50, 1}},
};
enum { CASES = sizeof cases / sizeof *cases };

static void check_transpose(int c, int64_t item)
{
    const int      rank = cases[c].rank;
    const int64_t *dims = cases[c].dims;
    int64_t        count = 1;
    for (int i = 0; i < rank; i++)
        count *= dims[i];
    unsigned char *x = array_new(count * item, 1), *out = array_new(count * item, 1);
    for (int64_t i = 0; i < count * item; i++)
        x[i] = (unsigned char)tr_random_bits(1, (uint64_t)i);
    SAME_FOR_ALL_THREADS(out, count * item, (void)0, tr_transpose(out, x, rank, dims, cases[c].perm, item));
    for (int64_t i = 0; i < count; i++) {
        int64_t at[5], rest = i, to = 0;
        for (int a = rank - 1; a >= 0; rest /= dims[a--])
            at[a] = rest % dims[a];
        for (int a = 0; a < rank; a++)
            to = to * dims[cases[c].perm[a]] + at[cases[c].perm[a]];
        assert_memory_equal(out + to * item, x + i * item, (size_t)item);
    }
    free(x), free(out);
}

static void transposes_match(void **state)
{
    (void)state;
    for (int c = 0; c < CASES; c++)
        for (int64_t item = 1; item <= 8; item *= 2)
            check_transpose(c, item);
}

static void blocks_are_copied(void **state)
{
    (void)state;
    enum { ROWS = 1000 };
    unsigned char *from = array_new(ROWS * 130, 1), *to = array_new(ROWS * 200, 1);
    for (int i = 0; i < ROWS * 130; i++)
        from[i] = (unsigned char)tr_random_bits(2, (uint64_t)i);
    memset(to, 7, ROWS * 200);
    tr_copy_blocks(to + 50, 200, from, 130, ROWS, 100);
    for (int r = 0; r < ROWS; r++) {
        assert_memory_equal(to + r * 200 + 50, from + r * 130, 100);
        assert_int_equal(to[r * 200 + 49], 7);
        assert_int_equal(to[r * 200 + 150], 7);
    }
    tr_copy_blocks(to, 1, from, 1, 5, 0);
    tr_copy_blocks(to, 1, from, 1, 0, 5);
    assert_int_equal(to[0], 7);
    free(from), free(to);
}

/* Blocks of whole lines and a rest, and one block that threads share. */
static void long_blocks_are_copied(void **state)
{
    enum { SIZE = 1 << 20, FIRST = 3 };
    unsigned char *from = array_new(SIZE, 1), *to = array_new(SIZE, 1);

    (void)state;
    for (int i = 0; i < SIZE; i++)
        from[i] = (unsigned char)tr_random_bits(2, (uint64_t)i);
    for (int64_t bytes = 127; bytes < 260; bytes += 7) {
        memset(to, 7, SIZE);
        tr_copy_blocks(to + FIRST, 300, from + 1, 261, 40, bytes);
        for (int r = 0; r < 40; r++) {
            assert_memory_equal(to + FIRST + r * 300, from + 1 + r * 261, bytes);
            assert_int_equal(to[FIRST + r * 300 - 1], 7);
            assert_int_equal(to[FIRST + r * 300 + bytes], 7);
        }
    }
    for (int64_t bytes = 131071; bytes < SIZE - FIRST - 1; bytes += 150001) {
        memset(to, 7, SIZE);
        tr_copy_blocks(to + FIRST, 0, from, 0, 1, bytes);
        assert_memory_equal(to + FIRST, from, (size_t)bytes);
        assert_int_equal(to[FIRST - 1], 7);
        assert_int_equal(to[FIRST + bytes], 7);
    }
    free(from), free(to);
}

/* A reversed, stepped part of one array into an inner part of another, and one row expanded to many. */
static void any_strides_are_copied(void **state)
{
    (void)state;
    int32_t       x[4 * 6], out[5 * 7];
    const int64_t dims[] = {3, 2}, from[] = {-6, 3}, to[] = {7, 1};
    for (int i = 0; i < 24; i++)
        x[i] = 100 + i;
    memset(out, 0, sizeof out);
    tr_copy_strided(out + 8, to, x + 18, from, 2, dims, sizeof *x);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 7; j++) {
            const bool inside = i >= 1 && i < 4 && j >= 1 && j < 3;
            assert_int_equal(out[i * 7 + j], inside ? 100 + 18 - (i - 1) * 6 + (j - 1) * 3 : 0);
        }
    const int64_t many[] = {5, 7}, none[] = {0, 1}, rows[] = {7, 1};
    tr_copy_strided(out, rows, x, none, 2, many, sizeof *x);
    for (int i = 0; i < 35; i++)
        assert_int_equal(out[i], 100 + i % 7);
    const int64_t stays[] = {0, 0};
    tr_copy_strided(out, rows, x + 3, stays, 2, many, sizeof *x);
    for (int i = 0; i < 35; i++)
        assert_int_equal(out[i], 103);
    tr_copy_strided(out, NULL, x, NULL, 0, NULL, sizeof *x);                  /* one item */
    assert_int_equal(out[0], 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(transposes_match),
        cmocka_unit_test(blocks_are_copied),
        cmocka_unit_test(long_blocks_are_copied),
        cmocka_unit_test(any_strides_are_copied),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
