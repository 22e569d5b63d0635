/* test_table_order.c - making rows costs the same in every order of keys and on every way from one table to another. The costs are the
 * places that the index passes, which its counter `work` tells. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"
#include "storage/slots/slots_state.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

enum { FEW = 20000, MANY = 80000 };
/* The most places for each row. Growth by eighths passes about 50. Where all keys lie in one of 64 regions the index is 64 times as large
 * as its rows need, and is passed when it grows. */
enum { MOST = 150, MOST_IN_ONE_REGION = 1200 };

static const tr_slots_config everywhere = {.payload = 8, .shard_count = TR_SHARDS};

/* -- orders of keys ---------------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
    const uint64_t x = tr_hash_u64(*(const uint64_t *)a), y = tr_hash_u64(*(const uint64_t *)b);
    return (x > y) - (x < y);
}

static int by_hash_down(const void *a, const void *b)
{
    return by_hash(b, a);
}

/* Shard after shard, in an order of shards that jumps. */
static int by_jumps(const void *a, const void *b)
{
    const uint32_t x = tr_slots_shard(*(const int64_t *)a) * 401 % TR_SHARDS, y = tr_slots_shard(*(const int64_t *)b) * 401 % TR_SHARDS;
    return x != y ? (x > y) - (x < y) : by_hash(a, b);
}

static void ascending(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = i;
}

static void slots_in_high_bits(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = (int64_t)((uint64_t)(i % 100) << 54 | (uint64_t)i / 100);
}

static void random_keys(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = (int64_t)tr_hash_u64((uint64_t)i ^ 0x123456789abcdef);
}

static void order_of_hashes(int64_t *keys, int64_t n)
{
    ascending(keys, n);
    qsort(keys, (size_t)n, sizeof *keys, by_hash);
}

static void reverse_order_of_hashes(int64_t *keys, int64_t n)
{
    ascending(keys, n);
    qsort(keys, (size_t)n, sizeof *keys, by_hash_down);
}

static void shards_that_jump(int64_t *keys, int64_t n)
{
    ascending(keys, n);
    qsort(keys, (size_t)n, sizeof *keys, by_jumps);
}

static void one_shard(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = key_of_hash((uint64_t)0x155 << 54 | tr_hash_u64((uint64_t)i) >> 10);
}

static void last_shard(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = key_of_hash(UINT64_MAX - (tr_hash_u64((uint64_t)i) >> 10));
}

static void neighbouring_hashes(int64_t *keys, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        keys[i] = key_of_hash(((uint64_t)0xabcdef012345 << 16) + (uint64_t)i);
}

typedef struct order {
    const char *name;
    void (*draw)(int64_t *keys, int64_t n);
    int         most;
} order;

static const order orders[] = {
    {"ascending", ascending, MOST},
    {"slots in high bits", slots_in_high_bits, MOST},
    {"random", random_keys, MOST},
    {"hashes ascend", order_of_hashes, MOST},
    {"hashes descend", reverse_order_of_hashes, MOST},
    {"shards jump", shards_that_jump, MOST},
    {"one shard", one_shard, MOST_IN_ONE_REGION},
    {"the last shard", last_shard, MOST_IN_ONE_REGION},
    {"neighbouring hashes", neighbouring_hashes, MOST_IN_ONE_REGION},
};

/* -- costs --------------------------------------------------------------------------------------------- */

static void expect_cheap(const tr_slots *s, const char *what, int64_t rows, int most)
{
    const double places = (double)s->work / (double)rows;

    if (places > most)
        fail_msg("%s, %lld rows: the index passed %.1f places for each; %d are allowed", what, (long long)rows, places, most);
}

static void add(tr_slots *s, int64_t key)
{
    uint32_t slot;

    EXPECT_OK(tr_slots_new_row(&slot, s));
    tr_slots_publish(s, slot, key);
}

static void expect_order_is_cheap(const order *o, int64_t rows)
{
    int64_t  *keys = malloc((size_t)rows * sizeof *keys);
    tr_slots *s;

    o->draw(keys, rows);
    EXPECT_OK(tr_slots_create(&s, NULL, &everywhere));
    for (int64_t i = 0; i < rows; i++)
        add(s, keys[i]);
    expect_cheap(s, o->name, rows, o->most);
    EXPECT_OK(tr_slots_check(s));
    tr_slots_free(s);
    free(keys);
}

TEST(rows_cost_the_same_in_every_order_of_keys)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
        expect_order_is_cheap(&orders[i], FEW);
        expect_order_is_cheap(&orders[i], MANY);
    }
}

/* Each new row takes the place of the oldest one. */
static void expect_replacing_is_cheap(const order *o)
{
    enum { KEPT = 5000 };
    int64_t  *keys = malloc(MANY * sizeof *keys);
    tr_slots *s;

    o->draw(keys, MANY);
    EXPECT_OK(tr_slots_create(&s, NULL, &everywhere));
    for (int64_t i = 0; i < MANY; i++) {
        add(s, keys[i]);
        if (i >= KEPT)
            tr_slots_delete(s, tr_slots_find_one(s, keys[i - KEPT]));
    }
    expect_cheap(s, o->name, MANY, o->most);
    EXPECT_OK(tr_slots_check(s));
    assert_int_equal(tr_slots_count(s), KEPT);
    tr_slots_free(s);
    free(keys);
}

TEST(rows_that_replace_others_cost_the_same_in_every_order)
{
    for (size_t i = 0; i < sizeof orders / sizeof *orders; i++)
        expect_replacing_is_cheap(&orders[i]);
}

/* -- shards -------------------------------------------------------------------------------------------- */

/* The slots of all shards are all slots, each in its own shard, whatever the range that is here. */
static void expect_shards_are_whole(uint32_t first, uint32_t count)
{
    const tr_slots_config here = {8, first, count, 0};
    uint32_t             *list = NULL;
    uint64_t              capacity = 0, listed = 0, n;
    tr_slots             *s;

    EXPECT_OK(tr_slots_create(&s, NULL, &here));
    for (int64_t key = 0; key < FEW; key++)
        if (tr_slots_shard(key) >= first && tr_slots_shard(key) - first < count)
            add(s, key);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        EXPECT_OK(tr_slots_of_shard(&list, &capacity, &n, s, shard));
        for (uint64_t i = 0; i < n; i++)
            assert_int_equal(tr_slots_shard(tr_slots_row(s->row, s->stride, list[i])->key), shard);
        listed += n;
    }
    assert_int_equal(listed, tr_slots_count(s));
    EXPECT_OK(tr_slots_check(s));
    expect_cheap(s, "a part", FEW, MOST);
    free(list);
    tr_slots_free(s);
}

TEST(a_shard_has_its_rows_on_any_number_of_servers)
{
    static const uint32_t servers[] = {1, 2, 3, 5, 7, 10, 11, 16, 24, 64, 100, 511, 513, 1000, 1024};

    for (size_t i = 0; i < sizeof servers / sizeof *servers; i++)
        for (uint32_t k = 0; k < servers[i]; k += 1 + servers[i] / 3) {
            const uint32_t first = k * TR_SHARDS / servers[i], end = (k + 1) * TR_SHARDS / servers[i];
            if (end > first)
                expect_shards_are_whole(first, end - first);
        }
}

/* -- from one table into others ---------------------------------------------------------------------------- */

typedef tr_status (*read_fn)(const tr_table *t, uint32_t shard, void **out, uint64_t *bytes);
typedef tr_status (*write_fn)(tr_table *t, const void *rows, uint64_t bytes);

/* Move all rows of a table into `parts` tables, shard by shard; the shards ascend, descend or jump. */
static void expect_move_is_cheap(const tr_table *from, uint32_t parts, uint32_t turn, read_fn read, write_fn write, bool of_candidates)
{
    tr_table *part[TR_SHARDS];
    uint64_t  rows = 0;

    for (uint32_t p = 0; p < parts; p++) {
        const uint32_t       first = p * TR_SHARDS / parts;
        const tr_table_segment place = {NULL, first, (p + 1) * TR_SHARDS / parts - first, 0};
        EXPECT_OK(tr_table_create(&part[p], tr_table_get_config(from), &place));
    }
    for (uint32_t i = 0; i < TR_SHARDS; i++) {
        const uint32_t shard = i * turn % TR_SHARDS;
        uint32_t       p = 0;
        void          *packed;
        uint64_t       bytes;
        while (shard >= (p + 1) * TR_SHARDS / parts)
            p++;
        EXPECT_OK(read(from, shard, &packed, &bytes));
        EXPECT_OK(write(part[p], packed, bytes));
        free(packed);
    }
    for (uint32_t p = 0; p < parts; p++) {
        const tr_slots *slots = of_candidates ? part[p]->candidates : part[p]->slots;
        EXPECT_OK(tr_table_check(part[p]));
        expect_cheap(slots, "a move", (int64_t)tr_slots_count(slots), MOST);
        rows += tr_slots_count(slots);
        tr_table_free(part[p]);
    }
    assert_int_equal(rows, tr_slots_count(of_candidates ? from->candidates : from->slots));
}

static tr_table *make_table(uint32_t entry_count)
{
    tr_table_config      config = config_of(TR_FP32);
    const tr_table_segment place = {NULL, 0, TR_SHARDS, 0};
    int64_t             *keys = malloc(MANY * sizeof *keys);
    uint32_t            *slots = malloc(MANY * sizeof *slots);
    tr_table            *t;

    config.entry_count = entry_count;
    ascending(keys, MANY);
    EXPECT_OK(tr_table_create(&t, &config, &place));
    EXPECT_OK(tr_table_begin(t, 1));
    EXPECT_OK(tr_table_take(t, slots, keys, MANY));
    free(keys);
    free(slots);
    return t;
}

TEST(rows_move_to_any_number_of_tables_at_the_cost_of_making_them)
{
    static const uint32_t parts[] = {1, 2, 3, 7}, turns[] = {1, TR_SHARDS - 1, 401};
    tr_table             *t = make_table(1);

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (size_t k = 0; k < sizeof turns / sizeof *turns; k++)
            expect_move_is_cheap(t, parts[i], turns[k], tr_table_pack, tr_table_unpack, false);
    EXPECT_OK(tr_table_snapshot(t, 0, 0));
    expect_move_is_cheap(t, 2, 1, tr_table_snapshot_read, tr_table_unpack, false);
    tr_table_free(t);
}

TEST(candidates_move_at_the_cost_of_counting_them)
{
    tr_table *t = make_table(3);

    for (uint32_t parts = 1; parts <= 3; parts++)
        expect_move_is_cheap(t, parts, 1, tr_table_pack_candidates, tr_table_unpack_candidates, true);
    tr_table_free(t);
}

/* The index of rows that come in the order of their hashes is as large as that of the same rows in any other order. */
TEST(an_order_of_keys_costs_no_memory)
{
    uint64_t bytes[2];

    for (int i = 0; i < 2; i++) {
        int64_t  *keys = malloc(MANY * sizeof *keys);
        tr_slots *s;
        (i ? order_of_hashes : ascending)(keys, MANY);
        EXPECT_OK(tr_slots_create(&s, NULL, &everywhere));
        for (int64_t k = 0; k < MANY; k++)
            add(s, keys[k]);
        bytes[i] = tr_slots_index_bytes(s);
        tr_slots_free(s);
        free(keys);
    }
    assert_true((double)bytes[1] <= 1.15 * (double)bytes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_cost_the_same_in_every_order_of_keys),
        cmocka_unit_test(rows_that_replace_others_cost_the_same_in_every_order),
        cmocka_unit_test(a_shard_has_its_rows_on_any_number_of_servers),
        cmocka_unit_test(rows_move_to_any_number_of_tables_at_the_cost_of_making_them),
        cmocka_unit_test(candidates_move_at_the_cost_of_counting_them),
        cmocka_unit_test(an_order_of_keys_costs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
