/* test_plan_arena.c - what lives at the same time lies apart, in as little memory as one by one. */
#include "tests/support/expect.h"

#include "framework/plan_arena.h"
#include "framework/random.h"

enum { COUNT = 500 };

static bool live_together(const tr_span *a, const tr_span *b)
{
    return a->from <= b->to && b->from <= a->to;
}

static bool lie_apart(const tr_span *a, const tr_span *b)
{
    return a->offset + a->bytes <= b->offset || b->offset + b->bytes <= a->offset;
}

/* Could the span lie at `offset`, beside those before it? */
static bool is_free(const tr_span *spans, int n, int64_t offset)
{
    tr_span there = spans[n];

    there.offset = offset;
    for (int k = 0; k < n; k++)
        if (live_together(&spans[k], &there) && !lie_apart(&spans[k], &there))
            return false;
    return true;
}

/* As a chain makes them, as gradients need them, and any; sizes are few, as in nets. */
static void make_spans(tr_span *spans, int round)
{
    for (int i = 0; i < COUNT; i++) {
        const uint64_t random = tr_hash_u64((uint64_t)(round * COUNT + i));
        const int      length = round % 3 == 0 ? 1 : round % 3 == 1 ? 2 * (COUNT - i) : (int)(random >> 8) % COUNT;
        spans[i] = (tr_span){.var = i, .from = i, .to = i + (length < 0 ? 0 : length), .bytes = 64 * (1 + (int64_t)(random % 5))};
    }
}

TEST(what_lives_at_the_same_time_lies_apart_and_as_low_as_it_can)
{
    static tr_span spans[COUNT];

    for (int round = 0; round < 6; round++) {
        int64_t bytes, end = 0;
        make_spans(spans, round);
        EXPECT_OK(tr__arena_place(&bytes, spans, COUNT));
        for (int n = 0; n < COUNT; n++) {
            assert_true(n == 0 || spans[n].bytes <= spans[n - 1].bytes);
            assert_true(is_free(spans, n, spans[n].offset));
            for (int64_t lower = 0; lower < spans[n].offset; lower += 64)
                assert_false(is_free(spans, n, lower));
            end = spans[n].offset + spans[n].bytes > end ? spans[n].offset + spans[n].bytes : end;
        }
        assert_int_equal(bytes, end);
    }
}

TEST(nothing_needs_no_memory)
{
    tr_span none;
    int64_t bytes = -1;

    EXPECT_OK(tr__arena_place(&bytes, &none, 0));
    assert_int_equal(bytes, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_lives_at_the_same_time_lies_apart_and_as_low_as_it_can),
        cmocka_unit_test(nothing_needs_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
