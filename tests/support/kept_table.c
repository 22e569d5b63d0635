/* kept_table.c - see kept_table.h. */
#include "tests/support/kept_table.h"

#include "framework/tensors/random.h"
#include "tests/support/expect.h"

int64_t kept_key[KEPT_KEYS];

tr_table_config kept_config_of(uint32_t entry_count)
{
    return (tr_table_config){.dtype = TR_BF16, .width = KEPT_WIDTH, .states = 1, .state_value = {0.5f}, .init = TR_TABLE_NORMAL, .b = 1,
                             .random_key = 5, .entry_count = entry_count};
}

/* Touch some keys: new rows, candidates. */
void kept_touch(tr_table *t, uint64_t step, int64_t first, int64_t n)
{
    uint32_t slots[KEPT_KEYS];
    float    values[KEPT_KEYS * KEPT_WIDTH], states[KEPT_KEYS * KEPT_WIDTH];
    float   *state = states;

    for (int64_t i = 0; i < n * KEPT_WIDTH; i++) {
        values[i] = (float)(step + (uint64_t)i % 7);
        states[i] = (float)i;
    }
    EXPECT_OK(tr_table_begin(t, step));
    EXPECT_OK(tr_table_take(t, slots, kept_key + first, n));
    EXPECT_OK(tr_table_keep(t, slots, n));
    tr_table_scatter(t, slots, n, values, (const float *const *)&state);
}

tr_table *kept_make(const tr_table_config *config, uint32_t first_shard, uint32_t shards)
{
    const tr_table_segment place = {NULL, first_shard, shards, 0};
    tr_table            *t = NULL;

    EXPECT_OK(tr_table_create(&t, config, &place));
    return t;
}

tr_job_table kept_about(const tr_table *t, const char *name, int64_t updates)
{
    const tr_table_config *c = tr_table_get_config(t);
    tr_job_table           out = {.name = name,
                                  .dtype = c->dtype,
                                  .width = c->width,
                                  .states = c->states,
                                  .init = (int)c->init,
                                  .a = c->a,
                                  .b = c->b,
                                  .random_key = c->random_key,
                                  .entry_count = c->entry_count,
                                  .max_age = c->max_age,
                                  .updates = updates,
                                  .first_rows = t};

    memcpy(out.state_value, c->state_value, sizeof out.state_value);
    return out;
}

tr_table *kept_filled(uint32_t entry_count)
{
    const tr_table_config config = kept_config_of(entry_count);
    tr_table             *t = kept_make(&config, 0, TR_SHARDS);

    for (int i = 0; i < KEPT_KEYS; i++)
        kept_key[i] = (int64_t)tr_hash_u64((uint64_t)i);
    kept_touch(t, 1, 0, KEPT_KEYS);
    kept_touch(t, 2, 100, 3000);
    kept_touch(t, 3, 1000, 1000);
    return t;
}

/* The same rows and candidates, shard by shard in any order. */
void kept_expect_same(const tr_table *a, const tr_table *b)
{
    tr_table_report x, y;
    int64_t         seen = 0;

    tr_table_get_report(a, &x);
    tr_table_get_report(b, &y);
    assert_int_equal(x.rows, y.rows);
    assert_int_equal(x.candidates, y.candidates);
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows[2];
        uint64_t bytes[2];
        EXPECT_OK(tr_table_pack(a, shard, &rows[0], &bytes[0]));
        EXPECT_OK(tr_table_pack(b, shard, &rows[1], &bytes[1]));
        assert_int_equal(bytes[0], bytes[1]);
        for (uint64_t i = 0; i < bytes[0]; i += x.row_bytes)
            for (uint64_t j = 0; j < bytes[0]; j += x.row_bytes)
                seen += !memcmp((char *)rows[0] + i, (char *)rows[1] + j, x.row_bytes);
        free(rows[0]);
        free(rows[1]);
    }
    assert_int_equal(seen, x.rows);
}

tr_checkpoint *kept_open_in(const char *folder, int64_t step)
{
    char          *path = tr_checkpoint_path(folder, step);
    tr_checkpoint *c = NULL;

    EXPECT_OK(tr_checkpoint_open(&c, path));
    EXPECT_OK(tr_checkpoint_verify(c));
    free(path);
    return c;
}

tr_table_var *kept_var(tr_scope *scope, const char *name)
{
    tr_table_var *tv = NULL;
    EXPECT_OK(tr_table_var_of(&tv, tr_scope_find(scope, name), "test", name));
    return tv;
}
