/* watched.h - variables that somebody watches: who writes them, who gets their memory, and who reads them.
 *
 * In a job the servers own the parameters, and a trainer computes with copies. A script that writes such a copy between two steps means the servers'
 * value (pserver/api/job_sets.h). There are many ways to write a variable, but few places where it happens: a tensor is set, shared or
 * emptied (tensor.c), or a run writes it (executor.c; the plan knows which variables). These places tell the watcher. Memory that is handed out
 * may be written at any time, so the watcher hears of that, too.
 *
 * Of some variables, such as the state of an optimizer, the servers have a newer value than the trainer. Those who read a variable name it first, and the
 * watcher then fetches the values of all that were named: the variables that a run reads are named together.
 *
 * What must stay true: a tensor that nobody watches costs one comparison. The watcher's function may be called by any thread. */
#ifndef TR_FRAMEWORK_WATCHED_H
#define TR_FRAMEWORK_WATCHED_H

#include "framework/base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tr_watcher {
    /* The tensor with this number (tr_tensor.watch) is about to get a value; or else somebody outside gets its memory, and may write there. */
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

#endif
