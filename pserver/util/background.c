/* background.c - see background.h. */
#include "pserver/util/background.h"

#include "pserver/util/wake.h"

#include <string.h>

static void *run(void *payload)
{
    tr_background *background = payload;

    if (tr__schedule)
        tr__schedule->enter(background->turns_as);
    background->run(background->self);
    atomic_store(&background->has_ended, true);
    tr__bell_ring(&background->is_over);
    if (tr__schedule)
        tr__schedule->leave();
    return NULL;
}

tr_status tr_background_begin(tr_background *background, void *(*task)(void *self), void *self, const char *what)
{
    background->run = task;
    background->self = self;
    background->turns_as = tr__schedule ? tr__schedule->announce() : -1;
    atomic_store(&background->has_ended, false);
    atomic_store(&background->is_over, 0);
    const int error = pthread_create(&background->thread, NULL, run, background);
    if (error)
        return tr_fail(TR_ENOMEM, "cannot start a thread to %s: %s; ulimit -u or a cgroup's pids.max may be too small", what,
                       strerror(error));
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

/* A thread of a schedule ends only while others wait. */
void tr_background_join(tr_background *background)
{
    while (tr__schedule && background->is_to_be_joined && !atomic_load(&background->is_over))
        tr__bell_wait(&background->is_over, 0, 50000000);
    if (background->is_to_be_joined)
        pthread_join(background->thread, NULL);
    background->is_to_be_joined = false;
}
