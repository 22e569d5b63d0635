/* kept_tasks.c - see kept_tasks.h. */
#include "pserver/core/kept_tasks.h"

#include <stdatomic.h>
#include <string.h>

/* In front of all; the trainers' numbers and the two places follow. */
typedef struct head {
    _Atomic uint64_t current;
    uint64_t         size;            /* of a state */
    _Atomic uint64_t puts;            /* 0: none counts yet */
    uint64_t         trainers;
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

static _Atomic uint64_t *number_of(const tr_kept_tasks *kept, int trainer)
{
    return (_Atomic uint64_t *)(void *)(kept->memory + HEAD) + trainer;
}

static uint8_t *place(const tr_kept_tasks *kept, uint64_t which)
{
    const head *h = head_of(kept);
    return kept->memory + HEAD + stride(8 * h->trainers) + which * stride(h->size);
}

bool tr_kept_tasks_attach(tr_kept_tasks *kept, const tr_store *store)
{
    uint64_t bytes = 0;

    kept->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    const head *h = kept->memory && bytes >= HEAD ? head_of(kept) : NULL;
    if (!h || h->size > bytes || h->trainers > bytes || atomic_load(&h->current) > 1 ||
        bytes < HEAD + stride(8 * h->trainers) + 2 * stride(h->size))
        kept->memory = NULL;
    return kept->memory != NULL && atomic_load(&head_of(kept)->puts) > 0;
}

void tr_kept_tasks_create(tr_kept_tasks *kept, const tr_store *store, size_t size, int trainers)
{
    uint64_t bytes = HEAD + stride(8 * (uint64_t)trainers) + 2 * stride(size);

    kept->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    if (!kept->memory)
        return;
    head_of(kept)->size = size;
    head_of(kept)->trainers = (uint64_t)trainers;
}

void tr_kept_tasks_note(const tr_kept_tasks *kept, int trainer, uint64_t steps)
{
    if (kept->memory && (uint64_t)trainer < head_of(kept)->trainers)
        atomic_store_explicit(number_of(kept, trainer), steps, memory_order_relaxed);
}

uint64_t tr_kept_tasks_noted(const tr_kept_tasks *kept, int trainer)
{
    const bool is_kept = kept->memory && (uint64_t)trainer < head_of(kept)->trainers;
    return is_kept ? atomic_load_explicit(number_of(kept, trainer), memory_order_relaxed) : 0;
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
    memcpy(place(kept, next), state, size);
    atomic_store(&head_of(kept)->current, next);
    atomic_fetch_add(&head_of(kept)->puts, 1);
}

const uint8_t *tr_kept_tasks_get(const tr_kept_tasks *kept, size_t *size)
{
    if (!kept->memory || !atomic_load(&head_of(kept)->puts))
        return NULL;
    *size = head_of(kept)->size;
    return place(kept, atomic_load(&head_of(kept)->current));
}
