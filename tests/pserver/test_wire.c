/* test_wire.c - what a header looks like is fixed; what is no header is refused. */
#include "tests/support/expect.h"

#include "pserver/wire.h"

#include <math.h>

static const tr_wire sample = {
    .kind = TR_WIRE_PUSH, .epoch = 0x01020304, .sender = 5, .seq = 0x1122334455667788, .step = 9, .block = 10, .part = 11,
    .offset = 0x0000000100000000, .bytes = 4096, .weight = 32,
};

/* Golden bytes: two versions that disagree about them do not understand each other. */
static const uint8_t golden[TR_WIRE_HEADER] = {
    'T', 'R', 'M', '1', TR_WIRE_PUSH, 0, 0, 0, 4, 3, 2, 1, 5, 0, 0, 0, 0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
    9, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 11, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0x40, 0x40,
};

TEST(a_header_has_these_bytes)
{
    uint8_t out[TR_WIRE_HEADER];

    assert_int_equal(TR_WIRE_PUSH, 8);
    tr_wire_encode(out, &sample);
    assert_memory_equal(out, golden, sizeof golden);
}

TEST(a_header_comes_back)
{
    tr_wire back;

    EXPECT_OK(tr_wire_decode(&back, golden));
    assert_memory_equal(&back.seq, &sample.seq, sizeof back.seq);
    assert_int_equal(back.kind, TR_WIRE_PUSH);
    assert_int_equal(back.epoch, sample.epoch);
    assert_int_equal(back.step, 9);
    assert_int_equal(back.offset, sample.offset);
    assert_int_equal(back.bytes, 4096);
    assert_true(back.weight == 32);
}

static tr_status decode_with(int at, uint8_t value)
{
    uint8_t bytes[TR_WIRE_HEADER];
    tr_wire wire;

    memcpy(bytes, golden, sizeof bytes);
    bytes[at] = value;
    return tr_wire_decode(&wire, bytes);
}

TEST(what_is_no_header_is_refused)
{
    const uint8_t zeros[TR_WIRE_HEADER] = {0};
    tr_wire       wire;

    EXPECT_FAIL(TR_EFORMAT, "instead of \"TRM1\"", tr_wire_decode(&wire, zeros));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind 0", decode_with(4, 0));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind 200", decode_with(4, 200));
    EXPECT_FAIL(TR_EFORMAT, "there is no kind", decode_with(6, 1));
    EXPECT_FAIL(TR_EFORMAT, "message ACK: payload of 4096 bytes, at most 0", decode_with(4, TR_WIRE_ACK));
    EXPECT_FAIL(TR_EFORMAT, "message PUSH: payload of", decode_with(53, 1));
    EXPECT_FAIL(TR_EFORMAT, "offset", decode_with(47, 0xff));
    EXPECT_FAIL(TR_EFORMAT, "a weight of -32", decode_with(63, 0xc0));
}

TEST(a_weight_must_be_a_number)
{
    tr_wire wire = sample;
    uint8_t bytes[TR_WIRE_HEADER];

    wire.weight = INFINITY;
    tr_wire_encode(bytes, &wire);
    EXPECT_FAIL(TR_EFORMAT, "a weight of inf", tr_wire_decode(&wire, bytes));
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
        cmocka_unit_test(what_is_no_header_is_refused),
        cmocka_unit_test(a_weight_must_be_a_number),
        cmocka_unit_test(entries_come_back_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
