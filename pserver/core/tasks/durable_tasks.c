/* durable_tasks.c - see durable_tasks.h. */
#include "pserver/core/tasks/durable_tasks.h"

#include <stdatomic.h>
#include <string.h>

/* The header of the memory; the trainers' numbers and the two copies of the state follow. */
typedef struct head {
    _Atomic uint64_t current;
    uint64_t         size;            /* size of a state */
    _Atomic uint64_t puts;            /* number of states that were stored; 0: no copy is valid */
    uint64_t         trainers;
} head;

enum { HEAD = 64 };

static uint64_t stride(uint64_t size)
{
    return (size + 63) / 64 * 64;
}

static head *head_of(const tr_durable_tasks *durable)
{
    return (head *)(void *)durable->memory;
}

static _Atomic uint64_t *number_of(const tr_durable_tasks *durable, int trainer)
{
    return (_Atomic uint64_t *)(void *)(durable->memory + HEAD) + trainer;
}

static uint8_t *place(const tr_durable_tasks *durable, uint64_t which)
{
    const head *h = head_of(durable);
    return durable->memory + HEAD + stride(8 * h->trainers) + which * stride(h->size);
}

bool tr_durable_tasks_attach(tr_durable_tasks *durable, const tr_store *store)
{
    uint64_t bytes = 0;

    durable->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    const head *h = durable->memory && bytes >= HEAD ? head_of(durable) : NULL;
    if (!h || h->size > bytes || h->trainers > bytes || atomic_load(&h->current) > 1 ||
        bytes < HEAD + stride(8 * h->trainers) + 2 * stride(h->size))
        durable->memory = NULL;
    return durable->memory != NULL && atomic_load(&head_of(durable)->puts) > 0;
}

void tr_durable_tasks_create(tr_durable_tasks *durable, const tr_store *store, size_t size, int trainers)
{
    uint64_t bytes = HEAD + stride(8 * (uint64_t)trainers) + 2 * stride(size);

    durable->memory = store->tasks ? store->tasks(store->self, &bytes) : NULL;
    if (!durable->memory)
        return;
    head_of(durable)->size = size;
    head_of(durable)->trainers = (uint64_t)trainers;
}

void tr_durable_tasks_set_everywhere(const tr_durable_tasks *durable, int trainer, uint64_t steps)
{
    if (durable->memory && (uint64_t)trainer < head_of(durable)->trainers)
        atomic_store_explicit(number_of(durable, trainer), steps, memory_order_relaxed);
}

uint64_t tr_durable_tasks_everywhere(const tr_durable_tasks *durable, int trainer)
{
    const bool is_kept = durable->memory && (uint64_t)trainer < head_of(durable)->trainers;
    return is_kept ? atomic_load_explicit(number_of(durable, trainer), memory_order_relaxed) : 0;
}

size_t tr_durable_tasks_capacity(const tr_durable_tasks *durable)
{
    return durable->memory ? head_of(durable)->size : 0;
}

void tr_durable_tasks_put(const tr_durable_tasks *durable, const void *state, size_t size)
{
    if (!durable->memory || head_of(durable)->size != size)
        return;
    const uint64_t next = 1 - atomic_load(&head_of(durable)->current);
    memcpy(place(durable, next), state, size);
    atomic_store(&head_of(durable)->current, next);
    atomic_fetch_add(&head_of(durable)->puts, 1);
}

const uint8_t *tr_durable_tasks_get(const tr_durable_tasks *durable, size_t *size)
{
    if (!durable->memory || !atomic_load(&head_of(durable)->puts))
        return NULL;
    *size = head_of(durable)->size;
    return place(durable, atomic_load(&head_of(durable)->current));
}
