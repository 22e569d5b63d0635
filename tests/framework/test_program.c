/* test_program.c - building and changing programs. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/programs/program.h"

static tr_op_desc *op_of(const char *type, const char *in, const char *out)
{
    tr_op_desc *op = tr_op_desc_new(type);
    tr_op_desc_set_input(op, "X", 1, &in);
    tr_op_desc_set_output(op, "Out", 1, &out);
    return op;
}

TEST(a_new_program_has_an_empty_global_block)
{
    tr_program *program = tr_program_new();

    assert_int_equal(tr_program_block_count(program), 1);
    assert_int_equal(tr_block_parent(tr_program_block(program, 0)), -1);
    assert_int_equal(tr_block_forward(tr_program_block(program, 0)), -1);
    assert_null(tr_program_block(program, 1));
    assert_null(tr_program_block(program, -1));
    assert_null(tr_program_append_block(program, 1));
    tr_program_free(program);
    tr_program_free(NULL);
}

TEST(names_are_looked_up_outwards)
{
    tr_program  *program = tr_program_new();
    tr_block    *global = tr_program_block(program, 0), *inner = tr_program_append_block(program, 0);
    tr_var_desc *x = tr_block_create_var(global, "x"), *y = tr_block_create_var(inner, "y");

    assert_ptr_equal(tr_block_create_var(global, "x"), x);
    assert_null(tr_block_find_var(inner, "x"));
    assert_ptr_equal(tr_block_find_var_recursive(inner, "x"), x);
    assert_ptr_equal(tr_block_find_var_recursive(inner, "y"), y);
    assert_null(tr_block_find_var_recursive(global, "y"));
    tr_var_desc *hiding = tr_block_create_var(inner, "x");
    assert_ptr_equal(tr_block_find_var_recursive(inner, "x"), hiding);
    tr_program_free(program);
}

TEST(variables_stay_in_order_when_some_go)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);
    char        name[8];

    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "v%d", i);
        tr_block_create_var(block, name);
    }
    for (int i = 0; i < 100; i += 2) {
        snprintf(name, sizeof name, "v%d", i);
        tr_block_remove_var(block, name);
    }
    tr_block_remove_var(block, "v0");
    assert_int_equal(tr_block_var_count(block), 50);
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof name, "v%d", 2 * i + 1);
        assert_string_equal(tr_var_desc_name(tr_block_var_at(block, i)), name);
    }
    assert_null(tr_block_var_at(block, 50));
    assert_null(tr_block_var_at(block, -1));
    tr_program_free(program);
}

TEST(a_variable_keeps_what_it_is_told)
{
    tr_program  *program = tr_program_new();
    tr_var_desc *var = tr_block_create_var(tr_program_block(program, 0), "v");

    assert_int_equal(tr_var_desc_kind(var), TR_KIND_TENSOR);
    assert_int_equal(tr_var_desc_dtype(var), TR_DTYPE_NONE);
    assert_int_equal(tr_var_desc_rank(var), 0);
    assert_false(tr_var_desc_persistable(var));
    tr_var_desc_set_kind(var, TR_KIND_SELECTED_ROWS);
    tr_var_desc_set_dtype(var, TR_FP64);
    tr_var_desc_set_lod_level(var, 2);
    tr_var_desc_set_persistable(var, true);
    EXPECT_OK(tr_var_desc_set_shape(var, 3, (const int64_t[]){-1, 0, 7}));
    assert_int_equal(tr_var_desc_kind(var), TR_KIND_SELECTED_ROWS);
    assert_int_equal(tr_var_desc_dtype(var), TR_FP64);
    assert_int_equal(tr_var_desc_lod_level(var), 2);
    assert_true(tr_var_desc_persistable(var));
    assert_int_equal(tr_var_desc_rank(var), 3);
    assert_int_equal(tr_var_desc_dims(var)[2], 7);
    EXPECT_FAIL(TR_ESHAPE, "variable 'v': dimension 1 is -2", tr_var_desc_set_shape(var, 2, (const int64_t[]){1, -2}));
    EXPECT_FAIL(TR_ESHAPE, "the rank must be 0..9, got 10", tr_var_desc_set_shape(var, 10, (const int64_t[10]){0}));
    EXPECT_FAIL(TR_ESHAPE, "too large", tr_var_desc_set_shape(var, 2, (const int64_t[]){INT64_MAX, 2}));
    assert_int_equal(tr_var_desc_rank(var), 3);
    tr_program_free(program);
}

TEST(every_change_makes_a_new_revision)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);
    uint64_t    last = tr_program_revision(program);
    const char *x = "x";

#define CHANGES(statement)                                    \
    do {                                                      \
        statement;                                            \
        assert_true(tr_program_revision(program) != last);    \
        last = tr_program_revision(program);                  \
    } while (0)
    CHANGES(tr_block_create_var(block, "x"));
    CHANGES(tr_var_desc_set_dtype(tr_block_find_var(block, "x"), TR_FP32));
    CHANGES(tr_var_desc_set_persistable(tr_block_find_var(block, "x"), true));
    CHANGES(tr_var_desc_set_shape(tr_block_find_var(block, "x"), 0, NULL));
    CHANGES(tr__block_place_op(block, -1, tr_op_desc_new("relu")));
    CHANGES(tr_op_desc_set_input(tr_block_op_at(block, 0), "X", 1, &x));
    CHANGES(tr_op_desc_set_float(tr_block_op_at(block, 0), "scale", 2));
    CHANGES(tr_op_desc_remove_attr(tr_block_op_at(block, 0), "scale"));
    CHANGES(tr_block_rename_var(block, "x", "y"));
    CHANGES(tr_program_append_block(program, 0));
    CHANGES(tr_block_set_forward(tr_program_block(program, 1), 0));
    CHANGES(tr_program_set_random_seed(program, 3));
    CHANGES(tr_block_remove_op(block, 0));
    CHANGES(tr_block_remove_var(block, "y"));
#undef CHANGES
    tr_block_remove_op(block, 0);
    tr_block_remove_var(block, "y");
    tr_op_desc_free(op_of("mul", "x", "y"));
    assert_int_equal(tr_program_revision(program), last);
    tr_program_free(program);
}

TEST(operators_stand_where_they_were_put)
{
    static const char *const types[] = {"a", "b", "c", "d"};
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);

    EXPECT_OK(tr__block_place_op(block, -1, tr_op_desc_new("b")));
    EXPECT_OK(tr__block_place_op(block, 0, tr_op_desc_new("a")));
    EXPECT_OK(tr__block_place_op(block, 2, tr_op_desc_new("d")));
    EXPECT_OK(tr__block_place_op(block, 2, tr_op_desc_new("c")));
    for (int i = 0; i < 4; i++)
        assert_string_equal(tr_op_desc_type(tr_block_op_at(block, i)), types[i]);
    tr_block_remove_op(block, 1);
    assert_string_equal(tr_op_desc_type(tr_block_op_at(block, 1)), "c");
    assert_int_equal(tr_block_op_count(block), 3);
    assert_null(tr_block_op_at(block, 3));
    tr_program_free(program);
}

TEST(renaming_reaches_every_use_and_no_other_variable)
{
    tr_program *program = tr_program_new();
    tr_block   *global = tr_program_block(program, 0);
    tr_block   *seeing = tr_program_append_block(program, 0), *hiding = tr_program_append_block(program, 0);
    const char *pair[] = {"w", "w@GRAD"};

    tr_block_create_var(global, "first");
    tr_block_create_var(global, "w");
    tr_block_create_var(global, "last");
    tr_block_create_var(hiding, "w");
    for (int b = 0; b < 3; b++)
        EXPECT_OK(tr__block_place_op(tr_program_block(program, b), -1, op_of("mul", "w", "last")));
    tr_op_desc_set_strings(tr_block_op_at(global, 0), "op_role_var", 2, pair);
    EXPECT_OK(tr_block_rename_var(global, "w", "weight"));
    assert_string_equal(tr_var_desc_name(tr_block_var_at(global, 1)), "weight");
    assert_null(tr_block_find_var(global, "w"));
    assert_string_equal(tr_op_desc_input(tr_block_op_at(global, 0), "X", 0), "weight");
    assert_string_equal(tr_op_desc_attr_string(tr_block_op_at(global, 0), "op_role_var", 0, NULL), "weight");
    assert_string_equal(tr_op_desc_input(tr_block_op_at(seeing, 0), "X", 0), "weight");
    assert_string_equal(tr_op_desc_input(tr_block_op_at(hiding, 0), "X", 0), "w");
    EXPECT_FAIL(TR_ENOTFOUND, "no variable 'w'", tr_block_rename_var(global, "w", "v"));
    EXPECT_FAIL(TR_EEXIST, "'weight' to 'last'", tr_block_rename_var(global, "weight", "last"));
    EXPECT_OK(tr_block_rename_var(global, "weight", "weight"));
    EXPECT_FAIL(TR_EEXIST, "'last' to 'weight'",
                tr_block_rename_vars(global, 2, (const char *[]){"last", "weight"}, (const char *[]){"weight", "last"}));
    EXPECT_FAIL(TR_EEXIST, "'last' to 'new'",
                tr_block_rename_vars(global, 2, (const char *[]){"weight", "last"}, (const char *[]){"new", "new"}));
    assert_non_null(tr_block_find_var(global, "weight"));          /* none of them, where one is not possible */
    EXPECT_OK(tr_block_rename_var(global, tr_var_desc_name(tr_block_var_at(global, 1)), "v"));
    tr_program_free(program);
}

TEST(slots_are_replaced_and_kept_in_order)
{
    const char *names[] = {"a", "b", "c"};
    tr_op_desc *op = tr_op_desc_new("sum");

    tr_op_desc_set_input(op, "X", 3, names);
    tr_op_desc_set_input(op, "Y", 0, NULL);
    tr_op_desc_set_output(op, "Out", 1, names);
    assert_int_equal(tr_op_desc_input_slots(op), 2);
    assert_string_equal(tr_op_desc_input_slot(op, 1), "Y");
    assert_null(tr_op_desc_input_slot(op, 2));
    assert_int_equal(tr_op_desc_input_count(op, "X"), 3);
    assert_int_equal(tr_op_desc_input_count(op, "Z"), 0);
    assert_string_equal(tr_op_desc_input(op, "X", 2), "c");
    assert_null(tr_op_desc_input(op, "X", 3));
    assert_null(tr_op_desc_input(op, "Z", 0));
    const char *own = tr_op_desc_input(op, "X", 2);
    tr_op_desc_set_input(op, "X", 1, &own);               /* a part of what is replaced */
    assert_int_equal(tr_op_desc_input_count(op, "X"), 1);
    assert_string_equal(tr_op_desc_input(op, "X", 0), "c");
    assert_string_equal(tr_op_desc_output(op, tr_op_desc_output_slot(op, 0), 0), "a");
    tr_op_desc_free(op);
}

TEST(attributes_have_one_typed_value)
{
    const int64_t     whole[] = {1, -2, 3}, large[] = {1, INT64_C(1) << 40};
    const double      real[] = {0.5, 1e30};
    const char *const words[] = {"a", "", "c"};
    tr_op_desc       *op = tr_op_desc_new("any");
    size_t            size;

    tr_op_desc_set_int(op, "int", -5, TR_ATTR_INT);
    tr_op_desc_set_int(op, "long", INT64_MIN, TR_ATTR_LONG);
    tr_op_desc_set_int(op, "bool", 7, TR_ATTR_BOOL);
    tr_op_desc_set_int(op, "too large", INT64_C(1) << 31, TR_ATTR_INT);
    tr_op_desc_set_float(op, "float", 0.25);
    tr_op_desc_set_string(op, "string", "a\0b", 3);
    tr_op_desc_set_ints(op, "ints", 3, whole, TR_ATTR_INTS);
    tr_op_desc_set_ints(op, "too large ints", 2, large, TR_ATTR_INTS);
    tr_op_desc_set_ints(op, "bools", 3, (const int64_t[]){0, 1, 2}, TR_ATTR_BOOLS);
    tr_op_desc_set_floats(op, "floats", 2, real);
    tr_op_desc_set_strings(op, "strings", 3, words);
    tr_op_desc *copy = tr__op_desc_clone(op);
    tr_op_desc_free(op);
    assert_int_equal(tr_op_desc_attr_count(copy), 11);
    assert_string_equal(tr_op_desc_attr_name(copy, 1), "long");
    assert_int_equal(tr_op_desc_attr_int(copy, "int", 0), -5);
    assert_int_equal(tr_op_desc_attr_int(copy, "bool", 0), 1);
    assert_int_equal(tr_op_desc_attr_type(copy, "too large"), TR_ATTR_LONG);
    assert_int_equal(tr_op_desc_attr_type(copy, "too large ints"), TR_ATTR_LONGS);
    assert_int_equal(tr_op_desc_attr_int(copy, "too large ints", 1), INT64_C(1) << 40);
    assert_int_equal(tr_op_desc_attr_int(copy, "bools", 2), 1);
    assert_true(tr_op_desc_attr_float(copy, "float", 0) == 0.25);
    assert_true(tr_op_desc_attr_float(copy, "int", 0) == -5);
    assert_memory_equal(tr_op_desc_attr_string(copy, "string", 0, &size), "a\0b", 4);
    assert_int_equal(size, 3);
    assert_string_equal(tr_op_desc_attr_string(copy, "strings", 2, &size), "c");
    assert_int_equal(tr_op_desc_attr_size(copy, "strings"), 3);
    assert_null(tr_op_desc_attr_string(copy, "strings", 3, &size));
    assert_int_equal(size, 0);
    assert_int_equal(tr_op_desc_attr_size(copy, "none"), 0);
    assert_false(tr_op_desc_has_attr(copy, "none"));
    tr_op_desc_set_string(copy, "int", tr_op_desc_attr_string(copy, "string", 0, NULL), 1);
    assert_int_equal(tr_op_desc_attr_type(copy, "int"), TR_ATTR_STRING);
    tr_op_desc_remove_attr(copy, "long");
    tr_op_desc_remove_attr(copy, "none");
    assert_int_equal(tr_op_desc_attr_count(copy), 10);
    assert_string_equal(tr_op_desc_attr_name(copy, 1), "bool");
    tr_op_desc_free(copy);
    tr_op_desc_free(NULL);
}

TEST(an_operator_knows_where_it_was_made)
{
    tr_op_desc *op = tr_op_desc_new("mul");

    assert_string_equal(tr__op_desc_origin(op), "");
    tr_op_desc_set_strings(op, "op_callstack", 2, (const char *const[]){"train.py:3", "train.py:12"});
    assert_string_equal(tr__op_desc_origin(op), "train.py:12");
    tr_op_desc_free(op);
}

TEST(a_clone_is_independent)
{
    tr_program *program = tr_program_new();
    tr_block   *block = tr_program_block(program, 0);

    EXPECT_OK(tr_var_desc_set_shape(tr_block_create_var(block, "x"), 2, (const int64_t[]){-1, 3}));
    EXPECT_OK(tr__block_place_op(block, -1, op_of("relu", "x", "y")));
    tr_program_set_random_seed(program, 11);
    tr_program *clone = tr_program_clone(program);
    assert_true(clone->id != program->id);
    tr_program_free(program);
    tr_block *copied = tr_program_block(clone, 0);
    assert_int_equal(tr_program_random_seed(clone), 11);
    assert_int_equal(tr_var_desc_dims(tr_block_find_var(copied, "x"))[1], 3);
    assert_string_equal(tr_op_desc_output(tr_block_op_at(copied, 0), "Out", 0), "y");
    assert_ptr_equal(tr_block_op_at(copied, 0)->block, copied);
    assert_ptr_equal(tr_block_find_var(copied, "x")->block, copied);
    tr_program_free(clone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_program_has_an_empty_global_block),
        cmocka_unit_test(names_are_looked_up_outwards),
        cmocka_unit_test(variables_stay_in_order_when_some_go),
        cmocka_unit_test(a_variable_keeps_what_it_is_told),
        cmocka_unit_test(every_change_makes_a_new_revision),
        cmocka_unit_test(operators_stand_where_they_were_put),
        cmocka_unit_test(renaming_reaches_every_use_and_no_other_variable),
        cmocka_unit_test(slots_are_replaced_and_kept_in_order),
        cmocka_unit_test(attributes_have_one_typed_value),
        cmocka_unit_test(an_operator_knows_where_it_was_made),
        cmocka_unit_test(a_clone_is_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
