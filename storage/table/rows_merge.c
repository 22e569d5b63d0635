/* rows_merge.c - numbers the keys, then adds up the rows of each number, in the order of the parts. */
#include "storage/table/rows_merge.h"

#include "framework/base/compiler.h"
#include "framework/threads/threadpool.h"
#include "storage/util/buffer.h"
#include "storage/util/row_copy.h"

#include <stdlib.h>
#include <string.h>

void tr_rows_merge_deinit(tr_rows_merge *merge)
{
    tr_keyset_deinit(&merge->set);
    free(merge->values);
    free(merge->hint);
    free(merge->number);
    free(merge->is_begun);
    free(merge->group);
    free(merge->is_in_group);
    *merge = (tr_rows_merge){0};
}

/* The sum of the weights of some trainers: each of them counts once, and one without samples does not count. */
typedef struct weights {
    int    count;
    bool   is_uneven;
    double first, total;
} weights;

static weights weigh(const tr_rows_part *part, int count)
{
    weights w = {0};
    int     last = -1;

    for (int i = 0; i < count; i++) {
        const tr_rows_part *p = &part[i];
        if (p->trainer == last || p->weight == 0)
            continue;
        last = p->trainer;
        w.is_uneven |= w.count && p->weight != w.first;
        w.first = w.count ? w.first : p->weight;
        w.total += p->weight;
        w.count++;
    }
    return w;
}

/* The number of parts of the first of these parts' group. */
static int group_size(const tr_rows_part *part, int count)
{
    int n = 0;

    while (n < count && part[n].group == part->group)
        n++;
    return n;
}

bool tr_rows_are_merged(const tr_rows_update *update)
{
    for (int i = 0; i < update->count; i++) {
        const tr_rows_part *p = &update->part[i];
        if (!p->is_merged || p->weight == 0 || p->trainer != update->part[0].trainer)
            return false;
    }
    return update->count > 0;
}

TR_INLINE void put(float *restrict sum, const float *restrict x, int64_t n, float factor, bool is_scaled, bool is_begun)
{
    if (!is_scaled)
        tr_row_add(sum, x, n, !is_begun);
    else if (!is_begun)
        for (int64_t i = 0; i < n; i++)
            sum[i] = factor * x[i];
    else
        for (int64_t i = 0; i < n; i++)
            sum[i] += factor * x[i];
}

/* The sums of some rows of all parts. A thread has the rows of a range, whose numbers it looks for in all parts. */
typedef struct adding {
    tr_rows_merge        *merge;
    const tr_rows_update *update;
    weights               weights;
    bool                  is_mean;
    int64_t               width, slices;
} adding;

/* Rows that a thread adds up, [rows, width], of which it has a range. */
typedef struct sums {
    float   *values;
    bool    *is_begun;
    uint32_t begin, end;
} sums;

static void add_part(const adding *a, const sums *to, const tr_rows_part *part, const uint32_t *number, bool is_scaled)
{
    for (int64_t i = 0; i < part->count; i++) {
        const uint32_t row = number[i];
        if (row < to->begin || row >= to->end)
            continue;
        put(to->values + row * (uint64_t)a->width, part->values + i * a->width, a->width, (float)part->weight, is_scaled, to->is_begun[row]);
        to->is_begun[row] = true;
        if (part->hints)
            a->merge->hint[row] = part->hints[i];
    }
}

/* Add the sum of a group to those before it, and empty it. */
static void join_group(const adding *a, const sums *to, const weights *group)
{
    tr_rows_merge *m = a->merge;

    for (uint32_t row = to->begin; row < to->end; row++) {
        if (!m->is_in_group[row])
            continue;
        put(to->values + row * (uint64_t)a->width, m->group + row * (uint64_t)a->width, a->width, (float)group->first,
            a->weights.is_uneven && !group->is_uneven, to->is_begun[row]);
        to->is_begun[row] = true;
        m->is_in_group[row] = false;
    }
}

/* Add the parts of one group, whose numbers are `number`. Returns the numbers after these. */
static const uint32_t *add_group(const adding *a, const sums *to, const tr_rows_part *part, int count, const uint32_t *number)
{
    const weights w = weigh(part, count);
    const bool    is_apart = w.count > 1 && count < a->update->count;
    const sums    group = {a->merge->group, a->merge->is_in_group, to->begin, to->end};
    const bool    is_uneven = is_apart ? w.is_uneven : a->weights.is_uneven;

    for (int i = 0; i < count; i++) {
        if (part[i].weight == 0)
            continue;
        add_part(a, is_apart ? &group : to, &part[i], number, is_uneven && !part[i].is_sum);
        number += part[i].count;
    }
    if (is_apart)
        join_group(a, to, &w);
    return number;
}

static void add_range(void *payload, int64_t slice)
{
    const adding   *a = payload;
    const weights  *w = &a->weights;
    const uint32_t *number = a->merge->number;
    const float     scale = w->is_uneven ? (float)(1.0 / w->total) : (float)(1.0 / (w->count > 0 ? w->count : 1));
    int64_t         begin, end;

    tr_slice_range(&begin, &end, (int64_t)a->merge->set.count, 1, a->slices, slice);
    const sums to = {a->merge->values, a->merge->is_begun, (uint32_t)begin, (uint32_t)end};
    for (int i = 0, n; i < a->update->count; i += n) {
        n = group_size(&a->update->part[i], a->update->count - i);
        number = add_group(a, &to, &a->update->part[i], n, number);
    }
    for (int64_t i = begin * a->width; a->is_mean && (w->is_uneven || w->count > 1) && i < end * a->width; i++)
        a->merge->values[i] *= scale;
}

/* Number the keys of all parts. Returns whether all have hints. */
static bool number_keys(tr_rows_merge *merge, const tr_rows_update *update)
{
    uint32_t *number = merge->number;
    bool      has_hints = true;

    for (int i = 0; i < update->count; i++) {
        const tr_rows_part *part = &update->part[i];
        has_hints &= part->hints != NULL;
        if (part->weight == 0)
            continue;
        tr_keyset_add(&merge->set, number, part->keys, part->count);
        number += part->count;
    }
    return has_hints;
}

/* As many slices as threads: each of them looks at all numbers. */
static void add_rows(tr_rows_merge *merge, const tr_rows_update *update, bool is_mean, int64_t width)
{
    enum { MIN_ROWS = 1024 };
    const int64_t threads = tr_num_threads(), most = 1 + (int64_t)merge->set.count / MIN_ROWS;
    adding        a = {merge, update, weigh(update->part, update->count), is_mean, width, threads < most ? threads : most};

    tr_parallel(a.slices, add_range, &a);
}

/* Several groups are added up in memory of their own. */
static tr_status reserve_group(tr_rows_merge *merge, int64_t rows, int64_t width)
{
    TR_TRY(tr_buffer_reserve(&merge->group, &merge->group_capacity, (uint64_t)(rows * width), sizeof *merge->group));
    TR_TRY(tr_buffer_reserve(&merge->is_in_group, &merge->in_group_capacity, (uint64_t)rows, sizeof *merge->is_in_group));
    if (rows)
        memset(merge->is_in_group, 0, (size_t)rows * sizeof *merge->is_in_group);
    return TR_OK;
}

static tr_status run(tr_rows_merge *merge, const tr_rows_update *update, bool is_mean, int64_t width)
{
    int64_t rows = 0;

    for (int i = 0; i < update->count; i++)
        rows += update->part[i].count;
    TR_TRY(tr_keyset_reset(&merge->set, rows));
    TR_TRY(tr_buffer_reserve(&merge->values, &merge->capacity, (uint64_t)(rows * width), sizeof *merge->values));
    TR_TRY(tr_buffer_reserve(&merge->hint, &merge->hint_capacity, (uint64_t)rows, sizeof *merge->hint));
    TR_TRY(tr_buffer_reserve(&merge->number, &merge->number_capacity, (uint64_t)rows, sizeof *merge->number));
    TR_TRY(tr_buffer_reserve(&merge->is_begun, &merge->begun_capacity, (uint64_t)rows, sizeof *merge->is_begun));
    if (rows)
        memset(merge->is_begun, 0, (size_t)rows * sizeof *merge->is_begun);
    merge->hints = number_keys(merge, update) ? merge->hint : NULL;
    if (group_size(update->part, update->count) < update->count)
        TR_TRY(reserve_group(merge, merge->set.count, width));
    add_rows(merge, update, is_mean, width);
    return TR_OK;
}

tr_status tr_rows_merge_run(tr_rows_merge *merge, const tr_rows_update *update, int64_t width)
{
    return run(merge, update, true, width);
}

tr_status tr_rows_merge_sum(tr_rows_merge *merge, const tr_rows_update *update, int64_t width)
{
    return run(merge, update, false, width);
}
