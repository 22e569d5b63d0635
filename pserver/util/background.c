/* background.c - see background.h. */
#include "pserver/util/background.h"

tr_status tr_background_begin(tr_background *background, void *(*run)(void *self), void *self, const char *what)
{
    atomic_store(&background->has_ended, false);
    if (pthread_create(&background->thread, NULL, run, self))
        return tr_fail(TR_ENOMEM, "cannot start a thread to %s", what);
    background->is_to_be_joined = true;
    return TR_OK;
}

void tr_background_end(tr_background *background)
{
    atomic_store(&background->has_ended, true);
}

bool tr_background_is_under_way(const tr_background *background)
{
    return background->is_to_be_joined && !atomic_load(&background->has_ended);
}

void tr_background_join(tr_background *background)
{
    if (background->is_to_be_joined)
        pthread_join(background->thread, NULL);
    background->is_to_be_joined = false;
}
