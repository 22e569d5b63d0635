/* test_compensate.c - delay compensation against its formula. */
#include "tests/support/expect.h"

#include "pserver/store/compensate.h"

enum { COUNT = 37 };

static double part(int i, int of) { return ((i * 7 + of * 13) % 19 - 9) / 8.0; }

TEST(a_gradient_follows_what_its_parameters_did_meanwhile)
{
    double grad[COUNT], now[COUNT], then[COUNT];
    float  grad_f32[COUNT], now_f32[COUNT], then_f32[COUNT];

    for (int i = 0; i < COUNT; i++) {
        grad_f32[i] = (float)(grad[i] = part(i, 0));
        now_f32[i] = (float)(now[i] = part(i, 1));
        then_f32[i] = (float)(then[i] = part(i, 2));
    }
    tr_compensate(TR_FP64, grad, now, then, COUNT, 0.25);
    tr_compensate(TR_FP32, grad_f32, now_f32, then_f32, COUNT, 0.25);
    for (int i = 0; i < COUNT; i++) {                  /* of eighths: nothing is rounded */
        const double g = part(i, 0), want = g + 0.25 * g * g * (part(i, 1) - part(i, 2));
        assert_true(grad[i] == want);
        assert_true((double)grad_f32[i] == want);
    }
}

TEST(a_gradient_without_delay_keeps_its_bits)
{
    float grad[COUNT], now[COUNT];

    for (int i = 0; i < COUNT; i++) {
        grad[i] = (float)part(i, 0) / 3;
        now[i] = (float)part(i, 1) / 7;
    }
    tr_compensate(TR_FP32, grad, now, now, COUNT, 0.04);
    for (int i = 0; i < COUNT; i++)
        assert_true(grad[i] == (float)part(i, 0) / 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_gradient_follows_what_its_parameters_did_meanwhile),
        cmocka_unit_test(a_gradient_without_delay_keeps_its_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
