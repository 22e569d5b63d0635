/* watched.h - a watcher hears of certain variables: that they are written, that their memory is handed out, that they are about to be read.
 *
 * In a job the servers own the parameters, and a trainer computes with copies. A script that writes such a copy between two steps means
 * the servers' value (pserver/api/job_sets.h). There are many ways to write a variable, but few places where it happens: a tensor is set,
 * shared or emptied (tensor.c), or a run writes it (executor.c; the plan knows which variables). These places tell the watcher. Memory that
 * is handed out may be written at any time, so the watcher hears of that, too.
 *
 * Of some variables, such as the state of an optimizer, the servers have a newer value than the trainer. Code that reads such a variable
 * names it to the watcher first (tr__tell_wanted). Then it asks for the values (tr__watcher_fetch), and all variables that were named come
 * together. A run names all variables that it reads before it asks.
 *
 * What must stay true: a tensor that nobody watches costs one comparison. The watcher's function may be called by any thread. */
#pragma once

#include "framework/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_watcher {
    /* The tensor with this number (tr_tensor.watch) is about to get a value. Or (is_written is false) code outside of the framework gets its
     * memory, and may write there at any time. */
    void (*touch)(void *payload, uint32_t number, bool is_written);
    /* The tensor with this number is about to be read. */
    void (*want)(void *payload, uint32_t number);
    /* Give the tensors that are wanted their present values. */
    tr_status (*fetch)(void *payload);
    void  *payload;
} tr_watcher;

/* One at a time in a process; it lives until another one takes its place. NULL: nobody watches any more. */
void tr__watcher_set(const tr_watcher *watcher);
void tr__watcher_tell(uint32_t number, bool is_written);
void tr__watcher_want(uint32_t number);
tr_status tr__watcher_fetch(void);

/* `number`: tr_tensor.watch; 0: nobody watches the tensor. */
static inline void tr__tell_written(uint32_t number)
{
    if (number)
        tr__watcher_tell(number, true);
}

static inline void tr__tell_lent(uint32_t number)
{
    if (number)
        tr__watcher_tell(number, false);
}

static inline void tr__tell_wanted(uint32_t number)
{
    if (number)
        tr__watcher_want(number);
}
