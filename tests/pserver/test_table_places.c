/* test_table_places.c - where a server's tables keep their rows: as the program says, or as the environment does. */
#include "tests/support/expect.h"

#include "pserver/store/table_places.h"

#include <stdlib.h>

static void set(const char *memory, const char *folder)
{
    memory ? setenv("TRIREME_TABLE_MEMORY", memory, 1) : unsetenv("TRIREME_TABLE_MEMORY");
    folder ? setenv("TRIREME_TABLE_SPILL", folder, 1) : unsetenv("TRIREME_TABLE_SPILL");
}

TEST(the_tables_of_a_server_share_the_memory_by_the_bytes_of_their_rows)
{
    tr_table_segment place = {.spill = "/a", .memory = 5};

    set(NULL, NULL);
    EXPECT_OK(tr_table_complete_place(&place, 10, 40));
    assert_string_equal(place.spill, "/a");
    assert_int_equal(place.memory, 5);
    set("8000", "/b");
    EXPECT_OK(tr_table_complete_place(&place, 10, 40));
    assert_string_equal(place.spill, "/b");
    assert_int_equal(place.memory, 2000);
    set(NULL, NULL);
}

TEST(half_of_the_environment_is_refused)
{
    tr_table_segment place = {0};

    set("8000", NULL);
    EXPECT_FAIL(TR_EINVAL, "TRIREME_TABLE_MEMORY=8000 without TRIREME_TABLE_SPILL", tr_table_complete_place(&place, 1, 1));
    set(NULL, "/b");
    EXPECT_FAIL(TR_EINVAL, "a number of bytes is wanted beside TRIREME_TABLE_SPILL=/b", tr_table_complete_place(&place, 1, 1));
    set("8GB", "/b");
    EXPECT_FAIL(TR_EINVAL, "TRIREME_TABLE_MEMORY=8GB", tr_table_complete_place(&place, 1, 1));
    set(NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_tables_of_a_server_share_the_memory_by_the_bytes_of_their_rows),
        cmocka_unit_test(half_of_the_environment_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
