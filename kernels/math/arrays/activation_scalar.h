/* activation_scalar.h - the functions of activation.h on one number, for every kernel that fuses them.
 *
 * tr_act_<name>(x, p, q) is the function; tr_act_d<name>(d, v, p, q) is d times its derivative, where v is what
 * TR_ACT_LIST says: x, the function's value, or nothing of use. */
#ifndef TR_MATH_ACTIVATION_SCALAR_H
#define TR_MATH_ACTIVATION_SCALAR_H

#include "framework/base/compiler.h"
#include "framework/tensors/vecmath.h"

#include <tgmath.h>

#define TR_TEMPLATE "kernels/math/arrays/activation_scalar.h"
#include "kernels/math/tools/each_float.h"

#elif defined(T)

#define ACT(name)  TR_INLINE T NAME(tr_act_##name)(T x, T p, T q)
#define DACT(name) TR_INLINE T NAME(tr_act_d##name)(T d, T v, T p, T q)
#define NO_PARAMETERS (void)p, (void)q

/* log(1 + e), e >= 0 and finite, to the last place also for small e. A NaN comes through in the second term. */
TR_INLINE T NAME(tr_log_one_plus)(T e)
{
    const T u = 1 + e;
    return NAME(tr_log_normal)(u, 0) - (u - 1 - e) / u;
}

/* log(1 + e^x) without overflow. */
TR_INLINE T NAME(tr_log_one_plus_exp)(T x)
{
    return (x < 0 ? 0 : x) + NAME(tr_log_one_plus)(NAME(tr_exp)(-fabs(x)));
}

/* e^x - 1 for x <= 0 (0 for what is above), to the last place also near 0. */
TR_INLINE T NAME(tr_exp_minus_one)(T x)
{
    T shifted;
    x = x > 0 ? 0 : x;
    x = x < -60 ? -60 : x;
    const T r = NAME(tr_exp_reduced)(x, &shifted), two_n = NAME(tr_exp2_bits)(shifted);
    return two_n * r + (two_n - 1);
}

ACT(identity)  { NO_PARAMETERS; return x; }
DACT(identity) { NO_PARAMETERS; (void)v; return d; }
ACT(relu)  { NO_PARAMETERS; return x < 0 ? 0 : x; }
DACT(relu) { NO_PARAMETERS; return v > 0 ? d : 0; }
ACT(sigmoid)  { NO_PARAMETERS; return NAME(tr_sigmoid)(x); }
DACT(sigmoid) { NO_PARAMETERS; return d * v * (1 - v); }
ACT(tanh)  { NO_PARAMETERS; return NAME(tr_tanh)(x); }
DACT(tanh) { NO_PARAMETERS; return d * (1 - v * v); }
ACT(exp)  { NO_PARAMETERS; return NAME(tr_exp)(x); }
DACT(exp) { NO_PARAMETERS; return d * v; }
ACT(log)  { NO_PARAMETERS; return NAME(tr_log)(x); }
DACT(log) { NO_PARAMETERS; return d / v; }
ACT(sqrt)  { NO_PARAMETERS; return sqrt(x); }
DACT(sqrt) { NO_PARAMETERS; return d * (T)0.5 / v; }
ACT(rsqrt)  { NO_PARAMETERS; return 1 / sqrt(x); }
DACT(rsqrt) { NO_PARAMETERS; return d * (T)-0.5 * v * v * v; }
ACT(square)  { NO_PARAMETERS; return x * x; }
DACT(square) { NO_PARAMETERS; return d * 2 * v; }
ACT(abs)  { NO_PARAMETERS; return fabs(x); }
DACT(abs) { NO_PARAMETERS; return v > 0 ? d : v < 0 ? -d : 0; }
ACT(reciprocal)  { NO_PARAMETERS; return 1 / x; }
DACT(reciprocal) { NO_PARAMETERS; return -d * v * v; }

ACT(cos)  { (void)q; return cos(p * x); }
DACT(cos) { (void)q; return -d * p * sin(p * v); }
ACT(sin)  { NO_PARAMETERS; return sin(x); }
DACT(sin) { NO_PARAMETERS; return d * cos(v); }
ACT(acos)  { NO_PARAMETERS; return acos(x); }
DACT(acos) { NO_PARAMETERS; return -d / sqrt(1 - v * v); }
ACT(asin)  { NO_PARAMETERS; return asin(x); }
DACT(asin) { NO_PARAMETERS; return d / sqrt(1 - v * v); }
ACT(atan)  { NO_PARAMETERS; return atan(x); }
DACT(atan) { NO_PARAMETERS; return d / (1 + v * v); }

ACT(ceil)  { NO_PARAMETERS; return ceil(x); }
DACT(ceil) { NO_PARAMETERS; (void)d, (void)v; return 0; }
ACT(floor)  { NO_PARAMETERS; return floor(x); }
DACT(floor) { NO_PARAMETERS; (void)d, (void)v; return 0; }
ACT(round)  { NO_PARAMETERS; return round(x); }
DACT(round) { NO_PARAMETERS; (void)d, (void)v; return 0; }
ACT(sign)  { NO_PARAMETERS; return x > 0 ? 1 : x < 0 ? -1 : x; }
DACT(sign) { NO_PARAMETERS; (void)d, (void)v; return 0; }

ACT(softsign)  { NO_PARAMETERS; return x / (1 + fabs(x)); }
DACT(softsign) { NO_PARAMETERS; const T u = 1 + fabs(v); return d / (u * u); }
ACT(softplus)  { NO_PARAMETERS; return NAME(tr_log_one_plus_exp)(x); }
DACT(softplus) { NO_PARAMETERS; return d * NAME(tr_sigmoid)(v); }
ACT(logsigmoid)  { NO_PARAMETERS; return -NAME(tr_log_one_plus_exp)(-x); }
DACT(logsigmoid) { NO_PARAMETERS; return d * NAME(tr_sigmoid)(-v); }
ACT(tanh_shrink)  { NO_PARAMETERS; return x - NAME(tr_tanh)(x); }
DACT(tanh_shrink) { NO_PARAMETERS; const T t = NAME(tr_tanh)(v); return d * t * t; }
ACT(erf)  { NO_PARAMETERS; return NAME(tr_erf)(x); }
DACT(erf) { NO_PARAMETERS; return d * (T)1.12837916709551257390 * NAME(tr_exp)(-v * v); }
/* x times the normal distribution function */
ACT(gelu)  { NO_PARAMETERS; return (T)0.5 * x * (1 + NAME(tr_erf)(x * (T)0.70710678118654752440)); }
DACT(gelu)
{
    NO_PARAMETERS;
    const T twice = 1 + NAME(tr_erf)(v * (T)0.70710678118654752440);
    /* There is one product in the sum. Of two the compiler may fuse either, and takes another one at a loop's end. */
    return d * (T)0.5 * (twice + v * (T)0.79788456080286535588 * NAME(tr_exp)((T)-0.5 * v * v));
}

ACT(relu6)  { (void)q; const T y = x < 0 ? 0 : x; return y > p ? p : y; }
DACT(relu6) { (void)q; return ((v > 0) & (v < p)) ? d : 0; }
ACT(brelu)  { const T y = x < p ? p : x; return y > q ? q : y; }
DACT(brelu) { return ((v > p) & (v < q)) ? d : 0; }
ACT(leaky_relu)  { (void)q; return x < 0 ? x * p : x; }
DACT(leaky_relu) { (void)q; return v < 0 ? d * p : d; }
ACT(elu)  { (void)q; return x > 0 ? x : p * NAME(tr_exp_minus_one)(x); }
DACT(elu) { (void)q; const T u = v > 0 ? 0 : v; return v > 0 ? d : d * p * NAME(tr_exp)(u); }
ACT(selu)  { return x > 0 ? p * x : p * q * NAME(tr_exp_minus_one)(x); }
DACT(selu) { return v > 0 ? d * p : d * (v + p * q); }
ACT(pow)  { (void)q; return pow(x, p); }
DACT(pow) { (void)q; return p == 0 ? 0 : d * p * pow(v, p - 1); }
ACT(stanh)  { return q * NAME(tr_tanh)(p * x); }
DACT(stanh) { const T t = NAME(tr_tanh)(p * v); return d * p * q * (1 - t * t); }
ACT(soft_relu)
{
    (void)q;
    x = x > p ? p : x;
    x = x < -p ? -p : x;
    return NAME(tr_log_one_plus_exp)(x);
}
DACT(soft_relu)
{
    (void)q;
    const T low = NAME(tr_log_one_plus_exp)(-p), high = p + low;      /* what -p and p give, to the bit */
    return ((v > low) & (v < high)) ? -d * NAME(tr_exp_minus_one)(-v) : 0;
}
ACT(hard_shrink)  { (void)q; return ((x <= p) & (x >= -p)) ? 0 : x; }
DACT(hard_shrink) { (void)q; return ((v > p) | (v < -p)) ? d : 0; }
ACT(softshrink)  { (void)q; return x > p ? x - p : x >= -p ? 0 : x + p; }
DACT(softshrink) { (void)q; return ((v > p) | (v < -p)) ? d : 0; }
ACT(thresholded_relu)  { (void)q; return x <= p ? 0 : x; }
DACT(thresholded_relu) { (void)q; return v > p ? d : 0; }
ACT(hard_sigmoid)  { const T y = p * x + q; return y < 0 ? 0 : y > 1 ? 1 : y; }
DACT(hard_sigmoid) { (void)q; return ((v > 0) & (v < 1)) ? d * p : 0; }
ACT(swish)  { (void)q; return x * NAME(tr_sigmoid)(p * x); }
DACT(swish)
{
    (void)q;
    const T s = NAME(tr_sigmoid)(p * v);
    return d * (s + p * v * s * (1 - s));
}

#undef ACT
#undef DACT
#undef NO_PARAMETERS

#endif
