/* test_wire.c - what a header looks like is fixed; what is no header is refused. */
#include "tests/support/expect.h"

#include "pserver/wire/wire.h"

#include <math.h>

static const tr_wire sample = {
    .kind = TR_WIRE_PUSH, .incarnation = 0x01020304, .sender = 5, .seq = 0x1122334455667788, .bytes = 4096,
    .push = {.step = 9, .weight = 32, .offset = 0x0000000100000000, .block = 10},
};

/* Golden bytes: two versions that disagree about them do not understand each other. */
static const uint8_t golden[TR_WIRE_HEADER] = {
    'T', 'R', 'M', '2', TR_WIRE_PUSH, 0, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0,
    0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, 0, 0x10, 0, 0, 0, 0, 0, 0,
    9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x40, 0x40,
    0, 0, 0, 0, 1, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0,
};

TEST(a_header_has_these_bytes)
{
    uint8_t out[TR_WIRE_HEADER];

    assert_int_equal(TR_WIRE_PUSH, 10);
    tr_wire_encode(out, &sample);
    assert_memory_equal(out, golden, sizeof golden);
}

TEST(a_header_comes_back)
{
    tr_wire back;

    EXPECT_OK(tr_wire_decode(&back, golden));
    assert_memory_equal(&back.seq, &sample.seq, sizeof back.seq);
    assert_int_equal(back.kind, TR_WIRE_PUSH);
    assert_int_equal(back.incarnation, sample.incarnation);
    assert_int_equal(back.bytes, 4096);
    assert_int_equal(back.push.step, 9);
    assert_int_equal(tr_wire_step(&back), 9);
    assert_int_equal(back.push.offset, sample.push.offset);
    assert_int_equal(back.push.block, 10);
    assert_true(back.push.weight == 32);
}

static tr_status decode_with(int at, uint8_t value)
{
    uint8_t bytes[TR_WIRE_HEADER];
    tr_wire wire;

    memcpy(bytes, golden, sizeof bytes);
    bytes[at] = value;
    return tr_wire_decode(&wire, bytes);
}

TEST(bytes_that_are_no_header_are_refused)
{
    const uint8_t zeros[TR_WIRE_HEADER] = {0};
    tr_wire       wire;

    EXPECT_FAIL(TR_EFORMAT, "instead of \"TRM2\"", tr_wire_decode(&wire, zeros));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind 0", decode_with(4, 0));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind 200", decode_with(4, 200));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind", decode_with(6, 1));
    EXPECT_FAIL(TR_EFORMAT, "message ACK: payload of 4096 bytes, at most 0", decode_with(4, TR_WIRE_ACK));
    EXPECT_FAIL(TR_EFORMAT, "message PUSH: payload of", decode_with(27, 0x20));
    EXPECT_FAIL(TR_EFORMAT, "message PUSH: offset", decode_with(55, 0xff));
    EXPECT_FAIL(TR_EFORMAT, "message PUSH: weight is -32", decode_with(47, 0xc0));
    EXPECT_FAIL(TR_EFORMAT, "message PUSH: part is 3, at most 2 is allowed", decode_with(60, 3));
}

static tr_status decode_field(int at, uint8_t value, tr_wire wire)
{
    uint8_t bytes[TR_WIRE_HEADER];
    tr_wire back;

    tr_wire_encode(bytes, &wire);
    bytes[at] = value;
    return tr_wire_decode(&back, bytes);
}

TEST(a_field_out_of_its_range_is_refused)
{
    EXPECT_OK(decode_field(48, 1, (tr_wire){.kind = TR_WIRE_STEP_END}));
    EXPECT_FAIL(TR_EFORMAT, "message STEP_END: is_idle is 2, at most 1 is allowed",
                decode_field(48, 2, (tr_wire){.kind = TR_WIRE_STEP_END}));
    EXPECT_FAIL(TR_EFORMAT, "message TASK: answer is 4, at most 3", decode_field(40, 4, (tr_wire){.kind = TR_WIRE_TASK}));
    EXPECT_FAIL(TR_EFORMAT, "message MEMBER: news is 3, at most 2", decode_field(48, 3, (tr_wire){.kind = TR_WIRE_MEMBER}));
    EXPECT_FAIL(TR_EFORMAT, "message BEAT: bytes 32 to 35 of its header are not used",
                decode_field(32, 1, (tr_wire){.kind = TR_WIRE_BEAT}));
}

TEST(a_weight_must_be_a_number)
{
    tr_wire wire = sample;
    uint8_t bytes[TR_WIRE_HEADER];

    wire.push.weight = INFINITY;
    tr_wire_encode(bytes, &wire);
    EXPECT_FAIL(TR_EFORMAT, "weight is inf", tr_wire_decode(&wire, bytes));
}

TEST(every_message_comes_back)
{
    uint8_t bytes[TR_WIRE_HEADER], again[TR_WIRE_HEADER];
    tr_wire wire;

    for (int kind = 1; kind < TR_WIRE_KIND_COUNT; kind++) {
        memset(bytes, 0, sizeof bytes);
        memcpy(bytes, golden, 4);
        bytes[4] = (uint8_t)kind;
        bytes[TR_WIRE_FRAME] = kind > TR_WIRE_ABORT;
        if (tr_wire_decode(&wire, bytes) != TR_OK)             /* it has no fields, or begins with one that must not be 1 */
            bytes[TR_WIRE_FRAME] = 0;
        EXPECT_OK(tr_wire_decode(&wire, bytes));
        tr_wire_encode(again, &wire);
        assert_memory_equal(again, bytes, sizeof bytes);
        assert_string_not_equal(tr_wire_kind_name(wire.kind), "?");
    }
}

TEST(a_message_is_printed_with_the_names_of_its_fields)
{
    char text[256], small[24];

    tr_wire_print(text, sizeof text, &sample);
    assert_string_equal(
        text, "PUSH incarnation=16909060 sender=5 seq=1234605616436508552 bytes=4096 step=9 weight=32 offset=4294967296 block=10 part=0");
    tr_wire_print(small, sizeof small, &sample);
    assert_string_equal(small, "PUSH incarnation=169090");
    tr_wire_print(text, sizeof text, &(tr_wire){.kind = TR_WIRE_BEAT, .sender = 3});
    assert_string_equal(text, "BEAT incarnation=0 sender=3 seq=0 bytes=0");
}

TEST(entries_come_back_in_order)
{
    static const uint64_t sizes[] = {3, 0, 8, 13};
    uint64_t              size = 0, cursor = 4 * TR_WIRE_ENTRY, bytes;
    uint8_t              *payload;
    const uint8_t        *data;
    tr_wire_entries       entries;
    uint32_t              block;

    for (int i = 0; i < 4; i++)
        size += tr_wire_entry_size(sizes[i]);
    payload = malloc(size);
    for (uint32_t i = 0; i < 4; i++)
        memset(tr_wire_entry_put(payload, i, &cursor, 100 + i, sizes[i]), (int)i + 1, sizes[i]);
    assert_int_equal(cursor, size);
    EXPECT_OK(tr_wire_entries_open(&entries, payload, size, 4));
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(tr_wire_entries_next(&entries, &block, &data, &bytes));
        assert_int_equal(block, 100 + i);
        assert_int_equal(bytes, sizes[i]);
        for (uint64_t k = 0; k < bytes; k++)
            assert_int_equal(data[k], i + 1);
    }
    assert_false(tr_wire_entries_next(&entries, &block, &data, &bytes));
    EXPECT_FAIL(TR_EFORMAT, "of 5 has", tr_wire_entries_open(&entries, payload, size - 8, 5));
    EXPECT_FAIL(TR_EFORMAT, "entry 3 of 4 has 13 bytes", tr_wire_entries_open(&entries, payload, size - 8, 4));
    EXPECT_FAIL(TR_EFORMAT, "do not fit into 16 bytes", tr_wire_entries_open(&entries, payload, 16, UINT32_MAX));
    memset(payload + 4, 0xff, 4);
    EXPECT_FAIL(TR_EFORMAT, "entry 0 of 4 has 4294967295 bytes", tr_wire_entries_open(&entries, payload, size, 4));
    free(payload);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_header_has_these_bytes),
        cmocka_unit_test(a_header_comes_back),
        cmocka_unit_test(bytes_that_are_no_header_are_refused),
        cmocka_unit_test(a_field_out_of_its_range_is_refused),
        cmocka_unit_test(a_weight_must_be_a_number),
        cmocka_unit_test(every_message_comes_back),
        cmocka_unit_test(a_message_is_printed_with_the_names_of_its_fields),
        cmocka_unit_test(entries_come_back_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
