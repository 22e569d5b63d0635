/* status.h - a code to branch on and a trail to read.
 *
 * tr_fail starts the trail where the values are known; TR_TRY adds a line for each frame the failure
 * passes through, where the environment has TRIREME_BACKTRACE=1: users need the message, and we the frames. The text is per thread and of bounded size: a failure never allocates. */
#pragma once

#include "framework/trireme.h"

/* Start a trail: the message replaces the thread's last one. Where memory lacks, a line adds the limit on addresses (ulimit -v), if there is one. The
 * caller that knows a name adds that (tr_context): of a variable, a table, a file. Returns `status`. */
tr_status tr_fail(tr_status status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Add a line of context to the current trail ("while ..."). Returns `status`. */
tr_status tr_context(tr_status status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* Add the frame "in function (file:line)". Returns `status`. */
tr_status tr__trail(tr_status status, const char *function, const char *file, int line) __attribute__((cold));

/* Leave the calling function with the failure of `call`. */
#define TR_TRY(call)                                                        \
    do {                                                                    \
        const tr_status tr_try_ = (call);                                   \
        if (__builtin_expect(tr_try_ != TR_OK, 0))                          \
            return tr__trail(tr_try_, __func__, __FILE__, __LINE__);        \
    } while (0)

/* The same for a function that cleans up at `label`; it has a variable `status`. */
#define TR_TRY_GOTO(label, call)                                            \
    do {                                                                    \
        status = (call);                                                    \
        if (__builtin_expect(status != TR_OK, 0)) {                         \
            tr__trail(status, __func__, __FILE__, __LINE__);                \
            goto label;                                                     \
        }                                                                   \
    } while (0)
