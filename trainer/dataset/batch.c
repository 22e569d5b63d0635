/* batch.c - see batch.h. */
#include "trainer/dataset/batch.h"

#include <stdlib.h>
#include <string.h>

#include "framework/base/memory.h"

static void init_feed(tr_batch *batch, const tr_data_slot *slot, int number)
{
    const int i = batch->feed_count++;
    tr_feed  *feed = &batch->feed[i];

    memcpy(batch->dims[i], slot->dims, (size_t)slot->rank * sizeof *slot->dims);
    batch->slot[i] = number;
    *feed = (tr_feed){.name = slot->name, .dtype = slot->dtype, .rank = slot->rank, .dims = batch->dims[i]};
    if (slot->lod_level) {
        feed->lod_levels = 1;
        feed->lod_counts = &batch->offset_count[i];
        feed->lod_offsets = (const int64_t *const *)&batch->offset[i];
    }
}

tr_batch *tr__batch_new(const tr_data_spec *spec)
{
    const size_t count = (size_t)spec->slot_count;
    tr_batch    *batch = tr__must_alloc(sizeof *batch);

    tr_columns_init(&batch->columns, spec);
    batch->feed = tr__must_alloc(count * sizeof *batch->feed);
    batch->slot = tr__must_alloc(count * sizeof *batch->slot);
    batch->dims = tr__must_alloc(count * sizeof *batch->dims);
    batch->offset = tr__must_alloc(count * sizeof *batch->offset);
    batch->offset_count = tr__must_alloc(count * sizeof *batch->offset_count);
    for (int i = 0; i < spec->slot_count; i++) {
        if (spec->slots[i].name)
            init_feed(batch, &spec->slots[i], i);
        if (!tr_column_reserve(&batch->columns.column[i], 1)) {       /* never NULL, not even when empty */
            tr_batch_free(batch);
            return NULL;
        }
    }
    return batch;
}

void tr_batch_free(tr_batch *batch)
{
    if (!batch)
        return;
    for (int i = 0; i < batch->feed_count; i++)
        free(batch->offset[i]);
    tr_columns_deinit(&batch->columns);
    free(batch->feed);
    free(batch->slot);
    free(batch->dims);
    free(batch->offset);
    free(batch->offset_count);
    free(batch);
}

static bool reserve_offsets(tr_batch *batch, int64_t count)
{
    if (count <= batch->offset_capacity)
        return true;
    for (int i = 0; i < batch->feed_count; i++) {
        if (!batch->feed[i].lod_levels)
            continue;
        int64_t *offset = realloc(batch->offset[i], (size_t)count * sizeof *offset);
        if (!offset)
            return false;
        batch->offset[i] = offset;
    }
    batch->offset_capacity = count;
    return true;
}

bool tr__batch_show(tr_batch *batch, int64_t begin, int64_t end)
{
    if (!reserve_offsets(batch, end - begin + 1))
        return false;
    for (int i = 0; i < batch->feed_count; i++) {
        const tr_column *column = &batch->columns.column[batch->slot[i]];
        const int64_t    first = tr_column_begin(column, begin);
        batch->feed[i].data = column->data + first * column->size;
        batch->dims[i][0] = (tr_column_begin(column, end) - first) / column->width;
        if (!column->is_ragged)
            continue;
        for (int64_t line = begin; line <= end; line++)
            batch->offset[i][line - begin] = (tr_column_begin(column, line) - first) / column->width;
        batch->offset_count[i] = end - begin + 1;
    }
    batch->samples = end - begin;
    return true;
}

int64_t tr_batch_samples(const tr_batch *batch)
{
    return batch->samples;
}

int tr_batch_feed_count(const tr_batch *batch)
{
    return batch->feed_count;
}

const tr_feed *tr_batch_feeds(const tr_batch *batch)
{
    return batch->feed;
}
