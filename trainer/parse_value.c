/* parse_value.c - see parse_value.h. */
#include "trainer/parse_value.h"

#include <stdarg.h>
#include <stdio.h>

#include "trainer/number.h"

/* == values ================================================================================== */

bool tr_put_value(const tr_column *column, void *to, double value)
{
    if (TR_UNLIKELY(!tr_number_fits(column->dtype, value)) && !column->is_dropped)
        return false;
    if (column->dtype == TR_FP32)
        *(float *)to = (float)value;
    else if (column->dtype == TR_FP64)
        *(double *)to = value;
    else
        *(int64_t *)to = (int64_t)value;
    return true;
}

bool tr_read_value(const tr_column *column, void *to, const char **at)
{
    double value;

    if (column->dtype == TR_INT64)
        return tr_number_int64(to, at);
    return tr_number_double(&value, at) && tr_put_value(column, to, value);
}

const char *tr_value_noun(const tr_column *column)
{
    if (column->dtype == TR_INT64)
        return "an integer";
    return column->dtype == TR_FP32 ? "a finite number that fits float32" : "a finite number that fits float64";
}

/* == mistakes ================================================================================ */

bool tr_mistake_at(tr_mistake *mistake, const char *at, const char *slot, const char *format, ...)
{
    va_list args;

    mistake->at = at;
    mistake->slot = slot;
    mistake->is_memory = false;
    va_start(args, format);
    vsnprintf(mistake->expected, sizeof mistake->expected, format, args);
    va_end(args);
    return false;
}

bool tr_mistake_memory(tr_mistake *mistake)
{
    mistake->is_memory = true;
    return false;
}
