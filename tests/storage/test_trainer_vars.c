/* test_trainer_vars.c - what a trainer has as the next process finds it: two copies, one of them always whole. */
#include "tests/support/expect.h"

#include "storage/memory/segment.h"
#include "storage/memory/trainer_vars.h"
#include "storage/util/crc32c.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COUNT = 3, MEANS = 5000, MANY = 3 };

typedef struct values {
    int64_t counter;
    float   mean[MEANS];
    char    flag[MANY];
} values;

static const char *name_here(void)
{
    static char name[64];
    char        prefix[48];

    snprintf(prefix, sizeof prefix, "trireme-test-%d", (int)getpid());
    assert_true(tr_trainer_vars_name(name, sizeof name, prefix, 2));
    return name;
}

static void point_at(tr_trainer_var vars[COUNT], values *v)
{
    vars[0] = (tr_trainer_var){"counter", &v->counter, sizeof v->counter};
    vars[1] = (tr_trainer_var){"mean", v->mean, sizeof v->mean};
    vars[2] = (tr_trainer_var){"flag", v->flag, sizeof v->flag};
}

static void set_to(values *v, uint64_t step)
{
    v->counter = (int64_t)step;
    for (int i = 0; i < MEANS; i++)
        v->mean[i] = (float)step;
    memset(v->flag, (int)(step % 100), MANY);
}

static void keep(tr_trainer_vars *kept, uint64_t step)
{
    static values  v;
    tr_trainer_var vars[COUNT];

    point_at(vars, &v);
    set_to(&v, step);
    assert_true(tr_trainer_vars_keep(kept, step, COUNT, vars));
}

static tr_trainer_vars *create_as(const char *name)
{
    static values    v;
    tr_trainer_vars *kept = NULL;
    tr_trainer_var   vars[COUNT];

    point_at(vars, &v);
    EXPECT_OK(tr_trainer_vars_create(&kept, name, COUNT, vars));
    return kept;
}

static tr_trainer_vars *create(void)
{
    return create_as(name_here());
}

/* Is there a copy of this step, with the values of that one? */
static bool has_values_of(const tr_trainer_vars *kept, uint64_t step, uint64_t of)
{
    static values  want;
    tr_trainer_var vars[COUNT], got;

    point_at(vars, &want);
    set_to(&want, of);
    for (int i = 0; i < COUNT; i++) {
        if (!tr_trainer_vars_find(&got, kept, step, i))
            return false;
        assert_string_equal(got.name, vars[i].name);
        assert_int_equal(got.bytes, vars[i].bytes);
        assert_memory_equal(got.data, vars[i].data, got.bytes);
    }
    return true;
}

static bool has(const tr_trainer_vars *kept, uint64_t step)
{
    return has_values_of(kept, step, step);
}

TEST(the_last_two_steps_are_there)
{
    tr_trainer_vars *kept = create();

    assert_false(has(kept, 1));
    for (uint64_t step = 1; step <= 5; step++) {
        keep(kept, step);
        assert_true(has(kept, step));
        assert_int_equal(has(kept, step - 1), step > 1);
        assert_false(has(kept, step + 1));
        assert_true(step < 2 || !has(kept, step - 2));
    }
    tr_trainer_vars_free(kept, true);
}

TEST(the_next_process_goes_on_from_either_of_them)
{
    for (uint64_t from = 7; from <= 8; from++) {
        tr_trainer_vars *kept = create();
        for (uint64_t step = 1; step <= 8; step++)
            keep(kept, step);
        tr_trainer_vars_free(kept, false);
        EXPECT_OK(tr_trainer_vars_attach(&kept, name_here()));
        assert_true(has(kept, 7) && has(kept, 8));
        keep(kept, from + 1);
        assert_true(has(kept, from) && has(kept, from + 1));
        tr_trainer_vars_free(kept, true);
    }
}

/* It keeps steps until it is killed, and says of which it is certain. */
static void keep_for_ever(const char *name, const int say[2])
{
    tr_trainer_vars *kept = create_as(name);

    for (uint64_t step = 1;; step++) {
        keep(kept, step);
        if (write(say[1], &step, sizeof step) != sizeof step)
            _exit(1);
    }
}

static uint64_t last_said(int from)
{
    uint64_t step = 0, said;

    while (read(from, &said, sizeof said) == sizeof said)
        step = said;
    return step;
}

TEST(a_kill_at_any_moment_leaves_a_whole_copy)
{
    const char *name = name_here();

    for (int run = 0; run < 20; run++) {
        tr_trainer_vars *kept = NULL;
        int              say[2];
        uint64_t         step;
        assert_int_equal(pipe(say), 0);
        const pid_t child = fork();
        if (child == 0) {
            close(say[0]);
            keep_for_ever(name, say);
        }
        close(say[1]);
        assert_int_equal(read(say[0], &step, sizeof step), sizeof step);
        usleep((useconds_t)(rand() % 3000));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        const uint64_t later = last_said(say[0]);
        step = later ? later : step;
        close(say[0]);
        EXPECT_OK(tr_trainer_vars_attach(&kept, name));
        assert_true(has(kept, step));              /* whatever was being written is in the place of the one before it */
        tr_trainer_vars_free(kept, true);
    }
}

TEST(other_variables_are_not_taken_for_these)
{
    static values    v;
    tr_trainer_var   vars[COUNT];
    tr_trainer_vars *kept = create();

    point_at(vars, &v);
    assert_true(tr_trainer_vars_are(kept, COUNT, vars));
    assert_false(tr_trainer_vars_are(kept, COUNT - 1, vars));
    vars[1].bytes--;
    assert_false(tr_trainer_vars_are(kept, COUNT, vars));
    assert_false(tr_trainer_vars_keep(kept, 1, COUNT, vars));
    point_at(vars, &v);
    vars[1].name = "variance";
    assert_false(tr_trainer_vars_are(kept, COUNT, vars));
    tr_trainer_vars_free(kept, true);
}

TEST(a_step_that_changes_nothing_has_the_values_of_the_one_before)
{
    tr_trainer_vars *kept = create();

    tr_trainer_vars_stay(NULL, 1, 2);
    tr_trainer_vars_stay(kept, 0, 1);
    assert_false(has_values_of(kept, 1, 0));
    keep(kept, 3);
    tr_trainer_vars_stay(kept, 3, 4);
    assert_true(has(kept, 3) && has_values_of(kept, 4, 3));
    tr_trainer_vars_stay(kept, 4, 10);                 /* others were so far ahead */
    assert_true(has_values_of(kept, 10, 3) && !has_values_of(kept, 4, 3));
    tr_trainer_vars_stay(kept, 5, 6);                  /* there is none of step 5 */
    assert_false(has_values_of(kept, 6, 3));
    tr_trainer_vars_free(kept, true);
}

static void damage(const char *name, off_t at)
{
    char      path[96] = "/", byte;
    const int file = shm_open(strncat(path, name, sizeof path - 2), O_RDWR, 0);

    assert_true(file >= 0);
    assert_int_equal(pread(file, &byte, 1, at), 1);
    byte ^= 16;
    assert_int_equal(pwrite(file, &byte, 1, at), 1);
    close(file);
}

/* A number of the list, whose sum is made right again. */
static void expect_refused_with(uint64_t offset, uint64_t number)
{
    enum { HEADER = 48, CHECK = 16 / 8, FACTS = 24, LIST_BYTES = 32 / 8 };
    tr_trainer_vars *kept = create();
    tr_segment      *segment = NULL;

    tr_trainer_vars_free(kept, false);
    EXPECT_OK(tr_segment_attach(&segment, name_here(), "trainer", 1, (uint64_t)1 << 40));
    uint64_t *head = tr_segment_base(segment);
    head[offset / 8] = number;
    head[CHECK] = (uint64_t)1 << 32 | tr_crc32c(0, (char *)head + FACTS, HEADER - FACTS + head[LIST_BYTES]);
    tr_segment_free(segment);
    EXPECT_FAIL(TR_EFORMAT, "its list is not what was written", tr_trainer_vars_attach(&kept, name_here()));
    EXPECT_OK(tr_segment_remove(name_here()));
}

TEST(a_list_that_speaks_of_what_is_not_there_is_refused)
{
    enum { COUNT_AT = 24, BYTES_AT = 48, AT_AT = 56, NAME_AT = 64 };

    expect_refused_with(COUNT_AT, 1000);
    expect_refused_with(BYTES_AT, (uint64_t)1 << 40);
    expect_refused_with(AT_AT, UINT64_MAX - 8);
    expect_refused_with(NAME_AT, 1 << 20);
}

TEST(damaged_or_unfinished_variables_are_not_used)
{
    tr_trainer_vars *kept = create();
    tr_segment      *segment = NULL;
    const char      *name = name_here();
    enum { PAGE = 4096, COUNT_AT = 24 };

    tr_trainer_vars_free(kept, false);
    damage(name, PAGE + COUNT_AT);
    EXPECT_FAIL(TR_EFORMAT, "is damaged", tr_trainer_vars_attach(&kept, name));
    EXPECT_OK(tr_segment_remove(name));
    EXPECT_OK(tr_segment_create(&segment, name, "trainer", 1, 1 << 20));
    tr_segment_free(segment);
    EXPECT_FAIL(TR_ENOTFOUND, "never complete", tr_trainer_vars_attach(&kept, name));
    EXPECT_OK(tr_segment_remove(name));
    EXPECT_FAIL(TR_ENOTFOUND, "no segment", tr_trainer_vars_attach(&kept, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_two_steps_are_there),
        cmocka_unit_test(the_next_process_goes_on_from_either_of_them),
        cmocka_unit_test(a_kill_at_any_moment_leaves_a_whole_copy),
        cmocka_unit_test(other_variables_are_not_taken_for_these),
        cmocka_unit_test(a_step_that_changes_nothing_has_the_values_of_the_one_before),
        cmocka_unit_test(a_list_that_speaks_of_what_is_not_there_is_refused),
        cmocka_unit_test(damaged_or_unfinished_variables_are_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
