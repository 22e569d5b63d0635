/* own_values.c - see own_values.h. */
#include "storage/checkpoint/own_values.h"

#include "framework/base/memory.h"
#include "framework/base/status.h"
#include "storage/trireme_checkpoint.h"

#include <stdlib.h>

char *tr_own_value_name(const char *name, int trainer)
{
    return tr__must_format("%s@TRAINER@%d", name, trainer);
}

static int find(const tr_checkpoint *c, const char *name, int trainer)
{
    char     *own = tr_own_value_name(name, trainer);
    const int index = tr_checkpoint_find(c, own);

    free(own);
    return index;
}

/* Trainers are numbered without a gap. */
static int count_of(const tr_checkpoint *c, const char *name)
{
    int count = 0;

    while (find(c, name, count) >= 0)
        count++;
    return count;
}

int tr_checkpoint_find_own(const tr_checkpoint *c, const char *name, int trainer)
{
    const int own = find(c, name, trainer);

    if (own >= 0)
        return own;
    const int first = find(c, name, 0);
    return first >= 0 ? first : tr_checkpoint_find(c, name);
}

static tr_status read_all(const tr_checkpoint *c, int index, void *data, int64_t bytes)
{
    tr_checkpoint_item array;

    tr_checkpoint_array(&array, c, index);
    return tr_checkpoint_read(c, index, 0, array.rank ? array.dims[0] : 1, data, bytes);
}

/* sum += one, or with `last` the mean of `last` of them. */
static void add_f32(float *sum, const float *one, int64_t count, float last)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] = last ? (sum[i] + one[i]) / last : sum[i] + one[i];
}

static void add_f64(double *sum, const double *one, int64_t count, double last)
{
    for (int64_t i = 0; i < count; i++)
        sum[i] = last ? (sum[i] + one[i]) / last : sum[i] + one[i];
}

/* What waits at all trainers counts as the mean of them: so nothing is lost where each of another number of trainers begins with it. */
static tr_status read_mean(const tr_checkpoint *c, const char *name, int trainers, tr_dtype dtype, void *data, int64_t bytes)
{
    tr_status status = read_all(c, find(c, name, 0), data, bytes);
    void     *one = tr__must_bytes((size_t)bytes + 1);

    for (int i = 1; i < trainers && status == TR_OK; i++) {
        const int last = i + 1 == trainers ? trainers : 0;
        status = read_all(c, find(c, name, i), one, bytes);
        if (status == TR_OK && dtype == TR_FP32)
            add_f32(data, one, bytes / 4, (float)last);
        else if (status == TR_OK)
            add_f64(data, one, bytes / 8, last);
    }
    free(one);
    return status;
}

tr_status tr_checkpoint_read_own(const tr_checkpoint *c, const char *name, int trainer, int trainers, void *data, int64_t bytes)
{
    const int          there = count_of(c, name), index = tr_checkpoint_find_own(c, name, trainer);
    tr_checkpoint_item array;

    if (index < 0)
        return tr_fail(TR_ENOTFOUND, "the checkpoint '%s' has no '%s'", tr_checkpoint_folder(c), name);
    tr_checkpoint_array(&array, c, index);
    const bool is_number = array.dtype == TR_FP32 || array.dtype == TR_FP64;
    if (there == 0 || there == trainers || !is_number)
        return read_all(c, index, data, bytes);
    return read_mean(c, name, there, array.dtype, data, bytes);
}
