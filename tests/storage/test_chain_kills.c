/* test_chain_kills.c - a chain of checkpoints of changes is written, pruned and compacted, and each call that writes is the last one: it
 * kills the process, or finds the disk full. Whatever the call, the newest checkpoint is whole, and the next one, too. */
#include "tests/support/expect.h"
#include "tests/support/kept_table.h"
#include "tests/support/writing_calls.h"

#include <dirent.h>
#include <ftw.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/wait.h>

#include "framework/tensors/random.h"
#include "storage/checkpoint/folder.h"

enum { STEPS = 6, COMPACTED = 5, KEYS = 400 };

/* What a writer has done, also after its death. */
typedef struct journal {
    int64_t saved;                        /* the step of the last checkpoint that is there */
    int     calls;                        /* calls that write, until the writer ended; or checkpoints that fitted */
    int     failures;                     /* checkpoints that were reported as not written */
} journal;

static journal *shared_journal(void)
{
    journal *j = mmap(NULL, sizeof *j, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(j != MAP_FAILED);
    return j;
}

/* -- the training -------------------------------------------------------------------------------------- */

/* Some keys wait for a row, and rows are removed. */
static tr_table *make_table(void)
{
    tr_table_config config = kept_config_of(2);

    config.max_age = 2;
    for (int i = 0; i < KEYS; i++)
        kept_key[i] = (int64_t)tr_hash_u64((uint64_t)i);
    return kept_make(&config, 0, TR_SHARDS);
}

static void make_step(tr_table *t, int64_t step)
{
    kept_touch(t, (uint64_t)step, 0, step % 2 ? 60 : 40);
    kept_touch(t, (uint64_t)step, step * 37 % (KEYS - 50), 50);
    for (uint64_t shard = 0; shard < TR_SHARDS; shard++)
        EXPECT_OK(tr_table_evict(t, shard, NULL));
}

static tr_table *table_at(int64_t step)
{
    tr_table *t = make_table();

    for (int64_t i = 1; i <= step; i++)
        make_step(t, i);
    return t;
}

static tr_status save(const char *folder, const tr_table *t, int64_t step, tr_checkpoint_base *base, int keep)
{
    const tr_checkpoint_facts facts = {.step = step, .mode = "local", .base = *base};
    const tr_job_table        words = kept_about(t, "words", step);
    const int64_t             dims[] = {2};
    const float               values[] = {(float)step, 0.5f};
    const tr_checkpoint_item  states[] = {{.name = "w", .dtype = TR_FP32, .rank = 1, .dims = dims, .data = values},
                                          {.name = "words", .kind = TR_STATE_TABLE, .data = &words}};
    uint64_t                  number = 0;

    TR_TRY(tr_checkpoint_save(&number, folder, &facts, 2, states, keep));
    *base = (tr_checkpoint_base){step, number};
    return TR_OK;
}

/* As `trireme checkpoint compact` does. */
static tr_status compact(const char *folder, int64_t step)
{
    char           *path = tr_checkpoint_path(folder, step), *said = NULL;
    tr_checkpoint  *c = NULL;
    tr_status       status = tr_checkpoint_claim(&said, folder, TR_ENTRY_RESUME, NULL);

    if (status == TR_OK)
        status = tr_checkpoint_open(&c, path);
    if (status == TR_OK)
        status = tr_checkpoint_compact(c, folder);
    tr_checkpoint_free(c);
    tr_free(said);
    free(path);
    return status;
}

static bool is_full(int64_t step) { return step == 1 || step == 4 || step > COMPACTED; }

/* == kills ======================================================================================= */

/* Full, two of changes, full, one of changes that is compacted, which also removes what is below. */
static void write_chain(const char *folder, journal *j)
{
    const tr_checkpoint_base none = {0};
    tr_checkpoint_base       base = none;
    tr_table                *t = make_table();

    for (int64_t step = 1; step <= STEPS; step++) {
        make_step(t, step);
        base = is_full(step) ? none : base;
        EXPECT_OK(save(folder, t, step, &base, step == 4 ? 1 : 2));
        j->saved = step;
        if (step == COMPACTED)
            EXPECT_OK(compact(folder, step));
    }
}

/* Arm the calls, and write. */
static void write_armed(const char *folder, journal *j, enum writing_end end, int at, void (*write_all)(const char *, journal *))
{
    writing_calls.end = end;
    writing_calls.at = at;
    writing_calls.is_armed = true;
    write_all(folder, j);
    j->calls = writing_calls.count;
    _exit(0);
}

static int count_names(const char *path)
{
    DIR *dir = opendir(path);
    int  count = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(dir);
    return count;
}

/* Nothing lies in a folder of a checkpoint but its manifest and the parts that this names. */
static void expect_no_rest(const char *folder)
{
    tr_folder all;

    EXPECT_OK(tr_folder_scan(&all, folder));
    assert_int_equal(count_names(folder), all.count);
    for (int i = 0; i < all.count; i++) {
        const tr_manifest *m = all.item[i].manifest;
        char              *path = tr_checkpoint_path(folder, all.item[i].step);
        int                parts = 0;
        assert_non_null(m);
        for (size_t p = 0; p < m->n_parts; p++)
            parts += !m->parts[p]->has_of_step;
        assert_int_equal(count_names(path), parts + 1);
        free(path);
    }
    tr_folder_free(&all);
}

/* The newest checkpoint is valid, and has the state after its step. */
static tr_checkpoint *expect_newest(const char *folder, tr_scope *scope)
{
    tr_checkpoint *c = NULL;
    char          *refused = NULL;
    float          values[2];

    EXPECT_OK(tr_checkpoint_open_newest(&c, &refused, folder));
    assert_null(refused);
    EXPECT_OK(tr_checkpoint_load_table(scope, c, 0));
    EXPECT_OK(tr_checkpoint_read(c, tr_checkpoint_find(c, "w"), 0, 2, values, sizeof values));
    assert_true(values[0] == (float)tr_checkpoint_step(c));
    tr_table *want = table_at(tr_checkpoint_step(c));
    kept_expect_same(want, kept_var(scope, "words")->table);
    tr_table_free(want);
    return c;
}

/* A process goes on where another one was killed, and writes a full checkpoint and one of changes. */
static void go_on(const char *folder, journal *j)
{
    tr_scope          *scope = tr_scope_new(NULL);
    tr_checkpoint_base base = {0};
    tr_table          *t = make_table();
    char              *said = NULL;
    int64_t            step = 0;

    EXPECT_OK(tr_checkpoint_claim(&said, folder, TR_ENTRY_RESUME, NULL));
    if (j->saved || tr_checkpoint_list(&step, 1, folder)) {
        tr_checkpoint *c = expect_newest(folder, scope);
        step = tr_checkpoint_step(c);
        assert_true(step >= j->saved);
        tr_checkpoint_free(c);
        tr_table_free(t);
        t = kept_var(scope, "words")->table;
    }
    for (int i = 0; i < 2; i++) {
        make_step(t, ++step);
        EXPECT_OK(save(folder, t, step, &base, 1));
        tr_checkpoint_free(expect_newest(folder, tr_scope_new(NULL)));
    }
    expect_no_rest(folder);
    _exit(0);
}

/* A child whose failed assertion ends it. */
static pid_t begin_child(void)
{
    const pid_t child = fork();

    if (child == 0)
        setenv("CMOCKA_TEST_ABORT", "1", 1);
    return child;
}

static int ended(pid_t child)
{
    int how;

    assert_int_equal(waitpid(child, &how, 0), child);
    return how;
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *at)
{
    (void)info;
    (void)kind;
    (void)at;
    return remove(path);
}

static void remove_all(const char *folder)
{
    assert_int_equal(nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

TEST(a_kill_at_any_call_that_writes_leaves_the_newest_checkpoint_whole)
{
    const char *folder = test_path("killed");
    journal    *j = shared_journal();

    for (int at = 1; !j->calls; at++) {
        *j = (journal){0};
        pid_t child = begin_child();
        if (child == 0)
            write_armed(folder, j, WRITING_KILLED, at, write_chain);
        const int how = ended(child);
        if (!j->calls)
            assert_true(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
        child = begin_child();
        if (child == 0)
            go_on(folder, j);
        if (ended(child) != 0)
            fail_msg("killed at call %d that writes, after the checkpoint of step %lld", at, (long long)j->saved);
        remove_all(folder);
    }
    assert_true(j->calls > 100 && j->saved == STEPS);
    munmap(j, sizeof *j);
}

/* == full disks ================================================================================== */

/* A failure names where it was. */
static void expect_named(const char *folder, journal *j)
{
    if (!strstr(tr_error(), folder))
        fail_msg("the folder '%s' is not named: %s", folder, tr_error());
    j->failures++;
}

/* The folder is as it was: the newest checkpoint has this step. From here on no call counts. */
static void expect_last(const char *folder, int64_t step)
{
    writing_calls.is_armed = false;
    if (step) {
        tr_checkpoint *c = expect_newest(folder, tr_scope_new(NULL));
        assert_int_equal(tr_checkpoint_step(c), step);
        tr_checkpoint_free(c);
    } else {
        assert_int_equal(tr_checkpoint_list(&step, 1, folder), 0);
    }
}

/* A training like write_chain's that goes on when a checkpoint cannot be written. The changes are then in the next one. Space is free again
 * after a failure. */
static void write_on_full_disk(const char *folder, journal *j)
{
    const tr_checkpoint_base none = {0};
    tr_checkpoint_base       base = none;
    tr_table                *t = make_table();

    for (int64_t step = 1; j->saved < STEPS; step++) {
        make_step(t, step);
        tr_checkpoint_base next = is_full(step) ? none : base;
        if (save(folder, t, step, &next, step == 4 ? 1 : 2) == TR_OK) {
            base = next;
            j->saved = step;
        } else {
            expect_named(folder, j);
        }
        if (step == COMPACTED && j->saved == step) {
            if (compact(folder, step) != TR_OK)
                expect_named(folder, j);
            base = none;
        }
        if (writing_calls.has_failed)
            expect_last(folder, j->saved);
    }
    expect_last(folder, j->saved);
    if (!writing_calls.has_left)
        expect_no_rest(folder);
}

static void fill_at_each_call(const char *folder, enum writing_end end)
{
    journal *j = shared_journal();
    int      at = 1, failures = 0;

    for (bool is_last = false; !is_last; at++) {
        *j = (journal){0};
        const pid_t child = begin_child();
        if (child == 0)
            write_armed(folder, j, end, at, write_on_full_disk);
        if (ended(child) != 0)
            fail_msg("full at call %d that writes, after the checkpoint of step %lld", at, (long long)j->saved);
        remove_all(folder);
        failures += j->failures;
        is_last = j->calls < at;
    }
    assert_true(at > 100 && failures > at / 2);
    munmap(j, sizeof *j);
}

TEST(a_disk_that_is_full_at_one_call_costs_one_checkpoint) { fill_at_each_call(test_path("full_once"), WRITING_FULL_ONCE); }
TEST(a_disk_that_stays_full_from_one_call_on_costs_one_checkpoint) { fill_at_each_call(test_path("full"), WRITING_FULL); }

/* -- a file system of a megabyte -- */

static bool mount_small(const char *folder)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return false;
    return mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 && mkdir(folder, 0777) == 0 &&
           mount("none", folder, "tmpfs", 0, "size=1m") == 0;
}

/* Leave so many pages. */
static void fill_up(const char *path, int pages)
{
    char    page[4096] = {1};
    FILE   *file = fopen(path, "wb");

    assert_non_null(file);
    setvbuf(file, NULL, _IONBF, 0);
    while (fwrite(page, sizeof page, 1, file) == 1)
        ;
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(ftruncate(fileno(file), ftell(file) / 4096 * 4096 - pages * 4096), 0);
    fclose(file);
}

/* Write checkpoints with ever more space, until one fits. */
static void write_on_small_disk(const char *folder, journal *j)
{
    tr_checkpoint_base base = {0};
    tr_table          *t = make_table();
    char              *ballast = NULL;

    assert_true(asprintf(&ballast, "%s/ballast", folder) > 0);
    for (int64_t step = 1, pages = 0; j->calls < 3; pages++) {
        make_step(t, step);
        EXPECT_OK(save(folder, t, step, &base, 2));    /* there is space */
        j->saved = step;
        make_step(t, ++step);
        fill_up(ballast, (int)pages);
        if (save(folder, t, step, &base, 2) == TR_OK) {
            j->saved = step;
            j->calls++;
        } else {
            expect_named(folder, j);
        }
        expect_last(folder, j->saved);
        assert_int_equal(unlink(ballast), 0);
        base = ++step % 7 ? base : (tr_checkpoint_base){0};
    }
    assert_true(j->failures > 1);
    _exit(0);
}

TEST(a_small_file_system_that_is_full_costs_one_checkpoint)
{
    const char *folder = test_path("small");
    journal    *j = shared_journal();
    const pid_t child = begin_child();

    if (child == 0)
        mount_small(folder) ? write_on_small_disk(folder, j) : _exit(77);
    const int how = ended(child);
    munmap(j, sizeof *j);
    if (WIFEXITED(how) && WEXITSTATUS(how) == 77)
        skip();                                        /* nobody may mount here */
    assert_int_equal(how, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_any_call_that_writes_leaves_the_newest_checkpoint_whole),
        cmocka_unit_test(a_disk_that_is_full_at_one_call_costs_one_checkpoint),
        cmocka_unit_test(a_disk_that_stays_full_from_one_call_on_costs_one_checkpoint),
        cmocka_unit_test(a_small_file_system_that_is_full_costs_one_checkpoint),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
