/* test_server_core.c - one server, two trainers, messages by hand: what is taken, what waits, what is refused. */
#include "tests/support/server_rig.h"

#include "framework/tensors/half.h"
#include "pserver/core/updates/server_state.h"
#include "pserver/wire/compress.h"
#include "pserver/wire/rounded.h"
#include "storage/util/little_endian.h"

TEST(the_mean_waits_for_all_and_is_taken_in_trainer_order)
{
    rig r = make_running();

    push_step(&r, TRAINER1, 1, 3);                 /* too early: trainer 0 comes first */
    assert_int_equal(applying, 0);
    push_step(&r, TRAINER0, 1, 1);
    assert_int_equal(applying, 1);
    for (int i = 0; i < 4; i++)
        assert_true(grad[0][i] == 2);
    for (int i = 0; i < 2048; i++)
        assert_true(grad[1][i] == 2);
    unmake(&r);
}

TEST(a_part_is_acknowledged_when_it_is_summed)
{
    rig r = make_running();

    take_ack(&r, TRAINER1, NULL);
    push_large(&r, TRAINER1, 1, 0, 1);
    assert_int_equal(take_ack(&r, TRAINER1, NULL), 1);          /* its join */
    push_large(&r, TRAINER0, 1, 0, 1);
    assert_int_equal(take_ack(&r, TRAINER1, NULL), 2);
    unmake(&r);
}

TEST(a_repeated_request_is_taken_once_and_acknowledged_again)
{
    rig         r = make_running();
    const float data[CHUNK / 4] = {5};

    push_large(&r, TRAINER0, 1, 0, 1);
    take_ack(&r, TRAINER0, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH, .seq = 3, .bytes = CHUNK, .push = {.step = 1, .block = 1, .weight = 1}}, data);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 3);
    push_large(&r, TRAINER0, 1, 1, 1);
    push_small(&r, TRAINER0, 1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1}}, NULL);
    push_step(&r, TRAINER1, 1, 1);
    assert_true(grad[1][0] == 1);
    unmake(&r);
}

TEST(a_request_whose_predecessor_is_missing_is_dropped)
{
    rig r = make_running();

    take_ack(&r, TRAINER0, NULL);
    r.seq[TRAINER0]++;
    push_large(&r, TRAINER0, 1, 0, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), -1);
    r.seq[TRAINER0] -= 2;
    push_large(&r, TRAINER0, 1, 0, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 3);
    unmake(&r);
}

TEST(a_pull_waits_for_its_step)
{
    rig r = make_running();
    int data = 0;

    push_step(&r, TRAINER0, 1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL, .bytes = 8, .pull = {.step = 1}}, "\1\0\0\0\0\0\0\0");
    push_step(&r, TRAINER1, 1, 1);
    take_ack(&r, TRAINER0, &data);
    assert_int_equal(data, 0);
    tr_server_applied(r.server, TR_OK);
    take_ack(&r, TRAINER0, &data);
    assert_int_equal(data, 3);                     /* two chunks, one small block */
    assert_int_equal(r.server->updates, 1);
    unmake(&r);
}

/* Blocks 1 (large) and 0 (small) in bfloat16, as of step 0. */
static void pull_rounded(rig *r, int from)
{
    uint8_t asked[8];

    tr_put_u32(asked, 1 | TR_ROUNDED_BIT);
    tr_put_u32(asked + 4, 0 | TR_ROUNDED_BIT);
    say(r, from, (tr_wire){.kind = TR_WIRE_PULL, .bytes = 8}, asked);
}

TEST(a_pull_in_bfloat16_is_answered_in_half_the_bytes_from_one_copy)
{
    rig         r = make_running();
    tr_message  m;
    const void *large[2] = {NULL, NULL};
    uint64_t    bytes[2] = {0, 0};

    for (int i = 0; i < 2048; i++)
        param[1][i] = 1 + (float)i / 2048;
    param[0][0] = 1.001f;
    pull_rounded(&r, TRAINER0);
    pull_rounded(&r, TRAINER1);
    while (r.node.next(r.node.self, &m)) {
        const int who = m.peer - TRAINER0;
        if (m.wire.kind == TR_WIRE_DATA) {
            bytes[who] += m.wire.bytes;
            large[who] = m.wire.data.offset ? large[who] : m.payload;
            for (uint64_t i = 0; i < m.wire.bytes / 2; i++)
                assert_int_equal(((const uint16_t *)m.payload)[i], tr_bf16_of_f32(param[1][m.wire.data.offset / 2 + i]));
        } else if (m.wire.kind == TR_WIRE_DATA_MANY) {
            assert_int_equal(m.wire.bytes, tr_wire_entry_size(8));
        }
        tr_message_over(&m);
    }
    assert_int_equal(bytes[0], 4096);
    assert_int_equal(bytes[1], 4096);
    assert_ptr_equal(large[0], large[1]);
    unmake(&r);
}

TEST(parameters_of_other_types_are_not_answered_in_bfloat16)
{
    rig r = make();

    say_setup(&r, "sync", TR_FP64);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    pull_rounded(&r, TRAINER0);
    EXPECT_REFUSED(&r, "pulls a block that does not exist, or one in bfloat16 that is not float32");
    unmake(&r);
}

TEST(the_others_go_on_without_a_trainer_that_says_goodbye)
{
    rig r = make_running();

    push_step(&r, TRAINER0, 1, 4);
    assert_int_equal(applying, 0);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_GOODBYE}, NULL);
    assert_int_equal(applying, 1);
    assert_true(grad[1][0] == 4);
    tr_server_applied(r.server, TR_OK);
    assert_false(tr_server_is_done(r.server));
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE, .leave = {.step = 1}}, NULL);
    assert_true(tr_server_is_done(r.server));
    unmake(&r);
}

TEST(an_old_incarnation_is_told_and_not_used)
{
    rig        r = make_running();
    tr_message m;
    bool       is_told = false;

    take_ack(&r, TRAINER0, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .incarnation = 7, .step_end = {.step = 1}}, NULL);
    while (r.node.next(r.node.self, &m)) {
        is_told |= m.peer == TRAINER0 && m.wire.kind == TR_WIRE_REPLACED;
        tr_message_over(&m);
    }
    assert_true(is_told);
    const char *text;
    assert_int_equal(status_of(&r, &text), TR_OK);
    unmake(&r);
}

TEST(mistakes_are_refused_by_name)
{
    rig r = make_running();
    push_large(&r, TRAINER0, 1, 0, 1);
    push_large(&r, TRAINER0, 1, 0, 1);
    EXPECT_REFUSED(&r, "rank 1 (trainer 0, host h, pid 101) pushed 'w@GRAD' twice in step 1");
    unmake(&r);
    r = make_running();
    push_large(&r, TRAINER0, 1, 0, 1);
    push_large(&r, TRAINER0, 1, 1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1}}, NULL);
    EXPECT_REFUSED(&r, "ended step 1 without the gradient 'b@GRAD'");
    unmake(&r);
    r = make_running();
    push_large(&r, TRAINER0, 2, 0, 1);
    EXPECT_REFUSED(&r, "sent PUSH for step 2 instead of 1");
    unmake(&r);
    r = make_running();
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH, .bytes = 8, .push = {.step = 1, .block = 1, .offset = 64}}, "12345678");
    EXPECT_REFUSED(&r, "pushed 8 bytes at 64 of block 1, which is no piece of one");
    unmake(&r);
    r = make_running();
    push_large(&r, TRAINER0, 1, 0, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE}, NULL);
    EXPECT_REFUSED(&r, "said goodbye in the middle of step 1");
    unmake(&r);
    r = make();
    push_large(&r, TRAINER0, 1, 0, 1);
    EXPECT_REFUSED(&r, "sent PUSH before all trainers had agreed on the work");
    unmake(&r);
    r = make();
    say_setup(&r, "bsp", TR_FP32);
    EXPECT_REFUSED(&r, "mode 'bsp'; possible are sync, sync(degraded), sync(backups=N), async,");
    unmake(&r);
    r = make();
    say_setup(&r, "sync", TR_INT32);
    EXPECT_REFUSED(&r, "gradient 'b@GRAD' is int32; float32 and float64 can be summed");
    unmake(&r);
}

/* Chunk `chunk` of block 1, compressed; `bytes` less than it has. */
static void push_compressed(rig *r, int from, int chunk, const char *method, float value, uint64_t bytes)
{
    float         data[CHUNK / 4], residual[CHUNK / 4] = {0};
    uint8_t       payload[2 * CHUNK];
    tr_compress   c;

    EXPECT_OK(tr_compress_parse(&c, method));
    for (int i = 0; i < CHUNK / 4; i++)
        data[i] = value;
    bytes = tr_compress_encode(&c, payload, data, residual, CHUNK / 4) - bytes;
    say(r, from,
        (tr_wire){.kind = TR_WIRE_PUSH_COMPRESSED,
                  .bytes = bytes,
                  .push = {.step = 1, .block = 1, .offset = (uint64_t)chunk * CHUNK, .weight = 1}},
        payload);
}

static rig make_compressed(const char *method)
{
    rig r = make();
    say_setup_compressed(&r, "sync", TR_FP32, method);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

TEST(compressed_gradients_are_decoded_in_trainer_order_beside_others)
{
    rig r = make_compressed("int8");

    push_compressed(&r, TRAINER1, 0, "int8", 127, 0);
    push_compressed(&r, TRAINER1, 1, "int8", 254, 0);
    push_small(&r, TRAINER1, 1, 3);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1}}, NULL);
    push_compressed(&r, TRAINER0, 0, "int8", -127, 0);
    push_large(&r, TRAINER0, 1, 1, 1);
    push_small(&r, TRAINER0, 1, 1);
    assert_int_equal(applying, 0);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step_end = {.step = 1}}, NULL);
    assert_int_equal(applying, 1);
    assert_true(grad[1][0] == 0 && grad[1][CHUNK / 4] == 127.5f && grad[0][0] == 2);
    unmake(&r);
}

TEST(bad_compressed_gradients_are_refused_by_name)
{
    rig r = make_compressed("int8");
    push_compressed(&r, TRAINER0, 0, "int8", 1, 7);
    EXPECT_REFUSED(&r, "1029 bytes for 1024 values by int8, which take 1036");
    EXPECT_REFUSED(&r, "while rank 1 (trainer 0, host h, pid 101) pushed 'w@GRAD' at 0");
    unmake(&r);
    r = make_compressed("fp16");
    push_compressed(&r, TRAINER0, 1, "int8", 1, 0);
    EXPECT_REFUSED(&r, "by int8, the job's compression is fp16");
    unmake(&r);
    r = make_running();
    push_compressed(&r, TRAINER0, 1, "int8", 1, 0);
    EXPECT_REFUSED(&r, "'w@GRAD' travels as it is");
    unmake(&r);
    r = make_compressed("int8");
    push_compressed(&r, TRAINER0, 2, "int8", 1, 0);
    EXPECT_REFUSED(&r, "at 8192 of block 1, which is no piece of one");
    unmake(&r);
    r = make();
    say_setup_compressed(&r, "sync", TR_FP32, "zip");
    EXPECT_REFUSED(&r, "compression 'zip'; possible are none");
    unmake(&r);
}

TEST(an_optimizer_that_fails_ends_the_job_with_its_text)
{
    rig r = make_running();

    push_step(&r, TRAINER0, 1, 1);
    push_step(&r, TRAINER1, 1, 1);
    tr_fail(TR_ENAN, "sgd: a value is not finite");
    tr_server_applied(r.server, TR_ENAN);
    EXPECT_REFUSED(&r, "sgd: a value is not finite");
    EXPECT_REFUSED(&r, "while rank 0 (server 0, host h, pid 100) applied update 1");
    unmake(&r);
}

TEST(a_death_says_what_was_waited_for)
{
    rig r = make_running();

    push_step(&r, TRAINER0, 1, 1);
    lose(&r, TRAINER1);
    EXPECT_REFUSED(&r, "rank 2 (trainer 1, host h, pid 102) died; rank 0 (server 0, host h, pid 100) was waiting for the "
                       "gradients of step 1 of trainer 1");
    unmake(&r);
}

TEST(the_end_of_a_step_is_acknowledged_when_it_is_applied)
{
    rig r = make_running();

    push_step(&r, TRAINER0, 1, 1);
    push_step(&r, TRAINER1, 1, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 5);          /* setup, join, three pushes */
    assert_int_equal(committed, 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(committed, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 6);
    unmake(&r);
}

static void applied_at(rig *r, int64_t when)
{
    tr_server_tell_time(r->server, when);
    tr_server_applied(r->server, TR_OK);
}

static void expect_times(const rig *r, int trainer, int64_t late, int64_t kept, int64_t held)
{
    const tr_peer_meter *m = tr_server_peer_meter(r->server, trainer);

    assert_int_equal(tr_counter_get(&m->late), late);
    assert_int_equal(tr_counter_get(&m->kept), kept);
    assert_int_equal(tr_counter_get(&m->held), held);
}

TEST(late_trainer_keeps_the_others_gradients_waiting)
{
    rig r = make_running();

    now = 1000;
    push_step(&r, TRAINER1, 1, 1);
    now = 4000;
    push_step(&r, TRAINER0, 1, 1);
    expect_times(&r, 0, 3000, 0, 0);
    expect_times(&r, 1, 0, 3000, 0);
    applied_at(&r, 4500);
    now = 5000;
    push_step(&r, TRAINER0, 2, 1);
    now = 5100;
    push_step(&r, TRAINER1, 2, 1);
    expect_times(&r, 0, 3000, 100, 0);
    expect_times(&r, 1, 100, 3000, 0);
    assert_int_equal(tr_counter_get(&tr_server_peer_meter(r.server, 1)->steps), 2);
    unmake(&r);
}

TEST(in_mode_async_a_gradient_waits_while_another_is_applied)
{
    rig r = make_running_as("async");

    now = 1000;
    push_step(&r, TRAINER1, 1, 1);
    now = 1200;
    push_step(&r, TRAINER0, 1, 1);
    applied_at(&r, 1700);
    applied_at(&r, 2000);
    expect_times(&r, 0, 0, 500, 0);
    expect_times(&r, 1, 0, 0, 0);
    unmake(&r);
}

TEST(in_mode_ssp_it_is_known_how_long_the_fastest_was_held)
{
    rig r = make_running_as("ssp(1)");

    now = 1000;
    push_step(&r, TRAINER0, 1, 1);
    applied_at(&r, 1100);
    push_step(&r, TRAINER0, 2, 1);
    pull(&r, TRAINER0, 2);                         /* before its own step is applied, which it waits for at first */
    applied_at(&r, 1300);
    now = 2000;
    push_step(&r, TRAINER1, 1, 1);
    applied_at(&r, 2100);
    assert_int_equal(answers(&r, TRAINER0), 3);
    expect_times(&r, 0, 0, 0, 2100 - 1300);
    unmake(&r);
}

/* Two servers and a trainer; ours is server 0. */
static rig make_two_servers(void)
{
    const tr_store store = plain_store();
    return make_of(2, 1, &store);
}

TEST(servers_share_what_they_have_in_an_update)
{
    rig        r = make_two_servers();
    tr_message sent;
    char       all[2][4];

    tr_server_share(r.server, "own", 4, all);
    while (r.node.next(r.node.self, &sent) && sent.wire.kind != TR_WIRE_SHARE)
        tr_message_over(&sent);
    assert_int_equal(sent.wire.kind, TR_WIRE_SHARE);
    assert_int_equal(sent.peer, 1);
    assert_memory_equal(sent.payload, "own", 4);
    tr_message_over(&sent);
    assert_int_equal(tr_server_shared(r.server), 0);
    const tr_wire wire = {.kind = TR_WIRE_SHARE, .incarnation = 1, .bytes = 4, .share = {.number = sent.wire.share.number}};
    uint8_t      *place = r.node.receive_buffer(r.node.self, 1, &wire);
    memcpy(place, "two", 4);
    r.node.receive(r.node.self, 0, 1, &wire, place, true);
    assert_int_equal(tr_server_shared(r.server), 1);
    assert_memory_equal(all, "own\0two", 8);
    unmake(&r);
}

TEST(a_server_that_dies_while_others_wait_for_its_share_is_named)
{
    rig         r = make_two_servers();
    char        all[2][4];
    const char *text;

    tr_server_share(r.server, "own", 4, all);
    lose(&r, 1);
    assert_int_equal(r.node.status(r.node.self, &text), TR_EPEER);
    assert_non_null(strstr(text, "(server 1, host h, pid 101) died; "));
    assert_non_null(strstr(text, "was waiting for the sums of update 1 of server 1"));
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_step_is_acknowledged_when_it_is_applied),
        cmocka_unit_test(late_trainer_keeps_the_others_gradients_waiting),
        cmocka_unit_test(in_mode_async_a_gradient_waits_while_another_is_applied),
        cmocka_unit_test(in_mode_ssp_it_is_known_how_long_the_fastest_was_held),
        cmocka_unit_test(the_mean_waits_for_all_and_is_taken_in_trainer_order),
        cmocka_unit_test(a_part_is_acknowledged_when_it_is_summed),
        cmocka_unit_test(a_repeated_request_is_taken_once_and_acknowledged_again),
        cmocka_unit_test(a_request_whose_predecessor_is_missing_is_dropped),
        cmocka_unit_test(a_pull_waits_for_its_step),
        cmocka_unit_test(a_pull_in_bfloat16_is_answered_in_half_the_bytes_from_one_copy),
        cmocka_unit_test(parameters_of_other_types_are_not_answered_in_bfloat16),
        cmocka_unit_test(the_others_go_on_without_a_trainer_that_says_goodbye),
        cmocka_unit_test(an_old_incarnation_is_told_and_not_used),
        cmocka_unit_test(mistakes_are_refused_by_name),
        cmocka_unit_test(compressed_gradients_are_decoded_in_trainer_order_beside_others),
        cmocka_unit_test(bad_compressed_gradients_are_refused_by_name),
        cmocka_unit_test(an_optimizer_that_fails_ends_the_job_with_its_text),
        cmocka_unit_test(a_death_says_what_was_waited_for),
        cmocka_unit_test(servers_share_what_they_have_in_an_update),
        cmocka_unit_test(a_server_that_dies_while_others_wait_for_its_share_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
