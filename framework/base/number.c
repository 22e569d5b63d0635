/* number.c - see number.h. */
#include "framework/base/number.h"

#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "framework/base/compiler.h"

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

/* == the C locale ============================================================================= */

static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

/* 0: there is no memory for it; then the process's own is used. */
static locale_t get_locale(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_locale);
    return c_locale;
}

double tr__strtod(const char *text, char **end)
{
    const locale_t c = get_locale();
    return c ? strtod_l(text, end, c) : strtod(text, end);
}

float tr__strtof(const char *text, char **end)
{
    const locale_t c = get_locale();
    return c ? strtof_l(text, end, c) : strtof(text, end);
}

int tr__vformat(char *out, size_t size, const char *format, va_list args)
{
    const locale_t old = uselocale(get_locale());      /* of this thread; 0 changes nothing */
    const int      length = vsnprintf(out, size, format, args);

    uselocale(old);
    return length;
}

int tr__format(char *out, size_t size, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const int length = tr__vformat(out, size, format, args);
    va_end(args);
    return length;
}

int tr__print(FILE *out, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    const locale_t old = uselocale(get_locale());
    const int      length = vfprintf(out, format, args);
    uselocale(old);
    va_end(args);
    return length;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

bool tr__is_alnum(char c)
{
    return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'z');
}

bool tr__is_like(const char *a, const char *b, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (lower(a[i]) != lower(b[i]))
            return false;
        if (!a[i])
            return true;
    }
    return true;
}

/* == floats ================================================================================= */

static bool word(double *out, const char **at, const char *p, bool is_negative)
{
    double value;

    if (tr__is_like(p, "nan", 3)) {
        value = NAN;
        p += 3;
    } else if (tr__is_like(p, "inf", 3)) {
        value = INFINITY;
        p += tr__is_like(p, "infinity", 8) ? 8 : 3;
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
        *out = tr__strtod(*at, NULL);
    }
    *at = p;
    return true;
}
