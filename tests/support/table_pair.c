/* table_pair.c - see table_pair.h. */
#include "tests/support/table_pair.h"
#include "tests/support/table_check.h"

#include "framework/tensors/random.h"
#include "storage/table/table_state.h"

#include <stdlib.h>
#include <string.h>

static const char FOLDER[] = "build", IN_MEMORY[] = "/dev/shm";      /* tests run in the root of the tree; a disk takes its time */

uint64_t memory_for(const tr_table_config *config, uint64_t hot)
{
    return hot * (tr_table_stride(config) + 16) + (hot > 1 ? 13 * DOMAIN : 0);
}

static tr_table *make_table(const tr_table_config *config, uint64_t hot)
{
    const char            *spill = hot == HOT ? IN_MEMORY : hot ? FOLDER : NULL;
    const tr_table_segment place = {.shard_count = TR_SHARDS, .spill = spill, .memory = memory_for(config, hot)};
    tr_table              *t = NULL;

    EXPECT_OK(tr_table_create(&t, config, &place));
    return t;
}

pair make_pair(const tr_table_config *config, uint64_t hot)
{
    return (pair){make_table(config, 0), make_table(config, hot), 0};
}

void free_pair(pair *p)
{
    tr_table_free(p->plain);
    tr_table_free(p->spilled);
}

static int by_key(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

void expect_same_packs(void *a, uint64_t a_bytes, void *b, uint64_t b_bytes, uint64_t stride)
{
    assert_int_equal(a_bytes, b_bytes);
    qsort(a, a_bytes / stride, stride, by_key);
    qsort(b, b_bytes / stride, stride, by_key);
    assert_memory_equal(a, b, a_bytes);
    free(a);
    free(b);
}

void expect_same_rows(pair *p, uint32_t since)
{
    const uint64_t  stride = tr_slots_stride(tr_table_slots(p->plain));
    tr_table_report report[2];

    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows[2];
        uint64_t bytes[2];
        EXPECT_OK(tr_table_pack_newer(p->plain, shard, since, &rows[0], &bytes[0]));
        EXPECT_OK(tr_table_pack_newer(p->spilled, shard, since, &rows[1], &bytes[1]));
        expect_same_packs(rows[0], bytes[0], rows[1], bytes[1], stride);
    }
    tr_table_get_report(p->plain, &report[0]);
    tr_table_get_report(p->spilled, &report[1]);
    assert_int_equal(report[0].rows, report[1].rows);
    assert_int_equal(report[0].candidates, report[1].candidates);
    EXPECT_OK(tr_table_check(p->spilled));
}

void train(pair *p, const int64_t *keys, int64_t n, uint64_t seed)
{
    const float amount = (float)tr_random_below(seed, 1000, 100);

    p->step++;
    update(p->plain, p->step, keys, n, amount);
    update(p->spilled, p->step, keys, n, amount);
}

void look_up(pair *p, const int64_t *keys, int64_t n, uint64_t seed)
{
    static float a[MOST_KEYS * WIDTH], b[MOST_KEYS * WIDTH];
    const bool   is_before = seed % 4 == 0;

    EXPECT_OK(is_before ? tr_table_pull_before(p->plain, a, keys, n) : tr_table_pull(p->plain, a, keys, n));
    EXPECT_OK(is_before ? tr_table_pull_before(p->spilled, b, keys, n) : tr_table_pull(p->spilled, b, keys, n));
    assert_memory_equal(a, b, (size_t)(n * tr_table_row_bytes(tr_table_get_config(p->plain))));
}

int64_t key_of_few_shards(uint64_t i)
{
    return key_of_hash(i % SHARDS << 54 | tr_hash_u64(i) >> 10);
}

tr_table_segment place_in_memory(const tr_table_config *config)
{
    return (tr_table_segment){.shard_count = TR_SHARDS, .spill = IN_MEMORY, .memory = memory_for(config, HOT)};
}
