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
    *merge = (tr_rows_merge){0};
}

/* The sum of the trainers' weights: each trainer counts once, and one without samples does not count. */
typedef struct weights {
    int    count;
    bool   is_uneven;
    double first, total;
} weights;

static weights weigh(const tr_rows_update *update)
{
    weights w = {0};
    int     last = -1;

    for (int i = 0; i < update->count; i++) {
        const tr_rows_part *p = &update->part[i];
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
    const weights        *weights;
    int64_t               width, slices;
} adding;

static void add_part(const adding *a, const tr_rows_part *part, const uint32_t *number, uint32_t begin, uint32_t end)
{
    tr_rows_merge *m = a->merge;

    for (int64_t i = 0; i < part->count; i++) {
        const uint32_t row = number[i];
        if (row < begin || row >= end)
            continue;
        put(m->values + row * (uint64_t)a->width, part->values + i * a->width, a->width, (float)part->weight, a->weights->is_uneven,
            m->is_begun[row]);
        m->is_begun[row] = true;
        if (part->hints)
            m->hint[row] = part->hints[i];
    }
}

static void add_range(void *payload, int64_t slice)
{
    const adding   *a = payload;
    const weights  *w = a->weights;
    const uint32_t *number = a->merge->number;
    const float     scale = w->is_uneven ? (float)(1.0 / w->total) : (float)(1.0 / (w->count > 0 ? w->count : 1));
    int64_t         begin, end;

    tr_slice_range(&begin, &end, (int64_t)a->merge->set.count, 1, a->slices, slice);
    for (int i = 0; i < a->update->count; i++) {
        const tr_rows_part *part = &a->update->part[i];
        if (part->weight == 0)
            continue;
        add_part(a, part, number, (uint32_t)begin, (uint32_t)end);
        number += part->count;
    }
    for (int64_t i = begin * a->width; (w->is_uneven || w->count > 1) && i < end * a->width; i++)
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
static void add_rows(tr_rows_merge *merge, const tr_rows_update *update, const weights *w, int64_t width)
{
    enum { MIN_ROWS = 1024 };
    const int64_t threads = tr_num_threads(), most = 1 + (int64_t)merge->set.count / MIN_ROWS;
    adding        a = {merge, update, w, width, threads < most ? threads : most};

    tr_parallel(a.slices, add_range, &a);
}

tr_status tr_rows_merge_run(tr_rows_merge *merge, const tr_rows_update *update, int64_t width)
{
    const weights w = weigh(update);
    int64_t       rows = 0;

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
    add_rows(merge, update, &w, width);
    return TR_OK;
}
