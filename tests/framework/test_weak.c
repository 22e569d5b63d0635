/* test_weak.c - weak references: the object may be freed while references to it exist. */
#include "tests/support/expect.h"

#include "framework/base/weak.h"

TEST(holders_find_the_object_until_its_owner_ends_the_reference)
{
    int      object = 0;
    tr_weak *owner = tr__weak_new(&object), *holder = tr__weak_retain(owner);

    assert_ptr_equal(tr__weak_object(holder), &object);
    tr__weak_end(owner);
    tr__weak_release(owner);
    assert_null(tr__weak_object(holder));          /* its memory is there as long as a holder is */
    tr__weak_release(holder);
}

TEST(no_reference_has_no_object)
{
    assert_null(tr__weak_object(tr__weak_retain(NULL)));
    tr__weak_end(NULL);
    tr__weak_release(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(holders_find_the_object_until_its_owner_ends_the_reference),
        cmocka_unit_test(no_reference_has_no_object),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
