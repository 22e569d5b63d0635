/* lod.c - see lod.h. */
#include "framework/tensors/lod.h"

#include <stdlib.h>
#include <string.h>

/* -- life ----------------------------------------------------------------------------------- */

tr_lod *tr__lod_new(int64_t capacity)
{
    tr_lod *lod = malloc(sizeof *lod + (size_t)capacity * sizeof(int64_t));
    if (lod)
        *lod = (tr_lod){.refs = 1, .capacity = capacity, .start = (int64_t *)(lod + 1)};
    return lod;
}

tr_lod *tr__lod_ref(tr_lod *lod)
{
    if (lod)
        __atomic_fetch_add(&lod->refs, 1, __ATOMIC_RELAXED);
    return lod;
}

void tr__lod_unref(tr_lod *lod)
{
    if (lod && __atomic_fetch_sub(&lod->refs, 1, __ATOMIC_ACQ_REL) == 1)
        free(lod);                           /* start and offset lie in the same block */
}

/* -- contents ------------------------------------------------------------------------------- */

int64_t tr__lod_numbers(int levels, const int64_t *counts)
{
    int64_t numbers = levels + 1;

    for (int l = 0; l < levels; l++)
        numbers += counts[l];
    return numbers;
}

bool tr__lod_is(const tr_lod *lod, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    if (lod->levels != levels)
        return false;
    for (int l = 0; l < levels; l++)
        if (tr__lod_count(lod, l) != counts[l] || memcmp(tr__lod_offsets(lod, l), offsets[l], (size_t)counts[l] * sizeof(int64_t)) != 0)
            return false;
    return true;
}

void tr__lod_write(tr_lod *lod, int levels, const int64_t *counts, const int64_t *const *offsets)
{
    int64_t used = 0;

    lod->levels = levels;
    lod->offset = lod->start + levels + 1;
    for (int l = 0; l < levels; l++) {
        lod->start[l] = used;
        memmove(lod->offset + used, offsets[l], (size_t)counts[l] * sizeof(int64_t));
        used += counts[l];
    }
    lod->start[levels] = used;
}

void tr__lod_copy(tr_lod *lod, const tr_lod *from)
{
    lod->levels = from->levels;
    lod->offset = lod->start + lod->levels + 1;
    memcpy(lod->start, from->start, (size_t)(from->levels + 1 + from->start[from->levels]) * sizeof(int64_t));
}

int64_t tr__lod_count(const tr_lod *lod, int level)
{
    return lod->start[level + 1] - lod->start[level];
}

const int64_t *tr__lod_offsets(const tr_lod *lod, int level)
{
    return lod->offset + lod->start[level];
}

/* -- checks --------------------------------------------------------------------------------- */

/* It must end at `below` sequences or rows; -1: anywhere. */
static tr_status check_level(int l, bool is_last, int64_t count, const int64_t *offset, int64_t below)
{
    if (count < 1 || offset[0] != 0)
        return tr_fail(TR_EINVAL, "LoD level %d must start with offset 0", l);
    for (int64_t i = 1; i < count; i++)
        if (offset[i] < offset[i - 1])
            return tr_fail(TR_EINVAL, "LoD level %d falls from %lld to %lld at offset %lld", l, (long long)offset[i - 1],
                           (long long)offset[i], (long long)i);
    if (below >= 0 && offset[count - 1] != below)
        return tr_fail(TR_EINVAL, "LoD level %d ends at %lld, but there are %lld %s", l, (long long)offset[count - 1],
                       (long long)below, is_last ? "rows" : "sequences one level down");
    return TR_OK;
}

tr_status tr__lod_check(int levels, const int64_t *counts, const int64_t *const *offsets, int64_t rows)
{
    for (int l = 0; l < levels; l++) {
        const bool is_last = l + 1 == levels;
        TR_TRY(check_level(l, is_last, counts[l], offsets[l], is_last ? rows : counts[l + 1] - 1));
    }
    return TR_OK;
}

tr_status tr__lod_check_own(const tr_lod *lod, int64_t rows)
{
    for (int l = 0; l < lod->levels; l++) {
        const bool is_last = l + 1 == lod->levels;
        TR_TRY(check_level(l, is_last, tr__lod_count(lod, l), tr__lod_offsets(lod, l), is_last ? rows : tr__lod_count(lod, l + 1) - 1));
    }
    return TR_OK;
}
