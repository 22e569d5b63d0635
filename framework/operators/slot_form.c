/* slot_form.c - see slot_form.h.
 *
 * A form is read each time: it is a dozen letters, and most shapes are inferred once. Names are collected from all inputs first, so that
 * [rows, 4 m] is checked even where the slot with the m comes later. */
#include "framework/operators/slot_form.h"

#include <inttypes.h>
#include <string.h>

#include "framework/base/size.h"

enum { NAMES_MAX = 16 };

/* Extents of the names, for one operator. */
typedef struct extents {
    int count;
    struct { const char *name; size_t length; int64_t extent; const tr_meta *from; /* NULL: several */ } item[NAMES_MAX];
} extents;

/* One dimension of a form: `number` alone, or so many times the named extent; -1: any. */
typedef struct form_dim {
    int64_t     number;
    const char *name;
    size_t      length;
} form_dim;

typedef struct form {
    int      count;
    int      rest;                    /* the place of "..." before dimension `rest`; -1: there is none */
    form_dim dim[TR_MAX_RANK];
} form;

static int find_input(const tr_op_proto *proto, const char *name)
{
    for (int s = 0; proto->in && proto->in[s].name; s++)
        if (strcmp(proto->in[s].name, name) == 0)
            return s;
    return -1;
}

/* -- reading ------------------------------------------------------------------------------------ */

static form_dim read_dim(const char *at, size_t length)
{
    const char *const first = at, *const end = at + length;
    int64_t           number = 0;

    if (*at == '?')
        return (form_dim){.number = -1};
    for (; at < end && *at >= '0' && *at <= '9'; at++)
        number = 10 * number + (*at - '0');
    const bool has_number = at > first;
    at += has_number && *at == ' ';
    return (form_dim){has_number ? number : 1, at < end ? at : NULL, (size_t)(end - at)};
}

/* Read one alternative, which begins with "["; returns what comes behind it. */
static const char *read_form(form *out, const char *text)
{
    out->count = 0;
    out->rest = -1;
    do {
        text += *text == '[' ? 1 : 2;     /* "[" or ", " */
        const size_t length = strcspn(text, ",]");
        if (strncmp(text, "...", 3) == 0)
            out->rest = out->count;
        else if (out->count < TR_MAX_RANK)
            out->dim[out->count++] = read_dim(text, length);
        text += length;
    } while (*text == ',');
    return *text == ']' ? text + 1 : text;
}

/* The next alternative of `*text`; false: there is none. */
static bool next_form(form *out, const char **text)
{
    if (!*text || (*text)[0] != '[')
        return false;
    *text = read_form(out, *text);
    *text = strncmp(*text, " or ", 4) == 0 ? *text + 4 : NULL;
    return true;
}

static bool has_rank(const form *f, int rank)
{
    return f->rest < 0 ? rank == f->count : rank >= f->count;
}

/* The dimension of a shape of `rank` that number `d` of the form stands for. */
static int place_of(const form *f, int d, int rank)
{
    return f->rest >= 0 && d >= f->rest ? rank - f->count + d : d;
}

/* -- names --------------------------------------------------------------------------------------- */

static int find_name(const extents *names, const form_dim *dim)
{
    int i = 0;

    while (i < names->count && (names->item[i].length != dim->length || memcmp(names->item[i].name, dim->name, dim->length) != 0))
        i++;
    return i < names->count ? i : -1;
}

/* What arguments say of the name, more of them than `apart`; -1: nothing. */
static int64_t extent_of(const extents *names, const form_dim *dim, const tr_meta *apart)
{
    const int i = find_name(names, dim);

    return i < 0 || (apart && names->item[i].from == apart) ? -1 : names->item[i].extent;
}

static void note_extent(extents *names, const form_dim *dim, int64_t extent, const tr_meta *from)
{
    const int i = dim->name && dim->number == 1 && extent >= 0 ? find_name(names, dim) : NAMES_MAX;

    if (i >= 0 && i < NAMES_MAX && names->item[i].from != from)
        names->item[i].from = NULL;
    if (i >= 0 || names->count == NAMES_MAX)
        return;
    names->item[names->count].name = dim->name;
    names->item[names->count].length = dim->length;
    names->item[names->count].from = from;
    names->item[names->count++].extent = extent;
}

/* The rows of selected rows are not the extent of a dimension. */
static bool is_extent(const tr_meta *meta, int d)
{
    return d > 0 || meta->kind != TR_KIND_SELECTED_ROWS;
}

static void note_extents(extents *names, const char *text, const tr_meta *meta)
{
    for (form f; next_form(&f, &text); )
        for (int d = 0; has_rank(&f, meta->shape.rank) && d < f.count; d++) {
            const int place = place_of(&f, d, meta->shape.rank);
            if (is_extent(meta, place))
                note_extent(names, &f.dim[d], meta->shape.dim[place], meta);
        }
}

/* The form as a shape of `rank`, which it has, without the names that only `apart` has. */
static tr_shape shape_of(const form *f, int rank, const extents *names, const tr_meta *apart)
{
    tr_shape shape;

    shape.rank = rank;
    for (int d = 0; d < rank; d++)
        shape.dim[d] = -1;
    for (int d = 0; d < f->count; d++) {
        const form_dim *dim = &f->dim[d];
        const int64_t   extent = dim->name ? extent_of(names, dim, apart) : 1;
        shape.dim[place_of(f, d, rank)] = extent < 0 || dim->number < 0 ? -1 : tr_size_mul(dim->number, extent);
    }
    return shape;
}

/* -- types ---------------------------------------------------------------------------------------- */

static const struct { unsigned flags; tr_dtype type; } slot_types[] = {
    {TR_SLOT_INT64, TR_INT64}, {TR_SLOT_INT32, TR_INT32}, {TR_SLOT_BOOL, TR_BOOL}, {TR_SLOT_UINT8, TR_UINT8},
    {TR_SLOT_FP32, TR_FP32}, {TR_SLOT_FP64, TR_FP64},
};
enum { SLOT_TYPES = sizeof slot_types / sizeof *slot_types };

/* The slot's own type, of several the first; NONE: it says nothing. */
static tr_dtype slot_type(const tr_slot_def *slot)
{
    for (int i = 0; i < SLOT_TYPES; i++)
        if ((slot->flags & slot_types[i].flags) == slot_types[i].flags)
            return slot_types[i].type;
    return TR_DTYPE_NONE;
}

static bool takes_type(const tr_slot_def *slot, tr_dtype type)
{
    for (int i = 0; i < SLOT_TYPES; i++)
        if (slot_types[i].type == type && (slot->flags & slot_types[i].flags) == slot_types[i].flags)
            return true;
    return false;
}

static tr_dtype type_or(const tr_slot_def *slot, tr_dtype otherwise)
{
    const tr_dtype own = slot_type(slot);

    return own == TR_DTYPE_NONE ? otherwise : own;
}

/* -- inputs --------------------------------------------------------------------------------------- */

/* Of selected rows the shape of the whole counts. */
static tr_status check_like(const tr_infer_frame *frame, const tr_slot_def *slot, const tr_meta *meta, int like)
{
    const tr_meta *other = &frame->first[like];
    const bool     is_rows = meta->kind == TR_KIND_SELECTED_ROWS && meta->shape.rank > 0;
    tr_shape       whole = meta->shape;

    if (is_rows)
        whole.dim[0] = meta->height;
    if (!tr__meta_is_there(other) || tr_shape_fits(&whole, &other->shape))
        return TR_OK;
    return tr_fail(TR_ESHAPE, "%s: %s is %s%s, but %s is %s; they must be alike", frame->io.type, slot->name, is_rows ? "rows of " : "",
                   TR_SHAPE_STR(whole), frame->proto->in[like].name, TR_SHAPE_STR(other->shape));
}

/* A rank that no alternative has is named where there is one alternative; of several the last is shown. */
static tr_status check_form(const tr_infer_frame *frame, const tr_slot_def *slot, const tr_meta *meta, const extents *names)
{
    const int   rank = meta->shape.rank;
    const char *text = slot->form;
    tr_shape    expected = {.rank = 0};
    int         count = 0;
    form        f;

    for (bool is_found = false; !is_found && next_form(&f, &text); count++) {
        is_found = has_rank(&f, rank);
        expected = shape_of(&f, is_found ? rank : f.count, names, meta);
        if (is_found && !is_extent(meta, 0))
            expected.dim[0] = -1;
    }
    if (count == 1 && !has_rank(&f, rank))
        return tr_fail(TR_ESHAPE, "%s: %s must have rank %d%s, got %s", frame->io.type, slot->name, f.count, f.rest < 0 ? "" : " or more",
                       TR_SHAPE_STR(meta->shape));
    if (count > 0 && !tr_shape_fits(&meta->shape, &expected))
        return tr_fail(TR_ESHAPE, "%s: %s must be %s, got %s", frame->io.type, slot->name, TR_SHAPE_STR(expected), TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

static tr_status check_one(const tr_infer_frame *frame, const tr_slot_def *slot, const tr_meta *meta)
{
    const int64_t count = tr_shape_numel(&meta->shape);

    if (count != 1 && count != -1)
        return tr_fail(TR_ESHAPE, "%s: %s must hold one element, got %s", frame->io.type, slot->name, TR_SHAPE_STR(meta->shape));
    return TR_OK;
}

static tr_status check_argument(const tr_infer_frame *frame, const tr_slot_def *slot, const tr_meta *meta, const extents *names)
{
    const tr_dtype wanted = slot_type(slot);

    if (wanted != TR_DTYPE_NONE && meta->kind == TR_KIND_TENSOR && meta->dtype != TR_DTYPE_NONE && !takes_type(slot, meta->dtype))
        return tr_fail(TR_EDTYPE, "%s: %s must be %s, got %s", frame->io.type, slot->name, tr_dtype_name(wanted), tr_dtype_name(meta->dtype));
    if (!slot->form)
        return TR_OK;
    if (strcmp(slot->form, "[1]") == 0)
        return check_one(frame, slot, meta);
    const int like = tr__form_like(frame->proto, slot);
    return like >= 0 ? check_like(frame, slot, meta, like) : check_form(frame, slot, meta, names);
}

static tr_status check_inputs(const tr_infer_frame *frame, extents *names)
{
    for (int s = 0; s < frame->in_slots; s++)
        for (int i = 0; i < frame->list[s].count; i++)
            if (frame->proto->in[s].form && tr__meta_is_there(&frame->list[s].item[i]))
                note_extents(names, frame->proto->in[s].form, &frame->list[s].item[i]);
    for (int s = 0; s < frame->in_slots; s++)
        for (int i = 0; i < frame->list[s].count; i++)
            if (tr__meta_is_there(&frame->list[s].item[i]))
                TR_TRY(check_argument(frame, &frame->proto->in[s], &frame->list[s].item[i], names));
    return TR_OK;
}

/* -- axes ------------------------------------------------------------------------------------------- */

static tr_status check_axes(const tr_infer_frame *frame)
{
    for (const tr_attr_def *def = frame->proto->attr; def && def->name; def++) {
        const int input = def->axis_of ? find_input(frame->proto, def->axis_of) : -1;
        if (input < 0)                    /* a gradient operator need not read it */
            continue;
        const int     rank = frame->first[input].shape.rank;
        const char   *value = (const char *)frame->io.attrs + def->offset;
        const int64_t axis = def->type == TR_ATTR_LONG ? *(const int64_t *)value : *(const int32_t *)value;
        if (axis < -rank || axis >= rank)
            return tr_fail(TR_ERANGE, "%s: %s is %" PRId64 "; for a tensor of rank %d it must be in [%d, %d]", frame->io.type, def->name, axis,
                           rank, -rank, rank - 1);
    }
    return TR_OK;
}

/* -- outputs --------------------------------------------------------------------------------------- */

static tr_meta output_of(const tr_infer_frame *frame, const tr_slot_def *slot, tr_dtype type, const extents *names)
{
    const int   like = tr__form_like(frame->proto, slot);
    const char *text = slot->form;
    tr_meta     meta;
    form        f;

    if (like >= 0) {
        meta = frame->first[like];
        meta.dtype = type_or(slot, meta.dtype);
        return meta;
    }
    next_form(&f, &text);
    return tr_meta_dense(type_or(slot, type), shape_of(&f, f.count, names, NULL));
}

tr_status tr__forms_apply(const tr_infer_frame *frame, tr_dtype type)
{
    extents names;

    names.count = 0;
    TR_TRY(check_inputs(frame, &names));
    TR_TRY(check_axes(frame));
    for (int k = 0; k < frame->out_slots; k++) {
        const tr_slot_def *slot = &frame->proto->out[k];
        if (!slot->form)
            continue;
        frame->io.out[k] = output_of(frame, slot, type, &names);
        for (int i = 0; i < frame->io.outs[k].count; i++)
            frame->io.outs[k].item[i] = frame->io.out[k];
    }
    return TR_OK;
}

int tr__form_like(const tr_op_proto *proto, const tr_slot_def *def)
{
    return def->form && strncmp(def->form, "like ", 5) == 0 ? find_input(proto, def->form + 5) : -1;
}
