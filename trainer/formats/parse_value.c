/* parse_value.c - see parse_value.h. */
#include "trainer/formats/parse_value.h"

#include "framework/base/number.h"
#include "framework/tensors/dtype.h"

bool tr_put_value(const tr_column *column, void *to, double value)
{
    if (TR_UNLIKELY(!tr_dtype_holds(column->dtype, value)) && !column->is_dropped)
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
