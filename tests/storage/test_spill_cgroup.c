/* test_spill_cgroup.c - a process in a memory cgroup with a hard limit, which has a table that is many times as large. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WIDE = 32, AT_ONCE = 4096 };
#ifdef TR_SANITIZE                    /* memory that is freed is kept aside */
enum { BESIDE = 512 << 20 };
#else
enum { BESIDE = 64 << 20 };           /* the stated constant: the program, and memory for reads and writes */
#endif
static const uint64_t MEMORY = 48 << 20, KEYS = 1200000;

static char group[256], name[64];

static bool write_text(const char *file, const char *text)
{
    char  path[300];
    FILE *to;

    snprintf(path, sizeof path, "%s/%s", group, file);
    if (!(to = fopen(path, "w")))
        return false;
    const bool is_written = fputs(text, to) >= 0;
    return fclose(to) == 0 && is_written;
}

/* A group of the first version of the kernel's interface, or of the second. */
static bool make_group(void)
{
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    char                     limit[32];

    snprintf(limit, sizeof limit, "%llu", (unsigned long long)(MEMORY + BESIDE));
    for (int i = 0; i < 2; i++) {
        snprintf(group, sizeof group, "%s/%s", roots[i], name);
        if (mkdir(group, 0755) == 0 && write_text(i ? "memory.max" : "memory.limit_in_bytes", limit))
            return true;
        rmdir(group);
    }
    return false;
}

static void *read_snapshot(void *payload)
{
    tr_table *t = payload;

    for (uint32_t shard = 0; shard < TR_SHARDS; shard++) {
        void    *rows = NULL;
        uint64_t bytes;
        if (tr_table_snapshot_read(t, shard, &rows, &bytes) != TR_OK)
            return tr_table_snapshot_read;
        free(rows);
    }
    return NULL;
}

static void update_some(tr_table *t, uint64_t step, uint64_t first)
{
    static int64_t  keys[AT_ONCE];
    static uint32_t slots[AT_ONCE];
    static float    values[AT_ONCE * WIDE], states[2][AT_ONCE * WIDE];
    float *const    all[2] = {states[0], states[1]};

    for (uint64_t i = 0; i < AT_ONCE; i++)
        keys[i] = (int64_t)(first + i);
    EXPECT_OK(tr_table_expect(t, keys, AT_ONCE));
    EXPECT_OK(tr_table_begin(t, step));
    EXPECT_OK(tr_table_take(t, slots, keys, AT_ONCE));
    tr_table_gather(t, slots, AT_ONCE, values, all);
    EXPECT_OK(tr_table_keep(t, slots, AT_ONCE));
    tr_table_scatter(t, slots, AT_ONCE, values, (const float *const *)all);
    EXPECT_OK(tr_table_evict(t, step, NULL));
}

/* Rows are made, some come again, a checkpoint is read meanwhile, and the oldest ones go. */
static void train(tr_table *t)
{
    uint64_t  step = 0;
    pthread_t reader;
    void     *failed = NULL;

    for (uint64_t first = 0; first < KEYS; first += AT_ONCE)
        update_some(t, ++step, first);
    EXPECT_OK(tr_table_snapshot(t, 1, 0));
    assert_int_equal(pthread_create(&reader, NULL, read_snapshot, t), 0);
    for (int i = 0; i < 60; i++, step++)
        update_some(t, step + 1, tr_random_below(3, step, KEYS - AT_ONCE));
    pthread_join(reader, &failed);
    assert_null(failed);
    tr_table_snapshot_end(t);
    for (int i = 0; i < 150; i++, step++)
        update_some(t, step + 1, tr_random_below(3, step, KEYS / 64));
}

static void live_in_group(void)
{
    tr_table_config        config = config_of(TR_FP32);
    const tr_table_segment place = {.name = name, .shard_count = TR_SHARDS, .spill = "build", .memory = MEMORY};
    tr_table              *t = NULL;
    tr_table_report        report;

    config.width = WIDE;
    config.max_age = 300;
    EXPECT_OK(tr_table_create(&t, &config, &place));
    train(t);
    tr_table_get_report(t, &report);
    printf("%llu rows of %llu bytes are left, %llu MB in memory\n", (unsigned long long)report.rows, (unsigned long long)report.row_bytes,
           (unsigned long long)(report.bytes >> 20));
    assert_true(report.rows > KEYS / 2 && report.rows < KEYS);
    EXPECT_OK(tr_table_check(t));
    tr_table_free(t);
}

TEST(a_table_of_many_times_its_memory_lives_in_a_cgroup_with_a_hard_limit)
{
    int how;

    if (!make_group()) {
        print_message("no cgroup can be made here\n");
        skip();
    }
    const pid_t child = fork();
    if (child == 0) {
        if (!write_text("cgroup.procs", "0"))
            _exit(3);
        live_in_group();
        fflush(stdout);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    tr_table_remove(name);
    for (int i = 0; i < 100 && rmdir(group) != 0; i++)
        usleep(10000);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);      /* the kernel kills what takes more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_of_many_times_its_memory_lives_in_a_cgroup_with_a_hard_limit),
    };

    snprintf(name, sizeof name, "trireme-test-%d-group", (int)getpid());
    return cmocka_run_group_tests(tests, NULL, NULL);
}
