/* test_segment.c - growth in place, a life beyond the process, what cannot be attached. */
#include "tests/support/expect.h"

#include "storage/memory/segment.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LIMIT = 64 << 20 };

/* A name of this run alone. */
static const char *name_of(const char *what)
{
    static char name[4][64];
    static int  next;
    char       *out = name[next++ % 4];

    snprintf(out, sizeof name[0], "trireme-test-%d-%s", (int)getpid(), what);
    return out;
}

static tr_segment *create(const char *name)
{
    tr_segment *s = NULL;
    EXPECT_OK(tr_segment_create(&s, name, "test", 3, LIMIT));
    return s;
}

static void check_growth(tr_segment *s)
{
    unsigned char *base = tr_segment_base(s);

    assert_int_equal(tr_segment_bytes(s), 0);
    for (uint64_t bytes = 1000; bytes <= LIMIT; bytes *= 4) {
        const uint64_t before = tr_segment_bytes(s);
        EXPECT_OK(tr_segment_grow(s, bytes));
        assert_true(tr_segment_bytes(s) >= bytes);
        assert_ptr_equal(tr_segment_base(s), base);
        for (uint64_t i = before; i < tr_segment_bytes(s); i += 512)
            assert_int_equal(base[i], 0);
        if (before)
            assert_int_equal(base[before - 1], 7);
        base[tr_segment_bytes(s) - 1] = 7;
    }
    const uint64_t bytes = tr_segment_bytes(s);
    EXPECT_OK(tr_segment_grow(s, 1));
    assert_int_equal(tr_segment_bytes(s), bytes);
    EXPECT_FAIL(TR_ERANGE, "its limit is 67108864", tr_segment_grow(s, LIMIT + 1));
    assert_int_equal(tr_segment_bytes(s), bytes);
}

TEST(a_segment_grows_without_moving)
{
    tr_segment *s = create(NULL);
    check_growth(s);
    assert_string_equal(tr_segment_name(s), "");
    tr_segment_free(s);

    const char *name = name_of("grow");
    s = create(name);
    check_growth(s);
    assert_string_equal(tr_segment_name(s), name);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
}

/* Grow from nothing to 20 MiB in steps; each of the numbers that were written stays. */
static void check_moves(tr_segment *s)
{
    enum { STEP = 100000 };
    bool has_moved = false;

    for (uint64_t bytes = STEP; bytes < 20 << 20; bytes += STEP) {
        void *before = tr_segment_base(s);
        EXPECT_OK(tr_segment_grow(s, bytes));
        uint64_t *number = tr_segment_base(s);
        has_moved |= number != before;
        number[bytes / sizeof *number - 1] = bytes;
        for (uint64_t at = STEP; at <= bytes; at += STEP)
            assert_int_equal(number[at / sizeof *number - 1], at);
        assert_int_equal(number[0], 0);
    }
    assert_true(has_moved);
    EXPECT_FAIL(TR_ERANGE, "its limit is", tr_segment_grow(s, (uint64_t)1 << 40));
}

TEST(a_segment_that_moves_keeps_its_contents)
{
    const uint64_t much = (uint64_t)1 << 36;
    const char    *name = name_of("move");
    tr_segment    *s = NULL;

    EXPECT_OK(tr_segment_create_moving(&s, NULL, "test", 3, much));
    check_moves(s);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_create_moving(&s, name, "test", 3, much));
    check_moves(s);
    const uint64_t bytes = tr_segment_bytes(s);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_attach_moving(&s, name, "test", 3, much));
    assert_int_equal(tr_segment_bytes(s), bytes);
    assert_int_equal(((uint64_t *)tr_segment_base(s))[100000 / 8 - 1], 100000);
    EXPECT_OK(tr_segment_grow(s, bytes * 16));
    assert_int_equal(((uint64_t *)tr_segment_base(s))[100000 / 8 - 1], 100000);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
}

TEST(a_segment_outlives_a_killed_process)
{
    const char *name = name_of("kill");
    const pid_t child = fork();

    if (child == 0) {
        tr_segment *s = create(name);
        if (tr_segment_grow(s, 10000) == TR_OK)
            strcpy(tr_segment_base(s), "still here");
        kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    tr_segment *s = NULL;
    EXPECT_OK(tr_segment_attach(&s, name, "test", 3, LIMIT));
    assert_true(tr_segment_bytes(s) >= 10000);
    assert_string_equal(tr_segment_base(s), "still here");
    EXPECT_OK(tr_segment_grow(s, 1 << 20));
    assert_string_equal(tr_segment_base(s), "still here");
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
    EXPECT_FAIL(TR_ENOTFOUND, "there is no segment", tr_segment_attach(&s, name, "test", 3, LIMIT));
    EXPECT_FAIL(TR_ENOTFOUND, "there is no segment", tr_segment_remove(name));
}

TEST(one_process_at_a_time_has_it)
{
    const char *name = name_of("lock");
    tr_segment *s = create(name), *other = NULL;
    char        who[64];

    snprintf(who, sizeof who, "process %d has it", (int)getpid());
    EXPECT_FAIL(TR_EEXIST, who, tr_segment_attach(&other, name, "test", 3, LIMIT));
    EXPECT_FAIL(TR_EEXIST, "exists already", tr_segment_create(&other, name, "test", 3, LIMIT));
    tr_segment_free(s);
    EXPECT_FAIL(TR_EEXIST, "exists already", tr_segment_create(&other, name, "test", 3, LIMIT));
    EXPECT_OK(tr_segment_attach(&other, name, "test", 3, LIMIT));
    tr_segment_free(other);
    EXPECT_OK(tr_segment_remove(name));
}

TEST(memory_that_is_no_segment_is_refused)
{
    const char *name = name_of("else"), *empty = name_of("empty");
    tr_segment *s = create(name), *other = NULL;
    char        path[80];

    tr_segment_free(s);
    EXPECT_FAIL(TR_EFORMAT, "holds 'test', not 'table'", tr_segment_attach(&other, name, "table", 3, LIMIT));
    EXPECT_FAIL(TR_EFORMAT, "holds version 3 of 'test', this program knows 4",
                tr_segment_attach(&other, name, "test", 4, LIMIT));
    snprintf(path, sizeof path, "/%s", empty);
    const int file = shm_open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    EXPECT_FAIL(TR_EFORMAT, "never completed", tr_segment_attach(&other, empty, "test", 3, LIMIT));
    assert_int_equal(ftruncate(file, 8192), 0);
    EXPECT_FAIL(TR_EFORMAT, "never completed, or is none of ours", tr_segment_attach(&other, empty, "test", 3, LIMIT));
    close(file);
    EXPECT_FAIL(TR_ERANGE, "its limit is 0 now", tr_segment_attach(&other, empty, "test", 3, 0));
    EXPECT_FAIL(TR_EINVAL, "letters, digits", tr_segment_create(&other, "a/b", "test", 3, LIMIT));
    EXPECT_FAIL(TR_EINVAL, "1 to 127 characters", tr_segment_attach(&other, "", "test", 3, LIMIT));
    EXPECT_OK(tr_segment_remove(name));
    EXPECT_OK(tr_segment_remove(empty));
}

TEST(a_full_folder_is_a_status_that_says_so)
{
    const char    *name = name_of("full");
#ifdef TR_SANITIZE
    const uint64_t huge = (uint64_t)1 << 39;       /* it leaves fewer addresses */
#else
    const uint64_t huge = (uint64_t)1 << 46;       /* more than any /dev/shm has, less than there are addresses */
#endif
    tr_segment    *s = NULL;

    if (tr_segment_create(&s, name, "test", 3, huge) != TR_OK)
        skip();                                    /* no such range of addresses here, as under a sanitizer */
    EXPECT_OK(tr_segment_grow(s, 5000));
    memset(tr_segment_base(s), 1, 5000);
    EXPECT_FAIL(TR_ENOMEM, "are free; give it a larger size", tr_segment_grow(s, huge));
    assert_int_equal(((char *)tr_segment_base(s))[4999], 1);
    EXPECT_OK(tr_segment_grow(s, 50000));
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
}

static void expect_whole(const char *name, int file, int64_t bytes)
{
    struct stat info;
    tr_segment *s = NULL;

    EXPECT_OK(tr_segment_attach(&s, name, "test", 3, LIMIT));
    assert_int_equal(fstat(file, &info), 0);
    assert_true(info.st_blocks * 512 >= bytes);
    assert_int_equal(tr_segment_bytes(s), bytes - 4096);
    tr_segment_free(s);
}

static void check_holes(int64_t bytes)
{
    const char *name = name_of("holes");
    char        path[80];
    struct stat info;
    tr_segment *s = create(name);

    EXPECT_OK(tr_segment_grow(s, 5000));
    tr_segment_free(s);
    snprintf(path, sizeof path, "/%s", name);
    const int file = shm_open(path, O_RDWR, 0600);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, bytes), 0);
    expect_whole(name, file, bytes);
    expect_whole(name, file, bytes);
    assert_int_equal(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 6 << 20, 4096), 0);
    expect_whole(name, file, bytes);
    EXPECT_OK(tr_segment_attach(&s, name, "test", 3, LIMIT));
    EXPECT_OK(tr_segment_grow(s, 30 << 20));
    assert_int_equal(fstat(file, &info), 0);
    assert_true(info.st_blocks * 512 >= 30 << 20);
    close(file);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
}

/* A growth that was killed has given the file its size and not all of its memory. */
TEST(holes_of_a_killed_growth_are_filled)
{
    check_holes((18 << 20) + 4096);
    check_holes(18 << 20);                         /* whole huge pages */
}

#ifndef TR_SANITIZE                 /* sanitizers want more addresses than that for themselves */
TEST(few_addresses_lower_the_limit)
{
    const uint64_t much = (uint64_t)1 << 40;
    const pid_t    child = fork();
    int            how;

    if (child == 0) {
        const struct rlimit few = {(rlim_t)8 << 30, (rlim_t)8 << 30};
        tr_segment         *one = NULL, *other = NULL;
        if (setrlimit(RLIMIT_AS, &few) != 0 || tr_segment_create(&one, NULL, "test", 3, much) != TR_OK ||
            tr_segment_create(&other, NULL, "test", 3, much) != TR_OK || tr_segment_grow(one, 1 << 20) != TR_OK)
            _exit(1);
        _exit(tr_segment_grow(one, much) != TR_ERANGE);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

/* Each of many segments may become large, and takes few addresses before it does. */
TEST(thousands_that_may_move_fit_into_one_process)
{
    const pid_t child = fork();
    int         how;

    if (child == 0) {
        const struct rlimit few = {(rlim_t)16 << 30, (rlim_t)16 << 30};
        tr_segment         *s = NULL;
        if (setrlimit(RLIMIT_AS, &few) != 0)
            _exit(1);
        for (int i = 0; i < 10000; i++)
            if (tr_segment_create_moving(&s, NULL, "test", 3, (uint64_t)1 << 40) != TR_OK || tr_segment_grow(s, 5000) != TR_OK)
                _exit(1);
        _exit(tr_segment_grow(s, 10 << 20) != TR_OK);
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

TEST(too_few_open_files_name_the_limit)
{
    const pid_t child = fork();
    int         how;

    if (child == 0) {
        const struct rlimit few = {20, 40};
        tr_segment         *s = NULL;
        int                 made = 0;
        tr_status           status = TR_OK;
        if (setrlimit(RLIMIT_NOFILE, &few) != 0)
            _exit(1);
        for (; status == TR_OK && made < 100; made += status == TR_OK) {
            const char *name = name_of("files");
            status = tr_segment_create(&s, name, "test", 3, LIMIT);
            if (status == TR_OK)
                tr_segment_remove(name);
        }
        _exit(made < 21 || status != TR_EIO || !strstr(tr_error(), "all of the 40 files that it may have (ulimit -n)"));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}

TEST(too_few_addresses_name_the_limit)
{
    const pid_t child = fork();
    int         how;

    if (child == 0) {
        const struct rlimit few = {(rlim_t)512 << 20, (rlim_t)512 << 20};
        tr_segment         *none = NULL;
        if (setrlimit(RLIMIT_AS, &few) != 0)
            _exit(1);
        _exit(tr_segment_create(&none, NULL, "test", 3, (uint64_t)1 << 40) != TR_ENOMEM ||
              !strstr(tr_error(), "of the 524288 KiB that this process may have in all (ulimit -v)"));
    }
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how) && WEXITSTATUS(how) == 0);
}
#else
TEST(few_addresses_lower_the_limit)
{
}

TEST(thousands_that_may_move_fit_into_one_process)
{
}

TEST(too_few_open_files_name_the_limit)
{
}

TEST(too_few_addresses_name_the_limit)
{
}
#endif

/* Those of the machine: asked for while it grows, they take no more than whole ones of its size and change nothing in it. */
TEST(huge_pages_hold_what_small_ones_did)
{
    const char    *name = name_of("pages");
    const uint64_t page = tr_segment_page_bytes();
    tr_segment    *s = create(name);
    uint64_t      *base = tr_segment_base(s);

    assert_true(page == 4096 || page == 2 << 20);
    for (uint64_t bytes = 1 << 20; bytes <= 40 << 20; bytes += 3 << 20) {
        const uint64_t before = tr_segment_bytes(s);
        EXPECT_OK(tr_segment_grow(s, bytes));
        assert_true(tr_segment_bytes(s) < bytes + (2 << 20));
        for (uint64_t at = before / 8; at < tr_segment_bytes(s) / 8; at++)
            base[at] = at;
    }
    for (uint64_t at = 0; at < tr_segment_bytes(s) / 8; at++)
        if (base[at] != at)
            fail_msg("word %llu holds %llu", (unsigned long long)at, (unsigned long long)base[at]);
    tr_segment_free(s);
    EXPECT_OK(tr_segment_remove(name));
}

TEST(left_overs_are_found_by_their_beginning)
{
    char        prefix[64];
    char      **list = NULL;
    int         count = 0;
    tr_segment *held = create(name_of("list-b")), *left = create(name_of("list-a"));

    snprintf(prefix, sizeof prefix, "%s", name_of("list"));
    tr_segment_free(left);
    EXPECT_OK(tr_segment_list(&list, &count, prefix));
    assert_int_equal(count, 2);
    assert_string_equal(list[0], name_of("list-a"));
    assert_string_equal(list[1], name_of("list-b"));
    free(list);
    tr_segment_free(held);
    EXPECT_OK(tr_segment_remove(name_of("list-a")));
    EXPECT_OK(tr_segment_remove(name_of("list-b")));
    EXPECT_OK(tr_segment_list(&list, &count, prefix));
    assert_int_equal(count, 0);
    free(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_segment_grows_without_moving),
        cmocka_unit_test(a_segment_that_moves_keeps_its_contents),
        cmocka_unit_test(a_segment_outlives_a_killed_process),
        cmocka_unit_test(one_process_at_a_time_has_it),
        cmocka_unit_test(memory_that_is_no_segment_is_refused),
        cmocka_unit_test(a_full_folder_is_a_status_that_says_so),
        cmocka_unit_test(holes_of_a_killed_growth_are_filled),
        cmocka_unit_test(few_addresses_lower_the_limit),
        cmocka_unit_test(thousands_that_may_move_fit_into_one_process),
        cmocka_unit_test(too_few_open_files_name_the_limit),
        cmocka_unit_test(too_few_addresses_name_the_limit),
        cmocka_unit_test(huge_pages_hold_what_small_ones_did),
        cmocka_unit_test(left_overs_are_found_by_their_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
