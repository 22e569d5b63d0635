/* errand.c - see errand.h. */
#include "pserver/util/errand.h"

tr_status tr_errand_begin(tr_errand *errand, void *(*run)(void *self), void *self, const char *what)
{
    atomic_store(&errand->has_ended, false);
    if (pthread_create(&errand->thread, NULL, run, self))
        return tr_fail(TR_ENOMEM, "cannot start a thread to %s", what);
    errand->is_to_be_joined = true;
    return TR_OK;
}

void tr_errand_end(tr_errand *errand)
{
    atomic_store(&errand->has_ended, true);
}

bool tr_errand_is_under_way(const tr_errand *errand)
{
    return errand->is_to_be_joined && !atomic_load(&errand->has_ended);
}

void tr_errand_join(tr_errand *errand)
{
    if (errand->is_to_be_joined)
        pthread_join(errand->thread, NULL);
    errand->is_to_be_joined = false;
}
