/* op_attrs.c - see op_attrs.h. */
#include "framework/operators/op_attrs.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/nearest.h"
#include "framework/operators/attr_def.h"
#include "framework/operators/op_registry.h"

/* -- types ------------------------------------------------------------------------------------ */

/* Can whole number `value` stand for an element of this type without a change? */
static bool keeps_value(int64_t value, tr_attr_type element)
{
    switch (element) {
    case TR_ATTR_LONG:  return true;
    case TR_ATTR_INT:
    case TR_ATTR_BLOCK: return value >= INT32_MIN && value <= INT32_MAX;
    case TR_ATTR_BOOL:  return value == 0 || value == 1;
    case TR_ATTR_FLOAT: return value >= -(1ll << 53) && value <= 1ll << 53 && (double)(float)value == (double)value;
    default:            return false;
    }
}

/* Only whole numbers are converted: an int or long given for a long, float, bool, block or int. */
static bool is_convertible(const tr_attr *from, tr_attr_type to)
{
    const tr_attr_type element = tr_attr_type_element(from->type);

    if (tr_attr_type_is_list(from->type) != tr_attr_type_is_list(to))
        return false;
    if (tr_attr_type_is_list(to) && from->count == 0)
        return true;
    if (element != TR_ATTR_INT && element != TR_ATTR_LONG)
        return false;
    for (int i = 0; i < from->count; i++)
        if (!keeps_value(tr__attr_int(from, i), tr_attr_type_element(to)))
            return false;
    return true;
}

static void set_number(tr_attr *to, int index, int64_t value)
{
    switch (to->type) {
    case TR_ATTR_FLOAT:  to->f = (float)value; break;
    case TR_ATTR_FLOATS: to->floats[index] = (float)value; break;
    case TR_ATTR_LONGS:  to->longs[index] = value; break;
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS: to->ints[index] = (int32_t)value; break;
    default:             to->i = value; break;
    }
}

/* In place, without a new revision of the program: it means the same. */
static void convert(tr_attr *attr, tr_attr_type type)
{
    tr_attr to = {.name = tr__must_strdup(attr->name), .type = type, .count = attr->count};

    if (tr_attr_type_is_list(type))
        to.longs = tr__must_alloc((size_t)attr->count * sizeof(int64_t));
    for (int i = 0; i < attr->count; i++)
        set_number(&to, i, tr__attr_int(attr, i));
    tr__attr_deinit(attr);
    *attr = to;
}

/* The value for a message: one rotating buffer would do, but failures are rare and texts may be long. */
static tr_status fail_with_value(tr_status status, const tr_op *op, const tr_attr *attr, const char *must)
{
    tr_text text = {0};

    tr__attr_print(&text, attr);
    tr_fail(status, "%s: attribute '%s' must be %s, got %s", op->type, attr->name, must,
            text.data ? text.data : "something else");
    tr_text_deinit(&text);
    return status;
}

static tr_status check_type(const tr_op *op, tr_attr *attr, tr_attr_type type)
{
    if (attr->type == type)
        return TR_OK;
    if (is_convertible(attr, type)) {
        convert(attr, type);
        return TR_OK;
    }
    return fail_with_value(TR_EINVAL, op, attr, tr_attr_type_text(type));
}

/* -- ranges ----------------------------------------------------------------------------------- */

static tr_status check_range(const tr_op *op, const tr_attr *attr, const tr_attr_def *def)
{
    if (tr__attr_is_in_range(attr, &def->range))
        return TR_OK;
    char *bounds = tr__attr_range_text(def, NULL);
    char *must = tr__must_format("%s%s", tr_attr_type_is_list(attr->type) ? "a list of values " : "", bounds);
    fail_with_value(TR_ERANGE, op, attr, must);
    free(bounds);
    free(must);
    return TR_ERANGE;
}

/* -- what is not honoured ----------------------------------------------------------------------- */

static tr_status check_supported(const tr_op *op, const tr_attr *attr, const tr_attr_def *def)
{
    const tr_attr *neutral = tr__op_default(op, (int)(def - tr__op_proto(op)->attr));

    if (def->range.one_of ? tr__attr_is_in_range(attr, &def->range) : tr__attr_equal(attr, neutral))
        return TR_OK;
    tr_text given = {0};
    char   *values = tr__attr_range_text(def, neutral);
    tr__attr_print(&given, attr);
    tr_fail(TR_EUNSUPPORTED, "%s: attribute '%s' is %s, but this version supports %s: %s", op->type, attr->name,
            given.data ? given.data : "another", values, def->instead);
    tr_text_deinit(&given);
    free(values);
    return TR_EUNSUPPORTED;
}

/* -- checking --------------------------------------------------------------------------------- */

static const tr_attr_def *find_def(const tr_attr_def *defs, const char *name)
{
    for (; defs && defs->name; defs++)
        if (strcmp(defs->name, name) == 0)
            return defs;
    return NULL;
}

static tr_status fail_unknown(const tr_op *op, const char *name)
{
    const tr_attr_def *defs = tr__op_proto(op)->attr;
    tr_nearest         nearest = {.wanted = name};
    tr_text            list = {0};

    for (; defs && defs->name; defs++) {
        tr_nearest_try(&nearest, defs->name);
        tr_text_add(&list, "%s%s", list.size ? ", " : "", defs->name);
    }
    if (tr_nearest_is_close(&nearest))
        tr_fail(TR_EINVAL, "%s: there is no attribute '%s'; did you mean '%s'?", op->type, name, nearest.best);
    else
        tr_fail(TR_EINVAL, "%s: there is no attribute '%s'; it has %s", op->type, name,
                list.data ? list.data : "none");
    tr_text_deinit(&list);
    return TR_EINVAL;
}

/* Attributes of later versions of Fluid, in programs from files, that change what an operator computes, and the values that do not. Others are
 * not looked at. */
static const struct {
    const char *name;
    const char *text;                 /* of a STRING */
    double      number;
} later[] = {
    {"flatten", NULL, 0},    {"keepdims", NULL, 0},  {"padding_algorithm", "EXPLICIT", 0}, {"Scale_in", NULL, 1},
    {"Scale_out", NULL, 1},  {"Scale_x", NULL, 1},   {"Scale_y", NULL, 1},                 {"trainable_statistics", NULL, 0},
};

static bool changes_nothing(const tr_attr *attr, const char *text, double number)
{
    if (attr->type == TR_ATTR_STRING)
        return text && strcmp(attr->s, text) == 0;
    return (attr->type == TR_ATTR_FLOAT ? attr->f : (double)tr__attr_int(attr, 0)) == number;
}

static tr_status check_later(const tr_op *op, const tr_attr *attr)
{
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        const bool is_one = attr->type == TR_ATTR_STRING || attr->type == TR_ATTR_FLOAT || attr->type == TR_ATTR_BOOL || attr->type == TR_ATTR_INT;
        if (strcmp(later[i].name, attr->name) != 0 || (is_one && changes_nothing(attr, later[i].text, later[i].number)))
            continue;
        tr_text given = {0};
        tr__attr_print(&given, attr);
        tr_fail(TR_EUNSUPPORTED, "%s: attribute '%s', which a later version of Fluid has, is %s; this version does not know it", op->type, attr->name,
                given.data ? given.data : "set");
        tr_text_deinit(&given);
        return TR_EUNSUPPORTED;
    }
    return TR_OK;
}

static tr_status check_given(const tr_op *op, tr_op_desc *desc, bool lenient)
{
    const tr_attr_def *own = tr__op_proto(op)->attr;

    for (int i = 0; i < desc->attr_count; i++) {
        tr_attr           *attr = &desc->attr[i];
        const tr_attr_def *def = find_def(own, attr->name);
        if (!def)
            def = find_def(tr__common_attrs, attr->name);
        if (def) {
            TR_TRY(check_type(op, attr, def->type));
            TR_TRY(def->instead ? check_supported(op, attr, def) : check_range(op, attr, def));
        } else if (attr->name[0] != '@') {
            TR_TRY(lenient ? check_later(op, attr) : fail_unknown(op, attr->name));
        }
    }
    return TR_OK;
}

static tr_status complete(const tr_op *op, tr_op_desc *desc, bool lenient)
{
    const tr_attr_def *defs = tr__op_proto(op)->attr;

    for (int i = 0; defs && defs[i].name; i++) {
        if (tr__op_desc_attr(desc, defs[i].name))
            continue;
        if (defs[i].required)
            return tr_fail(TR_EINVAL, "%s: attribute '%s' is missing: %s (%s)", op->type, defs[i].name,
                           tr_attr_type_text(defs[i].type), defs[i].comment ? defs[i].comment : "no default");
        if (!lenient)
            tr__attr_copy(desc, tr__op_default(op, i));
    }
    if (!lenient && !tr__op_desc_attr(desc, "op_role"))
        tr_op_desc_set_int(desc, "op_role", 0, TR_ATTR_INT);
    return TR_OK;
}

tr_status tr__attrs_check(const tr_op *op, tr_op_desc *desc, bool lenient)
{
    TR_TRY(check_given(op, desc, lenient));
    return complete(op, desc, lenient);
}

/* -- decoding --------------------------------------------------------------------------------- */

/* The value has been checked, so it is one of its choices. */
static void decode(void *field, const tr_attr *attr, const tr_attr_range *range)
{
    switch (attr->type) {
    case TR_ATTR_INT:
    case TR_ATTR_BLOCK:   *(int32_t *)field = (int32_t)attr->i; break;
    case TR_ATTR_LONG:    *(int64_t *)field = attr->i; break;
    case TR_ATTR_BOOL:    *(bool *)field = attr->i != 0; break;
    case TR_ATTR_FLOAT:   *(float *)field = attr->f; break;
    case TR_ATTR_STRING:
        if (range->one_of)
            *(int32_t *)field = tr__choice_find(range->one_of, attr->s)->value;
        else
            *(const char **)field = attr->s;
        break;
    case TR_ATTR_INTS:
    case TR_ATTR_BOOLS:
    case TR_ATTR_BLOCKS:  *(tr_ints *)field = (tr_ints){attr->count, attr->ints}; break;
    case TR_ATTR_LONGS:   *(tr_longs *)field = (tr_longs){attr->count, attr->longs}; break;
    case TR_ATTR_FLOATS:  *(tr_floats *)field = (tr_floats){attr->count, attr->floats}; break;
    case TR_ATTR_STRINGS:
        *(tr_strings *)field = (tr_strings){attr->count, (const char *const *)attr->strings};
        break;
    default:
        break;
    }
}

tr_status tr__attrs_decode(void *out, const tr_op *op, const tr_op_desc *desc)
{
    const tr_attr_def *defs = tr__op_proto(op)->attr;

    for (int i = 0; defs && defs[i].name; i++) {
        const tr_attr *attr = tr__op_desc_attr(desc, defs[i].name);
        if (defs[i].offset == TR_NO_FIELD)
            continue;
        if (!attr)
            attr = tr__op_default(op, i);
        if (!attr || attr->type != defs[i].type || !tr__attr_is_in_range(attr, &defs[i].range))
            return tr_fail(TR_EINTERNAL, "%s: attribute '%s' was not checked before it was decoded", op->type,
                           defs[i].name);
        decode((char *)out + defs[i].offset, attr, &defs[i].range);
    }
    return TR_OK;
}
