/* test_table_file.c - rows in files for NumPy: each reader gets those of its shards, and what is damaged is refused. */
#include "tests/support/table_rig.h"

#include "storage/checkpoint/table_file.h"

#include <stdlib.h>
#include <string.h>

enum { ROWS = 3000, HEAD = 64, HALF = TR_SHARDS / 2 };

static char head[HEAD];

/* All rows of a table, packed. */
static void *pack_all(uint64_t *bytes, const tr_table *t)
{
    const uint64_t stride = tr_table_stride(tr_table_get_config(t));
    char          *all = malloc(ROWS * stride);

    *bytes = 0;
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows = NULL;
        uint64_t size = 0;
        EXPECT_OK(tr_table_pack(t, shard, &rows, &size));
        memcpy(all + *bytes, rows, size);
        *bytes += size;
        free(rows);
    }
    assert_int_equal(*bytes, ROWS * stride);
    return all;
}

static tr_table *make_rows(const tr_table_config *config)
{
    static const tr_table_segment everywhere = {NULL, 0, TR_SHARDS, 0};
    tr_table                     *t = NULL;
    int64_t                       keys[ROWS];
    uint32_t                      slots[ROWS];

    EXPECT_OK(tr_table_create(&t, config, &everywhere));
    for (int i = 0; i < ROWS; i++)
        keys[i] = key_of((uint64_t)i);
    EXPECT_OK(tr_table_begin(t, 1));
    EXPECT_OK(tr_table_take(t, slots, keys, ROWS));
    return t;
}

TEST(each_reader_gets_the_rows_of_its_shards)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = make_rows(&config);
    uint64_t              bytes, sum = 0;
    char                 *all = pack_all(&bytes, t);
    tr_table_file         file = {.path = test_path("rows.npy"), .head = head, .head_bytes = HEAD, .shard = 0, .shards = TR_SHARDS};

    EXPECT_OK(tr_table_file_write(&file, &config, all, bytes));
    assert_int_equal(file.rows, ROWS);
    for (uint32_t first = 0; first < TR_SHARDS; first += HALF) {
        void    *rows;
        uint64_t size;
        EXPECT_OK(tr_table_file_read(&rows, &size, &file, &config, first, HALF));
        assert_memory_equal(rows, all + sum, size);          /* they are in the order of their shards */
        sum += size;
        free(rows);
    }
    assert_int_equal(sum, bytes);
    free(all);
    tr_table_free(t);
}

/* Read the file, which is said to have other rows or another checksum. */
static tr_status read_as(tr_table_file file, const tr_table_config *config, int64_t rows, int64_t crc)
{
    void    *got;
    uint64_t size;

    file.rows = rows;
    file.crc = crc;
    const tr_status status = tr_table_file_read(&got, &size, &file, config, 0, TR_SHARDS);
    if (status == TR_OK)
        free(got);
    return status;
}

TEST(a_file_that_is_not_what_is_said_of_it_is_refused)
{
    const tr_table_config config = config_of(TR_FP32);
    const uint64_t        stride = tr_table_stride(&config);
    tr_table             *t = make_rows(&config);
    uint64_t              bytes;
    char                 *all = pack_all(&bytes, t);
    tr_table_file         file = {.path = test_path("damaged.npy"), .head = head, .head_bytes = HEAD, .shard = 0, .shards = TR_SHARDS};

    EXPECT_OK(tr_table_file_write(&file, &config, all, bytes));
    assert_int_equal(read_as(file, &config, ROWS, file.crc), TR_OK);
    assert_int_equal(read_as(file, &config, ROWS, -1), TR_OK);
    assert_int_equal(read_as(file, &config, ROWS, file.crc ^ 1), TR_EFORMAT);
    assert_int_equal(read_as(file, &config, ROWS - 1, file.crc), TR_EFORMAT);
    assert_int_equal(read_as(file, &config, -1, file.crc), TR_EFORMAT);
    for (int bit = 32; bit < 63; bit++)            /* the product with the bytes of a row may be right without its high bits */
        assert_int_equal(read_as(file, &config, ROWS + ((int64_t)1 << bit), file.crc), TR_EFORMAT);
    file.head_bytes = HEAD + (int64_t)stride * (ROWS + 1);
    assert_int_equal(read_as(file, &config, -1, file.crc), TR_EFORMAT);
    file.path = "/nowhere/rows.npy";
    assert_int_equal(read_as(file, &config, ROWS, file.crc), TR_ENOTFOUND);
    free(all);
    tr_table_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_reader_gets_the_rows_of_its_shards),
        cmocka_unit_test(a_file_that_is_not_what_is_said_of_it_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
