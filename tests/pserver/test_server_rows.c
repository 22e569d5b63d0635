/* test_server_rows.c - one server with a table, two trainers, messages by hand: rows in and out. */
#include "tests/support/server_rig.h"

#include "framework/tensors/half.h"
#include "pserver/core/updates/server_rows.h"

enum { WIDTH = TABLE_WIDTH, HINT = 1000 };

/* A server with one table of two float32 a row, whose row of key k is {k, k} in slot k + HINT; no blocks. */
static tr_status rows_of(void *self, uint32_t index, const int64_t *keys, int64_t n, void *out, uint32_t *hints)
{
    float *rows = out;

    (void)self;
    assert_int_equal(index, 0);
    for (int64_t i = 0; i < n; i++) {
        rows[2 * i] = rows[2 * i + 1] = (float)keys[i];
        hints[i] = (uint32_t)keys[i] + HINT;
    }
    return TR_OK;
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

static int64_t expected[4], expected_count;

static tr_status expect_rows(void *self, uint32_t index, const int64_t *keys, int64_t n)
{
    (void)self;
    assert_int_equal(index, 0);
    memcpy(expected, keys, (size_t)n * sizeof *keys);
    expected_count += n;
    return TR_OK;
}

static rig make_with_rows(const char *mode)
{
    tr_store store = plain_store();

    store.apply = begin_rows;
    store.rows = rows_of;
    store.expect_rows = expect_rows;
    rig r = make_with_table(&store, mode);
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
    say(r, from,
        (tr_wire){.kind = TR_WIRE_PUSH_ROWS, .bytes = 16, .push_rows = {.step = step, .piece = part, .pieces = parts, .weight = from}},
        payload);
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
        tr_message_over(&m);
    }
    return got;
}

TEST(rows_of_all_trainers_are_listed_in_their_order)
{
    rig r = make_with_rows("sync");

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
    rig r = make_with_rows("async");

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
    rig           r = make_with_rows("async");
    tr_wire       pull = {.kind = TR_WIRE_PULL_ROWS, .bytes = 16};

    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 34);
    pull.seq = r.seq[TRAINER0];                    /* the answer was lost */
    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 34);
    pull.pull_rows.table = 1;                                /* what comes again is not what it was: nobody looks at it */
    say(&r, TRAINER0, pull, keys);
    assert_int_equal(take_rows(&r, TRAINER0), 0);
    pull.pull_rows.table = 0;
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

TEST(a_server_hears_which_rows_come_and_forgets_it_during_an_update)
{
    const int64_t keys[] = {3, 4};
    rig           r = make_with_rows("async");

    expected_count = 0;
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_EXPECT_ROWS, .bytes = 16}, keys);
    assert_int_equal(expected_count, 2);
    assert_memory_equal(expected, keys, sizeof keys);
    assert_int_equal(take_rows(&r, TRAINER0), 0);
    push_row(&r, TRAINER1, 1, 0, 1, 5, 1);
    end_step(&r, TRAINER1, 1);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_EXPECT_ROWS, .bytes = 16}, keys);
    tr_server_applied(r.server, TR_OK);
    assert_int_equal(expected_count, 2);
    unmake(&r);
}

TEST(rows_leave_rounded_when_they_are_asked_for_so)
{
    const int64_t keys[] = {257, 4};               /* 257 has nine bits */
    rig           r = make_with_rows("async");
    tr_message    m;
    int           answers_seen = 0;

    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL_ROWS, .bytes = 16, .pull_rows = {.is_rounded = 1}}, keys);
    while (r.node.next(r.node.self, &m)) {
        if (m.wire.kind == TR_WIRE_DATA_ROWS) {
            const uint16_t *row = m.payload;
            assert_int_equal(m.wire.bytes, 8);
            assert_true(tr_f32_of_bf16(row[0]) == 256 && tr_f32_of_bf16(row[3]) == 4);
            answers_seen++;
        }
        tr_message_over(&m);
    }
    assert_int_equal(answers_seen, 1);
    unmake(&r);
}

static void push_two(rig *r, uint64_t step, const int64_t *keys)
{
    uint8_t payload[32] = {0};

    memcpy(payload, keys, 16);
    say(r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH_ROWS, .bytes = 32, .push_rows = {.step = step, .pieces = 1, .weight = 1}}, payload);
    end_step(r, TRAINER0, step);
}

TEST(gradients_of_rows_that_were_pulled_come_with_their_places)
{
    const int64_t keys[] = {3, 4}, turned[] = {4, 3};
    rig           r = make_with_rows("async");

    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL_ROWS, .bytes = 16}, keys);
    push_row(&r, TRAINER0, 1, 0, 2, 3, 1);             /* in pieces */
    push_row(&r, TRAINER0, 1, 1, 2, 4, 1);
    end_step(&r, TRAINER0, 1);
    assert_int_equal(told.count, 2);
    assert_true(told_part[0].hints[0] == 3 + HINT && told_part[1].hints[0] == 4 + HINT);
    tr_server_applied(r.server, TR_OK);
    push_two(&r, 2, keys);                             /* of the same pull */
    assert_true(told.count == 1 && told_part[0].hints[0] == 3 + HINT && told_part[0].hints[1] == 4 + HINT);
    tr_server_applied(r.server, TR_OK);
    push_two(&r, 3, turned);
    assert_true(told.count == 1 && !told_part[0].hints);
    unmake(&r);
}

/* `count` keys, and as many rows of gradient of them, in messages that end at each of `pull_ends` and of `push_ends`. */
static void pull_and_push(rig *r, uint64_t step, const int64_t *keys, const int *pull_ends, const int *push_ends, int count)
{
    for (int at = 0; at < count; at = *pull_ends++)
        say(r, TRAINER0,
            (tr_wire){.kind = TR_WIRE_PULL_ROWS,
                      .bytes = 8 * (uint64_t)(*pull_ends - at),
                      .pull_rows = {.step = step - 1, .before = (uint64_t)at}},
            keys + at);
    int pieces = 1;
    while (push_ends[pieces - 1] != count)
        pieces++;
    for (int at = 0, part = 0; part < pieces; at = push_ends[part++]) {
        const int n = push_ends[part] - at;
        uint8_t   payload[128] = {0};
        memcpy(payload, keys + at, 8 * (size_t)n);
        say(r, TRAINER0,
            (tr_wire){.kind = TR_WIRE_PUSH_ROWS,
                      .bytes = 16 * (uint64_t)n,
                      .push_rows = {.step = step, .piece = (uint32_t)part, .pieces = (uint64_t)pieces, .weight = 1}},
            payload);
    }
    end_step(r, TRAINER0, step);
}

static int hinted(void)
{
    int count = 0;

    for (int i = 0; i < told.count; i++)
        for (int64_t k = 0; told_part[i].hints && k < told_part[i].count; k++)
            count += told_part[i].hints[k] == (uint32_t)told_part[i].keys[k] + HINT;
    return count;
}

TEST(places_are_known_however_pull_and_push_are_cut_into_messages)
{
    const int64_t keys[] = {3, 4, 5, 6, 7, 8};
    rig           r = make_with_rows("async");

    pull_and_push(&r, 1, keys, (int[]){4, 6}, (int[]){3, 6}, 6);
    assert_int_equal(hinted(), 6);
    tr_server_applied(r.server, TR_OK);
    pull_and_push(&r, 2, keys, (int[]){1, 2, 6}, (int[]){6}, 6);
    assert_int_equal(hinted(), 6);
    tr_server_applied(r.server, TR_OK);
    pull_and_push(&r, 3, keys, (int[]){6}, (int[]){1, 2, 5, 6}, 6);
    assert_int_equal(hinted(), 6);
    tr_server_applied(r.server, TR_OK);
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL_ROWS, .bytes = 16, .pull_rows = {.step = 3, .before = 2}}, keys + 2);   /* the first half was answered elsewhere */
    push_two(&r, 4, keys + 2);
    assert_int_equal(hinted(), 0);
    unmake(&r);
}

TEST(mistakes_with_rows_are_refused_by_name)
{
    rig r = make_with_rows("sync");
    end_step(&r, TRAINER0, 1);
    EXPECT_REFUSED(&r, "ended step 1 without the gradient 't'");
    unmake(&r);
    r = make_with_rows("sync");
    push_row(&r, TRAINER0, 1, 1, 2, 7, 1);
    EXPECT_REFUSED(&r, "piece 1 of 2 of rows of 't', of which 0 came");
    unmake(&r);
    r = make_with_rows("sync");
    push_row(&r, TRAINER0, 1, 0, 1, 7, 1);
    push_row(&r, TRAINER0, 1, 0, 1, 7, 1);
    EXPECT_REFUSED(&r, "pushed rows of 't' twice in step 1");
    unmake(&r);
    r = make_with_rows("sync");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PUSH_ROWS, .bytes = 12, .push_rows = {.step = 1, .pieces = 1}}, "123456789abc");
    EXPECT_REFUSED(&r, "12 bytes to table 't', which are no rows of 2 values");
    unmake(&r);
    r = make_with_rows("sync");
    say(&r, TRAINER0, (tr_wire){.kind = TR_WIRE_PULL_ROWS, .bytes = 8, .pull_rows = {.table = 1}}, "12345678");
    EXPECT_REFUSED(&r, "keys from table 1; there are 1 tables");
    unmake(&r);
}

/* Not only when the server ends. */
TEST(a_dead_trainers_unfinished_step_is_freed_and_its_ended_steps_count)
{
    static const char *const modes[] = {"async", "ssp(2)", "sync(degraded)"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        rig r = make_with_rows(modes[i]);
        push_row(&r, TRAINER0, 1, 0, 1, 6, 1);
        end_step(&r, TRAINER0, 1);
        push_row(&r, TRAINER1, 1, 0, 1, 5, 1);
        end_step(&r, TRAINER1, 1);
        push_row(&r, TRAINER1, 2, 0, 2, 7, 1);
        push_row(&r, TRAINER1, 2, 1, 2, 8, 1);
        lose(&r, TRAINER1);
        const tr__trainer *dead = &r.server->trainer[1];
        if (!r.server->policy.decides)             /* else it counts until the update that is decided is over */
            assert_int_equal(tr__rows_stored(r.server, dead), 1);
        bool was_told = false;
        while (r.server->updates < applying) {
            was_told |= told_part[told.count - 1].trainer == 1 && told_part[told.count - 1].keys[0] == 5;
            tr_server_applied(r.server, TR_OK);
        }
        assert_true(was_told);
        assert_int_equal(tr__rows_stored(r.server, dead), 0);
        unmake(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_of_all_trainers_are_listed_in_their_order),
        cmocka_unit_test(alone_each_trainer_updates_rows_with_its_own),
        cmocka_unit_test(rows_leave_between_updates_and_not_during_one),
        cmocka_unit_test(a_server_hears_which_rows_come_and_forgets_it_during_an_update),
        cmocka_unit_test(rows_leave_rounded_when_they_are_asked_for_so),
        cmocka_unit_test(gradients_of_rows_that_were_pulled_come_with_their_places),
        cmocka_unit_test(places_are_known_however_pull_and_push_are_cut_into_messages),
        cmocka_unit_test(mistakes_with_rows_are_refused_by_name),
        cmocka_unit_test(a_dead_trainers_unfinished_step_is_freed_and_its_ended_steps_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
