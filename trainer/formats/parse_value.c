/* parse_value.c - see parse_value.h. */
#include "trainer/formats/parse_value.h"

#include "framework/base/number.h"
#include "framework/tensors/dtype.h"

bool tr_put_value(const tr_column *column, void *to, double value)
{
    return tr_dtype_put(column->dtype, to, value) || column->is_dropped;
}

bool tr_read_value(const tr_column *column, void *to, const char **at)
{
    double value;

    if (column->dtype == TR_INT64)
        return tr_number_int64(to, at);
    return tr_number_double(&value, at) && tr_put_value(column, to, value);
}
