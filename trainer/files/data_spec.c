/* data_spec.c - see data_spec.h. */
#include "trainer/files/data_spec.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"
#include "framework/base/number.h"
#include "framework/tensors/dtype.h"

int64_t tr__slot_width(const tr_data_slot *slot)
{
    int64_t width = 1;

    for (int i = 1; i < slot->rank; i++)
        width *= slot->dims[i];
    return width;
}

/* == checks ================================================================================= */

static const char *slot_name(const tr_data_slot *slot)
{
    return slot->name ? slot->name : "(dropped)";
}

static tr_status check_dims(const tr_data_slot *slot)
{
    int64_t width = 1;

    if (slot->rank < 1 || slot->rank > TR_MAX_RANK)
        return tr_fail(TR_ESHAPE, "data: slot '%s' has %d dimensions; the first is the batch, at most %d are possible",
                       slot_name(slot), slot->rank, TR_MAX_RANK);
    if (slot->dims[0] != -1)
        return tr_fail(TR_ESHAPE, "data: slot '%s' has %lld as its first dimension, which is the batch: -1 is possible",
                       slot_name(slot), (long long)slot->dims[0]);
    for (int i = 1; i < slot->rank; i++)
        if (slot->dims[i] < 1 || __builtin_mul_overflow(width, slot->dims[i], &width) || width > INT32_MAX)
            return tr_fail(TR_ESHAPE, "data: slot '%s' has %lld as dimension %d; all but the first must be known, and a "
                           "row has at most 2^31 - 1 elements", slot_name(slot), (long long)slot->dims[i], i);
    return TR_OK;
}

static tr_status check_slot(const tr_data_spec *spec, const tr_data_slot *slot)
{
    if (!slot->name && spec->format != TR_DATA_MULTISLOT)
        return tr_fail(TR_EINVAL, "data: a slot has no name; only multislot lines have slots to drop");
    if (slot->dtype != TR_INT64 && slot->dtype != TR_FP32 && slot->dtype != TR_FP64)
        return tr_fail(TR_EDTYPE, "data: slot '%s' is %s; int64, float32 and float64 are possible", slot_name(slot),
                       tr_dtype_name(slot->dtype));
    if (slot->lod_level < 0 || slot->lod_level > 1)
        return tr_fail(TR_EUNSUPPORTED, "data: slot '%s' has lod_level %d; a line holds one sequence at most: 0 or 1",
                       slot_name(slot), slot->lod_level);
    if (slot->hash_buckets < 0 || (slot->hash_buckets && slot->dtype != TR_INT64))
        return tr_fail(TR_EINVAL, "data: slot '%s' is %s with %lld hash buckets; hashed fields are int64, buckets above 0",
                       slot_name(slot), tr_dtype_name(slot->dtype), (long long)slot->hash_buckets);
    if (slot->has_missing && !tr_dtype_holds(slot->dtype, slot->missing))
        return tr_fail(TR_ERANGE, "data: slot '%s' is %s with %.17g for missing values; %s is possible", slot_name(slot),
                       tr_dtype_name(slot->dtype), slot->missing,
                       slot->dtype == TR_INT64 ? "a whole number" : "a finite number");
    return check_dims(slot);
}

static tr_status check(const tr_data_spec *spec)
{
    if ((unsigned)spec->format >= TR_DATA_FORMAT_COUNT || (unsigned)spec->split >= TR_SPLIT_COUNT)
        return tr_fail(TR_EINVAL, "data: there is no format %d, or no split %d", (int)spec->format, (int)spec->split);
    if (spec->format == TR_DATA_TABLE && (!spec->reader.open || !spec->reader.next || !spec->reader.close))
        return tr_fail(TR_EUNSUPPORTED, "data: Parquet and Arrow files are read with Python's pyarrow, in a script; a program without "
                       "Python reads text: multislot, csv or libsvm");
    if (spec->format == TR_DATA_TABLE && spec->pipe_command)
        return tr_fail(TR_EINVAL, "data: pipe_command is '%s'; a command writes lines, and Parquet and Arrow files have none",
                       spec->pipe_command);
    if (spec->slot_count < 1)
        return tr_fail(TR_EINVAL, "data: there is no slot: say which variables are fed");
    for (int i = 0; i < spec->slot_count; i++) {
        TR_TRY(check_slot(spec, &spec->slots[i]));
        for (int j = 0; j < i && spec->slots[i].name; j++)
            if (spec->slots[j].name && !strcmp(spec->slots[i].name, spec->slots[j].name))
                return tr_fail(TR_EEXIST, "data: two slots are named '%s'", spec->slots[i].name);
    }
    if (spec->batch_size < 0 || spec->batch_size > INT32_MAX)
        return tr_fail(TR_ERANGE, "data: batch_size is %lld; at least 1 is possible", (long long)spec->batch_size);
    if (spec->threads < 0 || spec->threads > 256)
        return tr_fail(TR_ERANGE, "data: %d threads; 1 to 256 are possible", spec->threads);
    if (spec->block_bytes < 0 || spec->block_bytes > 1 << 28 || spec->task_bytes < 0)
        return tr_fail(TR_ERANGE, "data: blocks of %lld bytes, tasks of %lld; blocks of up to 2^28 are possible",
                       (long long)spec->block_bytes, (long long)spec->task_bytes);
    return TR_OK;
}

/* == copying ================================================================================ */

static char *copy_text(const char *text)
{
    return text ? tr__must_strdup(text) : NULL;
}

static const char *const *copy_texts(int count, const char *const *texts)
{
    char **out = tr__must_alloc((size_t)count * sizeof *out);

    for (int i = 0; i < count; i++)
        out[i] = copy_text(texts[i]);
    return (const char *const *)out;
}

static void free_texts(int count, const char *const *texts)
{
    for (int i = 0; texts && i < count; i++)
        free((void *)(uintptr_t)texts[i]);
    free((void *)(uintptr_t)texts);
}

static tr_data_slot copy_slot(const tr_data_slot *from)
{
    tr_data_slot slot = *from;

    slot.name = copy_text(from->name);
    slot.dims = (int64_t *)(void *)tr__must_copy(from->dims, (size_t)from->rank * sizeof *from->dims);
    slot.columns = copy_texts(from->column_count, from->columns);
    return slot;
}

tr_status tr__data_spec_copy(tr_data_spec *out, const tr_data_spec *from)
{
    TR_TRY(check(from));
    *out = *from;
    tr_data_slot *slots = tr__must_alloc((size_t)from->slot_count * sizeof *slots);
    for (int i = 0; i < from->slot_count; i++)
        slots[i] = copy_slot(&from->slots[i]);
    out->slots = slots;
    out->files = copy_texts(from->file_count, from->files);
    out->columns = copy_texts(from->column_count, from->columns);
    out->pipe_command = copy_text(from->pipe_command);
    out->batch_size = from->batch_size ? from->batch_size : 1;
    out->threads = from->threads ? from->threads : 1;
    out->block_bytes = from->block_bytes ? from->block_bytes : 1 << 20;
    out->task_bytes = from->task_bytes ? from->task_bytes : 64 << 20;
    out->delimiter = from->delimiter ? from->delimiter : ',';
    return TR_OK;
}

void tr__data_spec_deinit(tr_data_spec *spec)
{
    for (int i = 0; spec->slots && i < spec->slot_count; i++) {
        free((void *)(uintptr_t)spec->slots[i].name);
        free((void *)(uintptr_t)spec->slots[i].dims);
        free_texts(spec->slots[i].column_count, spec->slots[i].columns);
    }
    free((void *)(uintptr_t)spec->slots);
    free_texts(spec->file_count, spec->files);
    free_texts(spec->column_count, spec->columns);
    free((void *)(uintptr_t)spec->pipe_command);
    *spec = (tr_data_spec){0};
}
