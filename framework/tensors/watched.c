/* watched.c - see watched.h. */
#include "framework/tensors/watched.h"

#include <stdatomic.h>

static _Atomic(const tr_watcher *) watcher;

void tr__watcher_set(const tr_watcher *new_watcher)
{
    atomic_store(&watcher, new_watcher);
}

void tr__watcher_tell(uint32_t number, bool is_written)
{
    const tr_watcher *now = atomic_load_explicit(&watcher, memory_order_acquire);

    if (now)
        now->touch(now->payload, number, is_written);
}

void tr__watcher_want(uint32_t number)
{
    const tr_watcher *now = atomic_load_explicit(&watcher, memory_order_acquire);

    if (now)
        now->want(now->payload, number);
}

tr_status tr__watcher_fetch(void)
{
    const tr_watcher *now = atomic_load_explicit(&watcher, memory_order_acquire);

    return now ? now->fetch(now->payload) : TR_OK;
}
