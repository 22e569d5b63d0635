/* test_board.c - posts on a board, and what the next process finds of them. */
#include "tests/support/expect.h"

#include "framework/base/memory.h"
#include "pserver/core/board/board.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint8_t *memory;
static uint64_t memory_bytes, memory_limit;

static void *give(void *self, uint64_t *bytes, bool anew)
{
    (void)self;
    if (anew)
        memory_bytes = 0;
    if (*bytes > memory_limit)
        return NULL;
    if (*bytes > memory_bytes) {
        memory = realloc(memory, *bytes);
        memset(memory + memory_bytes, 0, *bytes - memory_bytes);
        memory_bytes = *bytes;
    }
    *bytes = memory_bytes;
    return memory_bytes ? memory : NULL;
}

static const tr_store store = {.board = give};

static tr_board *make(void)
{
    memory_limit = UINT64_MAX;
    return tr_board_new(&store, 2, false);
}

static tr_post post_of(uint64_t number, const char *name, uint32_t trainer)
{
    tr_post post = TRIREME__PSERVER__POST__INIT;

    post.number = number;
    post.name = (char *)(uintptr_t)name;
    post.trainer = trainer;
    return post;
}

static bool put(tr_board *board, const tr_post *post)
{
    size_t   size;
    uint8_t *packed = tr_board_pack(post, &size);
    bool     is_new = false;

    assert_int_equal(tr_board_put(&is_new, board, packed, size), TR_OK);
    free(packed);
    return is_new;
}

static bool say(tr_board *board, uint64_t number, const char *name, uint32_t trainer, const char *data)
{
    tr_post post = post_of(number, name, trainer);

    post.has_data = true;
    post.data = (ProtobufCBinaryData){strlen(data), (uint8_t *)(uintptr_t)data};
    return put(board, &post);
}

static bool complete(tr_board *board, uint64_t number)
{
    tr_post mark = post_of(number, NULL, 0);

    mark.has_is_complete = mark.is_complete = true;
    return put(board, &mark);
}

static void expect_data(const tr_board *board, uint64_t number, const char *name, int trainer, const char *data)
{
    const tr_board_item *item = tr_board_find(board, number, name);

    assert_non_null(item);
    assert_non_null(item->post[trainer]);
    assert_int_equal(item->post[trainer]->data.len, strlen(data));
    assert_memory_equal(item->post[trainer]->data.data, data, strlen(data));
}

TEST(the_first_of_two_posts_stays)
{
    tr_board *board = make();

    assert_true(say(board, 1, NULL, 0, "first"));
    assert_false(say(board, 1, NULL, 0, "again"));
    assert_true(say(board, 0, "save 1 of a", 0, ""));
    expect_data(board, 1, NULL, 0, "first");
    expect_data(board, 0, "save 1 of a", 0, "");
    assert_null(tr_board_find(board, 0, "save 2 of a"));
    tr_board_free(board);
}

TEST(a_complete_collective_takes_no_further_post)
{
    tr_board *board = make();

    say(board, 1, NULL, 0, "alone");
    assert_true(complete(board, 1));
    assert_false(complete(board, 1));
    assert_false(say(board, 1, NULL, 1, "late"));
    assert_null(tr_board_find(board, 1, NULL)->post[1]);
    tr_board_free(board);
}

TEST(the_next_process_finds_all)
{
    tr_board *board = make();

    say(board, 1, NULL, 0, "zero");
    say(board, 1, NULL, 1, "one");
    complete(board, 1);
    say(board, 0, "notice", 1, "text");
    say(board, 2, NULL, 1, "open");
    tr_board_free(board);
    board = tr_board_new(&store, 2, true);
    expect_data(board, 1, NULL, 0, "zero");
    expect_data(board, 1, NULL, 1, "one");
    expect_data(board, 0, "notice", 1, "text");
    expect_data(board, 2, NULL, 1, "open");
    assert_true(tr_board_find(board, 1, NULL)->is_complete);
    assert_false(tr_board_find(board, 2, NULL)->is_complete);
    tr_board_free(board);
    board = tr_board_new(&store, 2, false);            /* a job that begins anew */
    assert_null(tr_board_find(board, 1, NULL));
    tr_board_free(board);
}

/* Enough to fill either half some times. */
TEST(the_oldest_collective_is_forgotten_and_open_ones_stay)
{
    enum { EACH = 100000, COUNT = 700 };
    char     *data = tr__must_alloc(EACH + 1);
    tr_board *board = make();

    memset(data, 'x', EACH);
    for (uint64_t number = 1; number <= COUNT; number++) {
        data[0] = (char)('a' + number % 26);
        say(board, number, NULL, 0, data);
        if (number < COUNT)
            complete(board, number);
    }
    for (int turn = 0; turn < 2; turn++) {
        assert_true(tr_board_has_forgotten(board, 1));
        assert_false(tr_board_has_forgotten(board, COUNT - 10));
        assert_null(tr_board_find(board, 1, NULL));
        assert_false(say(board, 1, NULL, 1, "long ago"));
        for (uint64_t number = COUNT - 20; number <= COUNT; number++) {
            data[0] = (char)('a' + number % 26);
            expect_data(board, number, NULL, 0, data);
        }
        assert_false(tr_board_find(board, COUNT, NULL)->is_complete);
        tr_board_free(board);
        board = tr_board_new(&store, 2, true);
    }
    assert_true(memory_bytes < 32 * (uint64_t)1048576);
    tr_board_free(board);
    free(data);
}

TEST(without_memory_the_board_is_there_for_this_process)
{
    memory_limit = 1 << 16;
    tr_board *board = tr_board_new(&store, 2, false);
    char     *data = tr__must_alloc(TR_BOARD_POST + 1);

    memset(data, 'y', TR_BOARD_POST);
    assert_true(say(board, 1, NULL, 0, data));
    assert_true(say(board, 2, NULL, 0, "more"));
    expect_data(board, 1, NULL, 0, data);
    tr_board_free(board);
    free(data);
}

/* Whatever stands in the memory, nothing beyond it is looked at. */
TEST(damaged_memory_is_refused_or_read_in_part)
{
    tr_board *board = make();

    say(board, 1, NULL, 0, "zero");
    say(board, 1, NULL, 1, "one");
    tr_board_free(board);
    for (uint64_t at = 0; at < 256; at++) {
        const uint8_t before = memory[at];
        for (int bit = 0; bit < 8; bit++) {
            memory[at] = (uint8_t)(before ^ (1 << bit));
            tr_board_free(tr_board_new(&store, 2, true));
            memory[at] = before;
        }
    }
}

TEST(damaged_posts_are_refused)
{
    tr_board *board = make();
    bool      is_new;
    size_t    size;
    tr_post   post = post_of(1, NULL, 2);              /* there is no such trainer */

    post.has_data = true;
    uint8_t *packed = tr_board_pack(&post, &size);
    EXPECT_FAIL(TR_EFORMAT, "damaged", tr_board_put(&is_new, board, packed, size));
    EXPECT_FAIL(TR_EFORMAT, "damaged", tr_board_put(&is_new, board, packed, size - 1));
    free(packed);
    tr_board_free(board);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_two_posts_stays),
        cmocka_unit_test(a_complete_collective_takes_no_further_post),
        cmocka_unit_test(the_next_process_finds_all),
        cmocka_unit_test(the_oldest_collective_is_forgotten_and_open_ones_stay),
        cmocka_unit_test(without_memory_the_board_is_there_for_this_process),
        cmocka_unit_test(damaged_memory_is_refused_or_read_in_part),
        cmocka_unit_test(damaged_posts_are_refused),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    free(memory);
    return failed;
}
