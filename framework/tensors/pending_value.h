/* pending_value.h - values that arrive in memory after the operator that asked for them has returned.
 *
 * A trainer asks for parameters at the end of a step and computes the next one while they come: each is waited for before its first
 * reader (pserver/api/job_pull.c). All other readers of a variable (a fetch, another program, a file, Python) call
 * tr__pending_wait first. So no reader sees a value that is old or half written. Memory is not freed while a value is coming into it.
 *
 * What must stay true: the function that is set may be called by any thread, waits with a bound, and returns at once when nothing
 * is on its way there. */
#pragma once

#include "framework/base/status.h"

/* Waits for the pending values in this memory; NULL `data`: for all. */
typedef struct tr_pending {
    tr_status (*wait)(void *payload, const void *data, int64_t bytes);
    void       *payload;
} tr_pending;

/* One at a time in a process; it lives until another one takes its place. NULL: no value is pending any more. */
void      tr__pending_set(const tr_pending *new_pending);
tr_status tr__pending_wait(const void *data, int64_t bytes);
tr_status tr__pending_wait_all(void);
