/* test_server_replacement.c - one server, trainers that die and standbys in their places, messages by hand. */
#include "tests/support/server_rig.h"

#include <malloc.h>

enum { REPLACEMENTS = 20, FIRST_REPLACEMENT = TRAINER1 + 1, SERVER1 = FIRST_REPLACEMENT + REPLACEMENTS };

static tr_role role_of(int rank)
{
    return rank == SERVER || rank == SERVER1 ? TR_ROLE_SERVER : rank <= TRAINER1 ? TR_ROLE_TRAINER : TR_ROLE_STANDBY;
}

/* Standbys after the two trainers, each of which may be a replacement, and perhaps another server. */
static rig make_with_standbys(const char *mode, int servers)
{
    const tr_store store = plain_store();
    const int      ranks = SERVER1 + servers - 1;
    rig            r = {.roster = tr_roster_new(SERVER, ranks)};

    for (int i = 0; i < ranks; i++) {
        tr_roster_put(r.roster, i, role_of(i), 1, 100 + i, "h", "");
        r.roster->rank[i].can_replace = true;
    }
    EXPECT_OK(tr_roster_close(r.roster));
    serve_anew(&r, &store);
    say_setup(&r, mode, TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

/* Messages of a replacement, which have its incarnation and numbers from 1 on. */
static void say_as(rig *r, int from, uint64_t seq, tr_wire wire, const void *payload)
{
    wire.incarnation = r->roster->rank[from].incarnation;
    wire.seq = seq;
    say(r, from, wire, payload);
}

/* The next rank takes its place. */
static void die_and_be_replaced(rig *r, int rank)
{
    r->roster->rank[rank].is_dead = true;
    r->node.lost(r->node.self, rank, "died");
    r->node.tick(r->node.self, ++now);
    take_ack(r, rank, NULL);
    const int      replacement = rank + 1;
    const uint32_t incarnation = tr_roster_next_incarnation(r->roster, 1, 0);
    assert_true(tr_roster_replace_trainer(r->roster, 1, replacement, incarnation));
    say(r, replacement,
        (tr_wire){.kind = TR_WIRE_REPLACE_DONE,
                  .incarnation = incarnation,
                  .seq = incarnation,
                  .replace_done = {.trainer = 1, .called = incarnation}},
        NULL);
    say_as(r, replacement, 1, (tr_wire){.kind = TR_WIRE_JOIN}, NULL);
    assert_true(take_ack(r, replacement, NULL) == 1);
}

/* In the middle of a step, with parts that are summed, parts that wait, and a question. */
static void begin_a_step_and_die(rig *r, int rank, uint64_t seq)
{
    static const float data[CHUNK / 4] = {1};

    for (int chunk = 1; chunk >= 0; chunk--)
        say_as(r, rank, seq++,
               (tr_wire){
                   .kind = TR_WIRE_PUSH, .bytes = CHUNK, .push = {.step = 1, .block = 1, .offset = (uint64_t)chunk * CHUNK, .weight = 1}},
               data);
    die_and_be_replaced(r, rank);
}

#if !__GLIBC_PREREQ(2, 33)
#define mallinfo2 mallinfo
#endif

TEST(a_server_does_not_grow_by_trainers_that_die_one_after_the_other)
{
    static const char *const modes[] = {"sync", "async", "ssp(1)", "sync(degraded)"};

    for (int m = 0; m < 4; m++) {
        rig    r = make_with_standbys(modes[m], 1);
        size_t before = 0;
        for (int i = 0; i < REPLACEMENTS; i++) {
            begin_a_step_and_die(&r, TRAINER1 + i, i ? 2 : r.seq[TRAINER1] + 1);
            if (i == 1)
                before = (size_t)mallinfo2().uordblks;
        }
        const char *text;
        assert_int_equal(status_of(&r, &text), TR_OK);
        assert_true((size_t)mallinfo2().uordblks < before + CHUNK);
        unmake(&r);
    }
}

static void make_step(rig *r, int from)
{
    pull(r, from, 0);
    push_step(r, from, 1, 1);
}

static void say_ready(rig *r, uint32_t trainer, uint64_t pulled)
{
    say(r, SERVER1,
        (tr_wire){.kind = TR_WIRE_READY, .incarnation = 1, .seq = 1, .ready = {.trainer = trainer, .step = 1, .pulled = pulled}}, NULL);
}

static void say_is(rig *r, int replacement, uint32_t incarnation, tr_replacement_progress progress)
{
    say(r, replacement, (tr_wire){.kind = TR_WIRE_REPLACE_DONE, .incarnation = incarnation, .seq = incarnation,
                           .replace_done = {.trainer = 1, .called = incarnation, .progress = progress}}, NULL);
}

/* What the newest acknowledgement says of snapshots. */
static bool snapshots_must_wait(rig *r, int to)
{
    tr_message m;
    bool       must_wait = false;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_ACK)
            must_wait = m.wire.ack.declines;
        tr_message_over(&m);
    }
    return must_wait;
}

/* It has joined where another process served: no Join comes here. */
TEST(a_replacement_that_has_joined_elsewhere_says_whether_it_has_made_a_step)
{
    rig r = make_with_standbys("async", 1);

    r.roster->rank[TRAINER1].is_dead = true;
    lose(&r, TRAINER1);
    assert_true(snapshots_must_wait(&r, TRAINER0));
    const uint32_t incarnation = tr_roster_next_incarnation(r.roster, 1, 0);
    assert_true(tr_roster_replace_trainer(r.roster, 1, FIRST_REPLACEMENT, incarnation));
    say_is(&r, FIRST_REPLACEMENT, incarnation, TR_REPLACEMENT_CALLED);
    say_is(&r, FIRST_REPLACEMENT, incarnation, TR_REPLACEMENT_JOINED);
    assert_true(snapshots_must_wait(&r, TRAINER0));
    say_is(&r, FIRST_REPLACEMENT, incarnation, TR_REPLACEMENT_STEPPED);
    pull(&r, TRAINER0, 0);                         /* is acknowledged */
    assert_false(snapshots_must_wait(&r, TRAINER0));
    unmake(&r);
}

/* Here is a step that the dead one made with first parameters, on the other server that of its replacement, which has newer ones. */
TEST(a_dead_trainers_step_is_as_old_as_the_parameters_that_it_had_pulled)
{
    rig         r = make_with_standbys("sync(backups=1)", 2);
    const char *text;

    make_step(&r, TRAINER1);
    make_step(&r, TRAINER0);
    say_ready(&r, 0, 0);
    assert_int_equal(applying, 1);
    tr_server_applied(r.server, TR_OK);
    die_and_be_replaced(&r, TRAINER1);
    say_as(&r, FIRST_REPLACEMENT, 2, (tr_wire){.kind = TR_WIRE_PULL, .bytes = 8, .pull = {.step = 0}}, (const uint32_t[]){0, 1});
    say_ready(&r, 1, 1);
    assert_int_equal(status_of(&r, &text), TR_OK);
    assert_int_equal(applying, 1);                 /* late: it is dropped */
    unmake(&r);
}

/* The newest call of a replacement; its peer is -1 where nobody is called. */
static tr_message called(rig *r)
{
    tr_message m, call = {.peer = -1};

    r->node.tick(r->node.self, ++now);
    while (r->node.next(r->node.self, &m)) {
        if (m.wire.kind == TR_WIRE_REPLACE_CALL)
            call = m;
        tr_message_over(&m);
    }
    return call;
}

TEST(a_standby_that_has_left_is_not_called)
{
    rig r = make_with_standbys("async", 1);

    r.roster->rank[FIRST_REPLACEMENT].has_left = true;
    lose(&r, TRAINER1);
    assert_int_equal(called(&r).peer, FIRST_REPLACEMENT + 1);
    r.roster->rank[FIRST_REPLACEMENT + 1].has_left = true;
    r.node.left(r.node.self, FIRST_REPLACEMENT + 1);
    assert_int_equal(called(&r).peer, FIRST_REPLACEMENT + 2);
    unmake(&r);
}

/* It may have taken the place on other servers before it died, and with its incarnation they would take nobody else. */
TEST(standby_called_after_one_that_died_has_a_newer_incarnation)
{
    rig r = make_with_standbys("async", 1);

    lose(&r, TRAINER1);
    const tr_message first = called(&r);
    lose(&r, FIRST_REPLACEMENT);
    const tr_message second = called(&r);
    assert_int_equal(first.peer, FIRST_REPLACEMENT);
    assert_int_equal(second.peer, FIRST_REPLACEMENT + 1);
    assert_true(second.wire.replace_call.called > first.wire.replace_call.called);
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_does_not_grow_by_trainers_that_die_one_after_the_other),
        cmocka_unit_test(a_replacement_that_has_joined_elsewhere_says_whether_it_has_made_a_step),
        cmocka_unit_test(a_dead_trainers_step_is_as_old_as_the_parameters_that_it_had_pulled),
        cmocka_unit_test(a_standby_that_has_left_is_not_called),
        cmocka_unit_test(standby_called_after_one_that_died_has_a_newer_incarnation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
