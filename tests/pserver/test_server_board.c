/* test_server_board.c - one server, two trainers, messages by hand: collectives and notices. */
#include "tests/support/durable_store.h"

#include "pserver/core/board/board.h"

#include <stdio.h>
#include <stdlib.h>

/* The steps that the next posts say their trainers have ended, and whether they have joined. */
static uint64_t posted_step;
static bool     posts_unjoined;

static void post_stop(rig *r, int from, uint64_t number, const char *name, const char *call, const char *data, tr_wire_until until,
                      uint32_t stops)
{
    tr_post packed = TRIREME__PSERVER__POST__INIT;
    size_t  size;

    packed.has_stops = stops > 0;
    packed.stops = stops;
    packed.number = number;
    packed.name = (char *)(uintptr_t)name;
    packed.trainer = (uint32_t)(from - TRAINER0);
    packed.call = (char *)(uintptr_t)call;
    packed.line = (char *)"train.py:7";
    packed.has_data = data != NULL;
    packed.data = (ProtobufCBinaryData){data ? strlen(data) : 0, (uint8_t *)(uintptr_t)data};
    uint8_t *bytes = tr_board_pack(&packed, &size);
    packed.has_step = true;
    packed.step = posted_step;
    say(r, from, (tr_wire){.kind = TR_WIRE_POST, .bytes = size, .post = {.until = until, .step = posted_step, .has_joined = !posts_unjoined,
                                                                         .trainer = until == TR_UNTIL_ONE && from == TRAINER0}}, bytes);
    free(bytes);
}

static void post(rig *r, int from, uint64_t number, const char *name, const char *call, const char *data, tr_wire_until until)
{
    post_stop(r, from, number, name, call, data, until, 0);
}

/* What the newest acknowledgement to the trainer says of trainings that are to end; -1: there is none. */
static int stops(rig *r, int to)
{
    tr_message m;
    int        found = -1;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_ACK)
            found = (int)m.wire.ack.stops;
        tr_message_over(&m);
    }
    return found;
}

/* What the trainer is answered now, as "0=a 1=b"; "-": nothing; "awaited": others wait for its step. */
static const char *answer(rig *r, int to)
{
    static char     text[256];
    tr_message      m;
    tr_wire_entries entries;
    uint32_t        trainer;
    const uint8_t  *data;
    uint64_t        bytes;

    strcpy(text, "-");
    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_POSTED) {
            text[0] = '\0';
            assert_int_equal(tr_wire_entries_open(&entries, m.payload, m.wire.bytes, m.wire.posted.count), TR_OK);
            while (tr_wire_entries_next(&entries, &trainer, &data, &bytes))
                sprintf(text + strlen(text), "%s%u=%.*s", text[0] ? " " : "", trainer, (int)bytes - TR_BOARD_STEP,
                        (const char *)data + TR_BOARD_STEP);
            if (m.wire.posted.is_awaited)
                strcat(text, "awaited");
        }
        tr_message_over(&m);
    }
    return text;
}

TEST(last_post_lets_all_go_on)
{
    rig r = make_running();

    post(&r, TRAINER0, 1, NULL, "all_gather()", "a", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER0), "-");
    post(&r, TRAINER1, 1, NULL, "all_gather()", "b", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "0=a 1=b");
    unmake(&r);
}

TEST(another_call_is_refused_with_both)
{
    rig r = make_running();

    post(&r, TRAINER0, 1, NULL, "all_gather()", "a", TR_UNTIL_ALL);
    post(&r, TRAINER1, 1, NULL, "barrier()", "", TR_UNTIL_ALL);
    EXPECT_REFUSED(&r, "calls all_gather() at train.py:7");
    EXPECT_REFUSED(&r, "calls barrier() at train.py:7");
    unmake(&r);
}

TEST(a_trainer_that_leaves_is_not_waited_for)
{
    rig r = make_running();

    post(&r, TRAINER0, 1, NULL, "all_gather()", "a", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER0), "-");
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_GOODBYE}, NULL);
    assert_string_equal(answer(&r, TRAINER0), "0=a");
    unmake(&r);
}

TEST(a_notice_is_waited_for_until_its_author_has_left)
{
    rig r = make_running();

    post(&r, TRAINER1, 0, "save 1", "", NULL, TR_UNTIL_ONE);       /* of trainer 0 */
    assert_string_equal(answer(&r, TRAINER1), "-");
    post(&r, TRAINER0, 0, "save 1", "", NULL, TR_UNTIL_NOW);
    assert_string_equal(answer(&r, TRAINER0), "");
    post(&r, TRAINER0, 0, "save 1", "", "done", TR_UNTIL_NOW);
    assert_string_equal(answer(&r, TRAINER1), "0=done");
    post(&r, TRAINER1, 0, "save 2", "", NULL, TR_UNTIL_ONE);
    assert_string_equal(answer(&r, TRAINER1), "-");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE}, NULL);
    assert_string_equal(answer(&r, TRAINER1), "");
    unmake(&r);
}

TEST(a_post_that_comes_again_is_answered_alike)
{
    rig r = make_running();

    post(&r, TRAINER1, 1, NULL, "all_gather()", "b", TR_UNTIL_ALL);
    post(&r, TRAINER0, 1, NULL, "all_gather()", "a", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER0), "0=a 1=b");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_POST, .seq = r.seq[TRAINER0]}, NULL);
    assert_string_equal(answer(&r, TRAINER0), "0=a 1=b");
    unmake(&r);
}

/* What is waited for comes before a death and after it. */
TEST(the_next_server_has_what_was_posted)
{
    rig r = make_running();

    serve_keeping(&r);
    say_setup(&r, "sync", 5);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    post(&r, TRAINER0, 1, NULL, "all_gather()", "a", TR_UNTIL_ALL);
    serve_again(&r);
    assert_int_equal(tr_server_take_over(r.server), TR_OK);
    post(&r, TRAINER1, 1, NULL, "all_gather()", "b", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "0=a 1=b");
    post(&r, TRAINER0, 1, NULL, "all_gather()", "another", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER0), "0=a 1=b");
    unmake(&r);
}

TEST(a_notice_that_asks_a_training_to_end_is_said_to_all)
{
    rig r = make_running();

    stops(&r, TRAINER0);
    post(&r, TRAINER1, 0, "another", "", "", TR_UNTIL_NOW);
    assert_int_equal(stops(&r, TRAINER0), -1);
    post_stop(&r, TRAINER1, 0, "stop", "", "", TR_UNTIL_NOW, 2);
    assert_int_equal(stops(&r, TRAINER0), 2);
    post_stop(&r, TRAINER0, 0, "late", "", "", TR_UNTIL_NOW, 1);   /* of the training before */
    assert_int_equal(stops(&r, TRAINER0), 2);
    unmake(&r);
}

TEST(the_next_server_says_that_a_training_is_to_end)
{
    rig r = make_running();

    serve_keeping(&r);
    say_setup(&r, "sync", 5);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    post_stop(&r, TRAINER1, 0, "stop", "", "", TR_UNTIL_NOW, 1);
    serve_again(&r);
    assert_int_equal(tr_server_take_over(r.server), TR_OK);
    stops(&r, TRAINER0);
    push_small(&r, TRAINER0, 1, 1.0F);
    assert_int_equal(stops(&r, TRAINER0), 1);
    unmake(&r);
}

static void idle(rig *r, int from, uint64_t step)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = step, .is_idle = true}}, NULL);
}

TEST(trainer_that_waits_during_a_step_of_others_is_told_and_left_out)
{
    rig r = make_running();

    post(&r, TRAINER1, 1, NULL, "barrier()", "b", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "-");
    push_step(&r, TRAINER0, 1, 3.0F);
    assert_string_equal(answer(&r, TRAINER1), "awaited");
    assert_int_equal(applying, 0);
    idle(&r, TRAINER1, 1);
    assert_int_equal(applying, 1);
    assert_float_equal(grad[0][0], 3.0, 0);            /* the mean of one trainer, not of two */
    tr_server_applied(r.server, TR_OK);
    posted_step = 1;
    post(&r, TRAINER1, 1, NULL, "barrier()", NULL, TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "-");
    post(&r, TRAINER0, 1, NULL, "barrier()", "a", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "0=a 1=b");
    posted_step = 0;
    unmake(&r);
}

TEST(a_trainer_whose_turn_is_first_may_leave_its_step_out)
{
    rig r = make_running();

    push_step(&r, TRAINER1, 1, 5.0F);                  /* it waits for the turn of trainer 0 */
    assert_int_equal(applying, 0);
    idle(&r, TRAINER0, 1);
    assert_int_equal(applying, 1);
    assert_float_equal(grad[0][0], 5.0, 0);
    assert_float_equal(grad[1][0], 5.0, 0);
    unmake(&r);
}

TEST(trainer_that_waits_for_a_save_makes_only_the_steps_that_its_author_made_first)
{
    rig r = make_running_with_three("sync");

    post(&r, TRAINER1, 0, "save 1", "save", NULL, TR_UNTIL_ONE);       /* of trainer 0 */
    push_step(&r, TRAINER2, 1, 1.0F);
    assert_string_equal(answer(&r, TRAINER1), "-");    /* trainer 0 may post before its step 1 */
    push_step(&r, TRAINER0, 1, 1.0F);
    assert_string_equal(answer(&r, TRAINER1), "awaited");
    unmake(&r);
}

TEST(trainer_that_waits_before_it_has_joined_is_told_to_join)
{
    const tr_store store = plain_store();
    rig            r = make_of(1, 2, &store);

    say_setup(&r, "async", TR_FP32);
    posts_unjoined = true;
    post(&r, TRAINER1, 1, NULL, "barrier()", "b", TR_UNTIL_ALL);
    assert_string_equal(answer(&r, TRAINER1), "-");
    say_join(&r, TRAINER0);
    assert_string_equal(answer(&r, TRAINER1), "awaited");
    posts_unjoined = false;
    unmake(&r);
}

TEST(in_modes_without_waiting_nobody_is_told_of_a_post)
{
    rig r = make_running_as("async");

    post(&r, TRAINER1, 1, NULL, "barrier()", "b", TR_UNTIL_ALL);
    push_step(&r, TRAINER0, 1, 1.0F);
    assert_string_equal(answer(&r, TRAINER1), "-");
    unmake(&r);
}

TEST(trainers_that_wait_for_each_others_posts_are_named)
{
    rig r = make_running();

    post(&r, TRAINER1, 0, "save 1", "save_params('m')", NULL, TR_UNTIL_ONE);
    post(&r, TRAINER0, 1, NULL, "barrier()", "", TR_UNTIL_ALL);
    EXPECT_REFUSED(
        &r, "trainer 0 waits in barrier() at train.py:7 for trainer 1, trainer 1 waits in save_params('m') at train.py:7 for trainer 0");
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(last_post_lets_all_go_on),
        cmocka_unit_test(another_call_is_refused_with_both),
        cmocka_unit_test(a_trainer_that_leaves_is_not_waited_for),
        cmocka_unit_test(a_notice_is_waited_for_until_its_author_has_left),
        cmocka_unit_test(a_post_that_comes_again_is_answered_alike),
        cmocka_unit_test(the_next_server_has_what_was_posted),
        cmocka_unit_test(a_notice_that_asks_a_training_to_end_is_said_to_all),
        cmocka_unit_test(the_next_server_says_that_a_training_is_to_end),
        cmocka_unit_test(trainer_that_waits_during_a_step_of_others_is_told_and_left_out),
        cmocka_unit_test(a_trainer_whose_turn_is_first_may_leave_its_step_out),
        cmocka_unit_test(trainer_that_waits_for_a_save_makes_only_the_steps_that_its_author_made_first),
        cmocka_unit_test(trainer_that_waits_before_it_has_joined_is_told_to_join),
        cmocka_unit_test(in_modes_without_waiting_nobody_is_told_of_a_post),
        cmocka_unit_test(trainers_that_wait_for_each_others_posts_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
