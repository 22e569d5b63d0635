/* test_table_checkpoint.c - sparse tables come back from checkpoints with all their rows, whoever wrote them, or not at all. */
#include "tests/support/expect.h"
#include "tests/support/kept_table.h"

#include <stdio.h>

#include "framework/tensors/random.h"
#include "storage/checkpoint/checkpoint.h"
#include "storage/checkpoint/rows_ahead.h"
#include "storage/table/table_var.h"

TEST(tables_of_one_process_come_back)
{
    const tr_checkpoint_facts facts = {.step = 9, .mode = "local"};
    const char               *folder = test_path("one");
    tr_table                 *t = kept_filled(2);
    const float               number = 7;
    tr_job_table              words = kept_about(t, "words", 3), none = kept_about(t, "none", 0), found;
    int64_t                   rows;

    none.first_rows = NULL;                        /* nothing was ever updated */
    const tr_checkpoint_item states[] = {{.name = "number", .kind = TR_STATE_STATISTIC, .dtype = TR_FP32, .data = &number},
                               {.name = "words", .kind = TR_STATE_TABLE, .data = &words},
                               {.name = "none", .kind = TR_STATE_TABLE, .data = &none}};
    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, 3, states, 0));
    tr_checkpoint *c = kept_open_in(folder, 9);
    assert_int_equal(tr_checkpoint_count(c), 1);
    assert_int_equal(tr_checkpoint_tables(c), 2);
    tr_checkpoint_table(&found, &rows, c, 0);
    assert_string_equal(found.name, "none");
    assert_int_equal(rows, 0);
    tr_checkpoint_table(&found, &rows, c, 1);
    assert_int_equal(found.updates, 3);
    assert_true(found.state_value[0] == 0.5f && found.random_key == 5 && rows == 3000);

    tr_scope *scope = tr_scope_new(NULL);
    EXPECT_OK(tr_checkpoint_load_table(scope, c, 1));
    kept_expect_same(t, kept_var(scope, "words")->table);
    assert_int_equal(kept_var(scope, "words")->updates, 3);
    kept_touch(t, 4, 0, KEPT_KEYS);                          /* candidates have their counts */
    kept_touch(kept_var(scope, "words")->table, 4, 0, KEPT_KEYS);
    kept_expect_same(t, kept_var(scope, "words")->table);
    EXPECT_FAIL(TR_ERANGE, "table 2; there are 2", tr_checkpoint_load_table(scope, c, 2));
    tr_scope_free(scope);
    tr_checkpoint_free(c);
    tr_table_free(t);
}

/* What three servers have of a table. */
static tr_part *write_part(const char *folder, int server, const tr_table *whole, const uint32_t snapshots[4], uint64_t snapshot)
{
    tr_table *mine = kept_make(tr_table_get_config(whole), snapshots[server], snapshots[server + 1] - snapshots[server]);
    void     *rows;
    uint64_t  bytes;
    tr_part  *part = NULL;
    char     *name = tr_part_name(server, 3, snapshot);

    for (uint32_t shard = snapshots[server]; shard < snapshots[server + 1]; shard++) {
        EXPECT_OK(tr_table_pack(whole, shard, &rows, &bytes));
        EXPECT_OK(tr_table_unpack(mine, rows, bytes));
        free(rows);
        EXPECT_OK(tr_table_pack_candidates(whole, shard, &rows, &bytes));
        EXPECT_OK(tr_table_unpack_candidates(mine, rows, bytes));
        free(rows);
    }
    const tr_job_table words = kept_about(mine, "words", 10 + server);
    const tr_checkpoint_item     state = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};
    EXPECT_OK(tr_tables_snapshot(1, &state, 0, 0));
    EXPECT_OK(tr_part_write(&part, folder, name, TR_ROWS_EXACT, 1, &state));
    tr_tables_snapshot_end(1, &state);
    tr_table_free(mine);
    free(name);
    return part;
}

static void write_parts(const char *folder, const tr_table *whole, const uint32_t snapshots[4])
{
    const tr_checkpoint_facts facts = {.step = 5, .mode = "sync"};
    const uint64_t            snapshot = tr_checkpoint_new_number();
    char                     *path = tr_checkpoint_path(folder, 5);
    tr_part                  *parts[3];

    for (int i = 0; i < 3; i++)
        parts[i] = write_part(path, i, whole, snapshots, snapshot);
    EXPECT_OK(tr_manifest_write(NULL, path, &facts, NULL, snapshot, 3, parts));
    for (int i = 0; i < 3; i++)
        tr_part_free(parts[i]);
    free(path);
}

TEST(shards_of_several_servers_are_one_table)
{
    const char *folder = test_path("three");
    tr_table   *whole = kept_filled(2);
    tr_scope   *scope = tr_scope_new(NULL);
    void       *rows;
    int64_t     bytes;

    write_parts(folder, whole, (const uint32_t[]){0, 100, 101, TR_SHARDS});
    tr_checkpoint *c = kept_open_in(folder, 5);
    EXPECT_OK(tr_checkpoint_load_table(scope, c, 0));
    kept_expect_same(whole, kept_var(scope, "words")->table);
    assert_int_equal(kept_var(scope, "words")->updates, 12);
    EXPECT_OK(tr_checkpoint_read_table(&rows, &bytes, c, 0, 0, TR_SHARDS));
    assert_int_equal(bytes, 3000 * (int64_t)tr_table_stride(tr_table_get_config(whole)));
    tr_free(rows);
    tr_checkpoint_free(c);
    tr_scope_free(scope);
    tr_table_free(whole);
}

TEST(missing_shards_and_other_rows_are_refused)
{
    const char    *folder = test_path("missing");
    char          *path = tr_checkpoint_path(folder, 5);
    tr_table      *whole = kept_filled(0);
    tr_checkpoint *c = NULL;
    tr_scope      *scope = tr_scope_new(NULL);
    tr_job_table   other = kept_about(whole, "words", 0);

    write_parts(folder, whole, (const uint32_t[]){0, 100, 101, 1000});
    EXPECT_FAIL(TR_EFORMAT, "table 'words': it has 1024 shards, 1000 are there", tr_checkpoint_open(&c, path));
    write_parts(folder, whole, (const uint32_t[]){0, 100, 101, TR_SHARDS});
    EXPECT_OK(tr_checkpoint_open(&c, path));
    const tr_table_config config = {.dtype = TR_FP32, .width = KEPT_WIDTH};
    EXPECT_OK(tr_table_var_set(tr_scope_var(scope, other.name), &config, &(tr_table_segment){.shard_count = TR_SHARDS}));
    EXPECT_FAIL(TR_ESHAPE, "has rows of 3 bfloat16 with 1 states, the program wants 3 float32 with 0",
                tr_checkpoint_load_table(scope, c, 0));
    assert_null(kept_var(scope, "words")->table);
    tr_checkpoint_free(c);
    tr_scope_free(scope);
    tr_table_free(whole);
    free(path);
}

/* -- several readers --------------------------------------------------------------------------------- */

/* A checkpoint of a table and of an array, written by two servers. The array is large: most chunks have bytes of no table. */
static void write_with_array(const char *path, const tr_table *whole)
{
    enum { FLOATS = 1 << 20 };
    const tr_checkpoint_facts facts = {.step = 5, .mode = "sync"};
    const uint64_t            snapshot = tr_checkpoint_new_number();
    const int64_t             dims[] = {FLOATS};
    float                    *array = calloc(FLOATS, sizeof *array);
    char                     *name = tr_part_name(2, 3, snapshot);
    const tr_checkpoint_item  state = {.name = "array", .kind = TR_STATE_PARAMETER, .dtype = TR_FP32, .rank = 1, .dims = dims, .data = array};
    tr_part                  *parts[3];

    parts[0] = write_part(path, 0, whole, (const uint32_t[]){0, 700, TR_SHARDS, TR_SHARDS}, snapshot);
    parts[1] = write_part(path, 1, whole, (const uint32_t[]){0, 700, TR_SHARDS, TR_SHARDS}, snapshot);
    EXPECT_OK(tr_part_write(&parts[2], path, name, TR_ROWS_EXACT, 1, &state));
    EXPECT_OK(tr_manifest_write(NULL, path, &facts, NULL, snapshot, 3, parts));
    for (int i = 0; i < 3; i++)
        tr_part_free(parts[i]);
    free(name);
    free(array);
}

static tr_status take_rows(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    assert_string_equal(what->name, "words");
    return tr__rows_put(payload, what, rows, bytes);
}

/* Let reader `i` of `n` read its shards into `table`, as a server does. */
static tr_status read_share(const tr_checkpoint *c, int i, int n, tr_table *table)
{
    const uint32_t       first = (uint32_t)(i * TR_SHARDS / n), end = (uint32_t)((i + 1) * TR_SHARDS / n);
    const tr_rows_wanted wanted = {.first_shard = first, .shard_count = end - first, .reader = i, .readers = n};

    return tr__checkpoint_read_rows(c, &wanted, take_rows, table);
}

TEST(any_number_of_readers_get_all_rows)
{
    char     *path = tr_checkpoint_path(test_path("readers"), 5);
    tr_table *whole = kept_filled(2);

    write_with_array(path, whole);
    for (int readers = 1; readers <= 5; readers++) {
        tr_table      *table = kept_make(tr_table_get_config(whole), 0, TR_SHARDS);
        tr_checkpoint *c = NULL;
        EXPECT_OK(tr_checkpoint_open(&c, path));
        for (int i = 0; i < readers; i++)
            EXPECT_OK(read_share(c, i, readers, table));
        kept_expect_same(whole, table);
        tr_table_free(table);
        tr_checkpoint_free(c);
    }
    tr_table_free(whole);
    free(path);
}

static void flip(const char *path, const char *file, uint64_t at)
{
    char  *name = NULL;
    uint8_t byte;

    assert_true(asprintf(&name, "%s/%s", path, file) > 0);
    FILE *f = fopen(name, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fread(&byte, 1, 1, f), 1);
    byte ^= 16;
    assert_int_equal(fseek(f, (long)at, SEEK_SET), 0);
    assert_int_equal(fwrite(&byte, 1, 1, f), 1);
    fclose(f);
    free(name);
}

/* How many of three readers find damage? */
static int refusals(const tr_checkpoint *c, const tr_table_config *config)
{
    int count = 0;

    for (int i = 0; i < 3; i++) {
        tr_table       *table = kept_make(config, 0, TR_SHARDS);
        const tr_status status = read_share(c, i, 3, table);
        assert_true(status == TR_OK || status == TR_EFORMAT);
        count += status == TR_EFORMAT;
        tr_table_free(table);
    }
    return count;
}

TEST(one_of_several_readers_finds_each_damaged_byte)
{
    char          *path = tr_checkpoint_path(test_path("damage"), 5);
    tr_table      *whole = kept_filled(2);
    tr_checkpoint *c = NULL;

    write_with_array(path, whole);
    EXPECT_OK(tr_checkpoint_open(&c, path));
    const tr_manifest *m = tr__checkpoint_manifest(c);
    assert_int_equal(refusals(c, tr_table_get_config(whole)), 0);
    for (size_t i = 0; i < m->n_parts; i++)
        for (uint64_t at = 77; at < m->parts[i]->bytes; at += (1 << 18) + 4321) {
            flip(path, m->parts[i]->file, at);
            assert_true(refusals(c, tr_table_get_config(whole)) >= 1);
            flip(path, m->parts[i]->file, at);
        }
    assert_int_equal(refusals(c, tr_table_get_config(whole)), 0);
    tr_checkpoint_free(c);
    tr_table_free(whole);
    free(path);
}

/* -- large tables, and many --------------------------------------------------------------------------- */

typedef struct taken {
    tr_table *table;
    uint64_t  most;                   /* bytes that came at once */
} taken;

static tr_status take_some(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    taken *to = payload;

    assert_string_equal(what->name, "words");
    assert_false(what->candidates);
    to->most = bytes > to->most ? bytes : to->most;
    return tr_table_unpack(to->table, rows, bytes);
}

/* A table whose rows all lie in one shard. */
static tr_table *one_shard(int rows, int width)
{
    const tr_table_config config = {.dtype = TR_FP32, .width = width, .init = TR_TABLE_NORMAL, .b = 1, .random_key = 5};
    tr_table             *t = kept_make(&config, 0, TR_SHARDS);
    uint32_t              slot;

    EXPECT_OK(tr_table_begin(t, 1));
    for (int64_t k = 0; rows > 0; k++)
        if (tr_slots_shard(k) == 5) {
            EXPECT_OK(tr_table_take(t, &slot, &k, 1));
            rows--;
        }
    return t;
}

TEST(a_shard_of_any_size_is_read_in_pieces_of_16_mib)
{
    const tr_checkpoint_facts facts = {.step = 5, .mode = "local"};
    const char               *folder = test_path("large");
    tr_table                 *whole = one_shard(1100, 5000);
    tr_job_table              words = kept_about(whole, "words", 1);
    const tr_checkpoint_item  item = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};
    const tr_rows_wanted      wanted = {.shard_count = TR_SHARDS};
    taken                     to = {kept_make(tr_table_get_config(whole), 0, TR_SHARDS), 0};

    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, 1, &item, 0));
    tr_checkpoint *c = kept_open_in(folder, 5);
    assert_true(tr_checkpoint_bytes(c) > (20 << 20));
    EXPECT_OK(tr__checkpoint_read_rows(c, &wanted, take_some, &to));
    assert_true(to.most > (15 << 20) && to.most <= (16 << 20));
    kept_expect_same(whole, to.table);
    tr_checkpoint_free(c);
    tr_table_free(to.table);
    tr_table_free(whole);
}

/* In this program all comparisons of names are counted. */
static int64_t comparisons;

int strcmp(const char *a, const char *b)
{
    comparisons++;
    for (; *a && *a == *b; a++)
        b++;
    return (unsigned char)*a - (unsigned char)*b;
}

static tr_status drop_rows(void *payload, const tr_part_tensor *what, const void *rows, uint64_t bytes)
{
    (void)what;
    (void)rows;
    *(uint64_t *)payload += bytes;
    return TR_OK;
}

static void write_tables(const char *folder, const tr_table_config *config, int count)
{
    enum { MOST = 200 };
    const tr_checkpoint_facts facts = {.step = count, .mode = "local"};
    tr_checkpoint_item        items[MOST];
    tr_job_table              tables[MOST];
    char                      names[MOST][8];
    tr_table                 *t[MOST];

    for (int i = 0; i < count; i++) {
        snprintf(names[i], sizeof names[i], "t%d", i);
        t[i] = kept_make(config, 0, TR_SHARDS);
        kept_touch(t[i], 1, 0, 100);
        tables[i] = kept_about(t[i], names[i], 1);
        items[i] = (tr_checkpoint_item){.name = names[i], .kind = TR_STATE_TABLE, .data = &tables[i]};
    }
    EXPECT_OK(tr_checkpoint_save(NULL, folder, &facts, count, items, 0));
    for (int i = 0; i < count; i++)
        tr_table_free(t[i]);
}

/* The comparisons of names that opening and reading takes. */
static int64_t work_of(const tr_table_config *config, int tables)
{
    const tr_rows_wanted wanted = {.shard_count = TR_SHARDS, .readers = 1};
    const char          *folder = test_path("many");
    char                *path = tr_checkpoint_path(folder, tables);
    tr_checkpoint       *c = NULL;
    uint64_t             bytes = 0;

    write_tables(folder, config, tables);
    comparisons = 0;
    EXPECT_OK(tr_checkpoint_open(&c, path));
    EXPECT_OK(tr__checkpoint_read_rows(c, &wanted, drop_rows, &bytes));
    const int64_t work = comparisons;
    assert_true(bytes >= (uint64_t)tables * 100 * KEPT_WIDTH * 2);
    tr_checkpoint_free(c);
    free(path);
    return work;
}

TEST(many_tables_are_opened_and_read_in_time_that_grows_with_their_number)
{
    tr_table             *t = kept_filled(0);
    const tr_table_config config = kept_config_of(0);
    const int64_t         few = work_of(&config, 50), many = work_of(&config, 200);

    assert_true(few > 0 && many < 4 * few * 3 / 2);
    tr_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_of_one_process_come_back),
        cmocka_unit_test(shards_of_several_servers_are_one_table),
        cmocka_unit_test(missing_shards_and_other_rows_are_refused),
        cmocka_unit_test(any_number_of_readers_get_all_rows),
        cmocka_unit_test(one_of_several_readers_finds_each_damaged_byte),
        cmocka_unit_test(a_shard_of_any_size_is_read_in_pieces_of_16_mib),
        cmocka_unit_test(many_tables_are_opened_and_read_in_time_that_grows_with_their_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
