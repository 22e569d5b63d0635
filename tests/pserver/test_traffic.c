/* test_traffic.c - each kind of message counts as the goods that it carries. */
#include "tests/support/expect.h"

#include "pserver/traffic.h"

TEST(messages_count_by_what_they_carry)
{
    static const struct {
        tr_wire_kind kind;
        tr_goods     goods;
    } cases[] = {
        {TR_WIRE_PUSH, TR_GOODS_GRADIENTS},             {TR_WIRE_PUSH_MANY, TR_GOODS_SMALL_GRADIENTS},
        {TR_WIRE_PUSH_COMPRESSED, TR_GOODS_COMPRESSED}, {TR_WIRE_DATA, TR_GOODS_PARAMETERS},
        {TR_WIRE_DATA_MANY, TR_GOODS_PARAMETERS},       {TR_WIRE_PULL_ROWS, TR_GOODS_KEYS},
        {TR_WIRE_DATA_ROWS, TR_GOODS_ROWS},             {TR_WIRE_PUSH_ROWS, TR_GOODS_ROW_GRADIENTS},
        {TR_WIRE_BEAT, TR_GOODS_OTHERS},                {TR_WIRE_PULL, TR_GOODS_OTHERS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tr_traffic traffic = {0};
        tr_traffic_add(&traffic, cases[i].kind, 100);
        tr_traffic_add(&traffic, cases[i].kind, 11);
        assert_int_equal(tr_counter_get(&traffic.bytes[cases[i].goods]), 111);
        assert_int_equal(tr_counter_get(&traffic.messages[cases[i].goods]), 2);
        assert_int_equal(tr_traffic_bytes(&traffic), 111);
        assert_int_equal(tr_traffic_messages(&traffic), 2);
    }
}

TEST(goods_have_names)
{
    for (int i = 0; i < TR_GOODS_COUNT; i++)
        assert_non_null(tr_goods_name((tr_goods)i));
    assert_string_equal(tr_goods_name(TR_GOODS_SMALL_GRADIENTS), "small_gradients");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_count_by_what_they_carry),
        cmocka_unit_test(goods_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
