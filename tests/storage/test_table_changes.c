/* test_table_changes.c - checkpoints of the rows that have changed: with what they build on they are the whole table, or are refused. */
#include "tests/support/expect.h"
#include "tests/support/kept_table.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "framework/tensors/random.h"
#include "storage/checkpoint/folder.h"

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

/* Save the table as the checkpoint of `step`, with its changes since the one before; *base is then this one. */
static void save_changes(const char *folder, tr_table *t, int64_t step, tr_checkpoint_base *base, int keep)
{
    const tr_checkpoint_facts facts = {.step = step, .mode = "local", .base = *base};
    const tr_job_table        words = kept_about(t, "words", step);
    const tr_checkpoint_item  state = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};

    *base = (tr_checkpoint_base){.step = step};
    EXPECT_OK(tr_checkpoint_save(&base->number, folder, &facts, 1, &state, keep));
}

static void expect_in(const char *folder, int64_t step, const tr_table *t)
{
    tr_checkpoint *c = kept_open_in(folder, step);
    tr_scope      *scope = tr_scope_new(NULL);
    void          *rows;
    int64_t        bytes;

    EXPECT_OK(tr_checkpoint_load_table(scope, c, 0));
    kept_expect_same(t, kept_var(scope, "words")->table);
    EXPECT_OK(tr_checkpoint_read_table(&rows, &bytes, c, 0, 0, TR_SHARDS));
    assert_int_equal(bytes, tr_slots_count(tr_table_slots(t)) * tr_table_stride(tr_table_get_config(t)));
    tr_free(rows);
    tr_scope_free(scope);
    tr_checkpoint_free(c);
}

static int64_t bytes_in(const char *folder, int64_t step)
{
    tr_checkpoint *c = kept_open_in(folder, step);
    const int64_t  bytes = tr_checkpoint_bytes(c);

    tr_checkpoint_free(c);
    return bytes;
}

TEST(changes_and_what_they_build_on_are_the_whole_table)
{
    const char           *folder = test_path("changes");
    tr_table_config       config = kept_config_of(2);
    tr_checkpoint_base    base = {0};
    uint64_t              removed = 0, all = 0;

    config.max_age = 40;
    tr_table *t = kept_make(&config, 0, TR_SHARDS);
    for (int i = 0; i < KEPT_KEYS; i++)
        kept_key[i] = (int64_t)tr_hash_u64((uint64_t)i);
    kept_touch(t, 1, 0, KEPT_KEYS);
    kept_touch(t, 2, 0, KEPT_KEYS);
    save_changes(folder, t, 2, &base, 0);
    for (uint64_t step = 3; step <= 80; step++) {
        kept_touch(t, step, (int64_t)(step * 37 % 4000), 60);          /* rows come back after they were removed, and are counted anew */
        EXPECT_OK(tr_table_evict(t, step, &removed));
        all += removed;
        if (step % 4 == 0)
            save_changes(folder, t, (int64_t)step, &base, 0);
        if (step % 16 == 0)
            expect_in(folder, (int64_t)step, t);
    }
    assert_true(all > 20);
    expect_in(folder, 80, t);
    assert_true(bytes_in(folder, 80) * 10 < bytes_in(folder, 2));
    const uint16_t        halves[KEPT_WIDTH] = {0x3f80, 0, 0};
    EXPECT_OK(tr_table_set_values(t, kept_key[7], halves));           /* no update says so: the next one is full */
    save_changes(folder, t, 81, &base, 0);
    tr_checkpoint *c = kept_open_in(folder, 81);
    assert_int_equal(tr_checkpoint_base_step(c), -1);
    tr_checkpoint_free(c);
    expect_in(folder, 81, t);
    tr_table_free(t);
}

TEST(a_table_without_rows_in_the_base_may_have_rows_that_came_and_went)
{
    const char        *folder = test_path("empty_base");
    tr_table_config    config = kept_config_of(0);
    tr_checkpoint_base base = {0};

    config.max_age = 1;
    tr_table *t = kept_make(&config, 0, TR_SHARDS);
    save_changes(folder, t, 1, &base, 0);
    kept_touch(t, 2, 0, KEPT_KEYS);
    for (uint64_t step = 3; step < 3 + TR_SHARDS / 2; step++) {
        EXPECT_OK(tr_table_begin(t, step));
        EXPECT_OK(tr_table_evict(t, step, NULL));
    }
    assert_in_range(tr_slots_count(tr_table_slots(t)), 1, KEPT_KEYS - 1);
    save_changes(folder, t, 2 + TR_SHARDS / 2, &base, 0);
    expect_in(folder, 2 + TR_SHARDS / 2, t);
    tr_table_free(t);
}

TEST(checkpoints_stay_that_others_build_on)
{
    const char        *folder = test_path("bases");
    tr_checkpoint_base base = {0}, none = {0};
    tr_table          *t = kept_filled(2);
    int64_t            steps[16];

    for (int64_t step = 4; step <= 9; step++) {
        kept_touch(t, (uint64_t)step, step * 100, 50);
        save_changes(folder, t, step, &base, 1);
    }
    assert_int_equal(tr_checkpoint_list(steps, 16, folder), 6);
    kept_touch(t, 10, 0, 50);
    base = none;
    save_changes(folder, t, 10, &base, 1);             /* a full one: nothing before it is needed */
    assert_int_equal(tr_checkpoint_list(steps, 16, folder), 1);
    expect_in(folder, 10, t);
    tr_table_free(t);
}

static int files_in(const char *path)
{
    DIR *dir = opendir(path);
    int  count = 0;

    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

TEST(another_checkpoint_of_a_step_leaves_the_files_that_others_build_on)
{
    const char        *folder = test_path("replaced");
    tr_checkpoint_base base = {0}, again = {0};
    tr_table          *t = kept_filled(2), *then;
    char              *path = tr_checkpoint_path(folder, 4);

    save_changes(folder, t, 4, &base, 0);
    save_changes(folder, t, 4, &base, 0);              /* builds on what it takes the place of */
    expect_in(folder, 4, t);
    assert_int_equal(files_in(path), 3);
    kept_touch(t, 5, 0, 50);
    save_changes(folder, t, 5, &base, 0);
    then = kept_filled(2);
    save_changes(folder, then, 4, &again, 0);          /* as a training does that goes on from step 3 */
    expect_in(folder, 5, t);
    expect_in(folder, 4, then);
    again = (tr_checkpoint_base){0};
    save_changes(folder, t, 5, &again, 0);
    save_changes(folder, then, 4, &again, 0);
    expect_in(folder, 5, t);
    assert_int_equal(files_in(path), 2);               /* nobody needs the others any more */
    free(path);
    tr_table_free(t);
    tr_table_free(then);
}

TEST(a_base_that_is_missing_damaged_or_another_one_is_refused)
{
    const char        *folder = test_path("no_base");
    tr_checkpoint_base base = {0}, first;
    tr_table          *t = kept_filled(2);
    char              *path = tr_checkpoint_path(folder, 5), *below = tr_checkpoint_path(folder, 4);
    tr_checkpoint     *c = NULL;

    save_changes(folder, t, 4, &base, 0);
    first = base;
    kept_touch(t, 5, 0, 50);
    save_changes(folder, t, 5, &base, 0);
    c = kept_open_in(folder, 4);
    flip(below, tr__checkpoint_manifest(c)->parts[0]->file, 4000);
    tr_checkpoint_free(c);
    EXPECT_OK(tr_checkpoint_open(&c, path));
    EXPECT_FAIL(TR_EFORMAT, "step-000000004/part-00000-of-00001", tr_checkpoint_verify(c));
    tr_checkpoint_free(c);

    assert_true(tr_checkpoint_has(folder, &first));
    tr__checkpoint_remove(below);
    EXPECT_FAIL(TR_EFORMAT, "has the changes since the checkpoint of step 4", tr_checkpoint_open(&c, path));
    assert_false(tr_checkpoint_has(folder, &first));
    tr_checkpoint_base again = {0};
    save_changes(folder, t, 4, &again, 0);
    assert_false(tr_checkpoint_has(folder, &first));
    const tr_checkpoint_facts facts = {.step = 6, .mode = "local", .base = first};
    const tr_job_table        words = kept_about(t, "words", 6);
    const tr_checkpoint_item  item = {.name = "words", .kind = TR_STATE_TABLE, .data = &words};
    EXPECT_FAIL(TR_EFORMAT, "is another checkpoint than the one whose changes are to be written",
                tr_checkpoint_save(NULL, folder, &facts, 1, &item, 0));
    free(path);
    free(below);
    tr_table_free(t);
}

/* Write the manifest of a checkpoint anew, and expect that it is refused. */
static void expect_refused(const char *path, const tr_manifest *m, const char *why)
{
    tr_checkpoint *c = NULL;

    EXPECT_OK(tr__manifest_put(NULL, path, m));
    EXPECT_FAIL(TR_EFORMAT, why, tr_checkpoint_open(&c, path));
}

TEST(manifests_that_cannot_be_of_changes_are_refused)
{
    const char        *folder = test_path("crafted");
    tr_checkpoint_base base = {0};
    tr_table          *t = kept_filled(2);
    char              *path = tr_checkpoint_path(folder, 5);
    tr_manifest       *m;

    save_changes(folder, t, 4, &base, 0);
    kept_touch(t, 5, 0, 50);
    save_changes(folder, t, 5, &base, 0);
    EXPECT_OK(tr_manifest_read(&m, path));
    assert_int_equal(m->n_parts, 2);
    Trireme__Checkpoint__Table *about = m->parts[1]->tables[0];
    m->has_base_step = false;
    expect_refused(path, m, "but the checkpoint builds on none");
    m->has_base_step = true;
    m->parts[0]->of_step = (uint64_t)1 << 63;
    expect_refused(path, m, "does not stand before the checkpoint's own parts");
    m->parts[0]->of_step = 4;
    about->rows++;
    EXPECT_OK(tr__manifest_put(NULL, path, m));
    tr_checkpoint *c = kept_open_in(folder, 5);
    void          *rows;
    int64_t        bytes;
    EXPECT_FAIL(TR_EFORMAT, "rows are expected", tr_checkpoint_read_table(&rows, &bytes, c, 0, 0, TR_SHARDS));
    tr_checkpoint_free(c);
    about->rows = (uint64_t)1 << 60;
    expect_refused(path, m, "rows with changes");
    about->rows = 1;
    about->changes = false;
    expect_refused(path, m, "rows without changes");
    about->has_rows = false;
    m->parts[1]->tensors[0]->has_removed = m->parts[1]->tensors[0]->removed = true;
    expect_refused(path, m, "has lost keys, but all of its rows are there");
    tr_manifest_free(m);
    free(path);
    tr_table_free(t);
}

/* -- writers that die ---------------------------------------------------------------------------------- */

static tr_table_config config_of_writer(void)
{
    tr_table_config config = kept_config_of(2);

    config.max_age = 12;
    return config;
}

/* What step `step` does to the table. */
static void make_step(tr_table *t, uint64_t step)
{
    uint64_t removed;

    kept_touch(t, step, (int64_t)(step * 131 % 4000), 150);
    EXPECT_OK(tr_table_evict(t, step, &removed));
}

/* Go on from the newest checkpoint, and write one after each step: of three in a row one is full, and two stay. */
static void write_for_ever(const char *folder)
{
    const tr_table_config config = config_of_writer();
    tr_scope             *scope = tr_scope_new(NULL);
    tr_checkpoint        *c = NULL;
    tr_checkpoint_base    base = {0}, none = {0};
    char                 *refused;
    uint64_t              step = 0;
    tr_table             *t;

    if (tr_checkpoint_open_newest(&c, &refused, folder) == TR_OK) {
        step = (uint64_t)tr_checkpoint_step(c);
        EXPECT_OK(tr_checkpoint_load_table(scope, c, 0));
        t = kept_var(scope, "words")->table;
    } else {
        t = kept_make(&config, 0, TR_SHARDS);
    }
    for (;;) {
        make_step(t, ++step);
        save_changes(folder, t, (int64_t)step, &base, 2);
        base = step % 3 == 0 ? none : base;
    }
}

TEST(a_killed_writer_of_changes_leaves_only_whole_tables)
{
    enum { ROUNDS = 25 };
    const char           *folder = test_path("killed");
    const tr_table_config config = config_of_writer();
    tr_table             *want = kept_make(&config, 0, TR_SHARDS);
    uint64_t              last = 0, limit = 40000;     /* microseconds: doubled while nothing gets done */
    char                 *said = NULL;

    for (int i = 0; i < KEPT_KEYS; i++)
        kept_key[i] = (int64_t)tr_hash_u64((uint64_t)i);
    EXPECT_OK(tr_checkpoint_claim(&said, folder, TR_ENTRY_BEGIN, NULL));
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t before = last;
        const pid_t    child = fork();
        int            how;
        if (child == 0)
            write_for_ever(folder);
        usleep((useconds_t)tr_random_below(13, (uint64_t)round, limit));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        tr_checkpoint *c = NULL;
        char          *refused = NULL;
        if (tr_checkpoint_open_newest(&c, &refused, folder) == TR_OK) {
            assert_null(refused);
            assert_true((uint64_t)tr_checkpoint_step(c) >= last);      /* what was there stays */
            while (last < (uint64_t)tr_checkpoint_step(c))
                make_step(want, ++last);
            expect_in(folder, (int64_t)last, want);
        }
        limit *= last == before && limit < 4000000 ? 2 : 1;
        tr_checkpoint_free(c);
        tr_free(refused);
    }
    assert_true(last > 10);
    tr_free(said);
    tr_table_free(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(changes_and_what_they_build_on_are_the_whole_table),
        cmocka_unit_test(a_table_without_rows_in_the_base_may_have_rows_that_came_and_went),
        cmocka_unit_test(checkpoints_stay_that_others_build_on),
        cmocka_unit_test(another_checkpoint_of_a_step_leaves_the_files_that_others_build_on),
        cmocka_unit_test(a_base_that_is_missing_damaged_or_another_one_is_refused),
        cmocka_unit_test(manifests_that_cannot_be_of_changes_are_refused),
        cmocka_unit_test(a_killed_writer_of_changes_leaves_only_whole_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
