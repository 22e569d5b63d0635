/* test_traffic.c - each kind of message counts in the class of its payload. */
#include "tests/support/expect.h"

#include "pserver/observe/traffic.h"

TEST(messages_count_by_what_they_carry)
{
    static const struct {
        tr_wire_kind     kind;
        tr_traffic_class class;
    } cases[] = {
        {TR_WIRE_PUSH, TR_TRAFFIC_GRADIENTS},             {TR_WIRE_PUSH_MANY, TR_TRAFFIC_SMALL_GRADIENTS},
        {TR_WIRE_PUSH_COMPRESSED, TR_TRAFFIC_COMPRESSED}, {TR_WIRE_DATA, TR_TRAFFIC_PARAMETERS},
        {TR_WIRE_DATA_MANY, TR_TRAFFIC_PARAMETERS},       {TR_WIRE_PULL_ROWS, TR_TRAFFIC_KEYS},
        {TR_WIRE_DATA_ROWS, TR_TRAFFIC_ROWS},             {TR_WIRE_PUSH_ROWS, TR_TRAFFIC_ROW_GRADIENTS},
        {TR_WIRE_BEAT, TR_TRAFFIC_OTHERS},                {TR_WIRE_PULL, TR_TRAFFIC_OTHERS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tr_traffic traffic = {0};
        tr_traffic_add(&traffic, cases[i].kind, 100);
        tr_traffic_add(&traffic, cases[i].kind, 11);
        assert_int_equal(tr_counter_get(&traffic.bytes[cases[i].class]), 111);
        assert_int_equal(tr_counter_get(&traffic.messages[cases[i].class]), 2);
        assert_int_equal(tr_traffic_bytes(&traffic), 111);
        assert_int_equal(tr_traffic_messages(&traffic), 2);
    }
}

TEST(classes_have_names)
{
    for (int i = 0; i < TR_TRAFFIC_COUNT; i++)
        assert_non_null(tr_traffic_class_name((tr_traffic_class)i));
    assert_string_equal(tr_traffic_class_name(TR_TRAFFIC_SMALL_GRADIENTS), "small_gradients");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_count_by_what_they_carry),
        cmocka_unit_test(classes_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
