/* test_state.c - a server's state as the next process finds it: commits, going back, damage. */
#include "tests/support/expect.h"

#include "pserver/state/state.h"
#include "storage/memory/segment.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, TRAINERS = 3, VALUE = 1000 };
static const char setup[] = "what the server is to do";

static const char *name_here(void)
{
    static char name[64];
    snprintf(name, sizeof name, "trireme-test-%d-state", (int)getpid());
    return name;
}

static void commit(tr_state *state, uint64_t updates, bool switches)
{
    const uint64_t  settled[TRAINERS] = {updates, updates + 1, updates + 2};
    const uint8_t   trainer[TRAINERS] = {TR_TRAINER_IN, TR_TRAINER_GONE, 0};
    const tr_member member[TRAINERS] = {{1, 2}, {(uint32_t)updates, 3}, {1, 4}};
    const tr_commit now = {updates, settled, trainer, updates + 1, 2 * updates, 3, updates % 2 ? member : NULL,
                                        {(uint32_t)updates, true, updates + 5}};

    tr_state_commit(state, &now, switches);
    tr_state_ready(state);
}

/* With a value of some bytes, and so many commits. */
static void make_state(uint64_t commits)
{
    tr_state *state = NULL;
    void     *value;

    EXPECT_OK(tr_state_create(&state, name_here(), setup, sizeof setup, TRAINERS));
    EXPECT_OK(tr_state_take(&value, state, VALUE));
    memset(value, 7, VALUE);
    for (uint64_t i = 1; i <= commits; i++)
        commit(state, i, true);
    tr_state_free(state, false);
}

static void check_state_of(tr_state *state, uint64_t updates)
{
    const tr_commit now = tr_state_committed(state);
    uint64_t        bytes;

    assert_int_equal(now.updates, updates);
    for (uint64_t i = 0; i < TRAINERS; i++) {
        assert_int_equal(now.settled[i], updates + i);
        assert_int_equal(now.trainer[i], i == 0 ? TR_TRAINER_IN : i == 1 ? TR_TRAINER_GONE : 0);
    }
    assert_int_equal(now.decided, updates + 1);
    assert_int_equal(now.decisions, 2 * updates);
    assert_int_equal(now.start, 3);
    assert_true(now.snapshot.number == updates && now.snapshot.is_taken && now.snapshot.update == updates + 5);
    assert_true((now.member != NULL) == (updates % 2 != 0));
    if (now.member) {
        assert_int_equal(now.member[1].incarnation, updates);
        assert_int_equal(now.member[2].rank, 4);
    }
    assert_int_equal(tr_state_side(state), (int)(updates % 2));
    assert_int_equal(tr_state_trainers(state), TRAINERS);
    assert_string_equal(tr_state_setup(state, &bytes), setup);
    assert_int_equal(bytes, sizeof setup);
}

TEST(the_next_process_finds_the_last_commit)
{
    for (uint64_t commits = 1; commits <= 4; commits++) {
        tr_state *kept = NULL;
        void     *value;
        make_state(commits);
        EXPECT_OK(tr_state_attach(&kept, name_here()));
        check_state_of(kept, commits);
        EXPECT_OK(tr_state_take(&value, kept, VALUE));
        assert_int_equal(((char *)value)[VALUE - 1], 7);
        tr_state_go_back(kept, NULL);
        assert_int_equal(tr_state_committed(kept).updates, commits - 1);
        assert_int_equal(tr_state_committed(kept).decided, commits - 1);
        tr_state_free(kept, true);
    }
}

TEST(a_state_that_goes_back_has_the_commit_of_that_update_if_it_is_known)
{
    const uint64_t  settled[TRAINERS] = {2, 3, 4};
    const uint8_t   flags[TRAINERS] = {0, TR_TRAINER_GONE, 0};
    const tr_commit commit = {.updates = 2, .settled = settled, .trainer = flags, .decided = 3, .decisions = 4};
    tr_state       *kept = NULL;

    make_state(3);
    EXPECT_OK(tr_state_attach(&kept, name_here()));
    tr_state_go_back(kept, &commit);
    assert_int_equal(tr_state_committed(kept).updates, 2);
    assert_int_equal(tr_state_committed(kept).settled[2], 4);
    assert_int_equal(tr_state_side(kept), 0);
    tr_state_free(kept, true);
}

TEST(an_update_that_was_never_committed_is_not_found)
{
    tr_state *kept = NULL;

    make_state(0);
    EXPECT_FAIL(TR_ENOTFOUND, "was never complete", tr_state_attach(&kept, name_here()));
    EXPECT_OK(tr_segment_remove(name_here()));
}

/* Every byte of the segment's page, the header, both commits and the setup in turn. */
TEST(a_damaged_byte_is_found_or_means_nothing)
{
    char path[80];
    int  refused = 0;

    make_state(3);
    snprintf(path, sizeof path, "/%s", name_here());
    const int file = shm_open(path, O_RDWR, 0);
    assert_true(file >= 0);
    for (off_t at = 0; at < PAGE + 64 * 2 + 128 * 2 + (off_t)sizeof setup; at += at == 64 ? PAGE - 64 : 1) {
        unsigned char byte, bad;
        tr_state     *kept = NULL;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        bad = byte ^ (unsigned char)(1 << at % 8);
        assert_int_equal(pwrite(file, &bad, 1, at), 1);
        const tr_status status = tr_state_attach(&kept, name_here());
        if (status == TR_OK)
            check_state_of(kept, 3);
        else
            assert_true(status == TR_EFORMAT);
        refused += status != TR_OK;
        tr_state_free(kept, false);
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
    }
    assert_true(refused > 150);
    close(file);
    EXPECT_OK(tr_segment_remove(name_here()));
}

TEST(a_state_that_was_cut_off_is_damaged)
{
    tr_state *kept = NULL;
    char      path[80];

    make_state(1);
    snprintf(path, sizeof path, "/%s", name_here());
    const int file = shm_open(path, O_RDWR, 0);
    for (off_t size = PAGE; size >= 0; size -= PAGE) {
        assert_int_equal(ftruncate(file, size), 0);
        assert_int_not_equal(tr_state_attach(&kept, name_here()), TR_OK);
    }
    close(file);
    EXPECT_OK(tr_segment_remove(name_here()));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_process_finds_the_last_commit),
        cmocka_unit_test(a_state_that_goes_back_has_the_commit_of_that_update_if_it_is_known),
        cmocka_unit_test(an_update_that_was_never_committed_is_not_found),
        cmocka_unit_test(a_damaged_byte_is_found_or_means_nothing),
        cmocka_unit_test(a_state_that_was_cut_off_is_damaged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
