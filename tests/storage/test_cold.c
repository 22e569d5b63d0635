/* test_cold.c - rows on disk: what is full, damaged or another process's is an error, and loses nothing. */
#include "tests/support/expect.h"

#include "storage/cold/cold_state.h"

#include "storage/cold/file_reads.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STRIDE = 64, ROWS = 500, BLOCK = 8192 };

static char        memory[ROWS][STRIDE];
static tr_slot_row *row_of(int i) { return (tr_slot_row *)(void *)memory[i]; }

static tr_cold *make_store(const char *folder)
{
    const tr_cold_config config = {NULL, folder, STRIDE, 0, TR_SHARDS, BLOCK};
    tr_cold             *cold = NULL;

    for (int i = 0; i < ROWS; i++) {
        memset(memory[i], i, STRIDE);
        row_of(i)->key = i * 7 - 100;
    }
    EXPECT_OK(tr_cold_create(&cold, &config));
    return cold;
}

/* Rows [first, first + n) become cold. */
static tr_status store(tr_cold *cold, int first, int n, uint32_t *records)
{
    const tr_slot_row *rows[ROWS];

    for (int i = 0; i < n; i++)
        rows[i] = row_of(first + i);
    TR_TRY(tr_cold_write(cold, records, rows, n));
    for (int i = 0; i < n; i++)
        TR_TRY(tr_cold_put(cold, rows[i]->key, records[i]));
    return TR_OK;
}

static tr_status compare(void *payload, uint32_t record, const tr_slot_row *row)
{
    (void)record;
    assert_memory_equal(row, row_of((int)(row->key + 100) / 7), STRIDE);
    ++*(int *)payload;
    return TR_OK;
}

/* How many of all keys are found, each with its row. */
static int count_found(tr_cold *cold)
{
    int64_t keys[2 * ROWS];
    int     found = 0;

    for (int i = 0; i < 2 * ROWS; i++)                 /* half of them were never stored, and some come twice */
        keys[i] = i < ROWS ? row_of(i)->key : i % 2 ? row_of(i - ROWS)->key : 1000000 + i;
    EXPECT_OK(tr_cold_fetch(cold, keys, NULL, 2 * ROWS, compare, &found));
    return found;
}

TEST(rows_are_read_as_they_were_written)
{
    tr_cold       *cold = make_store("build");
    uint32_t       records[ROWS];
    tr_cold_report report;

    for (int i = 0; i < ROWS; i += 50)                 /* writes that end amid pages */
        EXPECT_OK(store(cold, i, 50, records + i));
    assert_int_equal(count_found(cold), ROWS);
    for (int i = 0; i < ROWS; i += 2) {
        tr_cold_take(cold, row_of(i)->key, records[i]);
        tr_cold_drop(cold, records[i]);
    }
    assert_int_equal(count_found(cold), ROWS / 2);
    tr_cold_get_report(cold, &report);
    assert_int_equal(report.rows, ROWS / 2);
    assert_int_equal(report.reads, ROWS + ROWS / 2);   /* no record twice */
    tr_cold_clear(cold);
    assert_int_equal(count_found(cold), 0);
    tr_cold_get_report(cold, &report);
    assert_int_equal(report.file_bytes, 0);
    tr_cold_free(cold);
}

static bool never(void *payload, int64_t key, uint32_t record)
{
    (void)payload, (void)key, (void)record;
    return false;
}

TEST(a_file_stays_small_while_rows_come_and_go)
{
    tr_cold       *cold = make_store("/dev/shm");
    uint32_t       records[ROWS];
    tr_cold_report report;

    EXPECT_OK(store(cold, 0, ROWS, records));
    for (int i = 0; i < 100 * ROWS; i++) {
        const int at = (int)((unsigned)i * 7919u % ROWS);
        tr_cold_take(cold, row_of(at)->key, records[at]);
        tr_cold_drop(cold, records[at]);
        EXPECT_OK(store(cold, at, 1, &records[at]));
        if (i % 20 != 0)
            continue;
        EXPECT_OK(tr_cold_tidy(cold, never, NULL));
        for (int j = 0; j < ROWS; j++)                 /* tidying has moved some */
            while (!tr_tag_index_has(cold->index, row_of(j)->key, records[j]))
                records[j] = records[j] + 1 < cold->blocks * cold->per_block ? records[j] + 1 : 0;
    }
    assert_int_equal(count_found(cold), ROWS);
    tr_cold_get_report(cold, &report);
    assert_in_range(report.file_bytes, BLOCK, (2 * ROWS / cold->per_block + 6) * BLOCK);
    assert_in_range(cold->blocks, 1, 2 * ROWS / cold->per_block + 8);      /* free blocks are used again */
    tr_cold_free(cold);
}

/* No block beyond these can be written. Returns the limit that there was. */
static struct rlimit fill_disk(const tr_cold *cold)
{
    struct rlimit old;

    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)TR__COLD_PAGE + (rlim_t)cold->blocks * BLOCK, old.rlim_max});
    return old;
}

TEST(a_full_disk_is_an_error_that_names_the_folder)
{
    tr_cold *cold = make_store("build");
    uint32_t records[ROWS];

    EXPECT_OK(store(cold, 0, 200, records));
    const struct rlimit old = fill_disk(cold);
    EXPECT_FAIL(TR_EIO, "in folder 'build'", store(cold, 200, ROWS - 200, records + 200));
    setrlimit(RLIMIT_FSIZE, &old);
    assert_int_equal(count_found(cold), 200);
    EXPECT_OK(store(cold, 200, ROWS - 200, records + 200));
    assert_int_equal(count_found(cold), ROWS);
    tr_cold_free(cold);
}

/* A record that is held: its number is in `payload`, by its row. */
static bool lose(void *payload, int64_t key, uint32_t record)
{
    uint32_t *held = (uint32_t *)payload + (key + 100) / 7;

    if (*held != record)
        return false;
    *held = TR__COLD_NONE;
    return true;
}

TEST(tidying_goes_on_after_a_full_disk)
{
    enum { EACH = 20 };
    tr_cold *cold = make_store("build");
    uint32_t records[ROWS];

    EXPECT_OK(store(cold, 0, ROWS, records));
    for (int i = 0; i < ROWS; i++) {                   /* of EACH rows one stays, and one is held */
        if (i % EACH)
            tr_cold_take(cold, row_of(i)->key, records[i]);
        if (i % EACH > 1)
            tr_cold_drop(cold, records[i]);
        if (i % EACH != 1)
            records[i] = TR__COLD_NONE;
    }
    cold->tail = TR__COLD_NONE;                        /* the next row needs a block */
    const struct rlimit old = fill_disk(cold);
    EXPECT_FAIL(TR_EIO, "in folder 'build'", tr_cold_tidy(cold, lose, records));
    setrlimit(RLIMIT_FSIZE, &old);
    EXPECT_OK(tr_cold_tidy(cold, lose, records));
    assert_int_equal(count_found(cold), ROWS / EACH);
    tr_cold_free(cold);
}

TEST(a_damaged_record_is_an_error_and_not_a_row)
{
    tr_cold *cold = make_store("build");
    uint32_t records[ROWS];
    char     path[64];
    int      found = 0;

    EXPECT_OK(store(cold, 0, ROWS, records));
    snprintf(path, sizeof path, "/proc/self/fd/%d", cold->file);
    const int file = open(path, O_RDWR);               /* without O_DIRECT */
    assert_true(file >= 0);
    assert_int_equal(pwrite(file, "?", 1, (off_t)tr__cold_place(cold, records[77]) + 40), 1);
    close(file);
    EXPECT_FAIL(TR_EFORMAT, "is damaged", tr_cold_fetch(cold, &row_of(77)->key, NULL, 1, compare, &found));
    EXPECT_OK(tr_cold_fetch(cold, &row_of(78)->key, NULL, 1, compare, &found));
    assert_int_equal(found, 1);
    tr_cold_free(cold);
}

TEST(a_forked_child_is_refused)
{
    tr_cold *cold = make_store("build");
    uint32_t records[ROWS];
    int      how, found = 0;

    EXPECT_OK(store(cold, 0, 100, records));
    assert_int_equal(count_found(cold), 100);
    const pid_t child = fork();
    if (child == 0)
        _exit(tr_cold_fetch(cold, &row_of(0)->key, NULL, 1, compare, &found) == TR_EUNSUPPORTED ? 0 : 1);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    tr_cold_free(cold);
}

TEST(a_forked_child_that_clears_its_rows_leaves_those_of_its_parent)
{
    tr_cold *cold = make_store("build");
    uint32_t records[ROWS];
    int      how;

    EXPECT_OK(store(cold, 0, ROWS, records));
    const pid_t child = fork();
    if (child == 0) {
        tr_cold_clear(cold);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(count_found(cold), ROWS);
    tr_cold_free(cold);
}

/* Change a byte of a record on disk, or change it back. */
static void flip(const tr_cold *cold, uint32_t record)
{
    char  path[64], page[TR__COLD_PAGE];
    off_t at = (off_t)tr__cold_place(cold, record);

    snprintf(path, sizeof path, "/proc/self/fd/%d", cold->file);
    const int file = open(path, O_RDWR);
    assert_int_equal(pread(file, page, 32, at), 32);
    page[31] = (char)~page[31];
    assert_int_equal(pwrite(file, page, 32, at), 32);
    fsync(file);
    close(file);
}

TEST(ages_are_those_of_all_rows_also_after_a_failure_to_read_them)
{
    tr_cold     *cold = make_store("build");
    tr_cold_age *list = NULL;
    uint32_t     records[ROWS];
    uint64_t     capacity = 0, count = 0, all = 0;

    EXPECT_OK(store(cold, 0, ROWS, records));
    flip(cold, records[77]);
    EXPECT_FAIL(TR_EFORMAT, "is damaged", tr_cold_keep_ages(cold));
    flip(cold, records[77]);
    EXPECT_OK(tr_cold_keep_ages(cold));
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++, all += count) {
        EXPECT_OK(tr_cold_ages_of_shard(&list, &capacity, &count, cold, shard));
        for (uint64_t i = 0; i < count; i++)
            for (int row = 0; row < ROWS; row++)
                if (records[row] == list[i].record)
                    assert_int_equal(list[i].last, row_of(row)->last);
    }
    assert_int_equal(all, ROWS);
    free(list);
    tr_cold_free(cold);
}

static int announce_one(void)
{
    tr_cold *cold = make_store("build");
    uint32_t record;
    int      found = 0;

    EXPECT_OK(store(cold, 0, 1, &record));
    EXPECT_OK(tr_cold_expect(cold, &row_of(0)->key, NULL, 1));
    EXPECT_OK(tr_cold_fetch(cold, &row_of(0)->key, NULL, 1, compare, &found));
    tr_cold_free(cold);
    return found;
}

/* The first test: the parent has never read several records at a time. */
TEST(a_forked_child_reads_ahead_in_its_own_file)
{
    int how;

    assert_int_equal(announce_one(), 1);
    const pid_t child = fork();
    if (child == 0) {
        alarm(10);                                     /* rather than wait for ever */
        _exit(announce_one() - 1);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
}

/* Announce these rows, and let them be looked up. Returns how many look-ups found their record read. */
static uint64_t announce(tr_cold *cold, int first, int n)
{
    int64_t        keys[ROWS];
    int            found = 0;
    tr_cold_report before, after;

    for (int i = 0; i < n; i++)
        keys[i] = row_of(first + i)->key;
    tr_cold_get_report(cold, &before);
    EXPECT_OK(tr_cold_expect(cold, keys, NULL, n));
    EXPECT_OK(tr_cold_fetch(cold, keys, NULL, n, compare, &found));
    assert_int_equal(found, n);
    tr_cold_get_report(cold, &after);
    assert_int_equal(after.reads - before.reads, n);
    return after.ahead - before.ahead;
}

static tr_status count(void *payload, uint32_t record, const tr_slot_row *row)
{
    (void)record, (void)row;
    ++*(int *)payload;
    return TR_OK;
}

TEST(announced_rows_are_read_once_and_ahead)
{
    tr_cold  *cold = make_store("build");
    uint32_t  records[ROWS];

    EXPECT_OK(tr_cold_expect(cold, &row_of(0)->key, NULL, 1));                 /* of no rows */
    EXPECT_OK(store(cold, 0, ROWS, records));
    assert_in_range(announce(cold, 0, 100), 95, 100);  /* some find no cell */
    assert_int_equal(announce(cold, 100, 1), 1);
    assert_in_range(announce(cold, 0, ROWS), ROWS - 25, ROWS);
    EXPECT_OK(tr_cold_expect(cold, &row_of(7)->key, NULL, 1));                 /* nobody comes */
    tr_cold_free(cold);
}

/* Not even the fewest cells for them fit the memory for reading ahead. */
TEST(announced_rows_that_are_too_long_are_read_when_they_are_needed)
{
    enum { LONG = 5 << 20 };
    const tr_cold_config config = {NULL, "build", LONG, 0, TR_SHARDS, BLOCK};
    tr_cold             *cold = NULL;
    tr_slot_row         *row = calloc(1, LONG);
    const int64_t        key = 0;
    uint32_t             record;
    tr_cold_report       report;
    int                  found = 0;

    EXPECT_OK(tr_cold_create(&cold, &config));
    EXPECT_OK(tr_cold_write(cold, &record, (const tr_slot_row *const *)&row, 1));
    EXPECT_OK(tr_cold_put(cold, key, record));
    EXPECT_OK(tr_cold_expect(cold, &key, NULL, 1));
    EXPECT_OK(tr_cold_fetch(cold, &key, NULL, 1, count, &found));
    tr_cold_get_report(cold, &report);
    assert_true(found == 1 && report.reads == 1 && report.ahead == 0);
    tr_cold_free(cold);
    free(row);
}

/* What was read of a block that has other records now is of no use. */
TEST(what_was_read_ahead_of_a_block_that_is_free_is_forgotten)
{
    tr_cold  *cold = make_store("build");
    uint32_t  records[ROWS], again[ROWS];
    int64_t   keys[ROWS];
    const int n = (int)cold->per_block;

    EXPECT_OK(store(cold, 0, 2 * n, records));         /* the second block is the tail */
    for (int i = 0; i < n; i++)
        keys[i] = row_of(i)->key;
    EXPECT_OK(tr_cold_expect(cold, keys, NULL, n));
    for (int i = 0; i < n; i++) {
        tr_cold_take(cold, row_of(i)->key, records[i]);
        tr_cold_drop(cold, records[i]);
    }
    for (int i = 0; i < n; i++)
        row_of(i)->last = 5;                           /* other contents under the same numbers */
    EXPECT_OK(store(cold, 0, n, again));
    assert_int_equal(again[0], records[0]);
    assert_int_equal(count_found(cold), 2 * n);
    tr_cold_free(cold);
}

TEST(reads_beyond_the_end_of_a_file_fail)
{
    FILE        *file = tmpfile();
    char         to[3][16];
    tr_file_read reads[3] = {{0, 16, to[0]}, {8, 16, to[1]}, {16, 16, to[2]}};

    assert_int_equal(fwrite("0123456789abcdef0123456789abcdef", 1, 32, file), 32);
    fflush(file);
    EXPECT_OK(tr_file_reads_run(fileno(file), "it", reads, 3));
    assert_memory_equal(to[1], "89abcdef01234567", 16);
    reads[1].at = 20;
    EXPECT_FAIL(TR_EIO, "'it': it ends too early", tr_file_reads_run(fileno(file), "it", reads, 3));
    tr_file_reads later = {.file = fileno(file), .reads = reads, .count = 3};
    tr_file_reads_begin(&later);
    assert_false(tr_file_reads_wait(&later));
    reads[1].at = 8;
    tr_file_reads_begin(&later);
    assert_true(tr_file_reads_wait(&later) && tr_file_reads_are_done(&later));
    reads[0].bytes = 0;
    EXPECT_OK(tr_file_reads_run(fileno(file), "it", reads, 1));
    assert_int_equal(later.error, 0);
    fclose(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_forked_child_reads_ahead_in_its_own_file),
        cmocka_unit_test(rows_are_read_as_they_were_written),
        cmocka_unit_test(a_file_stays_small_while_rows_come_and_go),
        cmocka_unit_test(a_full_disk_is_an_error_that_names_the_folder),
        cmocka_unit_test(tidying_goes_on_after_a_full_disk),
        cmocka_unit_test(a_damaged_record_is_an_error_and_not_a_row),
        cmocka_unit_test(a_forked_child_is_refused),
        cmocka_unit_test(a_forked_child_that_clears_its_rows_leaves_those_of_its_parent),
        cmocka_unit_test(ages_are_those_of_all_rows_also_after_a_failure_to_read_them),
        cmocka_unit_test(announced_rows_are_read_once_and_ahead),
        cmocka_unit_test(announced_rows_that_are_too_long_are_read_when_they_are_needed),
        cmocka_unit_test(what_was_read_ahead_of_a_block_that_is_free_is_forgotten),
        cmocka_unit_test(reads_beyond_the_end_of_a_file_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
