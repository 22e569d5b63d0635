/* weak.c - see weak.h. */
#include "framework/base/weak.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "framework/base/memory.h"

struct tr_weak {
    _Atomic(void *) object;
    atomic_int      users;
};

tr_weak *tr__weak_new(void *object)
{
    tr_weak *weak = tr__must_alloc(sizeof *weak);

    atomic_init(&weak->object, object);
    atomic_init(&weak->users, 1);
    return weak;
}

tr_weak *tr__weak_retain(tr_weak *weak)
{
    if (weak)
        atomic_fetch_add(&weak->users, 1);
    return weak;
}

void tr__weak_release(tr_weak *weak)
{
    if (weak && atomic_fetch_sub(&weak->users, 1) == 1)
        free(weak);
}

void *tr__weak_object(const tr_weak *weak)
{
    return weak ? atomic_load_explicit(&weak->object, memory_order_acquire) : NULL;
}

void tr__weak_end(tr_weak *weak)
{
    if (weak)
        atomic_store(&weak->object, NULL);
}
