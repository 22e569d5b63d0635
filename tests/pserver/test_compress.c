/* test_compress.c - what a method sends is what it says, and what it leaves out is sent later. */
#include "tests/support/expect.h"

#include "framework/tensors/random.h"
#include "pserver/wire/compress.h"

#include <math.h>
#include <stdlib.h>

enum { MOST = 140000 };

static const char *const methods[] = {"fp16", "bf16", "int8", "topk(0.01)", "topk(0.2)", "topk(1)", "nonzero"};
static const int64_t     counts[] = {1, 3, 255, 256, 257, 1000, 4096, 65535, 65536, 65537, MOST};

static float x[MOST], residual[MOST], sent[MOST], before[MOST];
static union {
    uint64_t align;
    uint8_t  byte[5 * MOST];
} payload;

static tr_compress method_of(const char *text)
{
    tr_compress c;

    assert_int_equal(tr_compress_parse(&c, text), TR_OK);
    return c;
}

/* Of many magnitudes, as gradients are. */
static void draw(float *out, int64_t count, uint64_t seed)
{
    tr_random_normal_f32(out, count, seed, 0, 0, 1);
    for (int64_t i = 0; i < count; i++)
        out[i] *= expf(5 * sinf((float)i) - 5);
}

/* Send x: `sent` is what arrives. */
static void send(const tr_compress *c, int64_t count)
{
    const uint64_t bytes = tr_compress_encode(c, payload.byte, x, residual, count);

    if (c->kind == TR_COMPRESS_NONZERO)
        assert_true(bytes <= tr_compress_bytes(c, count));
    else
        assert_int_equal(bytes, tr_compress_bytes(c, count));
    assert_int_equal(tr_compress_check(c, payload.byte, bytes, count), TR_OK);
    tr_compress_decode(c, sent, payload.byte, count);
}

#define EACH_METHOD_AND_COUNT(c, n)                                                                   \
    for (int m_ = 0, n_ = 0; m_ < (int)(sizeof methods / sizeof *methods);                            \
         m_ += ++n_ == (int)(sizeof counts / sizeof *counts), n_ %= (int)(sizeof counts / sizeof *counts)) \
        for (tr_compress c = method_of(methods[m_]), *once_ = &c; once_; once_ = NULL)                \
            for (int64_t n = counts[n_]; n; n = 0)

static void the_sent_part_and_the_rest_add_up_to_the_gradient(void **state)
{
    (void)state;
    EACH_METHOD_AND_COUNT(c, n) {
        draw(x, n, 1);
        draw(residual, n, 2);
        memcpy(before, residual, sizeof before);
        send(&c, n);
        for (int64_t i = 0; i < n; i++) {
            const float sum = x[i] + before[i];
            assert_float_equal(sent[i] + residual[i], sum, 1e-7 * fabsf(sum));
        }
    }
}

static void errors_are_bounded(void **state)
{
    (void)state;
    EACH_METHOD_AND_COUNT(c, n) {
        draw(x, n, 3);
        memset(residual, 0, sizeof residual);
        send(&c, n);
        for (int64_t i = 0; i < n; i++) {
            float most = 0;
            for (int64_t j = i / TR_COMPRESS_RUN * TR_COMPRESS_RUN; c.kind == TR_COMPRESS_INT8 && j < n &&
                 j / TR_COMPRESS_RUN == i / TR_COMPRESS_RUN; j++)
                most = fmaxf(most, fabsf(x[j]));
            const double bound = c.kind == TR_COMPRESS_FP16   ? fabsf(x[i]) * 0x1p-11 + 0x1p-25
                                 : c.kind == TR_COMPRESS_BF16 ? fabsf(x[i]) * 0x1p-8
                                 : c.kind == TR_COMPRESS_INT8 ? most / 127.0 * (1 + 0x1p-7) * 0.5 * (1 + 1e-4)
                                                              : fabsf(x[i]);
            if (fabs((double)residual[i]) > bound)
                fail_msg("method %d: value %lld of %lld, %g, lacks %g; at most %g", (int)c.kind, (long long)i, (long long)n, x[i],
                         residual[i], bound);
        }
    }
}

static int descending(const void *a, const void *b)
{
    const float p = *(const float *)a, q = *(const float *)b;
    return (p < q) - (p > q);
}

static void check_largest(bool is_uneven)
{
    static float sorted[MOST];

    EACH_METHOD_AND_COUNT(c, n) {
        if (c.kind != TR_COMPRESS_TOPK)
            continue;
        const int64_t kept = (int64_t)ceil(c.share * (double)n);
        draw(x, n, 4);
        for (int64_t i = 0; i < n; i++)                /* many are equal, in both signs */
            x[i] = roundf(x[i] * 8) / 8;
        for (int64_t i = 0; is_uneven && i < n; i += 61)        /* a sample may see just these */
            x[i] = 1000.0f + (float)(i % 1009);
        memset(residual, 0, sizeof residual);
        send(&c, n);
        for (int64_t i = 0; i < n; i++)
            sorted[i] = fabsf(x[i]);
        qsort(sorted, (size_t)n, sizeof *sorted, descending);
        int64_t standby = 0;
        for (int64_t i = 0; i < kept; i++)
            standby += sorted[i] == sorted[kept - 1];
        for (int64_t i = 0; i < n; i++) {
            const bool is_sent = fabsf(x[i]) > sorted[kept - 1] || (fabsf(x[i]) == sorted[kept - 1] && standby-- > 0);
            assert_true(sent[i] == (is_sent ? x[i] : 0));
            assert_true(residual[i] == (is_sent ? 0 : x[i]));
        }
    }
}

static void topk_sends_the_largest_and_of_equal_ones_the_first(void **state)
{
    (void)state;
    check_largest(false);
    check_largest(true);
}

static void the_sum_of_what_was_sent_follows_the_sum_of_the_gradients(void **state)
{
    enum { N = 2000, STEPS = 200 };
    static double gradients[N], arrived[N];

    (void)state;
    for (int m = 0; m < (int)(sizeof methods / sizeof *methods); m++) {
        const tr_compress c = method_of(methods[m]);
        double            most = 0, largest = 0;
        memset(gradients, 0, sizeof gradients);
        memset(arrived, 0, sizeof arrived);
        memset(residual, 0, sizeof residual);
        for (int step = 0; step < STEPS; step++) {
            draw(x, N, (uint64_t)(100 + step));
            send(&c, N);
            for (int i = 0; i < N; i++) {
                gradients[i] += x[i];
                arrived[i] += sent[i];
            }
        }
        for (int i = 0; i < N; i++) {
            assert_float_equal(gradients[i], arrived[i] + residual[i], 1e-4 * (1 + fabs(gradients[i])));
            most = fmax(most, fabs(gradients[i] - arrived[i]));
            largest = fmax(largest, fabs(gradients[i]));
        }
        assert_true(most < 0.1 * largest);             /* what is still to come does not grow with the steps */
    }
}

/* Descent on the squared distance from a point; each step's gradient of a coordinate is of a sample, far off and another one in each
 * step, so that what is largest is mostly noise. Returns the distance after some steps. */
static double descend(const tr_compress *c, bool has_feedback)
{
    enum { N = 512, STEPS = 3000 };
    static float place[N], noise[N];
    double       squares = 0;

    memset(place, 0, sizeof place);
    memset(residual, 0, sizeof residual);
    for (int step = 0; step < STEPS; step++) {
        tr_random_normal_f32(noise, N, (uint64_t)step, 0, 0, 1);
        for (int i = 0; i < N; i++)                    /* half of the coordinates are noisy, the other half has small gradients */
            x[i] = place[i] - 1 + (i % 2 ? 0 : 4 * noise[i]);
        if (!has_feedback)
            memset(residual, 0, sizeof residual);
        send(c, N);
        for (int i = 0; i < N; i++)
            place[i] -= 0.01f * sent[i];
    }
    for (int i = 1; i < N; i += 2)
        squares += (double)(place[i] - 1) * (double)(place[i] - 1);
    return sqrt(squares / (N / 2));
}

static void topk_needs_feedback_to_arrive(void **state)
{
    const tr_compress c = method_of("topk(0.01)");
    const double      with = descend(&c, true), without = descend(&c, false);

    (void)state;
    if (with > 0.2 || without < 0.9)
        fail_msg("quiet coordinates are %g away with feedback, %g without", with, without);
}

static void wild_values_arrive_and_leave_nothing(void **state)
{
    (void)state;
    for (int m = 0; m < 4; m++) {
        const tr_compress c = method_of(methods[m]);
        memset(residual, 0, sizeof residual);
        for (int i = 0; i < 1000; i++)
            x[i] = 1e-3f;
        x[400] = NAN;
        x[401] = INFINITY;
        x[402] = -INFINITY;
        send(&c, 1000);
        assert_true(isnan(sent[400]) && !isfinite(sent[401]) && !isfinite(sent[402]));
        assert_true(sent[0] == 0 || isfinite(sent[0]));
        for (int i = 0; i < 1000; i++)
            assert_true(isfinite(residual[i]));
    }
    const tr_compress half = method_of("fp16"), whole = method_of("int8");
    memset(residual, 0, sizeof residual);
    x[0] = 1e6f;
    x[1] = -1e6f;
    x[2] = 1e-9f;
    send(&half, 3);
    assert_true(sent[0] == 65504 && sent[1] == -65504 && sent[2] == 0);
    assert_true(residual[0] == 1e6f - 65504 && residual[1] == -residual[0] && residual[2] == 1e-9f);
    memset(residual, 0, sizeof residual);
    for (int i = 0; i < 3; i++)
        x[i] = 1e-38f;
    send(&whole, 3);
    assert_true(sent[0] == 0 && residual[0] == 1e-38f);
}

static void zeros_are_four_bytes(void **state)
{
    const tr_compress c = method_of("int8");

    (void)state;
    assert_int_equal(tr_compress_encode_zeros(payload.byte), 4);
    assert_int_equal(tr_compress_check(&c, payload.byte, 4, 1000), TR_OK);
    sent[0] = sent[999] = 1;
    tr_compress_decode(&c, sent, payload.byte, 1000);
    assert_true(sent[0] == 0 && sent[999] == 0);
}

static void small_and_double_gradients_travel_as_they_are(void **state)
{
    const tr_compress c = method_of("int8"), none = method_of("none");

    (void)state;
    assert_true(tr_compress_takes(&c, TR_FP32, 20000, 524288));
    assert_false(tr_compress_takes(&c, TR_FP32, 4, 524288));
    assert_false(tr_compress_takes(&c, TR_FP32, 16384, 524288));
    assert_false(tr_compress_takes(&c, TR_FP64, 20000, 524288));
    assert_false(tr_compress_takes(&none, TR_FP32, 20000, 524288));
}

static void payloads_are_as_small_as_is_said(void **state)
{
    const tr_compress tenth = method_of("topk(0.1)"), hundredth = method_of("topk(0.01)"), whole = method_of("int8");

    (void)state;
    assert_int_equal(tr_compress_bytes(&whole, 131072), 4 + 512 * 2 + 131072);
    assert_int_equal(tr_compress_bytes(&hundredth, 131072), 4 + 1311 * 6 + 2 * 4);
    assert_int_equal(tr_compress_bytes(&tenth, 131072), 4 + 13108 * 4 + 4 + 131072 / 8);
}

static void a_wrong_word_is_explained(void **state)
{
    tr_compress c;

    (void)state;
    EXPECT_FAIL(TR_EINVAL, "compression 'zip'; possible are none, fp16, bf16, int8, nonzero, topk(SHARE)", tr_compress_parse(&c, "zip"));
    EXPECT_FAIL(TR_EINVAL, "possible are", tr_compress_parse(&c, ""));
    EXPECT_FAIL(TR_EINVAL, "possible are", tr_compress_parse(&c, "topkk(1)"));
    EXPECT_FAIL(TR_EINVAL, "topk needs a number, like topk(0.01)", tr_compress_parse(&c, "topk"));
    EXPECT_FAIL(TR_EINVAL, "a number and ')' must stand at 'x)'", tr_compress_parse(&c, "topk(x)"));
    EXPECT_FAIL(TR_EINVAL, "a number and ')' must stand", tr_compress_parse(&c, "topk(0.1"));
    EXPECT_FAIL(TR_ERANGE, "topk takes a share above 0 and up to 1, got 0", tr_compress_parse(&c, "topk(0)"));
    EXPECT_FAIL(TR_ERANGE, "got 2", tr_compress_parse(&c, "topk(2)"));
    EXPECT_FAIL(TR_ERANGE, "got nan", tr_compress_parse(&c, "topk(nan)"));
}

/* Of what was thinned out before, nothing but the values travels, and nothing is left. */
static void nonzero_sends_what_is_there_and_no_more(void **state)
{
    const tr_compress c = method_of("nonzero");
    const int64_t     n = 100000;

    (void)state;
    for (int64_t each = 1; each <= n; each *= 10) {
        memset(x, 0, sizeof x);
        memset(residual, 0, sizeof residual);
        for (int64_t i = 0; i < n; i += each)
            x[i] = (float)(i + 1);
        const uint64_t bytes = tr_compress_encode(&c, payload.byte, x, residual, n), values = (uint64_t)(n / each);
        assert_true(bytes <= 24 + values * 6 && bytes <= 16 + values * 4 + n / 8 + 8);
        assert_int_equal(tr_compress_check(&c, payload.byte, bytes, n), TR_OK);
        tr_compress_decode(&c, sent, payload.byte, n);
        assert_memory_equal(sent, x, (size_t)n * sizeof *x);
    }
    memset(x, 0, sizeof x);                            /* zeros count, other than a piece over no samples */
    assert_int_equal(tr_compress_encode(&c, payload.byte, x, residual, n), 12 + 2 * 4);
    EXPECT_FAIL(TR_EFORMAT, "11 bytes for 100000 values by nonzero, of which -1", tr_compress_check(&c, payload.byte, 11, n));
    payload.byte[4] = 1;
    EXPECT_FAIL(TR_EFORMAT, "20 bytes for 100000 values by nonzero, of which 1 are not zero", tr_compress_check(&c, payload.byte, 20, n));
    payload.byte[4] = 0;
    payload.byte[12] = 1;
    EXPECT_FAIL(TR_EFORMAT, "page 0 says that it has 1 of the 0 values", tr_compress_check(&c, payload.byte, 20, n));
}

static void a_damaged_payload_is_explained(void **state)
{
    const tr_compress c = method_of("topk(0.01)"), bits = method_of("topk(0.5)"), half = method_of("fp16");
    const uint64_t    bytes = tr_compress_bytes(&c, 1000);
    const int64_t     n = 1000;

    (void)state;
    draw(x, n, 5);
    memset(residual, 0, sizeof residual);
    send(&c, n);
    uint32_t *page = (uint32_t *)(void *)(payload.byte + 4 + 10 * 4);
    uint16_t *index = (uint16_t *)(void *)(page + 1), last = index[9];
    EXPECT_FAIL(TR_EFORMAT, "3 bytes that name no method", tr_compress_check(&c, payload.byte, 3, n));
    EXPECT_FAIL(TR_EFORMAT, "by topk, the job's compression is fp16", tr_compress_check(&half, payload.byte, bytes, n));
    EXPECT_FAIL(TR_EFORMAT, "63 bytes for 1000 values by topk, which take 68", tr_compress_check(&c, payload.byte, bytes - 5, n));
    EXPECT_FAIL(TR_EFORMAT, "which take", tr_compress_check(&c, payload.byte, bytes, 2000));
    *page = 11;
    EXPECT_FAIL(TR_EFORMAT, "page 0 says that it has 11 of the 10 values", tr_compress_check(&c, payload.byte, bytes, n));
    *page = 9;
    EXPECT_FAIL(TR_EFORMAT, "its pages have 9 values of 10", tr_compress_check(&c, payload.byte, bytes, n));
    *page = 10;
    index[9] = 1000;
    EXPECT_FAIL(TR_EFORMAT, "value 9 stands at 1000 of a page of 1000", tr_compress_check(&c, payload.byte, bytes, n));
    index[9] = index[8];
    EXPECT_FAIL(TR_EFORMAT, "value 9 stands at", tr_compress_check(&c, payload.byte, bytes, n));
    index[9] = last;
    assert_int_equal(tr_compress_check(&c, payload.byte, bytes, n), TR_OK);
    payload.byte[0] = 77;
    EXPECT_FAIL(TR_EFORMAT, "name no method", tr_compress_check(&c, payload.byte, bytes, n));
    send(&bits, n);
    payload.byte[8 + 124] |= 0x80;                     /* the last word has 40 of 64 */
    payload.byte[8 + 127] |= 0x80;
    EXPECT_FAIL(TR_EFORMAT, "values of 1000, some of them after its end",
                tr_compress_check(&bits, payload.byte, tr_compress_bytes(&bits, n), n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sent_part_and_the_rest_add_up_to_the_gradient),
        cmocka_unit_test(errors_are_bounded),
        cmocka_unit_test(topk_sends_the_largest_and_of_equal_ones_the_first),
        cmocka_unit_test(the_sum_of_what_was_sent_follows_the_sum_of_the_gradients),
        cmocka_unit_test(topk_needs_feedback_to_arrive),
        cmocka_unit_test(wild_values_arrive_and_leave_nothing),
        cmocka_unit_test(zeros_are_four_bytes),
        cmocka_unit_test(small_and_double_gradients_travel_as_they_are),
        cmocka_unit_test(payloads_are_as_small_as_is_said),
        cmocka_unit_test(nonzero_sends_what_is_there_and_no_more),
        cmocka_unit_test(a_wrong_word_is_explained),
        cmocka_unit_test(a_damaged_payload_is_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
