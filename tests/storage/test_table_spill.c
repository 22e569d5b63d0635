/* test_table_spill.c - a table with rows on disk beside one in memory: the same calls give the same bits. */
#include "tests/support/table_pair.h"

#include "framework/tensors/random.h"
#include "storage/table/table_state.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Distinct keys; half of them from a part of the domain that is used often. */
static int64_t choose_keys(int64_t *keys, uint64_t seed)
{
    static bool   has[DOMAIN];
    const int64_t n = 1 + (int64_t)tr_random_below(seed, 0, MOST_KEYS - 1);
    int64_t       count = 0;

    memset(has, 0, sizeof has);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t k = tr_random_below(seed, (uint64_t)i + 1, i % 2 ? DOMAIN : DOMAIN / 16);
        if (!has[k])
            keys[count++] = key_of(k);
        has[k] = true;
    }
    return count;
}

/* == random calls ================================================================================ */

static void set_some(pair *p, const int64_t *keys, int64_t n, uint64_t seed)
{
    float values[WIDTH];

    for (int64_t i = 0; i < n; i += 3) {
        for (int j = 0; j < WIDTH; j++)
            values[j] = (float)tr_random_below(seed, (uint64_t)(i * WIDTH + j), 1000);
        EXPECT_OK(tr_table_set_values(p->plain, keys[i], values));
        EXPECT_OK(tr_table_set_values(p->spilled, keys[i], values));
    }
}

/* The rows of a shard go, and come back with others of theirs. */
static void remove_and_put_back(pair *p, uint64_t seed)
{
    const uint32_t shard = (uint32_t)tr_random_below(seed, 0, TR_SHARDS);
    const uint64_t stride = tr_slots_stride(tr_table_slots(p->plain));
    void          *rows = NULL;
    uint64_t       bytes = 0;
    int64_t        keys[DOMAIN];

    EXPECT_OK(tr_table_pack(p->plain, shard, &rows, &bytes));
    for (uint64_t i = 0; i < bytes / stride; i++)
        memcpy(&keys[i], (char *)rows + i * stride, sizeof *keys);
    EXPECT_OK(tr_table_unpack_removed(p->plain, false, keys, bytes / stride * sizeof *keys));
    EXPECT_OK(tr_table_unpack_removed(p->spilled, false, keys, bytes / stride * sizeof *keys));
    if (seed % 2) {
        EXPECT_OK(tr_table_unpack(p->plain, rows, bytes));
        EXPECT_OK(tr_table_unpack(p->spilled, rows, bytes));
    }
    free(rows);
}

static void call_at_random(pair *p, uint64_t seed)
{
    static int64_t keys[MOST_KEYS];
    const int64_t  n = choose_keys(keys, seed);

    switch (tr_random_below(seed, 2000, 10)) {
    case 0: case 1: case 2: case 3:
        train(p, keys, n, seed);
        break;
    case 4:
        set_some(p, keys, n, seed);
        break;
    case 5:
        remove_and_put_back(p, seed);
        break;
    default:
        look_up(p, keys, n, seed);
    }
}

/* Announce the keys of the next call, or of the one after it. Some calls do not come. */
static void announce(pair *p, uint64_t seed)
{
    static int64_t keys[MOST_KEYS];

    if (tr_random_below(seed, 3000, 2))
        EXPECT_OK(tr_table_expect(p->spilled, keys, choose_keys(keys, seed + 1 + tr_random_below(seed, 3001, 2))));
}

static void run_random(const tr_table_config *config, uint64_t hot, uint64_t seed, int calls)
{
    pair            p = make_pair(config, hot);
    tr_table_report report;

    for (int i = 0; i < calls; i++) {
        announce(&p, seed * 1000003 + (uint64_t)i);
        call_at_random(&p, seed * 1000003 + (uint64_t)i);
        assert_in_range(tr_slots_count(tr_table_slots(p.spilled)), 0, memory_for(config, hot) / (tr_table_stride(config) + 16) + MOST_KEYS);
    }
    expect_same_rows(&p, 0);
    expect_same_rows(&p, (uint32_t)p.step / 2);
    tr_table_get_report(p.spilled, &report);
    assert_true(report.cold.rows > hot && report.cold.reads > 0 && report.cold.ahead > 0 && report.cold.tidied_bytes > 0);
    const uint64_t block = 4096, record = tr_table_stride(config) + 8;     /* of tables with so little memory */
    assert_in_range(report.cold.file_bytes, 0, (2 * report.rows / (block / record) + 6) * block);
    tr_table_clear(p.plain, p.step, p.step);
    tr_table_clear(p.spilled, p.step, p.step);
    expect_same_rows(&p, 0);
    free_pair(&p);
}

TEST(rows_on_disk_change_no_bit_of_any_call)
{
    const tr_table_config config = config_of(TR_FP32);

    for (uint64_t seed = 1; seed <= 4; seed++)
        run_random(&config, HOT, seed, 1000);
    run_random(&config, 1, 5, 100);                    /* no row stays */
}

TEST(rows_of_16_bits_and_counted_keys_change_no_bit_on_disk)
{
    tr_table_config config = config_of(TR_BF16);

    config.entry_count = 2;
    config.entry_probability = 0.75;
    run_random(&config, HOT, 11, 1000);
}

TEST(the_same_calls_read_and_write_as_many_records)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table_report       report[2];

    for (int i = 0; i < 2; i++) {
        pair p = make_pair(&config, HOT);
        for (uint64_t at = 0; at < 300; at++)
            call_at_random(&p, 77 + at);
        tr_table_get_report(p.spilled, &report[i]);
        free_pair(&p);
    }
    assert_int_equal(report[0].cold.reads, report[1].cold.reads);
    assert_int_equal(report[0].cold.written_bytes, report[1].cold.written_bytes);
}

TEST(rows_that_are_only_looked_up_are_not_written_again)
{
    const tr_table_config config = config_of(TR_FP32);
    pair                  p = make_pair(&config, HOT);
    static int64_t        keys[DOMAIN];
    float                 out[100 * WIDTH];
    tr_table_report       before, after;

    for (int i = 0; i < DOMAIN; i++)
        keys[i] = key_of((uint64_t)i);
    train(&p, keys, DOMAIN, 1);
    for (int round = 0; round < 2; round++) {          /* the first round writes what training has left in memory */
        tr_table_get_report(p.spilled, &before);
        for (int i = 0; i < DOMAIN; i += 100)
            EXPECT_OK(tr_table_pull(p.spilled, out, keys + i, 100));
    }
    tr_table_get_report(p.spilled, &after);
    assert_int_equal(after.cold.written_bytes, before.cold.written_bytes);
    assert_true(after.cold.reads - before.cold.reads > DOMAIN - 2 * HOT);
    free_pair(&p);
}

/* == snapshots ================================================================================== */

typedef struct reader {
    tr_table *table;
    void     *rows[TR_SHARDS];
    uint64_t  bytes[TR_SHARDS];
    tr_status status;
} reader;

static void *read_snapshot(void *payload)
{
    reader *r = payload;

    for (uint32_t shard = 0; shard < TR_SHARDS && r->status == TR_OK; shard++)
        r->status = tr_table_snapshot_read(r->table, shard, &r->rows[shard], &r->bytes[shard]);
    return NULL;
}

TEST(a_snapshot_has_the_cold_rows_of_its_moment)
{
    const tr_table_config config = config_of(TR_FP32);
    const uint64_t        stride = tr_table_stride(&config);
    pair                  p = make_pair(&config, HOT);
    static reader         r;

    for (uint64_t moment = 0; moment < 6; moment++) {
        void    *rows[TR_SHARDS];
        uint64_t bytes[TR_SHARDS];
        pthread_t thread;
        for (uint64_t i = 0; i < 100; i++)
            call_at_random(&p, 5000 * moment + i);
        for (uint32_t shard = 0; shard < TR_SHARDS; shard++)
            EXPECT_OK(tr_table_pack(p.plain, shard, &rows[shard], &bytes[shard]));
        EXPECT_OK(tr_table_snapshot(p.spilled, 0, 0));
        r = (reader){.table = p.spilled};
        if (moment % 2)                                /* nothing is read before many rows have come and gone */
            for (uint64_t i = 0; i < 60; i++)
                call_at_random(&p, 700000 + 5000 * moment + i);
        assert_int_equal(pthread_create(&thread, NULL, read_snapshot, &r), 0);
        for (uint64_t i = 0; i < 60; i++)
            call_at_random(&p, 900000 + 5000 * moment + i);
        pthread_join(thread, NULL);
        EXPECT_OK(r.status);
        tr_table_snapshot_end(p.spilled);
        for (uint32_t shard = 0; shard < TR_SHARDS; shard++)
            expect_same_packs(rows[shard], bytes[shard], r.rows[shard], r.bytes[shard], stride);
    }
    expect_same_rows(&p, 0);
    free_pair(&p);
}

/* Shards that take many chunks when they are sorted (cold_sorted.c), of which some rows were changed after `since`. */
TEST(a_snapshot_of_large_shards_has_the_rows_of_its_moment)
{
    enum { LARGE = 16000, SOME = 500 };
    const tr_table_config config = config_of(TR_FP32);
    const uint64_t        stride = tr_table_stride(&config), updates = LARGE / SOME;
    pair                  p = make_pair(&config, HOT);
    static int64_t        keys[SOME];
    void                 *rows[SHARDS], *read = NULL;
    uint64_t              bytes[SHARDS], read_bytes = 0;

    for (int is_of_changes = 0; is_of_changes < 2; is_of_changes++) {
        for (uint64_t i = 0; i < (is_of_changes ? 3 : updates); i++) {
            for (uint64_t k = 0; k < SOME; k++)
                keys[k] = key_of_few_shards(i * SOME + k);
            train(&p, keys, SOME, i);
        }
        for (uint32_t shard = 0; shard < SHARDS; shard++)
            EXPECT_OK(tr_table_pack_newer(p.plain, shard, is_of_changes ? (uint32_t)updates : 0, &rows[shard], &bytes[shard]));
        EXPECT_OK(tr_table_snapshot(p.spilled, (uint64_t)is_of_changes + 1, (uint64_t)is_of_changes));
        assert_int_equal(tr_table_snapshot_has_changes(p.spilled), is_of_changes);
        for (uint64_t k = 0; k < SOME; k++)
            keys[k] = key_of_few_shards(k * 7);
        look_up(&p, keys, MOST_KEYS, 1);
        for (uint32_t shard = 0; shard < SHARDS; shard++) {
            EXPECT_OK(tr_table_snapshot_read(p.spilled, shard, &read, &read_bytes));
            expect_same_packs(rows[shard], bytes[shard], read, read_bytes, stride);
        }
        tr_table_snapshot_end(p.spilled);
    }
    free_pair(&p);
}

/* All rows go while a snapshot is there, of which some shards are read, and others come. */
TEST(a_snapshot_has_its_rows_also_when_the_table_is_cleared)
{
    const tr_table_config config = config_of(TR_FP32);
    const uint64_t        stride = tr_table_stride(&config);
    pair                  p = make_pair(&config, HOT);
    void                 *rows[TR_SHARDS], *read = NULL;
    uint64_t              bytes[TR_SHARDS], read_bytes = 0;

    for (int is_sorted = 0; is_sorted < 2; is_sorted++) {
        for (uint64_t i = 0; i < 100; i++)
            call_at_random(&p, 5000 * (uint64_t)is_sorted + i);
        for (uint32_t shard = 0; shard < TR_SHARDS; shard++)
            EXPECT_OK(tr_table_pack(p.plain, shard, &rows[shard], &bytes[shard]));
        EXPECT_OK(tr_table_snapshot(p.spilled, 0, 0));
        for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
            if (shard == (is_sorted ? TR_SHARDS / 2 : 0)) {
                tr_table_clear(p.plain, p.step, p.step);
                tr_table_clear(p.spilled, p.step, p.step);
                for (uint64_t i = 0; i < 60; i++)
                    call_at_random(&p, 700000 + i);
            }
            EXPECT_OK(tr_table_snapshot_read(p.spilled, shard, &read, &read_bytes));
            expect_same_packs(rows[shard], bytes[shard], read, read_bytes, stride);
        }
        tr_table_snapshot_end(p.spilled);
        expect_same_rows(&p, 0);
    }
    free_pair(&p);
}

/* == failures =================================================================================== */

TEST(a_disk_without_room_for_a_snapshot_costs_the_snapshot_alone)
{
    enum { SOME = 500, LARGE = 16000 };
    const tr_table_config config = config_of(TR_FP32);
    pair                  p = make_pair(&config, HOT);
    static int64_t        keys[SOME];
    struct rlimit         old;
    void                 *rows = NULL;
    uint64_t              bytes;

    for (uint64_t i = 0; i < LARGE; i++) {
        keys[i % SOME] = key_of_few_shards(i);
        if (i % SOME == SOME - 1)
            train(&p, keys, SOME, i);
    }
    EXPECT_OK(tr_table_snapshot(p.spilled, 0, 0));
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, old.rlim_max});
    EXPECT_FAIL(TR_EIO, "in folder '/dev/shm'", tr_table_snapshot_read(p.spilled, 0, &rows, &bytes));
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_FAIL(TR_EIO, "could not be sorted", tr_table_snapshot_read(p.spilled, 1, &rows, &bytes));
    tr_table_snapshot_end(p.spilled);
    train(&p, keys, SOME, 1);
    expect_same_rows(&p, 0);
    EXPECT_OK(tr_table_snapshot(p.spilled, 0, 0));
    EXPECT_OK(tr_table_snapshot_read(p.spilled, 0, &rows, &bytes));
    free(rows);
    free_pair(&p);
}

TEST(a_folder_that_is_not_there_is_refused)
{
    const tr_table_config  config = config_of(TR_FP32);
    const tr_table_segment place = {.shard_count = TR_SHARDS, .spill = "/nowhere/at/all", .memory = 1 << 20};
    tr_table        *t = NULL;

    EXPECT_FAIL(TR_ENOTFOUND, "folder '/nowhere/at/all'", tr_table_create(&t, &config, &place));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_on_disk_change_no_bit_of_any_call),
        cmocka_unit_test(rows_of_16_bits_and_counted_keys_change_no_bit_on_disk),
        cmocka_unit_test(the_same_calls_read_and_write_as_many_records),
        cmocka_unit_test(rows_that_are_only_looked_up_are_not_written_again),
        cmocka_unit_test(a_snapshot_has_the_cold_rows_of_its_moment),
        cmocka_unit_test(a_snapshot_of_large_shards_has_the_rows_of_its_moment),
        cmocka_unit_test(a_snapshot_has_its_rows_also_when_the_table_is_cleared),
        cmocka_unit_test(a_disk_without_room_for_a_snapshot_costs_the_snapshot_alone),
        cmocka_unit_test(a_folder_that_is_not_there_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
