/* test_ops.c - what must hold for the record of every operator. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/operators/op_attrs.h"
#include "framework/operators/attr_def.h"
#include "framework/operators/op_registry.h"
#include "framework/operators/slot_form.h"

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

static tr_status check_with(const tr_op *op, const tr_attr *value)
{
    tr_op_desc *desc = tr_op_desc_new(tr_op_type(op));

    for (int a = 0; a < tr_op_attr_count(op); a++)
        if (!tr_op_attr_required(op, a))
            tr__attr_copy(desc, tr__op_default(op, a));
    tr__attr_copy(desc, value);
    const tr_status status = tr__attrs_check(op, desc, true);
    tr_op_desc_free(desc);
    return status;
}

/* A value of the attribute's type that asks for something. */
static tr_attr other_value(const tr_attr_def *def, const tr_attr *neutral)
{
    static int32_t  ints[] = {77, 78, 79};
    static int64_t  longs[] = {77, 78, 79};
    static float    floats[] = {77, 78, 79};
    static char     text[] = "77";
    static char    *strings[] = {text};
    tr_attr         other = {.name = (char *)(uintptr_t)def->name, .type = def->type};

    switch (tr_attr_type_is_list(other.type) ? tr_attr_type_element(other.type) : TR_ATTR_BLOCK) {
    case TR_ATTR_INT:
    case TR_ATTR_BOOL:   other.ints = ints, other.count = 3; return other;
    case TR_ATTR_LONG:   other.longs = longs, other.count = 3; return other;
    case TR_ATTR_FLOAT:  other.floats = floats, other.count = 3; return other;
    case TR_ATTR_STRING: other.strings = strings, other.count = 1; return other;
    default:             break;
    }
    other.count = 1;
    switch (other.type) {
    case TR_ATTR_BOOL:   other.i = !neutral->i; break;
    case TR_ATTR_FLOAT:  other.f = 77; break;
    case TR_ATTR_STRING: other.s = text, other.count = 2; break;
    default:             other.i = 77; break;
    }
    return other;
}

/* An attribute that is not decoded changes no result whatever its value, or has one value alone. */
TEST(a_value_that_is_not_supported_is_refused)
{
    int count = 0;

    EACH_OP(op) {
        const tr_attr_def *def = tr__op_proto(op)->attr;
        for (int a = 0; def && def[a].name; a++) {
            if (!def[a].instead)
                continue;
            const tr_attr other = other_value(&def[a], tr__op_default(op, a));
            if (check_with(op, &other) != TR_EUNSUPPORTED || !strstr(tr_error(), def[a].name) || !strstr(tr_error(), def[a].instead))
                fail_msg("%s: another value of '%s' is taken, or not explained: %s", tr_op_type(op), def[a].name, tr_error());
            count++;
        }
    }
    assert_true(count > 30);
}

static bool is_among(const char *name, const char *const *names, int count)
{
    for (int i = 0; i < count; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

#define IS_AMONG(name, names) is_among(name, names, (int)(sizeof(names) / sizeof *(names)))

TEST(no_other_attribute_is_ignored)
{
    static const char *const without_effect[] = {
        "data_format", "epmap", "exhaustive_search", "force_cpu", "grad_inplace", "height_sections", "infer_flags",
        "is_distributed", "is_test", "min_row_size_to_use_multithread", "numeric_stable_mode", "out_d",
        "save_intermediate_out", "search_times", "skip_eager_deletion_vars", "table_names", "trainer_id", "use_cudnn", "use_mkldnn", "use_seq",
        "workspace_size_MB",
    };

    EACH_OP(op) {
        const tr_attr_def *def = tr__op_proto(op)->attr;
        for (int a = 0; def && def[a].name; a++)
            if (def[a].offset == TR_NO_FIELD && !def[a].instead && def[a].name[0] != '@' && !IS_AMONG(def[a].name, without_effect))
                fail_msg("%s: '%s' is not decoded", tr_op_type(op), def[a].name);
    }
}

/* Kernels look at numbers: a text is a name, a path or a message, or one of the words of an enumeration. */
TEST(texts_with_a_meaning_are_enumerations)
{
    static const char *const names[] = {"file_path", "message"};

    EACH_OP(op) {
        const tr_attr_def *def = tr__op_proto(op)->attr;
        for (int a = 0; def && def[a].name; a++)
            if (def[a].type == TR_ATTR_STRING && def[a].offset != TR_NO_FIELD && !def[a].range.one_of && !IS_AMONG(def[a].name, names))
                fail_msg("%s: '%s' is a text without a list of words", tr_op_type(op), def[a].name);
    }
}

static bool is_slot(const char *name, const tr_slot_def *slots)
{
    while (slots && slots->name && strcmp(slots->name, name) != 0)
        slots++;
    return slots && slots->name;
}

static bool is_well_formed(const tr_op_proto *proto, const tr_slot_def *slot)
{
    char        text[256];
    const char *at = slot->form;

    if (strncmp(at, "like ", 5) == 0)
        return tr__form_like(proto, slot) >= 0;
    while (sscanf(at, "[%255[^]]", text) == 1) {
        at += strlen(text) + 2;
        if (strncmp(at, " or ", 4) != 0)
            return *at == '\0';
        at += 4;
    }
    return false;
}

TEST(every_form_of_a_slot_is_well_formed_and_begins_its_comment)
{
    EACH_OP(op)
        for (int side = 0; side < 2; side++) {
            const tr_op_proto *proto = tr__op_proto(op);
            const tr_slot_def *slot = side ? proto->out : proto->in;
            for (; slot && slot->name; slot++)
                if (slot->form && (!is_well_formed(proto, slot) || strncmp(slot->comment, slot->form, strlen(slot->form)) != 0))
                    fail_msg("%s: the form of %s is %s", tr_op_type(op), slot->name, slot->form);
        }
}

TEST(every_axis_is_one_of_an_input)
{
    EACH_OP(op) {
        const tr_op_proto *proto = tr__op_proto(op);
        for (const tr_attr_def *def = proto->attr; def && def->name && !op->grad_of; def++)
            if (def->axis_of && (!is_slot(def->axis_of, proto->in) || (def->type != TR_ATTR_INT && def->type != TR_ATTR_LONG)))
                fail_msg("%s: %s is an axis of %s", tr_op_type(op), def->name, def->axis_of);
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
        cmocka_unit_test(a_value_that_is_not_supported_is_refused),
        cmocka_unit_test(no_other_attribute_is_ignored),
        cmocka_unit_test(texts_with_a_meaning_are_enumerations),
        cmocka_unit_test(every_form_of_a_slot_is_well_formed_and_begins_its_comment),
        cmocka_unit_test(every_axis_is_one_of_an_input),
        cmocka_unit_test(every_proto_can_be_written),
    };
    return cmocka_run_group_tests(tests, start, NULL);
}
