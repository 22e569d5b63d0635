/* errand.h - something that a thread does aside, one at a time: it is joined before the next one begins.
 *
 * What must stay true: one thread begins, joins and asks; the errand's own says when it has ended. */
#ifndef TR_PSERVER_ERRAND_H
#define TR_PSERVER_ERRAND_H

#include "framework/status.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct tr_errand {
    pthread_t   thread;
    bool        is_to_be_joined;
    atomic_bool has_ended;            /* or nearly */
} tr_errand;

/* `what` is done, for a failure. */
tr_status tr_errand_begin(tr_errand *errand, void *(*run)(void *self), void *self, const char *what);
/* By its thread, as the last but one thing that it does: whoever waits for it is rung then. */
void      tr_errand_end(tr_errand *errand);
bool      tr_errand_is_under_way(const tr_errand *errand);
/* Wait for its end. Of none, nothing. */
void      tr_errand_join(tr_errand *errand);

#endif
