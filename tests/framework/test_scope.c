/* test_scope.c - scopes and what their variables hold. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/tensors/scope.h"

TEST(names_are_looked_up_in_the_parents_and_made_here)
{
    tr_scope *outer = tr_scope_new(NULL), *inner = tr_scope_new(outer);
    tr_var   *x = tr_scope_var(outer, "x");

    assert_ptr_equal(tr_scope_var(outer, "x"), x);
    assert_ptr_equal(tr_scope_find(inner, "x"), x);
    assert_null(tr_scope_find_local(inner, "x"));
    tr_var *hiding = tr_scope_var(inner, "x");
    assert_true(hiding != x);
    assert_ptr_equal(tr_scope_find(inner, "x"), hiding);
    assert_null(tr_scope_find(outer, "y"));
    tr_scope_free(inner);
    tr_scope_free(outer);
    tr_scope_free(NULL);
}

TEST(a_variable_stays_where_it_is)
{
    tr_scope *scope = tr_scope_new(NULL);
    tr_var   *first = tr_scope_var(scope, "v0");
    char      name[16];

    for (int i = 1; i < 1000; i++) {
        snprintf(name, sizeof name, "v%d", i);
        assert_non_null(tr_scope_var(scope, name));
    }
    assert_ptr_equal(tr_scope_find(scope, "v0"), first);
    assert_int_equal(tr_scope_count(scope), 1000);
    assert_string_equal(tr_scope_name(scope, 999), "v999");
    assert_null(tr_scope_name(scope, 1000));
    tr_scope_free(scope);
}

TEST(erasures_that_make_addresses_stale_are_counted)
{
    tr_scope *scope = tr_scope_new(NULL), *other = tr_scope_new(NULL);

    assert_true(scope->id != other->id);
    tr_scope_var(scope, "a");
    tr_scope_var(scope, "b");
    const uint64_t before = scope->generation;
    tr_scope_var(scope, "a");
    tr_scope_erase(scope, "none");
    assert_int_equal(scope->generation, before);
    tr_scope_erase(scope, "a");
    assert_true(scope->generation != before);
    assert_null(tr_scope_find(scope, "a"));
    assert_int_equal(tr_scope_count(scope), 1);
    assert_string_equal(tr_scope_name(scope, 0), "b");
    tr_scope_free(scope);
    tr_scope_free(other);
}

TEST(an_erased_variable_is_empty_and_keeps_its_address)
{
    const int64_t dims[] = {3};
    tr_scope     *scope = tr_scope_new(NULL);
    tr_var       *var = tr_scope_var(scope, "a"), *array = tr_scope_var(scope, "array");

    EXPECT_OK(tr_tensor_resize(tr_var_tensor(var), TR_FP32, 1, dims));
    EXPECT_OK(tr_var_array_append(array, tr_var_tensor(var)));
    tr_tensor *item = tr_var_array_item(array, 0);
    tr_scope_erase(scope, "a");
    tr_scope_erase(scope, "array");
    assert_null(tr_scope_find(scope, "a"));
    assert_int_equal(tr_tensor_dtype(tr_var_tensor(var)), TR_DTYPE_NONE);
    assert_int_equal(tr_tensor_dtype(item), TR_DTYPE_NONE);
    assert_int_equal(tr_var_array_count(array), 0);
    assert_ptr_equal(tr_scope_var(scope, "a"), var);
    assert_int_equal(tr_scope_count(scope), 1);
    tr_scope_free(scope);
}

TEST(tensors_are_appended_to_an_array_alone)
{
    const int64_t dims[] = {2};
    tr_scope     *scope = tr_scope_new(NULL);
    tr_var       *array = tr_scope_var(scope, "array"), *dense = tr_scope_var(scope, "dense");

    EXPECT_OK(tr_tensor_resize(tr_var_tensor(dense), TR_INT64, 1, dims));
    for (int64_t i = 0; i < 20; i++) {
        ((int64_t *)tr_tensor_data(tr_var_tensor(dense)))[1] = i;
        EXPECT_OK(tr_var_array_append(array, tr_var_tensor(dense)));
    }
    assert_int_equal(tr_var_array_count(array), 20);
    assert_int_equal(((int64_t *)tr_tensor_data(tr_var_array_item(array, 13)))[1], 13);
    EXPECT_FAIL(TR_EINVAL, "no array of tensors", tr_var_array_append(dense, tr_var_tensor(dense)));
    tr_scope_free(scope);
}

TEST(an_array_grows_by_empty_tensors)
{
    tr_scope  *scope = tr_scope_new(NULL);
    tr_var    *var = tr_scope_var(scope, "array");
    tr_tensor *item;

    assert_int_equal(tr_var_array_count(var), 0);
    EXPECT_OK(tr__var_array_at(&item, var, 20));
    assert_int_equal(tr_var_kind_of(var), TR_KIND_ARRAY);
    assert_int_equal(tr_var_array_count(var), 21);
    assert_ptr_equal(tr_var_array_item(var, 20), item);
    assert_int_equal(tr_tensor_dtype(tr_var_array_item(var, 3)), TR_DTYPE_NONE);
    assert_null(tr_var_array_item(var, 21));
    assert_null(tr_var_array_item(var, -1));
    tr__var_array_clear(var);
    assert_int_equal(tr_var_array_count(var), 0);
    EXPECT_OK(tr__var_array_at(&item, var, 0));
    assert_int_equal(tr_var_array_count(var), 1);
    tr_scope_free(scope);
}

TEST(an_array_that_was_cleared_has_forgotten_its_elements_but_keeps_their_memory)
{
    tr_scope  *scope = tr_scope_new(NULL);
    tr_var    *var = tr_scope_var(scope, "array");
    tr_tensor *item;

    EXPECT_OK(tr__var_array_at(&item, var, 0));
    EXPECT_OK(tr_tensor_resize(item, TR_FP32, 1, (const int64_t[]){100}));
    const int64_t before = tr__tensor_allocations();
    tr__var_array_clear(var);
    EXPECT_OK(tr__var_array_at(&item, var, 1));
    assert_int_equal(tr_tensor_dtype(tr_var_array_item(var, 0)), TR_DTYPE_NONE);
    EXPECT_OK(tr_tensor_resize(tr_var_array_item(var, 0), TR_FP64, 1, (const int64_t[]){50}));
    assert_int_equal(tr__tensor_allocations(), before);
    tr_scope_free(scope);
}

TEST(a_tensor_with_rows_makes_the_variable_selected_rows)
{
    tr_scope  *scope = tr_scope_new(NULL);
    tr_var    *var = tr_scope_var(scope, "x");
    tr_tensor *tensor = tr_var_tensor(var);

    assert_int_equal(tr_var_kind_of(var), TR_KIND_TENSOR);
    assert_ptr_equal(tr_var_of(tensor), var);
    EXPECT_OK(tr_tensor_resize(tensor, TR_FP32, 2, (const int64_t[]){1, 2}));
    EXPECT_OK(tr_tensor_set_rows(tensor, 5, 1, (const int64_t[]){4}));
    assert_int_equal(tr_var_kind_of(var), TR_KIND_SELECTED_ROWS);
    tr_scope_free(scope);
}

static int freed;
static void count_free(void *object) { freed += *(int *)object; }

TEST(an_object_is_freed_when_it_is_replaced_and_with_the_scope)
{
    tr_scope *scope = tr_scope_new(NULL);
    tr_var   *var = tr_scope_var(scope, "steps");
    int       one = 1, ten = 10;

    freed = 0;
    tr__var_set_object(var, TR_KIND_STEP_SCOPES, &one, count_free);
    assert_int_equal(tr_var_kind_of(var), TR_KIND_STEP_SCOPES);
    tr__var_set_object(var, TR_KIND_STEP_SCOPES, &one, count_free);
    assert_int_equal(freed, 0);
    tr__var_set_object(var, TR_KIND_RAW, &ten, count_free);
    assert_int_equal(freed, 1);
    tr_scope_free(scope);
    assert_int_equal(freed, 11);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_looked_up_in_the_parents_and_made_here),
        cmocka_unit_test(a_variable_stays_where_it_is),
        cmocka_unit_test(erasures_that_make_addresses_stale_are_counted),
        cmocka_unit_test(an_erased_variable_is_empty_and_keeps_its_address),
        cmocka_unit_test(an_array_grows_by_empty_tensors),
        cmocka_unit_test(tensors_are_appended_to_an_array_alone),
        cmocka_unit_test(an_array_that_was_cleared_has_forgotten_its_elements_but_keeps_their_memory),
        cmocka_unit_test(a_tensor_with_rows_makes_the_variable_selected_rows),
        cmocka_unit_test(an_object_is_freed_when_it_is_replaced_and_with_the_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
