/* number.h - reads numbers in place in a text.
 *
 * Floats are correctly rounded. Up to 19 digits and small powers of ten take one exact multiplication or division (Clinger, "How to read
 * floating point numbers accurately", 1990); strtod in the C locale reads all others.
 *
 * What must stay true: the byte after the text is part of no number, such as a NUL after the last line. So no function here needs the
 * text's length. */
#ifndef TR_TRAINER_NUMBER_H
#define TR_TRAINER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/dtype.h"

/* Read a number at *at and move *at to its end. False: there is no number, or it does not fit; then *at is unchanged. An integer from
 * 2^63 to 2^64 - 1 (such as a hashed feature) becomes the int64 with the same bits. */
bool tr_number_int64(int64_t *out, const char **at);
/* Read a decimal number, or "inf" or "nan" in any case. A number beyond the range of a double becomes infinity: call tr_number_fits
 * before you use it. */
bool tr_number_double(double *out, const char **at);
/* Can a tensor of this type (int64, float32, float64) hold the value? NaN and infinity fit no type. A float may be rounded; an integer
 * may not. */
bool tr_number_fits(tr_dtype dtype, double value);

#endif
