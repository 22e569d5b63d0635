/* test_program_io.c - programs to bytes and back; damaged ones are refused by name. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/programs/program.h"
#include "proto/framework.pb-c.h"

typedef Paddle__Framework__Proto__ProgramDesc  pb_program;
typedef Paddle__Framework__Proto__OpDesc__Attr pb_attr;

static const char *const golden[] = {
    "tests/framework/golden/inference_model.pb",
    "tests/framework/golden/every_field.pb",
    "tests/framework/golden/smallest.pb",
};
enum { GOLDEN = sizeof golden / sizeof *golden };

static void expect_bytes(const tr_program *program, const uint8_t *bytes, size_t size)
{
    void  *again;
    size_t again_size;

    EXPECT_OK(tr_program_serialize(&again, &again_size, program));
    assert_int_equal(again_size, size);
    assert_memory_equal(again, bytes, size);
    tr_free(again);
}

TEST(golden_programs_come_back_byte_for_byte)
{
    for (int g = 0; g < GOLDEN; g++) {
        tr_program *program;
        size_t      size;
        uint8_t    *bytes = test_read_file(&size, golden[g]);
        EXPECT_OK(tr_program_load(&program, golden[g], 0));
        expect_bytes(program, bytes, size);
        tr_program_free(program);
        free(bytes);
    }
}

TEST(a_clone_has_the_same_bytes_and_its_own_memory)
{
    tr_program *program;
    size_t      size;
    uint8_t    *bytes = test_read_file(&size, golden[1]);

    EXPECT_OK(tr_program_parse(&program, bytes, size));
    tr_program *clone = tr_program_clone(program);
    tr_program_free(program);
    expect_bytes(clone, bytes, size);
    tr_program_free(clone);
    free(bytes);
}

TEST(every_field_arrives)
{
    tr_program *program;
    size_t      length;

    EXPECT_OK(tr_program_load(&program, golden[1], 0));
    assert_int_equal(tr_program_random_seed(program), -7);
    assert_int_equal(tr_program_block_count(program), 3);
    tr_block *block = tr_program_block(program, 0);
    tr_var_desc *nine = tr_block_find_var(block, "nine");
    assert_int_equal(tr_var_desc_rank(nine), 9);
    assert_int_equal(tr_var_desc_dims(nine)[8], -1);
    assert_int_equal(tr_var_desc_lod_level(nine), 2);
    assert_int_equal(tr_var_desc_dtype(tr_block_find_var(block, "of_BF16")), TR_BF16);
    assert_int_equal(tr_var_desc_kind(tr_block_find_var(block, "rows")), TR_KIND_SELECTED_ROWS);
    assert_int_equal(tr_var_desc_dtype(tr_block_find_var(block, "no type yet")), TR_DTYPE_NONE);
    tr_op_desc *op = tr_block_op_at(block, 0);
    assert_int_equal(tr_op_desc_input_count(op, "Empty"), 0);
    assert_string_equal(tr_op_desc_input(op, "Two", 1), "@EMPTY@");
    assert_int_equal(tr_op_desc_attr_int(op, "long", 0), INT64_MIN);
    assert_int_equal(tr_op_desc_attr_int(op, "ints", 1), INT32_MIN);
    assert_true((float)tr_op_desc_attr_float(op, "float", 0) == 0.1f);
    assert_memory_equal(tr_op_desc_attr_string(op, "binary", 0, &length), "\x00\xff\x00", 3);
    assert_int_equal(length, 3);
    assert_int_equal(tr_op_desc_attr_size(op, "no_ints"), 0);
    assert_int_equal(tr_block_forward(tr_program_block(program, 2)), 1);
    tr_program_free(program);
}

TEST(a_change_of_type_leaves_what_only_the_file_knows)
{
    tr_program *program;
    void       *bytes;
    size_t      size;

    EXPECT_OK(tr_program_load(&program, golden[1], 0));
    tr_block *block = tr_program_block(program, 0);
    tr_var_desc_set_kind(tr_block_find_var(block, "was a tensor"), TR_KIND_TENSOR);
    EXPECT_OK(tr_var_desc_set_shape(tr_block_find_var(block, "was a tensor"), 1, (const int64_t[]){3}));
    EXPECT_OK(tr_program_serialize(&bytes, &size, program));
    tr_program_free(program);
    pb_program *message = paddle__framework__proto__program_desc__unpack(NULL, size, bytes);
    assert_non_null(message);
    Paddle__Framework__Proto__VarType *type = NULL;
    for (size_t i = 0; i < message->blocks[0]->n_vars; i++)
        if (strcmp(message->blocks[0]->vars[i]->name, "was a tensor") == 0)
            type = message->blocks[0]->vars[i]->type;
    assert_non_null(type);
    assert_int_equal(type->type, TR_KIND_TENSOR);
    assert_int_equal(type->lod_tensor->tensor->dims[0], 3);
    assert_int_equal(type->selected_rows->dims[0], 5);
    paddle__framework__proto__program_desc__free_unpacked(message, NULL);
    tr_free(bytes);
}

/* -- damage ----------------------------------------------------------------------------------- */

/* Whatever came through can be used: print it, write it, read that. */
static void use(tr_program *program)
{
    char       *text;
    void       *bytes, *again;
    size_t      size, again_size;
    tr_program *second;

    EXPECT_OK(tr_program_to_string(&text, program));
    EXPECT_OK(tr_program_serialize(&bytes, &size, program));
    EXPECT_OK(tr_program_parse(&second, bytes, size));
    EXPECT_OK(tr_program_serialize(&again, &again_size, second));
    assert_int_equal(size, again_size);
    assert_memory_equal(bytes, again, size);
    tr_free(text);
    tr_free(bytes);
    tr_free(again);
    tr_program_free(program);
    tr_program_free(second);
}

static void try(const uint8_t *bytes, size_t size)
{
    tr_program *program;
    uint8_t    *copy = malloc(size + 1);          /* a block of its own: reads beyond it are seen */
    uint8_t    *exact = realloc(copy, size ? size : 1);

    memcpy(exact, bytes, size);
    const tr_status status = tr_program_parse(&program, exact, size);
    free(exact);
    if (status == TR_OK)
        use(program);
    else
        assert_int_equal(status, TR_EFORMAT);
}

TEST(a_program_cut_anywhere_is_refused_or_whole)
{
    for (int g = 0; g < GOLDEN; g++) {
        size_t   size;
        uint8_t *bytes = test_read_file(&size, golden[g]);
        for (size_t cut = 0; cut < size; cut++)
            try(bytes, cut);
        free(bytes);
    }
}

TEST(a_flipped_bit_is_refused_or_a_program)
{
    for (int g = 0; g < GOLDEN; g++) {
        size_t   size;
        uint8_t *bytes = test_read_file(&size, golden[g]);
        for (size_t i = 0; i < size; i++)
            for (int bit = 0; bit < 8; bit++) {
                bytes[i] ^= (uint8_t)(1 << bit);
                try(bytes, size);
                bytes[i] ^= (uint8_t)(1 << bit);
            }
        free(bytes);
    }
}

TEST(a_cut_program_says_where)
{
    tr_program *program;
    size_t      size;
    uint8_t    *bytes = test_read_file(&size, golden[0]);

    EXPECT_FAIL(TR_EFORMAT, "block 0, operator 2 (elementwise_add)", tr_program_parse(&program, bytes, 560));
    EXPECT_FAIL(TR_EFORMAT, "block 0, variable 2", tr_program_parse(&program, bytes, 60));
    EXPECT_FAIL(TR_EFORMAT, "cut short", tr_program_parse(&program, bytes, size - 6));
    EXPECT_FAIL(TR_EFORMAT, "it has 0 blocks", tr_program_parse(&program, bytes, 0));
    EXPECT_FAIL(TR_EFORMAT, "program of 5 bytes", tr_program_parse(&program, "hello", 5));
    free(bytes);
}

/* Damages a message in one way. */
typedef void (*damage_fn)(pb_program *message);

/* The status of parsing the golden program `every_field` after it was damaged. */
static tr_status parse_damaged(damage_fn damage)
{
    tr_program *program;
    size_t      size;
    uint8_t    *bytes = test_read_file(&size, golden[1]);
    pb_program *message = paddle__framework__proto__program_desc__unpack(NULL, size, bytes);

    assert_non_null(message);
    damage(message);
    const size_t damaged_size = paddle__framework__proto__program_desc__get_packed_size(message);
    uint8_t     *damaged = malloc(damaged_size);
    paddle__framework__proto__program_desc__pack(message, damaged);
    paddle__framework__proto__program_desc__free_unpacked(message, NULL);
    const tr_status status = tr_program_parse(&program, damaged, damaged_size);
    if (status == TR_OK)
        tr_program_free(program);
    free(damaged);
    free(bytes);
    return status;
}

static pb_attr *attr_of(pb_program *m, const char *name)
{
    for (size_t i = 0; i < m->blocks[0]->ops[0]->n_attrs; i++)
        if (strcmp(m->blocks[0]->ops[0]->attrs[i]->name, name) == 0)
            return m->blocks[0]->ops[0]->attrs[i];
    fail();
    return NULL;
}

static void set(char **string, const char *value)
{
    free(*string);
    *string = strdup(value);
}

static void nothing(pb_program *m) { (void)m; }
static void wrong_index(pb_program *m) { m->blocks[1]->idx = 5; }
static void global_has_parent(pb_program *m) { m->blocks[0]->parent_idx = 0; }
static void own_parent(pb_program *m) { m->blocks[2]->parent_idx = 2; }
static void later_parent(pb_program *m) { m->blocks[1]->parent_idx = 2; }
static void no_parent(pb_program *m) { m->blocks[1]->parent_idx = -1; }
static void far_forward(pb_program *m) { m->blocks[2]->forward_block_idx = 3; }
static void twice_variable(pb_program *m) { set(&m->blocks[0]->vars[1]->name, "of_BOOL"); }
static void no_name(pb_program *m) { set(&m->blocks[0]->vars[1]->name, ""); }
static void unknown_kind(pb_program *m) { m->blocks[0]->vars[0]->type->type = 16; }
static void dtype_as_kind(pb_program *m) { m->blocks[0]->vars[0]->type->type = 5; }
static void unknown_dtype(pb_program *m) { m->blocks[0]->vars[0]->type->lod_tensor->tensor->data_type = 7; }
static void negative_dim(pb_program *m) { m->blocks[0]->vars[0]->type->lod_tensor->tensor->dims[1] = -2; }
static void huge_dims(pb_program *m)
{
    m->blocks[0]->vars[0]->type->lod_tensor->tensor->dims[0] = INT64_MAX;
    m->blocks[0]->vars[0]->type->lod_tensor->tensor->dims[1] = INT64_MAX;
}
static void high_rank(pb_program *m)
{
    Paddle__Framework__Proto__VarType__TensorDesc *tensor = m->blocks[0]->vars[0]->type->lod_tensor->tensor;
    tensor->dims = realloc(tensor->dims, 10 * sizeof *tensor->dims);
    memset(tensor->dims, 0, 10 * sizeof *tensor->dims);
    tensor->n_dims = 10;
}
static void negative_lod(pb_program *m)
{
    m->blocks[0]->vars[0]->type->lod_tensor->has_lod_level = 1;
    m->blocks[0]->vars[0]->type->lod_tensor->lod_level = -1;
}
static void no_type(pb_program *m) { set(&m->blocks[0]->ops[0]->type, ""); }
static void twice_slot(pb_program *m) { set(&m->blocks[0]->ops[0]->inputs[1]->parameter, "Empty"); }
static void twice_attr(pb_program *m) { set(&attr_of(m, "float")->name, "int"); }
static void unknown_attr_type(pb_program *m) { attr_of(m, "int")->type = 12; }
static void valueless_attr(pb_program *m) { attr_of(m, "long")->has_l = 0; }
static void far_block(pb_program *m) { attr_of(m, "block")->block_idx = 3; }
static void negative_block(pb_program *m) { attr_of(m, "blocks")->blocks_idx[1] = -1; }
static void runs_itself(pb_program *m) { m->blocks[1]->ops[0]->attrs[0]->block_idx = 1; }
static void runs_its_caller(pb_program *m) { m->blocks[1]->ops[0]->attrs[0]->block_idx = 0; }

TEST(damage_is_told_with_the_name_of_its_field)
{
    EXPECT_OK(parse_damaged(nothing));
    EXPECT_FAIL(TR_EFORMAT, "block 1 calls itself number 5", parse_damaged(wrong_index));
    EXPECT_FAIL(TR_EFORMAT, "block 0 is the global one, but has the parent 0", parse_damaged(global_has_parent));
    EXPECT_FAIL(TR_EFORMAT, "block 2 has the parent 2", parse_damaged(own_parent));
    EXPECT_FAIL(TR_EFORMAT, "block 1 has the parent 2", parse_damaged(later_parent));
    EXPECT_FAIL(TR_EFORMAT, "block 1 has the parent -1", parse_damaged(no_parent));
    EXPECT_FAIL(TR_EFORMAT, "block 2 has the forward block 3 of 3", parse_damaged(far_forward));
    EXPECT_FAIL(TR_EFORMAT, "block 0: variable 'of_BOOL' is there twice", parse_damaged(twice_variable));
    EXPECT_FAIL(TR_EFORMAT, "block 0: variable 1 has no name", parse_damaged(no_name));
    EXPECT_FAIL(TR_EFORMAT, "variable 'of_BOOL': its type is the unknown 16", parse_damaged(unknown_kind));
    EXPECT_FAIL(TR_EFORMAT, "its type is the unknown 5", parse_damaged(dtype_as_kind));
    EXPECT_FAIL(TR_EFORMAT, "its data type is the unknown 7", parse_damaged(unknown_dtype));
    EXPECT_FAIL(TR_EFORMAT, "variable 'of_BOOL': dimension 1 is -2", parse_damaged(negative_dim));
    EXPECT_FAIL(TR_EFORMAT, "its dimensions are too large", parse_damaged(huge_dims));
    EXPECT_FAIL(TR_EFORMAT, "its rank is more than the possible 9: 10", parse_damaged(high_rank));
    EXPECT_FAIL(TR_EFORMAT, "its LoD level is -1", parse_damaged(negative_lod));
    EXPECT_FAIL(TR_EFORMAT, "block 0, operator 0 (): it has no type", parse_damaged(no_type));
    EXPECT_FAIL(TR_EFORMAT, "operator 0 (every_attribute): input slot 'Empty' is there twice", parse_damaged(twice_slot));
    EXPECT_FAIL(TR_EFORMAT, "attribute 'int' is there twice", parse_damaged(twice_attr));
    EXPECT_FAIL(TR_EFORMAT, "attribute 'int' has the unknown type 12", parse_damaged(unknown_attr_type));
    EXPECT_FAIL(TR_EFORMAT, "attribute 'long' is a long, but has no such value", parse_damaged(valueless_attr));
    EXPECT_FAIL(TR_EFORMAT, "attribute 'block' names block 3 of a program of 3 blocks", parse_damaged(far_block));
    EXPECT_FAIL(TR_EFORMAT, "attribute 'blocks' names block -1", parse_damaged(negative_block));
    EXPECT_FAIL(TR_EFORMAT, "blocks run each other in a circle", parse_damaged(runs_itself));
    EXPECT_FAIL(TR_EFORMAT, "blocks run each other in a circle", parse_damaged(runs_its_caller));
}

TEST(blocks_in_blocks_without_end_are_refused)
{
    tr_program *program = tr_program_new(), *parsed;
    void       *bytes;
    size_t      size;

    for (int b = 0; b < 100; b++)
        assert_non_null(tr_program_append_block(program, b));
    EXPECT_OK(tr_program_serialize(&bytes, &size, program));
    EXPECT_FAIL(TR_EFORMAT, "block 65 lies in more than 64 others", tr_program_parse(&parsed, bytes, size));
    tr_free(bytes);
    tr_program_free(program);
}

TEST(a_missing_file_is_named)
{
    tr_program *program;

    EXPECT_FAIL(TR_EIO, "'no/such/__model__'", tr_program_load(&program, "no/such/__model__", 0));
    EXPECT_FAIL(TR_EFORMAT, "while loading 'tests/framework/golden/make_golden.py'",
                tr_program_load(&program, "tests/framework/golden/make_golden.py", 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_programs_come_back_byte_for_byte),
        cmocka_unit_test(a_clone_has_the_same_bytes_and_its_own_memory),
        cmocka_unit_test(every_field_arrives),
        cmocka_unit_test(a_change_of_type_leaves_what_only_the_file_knows),
        cmocka_unit_test(a_program_cut_anywhere_is_refused_or_whole),
        cmocka_unit_test(a_flipped_bit_is_refused_or_a_program),
        cmocka_unit_test(a_cut_program_says_where),
        cmocka_unit_test(damage_is_told_with_the_name_of_its_field),
        cmocka_unit_test(blocks_in_blocks_without_end_are_refused),
        cmocka_unit_test(a_missing_file_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
