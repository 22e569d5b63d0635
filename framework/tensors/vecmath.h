/* vecmath.h - exp, log, tanh, sigmoid and the like as plain arithmetic that a compiler can vectorise.
 *
 * Every function is free of branches, tables and calls: a loop over one becomes vector code at each level of
 * TR_CLONES. Errors stay within about 2 units in the last place over the whole range (tests/framework/
 * test_vecmath.c measures them); infinities, NaN and zeros behave as in libm. The constants are Chebyshev fits of
 * the reduced functions; the reductions are the usual ones: a power of two goes into the exponent bits, the rest
 * lies in an interval short enough for a polynomial.
 *
 * What must stay true: selections are written `x > hi ? hi : x`, in the order that lets NaN through and compiles to
 * one instruction. */
#pragma once

#include "framework/base/compiler.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

TR_INLINE uint32_t tr_bits_f32(float x) { uint32_t u; memcpy(&u, &x, sizeof u); return u; }
TR_INLINE float    tr_from_bits_f32(uint32_t u) { float x; memcpy(&x, &u, sizeof x); return x; }
TR_INLINE uint64_t tr_bits_f64(double x) { uint64_t u; memcpy(&u, &x, sizeof u); return u; }
TR_INLINE double   tr_from_bits_f64(uint64_t u) { double x; memcpy(&x, &u, sizeof x); return x; }

/* 1.5 * 2^23 and 1.5 * 2^52: adding one leaves the nearest integer in the low bits of the sum. */
#define TR_ROUND_F32 0x1.8p23f
#define TR_ROUND_F64 0x1.8p52

/* -- exp -------------------------------------------------------------------------------------------------- */

/* x = n ln 2 + r, |r| <= ln 2 / 2: returns e^r - 1, exact to the last place also near 0; *shifted holds n in its low
 * bits. x must lie within some thousand. */
TR_INLINE float tr_exp_reduced_f32(float x, float *shifted)
{
    *shifted = x * 0x1.715476p0f + TR_ROUND_F32;
    const float n = *shifted - TR_ROUND_F32;
    const float r = (x - n * 0x1.63p-1f) + n * 0x1.bd0106p-13f;      /* ln 2 in two parts; n * the first is exact */
    float q = 1.3926177501e-03f;
    q = q * r + 8.3631741801e-03f;
    q = q * r + 4.1666554653e-02f;
    q = q * r + 1.6666577019e-01f;
    q = q * r + 0.5f;
    return r + r * r * q;
}

TR_INLINE double tr_exp_reduced_f64(double x, double *shifted)
{
    *shifted = x * 0x1.71547652b82fep0 + TR_ROUND_F64;
    const double n = *shifted - TR_ROUND_F64;
    const double r = (x - n * 0x1.62e42fee00000p-1) - n * 0x1.a39ef35793c76p-33;
    double q = 2.0913794424679043001e-09;
    q = q * r + 2.5105647546090747846e-08;
    q = q * r + 2.7557280209959461829e-07;
    q = q * r + 2.7557254433723950183e-06;
    q = q * r + 2.4801587313782264794e-05;
    q = q * r + 1.9841269875475206343e-04;
    q = q * r + 1.3888888888891528185e-03;
    q = q * r + 8.3333333333259992490e-03;
    q = q * r + 4.1666666666666651994e-02;
    q = q * r + 1.6666666666666671046e-01;
    q = q * r + 0.5;
    return r + r * r * q;
}

/* 2^n for the n in the low bits of `shifted`, within the normal exponents. */
TR_INLINE float  tr_exp2_bits_f32(float shifted) { return tr_from_bits_f32((tr_bits_f32(shifted) + 127u) << 23); }
TR_INLINE double tr_exp2_bits_f64(double shifted) { return tr_from_bits_f64((tr_bits_f64(shifted) + 1023u) << 52); }

/* e^x, the same bits as tr_exp, where e^x is a normal number: x from -87 to 88 (-708 to 709). */
TR_INLINE float tr_exp_normal_f32(float x)
{
    float       shifted;
    const float p = 1.0f + tr_exp_reduced_f32(x, &shifted);
    return p * tr_exp2_bits_f32(shifted);
}

TR_INLINE double tr_exp_normal_f64(double x)
{
    double       shifted;
    const double p = 1.0 + tr_exp_reduced_f64(x, &shifted);
    return p * tr_exp2_bits_f64(shifted);
}

/* Results outside the normal numbers need 2^n in two factors, each of which is normal. */
TR_INLINE float tr_exp_f32(float x)
{
    float shifted;
    x = x > 90.0f ? 90.0f : x;
    x = x < -105.0f ? -105.0f : x;
    const float    p = 1.0f + tr_exp_reduced_f32(x, &shifted);
    const uint32_t n = tr_bits_f32(shifted) - tr_bits_f32(TR_ROUND_F32) + 256;      /* n + 256 > 0 */
    const uint32_t half = n >> 1;
    return p * tr_from_bits_f32((half - 1) << 23) * tr_from_bits_f32((n - half - 1) << 23);
}

TR_INLINE double tr_exp_f64(double x)
{
    double shifted;
    x = x > 710.0 ? 710.0 : x;
    x = x < -746.0 ? -746.0 : x;
    const double   p = 1.0 + tr_exp_reduced_f64(x, &shifted);
    const uint64_t n = tr_bits_f64(shifted) - tr_bits_f64(TR_ROUND_F64) + 2048;
    const uint64_t half = n >> 1;
    return p * tr_from_bits_f64((half - 1) << 52) * tr_from_bits_f64((n - half - 1) << 52);
}

/* -- sigmoid and tanh, from the same reduction ------------------------------------------------------------------ */

/* Below -88 (-709) the result is 0 where the exact one is denormal. */
TR_INLINE float tr_sigmoid_f32(float x)
{
    float shifted;
    x = x > 88.0f ? 88.0f : x;
    const float low = x < -88.0f ? 0.0f : 1.0f;
    x = x < -88.0f ? -88.0f : x;
    const float p = 1.0f + tr_exp_reduced_f32(-x, &shifted);
    return low / (1.0f + p * tr_exp2_bits_f32(shifted));
}

TR_INLINE double tr_sigmoid_f64(double x)
{
    double shifted;
    x = x > 709.0 ? 709.0 : x;
    const double low = x < -709.0 ? 0.0 : 1.0;
    x = x < -709.0 ? -709.0 : x;
    const double p = 1.0 + tr_exp_reduced_f64(-x, &shifted);
    return low / (1.0 + p * tr_exp2_bits_f64(shifted));
}

/* tanh = m / (m + 2) with m = e^2|x| - 1 = 2^n (e^r - 1) + (2^n - 1), which is exact near 0 because n is 0 there. */
TR_INLINE float tr_tanh_f32(float x)
{
    float shifted, a = fabsf(x) * 2.0f;
    a = a > 20.0f ? 20.0f : a;
    const float p = tr_exp_reduced_f32(a, &shifted), two_n = tr_exp2_bits_f32(shifted);
    const float m = two_n * p + (two_n - 1.0f);
    return copysignf(m / (m + 2.0f), x);
}

TR_INLINE double tr_tanh_f64(double x)
{
    double shifted, a = fabs(x) * 2.0;
    a = a > 44.0 ? 44.0 : a;
    const double p = tr_exp_reduced_f64(a, &shifted), two_n = tr_exp2_bits_f64(shifted);
    const double m = two_n * p + (two_n - 1.0);
    return copysign(m / (m + 2.0), x);
}

/* -- log ------------------------------------------------------------------------------------------------------- */

/* x = 2^e m with m in [sqrt 1/2, sqrt 2); with f = m - 1 and s = f / (2 + f), log m = f - f^2/2 + s (f^2/2 + R(s^2)). x must be a normal
 * number above 0; `e_less` is taken off e. */
TR_INLINE float tr_log_normal_f32(float x, float e_less)
{
    const uint32_t top = tr_bits_f32(x) - 0x3f3504f3u;
    const float    e = (float)((int32_t)top >> 23) - e_less;
    const float    f = tr_from_bits_f32((top & 0x7fffffu) + 0x3f3504f3u) - 1.0f;
    const float    s = f / (2.0f + f), z = s * s, h = 0.5f * f * f;
    float r = 2.333096405e-01f;
    r = r * z + 2.855080255e-01f;
    r = r * z + 4.000012200e-01f;
    r = r * z + 6.666666655e-01f;
    return e * 0x1.62e400p-1f - ((h - (s * (h + r * z) + e * 0x1.7f7d1cp-20f)) - f);
}

TR_INLINE float tr_log_f32(float x)
{
    const float y = tr_log_normal_f32(x < 0x1p-126f ? x * 0x1p23f : x, x < 0x1p-126f ? 23.0f : 0.0f);
    const float edge = x == 0.0f ? -INFINITY : x < 0.0f ? NAN : x;       /* 0, negative, infinity, NaN */
    return x > 0.0f && x < INFINITY ? y : edge;
}

TR_INLINE double tr_log_normal_f64(double x, double e_less)
{
    const uint64_t top = tr_bits_f64(x) - 0x3fe6a09e667f3bcdu;
    /* The exponent by way of the bits below 2^52: vectors have no conversion from 64-bit integers before AVX-512. */
    const double   biased = tr_from_bits_f64(((top >> 52) ^ 0x800u) | 0x4330000000000000u) - (0x1p52 + 0x800);
    const double   e = biased - e_less;
    const double   f = tr_from_bits_f64((top & 0xfffffffffffffu) + 0x3fe6a09e667f3bcdu) - 1.0;
    const double   s = f / (2.0 + f), z = s * s, h = 0.5 * f * f;
    double r = 1.4617083276082177865e-01;
    r = r * z + 1.5331669866278950376e-01;
    r = r * z + 1.8182890699073616834e-01;
    r = r * z + 2.2222211112900142250e-01;
    r = r * z + 2.8571428626111755413e-01;
    r = r * z + 3.9999999999899200223e-01;
    r = r * z + 6.6666666666666696967e-01;
    return e * 0x1.62e42fee00000p-1 - ((h - (s * (h + r * z) + e * 0x1.a39ef35793c76p-33)) - f);
}

TR_INLINE double tr_log_f64(double x)
{
    const double y = tr_log_normal_f64(x < 0x1p-1022 ? x * 0x1p52 : x, x < 0x1p-1022 ? 52.0 : 0.0);
    const double edge = x == 0.0 ? -(double)INFINITY : x < 0.0 ? (double)NAN : x;
    return x > 0.0 && x < (double)INFINITY ? y : edge;
}

/* -- erf --------------------------------------------------------------------------------------------------------- */

/* Up to 1 an odd polynomial; beyond, 1 - e^-f with a polynomial f for -log(1 - erf x), which is fitted where it counts most. */
TR_INLINE float tr_erf_f32(float x)
{
    float shifted, a = fabsf(x);
    a = a > 4.2f ? 4.2f : a;
    const float z = a * a;
    float p = 7.8758750453e-05f;
    p = p * z - 8.0168642815e-04f;
    p = p * z + 5.1890874227e-03f;
    p = p * z - 2.6854212010e-02f;
    p = p * z + 1.1283594715e-01f;
    p = p * z - 3.7612626667e-01f;
    p = (p * z + 1.1283791658f) * a;
    float f = 1.1504192371e-03f;
    f = f * a - 1.4778099023e-02f;
    f = f * a + 8.8634110987e-02f;
    f = f * a + 6.5448904037e-01f;
    f = f * a + 1.1174384356f;
    f = f * a + 2.6717192959e-03f;
    const float e = 1.0f + tr_exp_reduced_f32(-f, &shifted);
    return copysignf(a < 1.0f ? p : 1.0f - e * tr_exp2_bits_f32(shifted), x);
}

/* libm's, one element at a time. */
TR_INLINE double tr_erf_f64(double x) { return erf(x); }

/* -- sine and cosine of 2 pi u, 0 <= u <= 1: for the generator of normal numbers --------------------------------- */

/* u = q / 4 + r, |r| <= 1/8: the quarter q picks among +-sin and +-cos of the rest. */
TR_INLINE void tr_sincos_turn_f32(float *sine, float *cosine, float u)
{
    const float    shifted = u * 4.0f + TR_ROUND_F32;
    const float    r = u - (shifted - TR_ROUND_F32) * 0.25f, z = r * r;
    const uint32_t q = tr_bits_f32(shifted);
    float s = 4.14728332e+01f;
    s = s * z - 7.6697866350e+01f;
    s = s * z + 8.1605204711e+01f;
    s = s * z - 4.1341702153e+01f;
    s = (s * z + 6.2831853072f) * r;
    float c = 5.9220168959e+01f;
    c = c * z - 8.5442844673e+01f;
    c = c * z + 6.4939316136e+01f;
    c = c * z - 1.9739208650e+01f;
    c = c * z + 1.0f;
    const float a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = tr_from_bits_f32(tr_bits_f32(a) ^ (q & 2) << 30);
    *cosine = tr_from_bits_f32(tr_bits_f32(b) ^ ((q + 1) & 2) << 30);
}

TR_INLINE void tr_sincos_turn_f64(double *sine, double *cosine, double u)
{
    const double   shifted = u * 4.0 + TR_ROUND_F64;
    const double   r = u - (shifted - TR_ROUND_F64) * 0.25, z = r * r;
    const uint64_t q = tr_bits_f64(shifted);
    double s = -7.34375e-01;
    s = s * z + 3.8212890625;
    s = s * z - 1.509467962384223938e+01;
    s = s * z + 4.2058694444596767426e+01;
    s = s * z - 7.6705859756568770536e+01;
    s = s * z + 8.1605249276087263866e+01;
    s = s * z - 4.1341702240399777528e+01;
    s = (s * z + 6.283185307179586482) * r;
    double c = -1.699951171875;
    c = c * z + 7.9033021926879882812;
    c = c * z - 2.6426256533712148666e+01;
    c = c * z + 6.024464140407508239e+01;
    c = c * z - 8.545681720704919826e+01;
    c = c * z + 6.4939394022669785445e+01;
    c = c * z - 1.973920880217871959e+01;
    c = c * z + 1.0;
    const double a = q & 1 ? c : s, b = q & 1 ? s : c;
    *sine = tr_from_bits_f64(tr_bits_f64(a) ^ (q & 2) << 62);
    *cosine = tr_from_bits_f64(tr_bits_f64(b) ^ ((q + 1) & 2) << 62);
}

/* -- the inverse error function within two standard deviations --------------------------------------------------- */

/* erfinv(y), |y| <= 0.9545: y times a polynomial of -log(1 - y^2). */
TR_INLINE float tr_erfinv_inner_f32(float y)
{
    const float w = -tr_log_f32((1.0f - y) * (1.0f + y));
    float p = -2.5880701235e-09f;
    p = p * w + 3.1799986858e-08f;
    p = p * w - 4.8294150824e-08f;
    p = p * w - 1.0127860534e-06f;
    p = p * w + 2.0392091363e-06f;
    p = p * w + 4.6584748875e-05f;
    p = p * w - 1.2802560313e-04f;
    p = p * w - 2.3351077956e-03f;
    p = p * w + 1.1549343074e-02f;
    p = p * w + 2.3201366647e-01f;
    p = p * w + 8.8622692545e-01f;
    return p * y;
}

TR_INLINE double tr_erfinv_inner_f64(double y)
{
    static const double c[] = {
        -2.6761932540246253904e-14,  3.2180600378476853365e-13, -2.1806186186305373815e-12,
         7.7804611412578521174e-12, -9.0015124696761206390e-12,  2.9676651042960702356e-11,
        -6.0001990983361233000e-10,  8.5055097370966548187e-10,  2.2699745536681631373e-08,
        -3.7225415032187023382e-08, -1.0125934834878308289e-06,  2.0200049564884250439e-06,
         4.6611435685721809567e-05, -1.2804329333047654772e-04, -2.3351016417236758360e-03,
         1.1549342038278208866e-02,  2.3201366653465430243e-01,  8.8622692545275801436e-01,
    };
    const double w = -tr_log_f64((1.0 - y) * (1.0 + y));
    double p = 1.0249353522484625795e-15;
    for (int i = 0; i < TR_COUNT(c); i++)
        p = p * w + c[i];
    return p * y;
}
