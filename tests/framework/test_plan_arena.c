/* test_plan_arena.c - what lives at the same time lies apart, in as little memory as one by one, and finding that costs about n log n. */
#include "tests/support/expect.h"

#include <stdlib.h>

#include "framework/plans/plan_arena.h"
#include "framework/tensors/random.h"

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

TEST(variables_alive_at_the_same_time_lie_apart_and_as_low_as_possible)
{
    static tr_span spans[COUNT];

    for (int round = 0; round < 6; round++) {
        tr_arena_size size;
        int64_t       end = 0;
        make_spans(spans, round);
        EXPECT_OK(tr__arena_place(&size, spans, COUNT));
        for (int n = 0; n < COUNT; n++) {
            assert_true(n == 0 || spans[n].bytes <= spans[n - 1].bytes);
            assert_true(is_free(spans, n, spans[n].offset));
            for (int64_t lower = 0; lower < spans[n].offset; lower += 64)
                assert_false(is_free(spans, n, lower));
            end = spans[n].offset + spans[n].bytes > end ? spans[n].offset + spans[n].bytes : end;
        }
        assert_int_equal(size.bytes, end);
    }
}

TEST(variables_without_elements_need_no_memory)
{
    tr_span       none;
    tr_arena_size size = {.bytes = -1};

    EXPECT_OK(tr__arena_place(&size, &none, 0));
    assert_int_equal(size.bytes, 0);
}

/* -- growth ---------------------------------------------------------------------------------------------------- */

static int64_t size_of(int i, int sizes)
{
    return 64 * (1 + (int64_t)(tr_hash_u64((uint64_t)i) % (uint64_t)sizes));
}

/* A net of `layers` layers and its gradients: each layer's result waits for its gradient, two more tensors of a layer live for a moment.
 * There are so many sizes of tensors. */
static int make_net(tr_span *spans, int layers, int sizes)
{
    int count = 0;

    for (int i = 0; i < layers; i++) {
        const int back = 3 * layers - 2 * i;
        spans[count++] = (tr_span){.from = i, .to = back, .bytes = size_of(i, sizes)};
        spans[count++] = (tr_span){.from = back - 1, .to = back + 1, .bytes = size_of(i, sizes)};
        spans[count++] = (tr_span){.from = back, .to = back, .bytes = size_of(layers + i, sizes)};
    }
    for (int n = 0; n < count; n++)
        spans[n].var = n;
    return count;
}

/* Each step's result is read by the next one, as without gradients. */
static int make_chain(tr_span *spans, int layers, int sizes)
{
    for (int i = 0; i < layers; i++)
        spans[i] = (tr_span){.var = i, .from = i, .to = i + 1, .bytes = size_of(i, sizes)};
    return layers;
}

/* All results are there until the end, where they are put together. */
static int make_fan(tr_span *spans, int layers, int sizes)
{
    for (int i = 0; i < layers; i++)
        spans[i] = (tr_span){.var = i, .from = i, .to = layers, .bytes = size_of(i, sizes)};
    return layers;
}

/* Looks for each span. */
static double looks(int (*make)(tr_span *spans, int layers, int sizes), int layers, int sizes)
{
    tr_span      *spans = malloc(3 * (size_t)layers * sizeof *spans);
    tr_arena_size size;

    assert_non_null(spans);
    const int count = make(spans, layers, sizes);
    EXPECT_OK(tr__arena_place(&size, spans, count));
    free(spans);
    return (double)size.looks / count;
}

TEST(the_work_grows_little_faster_than_the_program)
{
    enum { FEW = 2000, MANY = 16 * FEW };
    static int (*const programs[])(tr_span *spans, int layers, int sizes) = {make_net, make_chain, make_fan};
    static const int   sizes[] = {1, 7, 1000000};

    for (size_t p = 0; p < sizeof programs / sizeof *programs; p++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const double few = looks(programs[p], FEW, sizes[s]), many = looks(programs[p], MANY, sizes[s]);
            if (many > 4 * few)                                /* quadratic: 16 */
                fail_msg("program %d of %d sizes: %.0f looks for a span of %d layers, %.0f for one of %d", (int)p, sizes[s], few, FEW, many,
                         MANY);
        }
}

/* Spans without any order leave more gaps than a search looks at, and yet little is lost. */
TEST(the_search_for_one_span_ends)
{
    enum { MANY = 4000 };
    static tr_span spans[MANY];
    tr_arena_size  size;
    static int64_t change[2 * MANY + 1];
    int64_t        live = 0, most = 0;

    for (int i = 0; i < MANY; i++) {
        const int from = (int)(tr_hash_u64((uint64_t)i) % MANY), length = (int)(tr_hash_u64((uint64_t)(MANY + i)) % MANY);
        spans[i] = (tr_span){.var = i, .from = from, .to = from + length, .bytes = size_of(i, 1000000)};
        change[from] += spans[i].bytes;
        change[from + length + 1] -= spans[i].bytes;
    }
    for (int t = 0; t < 2 * MANY; t++) {
        live += change[t];
        most = live > most ? live : most;
    }
    EXPECT_OK(tr__arena_place(&size, spans, MANY));
    assert_true(size.looks / MANY < 4500);
    assert_true(size.bytes < most + most / 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables_alive_at_the_same_time_lie_apart_and_as_low_as_possible),
        cmocka_unit_test(variables_without_elements_need_no_memory),
        cmocka_unit_test(the_work_grows_little_faster_than_the_program),
        cmocka_unit_test(the_search_for_one_span_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
