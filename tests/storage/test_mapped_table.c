/* test_mapped_table.c - rows in files: read as the table has them, the newest file first; damaged files are refused. */
#include "tests/support/table_rig.h"

#include "storage/memory/guard.h"
#include "storage/table/mapped_table.h"
#include "storage/util/crc32c.h"

#include <stdio.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROWS = 1000 };

static uint32_t               next;
static const tr_table_segment everywhere = {NULL, 0, TR_SHARDS, 0};

static void write_rows(const char *path, const tr_table *t, uint32_t since, uint64_t expected)
{
    const tr_table_config *config = tr_table_get_config(t);
    tr_row_writer         *writer = NULL;
    uint64_t               rows = 0;

    EXPECT_OK(tr_row_writer_open(&writer, path, config, 0, TR_SHARDS));
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *packed = NULL;
        uint64_t bytes = 0;
        EXPECT_OK(tr_table_pack_newer(t, shard, since, &packed, &bytes));
        EXPECT_OK(tr_row_writer_add(writer, packed, bytes));
        free(packed);
    }
    EXPECT_OK(tr_row_writer_close(writer, TR_OK, &rows));
    assert_int_equal(rows, expected);
}

static void expect_the_same(const tr_mapped_table *mapped, tr_table *t)
{
    const int64_t bytes = tr_table_row_bytes(tr_table_get_config(t));
    int64_t       keys[2 * ROWS];
    char         *got = malloc((size_t)(2 * ROWS * bytes)), *expected = malloc((size_t)(2 * ROWS * bytes));

    for (int i = 0; i < 2 * ROWS; i++)
        keys[i] = key_of((uint64_t)i);
    EXPECT_OK(tr_mapped_table_pull(mapped, got, keys, 2 * ROWS));
    EXPECT_OK(tr_table_pull(t, expected, keys, 2 * ROWS));
    assert_memory_equal(got, expected, 2 * ROWS * bytes);
    free(got);
    free(expected);
}

static void newer_rows_hide_older_ones(tr_dtype dtype)
{
    const tr_table_config config = config_of(dtype);
    tr_mapped_table      *mapped = tr_mapped_table_new();
    tr_table             *t = NULL;
    int64_t               keys[ROWS];

    EXPECT_OK(tr_table_create(&t, &config, &everywhere));
    for (int i = 0; i < ROWS; i++)
        keys[i] = key_of((uint64_t)i);
    update(t, 1, keys, ROWS, 1);
    write_rows(test_path("full.rows"), t, 0, ROWS);
    EXPECT_OK(tr_mapped_table_add(mapped, test_path("full.rows"), &next));
    expect_the_same(mapped, t);
    update(t, 2, keys + 10, 20, 3);
    const int64_t made = key_of(ROWS + 5);
    update(t, 3, &made, 1, 4);
    write_rows(test_path("delta.rows"), t, 1, 21);
    EXPECT_OK(tr_mapped_table_add(mapped, test_path("delta.rows"), &next));
    expect_the_same(mapped, t);
    write_rows(test_path("nothing.rows"), t, 3, 0);
    EXPECT_OK(tr_mapped_table_add(mapped, test_path("nothing.rows"), &next));
    expect_the_same(mapped, t);
    tr_mapped_table_free(mapped);
    tr_table_free(t);
}

TEST(rows_and_first_values_are_those_of_the_table)
{
    newer_rows_hide_older_ones(TR_FP32);
    newer_rows_hide_older_ones(TR_FP16);
}

/* Write the file with one byte of it changed, or cut. */
static const char *damaged(size_t at, size_t keep)
{
    size_t      size;
    uint8_t    *bytes = test_read_file(&size, test_path("good.rows"));
    const char *path = test_path("bad.rows");
    FILE       *out = fopen(path, "wb");

    if (at < size)
        bytes[at] ^= 0x40;
    assert_int_equal(fwrite(bytes, 1, keep < size ? keep : size, out), keep < size ? keep : size);
    fclose(out);
    free(bytes);
    return path;
}

static tr_status open_as(tr_row_file **out, const char *path, bool is_copied)
{
    return tr_row_file_open(out, path, is_copied ? UINT64_MAX : 0);
}

/* A file of ten rows. */
static size_t write_good(int64_t *keys)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *t = NULL;
    size_t                size;

    EXPECT_OK(tr_table_create(&t, &config, &everywhere));
    for (int i = 0; i < 10; i++)
        keys[i] = key_of((uint64_t)i);
    update(t, 1, keys, 10, 1);
    write_rows(test_path("good.rows"), t, 0, 10);
    free(test_read_file(&size, test_path("good.rows")));
    tr_table_free(t);
    return size;
}

TEST(a_file_with_a_damaged_byte_is_refused_or_its_rows_are)
{
    int64_t      keys[10];
    const size_t size = write_good(keys);
    tr_row_file *file = NULL;
    const void  *values;

    for (int c = 0; c < 2; c++) {
        for (size_t at = 0; at < sizeof(tr_row_file_head); at++)
            EXPECT_FAIL(TR_EFORMAT, "bad.rows", open_as(&file, damaged(at, size), c));
        EXPECT_FAIL(TR_EFORMAT, "do not make a file of", open_as(&file, damaged(SIZE_MAX, size - 4), c));
        EXPECT_FAIL(TR_EFORMAT, "no file of a sparse table's rows", open_as(&file, damaged(SIZE_MAX, 40), c));
        EXPECT_FAIL(TR_EFORMAT, "it is empty", open_as(&file, damaged(SIZE_MAX, 0), c));
        EXPECT_FAIL(TR_EIO, "none.rows", open_as(&file, test_path("none.rows"), c));
    }
    for (size_t at = sizeof(tr_row_file_head); at < size; at++) {
        EXPECT_FAIL(TR_EFORMAT, "bad.rows' is damaged", open_as(&file, damaged(at, size), true));
        const tr_status status = open_as(&file, damaged(at, size), false);
        assert_int_equal(status, at < size - sizeof(uint32_t) ? TR_OK : TR_EFORMAT);        /* the last four bytes are the checksum */
        for (int i = 0; i < 10 && status == TR_OK; i++)
            EXPECT_FAIL(TR_EFORMAT, "the checksum of the 65536 bytes from byte 0 is another one", tr_row_file_find(&values, file, keys[i]));
        if (status == TR_OK)
            tr_row_file_free(file);
    }
}

static void read_values(void *payload)
{
    const char **values = payload;

    (void)*(volatile const char *)*values;
}

/* A file that is open for writing cannot be leased. */
TEST(a_mapped_file_that_is_cut_says_so_where_it_cannot_be_leased_and_a_copied_one_does_not_care)
{
    int64_t keys[10];

    (void)write_good(keys);
    for (int c = 0; c < 2; c++) {
        tr_row_file *file = NULL;
        const void  *values = NULL;
        const char  *path = damaged(SIZE_MAX, SIZE_MAX);
        FILE        *writer = fopen(path, "r+b");
        EXPECT_OK(open_as(&file, path, c));
        assert_int_equal(tr_row_file_is_mapped(file), !c);
        EXPECT_OK(tr_row_file_find(&values, file, keys[3]));
        assert_non_null(values);
        EXPECT_OK(tr_row_file_is_intact(file));
        assert_true(tr_guard_call(read_values, &values));
        assert_int_equal(truncate(test_path("bad.rows"), 0), 0);
        assert_int_equal(tr_guard_call(read_values, &values), c);
        if (c)
            EXPECT_OK(tr_row_file_is_intact(file));
        else
            EXPECT_FAIL(TR_EIO, "bad.rows' was changed in its place while it is served", tr_row_file_is_intact(file));
        tr_row_file_free(file);
        fclose(writer);
    }
}

/* Look rows up, and cut the file: in this process, or in a child that has the mapping from its parent. */
static bool keeps_its_rows(tr_row_file *file, const int64_t *keys, bool cuts)
{
    const void *values[10];
    char        row[10][64], *at[1];
    const size_t bytes = (size_t)tr_table_row_bytes(tr_row_file_config(file));

    for (int i = 0; i < 10; i++) {
        EXPECT_OK(tr_row_file_find(&values[i], file, keys[i]));
        memcpy(row[i], values[i], bytes < sizeof row[i] ? bytes : sizeof row[i]);
        at[0] = (char *)(uintptr_t)values[i];
    }
    EXPECT_OK(tr_row_file_is_intact(file));
    if (cuts && truncate(test_path("bad.rows"), 0))
        return false;
    for (int i = 0; i < 10; i++)
        if (!tr_guard_call(read_values, at) || memcmp(row[i], values[i], bytes < sizeof row[i] ? bytes : sizeof row[i]))
            return false;
    return tr_row_file_is_intact(file) == TR_OK;
}

TEST(a_mapped_file_that_is_cut_keeps_its_rows_also_in_a_child)
{
    int64_t keys[10];

    (void)write_good(keys);
    for (int in_child = 0; in_child < 2; in_child++) {
        tr_row_file *file = NULL;
        const char  *path = damaged(SIZE_MAX, SIZE_MAX);
        const int    lessee = open(path, O_RDONLY);
        if (fcntl(lessee, F_SETLEASE, F_RDLCK)) {      /* not on this file system */
            close(lessee);
            skip();
        }
        close(lessee);
        EXPECT_OK(open_as(&file, path, false));
        assert_true(keeps_its_rows(file, keys, !in_child));
        const pid_t child = in_child ? fork() : -1;
        if (child == 0)
            _exit(!keeps_its_rows(file, keys, true));
        int status = 0;
        if (child > 0)
            assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        assert_true(keeps_its_rows(file, keys, false));
        tr_row_file_free(file);
        assert_int_equal(truncate(test_path("bad.rows"), 0), 0);       /* nobody is waited for */
    }
}

/* A file as the first version of the format had it: no checksums but that of the header. */
static void write_first_version(const char *path, size_t size)
{
    size_t           whole;
    uint8_t         *bytes = test_read_file(&whole, test_path("good.rows"));
    tr_row_file_head head;
    FILE            *out = fopen(path, "wb");

    memcpy(&head, bytes, sizeof head);
    head.version = 1;
    head.bytes = size;
    head.sums_at = head.sums_crc = head.chunk = 0;
    head.crc = tr_crc32c(0, (const char *)&head + 16, sizeof head - 16);
    memcpy(bytes, &head, sizeof head);
    assert_int_equal(fwrite(bytes, 1, size, out), size);
    fclose(out);
    free(bytes);
}

TEST(a_file_of_the_first_version_is_read)
{
    int64_t          keys[10];
    const size_t     size = write_good(keys);
    tr_row_file     *file = NULL;
    tr_row_file_head head;
    const void      *values = NULL;
    size_t           whole;
    uint8_t         *bytes = test_read_file(&whole, test_path("good.rows"));

    memcpy(&head, bytes, sizeof head);
    free(bytes);
    assert_true(head.sums_at < size);
    write_first_version(test_path("old.rows"), head.index_at + head.entries * sizeof(uint32_t));
    for (int c = 0; c < 2; c++) {
        EXPECT_OK(open_as(&file, test_path("old.rows"), c));
        EXPECT_OK(tr_row_file_find(&values, file, keys[3]));
        assert_non_null(values);
        tr_row_file_free(file);
    }
}

TEST(files_of_another_table_do_not_join)
{
    tr_table_config  config = config_of(TR_FP32);
    tr_mapped_table *mapped = tr_mapped_table_new();
    tr_row_writer   *writer = NULL;

    for (int i = 0; i < 2; i++) {
        config.width += i;
        EXPECT_OK(tr_row_writer_open(&writer, test_path(i ? "b.rows" : "a.rows"), &config, 0, TR_SHARDS));
        EXPECT_FAIL(TR_EFORMAT, "are no rows of", tr_row_writer_add(writer, "", 1));
        EXPECT_OK(tr_row_writer_close(writer, TR_OK, NULL));
    }
    EXPECT_OK(tr_mapped_table_add(mapped, test_path("a.rows"), &next));
    EXPECT_FAIL(TR_EFORMAT, "another table", tr_mapped_table_add(mapped, test_path("b.rows"), &next));
    tr_mapped_table_free(mapped);
    EXPECT_OK(tr_row_writer_open(&writer, test_path("c.rows"), &config, 0, TR_SHARDS));
    EXPECT_FAIL(TR_EINTR, "", tr_row_writer_close(writer, TR_EINTR, NULL));
    assert_int_equal(access(test_path("c.rows"), F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_first_values_are_those_of_the_table),
        cmocka_unit_test(a_file_with_a_damaged_byte_is_refused_or_its_rows_are),
        cmocka_unit_test(a_mapped_file_that_is_cut_says_so_where_it_cannot_be_leased_and_a_copied_one_does_not_care),
        cmocka_unit_test(a_mapped_file_that_is_cut_keeps_its_rows_also_in_a_child),
        cmocka_unit_test(a_file_of_the_first_version_is_read),
        cmocka_unit_test(files_of_another_table_do_not_join),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
