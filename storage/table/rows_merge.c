/* rows_merge.c - numbers the keys, then adds up the rows of each number. */
#include "storage/table/rows_merge.h"

#include "framework/base/compiler.h"
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

static void add_part(tr_rows_merge *m, const tr_rows_part *part, const weights *w, int64_t width)
{
    tr_keyset_add(&m->set, m->number, part->keys, part->count);
    for (int64_t i = 0; i < part->count; i++) {
        const uint32_t row = m->number[i];
        put(m->values + row * (uint64_t)width, part->values + i * width, width, (float)part->weight, w->is_uneven, m->is_begun[row]);
        m->is_begun[row] = true;
        if (part->hints)
            m->hint[row] = part->hints[i];
    }
}

tr_status tr_rows_merge_run(tr_rows_merge *merge, const tr_rows_update *update, int64_t width)
{
    const weights w = weigh(update);
    int64_t       rows = 0, largest = 0;
    bool          has_hints = true;

    for (int i = 0; i < update->count; i++) {
        has_hints &= update->part[i].hints != NULL;
        rows += update->part[i].count;
        largest = update->part[i].count > largest ? update->part[i].count : largest;
    }
    TR_TRY(tr_keyset_reset(&merge->set, rows));
    TR_TRY(tr_buffer_reserve(&merge->values, &merge->capacity, (uint64_t)(rows * width), sizeof *merge->values));
    TR_TRY(tr_buffer_reserve(&merge->hint, &merge->hint_capacity, (uint64_t)rows, sizeof *merge->hint));
    merge->hints = has_hints ? merge->hint : NULL;
    TR_TRY(tr_buffer_reserve(&merge->number, &merge->number_capacity, (uint64_t)largest, sizeof *merge->number));
    TR_TRY(tr_buffer_reserve(&merge->is_begun, &merge->begun_capacity, (uint64_t)rows, sizeof *merge->is_begun));
    if (rows)
        memset(merge->is_begun, 0, (size_t)rows * sizeof *merge->is_begun);
    for (int i = 0; i < update->count; i++)
        if (update->part[i].weight > 0)
            add_part(merge, &update->part[i], &w, width);
    const float scale = w.is_uneven ? (float)(1.0 / w.total) : (float)(1.0 / (w.count > 0 ? w.count : 1));
    for (uint64_t i = 0; (w.is_uneven || w.count > 1) && i < merge->set.count * (uint64_t)width; i++)
        merge->values[i] *= scale;
    return TR_OK;
}
