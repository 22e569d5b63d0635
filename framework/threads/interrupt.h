/* interrupt.h - ending a run from outside: from a signal handler, or from another thread.
 *
 * tr_interrupt increments one counter. Each run notes the counter when it begins, and ends with TR_EINTR at the next
 * boundary (between two operators, in a wait for servers) where the counter differs. So nobody has to reset a flag: an
 * interrupt ends the runs that are under way, and no later one.
 *
 * What must stay true: tr_interrupt is one atomic addition and nothing else, because signal handlers call it. The noted
 * count belongs to the thread; a run inside a run keeps the count of the outer one. */
#pragma once

#include "framework/base/status.h"

#include <stdatomic.h>

extern atomic_uint tr__interrupt_count;

/* Around what an interrupt may end; calls nest, and only the outermost one notes the count. */
void     tr__interruptible_begin(void);
void     tr__interruptible_end(void);
/* The count that this thread has noted; the present count when nothing of it is interruptible, so that nothing seems interrupted. */
unsigned tr__interrupt_noted(void);

static inline bool tr__is_interrupted_since(unsigned noted)
{
    return __builtin_expect(atomic_load_explicit(&tr__interrupt_count, memory_order_relaxed) != noted, 0);
}

static inline bool tr__is_interrupted(void)
{
    return tr__is_interrupted_since(tr__interrupt_noted());
}

/* TR_EINTR, with a text that says what was abandoned. */
tr_status tr__fail_interrupted(const char *what);
