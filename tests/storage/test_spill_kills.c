/* test_spill_kills.c - a table with rows on disk, whose process is killed or whose files are damaged, beside a table in memory. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"
#include "storage/table/table_state.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DOMAIN = 3000, TOUCHED = 90, HOT = 250, ROUNDS = 80 };

static const char FOLDER[] = "/dev/shm";               /* as a disk, for a killed process */
static char       name[64];

static tr_table_segment place_of(const tr_table_config *config)
{
    return (tr_table_segment){.name = name, .shard_count = TR_SHARDS, .spill = FOLDER, .memory = HOT * (tr_table_stride(config) + 16) + 13 * DOMAIN};
}

static tr_table *make_table(const tr_table_config *config, bool is_plain)
{
    const tr_table_segment plain = {.shard_count = TR_SHARDS}, spilled = place_of(config);
    tr_table              *t = NULL;

    EXPECT_OK(tr_table_create(&t, config, is_plain ? &plain : &spilled));
    return t;
}

static tr_table *attach(const tr_table_config *config, uint64_t step)
{
    const tr_table_segment place = place_of(config);
    tr_table              *t = NULL;

    EXPECT_OK(tr_table_attach(&t, config, &place, step));
    return t;
}

/* Distinct keys all over the domain: most of them are cold. */
static void keys_of_step(int64_t *keys, uint64_t step)
{
    const uint64_t first = tr_random_below(step, 0, DOMAIN);

    for (uint64_t i = 0; i < TOUCHED; i++)
        keys[i] = key_of((first + i * 31) % DOMAIN);
}

static void update_step(tr_table *t, uint64_t step)
{
    int64_t keys[TOUCHED];

    if (tr_table_get_config(t)->max_age)               /* each shard comes often */
        EXPECT_OK(tr_table_evict(t, (step - 1) * 64, NULL));
    keys_of_step(keys, step);
    update(t, step, keys, TOUCHED, (float)(step % 16));
}

static void look_up(tr_table *t, uint64_t seed)
{
    int64_t keys[TOUCHED];
    float   values[TOUCHED * WIDTH];

    keys_of_step(keys, seed);
    EXPECT_OK(tr_table_pull(t, values, keys, TOUCHED));
}

/* == the same rows ================================================================================= */

static int by_key(const void *a, const void *b)
{
    int64_t x, y;

    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* Without the rows of updates that were cut off: they still have first values. */
static uint64_t drop_untouched(char *rows, uint64_t bytes, uint64_t stride)
{
    uint64_t kept = 0;

    for (uint64_t at = 0; at < bytes; at += stride) {
        tr_slot_row head;
        memcpy(&head, rows + at, sizeof head);
        if (!(head.mark & TR__TOUCHES))
            continue;
        memmove(rows + kept, rows + at, stride);
        kept += stride;
    }
    return kept;
}

static char *pack_touched(const tr_table *t, uint32_t shard, uint64_t *bytes)
{
    const uint64_t stride = tr_slots_stride(tr_table_slots(t));
    void          *rows = NULL;

    EXPECT_OK(tr_table_pack(t, shard, &rows, bytes));
    *bytes = drop_untouched(rows, *bytes, stride);
    qsort(rows, *bytes / stride, stride, by_key);
    return rows;
}

static void expect_same_rows(const tr_table *plain, const tr_table *spilled)
{
    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        uint64_t bytes[2];
        char    *rows[2] = {pack_touched(plain, shard, &bytes[0]), pack_touched(spilled, shard, &bytes[1])};
        assert_int_equal(bytes[0], bytes[1]);
        assert_memory_equal(rows[0], rows[1], bytes[0]);
        free(rows[0]);
        free(rows[1]);
    }
}

/* == kills ========================================================================================= */

static void train_until_killed(const tr_table_config *config, uint64_t *updated)
{
    tr_table *t = attach(config, *updated);

    for (;;) {
        const uint64_t step = *updated + 1;
        update_step(t, step);
        *updated = step;
        look_up(t, step * 7919);                       /* the update is not final yet: it may have to be undone */
    }
}

static uint64_t kill_one(const tr_table_config *config, uint64_t *updated, uint64_t round)
{
    const struct timespec pause = {0, (long)(700000 + tr_random_below(5, round, 3000000))}, look = {0, 100000};
    const uint64_t        known = *updated;
    int                   how;
    const pid_t           child = fork();

    if (child == 0)
        train_until_killed(config, updated);
    for (int i = 0; i < 100000 && __atomic_load_n(updated, __ATOMIC_RELAXED) == known && round % 2; i++)
        nanosleep(&look, NULL);
    nanosleep(&pause, NULL);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFSIGNALED(how));
    return known;
}

/* The killed process may have removed rows already that the next update will remove. */
static void expect_same_after(tr_table *plain, tr_table *spilled, uint64_t updated)
{
    EXPECT_OK(tr_table_evict(plain, updated * 64, NULL));
    EXPECT_OK(tr_table_evict(spilled, updated * 64, NULL));
    expect_same_rows(plain, spilled);
}

static void kill_often(const tr_table_config *config)
{
    tr_table *plain = make_table(config, true), *t = make_table(config, false);
    uint64_t *updated = mmap(NULL, sizeof *updated, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    tr_table_free(t);
    for (uint64_t round = 0; round < ROUNDS; round++) {
        for (uint64_t step = kill_one(config, updated, round) + 1; step <= *updated; step++)
            update_step(plain, step);
        t = attach(config, *updated);
        EXPECT_OK(tr_table_check(t));
        if (round % 8 == 0)
            expect_same_after(plain, t, *updated);
        if (round % 3 == 0 && *updated > 1) {          /* the servers may agree on the step before */
            tr_table_go_back(t, *updated);
            look_up(t, round);
        }
        EXPECT_OK(tr_table_check(t));
        tr_table_free(t);
    }
    t = attach(config, *updated);
    expect_same_after(plain, t, *updated);
    tr_table_report report;
    tr_table_get_report(t, &report);
    print_message("%d updates, %d rows on disk in %d bytes\n", (int)*updated, (int)report.cold.rows, (int)report.cold.file_bytes);
    assert_true(*updated >= ROUNDS / 2 && report.cold.rows > HOT);
    tr_table_free(t);
    tr_table_free(plain);
    tr_table_remove(name);
    munmap(updated, sizeof *updated);
}

TEST(a_kill_at_any_moment_leaves_whole_steps_with_rows_on_disk)
{
    tr_table_config config = config_of(TR_FP32);

    kill_often(&config);
    config.max_age = 64 * 60;                          /* rows are removed, too */
    kill_often(&config);
}

TEST(the_last_update_can_be_undone_whatever_became_cold_since)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *plain = make_table(&config, true), *t = make_table(&config, false);

    for (uint64_t step = 1; step <= 60; step++) {
        update_step(plain, step);
        update_step(t, step);
        update_step(t, step + 1);                      /* this one will be undone */
        for (uint64_t i = 0; i < 8; i++)
            look_up(t, 1000 * step + i);
        if (step % 4 == 0) {                           /* the next process finds the log, and undoes it later */
            tr_table_free(t);
            t = attach(&config, step + 1);
            for (uint64_t i = 0; i < 8; i++)
                look_up(t, 1000 * step + 500 + i);
        }
        if (step % 2)
            tr_table_go_back(t, step);
        else {
            tr_table_free(t);
            t = attach(&config, step);
        }
        EXPECT_OK(tr_table_check(t));
        if (step % 10 == 0)
            expect_same_rows(plain, t);
    }
    tr_table_report report;
    tr_table_get_report(t, &report);
    assert_true(report.cold.rows > HOT);
    tr_table_free(t);
    tr_table_free(plain);
    tr_table_remove(name);
}

/* == what is not there, or damaged ==================================================================== */

static bool exists(const char *what)
{
    char path[256];
    snprintf(path, sizeof path, "/dev/shm/%s%s", name, what);
    struct stat info;
    return lstat(path, &info) == 0;
}

/* The path of the log. */
static const char *path_of_log(void)
{
    static char path[512];
    char        link[256];

    snprintf(link, sizeof link, "/dev/shm/%s.spill", name);
    const ssize_t length = readlink(link, path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    return path;
}

static tr_table *fill(const tr_table_config *config, uint64_t steps)
{
    tr_table *t = make_table(config, false);

    for (uint64_t step = 1; step <= steps; step++)
        update_step(t, step);
    return t;
}

TEST(a_file_that_is_gone_or_another_is_refused)
{
    const tr_table_config  config = config_of(TR_FP32);
    const tr_table_segment place = place_of(&config);
    char                   log[512], kept[512];
    tr_table              *t = fill(&config, 30);

    snprintf(log, sizeof log, "%s", path_of_log());
    snprintf(kept, sizeof kept, "%s.kept", log);
    EXPECT_FAIL(TR_EEXIST, "has it", tr_table_attach(&t, &config, &place, 30));
    tr_table_free(t);
    assert_int_equal(rename(log, kept), 0);
    EXPECT_FAIL(TR_ENOTFOUND, "in folder '/dev/shm'", tr_table_attach(&t, &config, &place, 30));
    tr_table_remove(name);
    assert_false(exists(".spill") || exists(".cold.rows") || exists(".cold.index") || exists(".rows"));
    t = fill(&config, 30);                             /* another table of this name */
    tr_table_free(t);
    assert_int_equal(rename(kept, log), 0);
    EXPECT_FAIL(TR_EFORMAT, "are not those of the table in memory", tr_table_attach(&t, &config, &place, 30));
    tr_table_remove(name);
    assert_int_equal(access(log, F_OK), -1);
}

TEST(a_file_from_before_a_restart_of_the_machine_is_begun_anew)
{
    const tr_table_config config = config_of(TR_FP32);
    tr_table             *plain = make_table(&config, true), *t = fill(&config, 30);
    char                  log[512], kept[512];

    snprintf(log, sizeof log, "%s", path_of_log());
    snprintf(kept, sizeof kept, "%s.kept", log);
    tr_table_free(t);
    assert_int_equal(link(log, kept), 0);
    tr_table_remove(name);                             /* the restart takes all that lies in memory */
    assert_int_equal(rename(kept, log), 0);
    t = make_table(&config, false);
    for (uint64_t step = 1; step <= 30; step++) {
        update_step(plain, step);
        update_step(t, step);
    }
    expect_same_rows(plain, t);
    tr_table_free(t);
    tr_table_free(plain);
    tr_table_remove(name);
}

/* Change some bytes of a file, or set a word to something that might be a place or a count. */
static void damage(const char *path, uint64_t seed)
{
    const int   file = open(path, O_RDWR);
    struct stat info;

    assert_true(file >= 0 && fstat(file, &info) == 0);
    for (uint64_t i = 0; i < 1 + seed % 20; i++) {
        uint64_t       word = tr_random_below(seed, 3 * i, 3) ? tr_random_bits(seed, 3 * i + 1) : (uint64_t)1 << (seed + i) % 64;
        const uint64_t words = (uint64_t)info.st_size / 8;
        const uint64_t at = tr_random_below(seed, 3 * i + 2, i % 4 ? words : words < 1024 ? words : 1024) * 8;
        assert_int_equal(pwrite(file, &word, sizeof word, (off_t)at), sizeof word);
    }
    close(file);
}

/* Every row of the damaged table is a row of the other one, or it is not given. */
static void expect_no_other_rows(const tr_table *plain, const tr_table *t)
{
    const uint64_t stride = tr_slots_stride(tr_table_slots(t));

    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        uint64_t bytes = 0, all = 0;
        char    *right = pack_touched(plain, shard, &all);
        void    *rows = NULL;
        if (tr_table_pack(t, shard, &rows, &bytes) == TR_OK)
            for (uint64_t at = 0; at < bytes; at += stride) {
                const char *found = bsearch((char *)rows + at, right, all / stride, stride, by_key);
                if (found)                             /* a damaged entry may show a row in another shard */
                    assert_memory_equal((char *)rows + at, found, stride);
            }
        free(rows);
        free(right);
    }
}

static void use(tr_table *t, uint64_t seed)
{
    int64_t  keys[TOUCHED];
    float    values[TOUCHED * WIDTH];
    uint32_t slots[TOUCHED];

    for (uint64_t i = 0; i < 30; i++) {
        keys_of_step(keys, seed * 100 + i);
        if (tr_table_pull(t, values, keys, TOUCHED) != TR_OK || tr_table_begin(t, 100 + i) != TR_OK ||
            tr_table_take(t, slots, keys, TOUCHED) != TR_OK)
            continue;
        EXPECT_OK(tr_table_keep(t, slots, TOUCHED));
    }
}

TEST(a_damaged_index_or_log_is_refused_or_gives_no_wrong_row)
{
    static const char *const parts[] = {".cold.rows", ".cold.index", NULL};
    const tr_table_config    config = config_of(TR_FP32);
    const tr_table_segment   place = place_of(&config);
    tr_table                *plain = make_table(&config, true), *t = NULL;
    int                      refused = 0;

    for (uint64_t step = 1; step <= 40; step++)
        update_step(plain, step);
    for (uint64_t seed = 0; seed < 120; seed++) {
        char path[256];
        if (seed % 4 == 0) {
            tr_table_remove(name);
            t = fill(&config, 40);
            tr_table_make_final(t);
            tr_table_free(t);
        }
        const char *part = parts[seed % 3];
        snprintf(path, sizeof path, "/dev/shm/%s%s", name, part ? part : "");
        damage(part ? path : path_of_log(), seed);
        if (tr_table_attach(&t, &config, &place, 40) != TR_OK) {
            refused++;
            continue;
        }
        expect_no_other_rows(plain, t);
        if (seed % 4 == 3)
            use(t, seed);
        tr_table_free(t);
    }
    print_message("%d of 120 were refused\n", refused);
    tr_table_free(plain);
    tr_table_remove(name);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_moment_leaves_whole_steps_with_rows_on_disk),
        cmocka_unit_test(the_last_update_can_be_undone_whatever_became_cold_since),
        cmocka_unit_test(a_file_that_is_gone_or_another_is_refused),
        cmocka_unit_test(a_file_from_before_a_restart_of_the_machine_is_begun_anew),
        cmocka_unit_test(a_damaged_index_or_log_is_refused_or_gives_no_wrong_row),
    };

    snprintf(name, sizeof name, "trireme-test-%d-spill", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
