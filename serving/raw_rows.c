/* raw_rows.c - rows of raw values become feeds: slot by slot, value by value.
 *
 * The rules are those of the reader of the training's data (trainer/formats/parse_csv.c, parse_table.c), with the same functions for ids
 * and for numbers, so that a row that is served is fed as it was trained on. tests/python/test_raw_rows.py compares both. */
#include "serving/raw_rows.h"

#include "framework/base/compiler.h"
#include "framework/base/memory.h"
#include "framework/base/name.h"
#include "framework/base/number.h"
#include "framework/base/text_id.h"
#include "framework/tensors/dtype.h"
#include "storage/util/little_endian.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The memory of one feed. */
typedef struct feed_memory {
    char          *data;
    size_t         data_bytes;
    int64_t       *offset;            /* of a sequence */
    size_t         offset_bytes;
    const int64_t *level;             /* `offset` */
    int64_t        offset_count;
    int64_t        dims[TR_MAX_RANK];
} feed_memory;

struct tr_raw_rows {
    const tr_raw_slots *slots;        /* the predictor's, which may be freed before the rows are */
    int                 count;        /* of the slots */
    feed_memory        *part;
    tr_feed            *feed;
    bool                is_filled;
};

/* == life =================================================================================== */

/* What stays the same in each fill. */
static void init_feed(tr_feed *feed, feed_memory *part, const tr_raw_slot *slot)
{
    memcpy(part->dims, slot->dims, sizeof part->dims);
    *feed = (tr_feed){.name = slot->name, .dtype = slot->dtype, .rank = slot->rank, .dims = part->dims};
    if (slot->lod_level) {
        feed->lod_levels = 1;
        feed->lod_counts = &part->offset_count;
        feed->lod_offsets = &part->level;
    }
}

tr_status tr__raw_rows_new(tr_raw_rows **out, const tr_raw_slots *slots, const char *folder)
{
    if (!slots)
        return tr_fail(TR_EUNSUPPORTED, "the model in '%s' was saved without slots, so it takes no raw rows: save it with slots=, as in "
                       "save_inference_model(..., slots=dataset) or Exporter(..., slots=dataset); or feed it numbers", folder);
    tr_raw_rows *rows = tr__must_alloc(sizeof *rows);
    rows->slots = slots;
    rows->count = slots->count;
    rows->part = tr__must_array((size_t)slots->count, sizeof *rows->part);
    rows->feed = tr__must_array((size_t)slots->count, sizeof *rows->feed);
    for (int i = 0; i < slots->count; i++)
        init_feed(&rows->feed[i], &rows->part[i], &slots->slot[i]);
    *out = rows;
    return TR_OK;
}

void tr_raw_rows_free(tr_raw_rows *rows)
{
    if (!rows)
        return;
    for (int i = 0; i < rows->count; i++) {
        free(rows->part[i].data);
        free(rows->part[i].offset);
    }
    free(rows->part);
    free(rows->feed);
    free(rows);
}

const tr_feed *tr_raw_rows_feeds(const tr_raw_rows *rows)
{
    return rows->is_filled ? rows->feed : NULL;
}

/* == one value ============================================================================== */

static bool is_null(const tr_raw_values *from, int64_t at)
{
    return (from->is_null && from->is_null[at]) || (from->kind == TR_RAW_NUMBERS && isnan(from->numbers[at]));
}

/* An id. A null is the empty text, as an empty field is. */
static bool put_id(const tr_raw_slot *slot, int64_t *to, const tr_raw_values *from, int64_t at)
{
    char        digits[24];
    tr_raw_text text = {.bytes = ""};

    if (!is_null(from, at)) {
        if (from->kind == TR_RAW_NUMBERS)
            return false;
        text = from->kind == TR_RAW_TEXTS ? from->texts[at]
                                          : (tr_raw_text){digits, snprintf(digits, sizeof digits, "%" PRId64, from->ints[at])};
    }
    if (TR_UNLIKELY(tr__utf8_mistake(text.bytes, text.size) >= 0))
        return false;
    *to = tr_text_id(text.bytes, (size_t)text.size, slot->hash_buckets);
    return true;
}

/* False: the slot does not take this value. */
static bool put(const tr_raw_slot *slot, void *to, const tr_raw_values *from, int64_t at)
{
    if (slot->hash_buckets)
        return put_id(slot, to, from, at);
    if (TR_UNLIKELY(is_null(from, at)))
        return slot->has_missing && tr_dtype_put(slot->dtype, to, slot->missing);
    if (from->kind == TR_RAW_INTS && slot->dtype == TR_INT64) {
        *(int64_t *)to = from->ints[at];
        return true;
    }
    if (from->kind == TR_RAW_INTS)
        return tr_dtype_put(slot->dtype, to, (double)from->ints[at]);
    return from->kind == TR_RAW_NUMBERS && slot->dtype != TR_INT64 && tr_dtype_put(slot->dtype, to, from->numbers[at]);
}

/* == mistakes =============================================================================== */

enum { TEXT_ROOM = TR_NAME_SHOWN + 80 };

/* "row 3 (from 0), "; "" where there is one row. */
static const char *show_row(char *room, int64_t row, int64_t rows)
{
    *room = '\0';
    if (rows > 1)
        snprintf(room, TEXT_ROOM, "row %" PRId64 " (from 0), ", row);
    return room;
}

static const char *show_value(char *room, const tr_raw_values *from, int64_t at)
{
    char text[TR_NAME_SHOWN];

    if (is_null(from, at))
        return "null";
    if (from->kind == TR_RAW_INTS) {
        snprintf(room, TEXT_ROOM, "%" PRId64, from->ints[at]);
    } else if (from->kind == TR_RAW_NUMBERS) {
        const int used = tr__format(room, TEXT_ROOM, "%.15g", from->numbers[at]);
        if (strspn(room, "-0123456789") == (size_t)used)
            strcpy(room + used, ".0");                     /* a float is no integer */
    } else {
        const tr_raw_text *one = &from->texts[at];
        const int64_t      wrong = tr__utf8_mistake(one->bytes, one->size);
        const int          used = snprintf(room, TEXT_ROOM, "'%s'", tr__name_show(text, one->bytes, (size_t)one->size));
        if (wrong >= 0)
            snprintf(room + used, (size_t)(TEXT_ROOM - used), ", of which byte %" PRId64 " (from 0) is no UTF-8", wrong);
    }
    return room;
}

static tr_status refuse_value(const tr_raw_slot *slot, const tr_raw_values *from, int64_t at, int64_t rows)
{
    char       where[TEXT_ROOM], got[TEXT_ROOM];
    const bool lacks = is_null(from, at) && !slot->has_missing && !slot->hash_buckets;
    int64_t    row = slot->lod_level ? 0 : at / slot->width;

    while (slot->lod_level && from->offsets[row + 1] <= at)
        row++;
    return tr_fail(TR_EINVAL, "%sslot '%s': expected %s%s, got %s", show_row(where, row, rows), slot->name, slot->expected,
                   lacks ? " (the slot says no `missing=` value)" : "", show_value(got, from, at));
}

/* == one slot =============================================================================== */

/* How many values a sequence has in all rows; each row has whole elements. */
static tr_status count_elements(int64_t *total, const tr_raw_slot *slot, const tr_raw_values *from, int64_t rows)
{
    char where[TEXT_ROOM];

    if (!from->offsets || from->offsets[0] != 0)
        return tr_fail(TR_EINVAL, "slot '%s' is a sequence: there must be offsets, of which the first is 0", slot->name);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t begin = from->offsets[i], end = from->offsets[i + 1];
        if (end < begin)
            return tr_fail(TR_EINVAL, "slot '%s': the offsets fall from %" PRId64 " to %" PRId64 " at row %" PRId64, slot->name, begin,
                           end, i);
        if ((end - begin) % slot->width)
            return tr_fail(TR_EINVAL, "%sslot '%s': expected a multiple of %" PRId64 " values, got %" PRId64, show_row(where, i, rows),
                           slot->name, slot->width, end - begin);
    }
    *total = from->offsets[rows];
    return TR_OK;
}

/* Memory of at least so many bytes. It need not keep what it has. False: there is none. */
static bool reserve(void *memory, size_t *has, size_t bytes)
{
    void **out = memory;

    if (bytes <= *has)
        return true;
    free(*out);
    *out = malloc(bytes);
    *has = *out ? bytes : 0;
    return *out != NULL;
}

static tr_status make_room(feed_memory *part, const tr_raw_slot *slot, int64_t total, int64_t rows)
{
    int64_t bytes;

    if (!__builtin_mul_overflow(total + 1, tr_dtype_size(slot->dtype), &bytes) &&       /* never NULL, not even for no values */
        reserve(&part->data, &part->data_bytes, (size_t)bytes) &&
        (!slot->lod_level || reserve(&part->offset, &part->offset_bytes, (size_t)(rows + 1) * sizeof *part->offset)))
        return TR_OK;
    return tr_fail(TR_ENOMEM, "no memory for %" PRId64 " values of slot '%s'", total, slot->name);
}

static tr_status fill_slot(feed_memory *part, tr_feed *feed, const tr_raw_slot *slot, const tr_raw_values *from, int64_t rows)
{
    const int64_t size = tr_dtype_size(slot->dtype);
    int64_t       total;

    if (slot->lod_level)
        TR_TRY(count_elements(&total, slot, from, rows));
    else if (from->offsets)
        return tr_fail(TR_EINVAL, "slot '%s' is no sequence: a row has %" PRId64 " values, and there are no offsets", slot->name,
                       slot->width);
    else if (__builtin_mul_overflow(rows, slot->width, &total))
        return tr_fail(TR_ENOMEM, "no memory for %" PRId64 " rows of slot '%s'", rows, slot->name);
    TR_TRY(make_room(part, slot, total, rows));
    for (int64_t i = 0; i < total; i++)
        if (TR_UNLIKELY(!put(slot, part->data + i * size, from, i)))
            return refuse_value(slot, from, i, rows);
    for (int64_t i = 0; slot->lod_level && i <= rows; i++)
        part->offset[i] = from->offsets[i] / slot->width;
    part->level = part->offset;
    part->offset_count = rows + 1;
    part->dims[0] = total / slot->width;
    feed->data = part->data;
    return TR_OK;
}

/* == all slots ============================================================================== */

/* The values of a slot; `guess` is where they may be. NULL: there are none. */
static const tr_raw_values *find(const char *slot, int guess, int count, const tr_raw_values *values)
{
    if (guess < count && strcmp(values[guess].slot, slot) == 0)
        return &values[guess];
    for (int i = 0; i < count; i++)
        if (strcmp(values[i].slot, slot) == 0)
            return &values[i];
    return NULL;
}

static bool is_slot(const tr_raw_slots *slots, const char *name)
{
    for (int i = 0; i < slots->count; i++)
        if (strcmp(slots->slot[i].name, name) == 0)
            return true;
    return false;
}

/* There are other values than one for each slot: say which. */
static tr_status refuse_names(const tr_raw_slots *slots, int count, const tr_raw_values *values)
{
    for (int i = 0; i < count; i++) {
        if (!is_slot(slots, values[i].slot))
            return tr_fail(TR_ENOTFOUND, "the model has no slot '%s'", values[i].slot);
        if (find(values[i].slot, i, i, values))
            return tr_fail(TR_EEXIST, "the values of slot '%s' are there twice", values[i].slot);
    }
    for (int i = 0; i < slots->count; i++)
        if (!find(slots->slot[i].name, i, count, values))
            return tr_fail(TR_ENOTFOUND, "slot '%s' has no values", slots->slot[i].name);
    return TR_OK;
}

tr_status tr_raw_rows_fill(tr_raw_rows *rows, int64_t count, int value_count, const tr_raw_values *values)
{
    const tr_raw_slots *slots = rows->slots;

    rows->is_filled = false;
    if (count < 0 || count > INT32_MAX)
        return tr_fail(TR_ERANGE, "%" PRId64 " rows; 0 to 2^31 - 1 are possible", count);
    if (value_count != slots->count)
        TR_TRY(refuse_names(slots, value_count, values));
    for (int i = 0; i < slots->count; i++) {
        const tr_raw_values *from = find(slots->slot[i].name, i, value_count, values);
        if (!from)
            return refuse_names(slots, value_count, values);
        if ((unsigned)from->kind >= TR_RAW_KIND_COUNT)
            return tr_fail(TR_EINVAL, "slot '%s': there is no kind %d of values", from->slot, (int)from->kind);
        TR_TRY(fill_slot(&rows->part[i], &rows->feed[i], &slots->slot[i], from, count));
    }
    rows->is_filled = true;
    return TR_OK;
}

/* == texts of the network =================================================================== */

tr_status tr_raw_ids(int64_t *ids, int64_t count, int64_t buckets, const void *bytes, int64_t size)
{
    enum { HEAD = 4 };
    const uint8_t *at = bytes, *const end = at + size;

    for (int64_t i = 0; i < count; i++) {
        if (end - at < HEAD)
            return tr_fail(TR_EINVAL, "text %" PRId64 " of %" PRId64 " (from 0) has no size: the %" PRId64 " bytes have ended", i, count,
                           size);
        const uint32_t length = tr_get_u32(at);
        at += HEAD;
        if (length > end - at)
            return tr_fail(TR_EINVAL, "text %" PRId64 " of %" PRId64 " (from 0) says that it has %u bytes, and %td are left", i, count,
                           length, end - at);
        if (tr__utf8_mistake((const char *)at, length) >= 0)
            return tr_fail(TR_EINVAL, "text %" PRId64 " of %" PRId64 " (from 0): expected UTF-8, and byte %" PRId64 " is none", i, count,
                           tr__utf8_mistake((const char *)at, length));
        ids[i] = tr_text_id((const char *)at, length, buckets);
        at += length;
    }
    return at == end ? TR_OK : tr_fail(TR_EINVAL, "%" PRId64 " texts take %td bytes, %" PRId64 " came", count, size - (end - at), size);
}
