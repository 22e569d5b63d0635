/* test_client_core.c - one trainer and two servers: what is sent when, what a ticket waits for. */
#include "tests/support/expect.h"

#include "framework/tensors/half.h"
#include "proto/pserver.pb-c.h"
#include "pserver/api/job.h"
#include "pserver/api/job_place.h"
#include "pserver/core/client/client.h"
#include "pserver/transport/comm_state.h"
#include "pserver/wire/rounded.h"
#include "storage/util/little_endian.h"

#include <stdio.h>

enum { TRAINER = 2, CHUNK = 4096, SMALL = 16, LARGE = 3 * CHUNK };
/* Blocks: 0 and 1 are small and on server 0; 2 is large, 3 small, on server 1. */
static const tr_client_block blocks[4] = {{0, SMALL, false}, {0, SMALL, false}, {1, LARGE, false}, {1, SMALL, false}};
static const tr_client_block rounded_blocks[4] = {{0, SMALL, true}, {0, SMALL, false}, {1, LARGE, true}, {1, SMALL, true}};

typedef struct rig {
    tr_roster *roster;
    tr_client *client;
    tr_node    node;
    uint64_t   seq[4];                /* the last that was sent to each server, and to a standby */
} rig;

static int take(rig *r, tr_message *out, int max)
{
    int count = 0;
    while (count < max && r->node.next(r->node.self, &out[count])) {
        r->seq[out[count].peer] = out[count].wire.seq;
        count++;
    }
    return count;
}

static void hear(rig *r, int from, tr_wire wire, void *payload)
{
    wire.incarnation = 1;
    r->node.receive(r->node.self, 1, from, &wire, payload, false);
}

static void acknowledge(rig *r, int from)
{
    hear(r, from, (tr_wire){.kind = TR_WIRE_ACK, .seq = r->seq[from]}, NULL);
}

/* With so many steps of this trainer, from an earlier start; 0: with nothing. */
static void say_serving(rig *r, int server, uint64_t steps)
{
    Trireme__Pserver__Serving serving = TRIREME__PSERVER__SERVING__INIT;
    uint8_t                   packed[32];

    serving.server = (uint32_t)server;
    serving.has_updates = steps > 0;
    serving.updates = steps;
    serving.n_settled = steps > 0;
    serving.settled = &steps;
    hear(r, server, (tr_wire){.kind = TR_WIRE_SERVING, .bytes = trireme__pserver__serving__pack(&serving, packed)}, packed);
}

static rig make_with(const tr_client_block *of, const uint64_t steps[2], uint64_t window, int64_t retry)
{
    const tr_client_options options = {CHUNK, window, retry, 1000};
    tr_client_setup         setups[2] = {{0}};
    tr_message              m[8];
    rig                     r = {.roster = tr_roster_new(TRAINER, 3)};

    for (int i = 0; i < 3; i++)
        tr_roster_put(r.roster, i, i == TRAINER ? TR_ROLE_TRAINER : TR_ROLE_SERVER, 1, 100 + i, "h", "");
    EXPECT_OK(tr_roster_close(r.roster));
    r.client = tr_client_new(r.roster, &options);
    r.node = tr_client_node(r.client);
    for (int s = 0; s < 2; s++) {
        setups[s].join = calloc(1, 1);
        setups[s].join_bytes = 1;
    }
    for (int s = 0; s < 2; s++)
        say_serving(&r, s, steps[s]);
    assert_int_equal(tr_client_done(r.client), 1);
    assert_int_equal(tr_client_setup_all(r.client, setups, 4, of, &(tr_policy){.is_lockstep = false}, true), 2);
    assert_int_equal(take(&r, m, 8), 2);
    acknowledge(&r, 0);
    assert_int_equal(tr_client_done(r.client), 1);
    acknowledge(&r, 1);
    assert_int_equal(tr_client_done(r.client), 2);
    return r;
}

static rig make_ahead(const uint64_t steps[2], uint64_t window, int64_t retry)
{
    return make_with(blocks, steps, window, retry);
}

static rig make(uint64_t window, int64_t retry)
{
    return make_ahead((const uint64_t[2]){0, 0}, window, retry);
}

static void unmake(rig *r)
{
    tr_client_free(r->client);
    tr_roster_free(r->roster);
}

static float memory[LARGE / 4];

TEST(small_pushes_travel_together_large_ones_in_chunks)
{
    rig        r = make(1 << 20, 0);
    tr_message m[8];

    for (uint32_t b = 0; b < 4; b++)
        tr_client_push(r.client, b, memory, 2);
    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 5);
    int many = 0, chunks = 0;
    for (int i = 0; i < 5; i++) {
        many += m[i].wire.kind == TR_WIRE_PUSH_MANY;
        assert_int_equal(tr_wire_step(&m[i].wire), 1);
        if (m[i].wire.kind == TR_WIRE_PUSH) {
            assert_int_equal(m[i].wire.push.offset, chunks * CHUNK);
            assert_ptr_equal(m[i].payload, (char *)memory + chunks * CHUNK);    /* from where it lies */
            chunks++;
        }
    }
    assert_int_equal(many, 2);
    assert_int_equal(chunks, 3);
    unmake(&r);
}

TEST(a_ticket_is_done_when_all_before_it_are)
{
    rig            r = make(1 << 20, 0);
    tr_message     m[8];
    const uint64_t first = tr_client_push(r.client, 2, memory, 1), second = tr_client_push(r.client, 0, memory, 1);

    tr_client_flush(r.client);
    take(&r, m, 8);
    acknowledge(&r, 0);
    assert_int_equal(tr_client_done(r.client), first - 1);
    acknowledge(&r, 1);
    assert_int_equal(tr_client_done(r.client), second);
    unmake(&r);
}

TEST(no_more_than_a_window_is_under_way)
{
    rig        r = make(2 * CHUNK, 0);
    tr_message m[8];

    tr_client_push(r.client, 2, memory, 1);
    assert_int_equal(take(&r, m, 8), 2);
    hear(&r, 1, (tr_wire){.kind = TR_WIRE_ACK, .seq = m[0].wire.seq}, NULL);
    assert_int_equal(take(&r, m, 8), 1);
    assert_int_equal(m[0].wire.push.offset, 2 * CHUNK);
    unmake(&r);
}

/* Of an owner that waits, and of the thread while the owner does not. */
static void expect_receipts_matter(const rig *r, bool to_owner, bool to_thread)
{
    assert_int_equal(r->node.awaits_receipts(r->node.self, true), to_owner);
    assert_int_equal(r->node.awaits_receipts(r->node.self, false), to_thread);
}

TEST(receipts_matter_where_nothing_comes_behind_them)
{
    rig            r = make(2 * CHUNK, 0);
    tr_message     m[8];
    static uint8_t to[SMALL];
    const int      block = 3;
    void *const    at = to;

    expect_receipts_matter(&r, true, false);
    tr_client_push(r.client, 2, memory, 1);
    assert_int_equal(take(&r, m, 8), 2);
    expect_receipts_matter(&r, true, true);                /* a push waits for room */
    hear(&r, 1, (tr_wire){.kind = TR_WIRE_ACK, .seq = m[1].wire.seq}, NULL);
    assert_int_equal(take(&r, m, 8), 1);
    expect_receipts_matter(&r, true, false);
    tr_client_step_end(r.client);
    const uint64_t ticket = tr_client_pull(r.client, 1, &block, &at);
    tr_client_flush(r.client);
    take(&r, m, 8);
    expect_receipts_matter(&r, true, false);               /* server 0 says nothing but that it has the end of the step */
    acknowledge(&r, 0);
    expect_receipts_matter(&r, false, false);
    const uint64_t pull = r.seq[1];
    static uint8_t entry[TR_WIRE_ENTRY + SMALL + 64];
    uint64_t       cursor = TR_WIRE_ENTRY;
    tr_wire_entry_put(entry, 0, &cursor, 1, SMALL);
    hear(&r, 1, (tr_wire){.kind = TR_WIRE_DATA_MANY, .seq = pull, .data_many = {.count = 1}, .bytes = tr_wire_entry_size(SMALL)}, entry);
    expect_receipts_matter(&r, true, false);               /* the answer has overtaken them */
    hear(&r, 1, (tr_wire){.kind = TR_WIRE_ACK, .seq = pull}, NULL);
    assert_int_equal(tr_client_done(r.client), ticket);
    unmake(&r);
}

TEST(a_pull_is_done_when_all_bytes_are_here)
{
    rig            r = make(1 << 20, 0);
    tr_message     m[8];
    static uint8_t to[LARGE], data[CHUNK];
    const int      block = 2;
    void *const    at = to;
    const uint64_t ticket = tr_client_pull(r.client, 1, &block, &at);

    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 1);
    acknowledge(&r, 1);                            /* does not answer a pull */
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(tr_client_done(r.client) < ticket);
        memset(data, (int)i + 1, sizeof data);
        const tr_wire wire = {
            .kind = TR_WIRE_DATA, .seq = m[0].wire.seq, .bytes = CHUNK, .data = {.block = 0, .number = i, .offset = i * CHUNK}};
        hear(&r, 1, wire, data);
        hear(&r, 1, wire, data);                   /* twice is once */
    }
    assert_int_equal(tr_client_done(r.client), ticket);
    assert_int_equal(to[0], 1);
    assert_int_equal(to[LARGE - 1], 3);
    unmake(&r);
}

/* The last piece of a large block may be small: it is not direct, and those after it get their receive buffers before it is received. */
TEST(a_piece_gets_its_receive_buffer_before_a_small_one_in_front_of_it_is_received)
{
    rig            r = make(1 << 20, 0);
    tr_message     m[8];
    static uint8_t to[LARGE];
    uint8_t        data[CHUNK] = {7};
    const int      block = 2;
    void *const    at = to;
    const uint64_t ticket = tr_client_pull(r.client, 1, &block, &at);

    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 1);
    const tr_wire small = {.kind = TR_WIRE_DATA, .incarnation = 1, .seq = m[0].wire.seq, .bytes = CHUNK, .data = {.number = 0}};
    const tr_wire next = {
        .kind = TR_WIRE_DATA, .incarnation = 1, .seq = m[0].wire.seq, .bytes = CHUNK, .data = {.number = 1, .offset = CHUNK}};
    const tr_wire last = {
        .kind = TR_WIRE_DATA, .incarnation = 1, .seq = m[0].wire.seq, .bytes = CHUNK, .data = {.number = 2, .offset = 2 * CHUNK}};
    assert_ptr_equal(r.node.receive_buffer(r.node.self, 1, &next), to + CHUNK);
    assert_null(r.node.receive_buffer(r.node.self, 1, &next));      /* twice is once */
    hear(&r, 1, small, data);
    assert_ptr_equal(r.node.receive_buffer(r.node.self, 1, &last), to + 2 * CHUNK);
    r.node.receive(r.node.self, 1, 1, &next, to + CHUNK, true);
    assert_true(tr_client_done(r.client) < ticket);
    r.node.receive(r.node.self, 1, 1, &last, to + 2 * CHUNK, true);
    assert_int_equal(tr_client_done(r.client), ticket);
    assert_int_equal(to[0], 7);
    unmake(&r);
}

TEST(unanswered_requests_are_sent_again_in_order)
{
    rig        r = make(1 << 20, 100);
    tr_message m[8], again[8];

    r.node.tick(r.node.self, 1000);
    tr_client_push(r.client, 2, memory, 1);
    tr_client_step_end(r.client);
    assert_int_equal(take(&r, m, 8), 5);
    assert_int_equal(r.node.tick(r.node.self, 1050), 1100);
    assert_int_equal(take(&r, again, 8), 0);
    r.node.tick(r.node.self, 1100);
    assert_int_equal(take(&r, again, 8), 5);
    assert_int_equal(again[0].wire.seq, 2);
    for (int i = 0; i < 5; i++)
        free(again[i].owned);
    unmake(&r);
}

/* Chunk `i` of block 2, from a server on which it is 0: all values are i + 1. */
static tr_wire rounded_chunk(uint16_t *data, uint64_t seq, uint32_t i)
{
    const uint64_t all = LARGE / 2, at = (uint64_t)i * CHUNK, bytes = all - at < CHUNK ? all - at : CHUNK;

    for (uint64_t k = 0; k < bytes / 2; k++)
        data[k] = tr_bf16_of_f32((float)(i + 1));
    return (tr_wire){.kind = TR_WIRE_DATA, .seq = seq, .bytes = bytes, .data = {.block = 0, .number = i, .offset = at}};
}

TEST(rounded_parameters_are_widened_as_they_come_and_once)
{
    rig             r = make_with(rounded_blocks, (const uint64_t[2]){0, 0}, 1 << 20, 0);
    tr_message      m[8];
    static float    to[LARGE / 4];
    static uint16_t data[CHUNK / 2];
    const int       block = 2;
    void *const     at = to;
    const uint64_t  ticket = tr_client_pull(r.client, 1, &block, &at);

    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 1);
    assert_int_equal(tr_get_u32(m[0].payload), 0 | TR_ROUNDED_BIT);
    for (uint32_t i = 0; i < 2; i++) {
        assert_true(tr_client_done(r.client) < ticket);
        tr_wire wire = rounded_chunk(data, m[0].wire.seq, i);
        wire.incarnation = 1;
        void *place = i ? r.node.receive_buffer(r.node.self, 1, &wire) : NULL;
        if (place)                                 /* where it belongs, at once */
            memcpy(place, data, wire.bytes);
        r.node.receive(r.node.self, 1, 1, &wire, place ? place : data, place != NULL);
        hear(&r, 1, wire, data);                   /* twice is once */
    }
    assert_int_equal(tr_client_done(r.client), ticket);
    for (int k = 0; k < LARGE / 4; k++)
        assert_true(to[k] == (k < CHUNK / 2 ? 1 : 2));
    unmake(&r);
}

TEST(small_rounded_parameters_come_beside_exact_ones)
{
    rig            r = make_with(rounded_blocks, (const uint64_t[2]){0, 0}, 1 << 20, 0);
    tr_message     m[8];
    static float   to[2][SMALL / 4];
    const int      block[2] = {0, 1};
    void *const    at[2] = {to[0], to[1]};
    const float    x = 1.001f;
    static uint8_t payload[256];
    uint64_t       cursor = 2 * TR_WIRE_ENTRY;

    const uint64_t ticket = tr_client_pull(r.client, 2, block, at);
    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 1);
    assert_int_equal(tr_get_u32(m[0].payload), 0 | TR_ROUNDED_BIT);
    assert_int_equal(tr_get_u32((const uint8_t *)m[0].payload + 4), 1);
    const float floats[SMALL / 4] = {x, x, x, x};
    tr_rounded_make(tr_wire_entry_put(payload, 0, &cursor, 0, SMALL / 2), floats, SMALL);
    memcpy(tr_wire_entry_put(payload, 1, &cursor, 1, SMALL), floats, SMALL);
    hear(&r, 0, (tr_wire){.kind = TR_WIRE_DATA_MANY, .seq = m[0].wire.seq, .bytes = cursor, .data_many = {.count = 2}}, payload);
    assert_int_equal(tr_client_done(r.client), ticket);
    assert_true(to[0][3] == 1 && to[1][3] == x);
    unmake(&r);
}

TEST(a_rounded_block_of_the_wrong_size_is_refused)
{
    const uint64_t wrong[][2] = {{0, LARGE}, {1, 2}, {0, 3}, {LARGE / 2, 2}, {UINT64_MAX - 1, 2}};
    static uint8_t to[LARGE], data[LARGE];
    const int      block = 2;
    void *const    at = to;
    const char    *text = NULL;

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        rig        r = make_with(rounded_blocks, (const uint64_t[2]){0, 0}, 1 << 20, 0);
        tr_message m[8];
        tr_client_pull(r.client, 1, &block, &at);
        tr_client_flush(r.client);
        take(&r, m, 8);
        hear(&r, 1, (tr_wire){.kind = TR_WIRE_DATA, .seq = m[0].wire.seq, .bytes = wrong[i][1], .data = {.offset = wrong[i][0]}}, data);
        assert_int_equal(r.node.status(r.node.self, &text), TR_EFORMAT);
        assert_non_null(strstr(text, "answers with a block that nobody pulled"));
        unmake(&r);
    }
}

TEST(rounded_rows_are_widened_where_they_are_wanted)
{
    rig            r = make(1 << 20, 0);
    tr_message     m[8];
    const int64_t  keys[2] = {3, 4};
    const uint64_t first[3] = {0, 2, 2};
    const float    rows[2][3] = {{1.001f, 2, 3}, {4, 5, 6}};
    float          to[2][3];
    uint16_t       data[6];

    const tr_client_rows call = {.first = first, .keys = keys, .to = (uint8_t *)to, .row_bytes = sizeof rows[0], .is_rounded = true};
    const uint64_t       ticket = tr_client_pull_rows(r.client, &call);
    assert_int_equal(take(&r, m, 8), 0);           /* it waits for those of other tables */
    tr_client_flush(r.client);
    assert_int_equal(take(&r, m, 8), 1);
    assert_true(m[0].wire.pull_rows.is_rounded);
    tr_rounded_make(data, rows, sizeof rows);
    const tr_wire wire = {.kind = TR_WIRE_DATA_ROWS, .seq = m[0].wire.seq, .bytes = sizeof data};
    hear(&r, 0, wire, data);
    hear(&r, 0, wire, data);
    assert_int_equal(tr_client_done(r.client), ticket);
    assert_true(to[0][0] == 1 && to[0][2] == 3 && to[1][0] == 4 && to[1][2] == 6);
    unmake(&r);
}

TEST(a_block_that_nobody_pulled_is_refused)
{
    rig            r = make(1 << 20, 0);
    tr_message     m[8];
    static uint8_t to[SMALL], data[CHUNK];
    const int      block = 3;
    void *const    at = to;
    const char    *text = NULL;

    tr_client_pull(r.client, 1, &block, &at);
    tr_client_flush(r.client);
    take(&r, m, 8);
    hear(&r, 1, (tr_wire){.kind = TR_WIRE_DATA, .seq = m[0].wire.seq, .bytes = CHUNK, .data = {.block = 1, .offset = 8}}, data);
    assert_int_equal(r.node.status(r.node.self, &text), TR_EFORMAT);
    assert_non_null(strstr(text, "answers with a block that nobody pulled"));
    unmake(&r);
}

TEST(a_death_says_what_was_waited_for)
{
    rig            r = make(1 << 20, 0);
    static uint8_t to[SMALL];
    const int      block = 3;
    void *const    at = to;
    tr_message     m[8];
    const char    *text = NULL;

    tr_client_pull(r.client, 1, &block, &at);
    tr_client_flush(r.client);
    take(&r, m, 8);
    r.node.lost(r.node.self, 1, "died");
    assert_int_equal(r.node.status(r.node.self, &text), TR_EPEER);
    assert_string_equal(text, "rank 1 (server 1, host h, pid 101) died; rank 2 (trainer 0, host h, pid 102) was waiting for "
                              "its parameters of step 0 from server 1");
    unmake(&r);
}

static uint8_t *pack_place(void *self, size_t *size, uint64_t step)
{
    (void)self;
    *size = 5;
    return memcpy(malloc(5), step == 0 ? "place" : "wrong", 5);
}

/* Servers remember it for checkpoints. */
TEST(standby_in_a_servers_place_is_told_the_last_position_of_a_trainer_that_has_left)
{
    enum { STANDBY = 3 };
    const tr_client_options   options = {CHUNK, 1 << 20, 0, 1000};
    tr_client_setup           setups[2] = {{0}};
    Trireme__Pserver__Serving serving = TRIREME__PSERVER__SERVING__INIT;
    uint8_t                   packed[32];
    uint64_t                  settled = 0;
    tr_message                m[8];
    const char               *text;
    rig                       r = {.roster = tr_roster_new(TRAINER, 4)};

    for (int i = 0; i < 4; i++)
        tr_roster_put(r.roster, i,
                      i == TRAINER   ? TR_ROLE_TRAINER
                      : i == STANDBY ? TR_ROLE_STANDBY
                                     : TR_ROLE_SERVER,
                      1, 100 + i, "h", "one");
    EXPECT_OK(tr_roster_close(r.roster));
    r.client = tr_client_new(r.roster, &options);
    r.node = tr_client_node(r.client);
    tr_client_set_place(r.client, pack_place, NULL);
    for (int s = 0; s < 2; s++) {
        setups[s].join = calloc(1, 1);
        setups[s].join_bytes = 1;
        say_serving(&r, s, 0);
    }
    tr_client_setup_all(r.client, setups, 4, blocks, &(tr_policy){.is_lockstep = true}, true);
    const uint64_t left = tr_client_goodbye(r.client);
    assert_int_equal(take(&r, m, 8), 4);
    acknowledge(&r, 0);
    acknowledge(&r, 1);
    assert_int_equal(tr_client_done(r.client), left);

    r.node.lost(r.node.self, 1, "died");
    tr_roster_replace_server(r.roster, 1, STANDBY);
    serving.server = 1;
    serving.has_updates = true;
    serving.n_settled = 1;
    serving.settled = &settled;
    hear(&r, STANDBY, (tr_wire){.kind = TR_WIRE_SERVING, .bytes = trireme__pserver__serving__pack(&serving, packed)}, packed);
    assert_int_equal(take(&r, m, 8), 1);
    assert_true(m[0].peer == STANDBY && m[0].wire.kind == TR_WIRE_GOODBYE && m[0].wire.bytes == 5 && m[0].wire.seq == 1);
    assert_memory_equal(m[0].payload, "place", 5);
    acknowledge(&r, STANDBY);
    assert_int_equal(take(&r, m, 8), 0);
    assert_int_equal(r.node.status(r.node.self, &text), TR_OK);
    unmake(&r);
}

static void make_step(rig *r)
{
    for (uint32_t b = 0; b < 4; b++)
        tr_client_push(r->client, b, memory, 1);
    tr_client_step_end(r->client);
}

/* The script says where the next step leads before the communication thread has told servers of the end of the last one. */
TEST(a_trainers_place_is_that_behind_the_steps_that_servers_have)
{
    rig                     r = make(1 << 20, 0);
    tr_comm                 comm = {.roster = r.roster};
    tr_job                  job = {.rank = {.role = TR_ROLE_TRAINER, .comm = &comm}};
    const tr_trainer_state  one = {.steps = 101, .runs = 201, .position = "one", .position_size = 3};
    const tr_trainer_state  two = {.steps = 102, .runs = 202, .position = "two", .position_size = 3};
    tr_message              m[16];

    job.place = tr__place_new(&job.rank);
    tr__place_watch(job.place, r.client);
    EXPECT_OK(tr_job_set_place(&job, &one));
    make_step(&r);
    job.step++;
    EXPECT_OK(tr_job_set_place(&job, &two));
    take(&r, m, 16);
    tr_client_goodbye(r.client);
    assert_int_equal(take(&r, m, 16), 2);
    assert_int_equal(m[0].wire.kind, TR_WIRE_GOODBYE);
    Trireme__Pserver__Snapshot *snapshot = trireme__pserver__snapshot__unpack(NULL, m[0].wire.bytes, m[0].payload);
    assert_true(snapshot->place->steps == 101 && snapshot->place->runs == 201 && snapshot->place->position.len == 3);
    assert_memory_equal(snapshot->place->position.data, "one", 3);
    trireme__pserver__snapshot__free_unpacked(snapshot, NULL);
    unmake(&r);
    tr__place_free(job.place);
}

static void request(rig *r, tr_wire_kind kind)
{
    tr_client_task_request(r->client, &(tr_client_task){.wire = {.kind = kind}, .is_first = kind == TR_WIRE_TASKS});
}

TEST(an_ended_task_is_reported_when_every_server_has_it)
{
    rig        r = make(1 << 20, 0);
    tr_message m[16];

    make_step(&r);
    take(&r, m, 16);
    request(&r, TR_WIRE_TASK_END);
    assert_int_equal(take(&r, m, 16), 1);
    assert_false(m[0].wire.task_end.has_failed);
    acknowledge(&r, 0);
    assert_int_equal(take(&r, m, 16), 0);
    acknowledge(&r, 1);
    assert_int_equal(take(&r, m, 16), 1);
    assert_int_equal(m[0].wire.kind, TR_WIRE_SETTLED);
    assert_int_equal(m[0].wire.settled.everywhere, 1);
    unmake(&r);
}

TEST(trainer_with_tasks_leaves_server_0_when_every_server_has_its_steps)
{
    rig        r = make(1 << 20, 0);
    tr_message m[16];

    request(&r, TR_WIRE_TASKS);
    make_step(&r);
    take(&r, m, 16);
    const uint64_t ticket = tr_client_goodbye(r.client);
    assert_int_equal(take(&r, m, 16), 1);
    assert_int_equal(m[0].peer, 1);
    acknowledge(&r, 1);
    assert_int_equal(take(&r, m, 16), 0);
    acknowledge(&r, 0);
    assert_int_equal(take(&r, m, 16), 1);
    assert_int_equal(m[0].peer, 0);
    assert_int_equal(m[0].wire.kind, TR_WIRE_GOODBYE);
    assert_true(tr_client_done(r.client) < ticket);
    acknowledge(&r, 0);
    assert_int_equal(tr_client_done(r.client), ticket);
    unmake(&r);
}

/* Server 0 has step 3 of the process before this one. */
TEST(a_step_that_one_server_alone_has_is_left_out_before_tasks_begin)
{
    rig        r = make_ahead((const uint64_t[2]){3, 2}, 1 << 20, 0);
    tr_message m[16];

    assert_int_equal(tr_client_step(r.client), 2);
    request(&r, TR_WIRE_TASKS);
    assert_int_equal(tr_client_step(r.client), 3);
    assert_int_equal(take(&r, m, 16), 1);
    assert_int_equal(m[0].peer, 1);
    assert_int_equal(m[0].wire.kind, TR_WIRE_STEP_END);
    assert_int_equal(m[0].wire.step_end.step, 3);
    assert_true(m[0].wire.step_end.is_idle);
    acknowledge(&r, 1);
    assert_int_equal(take(&r, m, 16), 1);
    assert_int_equal(m[0].peer, 0);
    assert_int_equal(m[0].wire.kind, TR_WIRE_TASKS);
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_pushes_travel_together_large_ones_in_chunks),
        cmocka_unit_test(a_ticket_is_done_when_all_before_it_are),
        cmocka_unit_test(no_more_than_a_window_is_under_way),
        cmocka_unit_test(receipts_matter_where_nothing_comes_behind_them),
        cmocka_unit_test(a_pull_is_done_when_all_bytes_are_here),
        cmocka_unit_test(a_piece_gets_its_receive_buffer_before_a_small_one_in_front_of_it_is_received),
        cmocka_unit_test(unanswered_requests_are_sent_again_in_order),
        cmocka_unit_test(rounded_parameters_are_widened_as_they_come_and_once),
        cmocka_unit_test(small_rounded_parameters_come_beside_exact_ones),
        cmocka_unit_test(a_rounded_block_of_the_wrong_size_is_refused),
        cmocka_unit_test(rounded_rows_are_widened_where_they_are_wanted),
        cmocka_unit_test(a_block_that_nobody_pulled_is_refused),
        cmocka_unit_test(a_death_says_what_was_waited_for),
        cmocka_unit_test(standby_in_a_servers_place_is_told_the_last_position_of_a_trainer_that_has_left),
        cmocka_unit_test(a_trainers_place_is_that_behind_the_steps_that_servers_have),
        cmocka_unit_test(an_ended_task_is_reported_when_every_server_has_it),
        cmocka_unit_test(trainer_with_tasks_leaves_server_0_when_every_server_has_its_steps),
        cmocka_unit_test(a_step_that_one_server_alone_has_is_left_out_before_tasks_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
