/* parse_libsvm.c - a line is a label, then index:value ... for the features that are not zero. A comment begins at #.
 *
 *     +1 3:0.5 17:1 204:0.25   # the third, the seventeenth, ...
 *
 * The first slot is the label. After it comes either one dense float slot, which gets the whole row of features, or one or two
 * sequences: indices (int64) and values (float). */
#include "framework/base/number.h"
#include "framework/tensors/dtype.h"
#include "trainer/formats/parse_state.h"

#include <string.h>

static tr_status take_slot(tr_parser *parser, int i)
{
    const tr_data_slot *slot = &parser->spec->slots[i];
    int                *to = slot->dtype == TR_INT64 ? &parser->index : &parser->value;

    if (slot->lod_level == 0)
        to = &parser->dense;
    if (slot->lod_level == 0 && slot->dtype == TR_INT64)
        return tr_fail(TR_EDTYPE, "data: libsvm: slot '%s' is int64 without lod_level; dense features are floats, indices "
                       "have lod_level 1", slot->name);
    if (slot->lod_level && tr__slot_width(slot) != 1)
        return tr_fail(TR_ESHAPE, "data: libsvm: slot '%s' has rows of %lld elements; a feature is one", slot->name,
                       (long long)tr__slot_width(slot));
    if (*to >= 0)
        return tr_fail(TR_EEXIST, "data: libsvm: slots '%s' and '%s' would hold the same", parser->spec->slots[*to].name,
                       slot->name);
    *to = i;
    return TR_OK;
}

tr_status tr_libsvm_init(tr_parser *parser)
{
    const tr_data_slot *label = &parser->spec->slots[0];

    parser->label = 0;
    parser->dense = parser->index = parser->value = -1;
    if (label->lod_level || tr__slot_width(label) != 1)
        return tr_fail(TR_ESHAPE, "data: libsvm: the first slot is the label, one number; '%s' has rows of %lld", label->name,
                       (long long)tr__slot_width(label));
    for (int i = 1; i < parser->spec->slot_count; i++)
        TR_TRY(take_slot(parser, i));
    return TR_OK;
}

/* The place of a feature in the dense row of the line. */
static char *dense_place(const tr_column *column, int64_t index)
{
    return column->data + (column->count - column->width + index) * column->size;
}

static bool put_dense(tr_column *column, int64_t index, double value, const char *at, const char *name, int64_t first, tr_mistake *mistake)
{
    static const char zero[sizeof(double)];

    if (index >= column->width)
        return tr_mistake_at(mistake, at, name, "expected an index from %lld to %lld", (long long)first,
                             (long long)(first + column->width - 1));
    char *to = dense_place(column, index);
    if (memcmp(to, zero, (size_t)column->size))
        return tr_mistake_at(mistake, at, name, "expected each index once, and %lld has a value already", (long long)(index + first));
    return tr_put_value(column, to, value);
}

static bool put_value(tr_column *column, double value)
{
    void *to = tr_column_reserve(column, 1);

    if (!to)
        return false;
    column->count++;
    return tr_put_value(column, to, value);
}

/* The value of a feature must fit each slot that takes it. */
static bool check_value(const tr_parser *parser, const tr_columns *to, double value, const char *at, tr_mistake *mistake)
{
    const int takers[] = {parser->dense, parser->value};

    for (int i = 0; i < TR_COUNT(takers); i++)
        if (takers[i] >= 0 && TR_UNLIKELY(!tr_dtype_holds(to->column[takers[i]].dtype, value)))
            return tr_mistake_at(mistake, at, parser->spec->slots[takers[i]].name, "expected %s",
                                 tr_dtype_noun(to->column[takers[i]].dtype));
    return true;
}

static bool put_index(tr_column *column, int64_t index)
{
    int64_t *to = tr_column_reserve(column, 1);

    if (!to)
        return false;
    *to = index;
    column->count++;
    return true;
}

static bool read_pair(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake)
{
    const tr_data_slot *slots = parser->spec->slots;
    const char         *p = *at;
    int64_t             index;
    double              value;

    if (!tr_number_int64(&index, &p) || *p != ':')
        return tr_mistake_at(mistake, *at, NULL, "expected index:value");
    const char *const number = ++p;
    if (!tr_number_double(&value, &p) || !(tr_is_space(*p) || *p == '\n' || *p == '#'))
        return tr_mistake_at(mistake, *at, NULL, "expected index:value");
    if (!check_value(parser, to, value, number, mistake))
        return false;
    index -= parser->spec->first_index;
    if (index < 0)
        return tr_mistake_at(mistake, *at, NULL, "expected an index of at least %lld",
                             (long long)parser->spec->first_index);
    if (parser->dense >= 0 && !put_dense(&to->column[parser->dense], index, value, *at, slots[parser->dense].name,
                                         parser->spec->first_index, mistake))
        return false;
    if ((parser->index >= 0 && !put_index(&to->column[parser->index], index)) ||
        (parser->value >= 0 && !put_value(&to->column[parser->value], value)))
        return tr_mistake_memory(mistake);
    *at = p;
    return true;
}

static bool begin_dense(tr_column *column)
{
    void *row = tr_column_reserve(column, column->width);

    if (!row)
        return false;
    memset(row, 0, (size_t)(column->width * column->size));
    column->count += column->width;
    return true;
}

bool tr_line_libsvm(const tr_parser *parser, tr_columns *to, const char **at, tr_mistake *mistake)
{
    tr_column  *label = &to->column[parser->label];
    const char *p = tr_skip_spaces(*at), *from = p;
    void       *room = tr_column_reserve(label, 1);

    if (!room || (parser->dense >= 0 && !begin_dense(&to->column[parser->dense])))
        return tr_mistake_memory(mistake);
    if (!tr_read_value(label, room, &p) || !(tr_is_space(*p) || *p == '\n' || *p == '#'))
        return tr_mistake_at(mistake, from, parser->spec->slots[parser->label].name, "expected %s, the label",
                             tr_dtype_noun(label->dtype));
    label->count++;
    for (p = tr_skip_spaces(p); *p != '\n' && *p != '#'; p = tr_skip_spaces(p))
        if (!read_pair(parser, to, &p, mistake))
            return false;
    while (*p != '\n')
        p++;
    *at = p;
    return true;
}
