/* test_map.c - the map against a plain table of what should be in it. */
#include "tests/support/expect.h"

#include <stdio.h>

#include "framework/base/map.h"

enum { KEYS = 300 };

static char keys[KEYS][8];

static int name_keys(void **state)
{
    (void)state;
    for (int i = 0; i < KEYS; i++)
        snprintf(keys[i], sizeof keys[i], "k%d", i);
    return 0;
}

static void *value_of(int i, int version) { return keys[i] + version; }

TEST(an_empty_map_has_nothing)
{
    tr_map map = {0};

    assert_null(tr_map_find(&map, "x"));
    assert_null(tr_map_remove(&map, "x"));
    tr_map_deinit(&map);
    tr_map_deinit(&map);
}

TEST(an_entry_is_found_until_it_is_removed)
{
    tr_map map = {0};

    assert_int_equal(tr_map_put(&map, keys[0], keys[1]), 0);
    assert_ptr_equal(tr_map_find(&map, "k0"), keys[1]);
    assert_null(tr_map_find(&map, "k1"));
    assert_int_equal(tr_map_put(&map, keys[0], keys[2]), 0);
    assert_int_equal(map.live, 1);
    assert_ptr_equal(tr_map_remove(&map, "k0"), keys[2]);
    assert_null(tr_map_find(&map, "k0"));
    assert_null(tr_map_remove(&map, "k0"));
    assert_int_equal(map.live, 0);
    tr_map_deinit(&map);
}

TEST(a_long_history_agrees_with_a_table)
{
    tr_map   map = {0};
    void    *table[KEYS] = {NULL};
    size_t   live = 0;
    uint32_t random = 1;

    for (int step = 0; step < 20000; step++) {
        random = random * 1664525u + 1013904223u;
        const int i = (int)(random >> 16) % KEYS;
        if (random >> 8 & 1) {
            live += table[i] == NULL;
            table[i] = value_of(i, step % 3);
            assert_int_equal(tr_map_put(&map, keys[i], table[i]), 0);
        } else {
            live -= table[i] != NULL;
            assert_ptr_equal(tr_map_remove(&map, keys[i]), table[i]);
            table[i] = NULL;
        }
        assert_int_equal(map.live, live);
        assert_ptr_equal(tr_map_find(&map, keys[step % KEYS]), table[step % KEYS]);
    }
    for (int i = 0; i < KEYS; i++)
        assert_ptr_equal(tr_map_find(&map, keys[i]), table[i]);
    assert_true(map.entry_count < 8 * KEYS);              /* holes are closed, not collected */
    tr_map_deinit(&map);
}

TEST(entries_are_visited_in_order_of_insertion)
{
    tr_map map = {0};
    int    next = 1;

    for (int i = 0; i < KEYS; i++)
        tr_map_put(&map, keys[i], keys[i]);
    for (int i = 0; i < KEYS; i += 2)
        tr_map_remove(&map, keys[i]);
    for (int i = 0; i < KEYS; i += 2)                     /* come back after the others */
        tr_map_put(&map, keys[i], keys[i]);
    for (size_t e = 0; e < map.entry_count; e++) {
        if (!map.entries[e].key)
            continue;
        assert_string_equal(map.entries[e].key, keys[next]);
        next = next + 2 == KEYS + 1 ? 0 : next + 2;
    }
    assert_int_equal(next, KEYS);
    tr_map_deinit(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(an_entry_is_found_until_it_is_removed),
        cmocka_unit_test(a_long_history_agrees_with_a_table),
        cmocka_unit_test(entries_are_visited_in_order_of_insertion),
    };
    return cmocka_run_group_tests(tests, name_keys, NULL);
}
