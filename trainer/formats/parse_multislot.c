/* parse_multislot.c - a line has, for each slot in order, a count and so many numbers.
 *
 *     2 17 4   13 0.1 0.2 ...   1 0
 *
 * Fluid's MultiSlotDataFeed reads this format. A slot without lod_level has as many numbers as its variable has elements. A slot with
 * lod_level has any number of rows, perhaps none. */
#include "framework/base/number.h"
#include "framework/tensors/dtype.h"
#include "trainer/formats/parse_state.h"

#include <string.h>

/* Make room for the values of a slot. The rest of the line limits their number, because a value takes at least two bytes. If the count is
 * higher, the first missing value is reported as the mistake. */
static char *make_room(tr_column *column, int64_t count, const char *at)
{
    enum { FEW = 1024 };

    if (TR_UNLIKELY(count > FEW)) {
        const int64_t most = ((const char *)rawmemchr(at, '\n') - at) / 2 + 1;
        count = count < most ? count : most;
    }
    return tr_column_reserve(column, count);
}

/* Read `count` numbers. A space or the end of the line follows each. */
static bool read_values(tr_column *column, int64_t count, const char **at, tr_mistake *mistake, const char *name)
{
    const int64_t size = column->size;
    char         *to = count ? make_room(column, count, *at) : NULL;
    const char   *p = *at;

    if (count && !to)
        return tr_mistake_memory(mistake);
    for (int64_t i = 0; i < count; i++, to += size) {
        const char *from = p = tr_skip_spaces(p);
        if (TR_UNLIKELY(!tr_read_value(column, to, &p) || !(tr_is_space(*p) || *p == '\n')))
            return tr_mistake_at(mistake, from, name, "expected %s as value %lld of %lld", tr_dtype_noun(column->dtype),
                                 (long long)i + 1, (long long)count);
    }
    column->count += count;
    *at = p;
    return true;
}

static bool check_count(const tr_column *column, int64_t count, const char *at, const char *name, tr_mistake *mistake)
{
    if (TR_LIKELY(column->is_ragged ? count >= 0 && count % column->width == 0 : count == column->width))
        return true;
    if (column->is_dropped && count >= 0)
        return true;
    if (!column->is_ragged)
        return tr_mistake_at(mistake, at, name, "expected the count %lld, for the elements of the variable",
                             (long long)column->width);
    return tr_mistake_at(mistake, at, name, "expected a count that is a multiple of %lld, the elements of a row",
                         (long long)column->width);
}

bool tr_line_multislot(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake)
{
    const char *p = *at;

    for (int i = 0; i < to->slots; i++) {
        tr_column  *column = &to->column[i];
        const char *name = parser->spec->slots[i].name;
        const char *from = p = tr_skip_spaces(p);
        int64_t     count;
        if (TR_UNLIKELY(!tr_number_int64(&count, &p) || !(tr_is_space(*p) || *p == '\n')))
            return tr_mistake_at(mistake, from, name, "expected the count of slot %d of %d", i + 1, to->slots);
        if (!check_count(column, count, from, name, mistake))
            return false;
        if (count > INT32_MAX)
            return tr_mistake_at(mistake, from, name, "expected a count below 2^31");
        if (!read_values(column, count, &p, mistake, name))
            return false;
    }
    p = tr_skip_spaces(p);
    if (*p != '\n')
        return tr_mistake_at(mistake, p, NULL, "expected the end of the line after %d slots", to->slots);
    *at = p;
    return true;
}
