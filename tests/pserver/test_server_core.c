/* test_server_core.c - one server, two trainers, messages by hand: what is taken, what waits, what is refused. */
#include "tests/support/expect.h"

#include "pserver/compress.h"
#include "pserver/mode.h"
#include "pserver/server.h"
#include "pserver/trireme_tasks.h"

#include <stdio.h>

enum { SERVER, TRAINER0, TRAINER1, CHUNK = 4096 };

static float  param[2][2048], grad[2][2048];
static uint64_t applying, committed;
static double   compensation;
static bool     took_part[2];
static int64_t  now;                  /* of the messages that come */

typedef struct rig {
    tr_roster *roster;
    tr_server *server;
    tr_node    node;
    uint64_t   seq[3];
} rig;

static bool nothing_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    (void)commit;
    (void)packed;
    (void)bytes;
    return false;
}

static tr_status set_up(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    (void)self;
    (void)packed;
    (void)bytes;
    assert_false(resume);
    assert_int_equal(setup->n_blocks, 2);
    return TR_OK;
}

static void *value_of(void *self, uint32_t index) { (void)self; return param[index]; }
static tr_status ready(void *self) { (void)self; return TR_OK; }

static void begin_apply(void *self, const tr_update *update)
{
    (void)self;
    applying = update->number;
    compensation = update->pulled ? update->compensation : 0;
    memcpy(grad[0], update->grad[0], 16);
    memcpy(grad[1], update->grad[1], 8192);
    for (int i = 0; i < 2; i++)
        took_part[i] = update->takes_part[i];
}

static void commit(void *self, const tr_commit *commit, bool is_update)
{
    (void)self;
    (void)is_update;
    committed = commit->updates;
}

static void go_back(void *self) { (void)self; }

static rig make(void)
{
    const tr_store store = {NULL, nothing_kept, set_up, value_of, ready, value_of, begin_apply, commit, go_back};
    rig            r = {.roster = tr_roster_new(SERVER, 3)};

    memset(param, 0, sizeof param);
    memset(grad, 0xff, sizeof grad);
    applying = 0;
    now = 0;
    for (int i = 0; i < 3; i++)
        tr_roster_put(r.roster, i, i == SERVER ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    r.server = tr_server_new(r.roster, &store);
    r.node = tr_server_node(r.server);
    return r;
}

static void unmake(rig *r)
{
    tr_server_free(r->server);
    tr_roster_free(r->roster);
}

static void say(rig *r, int from, tr_wire wire, const void *payload)
{
    uint8_t *copy = aligned_alloc(64, (wire.bytes + 63) / 64 * 64 + 64);

    memcpy(copy, payload ? payload : "", wire.bytes);
    wire.epoch = wire.epoch ? wire.epoch : 1;
    wire.seq = wire.seq ? wire.seq : ++r->seq[from];
    r->node.receive(r->node.self, now, from, &wire, copy, false);
    free(copy);
}

static void say_setup_compressed(rig *r, const char *mode, uint32_t dtype, const char *compress)
{
    Trireme__Pserver__Setup  setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Block  block[2], *blocks[2] = {&block[0], &block[1]};
    uint8_t                  packed[512];

    for (int i = 0; i < 2; i++) {
        trireme__pserver__block__init(&block[i]);
        block[i].param = (char *)(i ? "w" : "b");
        block[i].grad = (char *)(i ? "w@GRAD" : "b@GRAD");
        block[i].dtype = dtype;
        block[i].bytes = i ? 8192 : 16;
    }
    setup.mode = (char *)(uintptr_t)mode;
    setup.compress = (char *)(uintptr_t)compress;
    setup.chunk_bytes = CHUNK;
    setup.n_blocks = 2;
    setup.blocks = blocks;
    const size_t size = trireme__pserver__setup__pack(&setup, packed);
    say(r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = size}, packed);
}

static void say_setup(rig *r, const char *mode, uint32_t dtype)
{
    say_setup_compressed(r, mode, dtype, NULL);
}

static void say_join(rig *r, int from)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_JOIN}, NULL);
}

static rig make_running_as(const char *mode)
{
    rig r = make();
    say_setup(&r, mode, TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

static rig make_running(void)
{
    return make_running_as("sync");
}

/* Chunk `chunk` of block 1, all of it `value`; block 0 in a PUSH_MANY. */
static void push_large(rig *r, int from, uint64_t step, int chunk, float value)
{
    float data[CHUNK / 4];
    for (int i = 0; i < CHUNK / 4; i++)
        data[i] = value;
    say(r, from, (tr_wire){.kind = TR_WIRE_PUSH, .step = step, .block = 1, .offset = (uint64_t)chunk * CHUNK, .bytes = CHUNK,
                           .weight = 1}, data);
}

static void push_small(rig *r, int from, uint64_t step, float value)
{
    const float data[4] = {value, value, value, value};
    uint8_t     payload[64];
    uint64_t    cursor = TR_WIRE_ENTRY;

    memcpy(tr_wire_entry_put(payload, 0, &cursor, 0, 16), data, 16);
    say(r, from, (tr_wire){.kind = TR_WIRE_PUSH_MANY, .step = step, .block = 1, .bytes = cursor, .weight = 1}, payload);
}

static void push_step(rig *r, int from, uint64_t step, float value)
{
    push_large(r, from, step, 1, value);
    push_small(r, from, step, value);
    push_large(r, from, step, 0, value);
    say(r, from, (tr_wire){.kind = TR_WIRE_STEP_END, .step = step}, NULL);
}

static tr_status status_of(const rig *r, const char **text)
{
    return r->node.status(r->node.self, text);
}

#define EXPECT_REFUSED(rig_, text_)                                  \
    do {                                                             \
        const char *why = NULL;                                      \
        assert_int_not_equal(status_of(rig_, &why), TR_OK);          \
        if (!strstr(why, text_))                                     \
            fail_msg("\"%s\" does not say \"%s\"", why, text_);      \
    } while (0)

/* The last acknowledgement that a trainer gets now; -1: none. */
static int64_t take_ack(rig *r, int to, int *data)
{
    tr_message m;
    int64_t    seq = -1;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_ACK)
            seq = (int64_t)m.wire.seq;
        if (data && m.peer == to && (m.wire.kind == TR_WIRE_DATA || m.wire.kind == TR_WIRE_DATA_MANY))
            ++*data;
        free(m.owned);
    }
    return seq;
}

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
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH, .seq = 3, .step = 1, .block = 1, .bytes = CHUNK, .weight = 1}, data);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 3);
    push_large(&r, TRAINER0, 1, 1, 1);
    push_small(&r, TRAINER0, 1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step = 1}, NULL);
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
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL, .step = 1, .bytes = 8}, "\1\0\0\0\0\0\0\0");
    push_step(&r, TRAINER1, 1, 1);
    take_ack(&r, TRAINER0, &data);
    assert_int_equal(data, 0);
    tr_server_applied(r.server, TR_OK);
    take_ack(&r, TRAINER0, &data);
    assert_int_equal(data, 3);                     /* two chunks, one small block */
    assert_int_equal(tr_server_step(r.server), 1);
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
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE, .step = 1}, NULL);
    assert_true(tr_server_is_done(r.server));
    unmake(&r);
}

TEST(an_old_epoch_is_told_and_not_used)
{
    rig        r = make_running();
    tr_message m;
    bool       is_told = false;

    take_ack(&r, TRAINER0, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .epoch = 7, .step = 1}, NULL);
    while (r.node.next(r.node.self, &m)) {
        is_told |= m.peer == TRAINER0 && m.wire.kind == TR_WIRE_REFUSED;
        free(m.owned);
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
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step = 1}, NULL);
    EXPECT_REFUSED(&r, "ended step 1 without the gradient 'b@GRAD'");
    unmake(&r);
    r = make_running();
    push_large(&r, TRAINER0, 2, 0, 1);
    EXPECT_REFUSED(&r, "sent PUSH for step 2 instead of 1");
    unmake(&r);
    r = make_running();
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH, .step = 1, .block = 1, .offset = 64, .bytes = 8}, "12345678");
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
    EXPECT_REFUSED(&r, "mode 'bsp'; possible are sync, sync(fewer), sync(backups=N), async,");
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
    say(r, from, (tr_wire){.kind = TR_WIRE_PUSH_COMPRESSED, .step = 1, .block = 1, .offset = (uint64_t)chunk * CHUNK,
                           .bytes = bytes, .weight = 1}, payload);
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
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_STEP_END, .step = 1}, NULL);
    push_compressed(&r, TRAINER0, 0, "int8", -127, 0);
    push_large(&r, TRAINER0, 1, 1, 1);
    push_small(&r, TRAINER0, 1, 1);
    assert_int_equal(applying, 0);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step = 1}, NULL);
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
    r.node.lost(r.node.self, TRAINER1, "died");
    EXPECT_REFUSED(&r, "rank 2 (trainer 1, host h, pid 102) died; rank 0 (server 0, host h, pid 100) was waiting for the "
                       "gradients of step 1 of trainer 1");
    unmake(&r);
}

static void pull(rig *r, int from, uint64_t step)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_PULL, .step = step, .bytes = 8}, "\1\0\0\0\0\0\0\0");
}

static int answers(rig *r, int to)
{
    int data = 0;
    take_ack(r, to, &data);
    return data;
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

TEST(who_is_late_lets_the_others_gradients_lie)
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

TEST(in_mode_async_a_gradient_lies_while_another_is_applied)
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

TEST(in_mode_async_each_trainers_step_is_an_update)
{
    rig          r = make_running_as("async");
    tr_job_stats stats;

    pull(&r, TRAINER0, 0);
    pull(&r, TRAINER1, 0);
    push_step(&r, TRAINER1, 1, 3);
    assert_int_equal(applying, 1);
    assert_true(took_part[1] && !took_part[0]);
    assert_true(grad[1][2047] == 3);
    push_step(&r, TRAINER0, 1, 5);                 /* waits until the first is applied */
    pull(&r, TRAINER0, 1);
    assert_true(grad[1][0] == 3);
    assert_int_equal(answers(&r, TRAINER0), 3);    /* of its first pull */
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(applying, 2);
    assert_true(grad[1][0] == 5 && grad[0][3] == 5);
    assert_int_equal(answers(&r, TRAINER0), 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(answers(&r, TRAINER0), 3);
    tr_server_stats(r.server, &stats);
    assert_int_equal(stats.staleness[0], 1);
    assert_int_equal(stats.staleness[1], 1);       /* one update came between */
    unmake(&r);
}

TEST(in_mode_ssp_the_fastest_waits_for_the_slowest)
{
    rig r = make_running_as("ssp(1)");

    for (uint64_t step = 1; step <= 2; step++) {
        push_step(&r, TRAINER0, step, 1);
        tr_server_applied(r.server, TR_OK);
        pull(&r, TRAINER0, step);
        assert_int_equal(answers(&r, TRAINER0), step == 1 ? 3 : 0);
    }
    push_step(&r, TRAINER1, 1, 1);
    assert_int_equal(answers(&r, TRAINER0), 0);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(answers(&r, TRAINER0), 3);
    unmake(&r);
}

TEST(with_backups_the_late_gradient_is_dropped)
{
    rig          r = make_running_as("sync(backups=1)");
    tr_job_stats stats;

    pull(&r, TRAINER0, 0);
    pull(&r, TRAINER1, 0);
    push_step(&r, TRAINER1, 1, 3);
    assert_int_equal(applying, 1);
    assert_true(grad[1][0] == 3);
    push_large(&r, TRAINER0, 1, 0, 9);
    tr_server_applied(r.server, TR_OK);
    push_large(&r, TRAINER0, 1, 1, 9);
    push_small(&r, TRAINER0, 1, 9);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_STEP_END, .step = 1}, NULL);
    assert_int_equal(applying, 1);
    assert_int_equal(take_ack(&r, TRAINER0, NULL), 7);          /* setup, join, pull, three pushes, the end: all settled */
    pull(&r, TRAINER0, 1);
    assert_int_equal(answers(&r, TRAINER0), 3);
    push_step(&r, TRAINER0, 2, 7);                 /* it has the newest parameters now */
    assert_int_equal(applying, 2);
    assert_true(grad[1][0] == 7);
    tr_server_stats(r.server, &stats);
    assert_int_equal(stats.dropped, 1);
    unmake(&r);
}

TEST(a_compensated_gradient_comes_with_what_it_was_computed_with)
{
    rig r = make_running_as("async(compensation=0.5)");

    push_step(&r, TRAINER0, 1, 1);
    assert_true(compensation == 0.5);
    unmake(&r);
}

TEST(where_trainers_are_apart_a_death_interrupts_nobody)
{
    static const char *const modes[] = {"async", "ssp(0)", "geo(4)", "sync(backups=1)"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        rig         r = make_running_as(modes[i]);
        const char *text;
        push_large(&r, TRAINER1, 1, 0, 9);
        push_step(&r, TRAINER0, 1, 2);
        tr_server_applied(r.server, TR_OK);
        pull(&r, TRAINER0, 1);
        r.node.lost(r.node.self, TRAINER1, "died");
        assert_int_equal(status_of(&r, &text), TR_OK);
        assert_int_equal(answers(&r, TRAINER0), 3);
        push_step(&r, TRAINER0, 2, 4);
        assert_int_equal(applying, 2);
        assert_true(grad[1][0] == 4);
        tr_server_applied(r.server, TR_OK);
        push_large(&r, TRAINER1, 1, 1, 9);         /* it was only thought dead: its epoch is over */
        assert_int_equal(status_of(&r, &text), TR_OK);
        say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_GOODBYE, .step = 2}, NULL);
        assert_true(tr_server_is_done(r.server));
        unmake(&r);
    }
}

TEST(modes_are_read_and_mistakes_in_them_explained)
{
    tr_mode mode;

    EXPECT_OK(tr_mode_parse(&mode, "ssp(3)"));
    assert_true(mode.kind == TR_MODE_SSP && mode.count == 3);
    EXPECT_OK(tr_mode_parse(&mode, "sync(backups=2)"));
    assert_true(mode.kind == TR_MODE_SYNC && mode.count == 2);
    EXPECT_OK(tr_mode_parse(&mode, "async(compensation=0.25)"));
    assert_true(mode.kind == TR_MODE_ASYNC && mode.compensation == 0.25);
    EXPECT_OK(tr_mode_parse(&mode, "geo(10)"));
    assert_true(mode.kind == TR_MODE_GEO && mode.count == 10);
    EXPECT_FAIL(TR_EINVAL, "ssp needs a number", tr_mode_parse(&mode, "ssp"));
    EXPECT_FAIL(TR_EINVAL, "possible are sync", tr_mode_parse(&mode, "asynch"));
    EXPECT_FAIL(TR_EINVAL, "sync takes backups=NUMBER", tr_mode_parse(&mode, "sync(2)"));
    EXPECT_FAIL(TR_ERANGE, "a whole number from 1", tr_mode_parse(&mode, "geo(0)"));
    EXPECT_FAIL(TR_ERANGE, "a whole number", tr_mode_parse(&mode, "ssp(1.5)"));
    EXPECT_FAIL(TR_EINVAL, "')' must stand", tr_mode_parse(&mode, "geo(3"));
}

/* -- rows of sparse tables ------------------------------------------------------------------------------- */

enum { WIDTH = 2 };

/* A server with one table of two float32 a row, whose row of key k is {k, k}; no blocks. */
static void rows_of(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out)
{
    float *rows = out;

    (void)self;
    assert_int_equal(index, 0);
    for (int64_t i = 0; i < n; i++)
        rows[2 * i] = rows[2 * i + 1] = (float)keys[i];
}

static tr_rows_update told;
static tr_rows_part   told_part[8];

static void begin_rows(void *self, const tr_update *update)
{
    (void)self;
    applying = update->number;
    told = update->rows[0];
    memcpy(told_part, told.part, (size_t)told.count * sizeof *told.part);
}

static tr_status set_up_rows(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    (void)self;
    (void)packed;
    (void)bytes;
    (void)resume;
    assert_int_equal(setup->n_tables, 1);
    return TR_OK;
}

static rig make_with_table(const char *mode)
{
    const tr_store          store = {NULL, nothing_kept, set_up_rows, value_of, ready, value_of, begin_rows, commit, go_back,
                                     rows_of};
    Trireme__Pserver__Setup setup = TRIREME__PSERVER__SETUP__INIT;
    Trireme__Pserver__Table table = TRIREME__PSERVER__TABLE__INIT, *tables = &table;
    uint8_t                 packed[512];
    rig                     r = make();

    tr_server_free(r.server);
    r.server = tr_server_new(r.roster, &store);
    r.node = tr_server_node(r.server);
    table.name = (char *)"t";
    table.dtype = TR_FP32;
    table.width = WIDTH;
    table.shard_count = 1024;
    setup.mode = (char *)(uintptr_t)mode;
    setup.chunk_bytes = CHUNK;
    setup.n_tables = 1;
    setup.tables = &tables;
    const size_t size = trireme__pserver__setup__pack(&setup, packed);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = size}, packed);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    return r;
}

/* Piece `part` of `parts`: one row, {value, value} of key `key`. */
static void push_row(rig *r, int from, uint64_t step, uint32_t part, uint32_t parts, int64_t key, float value)
{
    uint8_t     payload[16];
    const float row[WIDTH] = {value, value};

    memcpy(payload, &key, 8);
    memcpy(payload + 8, row, 8);
    say(r, from, (tr_wire){.kind = TR_WIRE_PUSH_ROWS, .step = step, .part = part, .offset = parts, .bytes = 16, .weight = from}, payload);
}

static void end_step(rig *r, int from, uint64_t step)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_STEP_END, .step = step}, NULL);
}

/* The keys of the row answers that a trainer gets now, as one number in decimal. */
static int take_rows(rig *r, int to)
{
    tr_message m;
    int        got = 0;

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_DATA_ROWS)
            for (uint64_t i = 0; i < m.wire.bytes / 8; i++)
                got = got * 10 + (int)((const float *)m.payload)[2 * i];
        free(m.owned);
    }
    return got;
}

TEST(rows_of_all_trainers_are_listed_in_their_order)
{
    rig r = make_with_table("sync");

    push_row(&r, TRAINER1, 1, 0, 2, 7, 1);
    push_row(&r, TRAINER1, 1, 1, 2, -7, 2);
    end_step(&r, TRAINER1, 1);
    assert_int_equal(applying, 0);
    push_row(&r, TRAINER0, 1, 0, 1, 7, 3);
    end_step(&r, TRAINER0, 1);
    assert_int_equal(applying, 1);
    assert_int_equal(told.count, 3);
    const int64_t keys[] = {7, 7, -7};
    const float   values[] = {3, 1, 2};
    for (int i = 0; i < 3; i++) {
        assert_int_equal(told_part[i].trainer, i > 0);
        assert_int_equal(told_part[i].count, 1);
        assert_true(told_part[i].keys[0] == keys[i] && told_part[i].values[1] == values[i]);
        assert_true(told_part[i].weight == (i > 0 ? TRAINER1 : TRAINER0));
    }
    tr_server_applied(r.server, TR_OK);
    push_row(&r, TRAINER0, 2, 0, 1, 1, 1);
    push_row(&r, TRAINER1, 2, 0, 1, 2, 2);
    end_step(&r, TRAINER0, 2);
    end_step(&r, TRAINER1, 2);
    assert_int_equal(told.count, 2);
    unmake(&r);
}

TEST(alone_each_trainer_updates_rows_with_its_own)
{
    rig r = make_with_table("async");

    push_row(&r, TRAINER1, 1, 0, 1, 5, 1);
    end_step(&r, TRAINER1, 1);
    assert_int_equal(applying, 1);
    assert_int_equal(told.count, 1);
    push_row(&r, TRAINER0, 1, 0, 1, 6, 1);
    end_step(&r, TRAINER0, 1);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(told.count, 1);
    assert_true(told_part[0].trainer == 0 && told_part[0].keys[0] == 6);
    tr_server_applied(r.server, TR_OK);
    unmake(&r);
}

TEST(rows_leave_between_updates_and_not_during_one)
{
    const int64_t keys[] = {3, 4};
    rig           r = make_with_table("async");
    tr_wire       pull = {.kind = TR_WIRE_PULL_ROWS, .bytes = 16};

    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 34);
    pull.seq = r.seq[TRAINER0];                    /* the answer was lost */
    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 34);
    push_row(&r, TRAINER1, 1, 0, 1, 5, 1);
    end_step(&r, TRAINER1, 1);
    pull.seq = 0;
    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 0);
    pull.seq = r.seq[TRAINER0];                    /* asked again while it waits: one answer */
    say(&r, TRAINER0, pull, keys);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(take_rows(&r, TRAINER0), 34);
    unmake(&r);
}

TEST(mistakes_with_rows_are_refused_by_name)
{
    rig r = make_with_table("sync");
    end_step(&r, TRAINER0, 1);
    EXPECT_REFUSED(&r, "ended step 1 without the gradient 't'");
    unmake(&r);
    r = make_with_table("sync");
    push_row(&r, TRAINER0, 1, 1, 2, 7, 1);
    EXPECT_REFUSED(&r, "piece 1 of 2 of rows of 't', of which 0 came");
    unmake(&r);
    r = make_with_table("sync");
    push_row(&r, TRAINER0, 1, 0, 1, 7, 1);
    push_row(&r, TRAINER0, 1, 0, 1, 7, 1);
    EXPECT_REFUSED(&r, "pushed rows of 't' twice in step 1");
    unmake(&r);
    r = make_with_table("sync");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH_ROWS, .step = 1, .offset = 1, .bytes = 12}, "123456789abc");
    EXPECT_REFUSED(&r, "12 bytes to table 't', which are no rows of 2 values");
    unmake(&r);
    r = make_with_table("sync");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL_ROWS, .block = 1, .bytes = 8}, "12345678");
    EXPECT_REFUSED(&r, "keys from table 1; there are 1 tables");
    unmake(&r);
}

/* The task that a trainer is given now; nothing else may be told to it. */
static tr_wire take_task(rig *r, int to)
{
    tr_message m;
    tr_wire    task = {.kind = TR_WIRE_NONE};

    while (r->node.next(r->node.self, &m)) {
        if (m.peer == to && m.wire.kind == TR_WIRE_TASK)
            task = m.wire;
        free(m.owned);
    }
    return task;
}

static void say_tasks(rig *r, int from, uint64_t digest)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASKS, .block = 2, .part = 1, .offset = digest, .weight = 10}, NULL);
}

TEST(tasks_are_handed_out_and_a_question_that_comes_again_is_answered_alike)
{
    rig r = make_running_as("async");

    say_tasks(&r, TRAINER0, 9);
    say_tasks(&r, TRAINER1, 9);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    const tr_wire task = take_task(&r, TRAINER1);
    assert_int_equal(task.kind, TR_WIRE_TASK);
    assert_int_equal(task.part, TR_TASK_GIVEN);
    assert_int_equal(task.seq, r.seq[TRAINER1]);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .seq = r.seq[TRAINER1]}, NULL);
    const tr_wire again = take_task(&r, TRAINER1);
    assert_int_equal(again.block, task.block);
    assert_int_equal(again.offset, task.offset);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    assert_int_not_equal(take_task(&r, TRAINER0).block, task.block);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .block = 1}, NULL);
    assert_int_equal(take_task(&r, TRAINER0).part, TR_TASK_WAIT);
    say(&r, TRAINER1, (tr_wire){.kind = TR_WIRE_TASK_ASK, .part = 1}, NULL);
    assert_int_equal(take_task(&r, TRAINER1).part, TR_TASK_WAIT);

    r.node.lost(r.node.self, TRAINER1, "died");            /* its task is the other's */
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .block = 1}, NULL);
    const tr_wire last = take_task(&r, TRAINER0);
    assert_int_equal(last.block, task.block);
    for (uint64_t lease = 1; lease <= last.offset; lease++)
        say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_END, .offset = lease}, NULL);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK, .part = 1}, NULL);
    assert_int_equal(take_task(&r, TRAINER0).part, TR_TASK_END);
    unmake(&r);
}

static tr_wire ask(rig *r, int from, uint32_t held)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASK_ASK, .block = held}, NULL);
    return take_task(r, from);
}

static void end_task(rig *r, int from, uint64_t lease)
{
    say(r, from, (tr_wire){.kind = TR_WIRE_TASK_END, .offset = lease}, NULL);
}

/* A step of mode async that is applied at once. */
static void make_step(rig *r, int from, uint64_t step)
{
    push_step(r, from, step, 1);
    tr_server_applied(r->server, TR_OK);
}

TEST(what_a_dead_trainer_made_of_its_task_is_left_out)
{
    rig r = make_running_as("async");

    say_tasks(&r, TRAINER0, 9);
    const uint64_t first = ask(&r, TRAINER1, 0).offset;
    const tr_wire  second = ask(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    end_task(&r, TRAINER1, first);
    make_step(&r, TRAINER1, 3);
    make_step(&r, TRAINER1, 4);
    push_step(&r, TRAINER1, 5, 1);                         /* ended, if not applied yet: it counts */
    r.node.lost(r.node.self, TRAINER1, "died");
    const tr_wire task = ask(&r, TRAINER0, 0);
    assert_int_equal(task.block, second.block);
    assert_true(task.weight == 3);
    unmake(&r);
}

/* -- what is kept of tasks: a server, and another one behind it ------------------------------------------- */

static uint8_t  kept_setup[512];
static size_t   kept_setup_bytes;
static uint64_t kept_settled[2], kept_updates;
static uint8_t  kept_trainer[2];
static uint8_t *kept_tasks;
static uint64_t kept_tasks_bytes;

static bool something_kept(void *self, tr_commit *commit, const void **packed, uint64_t *bytes)
{
    (void)self;
    *commit = (tr_commit){kept_updates, kept_settled, kept_trainer};
    *packed = kept_setup;
    *bytes = kept_setup_bytes;
    return kept_setup_bytes > 0;
}

static tr_status set_up_kept(void *self, const Trireme__Pserver__Setup *setup, const void *packed, uint64_t bytes, bool resume)
{
    (void)self;
    (void)setup;
    (void)resume;
    memmove(kept_setup, packed, bytes);
    kept_setup_bytes = bytes;
    return TR_OK;
}

static void commit_kept(void *self, const tr_commit *commit, bool is_update)
{
    (void)self;
    (void)is_update;
    kept_updates = commit->updates;
    memcpy(kept_settled, commit->settled, sizeof kept_settled);
    memcpy(kept_trainer, commit->trainer, sizeof kept_trainer);
}

static void *keep_tasks(void *self, uint64_t *bytes)
{
    (void)self;
    if (*bytes) {
        free(kept_tasks);
        kept_tasks = calloc(1, *bytes);
        kept_tasks_bytes = *bytes;
    }
    *bytes = kept_tasks ? kept_tasks_bytes : 0;
    return kept_tasks;
}

static void renew(rig *r)
{
    const tr_store store = {.kept = something_kept, .setup = set_up_kept, .value = value_of, .ready = ready, .param = value_of,
                            .apply = begin_apply, .commit = commit_kept, .go_back = go_back, .tasks = keep_tasks};

    tr_server_free(r->server);
    r->server = tr_server_new(r->roster, &store);
    r->node = tr_server_node(r->server);
    memset(r->seq, 0, sizeof r->seq);
}

TEST(who_takes_a_servers_place_knows_its_tasks)
{
    rig r = make();

    kept_setup_bytes = 0;
    renew(&r);
    say_setup(&r, "async", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .block = 4, .part = 1, .offset = 9, .weight = 10}, NULL);
    const tr_wire one = ask(&r, TRAINER1, 0), two = ask(&r, TRAINER1, 1), other = ask(&r, TRAINER0, 0);
    make_step(&r, TRAINER1, 1);
    make_step(&r, TRAINER1, 2);
    end_task(&r, TRAINER1, one.offset);
    make_step(&r, TRAINER1, 3);
    push_step(&r, TRAINER1, 4, 1);                         /* not applied when it dies; nor does its task end then */
    end_task(&r, TRAINER1, two.offset);

    renew(&r);
    EXPECT_OK(tr_server_take_over(r.server));
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .block = 4, .part = 1, .offset = 9, .weight = 10}, NULL);
    assert_int_equal(ask(&r, TRAINER0, 0).offset, other.offset);       /* the answer was lost: the same again */
    make_step(&r, TRAINER1, 4);
    end_task(&r, TRAINER1, two.offset);
    const tr_wire last = ask(&r, TRAINER1, 0);
    assert_int_equal(last.part, TR_TASK_GIVEN);
    assert_true(last.block != one.block && last.block != two.block && last.block != other.block && last.weight == 0);
    make_step(&r, TRAINER1, 5);

    renew(&r);                                             /* the job is started again: nobody has a task */
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_SETUP, .bytes = kept_setup_bytes, .part = 1, .step = 5}, kept_setup);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASKS, .block = 4, .part = 1, .offset = 9, .weight = 10}, NULL);
    const tr_wire a = ask(&r, TRAINER0, 0), b = ask(&r, TRAINER0, 1);
    assert_true(a.block + b.block == other.block + last.block && a.block != b.block);
    assert_true((a.block == last.block ? a : b).weight == 1 && (a.block == last.block ? b : a).weight == 0);
    assert_int_equal(ask(&r, TRAINER0, 2).part, TR_TASK_WAIT);
    end_task(&r, TRAINER0, a.offset);
    end_task(&r, TRAINER0, b.offset);
    assert_int_equal(ask(&r, TRAINER1, 0).part, TR_TASK_END);
    unmake(&r);
    free(kept_tasks);
    kept_tasks = NULL;
}

/* Between the death of the one before and this. */
TEST(who_takes_a_servers_place_sees_which_trainers_have_died)
{
    rig r = make();

    kept_setup_bytes = 0;
    renew(&r);
    say_setup(&r, "sync", TR_FP32);
    say_join(&r, TRAINER0);
    say_join(&r, TRAINER1);
    renew(&r);
    r.roster->rank[TRAINER1].is_dead = true;
    EXPECT_FAIL(TR_EPEER, "trainer 1", tr_server_take_over(r.server));
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
    EXPECT_REFUSED(&r, "which need mode async or geo");
    unmake(&r);

    r = make_running_as("async");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_TASK_ASK}, NULL);
    EXPECT_REFUSED(&r, "sent TASK_ASK before it said what the tasks are");
    unmake(&r);
}

/* Two servers and a trainer; ours is server 0. */
static rig make_two_servers(void)
{
    const tr_store store = {NULL, nothing_kept, set_up, value_of, ready, value_of, begin_apply, commit, go_back};
    rig            r = {.roster = tr_roster_new(0, 3)};

    for (int i = 0; i < 3; i++)
        tr_roster_put(r.roster, i, i < 2 ? TR_ROLE_SERVER : TR_ROLE_TRAINER, 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    r.server = tr_server_new(r.roster, &store);
    r.node = tr_server_node(r.server);
    return r;
}

TEST(servers_share_what_they_have_in_an_update)
{
    rig        r = make_two_servers();
    tr_message sent;
    char       all[2][4];

    tr_server_share(r.server, "own", 4, all);
    while (r.node.next(r.node.self, &sent) && sent.wire.kind != TR_WIRE_SHARE)
        free(sent.owned);
    assert_int_equal(sent.wire.kind, TR_WIRE_SHARE);
    assert_int_equal(sent.peer, 1);
    assert_memory_equal(sent.payload, "own", 4);
    free(sent.owned);
    assert_int_equal(tr_server_shared(r.server), 0);
    const tr_wire wire = {.kind = TR_WIRE_SHARE, .epoch = 1, .seq = sent.wire.seq, .bytes = 4};
    uint8_t      *place = r.node.place(r.node.self, 1, &wire);
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
    r.node.lost(r.node.self, 1, "died");
    assert_int_equal(r.node.status(r.node.self, &text), TR_EPEER);
    assert_non_null(strstr(text, "(server 1, host h, pid 101) died; "));
    assert_non_null(strstr(text, "was waiting for the sums of update 1 of server 1"));
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_end_of_a_step_is_acknowledged_when_it_is_applied),
        cmocka_unit_test(who_is_late_lets_the_others_gradients_lie),
        cmocka_unit_test(in_mode_async_a_gradient_lies_while_another_is_applied),
        cmocka_unit_test(in_mode_ssp_it_is_known_how_long_the_fastest_was_held),
        cmocka_unit_test(in_mode_async_each_trainers_step_is_an_update),
        cmocka_unit_test(in_mode_ssp_the_fastest_waits_for_the_slowest),
        cmocka_unit_test(with_backups_the_late_gradient_is_dropped),
        cmocka_unit_test(a_compensated_gradient_comes_with_what_it_was_computed_with),
        cmocka_unit_test(where_trainers_are_apart_a_death_interrupts_nobody),
        cmocka_unit_test(modes_are_read_and_mistakes_in_them_explained),
        cmocka_unit_test(the_mean_waits_for_all_and_is_taken_in_trainer_order),
        cmocka_unit_test(a_part_is_acknowledged_when_it_is_summed),
        cmocka_unit_test(a_repeated_request_is_taken_once_and_acknowledged_again),
        cmocka_unit_test(a_request_whose_predecessor_is_missing_is_dropped),
        cmocka_unit_test(a_pull_waits_for_its_step),
        cmocka_unit_test(the_others_go_on_without_a_trainer_that_says_goodbye),
        cmocka_unit_test(an_old_epoch_is_told_and_not_used),
        cmocka_unit_test(mistakes_are_refused_by_name),
        cmocka_unit_test(compressed_gradients_are_decoded_in_trainer_order_beside_others),
        cmocka_unit_test(bad_compressed_gradients_are_refused_by_name),
        cmocka_unit_test(an_optimizer_that_fails_ends_the_job_with_its_text),
        cmocka_unit_test(a_death_says_what_was_waited_for),
        cmocka_unit_test(rows_of_all_trainers_are_listed_in_their_order),
        cmocka_unit_test(alone_each_trainer_updates_rows_with_its_own),
        cmocka_unit_test(rows_leave_between_updates_and_not_during_one),
        cmocka_unit_test(mistakes_with_rows_are_refused_by_name),
        cmocka_unit_test(tasks_are_handed_out_and_a_question_that_comes_again_is_answered_alike),
        cmocka_unit_test(what_a_dead_trainer_made_of_its_task_is_left_out),
        cmocka_unit_test(who_takes_a_servers_place_knows_its_tasks),
        cmocka_unit_test(who_takes_a_servers_place_sees_which_trainers_have_died),
        cmocka_unit_test(tasks_that_differ_or_cannot_be_leased_are_refused),
        cmocka_unit_test(servers_share_what_they_have_in_an_update),
        cmocka_unit_test(a_server_that_dies_while_others_wait_for_its_share_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
