/* pending_value.c - see pending_value.h. */
#include "framework/tensors/pending_value.h"

#include <stdatomic.h>

static _Atomic(tr_pending_fn) late;

void tr__pending_set(tr_pending_fn wait)
{
    atomic_store(&late, wait);
}

tr_status tr__pending_wait(const void *data, int64_t bytes)
{
    const tr_pending_fn wait = atomic_load_explicit(&late, memory_order_acquire);
    return wait && data ? wait(data, bytes) : TR_OK;
}

tr_status tr__pending_wait_all(void)
{
    const tr_pending_fn wait = atomic_load_explicit(&late, memory_order_acquire);
    return wait ? wait(NULL, 0) : TR_OK;
}
