/* test_table_kills.c - a table whose process is killed amid an update: the next one finds whole steps. */
#include "tests/support/table_check.h"
#include "tests/support/table_rig.h"

#include "framework/tensors/random.h"
#include "storage/table/undo.h"

#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DOMAIN = 6000, TOUCHED = 700, ROUNDS = 200 };

/* What parent and child share beside the table. */
typedef struct journal {
    uint64_t updated, evicted;        /* steps that are done */
} journal;

/* The table as it must be: the key's amount since its row was made, its touches and last step. */
typedef struct model {
    bool     lives;
    float    sum;
    uint32_t touches, last;
} model;

static void keys_of_step(int64_t *keys, uint64_t step)
{
    /* A window that wanders, so that rows grow old. */
    for (uint64_t i = 0; i < TOUCHED; i++)
        keys[i] = key_of((step * 97 + i * 2) % DOMAIN);
}

static tr_table_config kill_config(void)
{
    tr_table_config config = config_of(TR_FP32);
    config.init = TR_TABLE_CONSTANT;
    config.a = 0;
    config.max_age = 25;
    return config;
}

static void train_until_killed(const tr_table_segment *place, journal *j)
{
    const tr_table_config config = kill_config();
    tr_table             *t = NULL;
    int64_t               keys[TOUCHED];

    if (tr_table_attach(&t, &config, place, j->updated) != TR_OK) {
        fprintf(stderr, "%s\n", tr_error());
        _exit(3);
    }
    for (;;) {
        if (j->evicted < j->updated) {
            if (tr_table_evict(t, j->updated * 37, NULL) != TR_OK)
                _exit(4);
            j->evicted = j->updated;
        }
        const uint64_t step = j->updated + 1;
        keys_of_step(keys, step);
        update(t, step, keys, TOUCHED, (float)(step % 16));
        j->updated = step;
    }
}

/* Bounded, as all waits. */
static void await_update(journal *j, uint64_t known)
{
    const struct timespec look = {0, 100000};

    for (int i = 0; i < 100000 && __atomic_load_n(&j->updated, __ATOMIC_RELAXED) == known; i++)
        nanosleep(&look, NULL);
}

/* Evictions are of step 37 * s: they come through the shards sooner, and rows are old sooner. */
static void advance(model *all, uint64_t from, uint64_t to)
{
    for (uint64_t step = from + 1; step <= to; step++) {
        for (uint64_t i = 0; i < TOUCHED; i++) {
            model *m = &all[(step * 97 + i * 2) % DOMAIN];
            *m = (model){true, (m->lives ? m->sum : 0) + (float)(step % 16), m->lives ? m->touches + 1 : 1, (uint32_t)step};
        }
        for (uint64_t i = 0; i < DOMAIN; i++)
            if (all[i].lives && tr_slots_shard(key_of(i)) == step * 37 % TR_SHARDS &&
                (uint32_t)(step * 37) - all[i].last > 25)
                all[i].lives = false;
    }
}

static uint64_t compared;

static tr_status compare_row(void *payload, const tr_table_row *row)
{
    const model *all = payload;
    uint64_t     i = 0;

    if (!row->touches)
        return TR_OK;                              /* made by an update that was cut off: still at its first value */
    compared++;
    while (i < DOMAIN && (key_of(i) != row->key || !all[i].lives))
        i++;
    if (i == DOMAIN)
        return tr_fail(TR_EINTERNAL, "key %lld lives, but must not", (long long)row->key);
    const float *values = row->values;
    if (values[0] != all[i].sum || values[WIDTH - 1] != all[i].sum || row->touches != all[i].touches || row->last != all[i].last)
        return tr_fail(TR_EINTERNAL, "key %lld: %g, %u touches, last in %u; must be %g, %u, %u", (long long)row->key,
                       (double)values[0], row->touches, row->last, (double)all[i].sum, all[i].touches, all[i].last);
    return TR_OK;
}

TEST(a_kill_at_any_moment_leaves_whole_steps)
{
    const tr_table_config config = kill_config();
    char                  name[64];
    static model          all[DOMAIN];
    uint64_t              known = 0, live = 0;
    tr_table             *t = NULL;

    snprintf(name, sizeof name, "trireme-test-%d-table", (int)getpid());
    const tr_table_segment place = {name, 0, TR_SHARDS, 0};
    journal *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    EXPECT_OK(tr_table_create(&t, &config, &place));
    tr_table_free(t);
    for (int round = 0; round < ROUNDS; round++) {
        const pid_t child = fork();
        if (child == 0)
            train_until_killed(&place, j);
        if (round % 2 == 0)                            /* else it may not have come that far */
            await_update(j, known);
        const struct timespec pause = {0, (long)(500000 + tr_random_below(5, (uint64_t)round, 4000000))};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        EXPECT_OK(tr_table_attach(&t, &config, &place, j->updated));
        EXPECT_OK(tr_table_check(t));
        if (j->evicted < j->updated) {
            EXPECT_OK(tr_table_evict(t, j->updated * 37, NULL));
            j->evicted = j->updated;
        }
        advance(all, known, j->updated);
        known = j->updated;
        if (round % 10 == 0) {
            compared = 0;
            for (uint32_t shard = 0; shard < TR_SHARDS; shard++)
                EXPECT_OK(tr_table_each(t, shard, compare_row, all));
            live = 0;
            for (int i = 0; i < DOMAIN; i++)
                live += all[i].lives;
            assert_int_equal(compared, live);
        }
        EXPECT_OK(tr_table_check(t));
        tr_table_free(t);
    }
    assert_true(known >= ROUNDS / 2);
    tr_table_config other = config;
    other.random_key++;
    EXPECT_FAIL(TR_EFORMAT, "another type, width, optimizer or first value", tr_table_attach(&t, &other, &place, 0));
    other = config;
    other.width++;
    EXPECT_FAIL(TR_EFORMAT, "wanted are", tr_table_attach(&t, &other, &place, 0));
    tr_table_remove(name);
    munmap(j, sizeof *j);
}

TEST(a_log_of_rows_that_are_not_there_is_refused)
{
    enum { STRIDE = 32 };
    const uint32_t slots[2] = {0, 5};
    const char     rows[6 * STRIDE] = {0};
    char           name[64];
    tr_undo       *undo = NULL;

    snprintf(name, sizeof name, "trireme-test-%d-undo", (int)getpid());
    EXPECT_OK(tr_undo_create(&undo, name, STRIDE));
    EXPECT_OK(tr_undo_begin(undo, 1));
    EXPECT_OK(tr_undo_log(undo, rows, slots, 2));
    tr_undo_free(undo);
    EXPECT_FAIL(TR_EFORMAT, "has row 5 of 5", tr_undo_attach(&undo, name, STRIDE, 5));
    EXPECT_OK(tr_undo_attach(&undo, name, STRIDE, 6));
    tr_undo_free(undo);
    EXPECT_OK(tr_segment_remove(name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_log_of_rows_that_are_not_there_is_refused),
        cmocka_unit_test(a_kill_at_any_moment_leaves_whole_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
