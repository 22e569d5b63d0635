/* test_ops.c - what must hold for the record of every operator. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/op_attrs.h"
#include "framework/op_registry.h"

static int start(void **state)
{
    (void)state;
    return tr_init() == TR_OK && tr_init() == TR_OK ? 0 : -1;
}

#define EACH_OP(op) for (int i_ = 0; i_ < tr_op_count(); i_++) for (const tr_op *op = tr_op_at(i_); op; op = NULL)

TEST(types_are_sorted_and_found)
{
    const char *last = "";

    assert_true(tr_op_count() > 100);
    EACH_OP(op) {
        assert_true(strcmp(last, tr_op_type(op)) < 0);
        assert_ptr_equal(tr_op_find(tr_op_type(op)), op);
        last = tr_op_type(op);
    }
}

TEST(every_operator_slot_and_attribute_is_described)
{
    EACH_OP(op) {
        const char *missing = *tr_op_doc(op) ? NULL : "doc";
        for (int s = 0; s < tr_op_input_count(op); s++)
            missing = *tr_op_input_comment(op, s) ? missing : tr_op_input_name(op, s);
        for (int s = 0; s < tr_op_output_count(op); s++)
            missing = *tr_op_output_comment(op, s) ? missing : tr_op_output_name(op, s);
        for (int a = 0; a < tr_op_attr_count(op); a++)
            missing = *tr_op_attr_comment(op, a) ? missing : tr_op_attr_name(op, a);
        if (missing)
            fail_msg("%s: %s has no comment", tr_op_type(op), missing);
    }
}

TEST(every_default_is_of_its_type_and_in_its_range)
{
    EACH_OP(op) {
        tr_op_desc *desc = tr_op_desc_new(tr_op_type(op));
        bool        has_required = false;
        for (int a = 0; a < tr_op_attr_count(op); a++) {
            assert_non_null(tr_op_attr_range(op, a));
            if (tr_op_attr_required(op, a)) {
                has_required = true;
                assert_string_equal(tr_op_attr_default(op, a), "");
            } else {
                assert_true(*tr_op_attr_default(op, a) != '\0');
                tr__attr_copy(desc, tr__op_default(op, a));
            }
        }
        const tr_status status = tr__attrs_check(op, desc, true);
        if (status != TR_OK && !(has_required && strstr(tr_error(), "is missing")))
            fail_msg("%s", tr_error());
        tr_op_desc_free(desc);
    }
}

TEST(every_proto_can_be_written)
{
    EACH_OP(op) {
        void  *bytes;
        size_t size;
        EXPECT_OK(tr_op_serialize_proto(&bytes, &size, op));
        assert_true(size > strlen(tr_op_type(op)));
        tr_free(bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_are_sorted_and_found),
        cmocka_unit_test(every_operator_slot_and_attribute_is_described),
        cmocka_unit_test(every_default_is_of_its_type_and_in_its_range),
        cmocka_unit_test(every_proto_can_be_written),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
