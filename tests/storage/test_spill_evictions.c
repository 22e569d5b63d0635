/* test_spill_evictions.c - old rows go from a table with rows on disk as from one in memory. */
#include "tests/support/table_pair.h"

#include "framework/tensors/random.h"

enum { MANY_KEYS = 800 };

/* Steps of the clock at which one of these shards is looked at. */
static void next_step(pair *p)
{
    p->step++;
    p->step += p->step % TR_SHARDS >= SHARDS ? TR_SHARDS - p->step % TR_SHARDS : 0;
}

static void train_and_evict(pair *p, uint64_t seed)
{
    int64_t   keys[20];
    uint64_t  removed[2];

    for (uint64_t i = 0; i < 20; i++)                  /* some steps leave many rows of one age, and with as many updates */
        keys[i] = key_of_few_shards((tr_random_below(seed, 0, MANY_KEYS) + i * (seed % 3 ? 1 : 37)) % MANY_KEYS);
    next_step(p);
    update(p->plain, p->step, keys, 20, (float)(seed % 7));
    update(p->spilled, p->step, keys, 20, (float)(seed % 7));
    EXPECT_OK(tr_table_evict(p->plain, p->step, &removed[0]));
    EXPECT_OK(tr_table_evict(p->spilled, p->step, &removed[1]));
    assert_int_equal(removed[0], removed[1]);
}

static void expect_same_removed(pair *p)
{
    for (uint32_t shard = 0; shard < SHARDS; shard++) {
        void    *keys[2];
        uint64_t bytes[2];
        EXPECT_OK(tr_table_snapshot_read_removed(p->plain, shard, false, &keys[0], &bytes[0]));
        EXPECT_OK(tr_table_snapshot_read_removed(p->spilled, shard, false, &keys[1], &bytes[1]));
        expect_same_packs(keys[0], bytes[0], keys[1], bytes[1], sizeof(int64_t));
    }
}

static void run_evictions(const tr_table_config *config)
{
    pair            p = make_pair(config, HOT);
    tr_table_report report;

    for (uint64_t i = 0; i < 600; i++) {
        train_and_evict(&p, i);
        if (i == 400) {
            EXPECT_OK(tr_table_snapshot(p.plain, 1, 0));
            EXPECT_OK(tr_table_snapshot(p.spilled, 1, 0));
        }
    }
    EXPECT_OK(tr_table_snapshot(p.plain, 2, 1));
    EXPECT_OK(tr_table_snapshot(p.spilled, 2, 1));
    expect_same_removed(&p);
    tr_table_snapshot_end(p.plain);
    tr_table_snapshot_end(p.spilled);
    tr_table_get_report(p.spilled, &report);
    assert_true(report.rows < MANY_KEYS && report.cold.rows > 0);
    expect_same_rows(&p, 0);
    free_pair(&p);
}

TEST(old_rows_go_from_disk_as_from_memory)
{
    tr_table_config config = config_of(TR_FP32);

    config.max_age = 30 * TR_SHARDS / SHARDS;
    run_evictions(&config);
    config.keep_count = 5;
    run_evictions(&config);
    config.max_rows = 60 * TR_SHARDS;
    run_evictions(&config);
    config.max_age = config.keep_count = 0;
    run_evictions(&config);
    config.entry_count = 2;
    run_evictions(&config);
}

TEST(the_file_becomes_smaller_when_most_rows_are_removed)
{
    enum { LARGE = 16000 };
    static const float numbers[2 * WIDTH];
    tr_table_config    config = config_of(TR_FP32);
    tr_table_report    before, after;

    config.max_age = TR_SHARDS;
    config.keep_count = 2;
    pair p = make_pair(&config, HOT);
    for (uint64_t i = 0; i < LARGE; i++) {             /* one of ten stays: some in each block of the file */
        const tr_table_row row = {key_of_few_shards(i), i % 10 ? 1 : 2, 1, numbers, numbers};
        EXPECT_OK(tr_table_put(p.plain, &row));
        EXPECT_OK(tr_table_put(p.spilled, &row));
    }
    tr_table_get_report(p.spilled, &before);
    p.step = 3 * TR_SHARDS - 1;
    for (uint64_t i = 0; i < 4 * SHARDS; i++) {
        next_step(&p);
        EXPECT_OK(tr_table_evict(p.plain, p.step, NULL));
        EXPECT_OK(tr_table_evict(p.spilled, p.step, NULL));
    }
    tr_table_get_report(p.spilled, &after);
    assert_true(after.cold.file_bytes < before.cold.file_bytes / 4);
    expect_same_rows(&p, 0);
    free_pair(&p);
}

TEST(a_table_may_begin_to_remove_rows_when_many_lie_on_disk)
{
    tr_table_config        config = config_of(TR_FP32);
    pair                   p = make_pair(&config, HOT);
    const tr_table_segment place = place_in_memory(&config);

    for (uint64_t i = 0; i < 100; i++)
        train_and_evict(&p, i);
    config.max_rows = 40 * TR_SHARDS;
    EXPECT_OK(tr_table_configure(p.plain, &config, &(tr_table_segment){.shard_count = TR_SHARDS}));
    EXPECT_OK(tr_table_configure(p.spilled, &config, &place));
    for (uint64_t i = 0; i < 100; i++)
        train_and_evict(&p, i);
    expect_same_rows(&p, 0);
    free_pair(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(old_rows_go_from_disk_as_from_memory),
        cmocka_unit_test(the_file_becomes_smaller_when_most_rows_are_removed),
        cmocka_unit_test(a_table_may_begin_to_remove_rows_when_many_lie_on_disk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
