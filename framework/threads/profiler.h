/* profiler.h - spans of time, collected while it is on and written as a Chrome trace (the JSON that
 * chrome://tracing and Perfetto read). One lock around an append: it is for looking, not for production. */
#pragma once

#include "framework/base/status.h"

extern int tr__profiler_state;        /* atomic; use the function */

static inline bool tr_profiler_is_on(void)
{
    return __builtin_expect(__atomic_load_n(&tr__profiler_state, __ATOMIC_RELAXED), 0);
}

uint64_t tr_clock_ns(void);           /* monotonic */
/* `name` is copied; `category` must live for ever. */
void     tr_profiler_record(const char *name, const char *category, uint64_t start_ns, uint64_t end_ns);
