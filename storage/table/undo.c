/* undo.c - see undo.h. The log is a list of (slot, row); entries count when they are complete. */
#include "storage/table/undo.h"

#include "storage/slots/slots.h"
#include "storage/util/row_copy.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 1, HEAD = 64 };

typedef struct head {
    uint64_t stride;
    uint64_t step;
    uint64_t count;                   /* entries that count */
} head;

struct tr_undo {
    tr_segment *segment;              /* NULL: the log keeps nothing */
    uint64_t    stride;
};

static head *head_of(const tr_undo *undo)
{
    return tr_segment_base(undo->segment);
}

static uint64_t entry_bytes(const tr_undo *undo)
{
    return sizeof(uint64_t) + undo->stride;
}

static char *entry_at(const tr_undo *undo, uint64_t index)
{
    return (char *)head_of(undo) + HEAD + index * entry_bytes(undo);
}

static tr_undo *make(uint64_t stride)
{
    tr_undo *undo = calloc(1, sizeof *undo);

    if (undo)
        undo->stride = stride;
    return undo;
}

static const uint64_t LIMIT = (uint64_t)1 << 36;

tr_status tr_undo_create(tr_undo **out, const char *name, uint64_t stride)
{
    tr_undo *undo = make(stride);

    if (!undo)
        return tr_fail(TR_ENOMEM, "undo: no memory");
    if (name) {
        tr_status status = tr_segment_create_moving(&undo->segment, name, "undo", VERSION, LIMIT);
        if (status == TR_OK)
            status = tr_segment_grow(undo->segment, HEAD);
        if (status != TR_OK) {
            tr_undo_free(undo);
            return status;
        }
        head_of(undo)->stride = stride;
    }
    *out = undo;
    return TR_OK;
}

static uint64_t slot_of(const tr_undo *undo, uint64_t index)
{
    uint64_t slot;

    memcpy(&slot, entry_at(undo, index), sizeof slot);
    return slot;
}

static tr_status check(const tr_undo *undo, uint64_t rows)
{
    if (tr_segment_bytes(undo->segment) < HEAD || head_of(undo)->stride != undo->stride ||
        head_of(undo)->count > (tr_segment_bytes(undo->segment) - HEAD) / entry_bytes(undo))
        return tr_fail(TR_EFORMAT, "the log '%s' is none for rows of %llu bytes", tr_segment_name(undo->segment),
                       (unsigned long long)undo->stride);
    for (uint64_t i = 0; i < head_of(undo)->count; i++)
        if (slot_of(undo, i) >= rows)
            return tr_fail(TR_EFORMAT, "the log '%s' has row %llu of %llu", tr_segment_name(undo->segment),
                           (unsigned long long)slot_of(undo, i), (unsigned long long)rows);
    return TR_OK;
}

tr_status tr_undo_attach(tr_undo **out, const char *name, uint64_t stride, uint64_t rows)
{
    tr_undo *undo = make(stride);

    if (!undo)
        return tr_fail(TR_ENOMEM, "undo: no memory");
    tr_status status = tr_segment_attach_moving(&undo->segment, name, "undo", VERSION, LIMIT);
    if (status == TR_OK)
        status = check(undo, rows);
    if (status != TR_OK) {
        tr_undo_free(undo);
        return status;
    }
    *out = undo;
    return TR_OK;
}

void tr_undo_free(tr_undo *undo)
{
    if (!undo)
        return;
    tr_segment_free(undo->segment);
    free(undo);
}

tr_status tr_undo_begin(tr_undo *undo, uint64_t step)
{
    if (!undo->segment)
        return TR_OK;
    head_of(undo)->count = 0;
    atomic_signal_fence(memory_order_seq_cst);
    head_of(undo)->step = step;
    return TR_OK;
}

tr_status tr_undo_log(tr_undo *undo, const char *rows, const uint32_t *slots, int64_t n)
{
    if (!undo->segment)
        return TR_OK;
    uint64_t       count = head_of(undo)->count;
    const uint64_t need = HEAD + (count + (uint64_t)n) * entry_bytes(undo), have = tr_segment_bytes(undo->segment);

    if (need > have)
        TR_TRY(tr_segment_grow(undo->segment, need + need / 2));
    head *h = head_of(undo);                           /* where it lies now */
    for (int64_t i = 0; i < n; i++) {
        const uint64_t slot = slots[i];
        if (slots[i] == TR_SLOT_NONE)
            continue;
        char *to = entry_at(undo, count++);
        memcpy(to, &slot, sizeof slot);
        tr_row_copy(to + sizeof slot, rows + slot * undo->stride, undo->stride);
    }
    atomic_signal_fence(memory_order_seq_cst);
    h->count = count;
    atomic_signal_fence(memory_order_seq_cst);
    return TR_OK;
}

uint64_t tr_undo_step(const tr_undo *undo)
{
    return undo->segment ? head_of(undo)->step : 0;
}

void tr_undo_each(const tr_undo *undo, void (*each)(void *payload, uint64_t slot, const char *row), void *payload)
{
    for (uint64_t i = undo->segment ? head_of(undo)->count : 0; i-- > 0;)
        each(payload, slot_of(undo, i), entry_at(undo, i) + sizeof(uint64_t));
}

typedef struct target {
    char    *rows;
    uint64_t stride;
} target;

static void put_back(void *payload, uint64_t slot, const char *row)
{
    const target *to = payload;
    memcpy(to->rows + slot * to->stride, row, to->stride);
}

/* A kill in the middle does no harm: the log stays complete until all rows are back, and a second undo gives the same rows. */
void tr_undo_roll_back(tr_undo *undo, char *rows)
{
    target to = {rows, undo->stride};

    if (!undo->segment)
        return;
    tr_undo_each(undo, put_back, &to);
    atomic_signal_fence(memory_order_seq_cst);
    head_of(undo)->count = 0;
}

uint64_t tr_undo_bytes(const tr_undo *undo)
{
    return undo->segment ? tr_segment_bytes(undo->segment) : 0;
}
