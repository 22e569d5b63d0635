/* late.c - see late.h. */
#include "framework/tensors/late.h"

#include <stdatomic.h>

static _Atomic(tr_late_fn) late;

void tr__late_set(tr_late_fn wait)
{
    atomic_store(&late, wait);
}

tr_status tr__late_wait(const void *data, int64_t bytes)
{
    const tr_late_fn wait = atomic_load_explicit(&late, memory_order_acquire);
    return wait && data ? wait(data, bytes) : TR_OK;
}

tr_status tr__late_wait_all(void)
{
    const tr_late_fn wait = atomic_load_explicit(&late, memory_order_acquire);
    return wait ? wait(NULL, 0) : TR_OK;
}
