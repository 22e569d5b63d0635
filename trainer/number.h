/* number.h - read numbers where they stand in a text.
 *
 * Floats are correctly rounded. Up to 19 digits and small powers of ten take one exact multiplication or division (Clinger, "How to read
 * floating point numbers accurately", 1990); strtod in the C locale reads all others.
 *
 * What must stay true: behind the text stands a byte that is part of no number, such as a NUL behind the last line. So no function here
 * needs the text's length. */
#ifndef TR_TRAINER_NUMBER_H
#define TR_TRAINER_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

#include "framework/dtype.h"

/* Read a number at *at and move *at behind it; false, with *at unmoved, when there is none or it does not fit.
 * An integer from 2^63 to 2^64 - 1 (a hashed feature, say) comes out as the int64 of the same bits. */
bool tr_number_int64(int64_t *out, const char **at);
/* Decimal, with "inf" and "nan" in any case. A number beyond the range of a double comes out as infinity:
 * ask tr_number_fits before it is used. */
bool tr_number_double(double *out, const char **at);
/* Can a tensor of this type (int64, float32, float64) hold the value? NaN and infinity fit no type. A float may be
 * rounded, a whole number may not. */
bool tr_number_fits(tr_dtype dtype, double value);

#endif
