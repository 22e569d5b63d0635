/* pending_value.c - see pending_value.h. */
#include "framework/tensors/pending_value.h"

#include <stdatomic.h>

static _Atomic(const tr_pending *) pending;

void tr__pending_set(const tr_pending *new_pending)
{
    atomic_store(&pending, new_pending);
}

tr_status tr__pending_wait(const void *data, int64_t bytes)
{
    const tr_pending *now = atomic_load_explicit(&pending, memory_order_acquire);
    return now && data ? now->wait(now->payload, data, bytes) : TR_OK;
}

tr_status tr__pending_wait_all(void)
{
    const tr_pending *now = atomic_load_explicit(&pending, memory_order_acquire);
    return now ? now->wait(now->payload, NULL, 0) : TR_OK;
}
