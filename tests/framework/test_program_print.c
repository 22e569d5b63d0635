/* test_program_print.c - programs as text. */
#include "tests/support/expect.h"

#include "framework/operators/op.h"
#include "framework/operators/op_registry.h"
#include "framework/programs/program.h"

/* -- two operators of our own ------------------------------------------------------------------ */

typedef struct attrs {
    int32_t     x_num_col_dims;
    float       scale;
    const char *mode;
    tr_ints     strides;
} attrs;

static const tr_op_proto mul_proto = {
    .doc = "Out = X * Y.",
    .in = TR_SLOTS({"X", "left"}, {"Y", "right"}, {"Bias", "added", TR_SLOT_OPTIONAL}, {"Mask", "", TR_SLOT_OPTIONAL}),
    .out = TR_SLOTS({"Out", "the product"}, {"Saved", "", TR_SLOT_INTERMEDIATE | TR_SLOT_OPTIONAL}),
    .attr = TR_ATTRS(TR_ATTR(attrs, x_num_col_dims, INT, "", .number = 1), TR_ATTR(attrs, scale, FLOAT, "", .number = 0.1),
                     TR_ATTR(attrs, mode, STRING, "", .text = "plain"), TR_ATTR(attrs, strides, INTS, "", .text = "1, 1")),
    .attrs_size = sizeof(attrs),
};
static const tr_op_proto sum_proto = {
    .in = TR_SLOTS({"X", "summands", TR_SLOT_REPEATED}),
    .out = TR_SLOTS({"Out", "sum"}),
};
static const tr_op mul = {.type = "mul", .proto = &mul_proto}, sum = {.type = "sum", .proto = &sum_proto};

static int register_both(void **state)
{
    static const tr_op *const records[] = {&mul, &sum};

    (void)state;
    tr_registry_add(records, 2);
    return 0;
}

/* -- building and comparing ---------------------------------------------------------------------- */

static tr_var_desc *var_of(tr_block *block, const char *name, int rank, const int64_t *dims)
{
    tr_var_desc *var = tr_block_create_var(block, name);
    tr_var_desc_set_dtype(var, TR_FP32);
    assert_int_equal(tr_var_desc_set_shape(var, rank, dims), TR_OK);
    return var;
}

static tr_op_desc *op_of(tr_block *block, const char *type)
{
    tr_op_desc *op = tr_op_desc_new(type);
    assert_int_equal(tr__block_place_op(block, -1, op), TR_OK);
    return op;
}

#define IN(op, slot, ...)                                                                        \
    tr_op_desc_set_input(op, slot, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),        \
                         (const char *[]){__VA_ARGS__})
#define OUT(op, slot, ...)                                                                       \
    tr_op_desc_set_output(op, slot, sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *),       \
                          (const char *[]){__VA_ARGS__})

static void expect_text(const tr_program *program, const char *expected)
{
    char *text;

    EXPECT_OK(tr_program_to_string(&text, program));
    assert_string_equal(text, expected);
    tr_free(text);
}

/* -- tests --------------------------------------------------------------------------------------- */

TEST(an_empty_program_is_an_empty_text)
{
    tr_program *program = tr_program_new();
    expect_text(program, "");
    tr_program_free(program);
}

TEST(a_layer_reads_like_a_program)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);

    var_of(block, "x", 2, (const int64_t[]){-1, 784});
    tr_var_desc_set_persistable(var_of(block, "fc.w", 2, (const int64_t[]){784, 10}), true);
    var_of(block, "fc.xw", 2, (const int64_t[]){-1, 10});
    tr_op_desc *op = op_of(block, "mul");
    IN(op, "Y", "fc.w");                                  /* written in the proto's order all the same */
    IN(op, "X", "x");
    OUT(op, "Out", "fc.xw");
    tr_op_desc_set_int(op, "x_num_col_dims", 1, TR_ATTR_INT);
    tr_op_desc_set_float(op, "scale", 0.1);
    tr_op_desc_set_ints(op, "strides", 2, (const int64_t[]){1, 1}, TR_ATTR_INTS);
    tr_op_desc_set_int(op, "op_role", 1, TR_ATTR_INT);
    tr_op_desc_set_strings(op, "op_callstack", 1, (const char *const[]){"train.py:3"});
    expect_text(program, "x : float32[?, 784]\n"
                         "fc.w : float32[784, 10] persistable\n"
                         "fc.xw : float32[?, 10] = mul(x, fc.w)\n");
    tr_program_free(program);
}

TEST(slots_out_of_order_and_changed_attributes_have_names)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);
    tr_op_desc *op = op_of(block, "mul");

    IN(op, "X", "a");
    IN(op, "Y", "b");
    IN(op, "Mask", "m");
    IN(op, "Bias", "@EMPTY@");
    tr_op_desc_set_input(op, "Bias", 0, NULL);
    OUT(op, "Out", "c");
    OUT(op, "Saved", "s");
    tr_op_desc_set_float(op, "scale", 2);
    tr_op_desc_set_string(op, "mode", "a \"b\"\n", 6);
    tr_op_desc_set_ints(op, "strides", 2, (const int64_t[]){2, 1}, TR_ATTR_INTS);
    tr_op_desc *add = op_of(block, "sum");
    IN(add, "X", "c");
    OUT(add, "Out", "d");
    tr_op_desc *unknown = op_of(block, "other");
    IN(unknown, "A", "c", "d");
    tr_op_desc_set_int(unknown, "flag", 1, TR_ATTR_BOOL);
    expect_text(program, "c, s = mul(a, b, Mask=m) {scale=2.0, mode=\"a \\\"b\\\"\\n\", strides=[2, 1]}\n"
                         "d = sum([c])\n"
                         "other(A=[c, d]) {flag=true}\n");
    tr_program_free(program);
}

TEST(blocks_stand_below_the_operator_that_runs_them)
{
    tr_program *program = tr_program_new();
    tr_block   *global = tr_program_block(program, 0);
    tr_block   *body = tr_program_append_block(program, 0), *inner = tr_program_append_block(program, 1);
    tr_block   *alone = tr_program_append_block(program, 0);

    tr_program_set_random_seed(program, 42);
    tr_op_desc_set_int(op_of(global, "while"), "sub_block", 1, TR_ATTR_BLOCK);
    op_of(global, "end");
    var_of(body, "i", 1, (const int64_t[]){1});
    tr_op_desc_set_ints(op_of(body, "if"), "blocks", 1, (const int64_t[]){2}, TR_ATTR_BLOCKS);
    tr_op_desc_set_int(op_of(inner, "again"), "sub_block", 1, TR_ATTR_BLOCK);
    tr_block_set_forward(alone, 1);
    OUT(op_of(alone, "fill"), "Out", "i@GRAD");
    tr_op_desc_set_int(op_of(alone, "astray"), "sub_block", 77, TR_ATTR_BLOCK);
    expect_text(program, "random seed 42\n"
                         "while() {sub_block=block 1}\n"
                         "    block 1:\n"
                         "        i : float32[1]\n"
                         "        if() {blocks=[block 2]}\n"
                         "            block 2:\n"
                         "                again() {sub_block=block 1}\n"
                         "end()\n"
                         "block 3 with the gradients of block 1:\n"
                         "    Out=i@GRAD = fill()\n"
                         "    astray() {sub_block=block 77}\n");
    tr_program_free(program);
}

TEST(every_kind_of_variable_has_its_words)
{
    static const struct { const char *name; tr_var_kind kind; } kinds[] = {
        {"rows", TR_KIND_SELECTED_ROWS}, {"array", TR_KIND_ARRAY}, {"reader", TR_KIND_READER}, {"raw", TR_KIND_RAW}};
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);

    tr_var_desc_set_lod_level(var_of(block, "words", 2, (const int64_t[]){-1, 1}), 1);
    tr_block_create_var(block, "unknown");
    for (int i = 0; i < 4; i++)
        tr_var_desc_set_kind(var_of(block, kinds[i].name, 2, (const int64_t[]){-1, 8}), kinds[i].kind);
    expect_text(program, "words : float32[?, 1] lod 1\n"
                         "unknown : ?\n"
                         "rows : rows of float32[?, 8]\n"
                         "array : array of float32[?, 8]\n"
                         "reader : reader\n"
                         "raw : raw\n");
    tr_program_free(program);
}

TEST(long_values_are_cut_short)
{
    tr_program *program = tr_program_new();
    tr_op_desc *op = op_of(tr_program_block(program, 0), "other");
    int64_t     many[20] = {0};
    char        text[200], *line;

    memset(text, 'x', sizeof text);
    tr_op_desc_set_ints(op, "many", 20, many, TR_ATTR_INTS);
    tr_op_desc_set_string(op, "text", text, sizeof text);
    line = tr__op_desc_to_string(op);
    assert_non_null(strstr(line, "0, ... 20 in all]"));
    assert_non_null(strstr(line, "xxx...\" (200 bytes)"));
    tr_free(line);
    tr_op_desc_set_string(op, "text", "caf\xc3\xa9 \xff\x01", 8);
    line = tr__op_desc_to_string(op);
    assert_non_null(strstr(line, "\"caf\xc3\xa9 \\xff\\x01\""));
    tr_free(line);
    tr_program_free(program);
}

TEST(floats_have_as_many_digits_as_they_need)
{
    tr_program  *program = tr_program_new();
    tr_op_desc  *op = op_of(tr_program_block(program, 0), "other");
    const double values[] = {0.1, 1.0 / 3, 16777215, 1e-30, -0.0, 1.0 / 0.0};

    tr_op_desc_set_floats(op, "v", 6, values);
    char *line = tr__op_desc_to_string(op);
    assert_string_equal(line, "other() {v=[0.1, 0.33333334, 16777215.0, 1e-30, -0.0, inf]}");
    tr_free(line);
    tr_program_free(program);
}

TEST(messages_name_the_slots)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);
    tr_op_desc *op = op_of(block, "mul");

    var_of(block, "c", 2, (const int64_t[]){-1, 10});
    IN(op, "X", "a");
    IN(op, "Y", "b");
    OUT(op, "Out", "c");
    tr_op_desc_set_int(op, "x_num_col_dims", 2, TR_ATTR_INT);
    char *line = tr__op_desc_to_string(op);
    assert_string_equal(line, "Out=c : float32[?, 10] = mul(X=a, Y=b) {x_num_col_dims=2}");
    tr_free(line);
    tr_program_free(program);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_program_is_an_empty_text),
        cmocka_unit_test(a_layer_reads_like_a_program),
        cmocka_unit_test(slots_out_of_order_and_changed_attributes_have_names),
        cmocka_unit_test(blocks_stand_below_the_operator_that_runs_them),
        cmocka_unit_test(every_kind_of_variable_has_its_words),
        cmocka_unit_test(long_values_are_cut_short),
        cmocka_unit_test(floats_have_as_many_digits_as_they_need),
        cmocka_unit_test(messages_name_the_slots),
    };
    return cmocka_run_group_tests(tests, register_both, NULL);
}
