/* background.h - a task on a thread of its own, one at a time: a task is joined before the next one begins.
 *
 * What must stay true: one thread makes all calls, except tr_background_end: the task's own thread calls it. A tr_background lives
 * until its task is joined. */
#pragma once

#include "framework/base/status.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tr_background {
    pthread_t   thread;
    void     *(*run)(void *self);
    void       *self;
    int         turns_as;             /* its number in a schedule (schedule.h) */
    bool        is_to_be_joined;
    atomic_bool has_ended;            /* the task's function has returned, or is about to */
    atomic_uint is_over;              /* its thread is about to end */
} tr_background;

/* `what` names the task in messages of failure. */
tr_status tr_background_begin(tr_background *background, void *(*run)(void *self), void *self, const char *what);
/* Called on the task's own thread just before it ends. The caller wakes waiting threads right after it. */
void      tr_background_end(tr_background *background);
bool      tr_background_is_under_way(const tr_background *background);
/* Wait for the end of the task, if there is one. */
void      tr_background_join(tr_background *background);
