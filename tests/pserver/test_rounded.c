/* test_rounded.c - parameters in bfloat16: each is rounded once, an answer becomes floats where it has arrived, and a server lends one
 * copy. */
#include "tests/support/expect.h"

#include "framework/tensors/half.h"
#include "framework/tensors/random.h"
#include "pserver/core/updates/rounded_params.h"

#include <math.h>
#include <string.h>

enum { MOST = 3000 };

static const int64_t counts[] = {0, 1, 2, 511, 512, 513, 1024, MOST};

static void draw(float *out, int64_t count)
{
    const float wild[] = {0, -0.0f, INFINITY, -INFINITY, 3.4e38f, 1e-40f};

    tr_random_normal_f32(out, count, 7, 0, 0, 1);
    for (int64_t i = 0; i < count && i < 6; i++)
        out[i] = wild[i];
}

TEST(an_answer_arrives_in_the_memory_of_its_floats)
{
    static float   from[MOST], expected[MOST];
    static uint8_t answer[2 * MOST], to[4 * MOST + 8];

    draw(from, MOST);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        const uint64_t bytes = 4 * (uint64_t)counts[c];
        uint8_t       *floats = to + 3;            /* no alignment is needed */
        memset(to, 0xee, sizeof to);
        tr_rounded_make(answer, from, bytes);
        memcpy(tr_rounded_buffer(floats, bytes), answer, bytes / 2);
        tr_rounded_widen(floats, bytes);
        for (int64_t i = 0; i < counts[c]; i++)
            expected[i] = tr_f32_of_bf16(tr_bf16_of_f32(from[i]));
        assert_memory_equal(floats, expected, bytes);
        assert_int_equal(floats[bytes], 0xee);
        assert_int_equal(to[2], 0xee);
    }
}

TEST(floats_are_rounded_where_they_lie)
{
    static float x[MOST], same[MOST], rounded[MOST], back[MOST];

    draw(x, MOST);
    memcpy(same, x, sizeof x);
    tr_rounded_floats(rounded, x, sizeof x);
    tr_rounded_make(same, same, sizeof same);
    memcpy(tr_rounded_buffer((uint8_t *)back, sizeof back), same, sizeof back / 2);
    tr_rounded_widen((uint8_t *)back, sizeof back);
    assert_memory_equal(back, rounded, sizeof back);
    tr_rounded_floats(rounded, rounded, sizeof rounded);
    assert_memory_equal(back, rounded, sizeof back);          /* what is rounded stays */
}

TEST(a_half_way_value_goes_to_the_even_one)
{
    const float x[] = {1 + 0x1p-8f, 1 + 3 * 0x1p-8f, 1 + 0x1.02p-8f};
    float       out[3];

    tr_rounded_floats(out, x, sizeof x);
    assert_true(out[0] == 1 && out[1] == 1 + 4 * 0x1p-8f && out[2] == 1 + 2 * 0x1p-8f);
}

TEST(each_update_is_rounded_once_and_the_one_before_stays)
{
    tr__rounded_params *params = tr__rounded_params_new(2);
    float               now[4] = {1, 2, 3, 4}, next[4] = {5, 6, 7, 8};
    uint8_t            *first = tr__rounded_params_get(params, 1, 0, (uint8_t *)now, sizeof now);

    assert_int_equal(((uint16_t *)(void *)first)[3], tr_bf16_of_f32(4));
    now[3] = 9;                                    /* it is not looked at again */
    assert_ptr_equal(tr__rounded_params_get(params, 1, 0, (uint8_t *)now, sizeof now), first);
    assert_int_equal(((uint16_t *)(void *)first)[3], tr_bf16_of_f32(4));
    uint8_t *second = tr__rounded_params_get(params, 1, 1, (uint8_t *)next, sizeof next);
    assert_ptr_not_equal(first, second);
    assert_int_equal(((uint16_t *)(void *)first)[3], tr_bf16_of_f32(4));
    assert_int_equal(((uint16_t *)(void *)second)[0], tr_bf16_of_f32(5));
    assert_ptr_equal(tr__rounded_params_get(params, 1, 0, (uint8_t *)now, sizeof now), first);    /* a replacement asks for it */
    tr__rounded_params_get(params, 1, 2, (uint8_t *)now, sizeof now);
    assert_int_equal(((uint16_t *)(void *)first)[3], tr_bf16_of_f32(9));
    tr__rounded_params_free(params);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_arrives_in_the_memory_of_its_floats),
        cmocka_unit_test(floats_are_rounded_where_they_lie),
        cmocka_unit_test(a_half_way_value_goes_to_the_even_one),
        cmocka_unit_test(each_update_is_rounded_once_and_the_one_before_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
