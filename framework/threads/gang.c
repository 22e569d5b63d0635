/* gang.c - see gang.h. */
#include "framework/threads/gang.h"

#include <pthread.h>
#include <signal.h>

#include "framework/threads/precision.h"

enum { MAX_SLICES = 256 };

/* The orders for the threads of one such call. */
typedef struct company {
    pthread_mutex_t lock;
    pthread_cond_t  told;
    enum { WAIT, RUN, GO } word;
    tr_slice_fn     fn;
    void           *payload;
    tr_precision    precision;
} company;

typedef struct member {
    company  *of;
    int64_t   slice;
    pthread_t thread;
} member;

static void *run_member(void *payload)
{
    const member *m = payload;
    company      *of = m->of;

    pthread_mutex_lock(&of->lock);
    while (of->word == WAIT)
        pthread_cond_wait(&of->told, &of->lock);
    const bool runs = of->word == RUN;
    pthread_mutex_unlock(&of->lock);
    tr__slice_enter(true);
    if (runs) {
        tr__precision_enter(of->precision);
        of->fn(of->payload, m->slice);
    }
    return NULL;
}

static int start_members(member *members, company *of, int count)
{
    sigset_t all, old;
    int      started = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (; started < count; started++) {
        members[started] = (member){.of = of, .slice = started + 1};
        if (pthread_create(&members[started].thread, NULL, run_member, &members[started]) != 0)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return started;
}

/* No thread begins before all are there: one that is missing would be waited for in vain. */
static bool run_with_own_threads(int slices, tr_slice_fn fn, void *payload)
{
    company    of = {.lock = PTHREAD_MUTEX_INITIALIZER, .told = PTHREAD_COND_INITIALIZER, .word = WAIT, .fn = fn, .payload = payload,
                     .precision = tr__precision_now()};
    member     members[MAX_SLICES];
    const int  started = slices <= MAX_SLICES ? start_members(members, &of, slices - 1) : 0;
    const bool complete = started == slices - 1;

    pthread_mutex_lock(&of.lock);
    of.word = complete ? RUN : GO;
    pthread_cond_broadcast(&of.told);
    pthread_mutex_unlock(&of.lock);
    if (complete) {
        const bool was_inside = tr__slice_enter(true);
        fn(payload, 0);
        tr__slice_enter(was_inside);
    }
    for (int i = 0; i < started; i++)
        pthread_join(members[i].thread, NULL);
    return complete;
}

bool tr_parallel_gang(int slices, tr_slice_fn fn, void *payload)
{
    if (slices <= 1) {
        tr_parallel(slices, fn, payload);
        return true;
    }
    return tr__pool_run_gang(slices, fn, payload) || run_with_own_threads(slices, fn, payload);
}
