/* test_op_attrs.c - records, what is derived from them, and attributes checked against them. */
#include "tests/support/expect.h"

#include "framework/operators/op.h"
#include "framework/operators/op_attrs.h"
#include "framework/operators/op_registry.h"
#include "proto/framework.pb-c.h"

/* -- an operator with everything ------------------------------------------------------------------ */

typedef struct attrs {
    int32_t     groups, sub_block;
    float       rate;
    enum { POOL_MAX = 3, POOL_AVERAGE = 7 } pooling;
    bool        exact;
    int64_t     rows;
    tr_ints     strides, flags;
    tr_longs    shape;
    tr_floats   values;
    tr_strings  names;
} attrs;

static const tr_op_proto conv_proto = {
    .doc = "Has an attribute of every type.",
    .in = TR_SLOTS({"X", "the input"}, {"W", "weights", TR_SLOT_REPEATED}, {"B", "bias", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "the output"}, {"Tmp", "saved", TR_SLOT_INTERMEDIATE}),
    .attr = TR_ATTRS(
        TR_ATTR(attrs, groups, INT, "how many groups", .number = 1, .range = TR_AT_LEAST(1)),
        TR_ATTR(attrs, sub_block, BLOCK, "what to run", .required = true),
        TR_ATTR(attrs, rate, FLOAT, "a share", .number = 0.1, .range = TR_BETWEEN(0, 0.1)),
        TR_ATTR(attrs, pooling, STRING, "how", .text = "max", .range = TR_ONE_OF({"max", POOL_MAX}, {"avg", POOL_AVERAGE}, {"average", POOL_AVERAGE})),
        TR_ATTR(attrs, exact, BOOL, "exactly", .number = true),
        TR_ATTR(attrs, rows, LONG, "rows", .number = -1),
        TR_ATTR(attrs, strides, INTS, "steps", .text = "1, 2", .range = TR_GREATER(0)),
        TR_ATTR(attrs, flags, BOOLS, "flags", .text = "true,0"),
        TR_ATTR(attrs, shape, LONGS, "shape", .text = "5000000000"),
        TR_ATTR(attrs, values, FLOATS, "values", .text = "0.5,-1e3"),
        TR_ATTR(attrs, names, STRINGS, "names", .text = "a,b"),
        TR_ATTR_IGNORED("use_mkldnn", BOOL),
        TR_ATTR_ONLY("fuse_relu", BOOL, "add a relu"),
        TR_ATTR_ONLY("layout", STRING, "transpose before", .text = "any", .range = TR_ONE_OF({"any", 0}, {"NCHW", 0})),
        TR_ATTR_ONLY("scales", FLOATS, "do not quantize", .text = "1")),
    .attrs_size = sizeof(attrs),
};
static const tr_op        conv;
static const tr_grad_rule conv_rule = {
    .op = "conv_grad",
    .reads = {TR_IN(0), TR_IN(1), TR_IN(2), TR_OUT_SHAPE(1), TR_DOUT(0)},
    .makes = {TR_DIN(0), TR_DIN(1)},
};
static const tr_op        conv_grad;
static const tr_grad_rule second_rule = {.op = "conv_grad_grad", .reads = {TR_DOUT(0)}, .makes = {TR_DIN(4)}};
static const tr_op        conv = {.type = "conv", .proto = &conv_proto, .grad = &conv_rule};
static const tr_op        conv_grad = {.type = "conv_grad", .grad_of = &conv, .grad = &second_rule};
static const tr_op        second = {.type = "conv_grad_grad", .grad_of = &conv_grad};
static const tr_op_proto  bare_proto = {.doc = "Has nothing."};
static const tr_op        bare = {.type = "bare", .proto = &bare_proto};

static int register_all(void **state)
{
    static const tr_op *const records[] = {&second, &conv_grad, &conv, &bare, &conv};   /* any order, and again */

    (void)state;
    tr_registry_add(records, 5);
    tr_registry_add(records, 1);
    return 0;
}

static tr_op_desc *conv_desc(void)
{
    tr_op_desc *op = tr_op_desc_new("conv");
    tr_op_desc_set_int(op, "sub_block", 3, TR_ATTR_BLOCK);
    return op;
}

/* The status of checking what `set` adds; frees it. */
static tr_status check(tr_op_desc *op)
{
    const tr_status status = tr__attrs_check(&conv, op, false);
    tr_op_desc_free(op);
    return status;
}

#define WITH(...) ({ tr_op_desc *op = conv_desc(); __VA_ARGS__; op; })

/* -- the registry ------------------------------------------------------------------------------- */

TEST(operators_are_found_by_type_and_listed_in_order)
{
    assert_int_equal(tr_op_count(), 4);
    assert_string_equal(tr_op_type(tr_op_at(0)), "bare");
    assert_string_equal(tr_op_type(tr_op_at(3)), "conv_grad_grad");
    assert_null(tr_op_at(4));
    assert_ptr_equal(tr_op_find("conv"), &conv);
    assert_null(tr_op_find("cnov"));
    assert_string_equal(tr__op_nearest("cnov"), "conv");
    assert_string_equal(tr__op_nearest("conv_grda"), "conv_grad");
    assert_true(tr_op_has_grad(&conv));
    assert_false(tr_op_has_grad(&bare));
}

TEST(accessors_say_what_the_record_says)
{
    assert_string_equal(tr_op_doc(&conv), "Has an attribute of every type.");
    assert_int_equal(tr_op_input_count(&conv), 3);
    assert_string_equal(tr_op_input_name(&conv, 1), "W");
    assert_string_equal(tr_op_input_comment(&conv, 1), "weights");
    assert_int_equal(tr_op_input_flags(&conv, 1), TR_SLOT_REPEATED);
    assert_int_equal(tr_op_output_flags(&conv, 1), TR_SLOT_INTERMEDIATE);
    assert_null(tr_op_output_name(&conv, 2));
    assert_int_equal(tr_op_attr_count(&conv), 15);
    assert_string_equal(tr_op_attr_name(&conv, 0), "groups");
    assert_int_equal(tr_op_attr_type(&conv, 8), TR_ATTR_LONGS);
    assert_true(tr_op_attr_required(&conv, 1));
    assert_int_equal(tr_op_input_count(&bare), 0);
    assert_int_equal(tr_op_attr_count(&bare), 0);
}

TEST(defaults_and_ranges_are_texts)
{
    static const char *const defaults[] = {"1", "", "0.1", "\"max\"", "true", "-1", "[1, 2]", "[true, false]",
                                           "[5000000000]", "[0.5, -1000.0]", "[\"a\", \"b\"]", "false", "false", "\"any\"", "[1.0]"};
    for (int i = 0; i < 15; i++)
        assert_string_equal(tr_op_attr_default(&conv, i), defaults[i]);
    assert_string_equal(tr_op_attr_range(&conv, 0), ">= 1");
    assert_string_equal(tr_op_attr_range(&conv, 1), "");
    assert_string_equal(tr_op_attr_range(&conv, 2), ">= 0 and <= 0.1");
    assert_string_equal(tr_op_attr_range(&conv, 3), "one of max, avg, average");
    assert_string_equal(tr_op_attr_range(&conv, 6), "> 0");
    assert_string_equal(tr_op_attr_range(&conv, 11), "");
    assert_string_equal(tr_op_attr_range(&conv, 12), "only false");
    assert_string_equal(tr_op_attr_range(&conv, 13), "only any, NCHW");
    assert_string_equal(tr_op_attr_range(&conv, 14), "only [1.0]");
    assert_string_equal(tr_op_attr_range(&conv, 99), "");
}

TEST(a_gradient_operator_derives_its_proto_from_the_rule)
{
    static const char *const in[] = {"X", "W", "B", "Tmp", "Out@GRAD"};
    static const int         flags[] = {0, TR_SLOT_REPEATED, TR_SLOT_OPTIONAL, 0, 0};      /* the only gradient must be there */

    assert_string_equal(tr_op_doc(&conv_grad), "The gradient of conv.");
    assert_int_equal(tr_op_input_count(&conv_grad), 5);
    for (int i = 0; i < 5; i++) {
        assert_string_equal(tr_op_input_name(&conv_grad, i), in[i]);
        assert_int_equal(tr_op_input_flags(&conv_grad, i), flags[i]);
    }
    assert_int_equal(tr_op_output_count(&conv_grad), 2);
    assert_string_equal(tr_op_output_name(&conv_grad, 1), "W@GRAD");
    assert_int_equal(tr_op_output_flags(&conv_grad, 1), TR_SLOT_OPTIONAL | TR_SLOT_REPEATED);
    assert_int_equal(tr_op_attr_count(&conv_grad), 15);
    assert_int_equal(tr__op_proto(&conv_grad)->attrs_size, sizeof(attrs));
    assert_string_equal(tr_op_input_name(&second, 0), "X@GRAD@GRAD");
    assert_string_equal(tr_op_output_name(&second, 0), "Out@GRAD@GRAD");
}

TEST(the_proto_message_carries_defaults_and_ranges)
{
    void  *bytes;
    size_t size;

    EXPECT_OK(tr_op_serialize_proto(&bytes, &size, &conv));
    Paddle__Framework__Proto__OpProto *proto = paddle__framework__proto__op_proto__unpack(NULL, size, bytes);
    assert_non_null(proto);
    assert_string_equal(proto->type, "conv");
    assert_int_equal(proto->n_inputs, 3);
    assert_true(proto->inputs[1]->duplicable);
    assert_true(proto->inputs[2]->dispensable);
    assert_true(proto->outputs[1]->intermediate);
    assert_int_equal(proto->n_attrs, 20);
    assert_int_equal(proto->attrs[0]->default_value->i, 1);
    assert_true(proto->attrs[0]->range->has_min && proto->attrs[0]->range->min == 1 && !proto->attrs[0]->range->has_max);
    assert_null(proto->attrs[1]->default_value);
    assert_true(proto->attrs[1]->required);
    assert_int_equal(proto->attrs[3]->range->n_one_of, 3);
    assert_string_equal(proto->attrs[3]->range->one_of[1], "avg");
    assert_true(proto->attrs[6]->range->open_min);
    assert_int_equal(proto->attrs[6]->default_value->ints[1], 2);
    assert_string_equal(proto->attrs[15]->name, "op_role");
    assert_true(proto->attrs[15]->generated);
    paddle__framework__proto__op_proto__free_unpacked(proto, NULL);
    tr_free(bytes);
}

/* -- checking ----------------------------------------------------------------------------------- */

TEST(a_missing_attribute_gets_its_default)
{
    tr_op_desc *op = conv_desc();

    EXPECT_OK(tr__attrs_check(&conv, op, false));
    assert_int_equal(tr_op_desc_attr_count(op), 16);              /* and op_role */
    assert_int_equal(tr_op_desc_attr_int(op, "strides", 1), 2);
    assert_string_equal(tr_op_desc_attr_string(op, "names", 1, NULL), "b");
    assert_int_equal(tr_op_desc_attr_int(op, "op_role", 0), 0);
    tr_op_desc_free(op);
    EXPECT_FAIL(TR_EINVAL, "conv: attribute 'sub_block' is missing: a block (what to run)", check(tr_op_desc_new("conv")));
}

TEST(numbers_convert_where_they_keep_their_value)
{
    tr_op_desc *op = conv_desc();

    tr_op_desc_set_int(op, "sub_block", 2, TR_ATTR_INT);
    tr_op_desc_set_int(op, "rate", 0, TR_ATTR_INT);
    tr_op_desc_set_int(op, "exact", 0, TR_ATTR_INT);
    tr_op_desc_set_int(op, "rows", 7, TR_ATTR_INT);
    tr_op_desc_set_int(op, "groups", 4, TR_ATTR_LONG);
    tr_op_desc_set_ints(op, "shape", 2, (const int64_t[]){3, 4}, TR_ATTR_INTS);
    tr_op_desc_set_ints(op, "values", 2, (const int64_t[]){-3, 4}, TR_ATTR_LONGS);
    tr_op_desc_set_ints(op, "flags", 2, (const int64_t[]){0, 1}, TR_ATTR_INTS);
    tr_op_desc_set_ints(op, "names", 0, NULL, TR_ATTR_INTS);      /* an empty list of no particular type */
    tr_op_desc_set_strings(op, "strides", 0, NULL);
    EXPECT_OK(tr__attrs_check(&conv, op, false));
    assert_int_equal(tr_op_desc_attr_type(op, "sub_block"), TR_ATTR_BLOCK);
    assert_int_equal(tr_op_desc_attr_type(op, "rate"), TR_ATTR_FLOAT);
    assert_int_equal(tr_op_desc_attr_type(op, "exact"), TR_ATTR_BOOL);
    assert_int_equal(tr_op_desc_attr_type(op, "rows"), TR_ATTR_LONG);
    assert_int_equal(tr_op_desc_attr_type(op, "groups"), TR_ATTR_INT);
    assert_int_equal(tr_op_desc_attr_type(op, "names"), TR_ATTR_STRINGS);
    assert_int_equal(tr_op_desc_attr_int(op, "rows", 0), 7);
    assert_int_equal(tr_op_desc_attr_int(op, "shape", 1), 4);
    assert_true(tr_op_desc_attr_float(op, "values", 0) == -3);
    assert_int_equal(tr_op_desc_attr_int(op, "flags", 1), 1);
    tr_op_desc_free(op);
}

TEST(other_types_are_refused)
{
    EXPECT_FAIL(TR_EINVAL, "conv: attribute 'groups' must be an int, got 2.0",
                check(WITH(tr_op_desc_set_float(op, "groups", 2))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'groups' must be an int, got \"2\"",
                check(WITH(tr_op_desc_set_string(op, "groups", "2", 1))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'groups' must be an int, got 5000000000",
                check(WITH(tr_op_desc_set_int(op, "groups", 5000000000, TR_ATTR_INT))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'groups' must be an int, got true",
                check(WITH(tr_op_desc_set_int(op, "groups", 1, TR_ATTR_BOOL))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'strides' must be a list of ints, got 2",
                check(WITH(tr_op_desc_set_int(op, "strides", 2, TR_ATTR_INT))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'exact' must be a bool, got 2",
                check(WITH(tr_op_desc_set_int(op, "exact", 2, TR_ATTR_INT))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'rate' must be a float, got 16777217",
                check(WITH(tr_op_desc_set_int(op, "rate", 16777217, TR_ATTR_INT))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'rate' must be a float, got 9223372036854775807",
                check(WITH(tr_op_desc_set_int(op, "rate", INT64_MAX, TR_ATTR_LONG))));
    EXPECT_FAIL(TR_EINVAL, "attribute 'op_role' must be an int",
                check(WITH(tr_op_desc_set_string(op, "op_role", "x", 1))));
}

TEST(values_outside_the_range_are_refused)
{
    EXPECT_FAIL(TR_ERANGE, "conv: attribute 'groups' must be >= 1, got 0",
                check(WITH(tr_op_desc_set_int(op, "groups", 0, TR_ATTR_INT))));
    EXPECT_FAIL(TR_ERANGE, "attribute 'rate' must be >= 0 and <= 0.1, got nan",
                check(WITH(tr_op_desc_set_float(op, "rate", 0.0 / 0.0))));
    EXPECT_FAIL(TR_ERANGE, "attribute 'pooling' must be one of max, avg, average, got \"mean\"",
                check(WITH(tr_op_desc_set_string(op, "pooling", "mean", 4))));
    EXPECT_FAIL(TR_ERANGE, "attribute 'strides' must be a list of values > 0, got [2, 0]",
                check(WITH(tr_op_desc_set_ints(op, "strides", 2, (const int64_t[]){2, 0}, TR_ATTR_INTS))));
    EXPECT_OK(check(WITH(tr_op_desc_set_float(op, "rate", 0.1))));        /* a float's 0.1 is the bound's */
    EXPECT_OK(check(WITH(tr_op_desc_set_string(op, "pooling", "avg", 3))));
}

TEST(an_attribute_that_is_not_honoured_may_only_have_its_neutral_value)
{
    tr_op_desc *saved = conv_desc();

    EXPECT_FAIL(TR_EUNSUPPORTED, "conv: attribute 'fuse_relu' is true, but this version supports only false: add a relu",
                check(WITH(tr_op_desc_set_int(op, "fuse_relu", 1, TR_ATTR_BOOL))));
    EXPECT_FAIL(TR_EUNSUPPORTED, "conv: attribute 'layout' is \"NHWC\", but this version supports only any, NCHW: transpose before",
                check(WITH(tr_op_desc_set_string(op, "layout", "NHWC", 4))));
    EXPECT_FAIL(TR_EUNSUPPORTED, "conv: attribute 'scales' is [1.0, 2.0], but this version supports only [1.0]: do not quantize",
                check(WITH(tr_op_desc_set_floats(op, "scales", 2, (const double[]){1, 2}))));
    EXPECT_OK(check(WITH(tr_op_desc_set_string(op, "layout", "NCHW", 4))));
    EXPECT_OK(check(WITH(tr_op_desc_set_int(op, "fuse_relu", 0, TR_ATTR_BOOL))));
    EXPECT_OK(check(WITH(tr_op_desc_set_int(op, "use_mkldnn", 1, TR_ATTR_BOOL))));
    tr_op_desc_set_string(saved, "layout", "NHWC", 4);
    EXPECT_FAIL(TR_EUNSUPPORTED, "'layout'", tr__attrs_check(&conv, saved, true));           /* saved programs, too */
    tr_op_desc_free(saved);
}

TEST(unknown_attributes_are_refused_with_a_suggestion)
{
    EXPECT_FAIL(TR_EINVAL, "conv: there is no attribute 'gruops'; did you mean 'groups'?",
                check(WITH(tr_op_desc_set_int(op, "gruops", 1, TR_ATTR_INT))));
    EXPECT_FAIL(TR_EINVAL, "there is no attribute 'dilation'; it has groups, sub_block, rate",
                check(WITH(tr_op_desc_set_int(op, "dilation", 1, TR_ATTR_INT))));
    tr_op_desc *nothing = tr_op_desc_new("bare");
    tr_op_desc_set_int(nothing, "any", 1, TR_ATTR_INT);
    EXPECT_FAIL(TR_EINVAL, "bare: there is no attribute 'any'; it has none", tr__attrs_check(&bare, nothing, false));
    tr_op_desc_free(nothing);
    EXPECT_OK(check(WITH(tr_op_desc_set_int(op, "@PLAN@", 1, TR_ATTR_INT))));
    EXPECT_OK(check(WITH(tr_op_desc_set_string(op, "op_namescope", "/", 1))));
}

TEST(a_saved_program_stays_as_it_is)
{
    tr_op_desc *op = conv_desc();

    tr_op_desc_set_int(op, "from_the_future", 1, TR_ATTR_INT);
    EXPECT_OK(tr__attrs_check(&conv, op, true));
    assert_int_equal(tr_op_desc_attr_count(op), 2);
    tr_op_desc_set_int(op, "groups", 0, TR_ATTR_INT);
    EXPECT_FAIL(TR_ERANGE, "'groups'", tr__attrs_check(&conv, op, true));
    tr_op_desc_remove_attr(op, "groups");
    tr_op_desc_remove_attr(op, "sub_block");
    EXPECT_FAIL(TR_EINVAL, "'sub_block' is missing", tr__attrs_check(&conv, op, true));
    tr_op_desc_free(op);
}

/* -- decoding ----------------------------------------------------------------------------------- */

static void expect_defaults(const attrs *a)
{
    assert_int_equal(a->groups, 1);
    assert_int_equal(a->sub_block, 3);
    assert_true(a->rate == 0.1f);
    assert_int_equal(a->pooling, POOL_MAX);
    assert_true(a->exact);
    assert_int_equal(a->rows, -1);
    assert_int_equal(a->strides.count, 2);
    assert_int_equal(a->strides.item[1], 2);
    assert_int_equal(a->flags.count, 2);
    assert_int_equal(a->flags.item[0], 1);
    assert_int_equal(a->flags.item[1], 0);
    assert_int_equal(a->shape.item[0], 5000000000);
    assert_true(a->values.item[1] == -1000.0f);
    assert_int_equal(a->names.count, 2);
    assert_string_equal(a->names.item[0], "a");
}

TEST(decoding_fills_the_struct)
{
    tr_op_desc *op = conv_desc();
    attrs       a = {0};

    EXPECT_OK(tr__attrs_decode(&a, &conv, op));           /* without the defaults in the desc */
    expect_defaults(&a);
    memset(&a, 0, sizeof a);
    EXPECT_OK(tr__attrs_check(&conv, op, false));
    EXPECT_OK(tr__attrs_decode(&a, &conv_grad, op));      /* a gradient has the forward operator's */
    expect_defaults(&a);
    tr_op_desc_set_int(op, "rows", 5000000000, TR_ATTR_LONG);
    tr_op_desc_set_int(op, "exact", 0, TR_ATTR_BOOL);
    tr_op_desc_set_strings(op, "names", 0, NULL);
    EXPECT_OK(tr__attrs_decode(&a, &conv, op));
    assert_int_equal(a.rows, 5000000000);
    assert_false(a.exact);
    assert_int_equal(a.names.count, 0);
    tr_op_desc_set_string(op, "pooling", "average", 7);
    EXPECT_OK(tr__attrs_decode(&a, &conv, op));
    assert_int_equal(a.pooling, POOL_AVERAGE);            /* a word becomes its number */
    tr_op_desc_set_string(op, "pooling", "mean", 4);
    EXPECT_FAIL(TR_EINTERNAL, "'pooling' was not checked", tr__attrs_decode(&a, &conv, op));
    tr_op_desc_set_string(op, "pooling", "max", 3);
    tr_op_desc_set_string(op, "rows", "x", 1);
    EXPECT_FAIL(TR_EINTERNAL, "'rows' was not checked", tr__attrs_decode(&a, &conv, op));
    tr_op_desc_free(op);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_are_found_by_type_and_listed_in_order),
        cmocka_unit_test(accessors_say_what_the_record_says),
        cmocka_unit_test(defaults_and_ranges_are_texts),
        cmocka_unit_test(a_gradient_operator_derives_its_proto_from_the_rule),
        cmocka_unit_test(the_proto_message_carries_defaults_and_ranges),
        cmocka_unit_test(a_missing_attribute_gets_its_default),
        cmocka_unit_test(numbers_convert_where_they_keep_their_value),
        cmocka_unit_test(other_types_are_refused),
        cmocka_unit_test(values_outside_the_range_are_refused),
        cmocka_unit_test(an_attribute_that_is_not_honoured_may_only_have_its_neutral_value),
        cmocka_unit_test(unknown_attributes_are_refused_with_a_suggestion),
        cmocka_unit_test(a_saved_program_stays_as_it_is),
        cmocka_unit_test(decoding_fills_the_struct),
    };
    return cmocka_run_group_tests(tests, register_all, NULL);
}
