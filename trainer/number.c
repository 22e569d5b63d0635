/* number.c - see number.h. */
#include "trainer/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>

#include "framework/compiler.h"

TR_INLINE bool is_digit(char c)
{
    return (unsigned char)(c - '0') < 10;
}

bool tr_number_int64(int64_t *out, const char **at)
{
    const char *p = *at;
    const bool  is_negative = *p == '-';
    uint64_t    value = 0;

    p += is_negative || *p == '+';
    const char *first = p;
    for (; is_digit(*p); p++) {
        const uint64_t digit = (uint64_t)(*p - '0');
        if (TR_UNLIKELY(p - first >= 18) &&
            (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, digit, &value)))
            return false;
        if (TR_LIKELY(p - first < 18))
            value = value * 10 + digit;
    }
    if (p == first || (is_negative && value > (uint64_t)1 << 63))
        return false;
    *out = (int64_t)(is_negative ? -value : value);
    *at = p;
    return true;
}

/* == floats ================================================================================= */

static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* Convert a text that is known to be a decimal number up to `end`. */
static double slow(const char *from)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_locale);
    return c_locale ? strtod_l(from, NULL, c_locale) : strtod(from, NULL);
}

static bool word(double *out, const char **at, const char *p, bool is_negative)
{
    double value;

    if (!strncasecmp(p, "nan", 3)) {
        value = NAN;
        p += 3;
    } else if (!strncasecmp(p, "inf", 3)) {
        value = INFINITY;
        p += strncasecmp(p, "infinity", 8) ? 3 : 8;
    } else {
        return false;
    }
    *out = is_negative ? -value : value;
    *at = p;
    return true;
}

/* Read "e-5" after the digits. Without an exponent the result is 0. A lone "e" is not part of the number. */
static int read_exponent(const char **at)
{
    const char *p = *at;
    int         value = 0;

    if ((*p | 32) != 'e')
        return 0;
    p++;
    const bool is_negative = *p == '-';
    p += is_negative || *p == '+';
    if (!is_digit(*p))
        return 0;
    for (; is_digit(*p); p++)
        value = value < 100000 ? value * 10 + (*p - '0') : value;
    *at = p;
    return is_negative ? -value : value;
}

bool tr_number_double(double *out, const char **at)
{
    static const double power[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                   1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    const char *p = *at;
    const bool  is_negative = *p == '-';
    uint64_t    digits = 0;

    p += is_negative || *p == '+';
    const char *first = p;
    while (is_digit(*p))
        digits = digits * 10 + (uint64_t)(*p++ - '0');
    int64_t count = p - first;
    int64_t exponent = 0;
    if (*p == '.') {
        const char *fraction = ++p;
        while (is_digit(*p))
            digits = digits * 10 + (uint64_t)(*p++ - '0');
        exponent = fraction - p;
        count += p - fraction;
    }
    if (TR_UNLIKELY(count == 0))
        return word(out, at, first, is_negative);
    exponent += read_exponent(&p);
    /* Digits and power of ten must both be exact doubles; 19 digits cannot have overflowed. */
    if (TR_LIKELY(count <= 19 && digits <= (uint64_t)1 << 53 && exponent >= -22 && exponent <= 22)) {
        const double value = exponent < 0 ? (double)digits / power[-exponent] : (double)digits * power[exponent];
        *out = is_negative ? -value : value;
    } else {
        *out = slow(*at);
    }
    *at = p;
    return true;
}

bool tr_number_fits(tr_dtype dtype, double value)
{
    if (dtype == TR_INT64)
        return value >= -0x1p63 && value < 0x1p63 && value == trunc(value);
    return isfinite(dtype == TR_FP32 ? (double)(float)value : value);
}
