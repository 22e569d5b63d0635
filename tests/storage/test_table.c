/* test_table.c - rows by key: found as the table grows, first values, updates, admission and eviction. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"
#include "kernels/math/tools/cast.h"
#include "storage/table/first_values.h"
#include "storage/slots/slots_state.h"
#include "storage/table/table_report.h"
#include "storage/table/table_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

static const tr_table_segment everywhere = {NULL, 0, TR_SHARDS, 0};

static tr_table *make(const tr_table_config *config)
{
    tr_table *t = NULL;
    EXPECT_OK(tr_table_create(&t, config, &everywhere));
    return t;
}

/* The values of a key's row before its first update, as float32 [width]. */
static void first_value_of(const tr_table_config *config, float *out, int64_t key)
{
    tr_table_config wide = *config;

    wide.dtype = TR_FP32;
    tr__table_put_first_value(&wide, (char *)out, key);
}

TEST(rows_are_found_while_the_table_grows)
{
    enum { ROWS = 200000, STEP = 5000 };
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = make(&config);
    int64_t              *keys = malloc(ROWS * sizeof *keys);
    float                *got = malloc((size_t)ROWS * WIDTH * sizeof *got), first[WIDTH];
    tr_table_report       report;

    for (int64_t i = 0; i < ROWS; i++)
        keys[i] = key_of((uint64_t)i);
    for (int64_t i = 0; i < ROWS; i += STEP) {
        update(t, 1 + (uint64_t)(i / STEP), keys + i, STEP, 2);
        tr_table_get_report(t, &report);
        assert_int_equal(report.rows, i + STEP);
        if (i % 40000 == 0)
            EXPECT_OK(tr_table_check(t));
    }
    EXPECT_OK(tr_table_check(t));
    tr_table_pull(t, got, keys, ROWS);
    for (int64_t i = 0; i < ROWS; i++) {
        first_value_of(&config, first, keys[i]);
        for (int c = 0; c < WIDTH; c++)
            assert_true(got[i * WIDTH + c] == first[c] + 2);
    }
    /* 16 bytes of header, values and states: 76, padded to 80 */
    assert_int_equal(report.row_bytes, 80);
    assert_true((double)report.bytes <= ROWS * (60 + 24.0) * 1.2);
    free(keys);
    free(got);
    tr_table_free(t);
}

/* Draw keys that have the same tag. The middle bits of a tag are bits 32 to 57 of the hash's product; the others come by trying. */
static void draw_twins(const tr_slots *slots, int64_t *keys, int n)
{
    for (uint64_t i = 0; n > 0; i++) {
        const uint64_t hash = (i << 58 | (uint64_t)0x1234567 << 32 | i >> 6) * tr_inverse(TR__SLOTS_FACTOR);
        if (tr__slots_tag_of_hash(slots, hash) == (0x1234567 & ~0xfu))
            keys[--n] = key_of_hash(hash);
    }
}

/* Of keys that have the same tag, more than a line of the index holds, each reads its own row, or none. */
static void expect_twins_told_apart(int64_t width)
{
    enum { TWINS = 20, OTHERS = 3000, ALL = 2 * TWINS + OTHERS };
    tr_table_config config = config_of(TR_FP32);
    int64_t        *keys = malloc(ALL * sizeof *keys);
    float          *got = malloc((size_t)(ALL * width) * sizeof *got), *wanted = malloc((size_t)width * sizeof *wanted);

    config.width = width;
    tr_table *t = make(&config);
    draw_twins(t->slots, keys, 2 * TWINS);
    for (int i = 2 * TWINS; i < ALL; i++)
        keys[i] = key_of((uint64_t)i);
    for (int i = TWINS; i < ALL; i++) {
        for (int c = 0; c < width; c++)
            wanted[c] = (float)(i * 100 + c);
        EXPECT_OK(tr_table_set_values(t, keys[i], wanted));
    }
    EXPECT_OK(tr_table_check(t));
    tr_table_pull(t, got, keys, ALL);
    for (int i = 0; i < ALL; i++) {
        first_value_of(&config, wanted, keys[i]);
        for (int c = 0; c < width; c++)
            assert_true(got[i * width + c] == (i < TWINS ? wanted[c] : (float)(i * 100 + c)));
    }
    free(keys);
    free(got);
    free(wanted);
    tr_table_free(t);
}

TEST(keys_that_the_index_cannot_tell_apart_have_their_own_rows)
{
    static const int64_t widths[] = {1, 5, 8, 10, 16, 32, 40};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        expect_twins_told_apart(widths[i]);
}

/* Two states; the place of a key that has no row is passed over, and reads zeros. */
static void expect_scattered_is_gathered(int64_t width, tr_dtype dtype)
{
    enum { ROWS = 50, NONE = 17, STATES = 2 };
    tr_table_config config = config_of(dtype);
    int64_t         keys[ROWS];
    uint32_t        slots[ROWS];
    float           in[1 + STATES][ROWS * 64], got[1 + STATES][ROWS * 64];

    config.width = width;
    config.states = STATES;
    tr_table *t = make(&config);
    for (int i = 0; i < ROWS; i++)
        keys[i] = key_of((uint64_t)i);
    for (int part = 0; part <= STATES; part++)
        for (int64_t i = 0; i < ROWS * width; i++)
            in[part][i] = i / width == NONE ? 0 : (float)((i * 7 + part * 31) % 128);      /* half floats, too, have these */
    EXPECT_OK(tr_table_begin(t, 1));
    EXPECT_OK(tr_table_take(t, slots, keys, ROWS));
    slots[NONE] = TR_SLOT_NONE;
    EXPECT_OK(tr_table_keep(t, slots, ROWS));
    tr_table_scatter(t, slots, ROWS, in[0], (const float *const[]){in[1], in[2]});
    memset(got, 0xff, sizeof got);
    tr_table_gather(t, slots, ROWS, got[0], (float *const[]){got[1], got[2]});
    for (int part = 0; part <= STATES; part++)
        assert_memory_equal(got[part], in[part], (size_t)(ROWS * width) * sizeof(float));
    tr_table_free(t);
}

TEST(rows_of_every_width_are_gathered_as_they_were_scattered)
{
    static const int64_t widths[] = {1, 2, 5, 8, 10, 16, 20, 32, 40, 64};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        expect_scattered_is_gathered(widths[i], TR_FP32);
        expect_scattered_is_gathered(widths[i], TR_FP16);
    }
}

TEST(a_first_value_is_that_of_a_dense_parameter_and_looking_makes_no_row)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = make(&config);
    const int64_t         keys[] = {0, 1, 7, 7, 100, -3};
    float                 dense[101 * WIDTH], got[6 * WIDTH];
    tr_table_report       report;

    tr_random_uniform_f32(dense, 101 * WIDTH, 77, 0, -1, 1);
    tr_table_pull(t, got, keys, 6);
    for (int i = 0; i < 5; i++)
        assert_memory_equal(got + i * WIDTH, dense + keys[i] * WIDTH, WIDTH * sizeof(float));
    for (int c = 0; c < WIDTH; c++)
        assert_true(got[5 * WIDTH + c] >= -1 && got[5 * WIDTH + c] < 1);
    tr_table_get_report(t, &report);
    assert_int_equal(report.rows, 0);
    tr_table_free(t);
}

static int by_row(const void *a, const void *b)
{
    return memcmp(a, b, 64 * sizeof(float));
}

/* Key 7 with each of its bits changed, and key 7 with each number in the ten highest bits. */
static void expect_rows_apart(int64_t width, tr_table_init init)
{
    enum { BITS = 64, SLOTS = 1024, MOST = 64 };
    tr_table_config config = config_of(TR_FP32);
    float(*row)[MOST] = calloc(BITS + SLOTS, sizeof *row);

    config.width = width;
    config.init = init;
    for (int i = 0; i < BITS + SLOTS; i++)
        first_value_of(&config, row[i], (int64_t)(7 ^ (i < BITS ? (uint64_t)1 << i : (uint64_t)(i - BITS) << 54)));
    /* the ten highest bits were changed twice, each alone: only these rows are equal */
    qsort(row, BITS + SLOTS, sizeof *row, by_row);
    int equal = 0;
    for (int i = 1; i < BITS + SLOTS; i++)
        equal += !by_row(row[i - 1], row[i]);
    assert_int_equal(equal, 10);
    free(row);
}

TEST(keys_that_differ_in_any_bit_have_different_first_values)
{
    static const int64_t widths[] = {2, 8, 9, 16, 32, 64};

    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        for (int init = TR_TABLE_UNIFORM; init <= TR_TABLE_TRUNCATED_NORMAL; init++)
            expect_rows_apart(widths[i], (tr_table_init)init);
}

TEST(a_key_that_comes_twice_in_an_update_has_one_row)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = make(&config);
    const int64_t         keys[] = {9, -4, 9, 9, -4};
    uint32_t              slots[5];
    tr_table_report       report;

    EXPECT_OK(tr_table_begin(t, 1));
    EXPECT_OK(tr_table_take(t, slots, keys, 5));
    assert_true(slots[0] == slots[2] && slots[0] == slots[3] && slots[1] == slots[4] && slots[0] != slots[1]);
    tr_table_get_report(t, &report);
    assert_int_equal(report.rows, 2);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
}

TEST(hints_that_are_stale_are_of_no_use_and_do_no_harm)
{
    const tr_table_config config = {.dtype = TR_FP32, .width = WIDTH, .states = 2, .max_age = 1};
    tr_table             *t = make(&config);
    const int64_t         old[] = {1, 2}, keys[] = {3, 4, 1, 5}, again[] = {1, 4, 3, 6};
    uint32_t              hints[4], slots[4], want[3];
    float                 rows[4 * WIDTH];

    update(t, 1, old, 2, 1);
    tr_table_pull_places(t, rows, hints, old, 2);
    assert_true(hints[0] != TR_SLOT_NONE && hints[1] != TR_SLOT_NONE);
    for (uint64_t step = 3; step < 3 + TR_SHARDS; step++)      /* through all shards */
        EXPECT_OK(tr_table_evict(t, step, NULL));
    hints[2] = hints[0];                               /* rows that are dead; none at all */
    hints[3] = TR_SLOT_NONE;
    EXPECT_OK(tr_table_begin(t, 2000));
    EXPECT_OK(tr_table_take_hinted(t, slots, hints, keys, 4));
    tr_table_pull_places(t, rows, hints, keys, 4);
    assert_memory_equal(hints, slots, sizeof slots);   /* one of the old rows' slots is key 3's by now */
    EXPECT_OK(tr_table_take_hinted(t, slots, hints, again, 4));
    want[0] = hints[2], want[1] = hints[1], want[2] = hints[0];
    assert_memory_equal(slots, want, sizeof want);
    assert_true(slots[3] != hints[3] && slots[3] != TR_SLOT_NONE);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
}

TEST(half_precision_rows_are_rounded_values_of_float_rows)
{
    const tr_dtype dtypes[] = {TR_FP16, TR_BF16};
    const int64_t  keys[] = {-5, 3};

    for (int d = 0; d < 2; d++) {
        const tr_table_config config = config_of(dtypes[d]);
        tr_table             *t = make(&config);
        uint16_t              got[2 * WIDTH], want[WIDTH];
        float                 first[WIDTH], first16[WIDTH];

        tr_table_pull(t, got, keys, 2);
        first_value_of(&config, first, keys[1]);
        tr_cast(want, dtypes[d], first, TR_FP32, WIDTH);
        assert_memory_equal(got + WIDTH, want, sizeof want);
        update(t, 1, keys, 2, 0.25f);
        tr_table_pull(t, got, keys, 2);
        tr_cast(first16, TR_FP32, want, dtypes[d], WIDTH);
        for (int c = 0; c < WIDTH; c++)
            first16[c] += 0.25f;
        tr_cast(want, dtypes[d], first16, TR_FP32, WIDTH);
        assert_memory_equal(got + WIDTH, want, sizeof want);
        tr_table_free(t);
    }
}

static uint64_t rows_of(const tr_table *t)
{
    tr_table_report report;
    tr_table_get_report(t, &report);
    return report.rows;
}

TEST(hot_keys_are_those_that_most_updates_touched)
{
    enum { KEYS = 300, MOST = 7 };
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = make(&config);
    int64_t               keys[KEYS];
    tr_table_hot_key      hot[KEYS + 1];
    tr_table_part         part;

    assert_int_equal(tr_table_hot_keys(hot, t, MOST), 0);
    for (int i = 0; i < KEYS; i++)
        keys[i] = 7 * (KEYS / 2 - i);
    for (uint64_t step = 1; step <= 40; step++)        /* key number i is in the first 40 - i % 41 steps */
        for (int i = 0; i < KEYS; i++)
            if (step <= 40 - (uint64_t)i % 41)
                update(t, step, &keys[i], 1, 1);
    assert_int_equal(tr_table_hot_keys(hot, t, MOST), MOST);
    for (int i = 0; i < MOST; i++) {                   /* keys number 287, 246, 205, ..., the smaller key first */
        assert_int_equal(hot[i].updates, 40);
        assert_int_equal(hot[i].key, keys[287 - 41 * i]);
    }
    assert_int_equal(tr_table_hot_keys(hot, t, KEYS + 1), KEYS - KEYS / 41);      /* key 40, 81, ... in none */
    for (int i = 1; i < KEYS - KEYS / 41; i++)
        assert_true(hot[i - 1].updates > hot[i].updates || (hot[i - 1].updates == hot[i].updates && hot[i - 1].key < hot[i].key));
    tr_table_describe(&part, t);
    assert_int_equal(part.rows, KEYS - KEYS / 41);
    assert_int_equal(part.hot_count, TR_TABLE_HOT_KEYS);
    assert_int_equal(part.value_bytes, part.rows * WIDTH * 4);
    assert_int_equal(part.state_bytes, part.rows * WIDTH * 8);
    assert_int_equal(part.value_bytes + part.state_bytes + part.header_bytes, part.rows * part.row_bytes);
    assert_true(part.bytes >= part.rows * part.row_bytes + part.index_bytes + part.journal_bytes);
    tr_table_free(t);
}

TEST(a_key_is_admitted_by_its_count)
{
    tr_table_config config = config_of(TR_FP32);
    const int64_t   keys[] = {42, -42};
    float           got[WIDTH], first[WIDTH];

    config.entry_count = 3;
    char             name[TR_SEGMENT_NAME];
    tr_table_segment place = everywhere;
    tr_table        *t = NULL;
    snprintf(name, sizeof name, "trireme-test-%d-counted", (int)getpid());
    place.name = name;
    EXPECT_OK(tr_table_create(&t, &config, &place));
    first_value_of(&config, first, 42);
    for (uint64_t step = 1; step <= 3; step++) {
        tr_table_pull(t, got, keys, 1);
        for (int c = 0; c < WIDTH; c++)
            assert_true(got[c] == 0);
        assert_int_equal(rows_of(t), 0);
        update(t, step, keys, step == 2 ? 2 : 1, 1);
    }
    assert_int_equal(rows_of(t), 1);               /* from now on it is there, as it begins */
    tr_table_pull(t, got, keys, 1);
    assert_memory_equal(got, first, sizeof got);
    EXPECT_OK(tr_table_pull_before(t, got, keys, 1));
    assert_true(got[0] == 0 && got[WIDTH - 1] == 0);
    tr_table_go_back(t, 2);                        /* as if a kill had undone step 3: its forward pass reads what it has read before */
    tr_table_pull(t, got, keys, 1);
    assert_true(got[0] == 0 && got[WIDTH - 1] == 0);
    update(t, 3, keys, 1, 1);                      /* the step repeated: nothing counts twice */
    tr_table_pull(t, got, keys, 1);
    assert_memory_equal(got, first, sizeof got);
    update(t, 4, keys, 1, 1);
    tr_table_pull(t, got, keys, 1);
    assert_true(got[0] == first[0] + 1);
    tr_table_report report;
    tr_table_get_report(t, &report);
    assert_int_equal(report.candidates, 1);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
    tr_table_remove(name);
}

TEST(a_share_of_the_keys_is_admitted_whatever_the_order)
{
    enum { KEYS = 20000 };
    tr_table_config config = config_of(TR_FP32);
    int64_t         keys[2][KEYS];

    config.entry_probability = 0.25;
    tr_table *t[2] = {make(&config), make(&config)};
    for (int i = 0; i < KEYS; i++)
        keys[0][i] = keys[1][KEYS - 1 - i] = key_of((uint64_t)i);
    for (int i = 0; i < 2; i++)
        update(t[i], 1, keys[i], KEYS, 1);
    assert_true(rows_of(t[0]) > KEYS / 4 - 400 && rows_of(t[0]) < KEYS / 4 + 400);
    float *got[2] = {malloc(KEYS * WIDTH * sizeof(float)), malloc(KEYS * WIDTH * sizeof(float))};
    for (int i = 0; i < 2; i++)
        tr_table_pull(t[i], got[i], keys[0], KEYS);
    assert_memory_equal(got[0], got[1], KEYS * WIDTH * sizeof(float));
    for (int i = 0; i < 2; i++) {
        free(got[i]);
        tr_table_free(t[i]);
    }
}

TEST(rows_leave_by_age_and_by_number)
{
    enum { KEYS = 40000 };
    tr_table_config config = config_of(TR_FP32);
    static int64_t  keys[KEYS];
    uint64_t        removed, all = 0;

    config.max_age = 100;
    config.keep_count = 3;
    tr_table *t = make(&config);
    for (int i = 0; i < KEYS; i++)
        keys[i] = key_of((uint64_t)i);
    update(t, 1, keys, KEYS, 1);
    for (uint64_t step = 2; step <= 3; step++)
        update(t, step, keys, 1000, 1);            /* these were touched often enough to stay */
    for (uint64_t step = 90; step < 101; step++) {
        EXPECT_OK(tr_table_evict(t, step, &removed));
        assert_int_equal(removed, 0);
    }
    for (uint64_t step = 102; step < 102 + TR_SHARDS; step++) {
        EXPECT_OK(tr_table_evict(t, step, &removed));
        all += removed;
    }
    assert_int_equal(all, KEYS - 1000);
    assert_int_equal(rows_of(t), 1000);
    EXPECT_OK(tr_table_check(t));
    update(t, 2000, keys, KEYS, 1);                /* slots are used again */
    assert_int_equal(rows_of(t), KEYS);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);

    config.max_age = 0;
    config.max_rows = 10 * TR_SHARDS;
    t = make(&config);
    update(t, 1, keys, KEYS, 1);
    update(t, 2, keys, 500, 1);
    for (uint64_t step = 3; step < 3 + TR_SHARDS; step++)
        EXPECT_OK(tr_table_evict(t, step, NULL));
    assert_true(rows_of(t) <= 10 * TR_SHARDS && rows_of(t) > 9 * TR_SHARDS);
    float got[WIDTH], first[WIDTH];
    for (int i = 0; i < 500; i++) {                /* the last touched stayed */
        first_value_of(&config, first, keys[i]);
        tr_table_pull(t, got, &keys[i], 1);
        assert_true(got[0] == first[0] + 1 + 1);
    }
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
}

static tr_status put_into(void *payload, const tr_table_row *row)
{
    return tr_table_put(payload, row);
}

TEST(rows_move_by_shards_to_any_number_of_tables)
{
    enum { KEYS = 30000, PARTS = 3 };
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *whole = make(&config), *part[PARTS];
    static int64_t        keys[KEYS];
    uint64_t              rows = 0;

    for (int i = 0; i < KEYS; i++)
        keys[i] = key_of((uint64_t)i);
    update(whole, 1, keys, KEYS, 1);
    update(whole, 2, keys, 100, 1);
    for (int p = 0; p < PARTS; p++) {
        const uint32_t       first = (uint32_t)p * TR_SHARDS / PARTS, end = ((uint32_t)p + 1) * TR_SHARDS / PARTS;
        const tr_table_segment place = {NULL, first, end - first, 0};
        EXPECT_OK(tr_table_create(&part[p], &config, &place));
        for (uint32_t shard = first; shard < end; shard++)
            EXPECT_OK(tr_table_each(whole, shard, put_into, part[p]));
        EXPECT_OK(tr_table_check(part[p]));
        rows += rows_of(part[p]);
    }
    assert_int_equal(rows, KEYS);
    for (int i = 0; i < KEYS; i++) {
        float a[2][WIDTH];
        int   p = 0;
        while (tr_slots_shard(keys[i]) >= ((uint32_t)p + 1) * TR_SHARDS / PARTS)
            p++;
        tr_table_pull(whole, a[0], &keys[i], 1);
        tr_table_pull(part[p], a[1], &keys[i], 1);
        assert_memory_equal(a[0], a[1], sizeof a[0]);
    }
    for (int p = 0; p < PARTS; p++)
        tr_table_free(part[p]);
    tr_table_free(whole);
}

TEST(a_table_of_other_rows_goes_on_with_their_clock_also_after_a_new_start)
{
    enum { KEYS = 3000 };
    tr_table_config config = config_of(TR_FP32);
    static int64_t  keys[KEYS];
    uint64_t        removed = 0, all = 0;
    tr_table       *t, *loaded;
    char            name[64];

    config.max_age = 10;
    config.entry_count = 1;
    for (int i = 0; i < KEYS; i++)
        keys[i] = key_of((uint64_t)i);
    snprintf(name, sizeof name, "trireme-test-%d-clear", (int)getpid());
    const tr_table_segment place = {name, 0, TR_SHARDS, 0};
    EXPECT_OK(tr_table_create(&t, &config, &place));
    update(t, 7, keys, KEYS, 1);
    loaded = make(&config);
    update(loaded, 5000, keys, 1000, 1);
    tr_table_clear(t, 7, 5004);                    /* loaded had 4 more steps */
    assert_int_equal(rows_of(t), 0);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++)
        EXPECT_OK(tr_table_each(loaded, shard, put_into, t));
    tr_table_free(t);
    EXPECT_OK(tr_table_attach(&t, &config, &place, 7));        /* the update before is final: nothing is undone */
    assert_int_equal(rows_of(t), 1000);
    assert_int_equal(tr_table_clock(t), 5004);
    update(t, 8, keys, 500, 1);
    assert_int_equal(tr_table_clock(t), 5005);
    for (uint64_t step = 8; step < 14; step++)
        EXPECT_OK(tr_table_evict(t, step, &removed));
    assert_int_equal(removed, 0);                  /* 5010 - 5000 is no more than max_age */
    for (uint64_t step = 14; step < 14 + TR_SHARDS; step++) {
        update(t, step, keys, 500, 1);
        EXPECT_OK(tr_table_evict(t, step, &removed));
        all += removed;
    }
    assert_int_equal(all, 500);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
    tr_table_free(loaded);
    tr_table_remove(name);
}

/* -- a snapshot ------------------------------------------------------------------------------------------ */

static int by_key(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

typedef tr_status (*read_fn)(const tr_table *t, uint32_t shard, void **out, uint64_t *bytes);

/* All shards, each in the order of its keys, one after the other. */
static char *read_all(const tr_table *t, read_fn read, uint64_t stride, uint64_t *size)
{
    char *all = NULL;

    *size = 0;
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows;
        uint64_t bytes;
        EXPECT_OK(read(t, shard, &rows, &bytes));
        qsort(rows, bytes / stride, stride, by_key);
        all = realloc(all, *size + bytes + 1);
        memcpy(all + *size, rows, bytes);
        *size += bytes;
        free(rows);
    }
    return all;
}

typedef struct snapshot_reader {
    const tr_table *table;
    atomic_bool     is_done;
    char           *rows, *candidates;
    uint64_t        bytes, candidate_bytes, stride;
} snapshot_reader;

static void *read_snapshot(void *payload)
{
    snapshot_reader *r = payload;

    r->rows = read_all(r->table, tr_table_snapshot_read, r->stride, &r->bytes);
    r->candidates = read_all(r->table, tr_table_snapshot_read_candidates, sizeof(tr_slot_row), &r->candidate_bytes);
    atomic_store(&r->is_done, true);
    return NULL;
}

/* Rows are changed, made, removed and their places used again, while another thread reads the moment before all that. */
TEST(a_snapshot_is_one_moment_while_updates_go_on)
{
    enum { KEYS = 60000, STEP = 3000, SNAPSHOT = 5 };
    tr_table_config config = config_of(TR_FP16);
    tr_table_report report;
    uint64_t        step = 0, seed = 0;
    static int64_t  keys[STEP];

    config.entry_count = 2;
    config.max_age = 20;
    tr_table *t = make(&config);
    tr_table_get_report(t, &report);
    for (int c = 0; c < SNAPSHOT; c++) {
        snapshot_reader r = {.table = t, .stride = report.row_bytes};
        uint64_t   bytes, candidate_bytes;
        pthread_t  thread;
        for (int i = 0; i < 40; i++) {
            EXPECT_OK(tr_table_evict(t, step, NULL));
            for (int k = 0; k < STEP; k++)
                keys[k] = key_of((tr_random_bits(3, seed) % 20) * STEP + (uint64_t)k), seed++;
            update(t, ++step, keys, STEP, 1);
        }
        char *rows = read_all(t, tr_table_pack, r.stride, &bytes);
        char *candidates = read_all(t, tr_table_pack_candidates, sizeof(tr_slot_row), &candidate_bytes);
        assert_true(bytes > 1000 * r.stride && candidate_bytes);
        EXPECT_OK(tr_table_snapshot(t, 0, 0));
        assert_int_equal(pthread_create(&thread, NULL, read_snapshot, &r), 0);
        for (int i = 0; i < 200 && !(i > 3 && atomic_load(&r.is_done)); i++) {
            EXPECT_OK(tr_table_evict(t, step, NULL));
            for (int k = 0; k < STEP; k++)
                keys[k] = key_of((tr_random_bits(3, seed) % 30) * STEP + (uint64_t)k), seed++;
            update(t, ++step, keys, STEP, 1);
        }
        pthread_join(thread, NULL);
        tr_table_snapshot_end(t);
        assert_int_equal(r.bytes, bytes);
        assert_memory_equal(r.rows, rows, bytes);
        assert_int_equal(r.candidate_bytes, candidate_bytes);
        assert_memory_equal(r.candidates, candidates, candidate_bytes);
        EXPECT_OK(tr_table_check(t));
        free(rows);
        free(candidates);
        free(r.rows);
        free(r.candidates);
    }
    tr_table_free(t);
}

TEST(candidates_move_by_shards_too)
{
    enum { KEYS = 5000 };
    tr_table_config config = config_of(TR_FP32);
    static int64_t  keys[KEYS];
    tr_table_report report;

    config.entry_count = 3;
    tr_table *from = make(&config), *to = make(&config);
    for (int i = 0; i < KEYS; i++)
        keys[i] = key_of((uint64_t)i);
    update(from, 1, keys, KEYS, 1);
    update(from, 2, keys, KEYS / 2, 1);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows;
        uint64_t bytes;
        EXPECT_OK(tr_table_pack_candidates(from, shard, &rows, &bytes));
        EXPECT_OK(tr_table_unpack_candidates(to, rows, bytes));
        free(rows);
    }
    tr_table_get_report(to, &report);
    assert_int_equal(report.candidates, KEYS);
    update(to, 3, keys, KEYS, 1);
    assert_int_equal(rows_of(to), KEYS / 2);
    config.entry_count = 0;
    tr_table *none = make(&config);
    EXPECT_FAIL(TR_EFORMAT, "1 keys wait for a row, but each has one at once here", tr_table_unpack_candidates(none, keys, 16));
    tr_table_free(none);
    tr_table_free(from);
    tr_table_free(to);
}

TEST(impossible_columns_are_explained)
{
    tr_table_config config = config_of(TR_FP64);
    tr_table       *t = NULL;

    EXPECT_FAIL(TR_EDTYPE, "rows of float64; float32, float16 and bfloat16", tr_table_create(&t, &config, &everywhere));
    config = config_of(TR_FP32);
    config.width = 0;
    EXPECT_FAIL(TR_ESHAPE, "rows of 0 values", tr_table_create(&t, &config, &everywhere));
    config.width = 4;
    config.entry_probability = 1.5;
    EXPECT_FAIL(TR_ERANGE, "a probability of 1.5", tr_table_create(&t, &config, &everywhere));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_while_the_table_grows),
        cmocka_unit_test(keys_that_the_index_cannot_tell_apart_have_their_own_rows),
        cmocka_unit_test(rows_of_every_width_are_gathered_as_they_were_scattered),
        cmocka_unit_test(a_first_value_is_that_of_a_dense_parameter_and_looking_makes_no_row),
        cmocka_unit_test(keys_that_differ_in_any_bit_have_different_first_values),
        cmocka_unit_test(a_key_that_comes_twice_in_an_update_has_one_row),
        cmocka_unit_test(hints_that_are_stale_are_of_no_use_and_do_no_harm),
        cmocka_unit_test(half_precision_rows_are_rounded_values_of_float_rows),
        cmocka_unit_test(hot_keys_are_those_that_most_updates_touched),
        cmocka_unit_test(a_key_is_admitted_by_its_count),
        cmocka_unit_test(a_share_of_the_keys_is_admitted_whatever_the_order),
        cmocka_unit_test(rows_leave_by_age_and_by_number),
        cmocka_unit_test(rows_move_by_shards_to_any_number_of_tables),
        cmocka_unit_test(a_table_of_other_rows_goes_on_with_their_clock_also_after_a_new_start),
        cmocka_unit_test(a_snapshot_is_one_moment_while_updates_go_on),
        cmocka_unit_test(candidates_move_by_shards_too),
        cmocka_unit_test(impossible_columns_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
