/* number.h - numbers in texts: reading them and writing them, in the C locale.
 *
 * A script, or a library that it loads, may call setlocale. Then printf and strtod use a comma in many countries. Programs, logs and
 * messages have a point. So this file alone calls them for floats, in the C locale; a test (test_structure.py) looks for other calls.
 * Classes of characters and comparisons without case depend on the locale, too: they are here for ASCII.
 *
 * Numbers in files are read in place. Floats are correctly rounded. Up to 19 digits and small powers of ten take one exact multiplication
 * or division (Clinger, "How to read floating point numbers accurately", 1990); strtod reads all others.
 *
 * What must stay true: the byte after a text in place is part of no number, such as a NUL after the last line. So no function here needs
 * the text's length. */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Read a number at *at and move *at to its end. False: there is no number, or it does not fit; then *at is unchanged. An integer from
 * 2^63 to 2^64 - 1 (such as a hashed feature) becomes the int64 with the same bits. */
bool tr_number_int64(int64_t *out, const char **at);
/* Read a decimal number, or "inf" or "nan" in any case. A number beyond the range of a double becomes infinity. */
bool tr_number_double(double *out, const char **at);

/* strtod and strtof. */
double tr__strtod(const char *text, char **end);
float  tr__strtof(const char *text, char **end);

/* snprintf, vsnprintf and fprintf. */
int tr__format(char *out, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));
int tr__vformat(char *out, size_t size, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
int tr__print(FILE *out, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A digit or a letter of ASCII. */
bool tr__is_alnum(char c);
/* Are the first `size` characters equal, but for the case of ASCII's letters? A text may end before. */
bool tr__is_like(const char *a, const char *b, size_t size);
