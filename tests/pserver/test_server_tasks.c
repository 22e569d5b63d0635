/* test_server_tasks.c - one server, two trainers, messages by hand: tasks, and what is kept of them. */
#include "tests/support/snapshot_word.h"
#include "tests/support/durable_store.h"

#include "pserver/core/updates/server_state.h"
#include "pserver/trireme_tasks.h"

/* The task that a trainer is given now; nothing else may be told to it. */
static tr_wire take_task(rig *r, int to)
{
    tr_message m;
    tr_wire    task = {.kind = TR_WIRE_NONE};

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_TASK)
            task = m.wire;
        tr_message_over(&m);
    }
    return task;
}

static void say_tasks(rig *r, int from, uint64_t digest)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = 2, .passes = 1, .digest = digest, .milliseconds = 10000}}, NULL);
}

TEST(tasks_are_handed_out_and_a_question_that_comes_again_is_answered_alike)
{
    rig r = make_running_as("async");

    say_tasks(&r, TRAINER0, 9);
    say_tasks(&r, TRAINER1, 9);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    const tr_wire task = take_task(&r, TRAINER1);
    assert_int_equal(task.kind, TR_WIRE_TASK);
    assert_int_equal(task.task.answer, TR_TASK_GIVEN);
    assert_int_equal(task.seq, r.seq[TRAINER1]);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .seq = r.seq[TRAINER1]}, NULL);
    const tr_wire again = take_task(&r, TRAINER1);
    assert_int_equal(again.task.task, task.task.task);
    assert_int_equal(again.task.lease, task.task.lease);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    const tr_wire other = take_task(&r, TRAINER0);
    assert_int_not_equal(other.task.task, task.task.task);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = other.task.lease}}, NULL);
    assert_int_equal(take_task(&r, TRAINER0).task.answer, TR_TASK_WAIT);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.only_asks = 1}}, NULL);
    assert_int_equal(take_task(&r, TRAINER1).task.answer, TR_TASK_WAIT);

    lose(&r, TRAINER1);            /* its task is the other's */
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = other.task.lease}}, NULL);
    const tr_wire last = take_task(&r, TRAINER0);
    assert_int_equal(last.task.task, task.task.task);
    for (uint64_t lease = 1; lease <= last.task.lease; lease++)
        say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_END, .task_end = {.lease = lease}}, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.only_asks = 1}}, NULL);
    assert_int_equal(take_task(&r, TRAINER0).task.answer, TR_TASK_END);
    unmake(&r);
}

/* `known`: the newest lease that it has got. */
static tr_wire ask(rig *r, int from, uint64_t known)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASK_ASK, .task_ask = {.last_lease = known}}, NULL);
    return take_task(r, from);
}

static void end_task(rig *r, int from, uint64_t lease)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASK_END, .task_end = {.lease = lease}}, NULL);
}

/* A step of mode async that is applied at once. */
static void make_step(rig *r, int from, uint64_t step)
{
    push_step(r, from, step, 1);
    tr_server_applied(r->server, TR_OK);
}

TEST(a_dead_trainers_work_on_its_task_is_left_out)
{
    rig r = make_running_as("async");

    say_tasks(&r, TRAINER0, 9);
    const uint64_t first = ask(&r, TRAINER1, 0).task.lease;
    const tr_wire  second = ask(&r, TRAINER1, first);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    end_task(&r, TRAINER1, first);
    make_step(&r, TRAINER1, 3);
    make_step(&r, TRAINER1, 4);
    push_step(&r, TRAINER1, 5, 1);                         /* ended, and not applied yet: it will count, if this server lives */
    lose(&r, TRAINER1);
    assert_int_equal(ask(&r, TRAINER0, 0).task.answer, TR_TASK_WAIT);
    tr_server_applied(r.server, TR_OK);
    const tr_wire task = ask(&r, TRAINER0, 0);
    assert_int_equal(task.task.task, second.task.task);
    assert_true(task.task.steps == 3);
    unmake(&r);
}

/* Another server beside ours, after the trainers. */
enum { OTHER = 3 };

static rig beside_another(void)
{
    rig r = {.roster = tr_roster_new(SERVER, 4)};

    for (int i = 0; i < 4; i++)
        tr_roster_put(r.roster, i, i == SERVER || i == 3 ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    return r;
}

static void start(rig *r, const char *mode)
{
    say_setup(r, mode, TR_FP32);
    say_join(r, TRAINER0);
    say_join(r, TRAINER1);
}

static rig make_beside_another(const char *mode)
{
    const tr_store store = plain_store();
    rig            r = beside_another();

    serve_anew(&r, &store);
    start(&r, mode);
    return r;
}

TEST(a_task_is_done_when_every_server_has_its_last_step)
{
    rig r = make_beside_another("async");

    say_tasks(&r, TRAINER0, 9);
    const tr_wire one = ask(&r, TRAINER1, 0), two = ask(&r, TRAINER1, one.task.lease);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    end_task(&r, TRAINER1, one.task.lease);
    make_step(&r, TRAINER1, 3);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_SETTLED, .settled = {.everywhere = 2}}, NULL);
    lose(&r, TRAINER1);            /* of step 3 nobody knows whether the other has it */
    const tr_wire last = ask(&r, TRAINER0, 0);
    assert_int_equal(last.task.answer, TR_TASK_GIVEN);
    assert_int_equal(last.task.task, two.task.task);
    assert_true(last.task.steps == 0);
    assert_int_equal(ask(&r, TRAINER0, last.task.lease).task.answer, TR_TASK_WAIT);
    unmake(&r);
}

TEST(an_ended_task_that_some_servers_may_lack_is_made_again)
{
    rig r = make_beside_another("async");

    say_tasks(&r, TRAINER0, 9);
    const tr_wire one = ask(&r, TRAINER1, 0), two = ask(&r, TRAINER1, one.task.lease);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_SETTLED, .settled = {.everywhere = 1}}, NULL);
    end_task(&r, TRAINER1, one.task.lease);
    lose(&r, TRAINER1);
    const tr_wire again = ask(&r, TRAINER0, 0), other = ask(&r, TRAINER0, again.task.lease);
    assert_int_equal(again.task.task, one.task.task);
    assert_true(again.task.steps == 1);
    assert_int_equal(other.task.task, two.task.task);
    assert_true(other.task.steps == 0);
    unmake(&r);
}

TEST(a_step_that_is_left_out_is_settled_without_an_update)
{
    rig r = make_running_as("async");

    push_step(&r, TRAINER1, 1, 1);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 2, .is_idle = 1}}, NULL);        /* after one that is being applied */
    tr_server_applied(r.server, TR_OK);
    make_step(&r, TRAINER1, 3);
    assert_int_equal(applying, 2);
    assert_int_equal(r.server->updates, 2);
    push_small(&r, TRAINER1, 4, 1);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 4, .is_idle = 1}}, NULL);
    EXPECT_REFUSED(&r, "leaves step 4 out, which it has begun");
    unmake(&r);
}

/* -- what is kept of tasks: a server, and another one after it ------------------------------------------- */

TEST(standby_in_a_servers_place_knows_its_tasks)
{
    rig r = make();

    serve_keeping(&r);
    start(&r, "async");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = 4, .passes = 1, .digest = 9, .milliseconds = 10000}}, NULL);
    const tr_wire one = ask(&r, TRAINER1, 0), two = ask(&r, TRAINER1, one.task.lease), other = ask(&r, TRAINER0, 0);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    end_task(&r, TRAINER1, one.task.lease);
    make_step(&r, TRAINER1, 3);
    push_step(&r, TRAINER1, 4, 1);                         /* not applied when it dies; nor does its task end then */
    end_task(&r, TRAINER1, two.task.lease);

    serve_again(&r);
    EXPECT_OK(tr_server_take_over(r.server));
    assert_int_equal(ask(&r, TRAINER0, 0).task.lease, other.task.lease);       /* the answer was lost: the same again */
    make_step(&r, TRAINER1, 4);
    end_task(&r, TRAINER1, two.task.lease);
    const tr_wire last = ask(&r, TRAINER1, two.task.lease);
    assert_int_equal(last.task.answer, TR_TASK_GIVEN);
    assert_true(last.task.task != one.task.task && last.task.task != two.task.task && last.task.task != other.task.task &&
                last.task.steps == 0);
    make_step(&r, TRAINER1, 5);

    serve_again(&r);                                   /* the job is started again: nobody has a task */
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = kept.setup_bytes, .setup = {.resumes = 1, .updates = 5}}, kept.setup);
    say_join(&r, TRAINER0);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_JOIN, .join = {.step = 5, .everywhere = 5}}, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = 4, .passes = 1, .digest = 9, .milliseconds = 10000}}, NULL);
    const tr_wire a = ask(&r, TRAINER0, 0), b = ask(&r, TRAINER0, a.task.lease);
    assert_true(a.task.task + b.task.task == other.task.task + last.task.task && a.task.task != b.task.task);
    assert_true((a.task.task == last.task.task ? a : b).task.steps == 1 && (a.task.task == last.task.task ? b : a).task.steps == 0);
    assert_int_equal(ask(&r, TRAINER0, b.task.lease).task.answer, TR_TASK_WAIT);
    end_task(&r, TRAINER0, a.task.lease);
    end_task(&r, TRAINER0, b.task.lease);
    assert_int_equal(ask(&r, TRAINER1, 0).task.answer, TR_TASK_END);
    unmake(&r);
}

static void say_list(rig *r, int from, uint32_t list, uint32_t count)
{
    say(r, from,
        (tr_wire){.kind = TR_WIRE_TASKS, .tasks = {.count = count, .passes = 1, .digest = 9 + list, .milliseconds = 10000, .list = list}},
        NULL);
}

TEST(each_loop_has_a_list_of_tasks_and_one_behind_is_told_that_its_list_is_over)
{
    rig r = make_running_as("async");

    say_list(&r, TRAINER0, 0, 1);
    const tr_wire one = ask(&r, TRAINER0, 0);
    end_task(&r, TRAINER0, one.task.lease);
    assert_int_equal(ask(&r, TRAINER0, one.task.lease).task.answer, TR_TASK_END);
    say_list(&r, TRAINER0, 1, 3);                      /* other files */
    const tr_wire next = ask(&r, TRAINER0, one.task.lease);
    assert_int_equal(next.task.answer, TR_TASK_GIVEN);
    assert_int_equal(next.task.lease, one.task.lease + 1);
    say_list(&r, TRAINER1, 0, 1);
    assert_int_equal(ask(&r, TRAINER1, 0).task.answer, TR_TASK_END);
    say_list(&r, TRAINER1, 1, 3);
    assert_int_equal(ask(&r, TRAINER1, 0).task.answer, TR_TASK_GIVEN);
    say_list(&r, TRAINER1, 1, 2);
    EXPECT_REFUSED(&r, "all trainers are to be given the same files");
    unmake(&r);
}

TEST(a_list_begins_when_the_one_before_is_done_or_left_by_all)
{
    rig r = make_running_as("async");

    say_list(&r, TRAINER0, 0, 2);
    say_list(&r, TRAINER1, 0, 2);
    assert_int_equal(ask(&r, TRAINER1, 0).task.answer, TR_TASK_GIVEN);
    say_list(&r, TRAINER0, 1, 5);                      /* its loop ended early */
    assert_int_equal(ask(&r, TRAINER0, 0).task.answer, TR_TASK_LATER);
    say_list(&r, TRAINER1, 1, 5);
    assert_int_equal(ask(&r, TRAINER1, 1).task.answer, TR_TASK_GIVEN);
    say_list(&r, TRAINER0, 1, 5);
    assert_int_equal(ask(&r, TRAINER0, 0).task.answer, TR_TASK_GIVEN);
    unmake(&r);
}

TEST(standby_in_a_servers_place_knows_its_list)
{
    rig r = make();

    serve_keeping(&r);
    start(&r, "async");
    say_list(&r, TRAINER0, 0, 0);
    say_list(&r, TRAINER0, 1, 4);
    serve_again(&r);
    EXPECT_OK(tr_server_take_over(r.server));
    assert_int_equal(ask(&r, TRAINER0, 0).task.answer, TR_TASK_GIVEN);
    say_list(&r, TRAINER1, 0, 0);
    assert_int_equal(ask(&r, TRAINER1, 0).task.answer, TR_TASK_END);
    unmake(&r);
}

/* A trainer that works on more tasks than it can. */
TEST(a_damaged_state_of_tasks_is_refused)
{
    enum { HEAD = 64, NUMBERS = 64, SPANS_AT = 16 };
    rig r = make();

    serve_keeping(&r);
    start(&r, "async");
    say_tasks(&r, TRAINER0, 9);
    ask(&r, TRAINER1, 0);
    const uint64_t second = HEAD + NUMBERS + (kept.tasks_bytes - HEAD - NUMBERS) / 2, spans = 1000;
    memcpy(kept.tasks + HEAD + NUMBERS + SPANS_AT, &spans, sizeof spans);
    memcpy(kept.tasks + second + SPANS_AT, &spans, sizeof spans);
    serve_again(&r);
    EXPECT_FAIL(TR_EFORMAT, "the state of tasks is damaged", tr_server_take_over(r.server));
    unmake(&r);
}

TEST(a_dead_trainers_ended_tasks_are_known_to_the_next_server_0)
{
    rig r = beside_another();

    serve_keeping(&r);
    start(&r, "async");
    say_tasks(&r, TRAINER0, 9);
    const tr_wire task = ask(&r, TRAINER1, 0);
    for (uint64_t step = 1; step <= 3; step++)
        make_step(&r, TRAINER1, step);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_SETTLED, .settled = {.everywhere = 2}}, NULL);

    serve_again(&r);
    EXPECT_OK(tr_server_take_over(r.server));
    lose(&r, TRAINER1);
    const tr_wire again = ask(&r, TRAINER0, 0);
    assert_int_equal(again.task.task, task.task.task);
    assert_true(again.task.steps == 2);
    unmake(&r);
}

/* Between the death of the one before and this. */
TEST(standby_in_a_servers_place_sees_which_trainers_have_died)
{
    rig r = make();

    serve_keeping(&r);
    say_setup(&r, "sync", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    serve_again(&r);
    r.roster->rank[TRAINER1].is_dead = true;
    EXPECT_FAIL(TR_EPEER, "trainer 1", tr_server_take_over(r.server));
    unmake(&r);
}

static void copy_at_once(void *self, const Trireme__Pserver__SnapshotTarget *target)
{
    (void)self;
    (void)target;
}

/* With a target if it is trainer 0. */
static size_t pack_snapshot_at(uint8_t packed[256], int index, uint64_t steps)
{
    size_t   size;
    uint8_t *bytes = pack_snapshot(index, steps, index == 0, &size);

    assert_true(size <= 256);
    memcpy(packed, bytes, size);
    free(bytes);
    return size;
}

/* What the server answers to trainer 0's snapshot; NULL: nothing. */
static Trireme__Pserver__SnapshotDone *take_snapshot_done(rig *r)
{
    Trireme__Pserver__SnapshotDone *done = NULL;
    tr_message                 m;

    while (r->node.next(r->node.self, &m)) {
        if (m.wire.kind == TR_WIRE_SNAPSHOT_DONE && !done)
            done = trireme__pserver__snapshot_done__unpack(NULL, m.wire.bytes, m.payload);
        free(m.owned);
    }
    return done;
}

TEST(standby_in_a_servers_place_learns_the_last_positions_of_trainers_that_have_left)
{
    rig     r = make();
    uint8_t snapshot[256];

    serve_keeping(&r);
    start(&r, "async");
    make_step(&r, TRAINER1, 1);
    const size_t last_place = pack_snapshot_at(snapshot, 1, 7);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_GOODBYE, .bytes = last_place, .leave = {.step = 1}}, snapshot);

    tr_store store = durable_store();
    store.snapshot = copy_at_once;
    serve_anew(&r, &store);
    EXPECT_OK(tr_server_take_over(r.server));
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_GOODBYE, .bytes = last_place, .leave = {.step = 1}}, snapshot);
    make_step(&r, TRAINER0, 1);
    const size_t target = pack_snapshot_at(snapshot, 0, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SNAPSHOT, .bytes = target, .snapshot = {.number = 1, .step = 1}}, snapshot);
    tr_server_snapped(r.server, 1);
    tr_server_written(r.server, snapshot, 1, NULL);
    Trireme__Pserver__SnapshotDone *done = take_snapshot_done(&r);
    assert_non_null(done);
    assert_int_equal(done->n_places, 2);
    assert_true(done->places[1]->index == 1 && done->places[1]->steps == 7);
    trireme__pserver__snapshot_done__free_unpacked(done, NULL);
    unmake(&r);
}

/* The other server has given it up; the request of trainer 0 comes later. */
TEST(a_snapshot_that_another_server_has_given_up_holds_up_nobody_and_trainer_0_is_told)
{
    rig      r = beside_another();
    tr_store store = plain_store();
    uint8_t  first[256], second[256];

    store.snapshot = copy_at_once;
    serve_anew(&r, &store);
    start(&r, "async");
    const size_t target = pack_snapshot_at(first, 0, 0), place = pack_snapshot_at(second, 1, 0);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SNAPSHOT, .bytes = target, .snapshot = {.number = 1}}, first);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_SNAPSHOT, .bytes = place, .snapshot = {.number = 1}}, second);
    assert_null(take_snapshot_done(&r));           /* the other server has not said that it has gathered it */
    say(&r, OTHER, (tr_wire){.kind = TR_WIRE_SNAPSHOT_NEWS, .snapshot_news = {.number = 1, .news = TR_SNAPSHOT_GATHERED}}, NULL);
    tr_server_snapped(r.server, 1);
    tr_server_written(r.server, first, 1, NULL);
    Trireme__Pserver__SnapshotDone *done = take_snapshot_done(&r);
    assert_true(done && done->has_part);
    trireme__pserver__snapshot_done__free_unpacked(done, NULL);

    say(&r, OTHER, (tr_wire){.kind = TR_WIRE_SNAPSHOT_NEWS, .snapshot_news = {.number = 2, .news = TR_SNAPSHOT_GIVEN_UP}}, NULL);
    make_step(&r, TRAINER1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SNAPSHOT, .bytes = target, .snapshot = {.number = 2}}, first);
    make_step(&r, TRAINER0, 1);
    assert_int_equal(r.server->updates, 2);         /* neither is kept waiting */
    done = take_snapshot_done(&r);
    assert_true(done && !done->has_part && done->error);
    trireme__pserver__snapshot_done__free_unpacked(done, NULL);
    unmake(&r);
}

/* Is all that the trainer is told a receipt? -1: it is told nothing. */
static int hears_receipts(rig *r, int trainer)
{
    tr_message m;
    int        are_receipts = -1;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == trainer)
            are_receipts = m.is_receipt && are_receipts != 0;
        tr_message_over(&m);
    }
    return are_receipts;
}

TEST(an_acknowledgement_that_wants_a_snapshot_is_no_receipt)
{
    rig      r = make();
    tr_store store = plain_store();
    uint8_t  snapshot[256];

    store.snapshot = copy_at_once;
    serve_anew(&r, &store);
    start(&r, "async");
    hears_receipts(&r, TRAINER1);
    make_step(&r, TRAINER1, 1);
    assert_int_equal(hears_receipts(&r, TRAINER1), true);
    const size_t target = pack_snapshot_at(snapshot, 0, 0);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SNAPSHOT, .bytes = target, .snapshot = {.number = 1}}, snapshot);
    assert_int_equal(hears_receipts(&r, TRAINER1), false);
    unmake(&r);
}

TEST(tasks_that_differ_or_cannot_be_leased_are_refused)
{
    rig r = make_running_as("async");
    say_tasks(&r, TRAINER0, 9);
    say_tasks(&r, TRAINER1, 8);
    EXPECT_REFUSED(&r, "all trainers are to be given the same files");
    unmake(&r);

    r = make_running();
    say_tasks(&r, TRAINER0, 9);
    EXPECT_REFUSED(&r, "which need mode async, ssp or geo");
    unmake(&r);

    r = make_running_as("async");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    EXPECT_REFUSED(&r, "sent TASK_ASK before it said what the tasks are");
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_are_handed_out_and_a_question_that_comes_again_is_answered_alike),
        cmocka_unit_test(a_dead_trainers_work_on_its_task_is_left_out),
        cmocka_unit_test(a_task_is_done_when_every_server_has_its_last_step),
        cmocka_unit_test(an_ended_task_that_some_servers_may_lack_is_made_again),
        cmocka_unit_test(a_step_that_is_left_out_is_settled_without_an_update),
        cmocka_unit_test(standby_in_a_servers_place_knows_its_tasks),
        cmocka_unit_test(each_loop_has_a_list_of_tasks_and_one_behind_is_told_that_its_list_is_over),
        cmocka_unit_test(a_list_begins_when_the_one_before_is_done_or_left_by_all),
        cmocka_unit_test(standby_in_a_servers_place_knows_its_list),
        cmocka_unit_test(a_damaged_state_of_tasks_is_refused),
        cmocka_unit_test(a_dead_trainers_ended_tasks_are_known_to_the_next_server_0),
        cmocka_unit_test(standby_in_a_servers_place_sees_which_trainers_have_died),
        cmocka_unit_test(standby_in_a_servers_place_learns_the_last_positions_of_trainers_that_have_left),
        cmocka_unit_test(a_snapshot_that_another_server_has_given_up_holds_up_nobody_and_trainer_0_is_told),
        cmocka_unit_test(an_acknowledgement_that_wants_a_snapshot_is_no_receipt),
        cmocka_unit_test(tasks_that_differ_or_cannot_be_leased_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
