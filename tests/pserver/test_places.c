/* test_places.c - where trainers are in a checkpoint, by what servers say. */
#include "tests/support/expect.h"

#include "pserver/core/snapshots/places.h"

#include <string.h>

enum { SERVERS = 2, TRAINERS = 4, UNSAID = -1 };

/* What a server says of each trainer: its steps, UNSAID, and whether it had left. */
typedef struct word {
    int  steps[TRAINERS];
    bool left[TRAINERS];
    bool has_tasks;
    int  updates;                     /* 0: unsaid */
} word;

typedef struct answer {
    Trireme__Pserver__SnapshotDone done;
    Trireme__Pserver__Place   place[TRAINERS], *places[TRAINERS];
    uint32_t                  left[TRAINERS];
} answer;

static void say(answer *out, const word *w)
{
    trireme__pserver__snapshot_done__init(&out->done);
    out->done.places = out->places;
    out->done.left = out->left;
    out->done.has_tasks = w->has_tasks;
    out->done.has_updates = w->updates > 0;
    out->done.updates = (uint64_t)w->updates;
    for (int i = 0; i < TRAINERS; i++) {
        Trireme__Pserver__Place *p = &out->place[out->done.n_places];
        if (w->left[i])
            out->left[out->done.n_left++] = (uint32_t)i;
        if (w->steps[i] == UNSAID)
            continue;
        trireme__pserver__place__init(p);
        p->index = (uint32_t)i;
        p->steps = (uint64_t)w->steps[i];
        out->places[out->done.n_places++] = p;
    }
}

/* Fills in the steps of each trainer, UNSAID for those of whom nothing is said. */
static tr_status merge(int steps[TRAINERS], bool is_by_all, const word words[SERVERS])
{
    answer                     said[SERVERS];
    Trireme__Pserver__SnapshotDone *done[SERVERS];
    tr_places                  places;

    for (int s = 0; s < SERVERS; s++) {
        say(&said[s], &words[s]);
        done[s] = &said[s].done;
    }
    const tr_status status = tr_places_merge(&places, TRAINERS, is_by_all, SERVERS, done);
    for (int i = 0; i < TRAINERS; i++)
        steps[i] = UNSAID;
    for (int i = 0; i < places.count; i++)
        steps[places.place[i]->index] = (int)places.place[i]->steps;
    tr_places_deinit(&places);
    return status;
}

static void expect_steps(const int want[TRAINERS], bool is_by_all, const word words[SERVERS])
{
    int steps[TRAINERS];

    assert_int_equal(merge(steps, is_by_all, words), TR_OK);
    for (int i = 0; i < TRAINERS; i++)
        assert_int_equal(steps[i], want[i]);
}

static void all_are_where_all_servers_have_snapshot_them(void **state)
{
    const word words[SERVERS] = {{{5, 4, UNSAID, 7}}, {{5, 4, UNSAID, 7}}};
    const int  want[TRAINERS] = {5, 4, UNSAID, 7};

    (void)state;
    expect_steps(want, true, words);
}

static void a_trainer_that_took_part_on_some_servers_alone_is_lost(void **state)
{
    const word words[SERVERS] = {{{5, 4, UNSAID, 7}}, {{5, UNSAID, 3, 7}}};
    const int  want[TRAINERS] = {5, UNSAID, UNSAID, 7};

    (void)state;
    expect_steps(want, true, words);
}

static void a_trainer_that_had_left_is_where_any_server_knows_it(void **state)
{
    const word words[SERVERS] = {{{5, UNSAID, 6, 7}, {[1] = true, [2] = true}}, {{5, 4, UNSAID, 7}, {[1] = true}}};
    const int  want[TRAINERS] = {5, 4, 6, 7};      /* trainer 2's goodbye died with it on the way to server 1 */

    (void)state;
    expect_steps(want, true, words);
}

static void in_snapshots_of_trainer_0_alone_others_have_left_or_are_at_its_step(void **state)
{
    const word words[SERVERS] = {{{5, UNSAID, UNSAID, UNSAID}}, {{5, 4, UNSAID, UNSAID}, {[1] = true}}};
    const int  want[TRAINERS] = {5, 4, UNSAID, UNSAID};

    (void)state;
    expect_steps(want, false, words);
}

static void leased_tasks_are_of_trainers_that_all_servers_have_snapshot(void **state)
{
    const word lost[SERVERS] = {{{5, 4, UNSAID, UNSAID}, .has_tasks = true}, {{5, UNSAID, UNSAID, UNSAID}}};
    const word left[SERVERS] = {{{5, 4, UNSAID, UNSAID}, {[1] = true}, true}, {{5, UNSAID, UNSAID, UNSAID}}};
    const int  want[TRAINERS] = {5, 4, UNSAID, UNSAID};
    int        steps[TRAINERS];

    (void)state;
    assert_int_equal(merge(steps, true, lost), TR_EPEER);
    assert_non_null(strstr(tr_error(), "trainer 1 died while it was made, and has taken part for some of its parts alone"));
    expect_steps(want, true, left);
}

static void parts_of_two_moments_make_no_checkpoint(void **state)
{
    const word words[SERVERS] = {{{5, 4, UNSAID, 7}}, {{5, 4, UNSAID, 8}}};
    int        steps[TRAINERS];

    (void)state;
    assert_int_equal(merge(steps, true, words), TR_EPEER);
    assert_non_null(strstr(tr_error(), "server 1 has trainer 3 after step 8, server 0 after step 7"));
}

static void parts_of_two_updates_make_no_checkpoint_where_the_initiator_takes_part_alone(void **state)
{
    const word words[SERVERS] = {{{5, 4, UNSAID, 7}, .updates = 9}, {{5, 4, UNSAID, 7}, .updates = 10}};
    const int  want[TRAINERS] = {5, 4, UNSAID, 7};
    int        steps[TRAINERS];

    (void)state;
    assert_int_equal(merge(steps, false, words), TR_EPEER);
    assert_non_null(strstr(tr_error(), "server 1 copied its state after update 10, server 0 after update 9"));
    expect_steps(want, true, words);               /* there each server counts updates of its own */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_are_where_all_servers_have_snapshot_them),
        cmocka_unit_test(a_trainer_that_took_part_on_some_servers_alone_is_lost),
        cmocka_unit_test(a_trainer_that_had_left_is_where_any_server_knows_it),
        cmocka_unit_test(in_snapshots_of_trainer_0_alone_others_have_left_or_are_at_its_step),
        cmocka_unit_test(leased_tasks_are_of_trainers_that_all_servers_have_snapshot),
        cmocka_unit_test(parts_of_two_moments_make_no_checkpoint),
        cmocka_unit_test(parts_of_two_updates_make_no_checkpoint_where_the_initiator_takes_part_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
