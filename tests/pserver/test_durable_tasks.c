/* test_durable_tasks.c - the tasks' state as the next process finds it: whole, or as good as none. */
#include "tests/support/expect.h"

#include "pserver/core/tasks/durable_tasks.h"

#include <string.h>

enum { ROOM = 4096, WORDS = ROOM / 8 };

static uint64_t memory[WORDS];
static uint64_t memory_bytes = ROOM;

static void *tasks(void *self, uint64_t *bytes)
{
    (void)self;
    *bytes = memory_bytes;
    return memory;
}

static const tr_store store = {.tasks = tasks};

static void put_two(void)
{
    tr_durable_tasks kept = {NULL};

    memset(memory, 0, sizeof memory);
    tr_durable_tasks_create(&kept, &store, 5, 3);
    tr_durable_tasks_put(&kept, "first", 5);
    tr_durable_tasks_put(&kept, "later", 5);
}

static void the_last_state_is_found(void **state)
{
    tr_durable_tasks kept = {NULL};
    size_t        size = 0;

    (void)state;
    put_two();
    assert_true(tr_durable_tasks_attach(&kept, &store));
    assert_memory_equal(tr_durable_tasks_get(&kept, &size), "later", 5);
    assert_int_equal(size, 5);
}

/* Whatever stands in the head, nothing beyond the memory is looked at. */
static void a_damaged_head_is_refused(void **state)
{
    const uint64_t wrong[] = {2, 7, ROOM, UINT32_MAX, UINT64_MAX - 62, UINT64_MAX};

    (void)state;
    for (int word = 0; word < 2; word++)               /* which place counts; the size */
        for (int i = 0; i < (int)(sizeof wrong / sizeof *wrong); i++) {
            tr_durable_tasks kept = {NULL};
            size_t        size;
            put_two();
            memory[word] = wrong[i];
            if (tr_durable_tasks_attach(&kept, &store)) {
                const uint8_t *from = tr_durable_tasks_get(&kept, &size);
                assert_true(from >= (uint8_t *)memory && size <= ROOM && from + size <= (uint8_t *)memory + ROOM);
            }
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_state_is_found),
        cmocka_unit_test(a_damaged_head_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
