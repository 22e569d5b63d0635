/* test_row_code.c - rows in 8 bits a number: the errors stay within the bounds that docs/checkpoints.md promises, and what cannot be coded
 * stays exact. */
#include "tests/support/expect.h"
#include "tests/support/kept_table.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "framework/tensors/random.h"
#include "kernels/math/tools/cast.h"
#include "storage/checkpoint/row_code.h"

enum { ROWS = 200, MOST = 64 };

/* A finite float of any size, or 0: random bits, among few exponents or all. */
static float any_float(uint64_t *seed, bool may_be_negative)
{
    const uint64_t bits = tr_hash_u64(++*seed);
    const int      exponent = bits >> 8 & 1 ? (int)(bits >> 16 & 15) - 8 : (int)(bits >> 16 & 511) - 250;
    const float    size = (bits & 7) == 0 ? 0 : (float)fmin(FLT_MAX, ldexp(1 + (double)(bits >> 40) / (1 << 24), exponent));

    return may_be_negative && bits >> 9 & 1 ? -size : size;
}

/* Where the states of a packed row begin. */
static uint64_t states_of(const tr_table_config *c)
{
    return sizeof(tr_slot_row) + ((uint64_t)tr_table_row_bytes(c) + 3) / 4 * 4;
}

static uint8_t *make_rows(const tr_table_config *c, uint64_t *seed)
{
    const uint64_t stride = tr_table_stride(c), states_at = states_of(c);
    uint8_t       *rows = calloc(ROWS, stride);
    float          values[MOST];

    for (int i = 0; i < ROWS; i++) {
        uint8_t    *row = rows + (uint64_t)i * stride;
        tr_slot_row head = {(int64_t)tr_hash_u64(++*seed), (uint32_t)tr_hash_u64(++*seed) >> (1 + i % 31), (uint32_t)(1000 + i % 300)};
        memcpy(row, &head, sizeof head);
        for (int64_t j = 0; j < c->width; j++)
            values[j] = any_float(seed, true);
        tr_cast(row + sizeof head, c->dtype, values, TR_FP32, c->width);
        for (int64_t j = 0; j < c->states * c->width; j++)     /* the first state is never negative */
            ((float *)(void *)(row + states_at))[j] = any_float(seed, j >= c->width);
    }
    return rows;
}

static float largest_of(const float *x, int64_t n)
{
    float most = 0;

    for (int64_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

/* docs/checkpoints.md: |error| <= largest / 252, and what rounding to the type adds. */
static void expect_multiples(const float *was, const float *is, int64_t n, double half_ulp)
{
    const double bound = largest_of(was, n) / 252.0 + 0x1p-134;

    for (int64_t i = 0; i < n; i++) {
        assert_true(isfinite(is[i]));
        assert_true(fabs((double)is[i] - was[i]) <= bound + half_ulp * fabs((double)is[i]) + 0x1p-24 * (half_ulp > 0x1p-20));
    }
}

/* docs/checkpoints.md: a number is off by a factor of at most 2^(octaves / 508), and 0 is 0. */
static void expect_powers(const float *was, const float *is, int64_t n)
{
    const float most = largest_of(was, n);
    float       least = most;

    for (int64_t i = 0; i < n; i++)
        least = was[i] > 0 && was[i] < least ? was[i] : least;
    const double octaves = most > 0 ? log2((double)most) - log2((double)least) : 0;
    const double wider = octaves + 2 > 32 ? octaves + 10 : octaves + 2, factor = exp2(wider / 508) * (1 + 1e-6);
    for (int64_t i = 0; i < n; i++) {
        assert_true((was[i] == 0) == (is[i] == 0));
        assert_true((double)is[i] <= was[i] * factor + 0x1p-149 && (double)is[i] >= was[i] / factor - 0x1p-149);
    }
}

static void check_row(const tr_table_config *c, const uint8_t *was, const uint8_t *is)
{
    const uint64_t states_at = states_of(c);
    const float   *old = (const float *)(const void *)(was + states_at), *new = (const float *)(const void *)(is + states_at);
    float          x[MOST], y[MOST];

    assert_memory_equal(was, is, sizeof(tr_slot_row));
    tr_cast(x, TR_FP32, was + sizeof(tr_slot_row), c->dtype, c->width);
    tr_cast(y, TR_FP32, is + sizeof(tr_slot_row), c->dtype, c->width);
    expect_multiples(x, y, c->width, c->dtype == TR_FP32 ? 0x1p-23 : c->dtype == TR_FP16 ? 0x1p-11 : 0x1p-8);
    for (int s = 0; s < c->states; s++, old += c->width, new += c->width) {
        bool is_negative = false;
        for (int64_t i = 0; i < c->width; i++)
            is_negative |= old[i] < 0;
        if (is_negative)
            expect_multiples(old, new, c->width, 0x1p-23);
        else
            expect_powers(old, new, c->width);
    }
}

TEST(random_rows_come_back_within_the_bounds)
{
    static const tr_dtype types[] = {TR_FP32, TR_FP16, TR_BF16};
    uint64_t              seed = 7;

    for (int round = 0; round < 60; round++) {
        const tr_table_config c = {.dtype = types[round % 3], .width = 1 + round % MOST, .states = round % 4};
        uint8_t              *rows = make_rows(&c, &seed), *back = calloc(ROWS, tr_table_stride(&c));
        const uint64_t        bytes = ROWS * tr_table_stride(&c);
        tr_row_code           code;
        void                 *coded;
        uint64_t              size, kept;
        tr_row_code_encode(&code, &coded, &size, &kept, rows, bytes, &c);
        EXPECT_OK(tr_row_code_check(&code));
        assert_true(tr_row_code_stride(&code, &c) < tr_table_stride(&c));
        assert_int_equal(size, (ROWS - kept / tr_table_stride(&c)) * tr_row_code_stride(&code, &c));
        assert_true(c.dtype != TR_FP32 || !kept);          /* large numbers are infinite in 16 bits */
        tr_row_code_decode(back, coded, (bytes - kept) / tr_table_stride(&c), &code, &c);
        for (uint64_t at = kept; at < bytes; at += tr_table_stride(&c))
            check_row(&c, rows + at, back + at - kept);
        free(rows);
        free(back);
        free(coded);
    }
}

/* One state, never negative: each of these rows. */
TEST(small_numbers_beside_large_ones_do_not_become_zero)
{
    static const float states[][4] = {{1e-12f, 1, 0, 3}, {1e-45f, FLT_MAX, 0, 1}, {FLT_MIN, FLT_MIN, 2e-45f, 0}, {0, 0, 0, 0},
                                      {FLT_MAX, FLT_MAX, FLT_MAX, FLT_MAX}, {1e-45f, 0, 0, 0}, {0.1f, 0.1f, 0.1f, 0.1f}};
    const tr_table_config c = {.dtype = TR_FP32, .width = 4, .states = 1};
    const uint64_t        stride = tr_table_stride(&c);
    uint8_t               rows[8 * 64] = {0}, back[8 * 64];
    const int             count = sizeof states / sizeof *states;
    tr_row_code           code;
    void                 *coded;
    uint64_t              size, kept;

    for (int i = 0; i < count; i++)
        memcpy(rows + (uint64_t)i * stride + 32, states[i], sizeof states[i]);
    tr_row_code_encode(&code, &coded, &size, &kept, rows, (uint64_t)count * stride, &c);
    assert_int_equal(kept, 0);
    tr_row_code_decode(back, coded, (uint64_t)count, &code, &c);
    for (int i = 0; i < count; i++)
        check_row(&c, rows + (uint64_t)i * stride, back + (uint64_t)i * stride);
    const float *one = (const float *)(const void *)(back + 6 * stride + 32);
    assert_true(fabsf(one[0] / 0.1f - 1) < 0.0028f);       /* equal ones have an octave to themselves */
    free(coded);
}

/* -- in checkpoints ------------------------------------------------------------------------------------ */

static tr_table *make_table(int64_t width, int64_t rows)
{
    const tr_table_config c = {.dtype = TR_FP32, .width = width, .states = 1, .init = TR_TABLE_CONSTANT};
    tr_table             *t = kept_make(&c, 0, TR_SHARDS);
    float                 values[MOST], states[MOST];
    uint64_t              seed = 3;

    EXPECT_OK(tr_table_begin(t, 1));
    for (int64_t i = 0; i < rows; i++) {
        for (int64_t j = 0; j < width; j++) {
            values[j] = any_float(&seed, true);
            states[j] = any_float(&seed, false);
        }
        const uint32_t     touches = 1 + (uint32_t)(tr_hash_u64(++seed) & 1023);
        const tr_table_row row = {(int64_t)tr_hash_u64((uint64_t)i), touches, 2000 + (uint32_t)i % 1000, values, states};
        EXPECT_OK(tr_table_put(t, &row));
    }
    return t;
}

static tr_checkpoint *saved(const char *folder, const tr_table *t, int64_t step, tr_checkpoint_rows rows)
{
    const tr_checkpoint_facts facts = {.step = step, .mode = "local", .rows = rows};
    const tr_job_table        words = kept_about(t, "words", step);
    const tr_checkpoint_item  item = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};

    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, 1, &item, 0));
    return kept_open_in(folder, step);
}

TEST(coded_rows_are_three_times_smaller)
{
    static const int64_t widths[] = {16, 64};

    for (int i = 0; i < 2; i++) {
        const char    *folder = test_path(i ? "wide" : "narrow");
        tr_table      *t = make_table(widths[i], 20000);
        tr_checkpoint *exact = saved(folder, t, 1, TR_ROWS_EXACT), *coded = saved(folder, t, 2, TR_ROWS_INT8);
        assert_true(tr_checkpoint_bytes(exact) >= 3 * tr_checkpoint_bytes(coded));
        tr_checkpoint_free(exact);
        tr_checkpoint_free(coded);
        tr_table_free(t);
    }
}

static const tr_slot_row *find_row(const void *rows, int64_t bytes, uint64_t stride, int64_t key)
{
    for (int64_t at = 0; at < bytes; at += (int64_t)stride)
        if (((const tr_slot_row *)(const void *)((const char *)rows + at))->key == key)
            return (const tr_slot_row *)(const void *)((const char *)rows + at);
    return NULL;
}

TEST(numbers_that_are_not_finite_stay_exact)
{
    const char    *folder = test_path("not_finite");
    tr_table      *t = make_table(4, 300);
    const uint64_t stride = tr_table_stride(tr_table_get_config(t));
    const float    odd[3][4] = {{NAN, 1, 2, 3}, {-INFINITY, 1e-3f, 0, 1}, {1, 2, 3, INFINITY}}, plain[4] = {0.3f, 0.1f, 7, 9};
    void          *rows;
    int64_t        bytes;

    for (int64_t i = 0; i < 6; i++) {
        const tr_table_row row = {1000 + i, 5, 6, i % 2 ? odd[i / 2] : plain, i % 2 ? plain : odd[i / 2]};
        EXPECT_OK(tr_table_put(t, &row));
    }
    tr_checkpoint *c = saved(folder, t, 1, TR_ROWS_INT8);
    EXPECT_OK(tr_checkpoint_read_table(&rows, &bytes, c, 0, 0, TR_SHARDS));
    assert_int_equal(bytes, 306 * stride);
    for (int64_t i = 0; i < 6; i++) {
        const tr_slot_row *row = find_row(rows, bytes, stride, 1000 + i);
        assert_non_null(row);
        assert_memory_equal(row + 1, i % 2 ? odd[i / 2] : plain, sizeof plain);
        assert_memory_equal((const char *)(row + 1) + sizeof plain, i % 2 ? plain : odd[i / 2], sizeof plain);
    }
    tr_free(rows);
    tr_checkpoint_free(c);
    tr_table_free(t);
}

/* Another process, another number of readers, and a chain that was compacted have the same bits. */
TEST(coded_rows_are_the_same_for_every_reader_and_after_compaction)
{
    const char        *folder = test_path("chain");
    tr_table          *t = kept_filled(2);
    tr_checkpoint_base base = {0};
    tr_scope          *scope[2] = {tr_scope_new(NULL), tr_scope_new(NULL)};

    for (int64_t step = 4; step <= 9; step++) {
        kept_touch(t, (uint64_t)step, step * 400, 300);
        const tr_checkpoint_facts facts = {.step = step, .mode = "local", .base = base, .rows = step % 3 ? TR_ROWS_INT8 : TR_ROWS_EXACT};
        const tr_job_table        words = kept_about(t, "words", step);
        const tr_checkpoint_item  item = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};
        base.step = step;
        EXPECT_OK(tr_checkpoint_save(&base.number, folder, &facts, 1, &item, 0));
    }
    for (int i = 0; i < 2; i++) {
        tr_checkpoint *c = kept_open_in(folder, 9);
        EXPECT_OK(tr_checkpoint_load_table(scope[i], c, 0));
        if (i == 0)
            EXPECT_OK(tr_checkpoint_compact(c, folder));
        tr_checkpoint_free(c);
    }
    const tr_table *first = kept_var(scope[0], "words")->table;
    kept_expect_same(first, kept_var(scope[1], "words")->table);
    assert_int_equal(tr_slots_count(tr_table_slots(first)), tr_slots_count(tr_table_slots(t)));
    tr_scope_free(scope[0]);
    tr_scope_free(scope[1]);
    tr_table_free(t);
}

static void expect_refused(const char *path, const tr_manifest *m, const char *why)
{
    tr_checkpoint *c = NULL;

    EXPECT_OK(tr__manifest_put(NULL, path, m));
    EXPECT_FAIL(TR_EFORMAT, why, tr_checkpoint_open(&c, path));
}

TEST(codes_that_cannot_be_are_refused)
{
    const char  *folder = test_path("crafted");
    tr_table    *t = make_table(4, 3000);
    char        *path = tr_checkpoint_path(folder, 1);
    tr_manifest *m;

    tr_checkpoint_free(saved(folder, t, 1, TR_ROWS_INT8));
    EXPECT_OK(tr_manifest_read(&m, path));
    tr_part_tensor             *first = m->parts[0]->tensors[0];
    Trireme__Checkpoint__RowCode *code = first->code, was = *code;
    code->key_bits = 65;
    expect_refused(path, m, "rows are coded with 65, ");
    *code = was;
    code->touch_bits += 8;
    expect_refused(path, m, "does not belong there");
    *code = was;
    first->has_candidates = first->candidates = true;
    expect_refused(path, m, "keys without rows are coded as rows");
    first->candidates = false;
    m->parts[0]->tensors[1]->shard = first->shard;
    expect_refused(path, m, "does not belong there");      /* twice */
    tr_manifest_free(m);
    free(path);
    tr_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_rows_come_back_within_the_bounds),
        cmocka_unit_test(small_numbers_beside_large_ones_do_not_become_zero),
        cmocka_unit_test(coded_rows_are_three_times_smaller),
        cmocka_unit_test(numbers_that_are_not_finite_stay_exact),
        cmocka_unit_test(coded_rows_are_the_same_for_every_reader_and_after_compaction),
        cmocka_unit_test(codes_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
