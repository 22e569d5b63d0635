/* snapshot.c - see snapshot.h. */
#include "storage/checkpoint/snapshot.h"

#include "framework/base/memory.h"
#include "framework/threads/threadpool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct tr_snapshot {
    uint8_t  *memory;
    size_t    capacity;
    int       count;
    tr_checkpoint_item *state;                  /* copies of the states' descriptions, with names and dimensions of their own */
};

tr_snapshot *tr_snapshot_new(void)
{
    return tr__must_alloc(sizeof(tr_snapshot));
}

static void forget(tr_snapshot *s)
{
    for (int i = 0; i < s->count; i++) {
        free((void *)(uintptr_t)s->state[i].name);
        free((void *)(uintptr_t)s->state[i].param);
        free((void *)(uintptr_t)s->state[i].dims);
        if (s->state[i].kind == TR_STATE_TABLE)
            free((void *)(uintptr_t)s->state[i].data);
    }
    free(s->state);
    s->state = NULL;
    s->count = 0;
}

void tr_snapshot_free(tr_snapshot *s)
{
    if (!s)
        return;
    forget(s);
    if (s->memory)
        munmap(s->memory, s->capacity);
    free(s);
}

static size_t bytes_of(const tr_checkpoint_item *state)
{
    size_t bytes = (size_t)tr_dtype_size(state->dtype);

    if (state->kind == TR_STATE_TABLE)
        return 0;
    for (int i = 0; i < state->rank; i++)
        bytes *= (size_t)state->dims[i];
    return bytes;
}

static size_t padded(size_t bytes)
{
    return (bytes + TR_CHECKPOINT_ALIGN - 1) & ~(size_t)(TR_CHECKPOINT_ALIGN - 1);
}

size_t tr_snapshot_bytes(int count, const tr_checkpoint_item *states)
{
    size_t bytes = 0;

    for (int i = 0; i < count; i++)
        bytes += padded(bytes_of(&states[i]));
    return bytes;
}

tr_status tr_snapshot_reserve(tr_snapshot *s, size_t bytes)
{
    bytes = bytes ? bytes : TR_CHECKPOINT_ALIGN;
    if (bytes <= s->capacity)
        return TR_OK;
    if (s->memory)
        munmap(s->memory, s->capacity);
    s->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->memory == MAP_FAILED) {
        s->memory = NULL;
        s->capacity = 0;
        return tr_fail(TR_ENOMEM, "no memory for a copy of %zu bytes, which a checkpoint needs", bytes);
    }
    s->capacity = bytes;
    madvise(s->memory, bytes, MADV_HUGEPAGE);
    for (size_t at = 0; at < bytes; at += 4096)
        ((volatile uint8_t *)s->memory)[at] = 0;
    return TR_OK;
}

/* Copy the description alone. Its name is the state's. */
static void keep_table(tr_checkpoint_item *mine)
{
    tr_job_table *table = (tr_job_table *)(void *)tr__must_copy(mine->data, sizeof *table);

    table->name = mine->name;
    mine->data = table;
    mine->dims = NULL;
}

tr_status tr_snapshot_take(tr_snapshot *s, int count, const tr_checkpoint_item *states, uint64_t number, uint64_t since)
{
    size_t at = 0;

    forget(s);
    TR_TRY(tr_snapshot_reserve(s, tr_snapshot_bytes(count, states)));
    s->state = tr__must_alloc((size_t)count * sizeof *s->state + 1);
    for (int i = 0; i < count; i++) {
        tr_checkpoint_item *mine = &s->state[s->count++];
        *mine = states[i];
        mine->name = tr__must_strdup(mine->name);
        mine->param = mine->param ? tr__must_strdup(mine->param) : NULL;
        if (mine->kind == TR_STATE_TABLE) {
            keep_table(mine);
            continue;
        }
        mine->dims = (int64_t *)tr__must_copy(mine->dims, (size_t)mine->rank * sizeof(int64_t));
        tr_parallel_copy(s->memory + at, states[i].data, bytes_of(mine));
        mine->data = s->memory + at;
        at += padded(bytes_of(mine));
    }
    return tr_tables_snapshot(s->count, s->state, number, since);
}

void tr_snapshot_end(tr_snapshot *s)
{
    tr_tables_snapshot_end(s->count, s->state);
}

tr_status tr_snapshot_write(tr_part **out, const tr_snapshot *s, const char *folder, const char *name, tr_checkpoint_rows rows)
{
    return tr_part_write(out, folder, name, rows, s->count, s->state);
}
