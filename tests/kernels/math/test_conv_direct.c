/* The two ways of a convolution, direct and through columns, agree; the direct one gives the same bits on any number
 * of threads. On CPUs without 512-bit vectors both are the same way. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernels/math/images/conv.h"
#include "kernels/math/images/conv_direct.h"
#include "kernels/math/products/blas.h"
#include "kernels/math/tools/window.h"

/* batch, channels, filters, groups; in; kernel; stride; pad; dilation */
static const struct {
    const char   *name;
    tr_conv_shape s;
} cases[] = {
    {"LeNet's first", {3, 1, 20, 1, {1, 28, 28}, {0}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"LeNet's second", {19, 20, 50, 1, {1, 12, 12}, {0}, {1, 5, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"padded 3x3", {5, 16, 16, 1, {1, 32, 32}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
    {"ragged", {2, 7, 13, 1, {1, 9, 23}, {0}, {1, 3, 2}, {1, 1, 1}, {0, 2, 1}, {1, 1, 1}}},
    {"strides", {4, 8, 24, 1, {1, 15, 14}, {0}, {1, 3, 3}, {1, 2, 2}, {0, 1, 1}, {1, 1, 1}}},
    {"dilation", {2, 6, 9, 1, {1, 17, 19}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 2, 2}, {1, 2, 3}}},
    {"groups", {3, 12, 18, 3, {1, 11, 10}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
    {"larger than the image", {3, 5, 9, 1, {1, 6, 11}, {0}, {1, 7, 7}, {1, 2, 2}, {0, 0, 0}, {1, 1, 1}}},
    {"much larger", {2, 4, 6, 2, {1, 1, 2}, {0}, {1, 5, 6}, {1, 5, 7}, {0, 0, 1}, {1, 1, 1}}},
    {"depthwise", {2, 6, 6, 6, {1, 11, 10}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
    {"three dimensions", {2, 5, 10, 1, {5, 7, 9}, {0}, {2, 3, 3}, {1, 1, 1}, {1, 1, 0}, {1, 1, 1}}},
    {"more than a chunk", {1, 2, 5, 1, {1, 40, 70}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
    {"a row longer than a chunk", {1, 2, 5, 1, {1, 4, 1300}, {0}, {1, 2, 5}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"one output", {2, 3, 4, 1, {1, 3, 3}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}, {1, 1, 1}}},
    {"one filter", {2, 9, 1, 1, {1, 8, 8}, {0}, {1, 3, 3}, {1, 1, 1}, {0, 1, 1}, {1, 1, 1}}},
};

static int64_t volume(const int64_t extent[3]) { return extent[0] * extent[1] * extent[2]; }

#define TR_TEMPLATE "tests/kernels/math/test_conv_direct.h"
#include "kernels/math/tools/each_float.h"

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ways_agree_f32),
        cmocka_unit_test(ways_agree_f64),
    };

    if (tr_blas_init() != TR_OK)
        return 1;
    tr_set_winograd(false);                       /* which would take some of the cases */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
