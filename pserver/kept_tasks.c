/* kept_tasks.c - see kept_tasks.h. */
#include "pserver/kept_tasks.h"

#include <stdatomic.h>
#include <string.h>

/* In front of the two places. */
typedef struct head {
    _Atomic uint64_t current;
    uint64_t         size;            /* of a state */
    _Atomic uint64_t puts;            /* 0: none counts yet */
} head;

enum { HEAD = 64 };

static uint64_t stride(uint64_t size)
{
    return (size + 63) / 64 * 64;
}

static head *head_of(const tr_kept_tasks *kept)
{
    return (head *)(void *)kept->memory;
}

bool tr_kept_tasks_attach(tr_kept_tasks *kept, const tr_store *store)
{
    uint64_t bytes = 0;

    kept->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    if (kept->memory && (bytes < HEAD || head_of(kept)->size > bytes || bytes < HEAD + 2 * stride(head_of(kept)->size)))
        kept->memory = NULL;
    return kept->memory != NULL && atomic_load(&head_of(kept)->puts) > 0;
}

void tr_kept_tasks_create(tr_kept_tasks *kept, const tr_store *store, size_t size)
{
    uint64_t bytes = HEAD + 2 * stride(size);

    kept->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    if (kept->memory)
        head_of(kept)->size = size;
}

size_t tr_kept_tasks_room(const tr_kept_tasks *kept)
{
    return kept->memory ? head_of(kept)->size : 0;
}

void tr_kept_tasks_put(const tr_kept_tasks *kept, const void *state, size_t size)
{
    if (!kept->memory || head_of(kept)->size != size)
        return;
    const uint64_t next = 1 - atomic_load(&head_of(kept)->current);
    memcpy(kept->memory + HEAD + next * stride(size), state, size);
    atomic_store(&head_of(kept)->current, next);
    atomic_fetch_add(&head_of(kept)->puts, 1);
}

const uint8_t *tr_kept_tasks_get(const tr_kept_tasks *kept, size_t *size)
{
    if (!kept->memory || !atomic_load(&head_of(kept)->puts))
        return NULL;
    *size = head_of(kept)->size;
    return kept->memory + HEAD + atomic_load(&head_of(kept)->current) * stride(*size);
}
